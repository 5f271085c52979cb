"""Processes that are killed, and that start all at once."""

import re
import sqlite3
from contextlib import closing, contextmanager

import pytest
from helpers import soon
from real_service import (
    MailServer,
    Service,
    deployed,
    environment,
    finish,
    free_port,
    production,
    python,
    registration,
)
from sqlalchemy import URL, create_engine, text

import database

AT_ONCE = 6
UPGRADES = 4
# They wait for a word when all is imported, so that they really start at once.
START = """
import sys
from app import create_app
print("imported", flush=True)
sys.stdin.readline()
create_app(instance_path=sys.argv[1])
"""


def wait_until_no_mail_is_being_tried(path):
    with closing(sqlite3.connect(path)) as connection:
        soon(lambda: not connection.execute("SELECT 1 FROM outbox WHERE claimed").fetchone())


def test_mails_outlive_the_service_and_an_outage_of_the_mail_server(tmp_path):
    mail_server = MailServer()  # not started, so nobody listens there
    url = URL.create("sqlite", database=str(tmp_path / "service.db"))
    with deployed(url, mail_server.port, tmp_path / "service.log") as service:
        addresses = set()
        for number in range(5):
            user = registration(f"user{number}")
            assert service.call("POST", "/api/auth/register", user).status == 201
            addresses.add(user["email"])
        # One that is being tried at the moment of the crash would wait for its lease to end.
        wait_until_no_mail_is_being_tried(tmp_path / "service.db")
        service.kill()

        mail_server.start()
        try:
            service.start()
            mail_server.wait_for_addresses(addresses)
        finally:
            mail_server.stop()
        assert len(mail_server.mails) == len(addresses)


@contextmanager
def gate(engine, count):
    """On Postgres, hold migrations up at their first table until so many wait, then let all go."""
    if engine.dialect.name == "sqlite":
        yield
        return
    waiting = text(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    with engine.connect() as rival, engine.connect() as watcher:
        # What it sees of the others stays the same in a transaction.
        watcher.execution_options(isolation_level="AUTOCOMMIT")
        rival.execute(text("CREATE TABLE alembic_version (version_num text)"))
        yield
        soon(lambda: watcher.execute(waiting).scalar_one() >= count)
        rival.rollback()


def test_upgrades_at_once_all_succeed(new_database):
    env = production(new_database, free_port(), free_port())
    engine = create_engine(new_database)
    with gate(engine, UPGRADES):
        upgrades = [python("-m", "flask", "db", "upgrade", env=env) for _ in range(UPGRADES)]
    for status, output in finish(upgrades):
        assert status == 0, output
        assert "Traceback" not in output
    with engine.connect() as connection:
        found = connection.scalars(text("SELECT version_num FROM alembic_version")).all()
    engine.dispose()
    assert found == [database.SCHEMA_REVISION]


def schema_of(folder):
    with closing(sqlite3.connect(folder / "accounts.db")) as connection:
        (revision,) = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    return str(revision)


def test_processes_that_start_at_once_share_one_fresh_database(tmp_path):
    folder = tmp_path / "instance"
    env = environment(LOG_LEVEL="WARNING")
    starts = [python("-c", START, str(folder), env=env) for _ in range(AT_ONCE)]
    for process in starts:
        assert process.stdout
        assert process.stdout.readline() == "imported\n"
    for process in starts:
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()
    assert finish(starts) == [(0, "")] * AT_ONCE
    assert schema_of(folder) == database.SCHEMA_REVISION
    secret = folder / "secret_key"
    assert secret.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in folder.iterdir()) == ["accounts.db", "lock", "secret_key"]


@pytest.fixture
def newcomer(tree, tmp_path):
    """The service with nothing set but the number of its workers; not started yet."""
    env = environment(WEB_CONCURRENCY="4")
    service = Service(env, free_port(), tmp_path / "service.log", tree)
    yield service
    service.stop()


def test_the_embedded_default_starts_with_nothing_and_keeps_its_secret(newcomer, tree):
    newcomer.start()
    newcomer.workers(4)
    user = registration("newcomer")
    assert newcomer.call("POST", "/api/auth/register", user).status == 201
    login = {"email": user["email"], "password": user["password"]}
    token = newcomer.call("POST", "/api/auth/login", login).data["accessToken"]
    folder = tree / "instance"
    secret = (folder / "secret_key").read_text()
    assert (folder / "secret_key").stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    assert schema_of(folder) == database.SCHEMA_REVISION

    newcomer.stop()
    newcomer.start()
    for worker in newcomer.workers(4):
        with newcomer.answered_by(worker):
            assert newcomer.call("GET", "/api/auth/verify", token=token).status == 200
    assert (folder / "secret_key").read_text() == secret
    assert not re.search("Traceback|ERROR|CRITICAL", newcomer.log())
    assert newcomer.log().count("Register an account:") == 2
