"""How this service speaks to its database: SQLite in one file, or Postgres.

Three doors, and nothing else opens a connection:

- `reading()` lends a connection for single SELECTs. It opens no transaction, so a reader never
  waits for a writer and never holds a snapshot.
- `transaction()` is one use case that changes something: it commits at its end, or rolls back.
- `one_statement()` lends a connection for a single statement that changes something by itself.

SQLite takes its write lock when a transaction begins (BEGIN IMMEDIATE). A transaction that begins
as a reader and writes later loses updates, or fails at once with SQLITE_BUSY_SNAPSHOT. Writers of
one process queue at a lock of their own; SQLite's own waiting is unfair, and some starve in it.
"""

import os
import select
import threading
import time
from collections import namedtuple
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, cast

from flask import Flask, current_app, has_request_context
from sqlalchemy import (
    URL,
    Connection,
    CursorResult,
    Delete,
    Dialect,
    Engine,
    Insert,
    Row,
    Select,
    Table,
    Update,
    event,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DBAPIError, InvalidatePoolError, TimeoutError
from sqlalchemy.orm import scoped_session

from extensions import db

# The newest revision in migrations/versions; a test compares the two. Written here so that a
# worker need not import Alembic to know whether its schema is current.
SCHEMA_REVISION = "0003"
MIGRATIONS = Path(__file__).parent / "migrations"
# Connections of one process. Requests hold one for milliseconds, never while hashing or mailing.
POOL_SIZE = 8
# Seconds that a request waits for a free connection, and that Postgres gets to accept one.
POOL_WAIT = 1
CONNECT_WAIT = 2
# Milliseconds that Postgres spends on a lock and on a statement, and seconds that a request then
# waits for a server that falls silent. Migrations take the time that they need.
LOCK_WAIT = 1000
STATEMENT_WAIT = 1500
SILENCE_WAIT = 1.8
# Seconds that a writer waits for the other writers of its process, and then for those of others,
# before the answer is 503.
SQLITE_WAIT = 10

# The exceptions for a database that is away or busy. psycopg has a class for each SQLSTATE: the
# last three are a standby that takes no writes, and a schema that is not migrated yet.
_AWAY = {
    "OperationalError",
    "InterfaceError",
    "ReadOnlySqlTransaction",
    "UndefinedTable",
    "UndefinedColumn",
}

_sqlite_writers = threading.Lock()


def _forget_writers() -> None:
    global _sqlite_writers
    _sqlite_writers = threading.Lock()


# A thread of the parent that held the lock does not exist in the child, and would never release it.
os.register_at_fork(after_in_child=_forget_writers)


class WriteQueueFull(Exception):
    """Another writer of this process held the database for too long."""


def engine_options(url: URL) -> dict[str, Any]:
    """Return the engine's options for a database of this kind."""
    options: dict[str, Any] = {
        "pool_size": POOL_SIZE,
        "max_overflow": 0,
        "pool_timeout": POOL_WAIT,
        # Errors are logged, and their parameters are e-mail addresses and password hashes.
        "hide_parameters": True,
    }
    if url.get_backend_name() == "sqlite":
        return {**options, "connect_args": {"timeout": SQLITE_WAIT}}
    # A host that has vanished is noticed by keep-alives within seconds, not after two hours.
    network = {
        "connect_timeout": CONNECT_WAIT,
        "tcp_user_timeout": CONNECT_WAIT * 1000,
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 2,
    }
    return {**options, "connect_args": {"application_name": "accounts", **network}}


def init_app(app: Flask) -> None:
    """Bind `db` to the application and teach its engine our transactions. Opens no connection."""
    db.init_app(app)
    with app.app_context():
        engine = db.engine
    if engine.dialect.name == "sqlite":
        event.listen(engine, "do_connect", _refuse_read_only)
        event.listen(engine, "connect", _prepare_sqlite)
    else:
        event.listen(engine, "do_connect", _Connector())
        event.listen(engine, "handle_error", _leave_standby)
        event.listen(engine, "checkin", _rest)
        event.listen(engine, "checkout", _refuse_dead)
    event.listen(engine, "begin", _begin)
    app.extensions["without_transaction"] = engine.execution_options(transaction=False)


def _refuse_read_only(dialect: Any, _record: Any, arguments: Any, _options: Any) -> None:
    """Open no file that takes no writes.

    SQLite would open it to read, and this process could then not write to it, on any connection,
    also when the disk takes writes again.
    """
    path = arguments[0]
    if os.path.exists(path) and not os.access(path, os.W_OK):
        raise dialect.loaded_dbapi.OperationalError("the database's file is write-protected")


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # pysqlite must not begin transactions of its own
    for pragma in ("journal_mode=WAL", "foreign_keys=ON", "synchronous=FULL"):
        connection.execute(f"PRAGMA {pragma}")


def _begin(connection: Connection) -> None:
    """Begin a transaction, where one is wanted; at rest, no connection is in one."""
    if not connection.get_execution_options().get("transaction", True):
        return
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    else:
        connection.connection.driver_connection.autocommit = False  # type: ignore[union-attr]


class _Connector:
    """Opens connections to Postgres on which a request does not wait for ever.

    The server gives up first: on a lock that somebody holds, and on a statement that takes too
    long. A server that is stopped or cut off gives up nothing; its silence is timed here.
    """

    def __init__(self) -> None:
        self._hopeless_until = 0.0

    def __call__(self, dialect: Any, _record: Any, arguments: Any, options: Any) -> Any:
        driver = dialect.loaded_dbapi  # psycopg, loaded only where it is used

        class Impatient(driver.Connection):  # type: ignore[misc,name-defined]
            @classmethod
            def _connect_gen(cls, *arguments: Any) -> Any:
                # psycopg gives each address of a server two seconds at least. Whoever calls waits
                # for all of them, and it looks in here ten times a second.
                steps = super()._connect_gen(*arguments)
                wanted = next(steps)
                while True:
                    ready = yield wanted
                    if has_request_context() and time.monotonic() - start > SILENCE_WAIT:
                        raise driver.errors.ConnectionTimeout("the server does not answer")
                    try:
                        wanted = steps.send(ready)
                    except StopIteration as end:
                        return end.value

            def rollback(self) -> None:
                # The pool rolls back whatever comes back to it; at rest, there is nothing.
                if not self.autocommit:
                    super().rollback()

            def wait(self, *arguments: Any, **options: Any) -> Any:
                if not has_request_context():
                    return super().wait(*arguments, **options)
                start = time.monotonic()
                try:
                    return super().wait(*arguments, **{"timeout": SILENCE_WAIT, **options})
                except driver.OperationalError:
                    self.close()  # what it says later would answer another question
                    note_silence(since=start, longest=SILENCE_WAIT)
                    raise

        def note_silence(since: float, longest: float) -> None:
            # Whoever waited for this place in the pool has waited enough.
            now = time.monotonic()
            if now - since >= longest:
                self._hopeless_until = now + CONNECT_WAIT / 2

        start = time.monotonic()
        if start < self._hopeless_until:
            raise driver.OperationalError("the server did not answer a moment ago")
        try:
            connection = Impatient.connect(*arguments, **options)
        except driver.OperationalError:
            note_silence(since=start, longest=CONNECT_WAIT / 2)
            raise
        connection.autocommit = True
        connection.execute(f"SET lock_timeout = {LOCK_WAIT}")
        connection.execute(f"SET statement_timeout = {STATEMENT_WAIT}")
        return connection


def _leave_standby(context: ExceptionContext) -> None:
    """Drop a connection to a server that takes no writes; the next one may reach one that does."""
    if type(context.original_exception).__name__ == "ReadOnlySqlTransaction":
        context.is_disconnect = True


def _rest(connection: Any, record: Any) -> None:
    record.info["used"] = True
    # Most calls only read. Psycopg takes microseconds for each switch, so those who write do it.
    if connection is not None and not connection.closed and not connection.autocommit:
        connection.autocommit = True


def _refuse_dead(connection: Any, record: Any, _proxy: Any) -> None:
    """Drop a pooled connection whose server has gone, before a request trips over it.

    An idle connection has nothing to say: when its socket is readable, the server has closed it.
    Asking the kernel costs microseconds; asking the server would cost a round trip each time.
    """
    if record.info.get("used"):
        poll = select.poll()
        poll.register(connection.fileno(), select.POLLIN)
        if poll.poll(0):
            raise InvalidatePoolError


def reading() -> AbstractContextManager[Connection]:
    """Lend a connection for single SELECTs, outside of any transaction."""
    return _without_transaction().connect()


def _without_transaction() -> Engine:
    return cast("Engine", current_app.extensions["without_transaction"])


class Prepared:
    """A SELECT of one row or none that is compiled once and handed to the driver itself.

    For the query that every guarded request makes: to execute it, SQLAlchemy takes four times as
    long as SQLite does. Its SQL, its pool, its types and its errors are what is used here too.
    """

    def __init__(self, statement: Select[Any]) -> None:
        self.statement = statement
        self._compiled: dict[str, tuple[str, list[str] | None, Callable[[Any], Any]]] = {}

    def one_or_none(self, **texts: str) -> Any:
        """Return the row with its columns as attributes, or None; parameters can only be texts.

        Raises SQLAlchemy's errors.
        """
        engine = _without_transaction()
        sql, order, row_of = self._compiled.get(engine.name) or self._compile(engine.dialect)
        driver_error = engine.dialect.loaded_dbapi.Error
        connection = None
        try:
            connection = engine.raw_connection()
            driver = cast("Any", connection.driver_connection)
            arguments = [texts[name] for name in order] if order else texts
            found = driver.execute(sql, arguments).fetchone()
        except driver_error as error:
            if connection and engine.dialect.is_disconnect(
                error, connection.driver_connection, None
            ):
                # As SQLAlchemy does it: the others in the pool are as old, and as dead.
                engine.pool._invalidate(connection, error)
            elif connection:
                connection.invalidate(error)
            raise DBAPIError.instance(
                sql, None, error, driver_error, hide_parameters=True
            ) from error
        finally:
            if connection:
                connection.close()
        return row_of(found) if found else None

    def _compile(self, dialect: Dialect) -> tuple[str, list[str] | None, Callable[[Any], Any]]:
        compiled = self.statement.compile(dialect=dialect)
        columns = self.statement.selected_columns
        row = namedtuple("row", [column.key for column in columns])  # type: ignore[misc]
        readers = [
            (place, read)
            for place, column in enumerate(columns)
            if (read := column.type.dialect_impl(dialect).result_processor(dialect, None))
        ]

        def row_of(found: Any) -> Any:
            values = list(found)
            for place, read in readers:
                values[place] = read(values[place])
            return row._make(values)

        order = cast("Any", compiled).positiontup
        self._compiled[dialect.name] = compiled.string, order, row_of
        return self._compiled[dialect.name]


@contextmanager
def transaction() -> Iterator[scoped_session[Any]]:
    """Run one use case: commit at the end, roll back on an exception.

    Raises WriteQueueFull, or SQLAlchemy's errors, when the database cannot do it in time.
    """
    with _turn_to_write():
        try:
            yield db.session
            db.session.commit()
        except BaseException:
            db.session.rollback()
            raise


@contextmanager
def one_statement() -> Iterator[Connection]:
    """Lend a connection for a statement that is a transaction of its own, and goes alone.

    It spares the two round trips that begin and end one, and needs no session.
    """
    with _turn_to_write(), _without_transaction().connect() as connection:
        yield connection


def change(statement: Update | Delete, **parameters: Any) -> int:
    """Run a statement in the open transaction; return how many rows it changed.

    Of many callers with the same condition, the database lets one change the row: the count tells
    each of them whether it was the one.
    """
    options = {"synchronize_session": False}
    result = db.session.execute(statement, parameters, execution_options=options)
    return cast("CursorResult[Any]", result).rowcount


def change_one(statement: Update | Delete) -> Row[Any] | None:
    """Run a statement with RETURNING in the open transaction; return its row, or None."""
    options = {"synchronize_session": False}
    result = db.session.execute(statement, execution_options=options)
    return cast("CursorResult[Any]", result).one_or_none()


def insert_into(table: Table) -> sqlite.Insert | postgresql.Insert:
    """Return an INSERT that can say what is to be done where the row's key is there already."""
    dialect = {"sqlite": sqlite, "postgresql": postgresql}[db.engine.dialect.name]
    statement: sqlite.Insert | postgresql.Insert = dialect.insert(table)
    return statement


def insert_new(table: Table) -> Insert:
    """Return an INSERT that does nothing where the row's key is there already.

    With RETURNING, of many callers with one key, the database gives one the row and the others
    none. A missing parent row is an IntegrityError all the same.
    """
    return insert_into(table).on_conflict_do_nothing()


def _turn_to_write() -> AbstractContextManager[None]:
    return _sqlite_write_queue() if db.engine.dialect.name == "sqlite" else nullcontext()


@contextmanager
def _sqlite_write_queue() -> Iterator[None]:
    writers = _sqlite_writers
    if not writers.acquire(timeout=SQLITE_WAIT):
        raise WriteQueueFull("other writers of this process are too slow")
    try:
        yield
    finally:
        writers.release()


def is_unavailable(error: BaseException) -> bool:
    """Whether this error says that the database is away, too busy, or not migrated yet."""
    if isinstance(error, WriteQueueFull | TimeoutError):
        return True
    if not isinstance(error, DBAPIError):
        return False
    kind = type(error.orig)
    # SQLite's bare DatabaseError is a file that is damaged, or no database at all.
    return kind.__name__ == "DatabaseError" or any(cls.__name__ in _AWAY for cls in kind.__mro__)


def schema_is_current() -> bool:
    """Whether the database's schema is the one that this code was written for."""
    with reading() as connection:
        found = connection.execute(text("SELECT version_num FROM alembic_version")).scalars()
        return found.all() == [SCHEMA_REVISION]


def enable_migrations(app: Flask) -> Any:
    """Register Flask-Migrate, for `flask db …` and for `upgrade`; return its Migrate object."""
    # The only import inside a function: Alembic takes 230 ms and 10 MB, and a process that
    # serves requests on a current schema never needs it.
    from flask_migrate import Migrate  # type: ignore[import-untyped]  # noqa: PLC0415

    return Migrate(app, db, directory=str(MIGRATIONS))


def upgrade(app: Flask) -> None:
    """Bring the schema up to date. Raises SQLAlchemy's and Alembic's errors."""
    from alembic import command  # noqa: PLC0415

    with app.app_context():
        command.upgrade(enable_migrations(app).get_config(), "head")
