"""`flask users import` and `flask users dump`: accounts from files, and into one."""

import csv
import json
import re
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from helpers import (
    NEW_PASSWORD,
    PASSWORD,
    Log,
    choose,
    execute,
    failure,
    login,
    on_both,
    on_postgres,
    on_sqlite,
    register,
    rows,
    soon,
    statements_of,
    stored,
    success,
    waiting_for_locks,
)
from sqlalchemy import delete, insert, select, text, update
from sqlalchemy.exc import OperationalError

from config.custom_fields import CustomField
from core import clock, passwords
from database import lift_time_limits, reading, transaction
from extensions import components, db
from models import OutboxMail, User
from services import accounts, recovery, transfer

pytestmark = on_both

ADA = {"email": "ada@example.org", "firstName": "Ada", "lastName": "Park"}
FULL = {
    **ADA,
    "id": "A1B2C3D4-0000-1000-8000-00000000000F",
    "username": "Ada.P",
    "passwordHash": "$2b$04$LCwqvXVXBQyUaFdsFRKYLeNPbUoSTWp1hSUCUS7BMlb4wDOF9LpHG",
    "website": "https://example.org/ada",
    "joinDate": "2019-01-02T05:04:05+02:00",
}
FULL |= {"role": "instructor", "isActive": True, "emailVerified": True, "lastLogin": "2020-01-02"}
FULL |= {"bio": "Two\nlines", "location": "Lisbon", "language": "pt-br", "theme": "dark"}
FULL |= {"timezone": "Europe/Lisbon", "emailNotifications": False, "pushNotifications": False}
FULL |= {"profileVisible": False, "progressVisible": True, "externalId": "S-1042"}
VALUES = {"grade": "7b", "siblings": 0, "newsletter": False}  # of custom fields
# The columns of an account that comes along, none with the usual value.
COLUMNS = {"id": FULL["id"].lower(), "username": "Ada.P", "username_key": "ada.p"}
COLUMNS |= {"email": "ada@b.org", "first_name": "Ada", "last_name": "Park"}
COLUMNS |= {"search_key": "park\nada\nada.p\nada@b.org", "password_hash": FULL["passwordHash"]}
SAME = ("role", "bio", "location", "website", "timezone", "theme")
COLUMNS |= {name: FULL[name] for name in SAME}
COLUMNS |= {"external_id": "S-1042", "is_active": False, "language": "pt-BR"}
COLUMNS |= {"email_notifications": False, "push_notifications": False}
COLUMNS |= {"profile_visible": False, "progress_visible": True}
COLUMNS |= {"custom_fields": VALUES}
CUSTOM_FIELDS = (
    CustomField(name="grade"),
    CustomField(name="siblings", type="number"),
    CustomField(name="newsletter", type="boolean"),
)
TIMES = ("created_at", "email_verified_at", "last_login_at", "warned_at")
COLUMNS |= {name: datetime(2019, 1, 2 + day, tzinfo=UTC) for day, name in enumerate(TIMES)}
STAY_BEHIND = {"password_version", "second_factor_at", "avatar_digest", "identity", "changed"}


def counts(made=0, present=0, refused=0):
    return f"made: {made}\npresent: {present}\nrefused: {refused}\n"


def jsonl(*accounts):
    return "".join(f"{json.dumps(account, ensure_ascii=False)}\n" for account in accounts).encode()


def person(name, **more):
    return {"email": f"{name}@example.org", "firstName": "First", "lastName": "Last", **more}


@pytest.fixture
def load(run, tmp_path):
    """Import a file with this content; return what was printed and the exit code."""

    def load(content, *options, name="accounts.jsonl"):
        if not isinstance(content, bytes):
            content = jsonl(*content) if isinstance(content, list) else content.encode()
        (tmp_path / name).write_bytes(content)
        return run("users", "import", str(tmp_path / name), *options)

    return load


def refused(output):
    """Return the reasons by the number of the line."""
    lines = (line.split(": ", 1) for line in output.splitlines() if line.startswith("line "))
    return {int(line.removeprefix("line ")): reason for line, reason in lines}


