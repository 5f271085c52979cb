"""The whole database in another one (`flask db copy-to`) and in a file (`flask db backup`)."""

import os
import resource
import stat
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from authenticator import enter, set_up
from endpoints import UNKNOWN_ID
from helpers import (
    PASSWORD,
    SECRET,
    UNREACHABLE,
    bearer,
    execute,
    failure,
    forgot,
    on_both,
    on_postgres,
    on_sqlite,
    picture,
    picture_form,
    refresh,
    success,
    verify,
)
from passkey_device import Device, add, sign_in
from real_service import empty_database, migrate
from sqlalchemy import create_engine, insert, inspect, select, text, update

from config.types import database_url as parse_url
from core.clock import utcnow
from database import reading, schema, snapshot
from extensions import db
from models import Counter, OutboxMail, User, UserSession
from services import copies

pytestmark = on_both

OTHER_KIND = {"sqlite": "postgres", "postgresql": "sqlite"}


ALL = {table.name: select(table) for table in db.metadata.sorted_tables}


def contents(app):
    with app.app_context(), reading() as connection:
        return {name: sorted(map(repr, connection.execute(query))) for name, query in ALL.items()}


@pytest.fixture
def target(request, database_url, tmp_path):
    """The URL of an empty database of the other kind."""
    folder = tmp_path / "target"
    folder.mkdir()
    return empty_database(request, folder, OTHER_KIND[database_url.get_backend_name()])


@pytest.fixture
def db_command(app, run):
    """Run `flask db …`; return what it printed and its exit code."""
    return lambda *arguments, **options: run("db", *arguments, **options)


@pytest.fixture
def copy(db_command, target):
    """Copy to the target; return what was printed and the exit code."""
    return lambda: db_command("copy-to", "-", typed=target.render_as_string(hide_password=False))


@pytest.fixture
def by_hand(target):
    """Run statements on the target past the service; return the last result's rows."""
    engine = create_engine(target)

    def execute(*statements):
        with engine.begin() as connection:
            for statement in statements:
                result = connection.execute(text(statement))
            return result.all() if result.returns_rows else None

    yield execute
    engine.dispose()


@pytest.fixture
def school(app, client, make_user, make_key, log_in, clock):
    """A platform with something in each table, in the middle of everything."""
    admin = log_in(make_user("admin", role="admin"))
    pupil, locked = (make_user(name) for name in ("pupil", "locked"))
    other = make_user("other", identity="https://id.example subject")
    session, ended = log_in(pupil), log_in(pupil)
    success(client.post("/api/auth/logout", headers=ended.headers))
    key = bearer(make_key("learning:write", "users:read", "groups:write"))
    group = f"/api/groups/{UNKNOWN_ID}"
    success(client.put(group, json={"name": "7b"}, headers=key), 201)
    success(client.put(f"{group}/members/{pupil.id}", headers=key))
    for path, body in [
        ("courses/c", {"name": "Course", "lessons": 2}),
        ("courses/c/lessons/l", {"minutes": 7, "completedAt": "0001-01-01T00:00:00Z"}),
        ("courses/c/lessons/m", {"minutes": 9}),
        ("achievements/a", {"name": "Achievement ✓"}),
        ("certificates/d", {"courseId": "c", "courseName": "Course"}),
    ]:
        success(client.put(f"/api/users/{pupil.id}/{path}", json=body, headers=key), 201)
    success(client.post("/api/users/avatar", data=picture_form(picture()), headers=session.headers))
    counter = {"key": "limit", "hits": 3, "expires_at": utcnow()}
    execute(app, insert(Counter).values(**counter))  # limits are off in most tests
    body = {"newEmail": "new@example.org", "password": PASSWORD}
    success(client.post("/api/users/email", json=body, headers=session.headers))
    success(forgot(client, other.email))
    path = f"/api/users/{other.id}/access-link"
    handed = success(client.post(path, json={"deliver": "link"}, headers=admin.headers))
    authenticator = set_up(client, log_in(locked), locked, clock)
    success(client.delete(f"/api/users/{make_user('gone').id}", headers=admin.headers))
    device = Device()
    add(client, session, device)
    people = {"pupil": pupil, "other": other, "locked": locked}
    proofs = {"session": session, "ended": ended, "key": key, "code": handed["code"]}
    return SimpleNamespace(**people, **proofs, app=authenticator, device=device)


