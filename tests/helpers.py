"""What the stories in this folder say again and again."""

import csv
import io
import json
import logging
import re
import struct
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from flask.testing import FlaskClient
from jinja2 import BytecodeCache
from PIL import Image
from sqlalchemy import event, insert, make_url, select, text, update
from werkzeug.exceptions import HTTPException

from core.reasons import WORDS
from database import reading, transaction
from database.driver import DriverStatement
from extensions import db
from models import User
from services import administration
from web.logs import StandardError
from web.openapi import possible_errors, successes

SECRET = "a key for the tests, so long that no forged algorithm warns about its length"
PASSWORD = "Tr4vel-Mug-Blue-42"
RACERS = 16
# For tests or modules where SQL, locks, constraints, collation or plans differ, or where a race is
# won in the database. All others run on SQLite.
on_both = pytest.mark.databases("sqlite", "postgres")
# For long tables of what Python decides: `make test-slow` runs them on Postgres too.
on_both_slowly = pytest.mark.databases("sqlite", pytest.param("postgres", marks=pytest.mark.slow))
on_postgres = pytest.mark.databases("postgres")
on_sqlite = pytest.mark.databases("sqlite")  # in a module that is on both
# Nothing listens there.
UNREACHABLE = make_url("postgresql+psycopg://user:secret@127.0.0.1:1/none")


class CompiledTemplates(BytecodeCache):
    """Compile each text once, not again for each application."""

    _found = {}

    def load_bytecode(self, bucket):
        bucket.code = self._found.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket):
        self._found[bucket.key, bucket.checksum] = bucket.code


COMPILED = CompiledTemplates()


class DeclaredClient(FlaskClient):
    """A client that fails the test when an endpoint answers what it does not declare."""

    def open(self, *arguments, **options):
        response = super().open(*arguments, **options)
        check_declared(self.application, response)
        return response


def check_declared(app, response):
    """Assert that the endpoint declares this status, and the code of an error."""
    request = response.request
    try:
        name, _ = app.create_url_adapter(request).match()
    except HTTPException:  # no endpoint has this URL and method
        return
    operation = getattr(app.view_functions[name], "operation", None)
    if operation is None or request.method in ("HEAD", "OPTIONS"):
        return
    if "//" in request.environ["PATH_INFO"]:  # unknown, and the adapter drops a slash
        return
    if response.status_code < 400:
        assert response.status_code in successes(operation), f"{name} {response.status}"
    else:
        code = response.get_json()["error"]["code"]
        assert code in {kind.code for kind in possible_errors(operation)}, f"{name} {code}"


def success(response, status=200):
    """Assert the shape of a success and return its data."""
    assert response.status_code == status, response.text
    _check_headers(response)
    content = response.get_json()
    assert content["success"] is True
    assert content.keys() <= {"success", "message", "data"}
    assert isinstance(content["data"], dict)
    assert isinstance(content.get("message", ""), str)
    return content["data"]


def failure(response, status, code):
    """Assert the shape of an error and return its fields."""
    assert response.status_code == status, response.text
    _check_headers(response)
    content = response.get_json()
    assert content.keys() == {"success", "message", "error"}
    assert content["success"] is False
    assert isinstance(content["message"], str)
    assert content["error"].keys() - {"fields", "reasons", "email"} == {"code"}
    assert content["error"]["code"] == code, response.text
    fields = content["error"].get("fields", {})
    check_reasons(fields, content["error"].get("reasons", {}))
    return fields


def check_reasons(fields, reasons):
    """Assert that there is a word beside each sentence."""
    assert fields.keys() == reasons.keys()
    for name, found in fields.items():
        if isinstance(found, dict):
            check_reasons(found, reasons[name])
        else:
            assert len(found) == len(reasons[name]), reasons
            assert {*reasons[name]} <= {*WORDS}, reasons


def words(response):
    """Return the reasons of an error that is about fields, as words."""
    failure(response, 400, response.get_json()["error"]["code"])
    return response.get_json()["error"]["reasons"]


def _check_headers(response):
    assert response.mimetype == "application/json"
    assert response.headers["Cache-Control"] == "no-store"
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["X-Request-ID"]


def registration(username="newcomer", **changes):
    """Return the body of a registration."""
    names = {"username": username, "firstName": "First", "lastName": "Last"}
    return {**names, "email": f"{username}@example.org", "password": PASSWORD, **changes}