@pytest.fixture
def custom(app):
    """Let accounts have custom fields."""
    held = components(app)
    held.settings = replace(held.settings, custom_fields=CUSTOM_FIELDS)


def test_every_field_arrives_and_comes_out_again(app, client, custom, load, run, outbox):
    full = {**FULL, "passwordHash": hash_of(app), "customFields": VALUES}
    assert load([full]) == (counts(made=1), 0)
    assert outbox.waiting() == []
    dumped = json.loads(run("users", "dump", "--with-hashes")[0])
    at = {"joinDate": "2019-01-02T03:04:05Z", "lastLogin": "2020-01-02T00:00:00Z"}
    assert dumped == {**full, **at, "id": FULL["id"].lower(), "language": "pt-BR"}
    success(login(client, "Ada.P"))
    user = stored(app, username="Ada.P")
    assert "ada.p" in user.search_key
    less = json.loads(run("users", "dump")[0])
    assert dumped.keys() - less.keys() == {"passwordHash"}


def test_no_column_of_an_account_is_lost_on_the_way(app, custom, run, make_user):
    assert COLUMNS.keys() | STAY_BEHIND == {*User.__table__.columns.keys()}
    make_user()
    assert not COLUMNS.items() & stored(app)._asdict().items()
    execute(app, delete(User))
    execute(app, insert(User).values(COLUMNS))
    dumped = run("users", "dump", "--with-hashes")
    execute(app, delete(User))
    assert run("users", "import", "-", typed=dumped[0]) == (counts(made=1), 0)
    arrived = stored(app)._asdict()
    assert arrived["email_verified_at"] > COLUMNS["email_verified_at"]  # verified since the import
    assert {name for name in COLUMNS if arrived[name] != COLUMNS[name]} == {"email_verified_at"}
    assert run("users", "dump", "--with-hashes") == dumped


def test_links_and_codes_of_a_deleted_account_stay_dead(client, run, make_user):
    make_user("ada")
    link, code = run("users", "access-link", "ada")[0].split()
    dumped, _ = run("users", "dump", "--with-hashes")
    assert run("users", "delete", "ada", "--yes")[1] == 0
    assert run("users", "import", "-", typed=dumped) == (counts(made=1), 0)
    failure(choose(client, link.partition("#token=")[2]), 400, "invalid_token")
    body = {"account": "ada", "code": code, "newPassword": NEW_PASSWORD}
    failure(client.post("/api/auth/reset-password", json=body), 400, "invalid_token")
    success(login(client, "ada"))


def hash_of(app):
    return passwords.Hasher(4, 1, 1).hash(PASSWORD)


def test_what_is_left_out_has_the_usual_value(app, client, load, make_user):
    make_user("ada", email="other@example.org")
    assert load([ADA]) == (counts(made=1), 0)
    user = stored(app, email="ada@example.org")
    assert (user.username, user.role, user.is_active) == ("ada2", "student", True)
    assert (user.theme, user.language, user.timezone) == ("system", "en", "UTC")
    assert (user.email_verified_at, user.last_login_at, user.bio) == (None, None, "")
    assert (user.email_notifications, user.push_notifications) == (True, True)
    assert (user.profile_visible, user.progress_visible) == (True, False)
    failure(login(client, ADA["email"]), 401, "invalid_credentials")