def test_copy_has_every_row_of_every_table(
    app, school, target, copy, make_app, by_hand, monkeypatch
):
    before = contents(app)
    # A new table needs a row in `school`; one that counts its rows itself, a sequence that is set.
    assert all(before.values()), {name for name, found in before.items() if not found}
    assert {table.autoincrement_column for table in db.metadata.sorted_tables} == {None}
    monkeypatch.setattr(copies, "_BATCH", 2)
    output, status = copy()
    assert status == 0, output
    for table, found in before.items():
        assert f"{table}: {len(found)} copied\n" in output
    assert contents(make_app(database_url=target)) == before
    assert contents(app) == before
    if target.get_backend_name() == "sqlite":
        assert stat.S_IMODE(os.stat(target.database).st_mode) == 0o600
    else:  # it knows how many rows there are
        unknown = "SELECT relname FROM pg_class WHERE relkind = 'r' AND reltuples < 0"
        names = {name for (name,) in by_hand(unknown)}
        assert names.isdisjoint(db.metadata.tables), names


def test_all_that_was_begun_goes_on_with_the_copy(school, client, copy, target, make_app, request):
    def progress(client):
        return success(client.get("/api/users/progress", headers=school.session.headers))

    def avatar(client):
        profile = success(client.get("/api/users/profile", headers=school.session.headers))
        return client.get("/" + profile["avatar"].split("/", 3)[3]).data

    learned, seen = progress(client), avatar(client)
    assert copy()[1] == 0
    moved = make_app(database_url=target)
    client = moved.test_client()
    success(verify(client, school.session))
    failure(verify(client, school.ended), 401, "token_revoked")
    assert progress(client) == learned
    assert avatar(client) == seen
    success(client.get(f"/api/users/{school.pupil.id}/account", headers=school.key))
    success(refresh(client, school.session))
    failure(enter(client, school.locked), 403, "second_factor_required")
    success(enter(client, school.locked, school.app.code()))
    success(sign_in(client, school.device))
    body = {"account": school.other.username, "code": school.code, "newPassword": PASSWORD + "!"}
    success(client.post("/api/auth/reset-password", json=body))


def test_target_with_rows_is_refused_and_left_alone(app, make_user, target, copy, by_hand):
    make_user()
    by_hand("CREATE TABLE users (id text)", "INSERT INTO users VALUES ('somebody')")
    output, status = copy()
    said = "Error: The target is not empty, or it is this database itself: users has rows. "
    assert (status, output.splitlines()[-1]) == (1, f"{said}Nothing was copied.")
    engine = create_engine(target)
    assert inspect(engine).get_table_names() == ["users"]
    engine.dispose()
    assert by_hand("SELECT id FROM users") == [("somebody",)]


def test_database_is_not_copied_into_itself(app, make_user, db_command, database_url):
    make_user()
    before = contents(app)
    url = database_url.render_as_string(hide_password=False)
    output, status = db_command("copy-to", url)
    assert status == 1
    assert "it is this database itself" in output
    assert contents(app) == before


def test_copy_that_was_interrupted_leaves_no_rows_and_can_be_repeated(
    app, school, copy, target, make_app, monkeypatch
):
    insert_batch = copies._insert

    def interrupted(connection, table, batch):
        if table.name == "lessons":
            raise KeyboardInterrupt
        insert_batch(connection, table, batch)

    with monkeypatch.context() as patched:
        patched.setattr(copies, "_insert", interrupted)
        assert copy()[1] == 1
    assert not any(contents(make_app(database_url=target)).values())
    assert copy()[1] == 0
    assert contents(make_app(database_url=target)) == contents(app)


def test_copy_shows_one_moment_while_others_write(
    app, school, copy, target, make_app, make_user, monkeypatch
):
    before = contents(app)
    insert_batch = copies._insert

    def and_others_write(connection, table, batch):
        insert_batch(connection, table, batch)
        if table.name == "users":
            make_user("late")
            execute(app, update(User).values(first_name="Late"))
            execute(app, OutboxMail.__table__.delete())
            execute(app, UserSession.__table__.delete())

    monkeypatch.setattr(copies, "_insert", and_others_write)
    output, status = copy()
    assert status == 0, output
    assert contents(make_app(database_url=target)) == before
    assert contents(app) != before


def test_rows_that_the_target_does_not_keep_are_noticed(school, copy, target, by_hand, make_app):
    migrate(target)
    drop = {
        "sqlite": "CREATE TRIGGER t BEFORE INSERT ON outbox BEGIN SELECT RAISE(IGNORE); END",
        "postgresql": "CREATE RULE t AS ON INSERT TO outbox DO INSTEAD NOTHING",
    }
    by_hand(drop[target.get_backend_name()])
    output, status = copy()
    assert status == 1
    assert "Error: The target has not kept all rows. Nothing was copied." in output
    assert not any(contents(make_app(database_url=target)).values())


@on_sqlite  # SQLite does not look at the lengths of columns
def test_row_that_the_target_refuses_is_named_without_its_content(app, auth, copy):
    execute(app, update(UserSession).values(user_agent=256 * "x"))
    output, status = copy()
    assert status == 1
    assert "Error: The target refuses a row of sessions: value too long for type" in output
    assert "xx" not in output


