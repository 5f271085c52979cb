"""How this service reads and writes its database, SQLite or Postgres.

Connections are lent here, and nowhere else. They are in autocommit, so a reader never waits for a
writer and never holds a snapshot; only `transaction()` sets another level. What each database needs
is in `engines.py`, the schema in `schema.py`, and a faster way to read one row in `driver.py`.
"""

import logging
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import Any, TypeVar, cast

import orjson
from sqlalchemy import (
    JSON,
    ColumnElement,
    Connection,
    CursorResult,
    Delete,
    Executable,
    Insert,
    Table,
    Text,
    Update,
    func,
    literal,
    literal_column,
    select,
    text,
)
from sqlalchemy import cast as cast_to
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError, IntegrityError, TimeoutError
from sqlalchemy.orm import InstrumentedAttribute, scoped_session

from core import turns
from database import engines
from database_check import UnfitDatabase
from extensions import db

T = TypeVar("T")
# psycopg's classes for an unreachable database, and for a standby, which refuses writes.
_UNAVAILABLE = {"psycopg.OperationalError", "psycopg.errors.ReadOnlySqlTransaction"}
_LEVELS = {"sqlite": "SERIALIZABLE", "postgresql": "READ COMMITTED"}  # of a transaction
_SNAPSHOTS = {"sqlite": "BEGIN", "postgresql": "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"}

# The session holds no objects that a bulk statement could change.
_BULK = {"synchronize_session": False}
# Writers of one process wait here, because some starve when SQLite lets them wait for its lock.
_sqlite_writers = threading.Lock()


class WriteQueueFull(Exception):
    """The other SQLite writers of this process took too long."""


def reading() -> AbstractContextManager[Connection]:
    """Lend a connection for single SELECTs, outside any transaction."""
    engine = db.engine
    with engines.lending(engine):
        return engine.connect()


def read_all(query: Executable, **parameters: object) -> Sequence[Any]:
    """Return all rows of a SELECT, outside any transaction."""
    with reading() as connection:
        return connection.execute(query, parameters).all()


def read_one(query: Executable, **parameters: object) -> Any:
    """Return the only row of a SELECT, outside any transaction, or None."""
    with reading() as connection:
        return connection.execute(query, parameters).one_or_none()


def read_value(query: Executable) -> Any:
    """Return the first value of a SELECT, outside any transaction, or None."""
    with reading() as connection:
        return connection.scalar(query)


@contextmanager
def snapshot() -> Iterator[Connection]:
    """Lend a connection that sees the database as it is now, for as long as it takes.

    It holds up no writer and sees nothing of what writers do meanwhile.
    """
    with reading() as connection:
        connection.detach()  # it is closed at the end, also after a fault, and its transaction too
        connection.exec_driver_sql(_SNAPSHOTS[connection.dialect.name])
        lift_time_limits(connection)
        yield connection


def lift_time_limits(connection: Connection) -> None:
    """Let the statements of the open transaction take as long as they need."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SET LOCAL lock_timeout = 0"))
        connection.execute(text("SET LOCAL statement_timeout = 0"))


def last(act: Callable[[set[str]], None], ids: Iterable[str]) -> None:
    """Do this right before the commit of the open transaction, once, with all ids given for it."""
    db.session.info[last].setdefault(act, set()).update(ids)


def afterwards(act: Callable[[], object]) -> None:
    """Do this after the commit of the open transaction; it must not fail."""
    db.session.info[afterwards].append(act)


@contextmanager
def transaction() -> Iterator[scoped_session[Any]]:
    """Run one use case: commit at the end, roll back on an exception.

    A service may say what comes `last` before the commit, and what comes `afterwards`.

    Raises SQLAlchemy's errors or WriteQueueFull, and RuntimeError where `db.session` is in use.
    """
    if db.session().in_transaction():
        # That one's connection would be used as it is: in autocommit, a rollback undoes nothing.
        raise RuntimeError("db.session is in use: end its transaction, or read with reading()")
    at_the_end: dict[Callable[[set[str]], None], set[str]] = {}
    after_it: list[Callable[[], object]] = []
    with writing():
        db.session.info.update({last: at_the_end, afterwards: after_it})
        try:
            level = _LEVELS[db.engine.dialect.name]
            with engines.lending(db.engine):
                db.session.connection(execution_options={"isolation_level": level})
            yield db.session
            for act, ids in at_the_end.items():
                db.session.flush()  # or what the session still holds would be locked after this
                act(ids)
            db.session.commit()
        except BaseException:
            db.session.rollback()
            raise
        finally:
            db.session.info.clear()
    for done in after_it:
        done()


def patiently(act: Callable[[], T]) -> T:
    """Act in a transaction that waits for locks as long as it must; return what the act returns.

    After a deadlock it begins again.
    """
    while True:
        try:
            with transaction() as session:
                lift_time_limits(session.connection())
                return act()
        except (DBAPIError, WriteQueueFull) as error:
            if not _is_locked(error):
                raise


def _is_locked(error: BaseException) -> bool:
    """Return whether a transaction failed only because of what others had locked."""
    original: Any = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(original, sqlite3.OperationalError):
        # An error of our own, as for a file that is write-protected, has no code.
        return getattr(original, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY
    return isinstance(error, WriteQueueFull) or type(original).__name__ == "DeadlockDetected"


@contextmanager
def one_statement() -> Iterator[Connection]:
    """Lend a connection for one change; it saves the round trips of BEGIN and COMMIT."""
    with writing(), reading() as connection:
        yield connection


def change(statement: Insert | Update | Delete) -> int:
    """Run a statement in the open transaction; return how many rows it changed."""
    result = db.session.execute(statement, execution_options=_BULK)
    return cast("CursorResult[Any]", result).rowcount


def change_all(statement: Executable) -> Sequence[Any]:
    """Run a statement with RETURNING in the open transaction; return its first column."""
    return db.session.scalars(statement, execution_options=_BULK).all()


def change_one(statement: Update | Delete) -> Any:
    """Run a statement with RETURNING in the open transaction; return its row, or None."""
    return db.session.execute(statement, execution_options=_BULK).one_or_none()


def insert_into(table: Table) -> sqlite.Insert | postgresql.Insert:
    """Return an INSERT that can say what to do where the row's key exists (ON CONFLICT)."""
    on_sqlite = db.engine.dialect.name == "sqlite"
    return sqlite.insert(table) if on_sqlite else postgresql.insert(table)