@on_sqlite
@pytest.mark.parametrize(
    ("addresses", "usernames"),
    [
        (["ada@a.org", "ada@b.org", "ada@c.org"], ["ada", "ada2", "ada3"]),
        (["a@a.org", "a@b.org"], ["a-user", "a-user2"]),
        (["_a+b@a.org", "o'neill@a.org"], ["a-b", "o-neill"]),
        (["+@a.org"], ["user"]),
        (["x" * 40 + "@a.org", "x" * 40 + "@b.org"], ["x" * 32, "x" * 31 + "2"]),
    ],
)
@pytest.mark.parametrize("batch", [1, 500])
def test_usernames_are_made_from_the_address(app, load, monkeypatch, addresses, usernames, batch):
    monkeypatch.setattr(transfer, "BATCH", batch)
    assert load([{**ADA, "email": email} for email in addresses])[1] == 0
    assert {row.email: row.username for row in rows(app, User)} == dict(
        zip(addresses, usernames, strict=True)
    )


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("delimiter", [",", ";"])
@on_sqlite
def test_csv_from_a_spreadsheet(app, load, run, mark, delimiter):
    lines = (
        *("email,firstName,lastName,isActive,bio,role", "ada@example.org,Zoë,Park,FALSE,,"),
        *("", 'ben@example.org,Ben,Lee,true,"x\ny",', "cy@example.org,Cy,,,,", "d@example.org,D,E"),
        *("e@example.org,E,E,yes,,", "f@example.org,F,F,,,,more,"),
    )
    text = mark + "\r\n".join(lines).replace(",", delimiter)
    output, code = load(text, name="class.CSV")
    assert (output[-len(counts(3, 0, 3)) :], code) == (counts(3, 0, 3), 1)
    found = {row.email[0]: row for row in rows(app, User)}
    assert (found["a"].first_name, found["a"].is_active) == ("Zoë", False)
    assert (found["b"].bio, found["b"].is_active) == ("x\ny", True)
    assert refused(output).keys() == {6, 8, 9}
    assert refused(output)[6].startswith("lastName: ")
    assert refused(output)[9].startswith("more cells than the header: ")
    assert load(text, "--format", "csv", name="x")[0].endswith(counts(0, 3, 3))
    assert run("users", "import", "-", "--format", "csv", typed=text)[0].endswith(counts(0, 3, 3))


@on_sqlite
@pytest.mark.parametrize(
    ("content", "name", "says"),
    [
        ([ADA, {**ADA, "nickname": "x"}], "a.jsonl", "Line 2 has an unknown column: nickname."),
        ([ADA, {"email": "b@a.org", "firstName": "B"}], "a.jsonl", "Line 2 has no lastName."),
        (jsonl(ADA) + b'{"email": "\xff"}\n', "a.jsonl", "Line 2 is not a JSON object in UTF-8."),
        (jsonl(ADA) + b"[]\n", "a.jsonl", "Line 2 is not a JSON object in UTF-8."),
        (jsonl(ADA) + b'{"email"', "a.jsonl", "Line 2 is not a JSON object in UTF-8."),
        (json.dumps([ADA], indent=1), "a.jsonl", "Line 1 is not a JSON object in UTF-8."),
        ("email,firstName\n", "a.csv", "Line 1 has no lastName."),
        ("", "a.csv", "Line 1 has no "),
        ("email,firstName,lastName,bio,bio\n", "a.csv", "A column stands twice in the header."),
        ('email,firstName,lastName\na@b.org,"A,B\n', "a.csv", "Line 2 is not CSV"),
        ("x" * 200_000, "a.csv", "Line 1 is not CSV"),
        (b"email,firstName,lastName\na@b.org,\xe9,B\n", "a.csv", "not valid UTF-8"),
        (jsonl(ADA), "a.csv", "Line 1 has no "),
    ],
)
def test_a_file_with_a_wrong_form_changes_nothing(app, load, tmp_path, content, name, says):
    links = tmp_path / "links.csv"
    output, code = load(content, "--links", str(links), name=name)
    assert (code, says in output, "made" in output) == (2, True, False), output
    assert rows(app, User) == []
    assert not links.exists()


@on_sqlite
def test_what_is_no_file_is_told(run, tmp_path):
    there = tmp_path / "a.jsonl"
    there.write_bytes(b"")
    for files in ([tmp_path], [tmp_path / "none.jsonl"], [there, "--links", ""]):
        output, code = run("users", "import", *map(str, files))
        assert (code, "Error: " in output) == (2, True)


REFUSED = {
    "email": "nobody",
    "firstName": " ",
    "lastName": None,
    "username": "no spaces",
    "role": "owner",
    "isActive": "true",
    "joinDate": "2999-01-01T00:00:00Z",
    "lastLogin": "0001-01-01T00:00:00Z",
    "bio": "x" * 501,
    "location": "x" * 101,
    "website": "javascript:alert(1)",
    "language": "klingonese-x",
    "timezone": "Mars",
    "theme": "pink",
    "id": "00000000-0000-0000-0000-000000000000",
    "passwordHash": "sha1$secret$5ba93c9db0cff93f52b521d7420e43f6eda2784f",
}