@on_sqlite
@pytest.mark.parametrize(
    ("url", "status", "words"),
    [
        (UNREACHABLE, 1, "Error: The target cannot be reached or used"),
        (UNREACHABLE.set(drivername="mysql"), 2, "Error: URL must begin with postgresql://"),
        (parse_url("sqlite:////no/such/folder.db"), 1, "Error: The target cannot be reached"),
    ],
)
def test_target_that_cannot_be_used_is_refused_plainly(app, db_command, url, status, words):
    output, found = db_command("copy-to", "-", typed=url.render_as_string(hide_password=False))
    assert found == status
    assert output.splitlines()[-1].startswith(words)
    assert "secret" not in output


def test_target_in_which_no_table_can_be_made_is_refused_plainly(app, copy, by_hand, target):
    by_hand("CREATE TABLE t (id TEXT)", "CREATE INDEX ix_users_created_at_id ON t (id)")
    output, status = copy()
    assert status == 1
    assert "Error: The target, or this database, does not allow it: " in output
    assert output.endswith("already exists. Nothing was copied.\n")
    assert by_hand("SELECT * FROM t") == []


def test_target_of_another_application_is_left_alone(app, copy, by_hand, target):
    by_hand("CREATE TABLE users (name TEXT)")
    output, status = copy()
    assert status == 1
    assert "This database belongs to another application (table users)." in output
    assert output.endswith(" Nothing was copied.\n")
    assert by_hand("SELECT * FROM users") == []


@pytest.mark.parametrize("revision", ["0001", "9999"])
@on_sqlite
def test_source_with_another_schema_is_refused(app, copy, target, monkeypatch, revision):
    monkeypatch.setattr(schema, "NEWEST", revision)
    output, status = copy()
    assert status == 1
    assert "Error: The schema of this database is not up to date. Run flask db upgrade." in output


@on_postgres
def test_long_reads_have_no_time_limit(app):
    with app.app_context(), snapshot() as connection:
        assert connection.scalar(text("SHOW statement_timeout")) == "0"
    with app.app_context(), reading() as connection:
        assert connection.scalar(text("SHOW statement_timeout")) != "0"


@on_sqlite
def test_long_writes_of_a_copy_have_no_time_limit(auth, copy, monkeypatch):
    limits = set()

    def note(target, _table, _rows):
        limits.add(target.scalar(text("SHOW statement_timeout")))

    monkeypatch.setattr(copies, "_insert", note)
    copy()
    assert limits == {"0"}


# Backups


@contextmanager
def full_disk(size):
    """Let no file of this process grow beyond so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@on_sqlite
def test_backup_is_a_whole_database_that_only_its_owner_can_read(
    app, school, db_command, tmp_path, make_app, monkeypatch
):
    # It is so from the first byte, and under a name of its own until it is complete.
    seen = []
    link = os.link

    def look_and_link(draft, path):
        seen.append((stat.S_IMODE(os.stat(draft).st_mode), Path(path).exists()))
        link(draft, path)

    monkeypatch.setattr(os, "link", look_and_link)
    before, path = contents(app), tmp_path / "backup.db"
    output, status = db_command("backup", str(path))
    assert status == 0, output
    assert seen == [(0o600, False)]
    assert os.listdir(tmp_path) == ["backup.db"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    restored = make_app(database_url=parse_url(f"sqlite:///{path}"), secret_key=SECRET)
    assert contents(restored) == before
    success(verify(restored.test_client(), school.session))


@on_sqlite
def test_backup_overwrites_nothing(db_command, tmp_path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for path in (tmp_path / "file", tmp_path / "dangling"):
        refusal = f"Error: {path} cannot be written: File exists.\n"
        assert db_command("backup", str(path)) == (refusal, 1)
    assert (tmp_path / "file").read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == ["dangling", "file"]


@on_sqlite
def test_backup_that_fails_leaves_nothing_behind(app, db_command, tmp_path):
    missing = tmp_path / "missing" / "backup.db"
    reason = "cannot be written: No such file or directory"
    assert db_command("backup", str(missing)) == (f"Error: {missing} {reason}.\n", 1)
    with full_disk(16 * 1024):
        output, status = db_command("backup", str(tmp_path / "backup.db"))
    assert status == 1
    assert output.startswith("Error: No backup was made: ")
    assert os.listdir(tmp_path) == []


@on_postgres
def test_postgres_has_its_own_means_of_backup(db_command, tmp_path):
    output, status = db_command("backup", str(tmp_path / "backup.db"))
    assert (status, "pg_dump" in output) == (1, True)
    assert os.listdir(tmp_path) == []
