"""What SQLite and Postgres need: options, events and time limits of their connections.

A working Postgres ends a long wait by itself (`_LIMITS`). One that is frozen says nothing: then
a thread of ours shuts the connection, and the request that waits fails.
"""

import os
import select
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

from flask import Flask, has_request_context
from sqlalchemy import URL, Connection, Engine, event
from sqlalchemy.engine import Dialect, ExceptionContext
from sqlalchemy.exc import InvalidatePoolError
from sqlalchemy.pool import QueuePool

import database_check
from core import turns
from extensions import db

# Connections of one process. Requests hold one for milliseconds.
POOL_SIZE = 8
# Seconds that a request waits for a free connection, and for Postgres to accept one (psycopg's
# minimum, for each IP of the server).
POOL_WAIT = 1
CONNECT_WAIT = 2
# Milliseconds after which Postgres ends a wait for a lock, and a statement.
LOCK_WAIT = 1000
STATEMENT_WAIT = 1500
# Seconds after which a request takes Postgres for frozen, and between two looks for such a wait.
SILENCE_WAIT = 1.8
SILENCE_STEP = 0.2
# Seconds that a writer waits for writers of its process, and then again for other processes.
SQLITE_WAIT = 10

# Set on each new connection to Postgres, whatever the database and the role have. A start-up
# parameter would set the limits too, but poolers refuse those that they do not know.
_NEEDED = {"client_encoding": "UTF8", "datestyle": "ISO"}
_LIMITS = {"lock_timeout": LOCK_WAIT, "statement_timeout": STATEMENT_WAIT}


def options(url: URL, pool_wait: float) -> dict[str, object]:
    """Return the arguments of SQLAlchemy's `create_engine`."""
    arguments: dict[str, object] = {
        "poolclass": QueuePool,
        "isolation_level": "AUTOCOMMIT",
        "skip_autocommit_rollback": True,
        "pool_size": POOL_SIZE,
        "max_overflow": 0,
        "pool_timeout": pool_wait,
        # Errors are logged, and the parameters are e-mail addresses and password hashes.
        "hide_parameters": True,
    }
    if url.get_backend_name() == "sqlite":
        return {**arguments, "connect_args": {"timeout": SQLITE_WAIT}}
    usual: dict[str, object] = {
        "application_name": "accounts",
        "connect_timeout": CONNECT_WAIT,
        # Keep-alives notice within seconds, not after two hours, that the host is gone.
        "tcp_user_timeout": CONNECT_WAIT * 1000,
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 2,
        "autocommit": True,
    }
    arguments["connect_args"] = {name: usual[name] for name in usual if name not in url.query}
    # No connection comes back in a transaction: SQLAlchemy ends its own, DriverStatement has none.
    return {**arguments, "pool_reset_on_return": None, "paramstyle": "format"}


def init_app(app: Flask, url: URL, pool_wait: float = POOL_WAIT) -> None:
    """Bind `db` to the application and set up its engine. Opens no connection.

    Raises ConfigError.
    """
    if url.get_backend_name() == "sqlite":
        database_check.refuse_old_sqlite()
    app.config["SQLALCHEMY_DATABASE_URI"] = url
    app.config["SQLALCHEMY_ENGINE_OPTIONS"] = options(url, pool_wait)
    db.init_app(app)
    with app.app_context():
        engine = db.engine
    if engine.dialect.name == "sqlite":
        event.listen(engine, "do_connect", _prepare_file)
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_to_write)
        return
    event.listen(engine, "do_connect", _connector(url))
    event.listen(engine, "checkout", _refuse_dead)
    event.listen(engine, "handle_error", _leave_standby)
    for name in ("execute", "executemany"):
        event.listen(engine, f"do_{name}", partial(_run_in_time, name))
    for name in ("commit", "rollback"):
        event.listen(engine, name, partial(_end_by_statement, name))


def lending(engine: Engine) -> AbstractContextManager[None]:
    """Give the turn away meanwhile, unless a connection is free.

    It may take long until one comes back, until the server accepts one, or until another thread
    has connected for the first time.
    """
    pool: Any = engine.pool
    return nullcontext() if pool.checkedin() else turns.waiting()


# SQLite


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


# Postgres


def _connector(url: URL) -> Callable[..., object]:
    """Return how to connect to Postgres."""
    given = str(url.query.get("options", "")).replace("-", "_")
    settings = _NEEDED | {name: wait for name, wait in _LIMITS.items() if name not in given}
    calls = (f"set_config('{name}', '{value}', false)" for name, value in settings.items())
    on_connect = f"SELECT pg_backend_pid(), {', '.join(calls)}"

    def connect(dialect: Dialect, _record: Any, arguments: Any, options: Any) -> object:
        connection: Any = dialect.loaded_dbapi.connect(*arguments, **options)
        try:
            with in_time(connection):
                process, *_ = connection.execute(on_connect).fetchone()
        except dialect.loaded_dbapi.Error:
            connection.close()  # the pool opens another, and there must be no more than its size
            raise
        if process != connection.info.backend_pid:  # a pooler such as PgBouncer made up the latter
            # Each transaction may run on another server connection, which lacks what was prepared.
            connection.prepare_threshold = None
        return connection

    return connect


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


def _leave_standby(context: ExceptionContext) -> None:
    # After a failover, the next connection may reach the server that takes writes.
    if type(context.original_exception).__name__ == "ReadOnlySqlTransaction":
        context.is_disconnect = True


def _run_in_time(name: str, cursor: Any, statement: str, parameters: Any, _context: object) -> bool:
    """Execute with a time limit, in SQLAlchemy's place."""
    with in_time(cursor.connection):
        getattr(cursor, name)(statement, parameters)
    return True  # it is done


def _end_by_statement(name: str, connection: Connection) -> None:
    """End a transaction with a statement, which has a time limit like the others; psycopg then
    finds no transaction to end.
    """
    if not connection.invalidated:
        driver: Any = connection.connection.dbapi_connection
        if driver.info.transaction_status.name in ("INTRANS", "INERROR"):
            connection.exec_driver_sql(name.upper())


def in_time(connection: Any) -> AbstractContextManager[None]:
    """Wait for Postgres on a connection of the driver, without the turn and not for ever.

    Migrations and commands may take longer. SQLite answers at once.
    """
    if isinstance(connection, sqlite3.Connection) or not has_request_context():
        return nullcontext()
    return _waiting(connection)


@contextmanager
def _waiting(connection: Any) -> Iterator[None]:
    with turns.waiting(usually_short=True):
        with _watch:
            if _watchman.ident is None:  # not earlier, in the process that forks the workers
                _watchman.start()
            _waits[connection] = time.monotonic(), connection.fileno()
        try:
            yield
        finally:
            with _watch:
                del _waits[connection]


def _end_silent_waits() -> None:
    while True:
        time.sleep(SILENCE_STEP)
        with _watch:  # so that none is over meanwhile, and its file another one's
            for begin, file in _waits.values():
                if time.monotonic() - begin > SILENCE_WAIT:
                    with suppress(OSError), socket.socket(fileno=os.dup(file)) as same:
                        same.shutdown(socket.SHUT_RDWR)


# When each connection began to wait, and its file.
_waits: dict[Any, tuple[float, int]] = {}
_watch = threading.Lock()
_watchman = threading.Thread(target=_end_silent_waits, name="silence", daemon=True)
