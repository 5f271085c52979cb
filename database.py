"""How this service reads and writes its database, SQLite or Postgres.

Only this module opens connections. They are in autocommit, so a reader never waits for a writer and
never holds a snapshot; only `transaction()` sets another level.
"""

import logging
import os
import select
import sqlite3
import threading
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, TypeVar, cast

from flask import Flask, has_request_context
from sqlalchemy import URL, Connection, CursorResult, Delete, Select, Table, Update, event, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Dialect, ExceptionContext
from sqlalchemy.exc import DBAPIError, IntegrityError, InvalidatePoolError, TimeoutError
from sqlalchemy.orm import InstrumentedAttribute, scoped_session
from sqlalchemy.pool import PoolProxiedConnection, QueuePool
from sqlalchemy.sql.dml import ReturningUpdate

import database_check
from config import ConfigError
from core import turns
from extensions import db

T = TypeVar("T")
_log = logging.getLogger("accounts")
_Convert = Callable[[Any], Any]
MIGRATIONS = Path(__file__).parent / "migrations"
# The newest revision, by the name of its file: a worker need not import Alembic to know it.
SCHEMA_REVISION = max(path.name for path in MIGRATIONS.glob("versions/*.py"))[:4]
# The schema of the first release. The lower numbers are of databases that were made before it.
FIRST_REVISION = "0014"
# Connections of one process. Requests hold one for milliseconds.
POOL_SIZE = 8
# Seconds that a request waits for a free connection, and for Postgres to accept one (psycopg's
# minimum, for each IP of the server).
POOL_WAIT = 1
CONNECT_WAIT = 2
# Milliseconds after which Postgres ends a wait for a lock, and a statement. Seconds after which a
# request ends a statement itself, because the server is silent.
LOCK_WAIT = 1000
STATEMENT_WAIT = 1500
SILENCE_WAIT = 1.8
# Seconds that a writer waits for writers of its process, and then again for other processes.
SQLITE_WAIT = 10

# Set on each new connection to Postgres, whatever the database and the role have. A start-up
# parameter would set the limits too, but poolers refuse those that they do not know.
_NEEDED = {"client_encoding": "UTF8", "datestyle": "ISO"}
_LIMITS = {"lock_timeout": LOCK_WAIT, "statement_timeout": STATEMENT_WAIT}

# psycopg's classes for an unreachable database, and for a standby, which refuses writes.
_UNAVAILABLE = {"psycopg.OperationalError", "psycopg.errors.ReadOnlySqlTransaction"}
_LEVELS = {"sqlite": "SERIALIZABLE", "postgresql": "READ COMMITTED"}  # of a transaction
_SNAPSHOTS = {"sqlite": "BEGIN", "postgresql": "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"}

_TOO_OLD = (
    "This database was made before the first release, and no migration leads on from it. Run "
    "`flask users dump --with-hashes > accounts.jsonl` with the code that made it, and with this "
    "code and a new database `flask users import --allow-admins accounts.jsonl`."
)

# The session holds no objects that a bulk statement could change.
_BULK = {"synchronize_session": False}
# Writers of one process wait here, because some starve when SQLite lets them wait for its lock.
_sqlite_writers = threading.Lock()


class WriteQueueFull(Exception):
    """The other SQLite writers of this process took too long."""


class _Pool(QueuePool):
    def connect(self) -> PoolProxiedConnection:
        # It may wait for a connection that comes back, for the server, or for another thread that
        # connects for the first time.
        with nullcontext() if self.checkedin() else turns.waiting():
            return super().connect()


def engine_options(url: URL) -> dict[str, object]:
    options: dict[str, object] = {
        "poolclass": _Pool,
        "isolation_level": "AUTOCOMMIT",
        "skip_autocommit_rollback": True,
        "pool_size": POOL_SIZE,
        "max_overflow": 0,
        "pool_timeout": POOL_WAIT,
        # Errors are logged, and the parameters are e-mail addresses and password hashes.
        "hide_parameters": True,
    }
    if url.get_backend_name() == "sqlite":
        return {**options, "connect_args": {"timeout": SQLITE_WAIT}}
    connect_args = {
        "application_name": "accounts",
        "connect_timeout": CONNECT_WAIT,
        # Keep-alives notice within seconds, not after two hours, that the host is gone.
        "tcp_user_timeout": CONNECT_WAIT * 1000,
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 2,
    }
    # No connection comes back in a transaction: SQLAlchemy ends its own, DriverStatement has none.
    pool = {"pool_reset_on_return": None, "paramstyle": "format"}
    ours = {name: value for name, value in connect_args.items() if name not in url.query}
    return {**options, **pool, "connect_args": ours}


