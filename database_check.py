"""What the service needs of a database, looked at before it is trusted; and why one fails."""

import re
import sqlite3

from sqlalchemy import Connection, text
from sqlalchemy.exc import DataError, DBAPIError

from config import ConfigError
from extensions import db

OLDEST_SQLITE = (3, 35, 0)  # the first one with RETURNING

# The tables that a name alone finds: name, whether it can be read, whether all rights are there.
_TABLES = {
    "sqlite": "SELECT name, 1, 1 FROM sqlite_master WHERE type IN ('table', 'view')",
    "postgresql": """SELECT relname, has_table_privilege(oid, 'SELECT'),
        (SELECT bool_and(has_table_privilege(oid, name))
            FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS name)
        FROM pg_class WHERE relkind IN ('r', 'p', 'v', 'm', 'f')
            AND relnamespace <> 'pg_catalog'::regnamespace AND pg_table_is_visible(oid)""",
}
_OWN = "Give the service a database or a schema of its own."


class UnfitDatabase(ConfigError):
    """A database that answers, and that the service cannot work with: a sentence that says why."""


def refuse_old_sqlite(version: tuple[int, ...] = sqlite3.sqlite_version_info) -> None:
    if version < OLDEST_SQLITE:
        raise UnfitDatabase(
            f"SQLite {'.'.join(map(str, version))} is too old: the service needs 3.35 or newer. "
            "Use a Python that comes with one, or Postgres."
        )


def revision(connection: Connection) -> str:
    """Return the revision of the schema, empty where there is none yet. Raises UnfitDatabase."""
    if connection.dialect.name == "postgresql":
        encoding = connection.scalar(text("SHOW server_encoding"))
        if encoding != "UTF8":
            raise UnfitDatabase(
                f"The database has the encoding {encoding}, which cannot hold every name. Make one "
                "with TEMPLATE template0 ENCODING 'UTF8'."
            )
    readable = {name: can_read for name, can_read, _ in _tables(connection)}
    found = []
    if "alembic_version" in readable:
        if not readable["alembic_version"]:
            raise UnfitDatabase("The database's role has no right to read alembic_version.")
        found = [*connection.scalars(text("SELECT * FROM alembic_version"))]
    if not found and (taken := sorted(readable.keys() & db.metadata.tables.keys())):
        raise UnfitDatabase(f"Another application has the table {taken[0]} here. {_OWN}")
    is_ours = "sessions" in readable and re.fullmatch("[0-9]{4}", "/".join(map(str, found)))
    if found and not is_ours:
        raise UnfitDatabase(
            f"This database belongs to another application: its alembic_version holds "
            f"{', '.join(map(str, found))}. {_OWN}"
        )
    return found[0] if found else ""


def refuse_unusable(connection: Connection) -> None:
    """Raise UnfitDatabase if a table of this code is missing, or lacks a right."""
    usable = {name: can_all for name, _, can_all in _tables(connection)}
    for name in db.metadata.tables:
        if name not in usable:
            raise UnfitDatabase(f"The table {name} is missing.")
        if not usable[name]:
            raise UnfitDatabase(
                f"The database's role has not all rights on the table {name}: it needs SELECT, "
                "INSERT, UPDATE and DELETE."
            )


def _tables(connection: Connection) -> list[tuple[str, bool, bool]]:
    found = connection.execute(text(_TABLES[connection.dialect.name]))
    return [(name, bool(can_read), bool(can_all)) for name, can_read, can_all in found]


def reason(error: BaseException) -> str:
    """Return the first line of what the driver says, which repeats no password and no row."""
    original = error.orig if isinstance(error, DBAPIError) else error
    first = next(iter(str(original).splitlines()), type(original).__name__)  # the next has the row
    # Of a value that has the wrong form, its type repeats what it is.
    return (first.partition(': "')[0] if isinstance(error, DataError) else first).rstrip(".")