def test_bad_lines_are_refused_by_number_and_reason_and_the_others_arrive(app, load):
    load([person("t", username="Taken", id=FULL["id"])])
    lines = [person(f"p{len(name)}", **{name: bad}) for name, bad in REFUSED.items()]
    clashes = [person("a", username="tAKEN"), person("b", id=FULL["id"]), person("c", role="admin")]
    clashes += [person("zoë")]
    output, code = load([person("first"), *lines, *clashes, person("last")])
    names = (*REFUSED, "username", "id", "role", "email")
    end = counts(2, 0, len(names))
    assert (output[-len(end) :], code) == (end, 1)
    assert [reason.split(":")[0] for reason in refused(output).values()] == [*names]
    assert [*refused(output)] == [*range(2, 2 + len(names))]
    assert "isActive: Use true or false.\n" in output
    assert "email: Only ASCII letters before the @.\n" in output
    for bad in ("nobody", "spaces", "javascript", "Mars", "secret", "5ba93", "tAKEN", "p1"):
        assert bad not in output
    assert {row.username for row in rows(app, User)} == {"Taken", "first", "last"}


def test_a_file_can_be_imported_again_and_grow(app, load, monkeypatch):
    monkeypatch.setattr(transfer, "BATCH", 2)
    lines = [person("ada"), person("ben"), person("Ada", firstName="Other"), person("x", bio=1)]
    lines += [person("x")]
    output, _ = load(lines)
    assert output.endswith(counts(2, 0, 3))
    # Two people with one address: neither is taken for the other.
    same = {3: "email: Line 1 has this address.", 5: "email: Line 4 has this address."}
    assert refused(output).items() > same.items()
    before = rows(app, User)
    assert load([*lines, person("cyd")])[0].endswith(counts(1, 2, 3))
    assert [row for row in rows(app, User) if row.username != "cyd"] == before


@pytest.mark.parametrize("batch", [2, 500])
def test_dry_run_says_what_a_run_would_and_writes_nothing(
    app, load, monkeypatch, outbox, tmp_path, batch
):
    monkeypatch.setattr(transfer, "BATCH", batch)
    lines = [person("ada"), person("ben", username="Cyd"), person("bad", theme="pink")]
    lines += [person("ada"), person("cyd", username="cYd"), {**ADA, "email": "ada@b.org"}]
    options = ("--invite", "--links", str(tmp_path / "links.csv"))
    output, code = load(lines, "--dry-run", *options)
    assert (output[-len(counts(3, 0, 3)) :], code) == (counts(3, 0, 3), 1)
    assert rows(app, User) == outbox.waiting() == []
    assert not (tmp_path / "links.csv").exists()
    assert load(lines, *options) == (output, code)


def test_admins_and_strange_hashes_need_their_options(app, load):
    boss, odd = person("boss", role="admin"), person("odd", passwordHash=REFUSED["passwordHash"])
    options = ("--allow-admins", "--without-passwords")
    assert load([boss, odd, {**FULL, "passwordHash": hash_of(app)}], *options) == (counts(3), 0)
    assert stored(app, username="boss").role == "admin"
    assert not passwords.is_usable(stored(app, username="odd").password_hash)
    assert passwords.is_usable(stored(app, username="Ada.P").password_hash)


def test_an_import_does_not_read_accounts_that_it_does_not_name(app, load, make_user):
    make_user("other")
    with statements_of(app) as statements:
        assert load([ADA]) == (counts(1), 0)
    reads = [each for each in statements if "FROM users" in each]
    assert reads
    assert [each for each in reads if "WHERE" not in each] == []


def test_unusable_passwords_of_others_are_none(app, load):
    assert load([person("a", passwordHash="!x"), person("b", passwordHash="!x")]) == (counts(2), 0)
    markers = {row.password_hash for row in rows(app, User)}
    assert len(markers) == 2
    assert "!x" not in markers