def init_app(app: Flask, url: URL) -> None:
    """Bind `db` to the application and set up its engine. Opens no connection.

    Raises ConfigError.
    """
    if url.get_backend_name() == "sqlite":
        database_check.refuse_old_sqlite()
    app.config["SQLALCHEMY_DATABASE_URI"] = url
    app.config["SQLALCHEMY_ENGINE_OPTIONS"] = engine_options(url)
    db.init_app(app)
    with app.app_context():
        engine = db.engine
    if engine.dialect.name == "sqlite":
        event.listen(engine, "do_connect", _prepare_file)
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_to_write)
    else:
        event.listen(engine, "do_connect", _connector(url, engine.dialect.loaded_dbapi))
        event.listen(engine, "handle_error", _leave_standby)
        event.listen(engine, "checkout", _refuse_dead)


def _prepare_file(dialect: Dialect, _record: Any, arguments: Any, _options: Any) -> None:
    path = arguments[0]
    if not os.path.exists(path):
        # Only the owner may read it. SQLite gives its other files the same mode.
        with suppress(OSError):  # SQLite fails next, with an error that callers expect
            Path(path).touch(mode=0o600)
    # SQLite would open a write-protected file read-only, and this process could not write to it
    # on any connection, even after the protection is gone.
    elif not os.access(path, os.W_OK):
        raise dialect.loaded_dbapi.OperationalError("the database's file is write-protected")


