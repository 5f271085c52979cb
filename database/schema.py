"""The schema of the database: which revision it has, and how it gets the newest."""

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

import database_check
from config import ROOT, ConfigError
from database import is_unavailable, read_value, reading
from extensions import db

T = TypeVar("T")
_log = logging.getLogger("accounts")

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
    """Return the revision of the database's schema; empty if it was never migrated.

    Raises UnfitDatabase if it cannot be ours.
    """
    return _look(database_check.revision)


def written_revision() -> str:
    """Return the revision that stands in a database of ours, by one query."""
    return read_value(text("SELECT version_num FROM alembic_version")) or ""


def is_ready() -> bool:
    """Return whether the database has the schema of this code, or a newer one, which works too.

    Raises UnfitDatabase if it cannot be used.
    """
    found = revision() >= NEWEST  # the revisions are numbers of four digits
    if found:
        _look(database_check.refuse_unusable)
    return found


def _look(act: Callable[[Connection], T]) -> T:
    try:
        with reading() as connection:
            return act(connection)
    except DBAPIError as error:
        if is_unavailable(error):
            raise
        problem = f"The database cannot be used: {database_check.reason(error)}."
        raise database_check.UnfitDatabase(problem) from None


def refuse_unfit() -> None:
    """Raise UnfitDatabase if the database answers and cannot be right.

    One that cannot be reached is a line in the log: a service starts, and recovers by itself.
    """
    try:
        is_ready()
    except DBAPIError as error:
        _log.warning("the database is unavailable: %s", database_check.reason(error))
    finally:
        db.engine.dispose()  # workers must not inherit a connection


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