def login(client, user, password="", **options):
    """Log in a user, who may be given by e-mail address alone."""
    body = {
        "email": getattr(user, "email", user),
        "password": password or getattr(user, "password", PASSWORD),
    }
    return client.post("/api/auth/login", json=body, **options)


def bearer(token):
    """Return the headers of a call with this access token, or with that of this session."""
    return {"Authorization": f"Bearer {getattr(token, 'access', token)}"}


def verify(client, token):
    return client.get("/api/auth/verify", headers=bearer(token))


def refresh(client, token):
    body = {"refreshToken": getattr(token, "refresh", token)}
    return client.post("/api/auth/refresh", json=body)


def assert_ended(client, session):
    """Assert that neither token of a session is accepted any more."""
    failure(verify(client, session), 401, "token_revoked")
    failure(refresh(client, session), 401, "token_revoked")


def rows(app, model, **columns):
    """Return the stored rows with these values, oldest first where they have a UUID."""
    with app.app_context(), reading() as connection:
        query = select(model.__table__).filter_by(**columns)
        return list(connection.execute(query.order_by(*model.__table__.primary_key)))


def stored(app, user=None, **columns):
    """Return the row of a user, or of the only user with these values, or None."""
    found = rows(app, User, **({"id": user.id} if user else columns))
    assert len(found) < 2
    return found[0] if found else None


def execute(app, statement):
    """Change rows past the services."""
    with app.app_context(), transaction() as session:
        session.execute(statement)


def set_user(app, user, **values):
    execute(app, update(User).where(User.id == user.id).values(**values))


# What an admin does to keep somebody out, change by change.
SHUTTING_OUT = (
    [{"is_active": False}],
    [{"is_active": False}, {"is_active": True}],
    [{"role": "instructor"}],
)


def alter(app, user, *changes):
    """Change an account as an admin does, one change after the other."""
    with app.app_context():
        for change in changes:
            with transaction():
                administration.alter(user.id, **change)


def soon(condition, patience=60):
    """Wait for something that another thread or process does; only a failure takes long."""
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.02)


def answer(status, **headers):
    """Return what answers a call of a browser in place of the service."""
    error = {"success": False, "message": "", "error": {"code": "too_many_requests"}}
    return lambda call: call.fulfill(status=status, headers=headers, json=error)


def lose(call):
    """Let the service do what a browser asks for, and lose its answer."""
    call.fetch()
    call.abort()


def waiting_for_locks():
    """Return how many statements wait for a lock, on Postgres."""
    with reading() as connection:
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        return connection.scalar(text(waiting))


def while_changing(app, user, values, act):
    """Do this while another transaction changes an account, as `while_doing` does."""
    change = update(User).where(User.id == user.id).values(**values)
    return while_doing(app, lambda: db.session.execute(change), act)


def while_doing(app, other, act):
    """Do this while the transaction of another act is open; it must wait for the commit.

    On Postgres only: SQLite has one writer at a time.
    """
    with ThreadPoolExecutor(1) as thread, app.app_context():
        with transaction():
            other()
            done = thread.submit(act)
            while not waiting_for_locks():
                assert not done.done(), "it did not wait"
        return done.result()


def race(act, count=RACERS):
    """Run `act(0)`, `act(1)`, … at the same moment in threads; return their results."""
    barrier = threading.Barrier(count)

    def run(number):
        barrier.wait()
        return act(number)

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(run, range(count)))


@contextmanager
def meanwhile(acts):
    """Do each of these again and again in a thread of its own; at the end raise what one raised."""
    over = threading.Event()

    def again(act):
        while not over.is_set():
            act()

    with ThreadPoolExecutor(len(acts)) as threads:
        running = [threads.submit(again, act) for act in acts]
        try:
            yield
        finally:
            over.set()
    for done in running:
        done.result()


def connections_held(app, monkeypatch, owner, *methods):
    """Return the list that will tell, at each call of these methods, how many connections to the
    database were held."""
    held = []
    with app.app_context():
        pool = db.engine.pool
    for name in methods:
        original = getattr(owner, name)

        def watch(*arguments, original=original):
            held.append(pool.checkedout())
            return original(*arguments)

        monkeypatch.setattr(owner, name, watch)
    return held


@contextmanager
def statements_of(app):
    """Lend the list of the SQL statements that the application sends meanwhile."""
    with app.app_context():
        engine = db.engine
    sent = []

    def note(_connection, _cursor, statement, *_more):
        sent.append(statement)

    # The guard's query and a refresh pass SQLAlchemy's events by.
    one_or_none = DriverStatement.one_or_none

    def note_passed(statement, **parameters):
        sent.append(str(statement.statement))
        return one_or_none(statement, **parameters)

    event.listen(engine, "before_cursor_execute", note)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(DriverStatement, "one_or_none", note_passed)
        yield sent
    event.remove(engine, "before_cursor_execute", note)


