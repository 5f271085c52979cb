"""Changes of accounts: who goes by them has a copy, and nothing is ever skipped."""

import itertools
import os
import re
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import pytest
from helpers import (
    SECRET,
    alter,
    bearer,
    crowd,
    execute,
    failure,
    on_both,
    on_postgres,
    on_sqlite,
    register,
    rows,
    soon,
    statements_of,
    success,
    waiting_for_locks,
    words,
)
from real_service import ROOT, serving
from sqlalchemy import delete, event, update

import errors
from core.clock import utcnow
from database import transaction
from extensions import db
from models import Achievement, LastChange, User
from services import accounts, administration, users
from services.transfer import Import

pytestmark = on_both

DOCS = (ROOT / "docs/events.md").read_text()


class Reader:
    """A system with a copy of the accounts: their ids and roles."""

    def __init__(self, client, token, limit=100):
        self._client, self._headers, self._limit = client, bearer(token), limit
        self.copy, self.place = {}, None

    def get(self, **query):
        return self._client.get("/api/users/changes", query_string=query, headers=self._headers)

    def page(self):
        """Read a page and go on from there; return its ids."""
        after = {"after": self.place} if self.place else {}
        data = success(self.get(limit=self._limit, **after))
        for change in data["changes"]:
            assert (change["account"] is None) != (change["deletedAt"] is None)
            self.copy.pop(change["id"], None)
            if change["account"]:
                self.copy[change["account"]["id"]] = change["account"]["role"]
        self.place = data["next"]
        return [change["id"] for change in data["changes"]]

    def follow(self):
        """Read until nothing is left; return the ids in the order in which they came."""
        return [*itertools.chain.from_iterable(iter(self.page, []))]


@pytest.fixture
def reader(client, make_key):
    return lambda limit=100: Reader(client, make_key("users:read"), limit)


def but_admins(app):
    return {user.id: user.role for user in rows(app, User) if user.role != "admin"}


def numbers(app):
    return [row.number for row in rows(app, LastChange)]


def test_first_copy_and_every_later_one_are_the_same_loop(app, client, admin, reader):
    crowd(app, 5)  # without a number, like the admin
    first, second, third, *_ = sorted(but_admins(app))
    copies = [*map(reader, (1, 2, 100)), Reader(client, admin, 2)]
    assert [len(copy.follow()) for copy in copies] == [5, 5, 5, 6]
    new = success(register(client), 201)["userId"]

    def patch(user_id, **body):
        success(client.patch(f"/api/users/{user_id}", json=body, headers=admin.headers))

    patch(first, role="instructor")
    success(client.delete(f"/api/users/{second}", headers=admin.headers))
    patch(third, externalId="7")
    patch(first, isActive=False)
    same = {"firstName": admin.first_name, "bio": "no change"}
    success(client.put("/api/users/profile", json=same, headers=admin.headers))
    for copy in copies:
        assert copy.follow() == [new, second, third, first]
        assert {user_id: copy.copy[user_id] for user_id in but_admins(app)} == but_admins(app)
    (listed,) = success(client.get("/api/users?search=newcomer", headers=admin.headers))["users"]
    for way_in in ("hasPassword", "provider", "hindrances"):  # no change of these is one
        del listed[way_in]
    with statements_of(app) as sent:
        found = success(Reader(client, admin).get())["changes"]
    assert {"id": new, "account": listed, "deletedAt": None} in found
    assert len(sent) == 3  # with the guard's; the page is one


@on_postgres  # SQLite runs one transaction at a time
def test_transaction_that_is_open_for_long_comes_after_those_that_were_faster(
    app, make_user, reader
):
    slow, fast = make_user("slow"), make_user("fast")
    copy = reader()
    copy.follow()
    with ThreadPoolExecutor(1) as thread, app.app_context():
        with transaction():
            administration.alter(slow.id, role="instructor")
            thread.submit(alter, app, fast, {"role": "instructor"}).result()
            assert copy.follow() == [fast.id]
        assert copy.follow() == [slow.id]
    assert copy.copy == but_admins(app)


