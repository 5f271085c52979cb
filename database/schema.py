"""The schema of the database: which revision it has, and how it gets the newest."""

from typing import Any

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from config import ROOT, ConfigError
from database import is_unavailable, reading

MIGRATIONS = ROOT / "migrations"
# The newest revision, by the name of its file: a worker need not import Alembic to know it.
NEWEST = max(path.name for path in MIGRATIONS.glob("versions/*.py"))[:4]
# The schema of the first release. The lower numbers are of databases that were made before it.
OLDEST = "0014"

_TOO_OLD = (
    "This database was made before the first release, and no migration leads on from it. Run "
    "`flask users dump --with-hashes > accounts.jsonl` with the code that made it, and with this "
    "code and a new database `flask users import --allow-admins accounts.jsonl`."
)


def revision() -> str:
    """Return the revision of the database's schema; empty if it was never migrated."""
    try:
        with reading() as connection:
            return connection.scalar(text("SELECT version_num FROM alembic_version")) or ""
    except DBAPIError as error:
        if is_unavailable(error):
            raise
        return ""  # no such table


def is_ready() -> bool:
    """Return whether the database has the schema of this code, or a newer one, which works too."""
    return revision() >= NEWEST  # the revisions are numbers of four digits


def upgrade() -> None:
    """Bring the schema up to date. Raises ConfigError, and SQLAlchemy's and Alembic's errors."""
    if "" < revision() < OLDEST:
        raise ConfigError(_TOO_OLD)
    run_alembic("upgrade", "head")


def run_alembic(name: str, *arguments: str, **options: Any) -> None:
    """Run one of Alembic's commands on the database of the application."""
    # Late, because Alembic takes 230 ms and 10 MB, and most processes never need it.
    from alembic import command, config  # noqa: PLC0415

    settings = config.Config()
    settings.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    settings.set_main_option("file_template", "%%(rev)s_%%(slug)s")
    getattr(command, name)(settings, *arguments, **options)
