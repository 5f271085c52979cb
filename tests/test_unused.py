"""Accounts that nobody uses: the list, the warning, and the deletion 30 days later."""

import csv
from datetime import timedelta

import pytest
from helpers import (
    execute,
    login,
    on_both,
    on_postgres,
    on_sqlite,
    rows,
    set_user,
    success,
    while_changing,
)
from sqlalchemy import delete, insert, update

from core import clock as core_clock
from models import Certificate, Course, Lesson, User, UserSession
from services import unused

pytestmark = on_both
YEAR = timedelta(days=365)


@pytest.fixture
def command(run, app):
    """Run the command; return the usernames that it lists, or what it printed."""

    def command(*options, days=180):
        printed, status = run("users", "unused", f"--days={days}", *options)
        assert status == 0, printed
        if options and options[0] in ("--warn", "--delete"):
            return printed
        *table, count = printed.splitlines()
        found = [row["username"] for row in csv.DictReader(table)]
        assert count == f"unused: {len(found)}"
        return sorted(found)

    return command


@pytest.fixture
def old(make_user):
    """Make accounts that nobody has used for a year."""
    long_ago = core_clock.utcnow() - YEAR

    def old(name, **columns):
        usual = {"created_at": long_ago, "last_login_at": long_ago, "email_verified_at": long_ago}
        return make_user(name, **{**usual, **columns})

    return old


@pytest.fixture
def people(app, old):
    """One account for each rule."""
    now = core_clock.utcnow()
    recently = now - timedelta(days=9)
    for name, columns in {
        **{"plain": {}, "never": {"last_login_at": None}, "boss": {"role": "admin"}},
        **{"pupil": {"email": "pupil@class.invalid"}, "synced": {"external_id": "7"}},
        **{"here": {"last_login_at": recently}, "made": {"created_at": recently}},
    }.items():
        old(name, **columns)
    for name, when in {"learns": recently, "learned": now - YEAR}.items():
        learn(app, old(name), when)
    held = {"id": "x", "course_id": "c", "course_name": "C", "issued_at": now - YEAR}
    held |= {"credential_url": "", "holder": "x"}
    for name, more in {
        **{"holds": {}, "valid": {"expires_at": now + YEAR}},
        **{"ended": {"expires_at": now}, "revoked": {"revoked_at": now}},
    }.items():
        add(app, Certificate, old(name), **held, **more)


def add(app, model, user, **columns):
    execute(app, insert(model).values(user_id=user.id, **columns))


def learn(app, user, when):
    add(app, Course, user, id="c", name="Course", lessons=9)
    add(app, Lesson, user, course_id="c", id="l", minutes=1, completed_at=when)


LISTED = ["ended", "learned", "never", "plain", "pupil", "revoked"]


def left(app):
    return sorted(user.username for user in rows(app, User))


def test_the_list_has_what_nobody_uses_and_nobody_else_keeps(command, people):
    assert command() == LISTED
    assert command("--with-certificates") == sorted([*LISTED, "holds", "valid"])
    assert command(days=400) == []
    assert command(days=30) == LISTED


def test_who_is_warned_by_mail_is_deleted_after_thirty_days(app, command, people, outbox, clock):
    everybody = left(app)
    assert command("--delete") == "deleted: 0\n"
    assert command("--warn") == "warned: 6\n"
    assert command("--warn") == "warned: 0\n"
    mails = {mail["To"] for mail in outbox.deliver()}
    assert mails == {f"{name}@example.org" for name in LISTED if name != "pupil"}
    clock.move(days=29)
    assert command("--delete") == "deleted: 0\n"
    clock.move(days=1, seconds=1)
    assert command("--delete") == "deleted: 5\n"
    assert left(app) == sorted({*everybody} - {*LISTED} | {"pupil"})
    assert command("--delete", "--without-mailbox") == "deleted: 1\n"
    assert {kind for kind, _ in outbox.waiting()} == {"account_deleted"}


def logs_in(app, client, user):
    success(login(client, user))
    execute(app, delete(UserSession))


def learns(app, client, user):
    learn(app, user, core_clock.utcnow())


def stays(app, client, user):
    success(login(client, user))
    execute(app, update(UserSession).values(expires_at=core_clock.utcnow() + YEAR))
    set_user(app, user, last_login_at=None)


@pytest.mark.parametrize("comes_back", [logs_in, learns, stays])
def test_who_comes_back_is_kept_and_warned_again_later(
    app, client, command, old, clock, comes_back
):
    user = old("plain")
    assert command("--warn") == "warned: 1\n"
    clock.move(days=10)
    comes_back(app, client, user)
    clock.move(days=50)
    # Nobody has used it for 50 days, which are fewer than those of the warning.
    assert command("--delete", days=30) == "deleted: 0\n"
    if comes_back is not stays:
        assert command("--warn", days=30) == "warned: 1\n"
        clock.move(days=31)
        assert command("--delete", days=30) == "deleted: 1\n"


@pytest.mark.parametrize(
    "change",
    [
        {"last_login_at": core_clock.utcnow()},
        *({"external_id": "7"}, {"role": "admin"}, {"email": "pupil@class.invalid"}),
    ],
)
def test_it_is_asked_again_under_the_lock(app, command, old, clock, monkeypatch, change):
    user, find = old("plain"), unused.find
    command("--warn")
    clock.move(days=31)

    def changed_after(*wanted):
        found = find(*wanted)
        set_user(app, user, **change)
        return found

    monkeypatch.setattr(unused, "find", changed_after)
    assert command("--delete") == "deleted: 0\n"


def test_who_has_a_new_address_or_can_log_in_again_is_warned_first(app, command, old, clock, run):
    pupil, again = old("pupil", email="pupil@class.invalid"), old("again", is_active=False)
    old("ahead", warned_at=core_clock.utcnow() + YEAR)
    assert command("--warn") == "warned: 3\n"
    clock.move(days=31)
    run("users", "set-email", pupil.id, "parent@example.org")
    run("users", "activate", again.id)
    assert command("--delete") == "deleted: 1\n"
    assert left(app) == ["again", "pupil"]
    assert command("--warn") == "warned: 2\n"


@on_postgres
def test_a_login_that_is_under_way_saves_the_account(app, run, old, clock):
    user = old("plain")
    run("users", "unused", "--days=180", "--warn")
    clock.move(days=31)
    deletion = lambda: run("users", "unused", "--days=180", "--delete")  # noqa: E731
    printed, _ = while_changing(app, user, {"last_login_at": core_clock.utcnow()}, deletion)
    assert printed == "deleted: 0\n"


@on_sqlite
def test_a_warning_that_waits_is_not_sent_after_a_login_or_a_deletion(
    client, command, old, outbox, run
):
    gone, back = old("gone"), old("back")
    command("--warn")
    run("users", "delete", gone.id, "--yes")
    success(login(client, back))
    assert [mail["Subject"] for mail in outbox.deliver()] == ["Your account was deleted"]


@on_sqlite
def test_many_are_asked_about_and_the_options_are_checked(app, run, old, monkeypatch):
    monkeypatch.setattr("cli.unused.FEW", 1)
    for name in ("one", "two"):
        old(name)
    refused, status = run("users", "unused", "--days=30", "--warn")
    assert (status, "Warn 2 accounts?" in refused) == (1, True)
    assert run("users", "unused", "--days=30", "--warn", "--yes")[0] == "warned: 2\n"
    assert run("users", "unused", "--days=29")[1] == 2
    assert run("users", "unused", "--days=30", "--warn", "--delete")[1] == 2
