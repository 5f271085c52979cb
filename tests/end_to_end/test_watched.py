"""What other systems see of a busy service: a copy of its accounts, and its rate of requests."""

import json
import os
import random
import re
import socket
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from helpers import PASSWORD, SECRET, meanwhile
from real_service import PATIENCE, deployed, empty_database, python
from sqlalchemy import URL, make_url, select

from app import create_app
from config import ROOT, Settings
from database import reading, transaction
from extensions import db
from models import User
from services import accounts, service_keys, users

(LOOP,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/events.md").read_text(), re.M | re.S)
LINES = 5000


@pytest.fixture(params=["sqlite", "postgres"])
def busy(request, tmp_path, mail_server):
    """Two processes on a database of their own."""
    url = empty_database(request, tmp_path)
    with deployed(url, mail_server.port, tmp_path / "log") as service:
        yield service


@pytest.fixture
def app(busy):
    """A third process on that database: this one."""
    url = re.sub("^postgres:", "postgresql+psycopg:", busy.env["DATABASE_URL"])
    app = create_app(Settings(database_url=make_url(url), secret_key=SECRET))
    with app.app_context():
        yield app
        db.engine.dispose()


def test_reader_who_is_killed_at_random_has_a_whole_copy(busy, app, tmp_path):
    with transaction():
        scopes = ("users:read", "users:write")
        key = service_keys.create("reader and writer", scopes, expires_at=None)
        names = {"username": "slow", "first_name": "A", "last_name": "B"}
        slow = accounts.add(**names, email="slow@example.org")
    chance, made, on_sqlite = random.Random(), [], db.engine.dialect.name == "sqlite"
    file = tmp_path / "accounts.jsonl"
    form = {"firstName": "First", "lastName": "Last"}
    lines = ({**form, "email": f"line{number}@example.org"} for number in range(LINES))
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    def write():
        name = f"user{chance.getrandbits(60)}"
        path, person = "/api/auth/register", {**form, "username": name, "password": PASSWORD}
        answer = busy.call("POST", path, {**person, "email": f"{name}@example.org"})
        assert answer.status in (201, 503), answer.content
        if answer.status == 201:
            made.append(answer.data["userId"])
        some = f"/api/users/{chance.choice(made)}" if made else "/api/users"
        role = {"role": chance.choice(("student", "instructor"))}
        for method, body in (("PATCH", role), *([("DELETE", None)] * (chance.random() < 0.3))):
            assert busy.call(method, some, body, token=key).status in (200, 404, 503)

    def be_slow():
        with app.app_context(), transaction():
            users.update(slow.id, role="instructor")
            time.sleep(5 if on_sqlite else 20)  # on SQLite all writers wait for this one

    def read():
        environ = {"ACCOUNTS_URL": busy.url, "ACCOUNTS_KEY": key, "PATH": os.environ["PATH"]}
        return subprocess.Popen([sys.executable, "-c", LOOP], cwd=tmp_path, env=environ)

    load = python("-m", "flask", "users", "import", str(file), env=busy.env)
    end = time.monotonic() + 25
    with meanwhile([write] * 16), ThreadPoolExecutor(1) as thread:
        is_over = thread.submit(be_slow)
        # A slow machine goes on until enough was written beside the import.
        while time.monotonic() < end or (len(made) < 300 and time.monotonic() < end + 2 * PATIENCE):
            reader = read()
            time.sleep(chance.uniform(0.1, 1))
            reader.kill()
            assert reader.wait() in (0, -9)
        is_over.result()
    output, _ = load.communicate(timeout=4 * PATIENCE)
    assert (load.returncode, f"made: {LINES}\n" in output) == (0, True), output
    assert read().wait(4 * PATIENCE) == 0
    with closing(sqlite3.connect(tmp_path / "people.db")) as database:
        copy = dict(database.execute("SELECT id, role FROM people"))
    with reading() as connection:
        there = {user.id: user.role for user in connection.execute(select(User.id, User.role))}
    assert copy == there
    assert len(there) > LINES + 100


def test_gunicorn_counts_requests_for_statsd(tmp_path, mail_server):
    url = URL.create("sqlite", database=str(tmp_path / "service.db"))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as statsd:
        statsd.bind(("127.0.0.1", 0))
        statsd.settimeout(PATIENCE)
        options = {"GUNICORN_CMD_ARGS": "--statsd-host={}:{}".format(*statsd.getsockname())}
        with deployed(url, mail_server.port, tmp_path / "log", **options) as service:
            assert service.call("GET", "/api/auth/verify").status == 401
            seen = ""
            while "gunicorn.request.status.401:1|c" not in seen:
                seen += f"{statsd.recv(1500).decode()}\n"
    assert "gunicorn.requests:1|c" in seen
    assert re.search(r"^gunicorn\.request\.duration:[0-9.]+\|ms", seen, re.M)
