"""The doors to the database, and what happens when it is slow, busy or gone."""

import os
import signal
import socket
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext
from functools import partial
from pathlib import Path

import psycopg
import pytest
from endpoints import API
from helpers import (
    SECRET,
    Log,
    failure,
    login,
    on_both,
    race,
    refresh,
    register,
    rows,
    soon,
    success,
    verify,
)
from sqlalchemy import bindparam, event, make_url, select, text, update
from sqlalchemy.exc import DBAPIError, IntegrityError

import database
from app import create_app
from config import Settings
from core import clock
from database import afterwards, change, engines, last, reading, transaction
from database.driver import DriverStatement
from extensions import db
from models import Course, DeniedSession, User
from services import accounts, learning

pytestmark = on_both

WRITERS = 8
ROUNDS = 10
PATIENCE = 20  # seconds; only a hang takes so long


def engine_of(app):
    with app.app_context():
        return db.engine


@pytest.fixture
def on_sqlite(database_url):
    if database_url.get_backend_name() != "sqlite":
        pytest.skip("this is about SQLite")
    return Path(str(database_url.database))


@pytest.fixture
def on_postgres(database_url):
    """The address of the same database, for psycopg itself."""
    if database_url.get_backend_name() != "postgresql":
        pytest.skip("this is about Postgres")
    return database_url.set(drivername="postgresql").render_as_string(hide_password=False)