def test_invitations_go_to_new_accounts_without_a_password(app, make_app, load, outbox, make_user):
    make_user("old", password_hash="!x")
    lines = [person("old"), person("ada"), person("ben", passwordHash=hash_of(app))]
    lines += [{**ADA, "email": "kid@class.invalid"}]
    assert load(lines, "--invite") == (counts(3, 1), 0)
    assert outbox.waiting() == [("invitation", "ada@example.org")]


def test_an_address_gets_three_invitations_an_hour(make_app, tmp_path):
    app = make_app(ratelimit_enabled=True)
    (tmp_path / "a.jsonl").write_bytes(jsonl(person("ada"), person("ben")))
    for mails in (2, 4, 6, 6):
        run = app.test_cli_runner().invoke
        assert run(args=["users", "import", str(tmp_path / "a.jsonl"), "--invite"]).exit_code == 0
        assert len(rows(app, OutboxMail)) == mails
        for name in ("ada", "ben"):
            with_mails = run(args=["users", "delete", name, "--yes"])
            assert with_mails.exit_code == 0


def handed_over(path):
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_links_for_a_class_without_mail(app, client, load, tmp_path, make_user, outbox):
    make_user("old", password_hash="!x")
    make_user("away", password_hash="!y", is_active=False)
    make_user("has-one")
    lines = [person(name) for name in ("new", "old", "away", "has-one", "boss")]
    lines += [person("own", passwordHash=hash_of(app))]
    lines[0]["firstName"] = "=1+1"
    lines[4] |= {"firstName": "\uff1d1;=2", "role": "admin"}  # full-width, and split at semicolons
    path = tmp_path / "links.csv"
    options = ("--links", str(path), "--allow-admins")
    assert load(lines, *options) == (counts(3, 3), 0)
    first = handed_over(path)
    assert [*first[0]] == ["name", "username", "address", "code", "link"]
    assert [row["username"] for row in first] == ["new", "old", "away", "boss"]
    names = ["'=1+1 Last", *["First Last"] * 2, "'\uff1d1;'=2 Last"]
    assert [row["name"] for row in first] == names
    assert all(re.fullmatch('("[^"]*",?){5}', line) for line in path.read_text().splitlines())
    assert [bool(row["code"]) for row in first] == [True, True, False, False]
    assert [bool(row["link"]) for row in first] == [True, True, False, False]
    assert outbox.waiting() == []

    assert load(lines, *options)[1] == 2  # the file is there
    path.rename(tmp_path / "first.csv")
    assert load(lines, *options) == (counts(0, 6), 0)
    second = handed_over(path)
    for old, new in zip(first[:2], second[:2], strict=True):
        body = {"account": old["username"], "code": old["code"], "newPassword": NEW_PASSWORD}
        failure(client.post("/api/auth/reset-password", json=body), 400, "invalid_token")
        success(choose(client, new["link"].partition("#token=")[2]))
        success(login(client, old["address"], NEW_PASSWORD))


def test_a_password_that_was_chosen_meanwhile_stays(app, make_user):
    chosen, waiting = make_user("chosen"), make_user("waiting", password_hash="!x")
    with app.app_context(), transaction():
        links = recovery.renew_links([chosen.id, waiting.id], now=clock.utcnow())
    assert links.keys() == {waiting.id}
    assert stored(app, chosen).password_hash == chosen.password_hash


def test_links_of_many_accounts_are_renewed_in_one_statement(app, load, tmp_path):
    people = [person(f"p{number}") for number in range(9)]
    load(people)
    with statements_of(app) as statements:
        assert load(people, "--links", str(tmp_path / "all.csv")) == (counts(0, 9), 0)
    assert len([each for each in statements if each.startswith("UPDATE")]) == 1


def test_a_link_clears_the_failed_logins(make_app, load, tmp_path):
    app = make_app(ratelimit_enabled=True)
    for _ in range(10):
        failure(login(app.test_client(), "ada@example.org"), 401, "invalid_credentials")
    assert load([ADA], "--links", str(tmp_path / "links.csv"))[1] == 0
    failure(login(app.test_client(), "ada@example.org"), 401, "invalid_credentials")


GONE = "Error: The database cannot be reached or used: gone.\n"


@contextmanager
def lost_before_the_commit():
    with transaction() as session:
        yield session
        raise OperationalError(None, None, sqlite3.OperationalError("gone"))


