"""Processes that start all at once."""

import sqlite3
from contextlib import closing, contextmanager

import pytest
from helpers import soon
from real_service import environment, finish, free_port, production, python
from sqlalchemy import create_engine, text

from database import schema

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
    assert found == [schema.NEWEST]


def test_processes_that_start_at_once_share_one_fresh_database(tmp_path):
    folder = tmp_path / "instance"
    env = environment(LOG_LEVEL="WARNING")
    starts = [python("-c", START, str(folder), env=env) for _ in range(AT_ONCE)]
    for process in starts:
        assert process.stdout.readline() == "imported\n"
    for process in starts:
        process.stdin.write("\n")
        process.stdin.flush()
    assert finish(starts) == [(0, "")] * AT_ONCE
    with closing(sqlite3.connect(folder / "accounts.db")) as connection:
        found = connection.execute("SELECT version_num FROM alembic_version").fetchall()
    assert found == [(schema.NEWEST,)]
    secret = folder / "secret_key"
    assert secret.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in folder.iterdir()) == ["accounts.db", "lock", "secret_key"]


@pytest.mark.parametrize("command", ["gunicorn", "flask db upgrade"])
def test_start_on_a_database_of_before_the_first_release_ends_in_one_line(tree, command):
    (tree / "instance").mkdir()
    with closing(sqlite3.connect(tree / "instance/accounts.db")) as connection:
        connection.execute("CREATE TABLE alembic_version AS SELECT '0013' AS version_num")
        connection.execute("CREATE TABLE sessions (id TEXT)")  # by which it is one of ours
    env = environment(WEB_CONCURRENCY="1", HOST="127.0.0.1", PORT=str(free_port()))
    ((status, output),) = finish([python("-m", *command.split(), env=env, cwd=tree)])
    assert status > 0
    assert output.count("`flask users dump --with-hashes > accounts.jsonl`") == 1
    assert "Traceback" not in output