def insert_rows(
    table: Table, rows: Sequence[Mapping[str, Any]]
) -> sqlite.Insert | postgresql.Insert:
    """Return the INSERT of these rows, which have the same columns, as `insert_into` does.

    They travel as JSON in one parameter, times as seconds since 1970: to bind thousands of values
    takes ten times as long.
    """
    names = [*rows[0]]
    given = orjson.dumps(rows, _seconds, orjson.OPT_PASSTHROUGH_DATETIME)
    text = literal(given.decode(), Text())
    if db.engine.dialect.name == "sqlite":
        each = func.json_each(text).table_valued("value")
        found = [func.json_extract(each.c.value, f"$.{name}") for name in names]
        # Without a WHERE, SQLite's parser takes ON CONFLICT for a part of the SELECT.
        return insert_into(table).from_select(names, select(*found).where(literal_column("1")))
    shape: ColumnElement[Any] = literal_column(f"NULL::{table.name}")
    each = func.json_populate_recordset(shape, cast_to(text, JSON())).table_valued(*names)
    return insert_into(table).from_select(names, select(*(each.c[name] for name in names)))


def _seconds(moment: datetime) -> int:
    return int(moment.timestamp())


@contextmanager
def writing() -> Iterator[None]:
    """Wait until no other thread of this process writes to SQLite."""
    if db.engine.dialect.name != "sqlite":
        yield
        return
    # A writer waits for those of other processes and for the disk. So it works without a turn,
    # beside one thread that has it.
    with turns.waiting():
        if not _sqlite_writers.acquire(timeout=engines.SQLITE_WAIT):
            raise WriteQueueFull("other writers of this process are too slow")
        try:
            yield
        finally:
            _sqlite_writers.release()


@contextmanager
def harmless(log: logging.Logger, problem: str) -> Iterator[None]:
    """Log an error of what may fail without changing the response."""
    try:
        yield
    except Exception as error:
        log.warning(problem, exc_info=not is_unavailable(error))


@contextmanager
def unique(
    refusal: Callable[[], Exception], *columns: InstrumentedAttribute[Any]
) -> Iterator[None]:
    """Raise `refusal()` if another row has the same value in one of these columns."""
    try:
        yield
    except IntegrityError as error:
        original: Any = error.orig
        names = [str(column.expression) for column in columns]  # such as "users.email"
        if isinstance(original, sqlite3.Error):
            taken = str(original).removeprefix("UNIQUE constraint failed: ") in names
        else:
            constraints = [f"uq_{name.replace('.', '_')}" for name in names]
            taken = original.diag.constraint_name in constraints
        if not taken:
            raise
        raise refusal() from None


def is_unavailable(error: BaseException) -> bool:
    """Return whether the database cannot be used now. A mistake in our SQL is something else."""
    if isinstance(error, WriteQueueFull | TimeoutError | UnfitDatabase):
        return True
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return True  # PgBouncer reports a lost server twice: psycopg raises InternalError for that
    original = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(original, sqlite3.Error):
        # A plain DatabaseError is a damaged file. SQLITE_ERROR is a mistake in a statement, such as
        # an unknown column.
        mistake = getattr(original, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR
        return type(original) in (sqlite3.OperationalError, sqlite3.DatabaseError) and not mistake
    names = {f"{cls.__module__}.{cls.__name__}" for cls in type(original).__mro__}
    return not names.isdisjoint(_UNAVAILABLE)


def ended_statement(error: BaseException) -> bool:
    """Return whether a working database has ended a statement, at a time limit or a deadlock."""
    return (
        isinstance(error, DBAPIError) and bool(error.statement) and not error.connection_invalidated
    )


def analyse(table: Table) -> None:
    """Tell Postgres how many rows a table has, in the open transaction. Until it knows, it would
    read all of them for each batch.
    """
    if db.engine.dialect.name == "postgresql":
        db.session.execute(text(f"ANALYZE {table.name}"))