def crowd(app, number):
    """Add so many accounts, `user1` the oldest of them."""
    rows = []
    for count in range(1, number + 1):
        user = {
            "id": f"{count:08x}-0000-7000-8000-000000000000",
            "email": f"user{count}@example.org",
        }
        user |= {"username": f"user{count}", "username_key": f"user{count}"}
        rows.append({**user, "first_name": "First", "last_name": "Last", "password_hash": "none"})
    with app.app_context(), transaction() as session:
        session.execute(insert(User), rows)


def many_lessons(app):
    """Add 500 accounts with a course of nine lessons each."""
    crowd(app, 500)
    execute(app, text("INSERT INTO courses SELECT id, 'c', 'C', 9 FROM users"))
    lessons = "SELECT a.id, 'c', b.id, '', 1000, 5 FROM users a, (SELECT id FROM users LIMIT 9) b"
    execute(app, text(f"INSERT INTO lessons {lessons}"))
    execute(app, text("ANALYZE"))


def plan_of(app, act):
    """Do this; return how the database finds the rows of all statements that are sent for it."""
    sent = []

    def note(_connection, _cursor, statement, parameters, *_more):
        sent.append((statement, parameters))

    with app.app_context():
        engine = db.engine
    event.listen(engine, "before_cursor_execute", note)
    act()
    event.remove(engine, "before_cursor_execute", note)
    word = "EXPLAIN QUERY PLAN" if engine.name == "sqlite" else "EXPLAIN"
    with engine.connect() as connection:
        found = [connection.exec_driver_sql(f"{word} {sql}", given) for sql, given in sent]
        return "\n".join(row[-1] for rows in found for row in rows)


def token_in(mail):
    body = mail.get_body(("plain",))
    assert body is not None
    return body.get_content().partition("#token=")[2].split()[0]


class Log:
    """What the application wrote to its log since it was last asked."""

    def __init__(self):
        (handler,) = (h for h in logging.getLogger().handlers if h.get_name() == "accounts")
        assert isinstance(handler, StandardError)
        self._lines = []
        handler.write = self._lines.append

    def text(self):
        text = b"".join(self._lines).decode()
        self._lines.clear()
        return text

    def lines(self):
        text = self.text()
        assert text.endswith("\n") or not text
        return text.split("\n")[:-1]

    def records(self):
        return [json.loads(line) for line in self.lines()]

    def events(self):
        return [line for line in self.records() if line["logger"] == "accounts.security"]


NEW_PASSWORD = "Kettle-Purple-Rain-19"


def forgot(client, email):
    return client.post("/api/auth/forgot-password", json={"email": email})


def choose(client, token, password=NEW_PASSWORD):
    """Choose a password with the token of a link."""
    body = {"token": token, "newPassword": password}
    return client.post("/api/auth/reset-password", json=body)


def register(client, username="newcomer", **changes):
    return client.post("/api/auth/register", json=registration(username, **changes))


def change_password(client, session, current=PASSWORD, new=NEW_PASSWORD):
    body = {"currentPassword": current, "newPassword": new}
    return client.put("/api/users/password", json=body, headers=bearer(session))


def delete_account(client, session, **changes):
    body = {"password": PASSWORD, "confirmation": "DELETE_MY_ACCOUNT", **changes}
    return client.delete("/api/users/account", json=body, headers=bearer(session))


def saved(image, form="PNG", **options):
    """Return a picture as a file."""
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def picture(colour="red", size=(40, 30), form="PNG"):
    return saved(Image.new("RGB", size, colour), form)


def chunk(kind, data):
    """Return a piece of a PNG."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def segment(kind, data):
    """Return a piece of a JPEG."""
    return b"\xff" + bytes([kind]) + struct.pack(">H", len(data) + 2) + data


def picture_form(content, name="avatar", filename="me.png", content_type="image/png"):
    return {name: (io.BytesIO(content), filename, content_type)}


def table_in(download):
    """Return the cells of a CSV file; each must be quoted."""
    with open(download.path(), encoding="utf-8-sig", newline="") as file:
        text = file.read()
    assert re.fullmatch(r'("([^"]|"")*"(,|\r\n))+', text)
    return list(csv.reader(io.StringIO(text)))
