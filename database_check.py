"""What the service needs of a database, looked at before it is trusted; and why one fails."""

import re
import sqlite3

from sqlalchemy import Connection, text
from sqlalchemy.exc import DataError, DBAPIError

from config import ConfigError
from extensions import db

# The tables that a name alone finds, and whether the role may read and write them.
_TABLES = {
    "sqlite": "SELECT name, 1 FROM sqlite_master WHERE type IN ('table', 'view')",
    "postgresql": """SELECT relname, (SELECT bool_and(has_table_privilege(oid, name))
            FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS name)
        FROM pg_class WHERE relkind IN ('r', 'p', 'v', 'm', 'f')
            AND relnamespace <> 'pg_catalog'::regnamespace AND pg_table_is_visible(oid)""",
}


class UnfitDatabase(ConfigError):
    """A database that answers, and that the service cannot work with: a sentence that says why."""


def refuse_old_sqlite(version: tuple[int, ...] = sqlite3.sqlite_version_info) -> None:
    if version < (3, 35):  # no RETURNING
        found = ".".join(map(str, version))
        raise UnfitDatabase(f"This Python has SQLite {found}, and 3.35 or newer is needed.")


def revision(connection: Connection) -> str:
    """Return the revision of the schema, empty where there is none yet. Raises UnfitDatabase."""
    if connection.dialect.name == "postgresql":
        encoding = connection.scalar(text("SHOW server_encoding"))
        if encoding != "UTF8":  # it cannot hold every name
            raise UnfitDatabase(f"The database has the encoding {encoding}, and UTF8 is needed.")
    tables, found = _tables(connection), []
    if "alembic_version" in tables:  # which every application that uses Alembic has
        found = [*map(str, connection.scalars(text("SELECT * FROM alembic_version")))]
    taken = sorted(tables.keys() & db.metadata.tables.keys())
    is_ours = "sessions" in taken and re.fullmatch("[0-9]{4}", "/".join(found))
    if (found or taken) and not is_ours:
        sign = f"revision {', '.join(found)}" if found else f"table {taken[0]}"
        raise UnfitDatabase(
            f"This database belongs to another application ({sign}). Give the service a database "
            "or a schema of its own."
        )
    return "".join(found)


def refuse_unusable(connection: Connection) -> None:
    """Raise UnfitDatabase if a table of this code is missing, or a right on one."""
    tables = _tables(connection)
    if missing := [name for name in db.metadata.tables if not tables.get(name)]:
        names = ", ".join(missing)
        raise UnfitDatabase(f"These tables are missing, or the right to read or write: {names}.")


def _tables(connection: Connection) -> dict[str, bool]:
    found = connection.execute(text(_TABLES[connection.dialect.name]))
    return {name: bool(is_usable) for name, is_usable in found}


def reason(error: BaseException) -> str:
    """Return the first line of what the driver says, which repeats no password and no row."""
    original = error.orig if isinstance(error, DBAPIError) else error
    first = (str(original).splitlines() or [type(original).__name__])[0]  # the next may have a row
    # A value of another type is repeated after a colon.
    return (first.partition(': "')[0] if isinstance(error, DataError) else first).rstrip(".")