@on_postgres
def test_nobody_takes_a_number_before_the_one_that_is_taken_is_committed(app, make_user, reader):
    first, second = make_user("first"), make_user("second")
    copy, is_numbered, may_commit = reader(), threading.Event(), threading.Event()
    copy.follow()

    def wait(_session):  # the last listener, so it comes after the number
        if not is_numbered.is_set():
            is_numbered.set()
            may_commit.wait()

    event.listen(db.session, "before_commit", wait)
    try:
        with ThreadPoolExecutor(2) as threads:
            done = [threads.submit(alter, app, first, {"role": "instructor"})]
            is_numbered.wait()
            done.append(threads.submit(alter, app, second, {"role": "instructor"}))
            with suppress(TimeoutError):
                done[1].result(0.3)
            found = copy.follow()
            may_commit.set()
    finally:
        may_commit.set()
        event.remove(db.session, "before_commit", wait)
    assert [each.result() for each in done] == [None, None]
    assert [*found, *copy.follow()] == [first.id, second.id]


def test_an_import_and_a_change_at_once_do_not_wait_in_a_circle(app, make_user, monkeypatch):
    user, done = make_user(), []
    line = {"firstName": "First", "lastName": "Last", "username": "ada", "email": "ada@b.org"}

    def change():
        names = {"username": "ada", "first_name": "First", "last_name": "Last"}
        with app.app_context(), suppress(errors.UsernameTaken), transaction():
            users.update(user.id, first_name="Other")  # too early for a number
            accounts.add(**names, email="other@b.org")
            done.append("made")

    def meet(_emails):  # the import has inserted its accounts, and not committed
        done.append(thread.submit(change))
        soon(lambda: db.engine.dialect.name == "sqlite" or waiting_for_locks())

    monkeypatch.setattr("services.outbox.queue_invitations", meet)
    with ThreadPoolExecutor(1) as thread, app.app_context():
        assert [*Import(lambda *_: None, invite=True).run([(1, line)])] == [1]
        done[0].result()
    assert len(done) == 1
    assert numbers(app) == [1]  # the change came too late


@on_postgres
def test_all_else_is_locked_before_the_number(app, make_user):
    first, second = make_user("first"), make_user("second")

    def change():
        row = {"user_id": second.id, "id": "a", "name": "A", "earned_at": utcnow()}
        with app.app_context(), transaction() as session:
            users.update(first.id, first_name="Other")
            session.add(Achievement(**row))  # it is inserted at the end, if its user is not locked

    with ThreadPoolExecutor(1) as thread, app.app_context():
        with transaction():
            users.lock(second.id)
            done = thread.submit(change)
            soon(lambda: waiting_for_locks() or done.done())
            users.update(second.id, first_name="Other")
        done.result()
    assert numbers(app) == [2]


def test_what_is_taken_back_has_no_number(app, make_user, run):
    user = make_user()
    line = '{"email": "new@example.org", "firstName": "A", "lastName": "B"}'
    with app.app_context():
        with suppress(RuntimeError), transaction():
            users.update(user.id, first_name="Other")
            raise RuntimeError
        with transaction() as session:
            users.update(user.id, bio="not told")
            session.begin_nested().commit()
        assert run("users", "import", "--dry-run", "-", typed=line)[1] == 0
        assert numbers(app) == []
        with transaction() as session:
            users.update(user.id, first_name="Other")
            with suppress(RuntimeError), session.begin_nested():
                raise RuntimeError
            session.begin_nested().commit()
            assert session.get(LastChange, 1) is None  # not before the end
    assert numbers(app) == [1]