def test_a_link_is_written_before_its_account_is_there(app, load, tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("database.transaction", lost_before_the_commit)
        output, code = load([ADA], "--links", str(tmp_path / "links.csv"))
    assert (code, output) == (1, counts() + GONE)
    assert rows(app, User) == []
    assert [row["username"] for row in handed_over(tmp_path / "links.csv")] == ["ada"]


def test_a_database_that_goes_away_in_the_middle_keeps_what_is_done(app, load, monkeypatch):
    monkeypatch.setattr(transfer, "BATCH", 1)
    left = [transaction, lost_before_the_commit]
    with monkeypatch.context() as patched:
        patched.setattr("database.transaction", lambda: left.pop(0)())
        output, code = load([person("ada"), person("ben")])
    assert (code, output) == (1, counts(1) + GONE)
    assert load([person("ada"), person("ben")]) == (counts(1, 1), 0)


@on_postgres
def test_accounts_that_come_at_the_same_moment_win(app, load, make_user, monkeypatch):
    look_up = transfer.Import._look_up

    def and_others_register(*arguments):
        monkeypatch.setattr(transfer.Import, "_look_up", look_up)
        found = look_up(*arguments)
        with ThreadPoolExecutor(1) as thread:
            for name, email in {
                "other": "ada@example.org",
                "Taken": "t@a.org",
                "cyd": "c@a.org",
            }.items():
                thread.submit(make_user, name, email=email).result()
        return found

    monkeypatch.setattr(transfer.Import, "_look_up", and_others_register)
    lines = [person("ada"), person("ben", username="taken"), person("cyd"), person("dan")]
    output, code = load(lines)
    assert (output[-len(counts(2, 1, 1)) :], code) == (counts(2, 1, 1), 1)
    assert refused(output).keys() == {2}
    assert {"other", "Taken", "cyd", "cyd2", "dan"} == {row.username for row in rows(app, User)}


LONG_WAITS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE wait_event_type = 'Lock' AND clock_timestamp() - query_start > interval '1.7 s'
"""


def add(name):
    columns = {"first_name": "A", "last_name": "B", "password_hash": "!"}
    accounts.add(username=name, email=f"{name}@example.org", **columns)


@on_postgres
def test_an_import_waits_for_a_lock_as_long_as_it_must(app, load):
    with ThreadPoolExecutor(1) as thread, app.app_context():
        with transaction():
            add("ben")
            done = thread.submit(load, [person("ada"), person("ben")])

            def waits():
                assert not done.done(), done.result()
                with reading() as connection:
                    return connection.scalar(text(LONG_WAITS))

            soon(waits)  # longer than a request may
        assert done.result() == (counts(1, 1), 0)


@on_postgres
def test_a_deadlock_repeats_the_batch(app, load, tmp_path, monkeypatch):
    def lift_and_look_later(connection):  # when both wait, however slow this machine is
        lift_time_limits(connection)
        connection.execute(text("SET LOCAL deadlock_timeout = '3s'"))

    monkeypatch.setattr("database.lift_time_limits", lift_and_look_later)
    file = tmp_path / "links.csv"
    lines = [person("ada"), person("ben"), person("cyd", username="ben")]
    with ThreadPoolExecutor(1) as thread, app.app_context():
        with transaction() as session:
            # The other one notices the deadlock, and is ended.
            for limit in ("deadlock_timeout", "lock_timeout", "statement_timeout"):
                session.execute(text(f"SET LOCAL {limit} = '1min'"))
            add("ben")
            done = thread.submit(load, lines, "--links", str(file))
            soon(waiting_for_locks)
            add("ada")
        output, code = done.result()
    assert (output[-len(counts(0, 2, 1)) :], code) == (counts(0, 2, 1), 1)
    assert [row["username"] for row in handed_over(file)] == ["ada", "ben"]


@on_postgres
def test_accounts_that_get_links_are_locked_in_the_order_of_ids(app, load, tmp_path):
    people = [person("ada"), person("ben")]
    load(people)
    first, second = sorted(user.id for user in rows(app, User))
    moved = update(User).where(User.id == first).values(bio="It lies behind the other now.")
    execute(app, moved)
    execute(app, text("ANALYZE users"))  # so few are read without an index
    lock = select(User.id).with_for_update(nowait=True)
    with ThreadPoolExecutor(1) as thread, app.app_context():
        with transaction() as session:
            session.execute(lock.where(User.id == first))
            done = thread.submit(load, people, "--links", str(tmp_path / "links.csv"))
            soon(waiting_for_locks)
            session.execute(lock.where(User.id == second))
        assert done.result() == (counts(0, 2), 0)


@on_sqlite
@pytest.mark.parametrize("command", ["users import {}", "db upgrade"])
def test_a_command_waits_for_another_process_as_long_as_it_must(
    make_app, tmp_path, monkeypatch, command
):
    monkeypatch.setattr("database.engines.SQLITE_WAIT", 0.1)
    app, tries = make_app(), []
    monkeypatch.setattr("database.transaction", lambda: tries.append(1) or transaction())
    (tmp_path / "a.jsonl").write_bytes(jsonl(person("ada")))
    words = command.format(tmp_path / "a.jsonl").split()
    with app.app_context():
        path = db.engine.url.database
    with ThreadPoolExecutor(1) as thread, closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        done = thread.submit(app.test_cli_runner().invoke, args=words)
        soon(lambda: len(tries) > 2 or done.done())
        other.rollback()
    assert done.result().exit_code == 0, done.result().output
    assert len(tries) > 2


@on_postgres
def test_a_bulk_import_tells_postgres_how_many_rows_there_are(app, load, monkeypatch):
    monkeypatch.setattr(transfer, "BATCH", 2)
    with statements_of(app) as sent:
        assert load([person(f"user{number}") for number in range(11)]) == (counts(11), 0)
    told = ("ANALYZE", "INSERT INTO user")
    batches = "".join(statement[0] for statement in sent if statement.startswith(told))
    assert batches == "IAIAIIAII", "before the batches 2, 3, 5, 9 and so on"


@on_sqlite
def test_one_event_a_run_and_nothing_of_a_line_in_the_log(make_app, tmp_path):
    app = make_app(log_format="json")
    log, run = Log(), app.test_cli_runner().invoke
    lines = [FULL, {**FULL, "email": "ben@example.org"}, person("cyd", website="secret")]
    (tmp_path / "a.jsonl").write_bytes(jsonl(*lines))
    run(args=["users", "import", str(tmp_path / "a.jsonl"), "--dry-run"])
    assert log.events() == []
    run(args=["users", "import", str(tmp_path / "a.jsonl")])
    text = log.text()
    (event,) = map(json.loads, text.splitlines())
    assert (event["message"], event["made"], event["present"]) == ("accounts_imported", 1, 0)
    assert event["refused"] == 2
    run(args=["users", "dump", "--with-hashes"])
    text += log.text()
    assert '"accounts_dumped"' in text
    for private in ("ada", "Ada", "Park", "secret", "$2b$", "Lisbon", "cyd"):
        assert private not in text


def test_a_dump_makes_the_same_accounts_elsewhere(app, client, run, make_user, monkeypatch):
    monkeypatch.setattr(transfer, "BATCH", 2)
    late = "ffffffff-0000-7000-8000-000000000000"  # the first row has the last id
    make_user("ada", role="admin", email_verified_at=datetime.now(UTC), id=late)
    make_user("ben", password_hash="!x")
    register(client)
    dumped, code = run("users", "dump", "--with-hashes")
    assert (code, len(dumped.splitlines())) == (0, 3)
    execute(app, delete(User))
    assert run("users", "import", "-", "--allow-admins", typed=dumped) == (counts(3), 0)
    assert run("users", "dump", "--with-hashes") == (dumped, 0)
    success(login(client, "newcomer"))


@on_sqlite
def test_progress_is_for_a_terminal(load, monkeypatch):
    assert load([ADA]) == (counts(1), 0)
    terminal = SimpleNamespace(isatty=lambda: True)
    monkeypatch.setattr("cli.transfer.sys", SimpleNamespace(stderr=terminal))
    assert load([ADA])[0] == f"1 of 1 lines\n{counts(0, 1)}"