def _prepare_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    for pragma in ("journal_mode=WAL", "foreign_keys=ON", "synchronous=FULL"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_to_write(connection: Connection) -> None:
    # A transaction that reads first and takes the lock later would fail if another one wrote in
    # between (SQLITE_BUSY_SNAPSHOT). In autocommit, for which this is called too, no level is set.
    if "isolation_level" in connection.get_execution_options():
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def _connector(url: URL, driver: Any) -> Callable[..., object]:
    """Return how to connect to Postgres."""
    given = str(url.query.get("options", "")).replace("-", "_")
    settings = _NEEDED | {name: wait for name, wait in _LIMITS.items() if name not in given}
    calls = (f"set_config('{name}', '{value}', false)" for name, value in settings.items())
    on_connect = f"SELECT pg_backend_pid(), {', '.join(calls)}"

    # A working server ends long waits by itself (`_LIMITS`); this is for one that is frozen.
    class TimedConnection(driver.Connection):  # type: ignore[misc]
        def wait(self, generator: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
            if not has_request_context():  # migrations and commands may take longer
                return super().wait(generator, interval, timeout)
            try:
                with turns.waiting(usually_short=True):
                    return super().wait(generator, interval, timeout or SILENCE_WAIT)
            except driver.OperationalError as error:
                if error.sqlstate is None:  # no response yet
                    self.close()  # or a late one would be read as that of the next statement
                raise

    def connect(_dialect: Any, _record: Any, arguments: Any, options: Any) -> object:
        connection = TimedConnection.connect(*arguments, autocommit=True, **options)
        # One cursor for all queries: a new one would look up again how to read each column.
        connection.execute = connection.cursor().execute
        try:
            process, *_ = connection.execute(on_connect).fetchone()
        except driver.Error:
            connection.close()  # the pool opens another, and there must be no more than its size
            raise
        if process != connection.info.backend_pid:  # a pooler such as PgBouncer made up the latter
            # Each transaction may run on another server connection, which lacks what was prepared.
            connection.prepare_threshold = None
        return connection

    return connect


def _leave_standby(context: ExceptionContext) -> None:
    # After a failover, the next connection may reach the server that takes writes.
    if type(context.original_exception).__name__ == "ReadOnlySqlTransaction":
        context.is_disconnect = True


def _refuse_dead(connection: Any, record: Any, _proxy: object) -> None:
    """Drop the pool's connections if the server has closed this one, before a request uses it.

    The socket of an idle connection is readable only then (that of a new one also after its TLS
    handshake). `pool_pre_ping` would cost a round trip.
    """
    poll = record.info.get("poll")
    if poll is None:
        poll = record.info["poll"] = select.poll()
        poll.register(connection.fileno(), select.POLLIN)
    elif poll.poll(0):
        raise InvalidatePoolError


def reading() -> AbstractContextManager[Connection]:
    """Lend a connection for single SELECTs, outside any transaction."""
    return db.engine.connect()


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


class DriverStatement:
    """A statement for at most one row, executed by the driver in a fraction of SQLAlchemy's time.

    One that writes needs `writing()` around it, and commits by itself.
    """

    def __init__(self, statement: Select[Any] | ReturningUpdate[Any]) -> None:
        self.statement = statement
        self._compiled: dict[str, tuple[str, _Convert, _Convert]] = {}

    def one_or_none(self, **parameters: object) -> Any | None:
        """Return the row, or None. Raises SQLAlchemy's errors, or the driver's from connecting."""
        engine = db.engine
        dialect = engine.dialect
        sql, values_of, row_of = self._compiled.get(dialect.name) or self._compile(dialect)
        values = values_of(parameters)
        pooled = engine.pool.connect()
        driver: Any = pooled.dbapi_connection
        try:
            found = driver.execute(sql, values).fetchall()
        except dialect.loaded_dbapi.Error:
            # SQLAlchemy gets the same error, and knows whether the pool's connections are dead.
            with Connection(engine, pooled) as connection:
                found = connection.exec_driver_sql(sql, values).all()
        else:
            pooled.close()
        return row_of(found[0]) if found else None

    def _compile(self, dialect: Dialect) -> tuple[str, _Convert, _Convert]:
        compiled: Any = self.statement.compile(dialect=dialect)
        binds = [
            (name, compiled.binds[name].type.dialect_impl(dialect).bind_processor(dialect))
            for name in compiled.positiontup
        ]
        columns = self.statement.exported_columns
        row = namedtuple("row", [column.key for column in columns])  # type: ignore[misc]
        conversions = [
            (place, convert)
            for place, column in enumerate(columns)
            if (convert := column.type.dialect_impl(dialect).result_processor(dialect, None))
        ]

        def values_of(parameters: Any) -> Any:
            return tuple(
                [
                    convert(parameters[name]) if convert else parameters[name]
                    for name, convert in binds
                ]
            )

        def row_of(found: Any) -> Any:
            values = list(found)
            for place, convert in conversions:
                values[place] = convert(values[place])
            return tuple.__new__(row, values)

        self._compiled[dialect.name] = str(compiled), values_of, row_of
        return self._compiled[dialect.name]


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


def change(statement: Update | Delete) -> int:
    """Run a statement in the open transaction; return how many rows it changed."""
    result = db.session.execute(statement, execution_options=_BULK)
    return cast("CursorResult[Any]", result).rowcount


def change_one(statement: Update | Delete) -> Any:
    """Run a statement with RETURNING in the open transaction; return its row, or None."""
    return db.session.execute(statement, execution_options=_BULK).one_or_none()


def insert_into(table: Table) -> sqlite.Insert | postgresql.Insert:
    """Return an INSERT that can say what to do where the row's key exists (ON CONFLICT)."""
    on_sqlite = db.engine.dialect.name == "sqlite"
    return sqlite.insert(table) if on_sqlite else postgresql.insert(table)


@contextmanager
def writing() -> Iterator[None]:
    """Wait until no other thread of this process writes to SQLite."""
    if db.engine.dialect.name != "sqlite":
        yield
        return
    # A writer waits for those of other processes and for the disk. So it works without a turn,
    # beside one thread that has it.
    with turns.waiting():
        if not _sqlite_writers.acquire(timeout=SQLITE_WAIT):
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


def lacks_parent(error: IntegrityError) -> bool:
    """Return whether a row was refused because the row that a foreign key names is not there."""
    name = getattr(error.orig, "sqlite_errorname", type(error.orig).__name__)
    return name in ("SQLITE_CONSTRAINT_FOREIGNKEY", "ForeignKeyViolation")


def is_unavailable(error: BaseException) -> bool:
    """Return whether the database cannot be used now. A mistake in our SQL is something else."""
    if isinstance(error, WriteQueueFull | TimeoutError | database_check.UnfitDatabase):
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


def schema_revision() -> str:
    """Return the revision of the database's schema; empty if it was never migrated.

    Raises UnfitDatabase if it cannot be ours.
    """
    return _look(database_check.revision)


def written_revision() -> str:
    """Return the revision that stands in a database of ours, by one query."""
    with reading() as connection:
        return connection.scalar(text("SELECT version_num FROM alembic_version")) or ""


def schema_is_ready() -> bool:
    """Return whether the database has the schema of this code, or a newer one, which works too.

    Raises UnfitDatabase if it cannot be used.
    """
    is_ready = schema_revision() >= SCHEMA_REVISION  # the revisions are numbers of four digits
    if is_ready:
        _look(database_check.refuse_unusable)
    return is_ready


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
        schema_is_ready()
    except DBAPIError as error:
        _log.warning("the database is unavailable: %s", database_check.reason(error))
    finally:
        db.engine.dispose()  # workers must not inherit a connection


def upgrade() -> None:
    """Bring the schema up to date. Raises ConfigError, and SQLAlchemy's and Alembic's errors."""
    if "" < schema_revision() < FIRST_REVISION:
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