def test_keys_do_not_see_admins_and_no_page_of_admins_is_the_end(app, client, admin, reader):
    crowd(app, 7)
    last, *others = sorted(but_admins(app), reverse=True)
    everyone, copy = Reader(client, admin, 2), reader(2)
    for user_id in others:
        path = f"/api/users/{user_id}"
        success(client.patch(path, json={"role": "admin"}, headers=admin.headers))
    success(client.patch(f"/api/users/{last}", json={"lastName": "X"}, headers=admin.headers))
    assert copy.follow() == [last]
    assert len(everyone.follow()) == 8
    success(client.delete(f"/api/users/{others[0]}", headers=admin.headers))
    assert copy.follow() == everyone.follow() == [others[0]]


def test_account_that_is_imported_again_comes_after_its_deletion(run, make_user, reader):
    user, copy = make_user("ada"), reader()
    dumped, _ = run("users", "dump")
    for _ in range(2):
        assert run("users", "delete", "ada", "--yes")[1] == 0
        assert run("users", "import", "-", typed=dumped)[1] == 0
        assert copy.follow() == [user.id, user.id]
        assert copy.copy == {user.id: "student"}
    assert run("users", "delete", "ada", "--yes")[1] == 0
    assert (copy.follow(), copy.copy) == ([user.id], {})


@on_sqlite
def test_cursor_is_good_for_ninety_days_and_for_this_database(app, make_user, reader, clock):
    copy, user = reader(), make_user()
    alter(app, user, {"role": "instructor"})
    copy.follow()
    for _ in range(2):
        clock.move(days=89, hours=23)
        assert copy.follow() == []  # with a cursor of today
    execute(app, update(LastChange).values(number=0))  # it was restored
    failure(copy.get(after=copy.place), 410, "cursor_expired")
    execute(app, update(LastChange).values(number=1))
    clock.move(days=90, seconds=1)
    failure(copy.get(after=copy.place), 410, "cursor_expired")


@on_sqlite
def test_what_is_no_cursor_of_ours_is_named(make_app, make_key, reader):
    copy = reader()
    copy.follow()
    place = copy.place
    changed = [
        place[:at] + ("A" if place[at] != "A" else "B") + place[at + 1 :]
        for at in range(len(place))
    ]
    for wrong in (*changed, "", "x", "x" * 99, f"{place}A", "\u00e9", "=", f"{place}\u00e9"):
        assert words(copy.get(after=wrong)) == {"after": ["invalid"]}, wrong
    for limit in ("0", "1001", "many"):
        assert words(copy.get(limit=limit)).keys() == {"limit"}
    key, new = make_key("users:read"), {"secret_key": SECRET[::-1]}
    rotated = make_app(**new, secret_key_fallbacks=(SECRET,)).test_client()
    assert success(Reader(rotated, key).get(after=place))["changes"] == []
    lost = make_app(**new).test_client()
    assert words(Reader(lost, key).get(after=place)) == {"after": ["invalid"]}


@on_sqlite
def test_the_program_in_the_docs_keeps_a_copy(app, make_user, make_key, clock, tmp_path):
    (program,) = re.findall(r"^```python\n(.*?)^```", DOCS, re.M | re.S)
    (again,) = re.findall(r"`(UPDATE place .*?)`", DOCS, re.S)
    changed, deleted, gone = map(make_user, ("changed", "deleted", "gone"))
    environ = {"ACCOUNTS_KEY": make_key("users:read"), "PATH": os.environ["PATH"]}

    def copy(before="SELECT 1"):
        with closing(sqlite3.connect(tmp_path / "people.db")) as database:
            with database:
                database.execute(before)
            subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=environ, check=True)
            return dict(database.execute("SELECT id, role FROM people"))

    with serving(app) as environ["ACCOUNTS_URL"]:
        assert copy() == but_admins(app)
        alter(app, changed, {"role": "instructor"})
        with app.app_context(), transaction():
            administration.delete(deleted.id)
        assert copy() == but_admins(app)
        execute(app, delete(User).where(User.id == gone.id))  # by SQL, so it has no number
        assert gone.id in copy()
        assert copy(again) == but_admins(app)
        execute(app, delete(User).where(User.id == changed.id))
        clock.move(days=91)
        assert copy() == but_admins(app) == {}
