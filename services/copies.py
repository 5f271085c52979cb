"""Copies of the whole database: into another one, and into a file as a backup of SQLite."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from flask import Flask, current_app
from sqlalchemy import URL, Connection, Table, exists, func, insert, inspect, select, text
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError

import database
from core.files import new_file
from database import engines, reading, schema, snapshot, transaction
from database_check import reason
from extensions import db

_BATCH = 100  # rows that are in memory at once; each may hold a picture


class CopyError(Exception):
    """No copy was made. The text is a sentence for the operator."""


def copy_to(url: URL, progress: Callable[..., AbstractContextManager[Any]]) -> dict[str, int]:
    """Copy all rows into the empty database at `url`; return how many, for each table.

    Its schema is brought up first. All rows come in one transaction, so that a copy which breaks
    off leaves none. `progress(length=…)` gets their number and lends what has `update(number)`.
    Raises CopyError.
    """
    if schema.revision() != schema.NEWEST:
        raise CopyError("The schema of this database is not up to date. Run flask db upgrade.")
    # Something that `db` can be bound to. Relative paths of SQLite begin in the instance folder.
    target = Flask(
        "target", root_path=current_app.root_path, instance_path=current_app.instance_path
    )
    engines.init_app(target, url)
    with snapshot() as source, target.app_context():
        try:
            with reading() as connection:
                _refuse_rows(connection)  # before the schema changes
            if not schema.is_ready():
                schema.upgrade()
            with transaction() as session:
                return _copy_rows(source, session.connection(), progress)
        except Exception as error:
            if isinstance(error, DBAPIError) and error.statement:  # such as one without rights
                problem = "The target, or this database, does not allow it"
            elif isinstance(error, DBAPIError) or database.is_unavailable(error):
                problem = "The target cannot be reached or used"
            else:
                raise
            raise CopyError(f"{problem}: {reason(error)}. Nothing was copied.") from None
        finally:
            db.engine.dispose()


def _copy_rows(
    source: Connection, target: Connection, progress: Callable[..., AbstractContextManager[Any]]
) -> dict[str, int]:
    database.lift_time_limits(target)
    _refuse_rows(target)
    counts = _count(source)
    with progress(length=sum(counts.values())) as bar:
        for table in db.metadata.sorted_tables:  # those that others refer to come first
            with source.execute(select(table), execution_options={"yield_per": _BATCH}) as found:
                for batch in found.mappings().partitions():
                    _insert(target, table, [dict(row) for row in batch])
                    bar.update(len(batch))
            database.analyse(table)
    if _count(target) != counts:
        raise CopyError("The target has not kept all rows. Nothing was copied.")
    return counts


def _insert(target: Connection, table: Table, rows: list[dict[str, object]]) -> None:
    try:
        target.execute(insert(table), rows)
    except (IntegrityError, DataError) as error:  # such as a text that only SQLite let in
        raise CopyError(
            f"The target refuses a row of {table.name}: {reason(error)}. Nothing was copied."
        ) from None


def _count(connection: Connection) -> dict[str, int]:
    return {
        table.name: connection.scalar(select(func.count()).select_from(table)) or 0
        for table in db.metadata.sorted_tables
    }


def _refuse_rows(connection: Connection) -> None:
    present = inspect(connection).get_table_names()
    for table in db.metadata.sorted_tables:
        if table.name in present and connection.scalar(select(exists().select_from(table))):
            raise CopyError(
                f"The target is not empty, or it is this database itself: {table.name} has rows. "
                "Nothing was copied."
            )


def backup(path: Path) -> None:
    """Write the SQLite database as it is now to a new file that only its owner can read.

    Raises CopyError.
    """
    if db.engine.dialect.name != "sqlite":
        raise CopyError("This database is on Postgres. Back it up with pg_dump.")
    try:
        with new_file(path) as draft, reading() as connection:
            connection.execute(text("VACUUM INTO :file"), {"file": draft.name})
    except OSError as error:
        raise CopyError(f"{path} cannot be written: {error.strerror}.") from None
    except DBAPIError as error:
        raise CopyError(f"No backup was made: {reason(error)}.") from None