@contextmanager
def writer(path):
    """Hold SQLite's write lock, as another process would."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield


# Reading


def test_reader_does_not_wait_for_a_writer(on_sqlite, client, auth):
    with writer(on_sqlite):
        success(verify(client, auth))
        success(client.get("/api/auth/sessions", headers=auth.headers))


def test_reading_holds_no_transaction(app, make_user):
    user = make_user()
    name = select(User.first_name).where(User.id == user.id)
    with app.app_context(), reading() as connection:
        assert connection.scalar(name) == "First"
        driver = connection.connection.driver_connection
        if isinstance(driver, sqlite3.Connection):
            assert not driver.in_transaction
        else:
            assert driver.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        # No snapshot either: what others commit meanwhile is seen.
        with transaction() as session:
            session.execute(update(User).values(first_name="Second"))
        assert connection.scalar(name) == "Second"


def test_sqlite_is_durable_and_keeps_foreign_keys_on_each_connection(on_sqlite, app):
    engine = engine_of(app)
    connections = [engine.connect() for _ in range(engines.POOL_SIZE)]
    try:
        for connection in connections:
            found = {
                name: connection.connection.driver_connection.execute(f"PRAGMA {name}").fetchone()
                for name in ("journal_mode", "foreign_keys", "synchronous", "busy_timeout")
            }
            assert found == {
                "journal_mode": ("wal",),
                "foreign_keys": (1,),
                "synchronous": (2,),  # FULL
                "busy_timeout": (engines.SQLITE_WAIT * 1000,),
            }
    finally:
        for connection in connections:
            connection.close()


# Changing


@pytest.mark.parametrize("queue", ["one process", "many processes"])
def test_parallel_transactions_lose_no_update(app, make_user, monkeypatch, queue):
    user = make_user()
    if queue == "many processes":  # which do not share the queue of this one
        monkeypatch.setattr(database, "writing", nullcontext)

    def add(_):
        for _ in range(ROUNDS):
            with app.app_context(), transaction() as session:
                query = select(User.password_version).where(User.id == user.id)
                found = session.execute(query.with_for_update()).scalar_one()
                assert change(update(User).values(password_version=found + 1)) == 1

    race(add, WRITERS)
    with app.app_context(), reading() as connection:
        assert connection.scalar(select(User.password_version)) == 1 + WRITERS * ROUNDS


def fail_after_a_change():
    with transaction() as session:
        session.add(DeniedSession(session_id="s", expires_at=clock.utcnow()))
        session.flush()
        raise KeyError


@pytest.mark.asvs("2.3.3", "2.3.4")
def test_failed_transaction_leaves_nothing_behind(app):
    with app.app_context(), pytest.raises(KeyError):
        fail_after_a_change()
    assert rows(app, DeniedSession) == []


def test_transaction_begins_only_with_an_unused_session(app):
    with app.app_context():
        with pytest.raises(RuntimeError, match="in use"), transaction():
            fail_after_a_change()
        # After a read outside of any transaction it would run in autocommit.
        db.session.scalars(select(User.id)).all()
        with pytest.raises(RuntimeError, match="in use"):
            fail_after_a_change()
        db.session.rollback()
    assert rows(app, DeniedSession) == []


def test_what_comes_at_the_end_of_a_transaction_is_said_within_one(app):
    """Or an event would wait for a transaction that nobody opens, and be lost without a word."""
    with app.app_context():
        with transaction():
            afterwards(list)
        for say in (partial(afterwards, list), partial(last, list, ["id"])):
            with pytest.raises(KeyError):
                say()


def test_error_of_the_database_repeats_no_parameters(app, make_user):
    taken, user = make_user("first").email, make_user("second")
    values = {"first_name": "Unmistakable", "email": taken}
    with app.app_context(), pytest.raises(IntegrityError) as caught, transaction():
        change(update(User).where(User.id == user.id).values(values))
    assert "Unmistakable" not in str(caught.value)


# A database that is slow or busy


@pytest.mark.parametrize("busy", ["in this process", "in another process"])
def test_locked_database_is_unavailable_for_writers_and_serves_again(
    on_sqlite, make_app, monkeypatch, busy
):
    monkeypatch.setattr(engines, "SQLITE_WAIT", 0.05)
    client = make_app(new=True).test_client()
    with database._sqlite_writers if busy == "in this process" else writer(on_sqlite):
        answer = register(client)
        failure(answer, 503, "unavailable")
        assert int(answer.headers["Retry-After"]) > 0
    success(register(client), 201)


def test_write_protected_file_is_unavailable_until_it_takes_writes(
    on_sqlite, make_app, monkeypatch
):
    client = make_app().test_client()
    with monkeypatch.context() as disk:
        disk.setattr("os.access", lambda *_: False)  # chmod would not hold root
        failure(client.get("/readyz"), 503, "unavailable")
        failure(register(client), 503, "unavailable")
    success(register(client), 201)


# Connections


def test_no_request_keeps_its_connection(app, client, make_user, log_in, admin, monkeypatch):
    pool = engine_of(app).pool
    for endpoint in sorted(API, key=lambda endpoint: endpoint.name == "auth.logout"):
        for headers in ({}, admin.headers):
            endpoint.open(client, headers=headers)
            assert pool.checkedout() == 0, endpoint
    failure(client.get("/api/auth/verify", headers=admin.headers), 401, "token_revoked")
    success(refresh(client, log_in(make_user())))
    success(client.get("/readyz"))

    def fail(**_values):
        db.session.execute(select(User.id))
        raise RuntimeError

    monkeypatch.setattr(accounts, "add", fail)
    failure(register(client), 500, "internal_error")
    assert pool.checkedout() == 0


@pytest.fixture
def other_connections(on_postgres):
    """End all other connections to the database, as its restart would; wait until they are."""
    others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    with psycopg.connect(on_postgres, autocommit=True) as connection:

        def end():
            connection.execute(f"SELECT pg_terminate_backend(pid) {others}")
            soon(lambda: not connection.execute(f"SELECT 1 {others}").fetchone())

        yield end


def test_connections_that_died_in_the_pool_are_not_used(app, client, auth, other_connections):
    engine = engine_of(app)
    for connection in [engine.connect() for _ in range(engines.POOL_SIZE)]:
        connection.close()
    other_connections()
    for _ in range(engines.POOL_SIZE + 1):
        success(verify(client, auth))
    other_connections()
    success(register(client), 201)


@pytest.mark.databases("postgres")
def test_dead_connections_cost_the_guard_one_answer_and_not_one_each(
    make_app, auth, other_connections
):
    app = make_app()
    client, engine = app.test_client(), engine_of(app)
    for connection in [engine.connect() for _ in range(engines.POOL_SIZE)]:
        connection.close()
    event.remove(engine, "checkout", engines._refuse_dead)  # as if they died after the look
    other_connections()
    failure(verify(client, auth), 503, "unavailable")
    for _ in range(engines.POOL_SIZE):
        success(verify(client, auth))


def test_connection_that_dies_in_use_is_unavailable_once(app, client, make_user, other_connections):
    user = make_user()
    deaths = [None]

    def die(_connection, _cursor, sql, *_more):
        if sql.startswith("UPDATE users") and deaths:
            deaths.pop()
            other_connections()

    event.listen(engine_of(app), "before_cursor_execute", die)
    failure(login(client, user), 503, "unavailable")
    success(login(client, user))
    assert engine_of(app).pool.checkedout() == 0


def test_statement_that_a_working_database_ended_is_in_the_log(make_app, make_user, on_postgres):
    client, user, log = make_app(log_format="json").test_client(), make_user(), Log()
    with psycopg.connect(on_postgres) as other:
        other.execute("SELECT 1 FROM users FOR UPDATE")
        failure(login(client, user), 503, "unavailable")
    (line,) = (line for line in log.records() if line["level"] == "ERROR")
    assert "lock timeout" in line["message"]
    assert "in finish\n" in line["traceback"]
    assert "OperationalError: UPDATE users SET" in line["traceback"]
    assert user.id not in str(line)


def test_database_that_takes_no_writes_is_unavailable_until_it_does(client, make_user, on_postgres):
    user = make_user()
    success(login(client, user))
    with psycopg.connect(on_postgres, autocommit=True) as other:
        name = other.info.dbname
        other.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'accounts' AND datname = current_database()"
        )
        try:
            failure(login(client, user), 503, "unavailable")
        finally:
            other.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
    success(login(client, user))


def test_server_that_accepts_and_stays_silent_is_unavailable():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = make_url(f"postgresql+psycopg://user:secret@127.0.0.1:{silent.getsockname()[1]}/none")
        app = create_app(Settings(database_url=url, secret_key=SECRET))
        with ThreadPoolExecutor(engines.POOL_SIZE + 1) as threads:
            calls = [
                threads.submit(app.test_client().get, "/readyz")
                for _ in range(engines.POOL_SIZE + 1)
            ]
            # It takes three; psycopg would wait for 130.
            soon(lambda: all(call.done() for call in calls), patience=30)
    for call in calls:
        failure(call.result(), 503, "unavailable")


@pytest.fixture
def freeze(on_postgres):
    """Freeze what serves the connections that are there, as the machine of the database would."""
    frozen = set()

    def thaw():
        for process in frozen:
            os.kill(process, signal.SIGCONT)

    in_the_end = threading.Timer(PATIENCE, thaw)  # so that a wait without an end fails the test
    query = "SELECT pid FROM pg_stat_activity WHERE application_name = 'accounts'"
    with psycopg.connect(on_postgres, autocommit=True) as other:

        def freeze():
            for (process,) in other.execute(query):
                os.kill(process, signal.SIGSTOP)
                frozen.add(process)
            in_the_end.start()

        yield freeze
    in_the_end.cancel()
    thaw()


def fail(_session):
    raise KeyError


@pytest.mark.parametrize(
    "last_act",
    [
        pytest.param(lambda session: session.execute(select(User.id)), id="a statement"),
        pytest.param(
            lambda session: session.execute(text("UPDATE users SET bio = :bio"), [{"bio": ""}] * 2),
            id="many statements",
        ),
        pytest.param(lambda _: None, id="the commit"),
        pytest.param(fail, id="the rollback"),
    ],
)
@pytest.mark.databases("postgres")
def test_frozen_server_is_unavailable_until_it_goes_on(make_app, freeze, monkeypatch, last_act):
    monkeypatch.setattr(engines, "SILENCE_WAIT", 0.2)

    def act():
        with transaction() as session:
            session.execute(update(User).values(bio="New"))
            freeze()
            last_act(session)

    with make_app(new=True).test_request_context():
        with pytest.raises(DBAPIError) as caught:
            act()
        assert database.is_unavailable(caught.value)
        with reading() as connection:
            assert connection.scalar(text("SELECT 1"))


@pytest.mark.databases("postgres")
def test_guard_gives_a_frozen_server_up(client, auth, freeze, monkeypatch):
    success(verify(client, auth))
    monkeypatch.setattr(engines, "SILENCE_WAIT", 0.2)
    freeze()
    failure(verify(client, auth), 503, "unavailable")
    success(verify(client, auth))


# Mistakes of our own


@pytest.mark.parametrize(
    "act",
    [
        lambda _: accounts.add(
            username="other", email="other@example.org", first_name="F", last_name="L", role="head"
        ),
        lambda user: learning.put(
            Course, user, {"id": "c", "name": "", "lessons": 3}, now=clock.utcnow()
        ),
    ],
)
def test_broken_constraint_that_nobody_expects_stays_a_mistake(app, make_user, act):
    user = make_user()
    with app.app_context(), pytest.raises(IntegrityError), transaction():
        act(user)


def test_mistake_in_our_own_sql_is_an_error_with_a_traceback(make_app, auth):
    app = make_app(log_format="json")
    with app.app_context(), transaction() as session:
        session.execute(text("ALTER TABLE denylist RENAME TO lost"))
    log = Log()
    try:
        response = app.test_client().get("/api/auth/verify", headers=auth.headers)
        failure(response, 500, "internal_error")
    finally:
        with app.app_context(), transaction() as session:
            session.execute(text("ALTER TABLE lost RENAME TO denylist"))
    (line,) = (line for line in log.records() if line["level"] == "ERROR")
    assert "in one_or_none" in line["traceback"]


def test_guards_row_is_the_one_that_sqlalchemy_reads(app, auth):
    query = select(User.__table__).where(User.id == bindparam("user_id"))
    with app.app_context():
        fast = DriverStatement(query).one_or_none(user_id=auth.user.id)
        with reading() as connection:
            slow = connection.execute(query, {"user_id": auth.user.id}).one()
        assert fast._asdict() == slow._asdict()
        assert [*map(type, fast)] == [*map(type, slow)]
        assert DriverStatement(query).one_or_none(user_id="nobody") is None
