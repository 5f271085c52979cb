"""The background thread: when it wakes, what it survives, and how it stops."""

import logging
import sqlite3
import threading
from contextlib import suppress
from datetime import timedelta

import pytest
from helpers import crowd, on_both, rows, soon
from real_service import PATIENCE, finish, free_port, production, python
from sqlalchemy import update
from sqlalchemy.exc import OperationalError

from core import clock as core_clock
from database import transaction
from errors import Unavailable
from extensions import components
from models import (
    Counter,
    Deletion,
    DeniedSession,
    Event,
    OutboxMail,
    PendingEmail,
    SecondFactor,
    User,
    UserSession,
)
from services import background, outbox, pruning
from services.letters import MailKind

STUDENT = "student@example.org"


@pytest.fixture
def never_polls(monkeypatch):
    monkeypatch.setattr(background, "POLL", 3600)


@pytest.fixture
def polls_at_once(monkeypatch):
    monkeypatch.setattr(background, "POLL", 0.01)


@pytest.fixture
def thread(app):
    background.start(app)
    yield
    assert components(app).background.stop(PATIENCE)


def queue(app):
    with app.app_context(), transaction():
        outbox.queue(MailKind.PASSWORD_CHANGED, STUDENT)


@pytest.mark.usefixtures("never_polls", "thread")
@on_both
def test_commit_wakes_the_thread(app, server):
    queue(app)
    assert server.box.wait_for(1)[0]["To"] == STUDENT


@pytest.mark.usefixtures("never_polls", "thread")
@on_both
def test_rollback_and_savepoint_do_not(app, monkeypatch):
    woken = threading.Event()
    monkeypatch.setattr(components(app).background, "wake", woken.set)
    with app.app_context():
        with suppress(RuntimeError), transaction():
            outbox.queue(MailKind.PASSWORD_CHANGED, STUDENT)
            raise RuntimeError
        assert not woken.is_set()
        with transaction() as session:
            outbox.queue(MailKind.PASSWORD_CHANGED, STUDENT)
            session.begin_nested().commit()
            assert not woken.is_set()
        assert woken.is_set()


@pytest.mark.asvs("16.5.1", "16.5.2", "16.5.3")
def test_mails_that_a_dead_process_left_go_out_by_polling(app, server, request):
    queue(app)
    request.getfixturevalue("polls_at_once")
    request.getfixturevalue("thread")
    server.box.wait_for(1)


@pytest.mark.usefixtures("polls_at_once")
def test_thread_survives_each_kind_of_failure_and_logs_it_once(
    app, server, monkeypatch, caplog, request
):
    gone = OperationalError("SELECT", {}, sqlite3.OperationalError("gone"))
    old_schema = Unavailable("The schema is old.")
    failures = [gone, gone, TypeError("a mistake"), TypeError("a mistake"), old_schema]
    deliver_due = outbox.deliver_due

    def broken(stopping):
        if failures:
            raise failures.pop(0)
        return deliver_due(stopping)

    monkeypatch.setattr(outbox, "deliver_due", broken)
    with caplog.at_level(logging.INFO, "accounts.background"):
        request.getfixturevalue("thread")
        queue(app)
        server.box.wait_for(1)
        soon(lambda: "continues" in caplog.text)
    said = [r for r in caplog.records if r.name == "accounts.background"]
    assert [r.levelname for r in said] == ["WARNING", "ERROR", "WARNING", "INFO"]
    assert said[1].exc_info
    assert said[2].getMessage() == "The schema is old."


@pytest.mark.usefixtures("polls_at_once")
def test_a_server_that_is_down_is_left_alone_for_a_while(app, monkeypatch, request):
    tries = []

    def down(stopping):
        tries.append(1)
        return True

    looks = []
    monkeypatch.setattr(background, "PAUSE", 0.5)
    monkeypatch.setattr(background, "PRUNE_EVERY", 0)
    monkeypatch.setattr(outbox, "deliver_due", down)
    monkeypatch.setattr(pruning, "prune", lambda now, stopping: looks.append(len(tries)))
    request.getfixturevalue("thread")
    soon(lambda: len(tries) == 3)
    assert all(looks.count(tried) > 5 for tried in (1, 2))


def test_a_mail_is_tried_again_within_thirty_seconds():
    assert outbox.FIRST_WAIT + background.POLL <= 30
    assert background.PAUSE + background.POLL <= 30


def test_started_twice_there_is_one_thread(app):
    before = threading.active_count()
    background.start(app)
    background.start(app)
    assert threading.active_count() == before + 1
    assert components(app).background.stop(PATIENCE)
    assert threading.active_count() == before


@pytest.mark.usefixtures("never_polls", "thread")
def test_stopping_waits_for_the_mail_in_flight(app, monkeypatch):
    begun, go_on, done = threading.Event(), threading.Event(), threading.Event()

    def slow(stopping):
        begun.set()
        assert go_on.wait(PATIENCE)
        assert stopping()
        done.set()
        return False

    monkeypatch.setattr(outbox, "deliver_due", slow)
    queue(app)
    assert begun.wait(PATIENCE)
    assert not components(app).background.stop(0)
    go_on.set()
    assert components(app).background.stop(PATIENCE)
    assert done.is_set()


# A process that queues a mail, and ends while the mail server takes its time.
ENDING = """
import sys
from app import create_app
from config import load
from database import transaction
from services import background, outbox
app = create_app(load())
background.start(app)
with app.app_context(), transaction():
    outbox.queue(outbox.MailKind.PASSWORD_CHANGED, "student@example.org")
sys.stdin.readline()
"""


@pytest.mark.slow
def test_the_end_of_a_process_waits_for_the_mail_in_flight(app, serve, database_url):
    running = serve()
    running.box.delay = 1.0
    env = production(database_url, running.port, free_port())
    process = python("-c", ENDING, env=env)
    soon(lambda: running.box.mail_commands == 1)
    ((status, output),) = finish([process])  # closes its input, so that it ends
    assert status == 0, output
    assert len(running.box.mails) == 1
    assert rows(app, OutboxMail) == []


# Pruning


PRUNED = (*(UserSession, DeniedSession, Counter, PendingEmail, SecondFactor), *(Deletion, Event))


def expiring(user_id, owners, now, offset):
    """Yield a row of each table that is pruned, for each of the owners."""
    day, end = timedelta(days=1), now + offset
    for owner in owners:  # of pending changes, each user has one
        login = {"created_at": now - 30 * day, "last_used_at": now - 30 * day, "expires_at": end}
        login |= {"refresh_token_id": owner, "user_agent": "", "ip_address": ""}
        yield UserSession(user_id=user_id, **login)
        yield DeniedSession(session_id=owner, expires_at=end)
        yield Counter(key=owner, hits=1, expires_at=end)
        yield PendingEmail(id=owner, user_id=owner, new_email=STUDENT, expires_at=end, tries=0)
        yield SecondFactor(user_id=owner, sealed=b"", created_at=end - timedelta(minutes=15))
        yield Deletion(id=owner, number=1, deleted_at=end - 90 * day)
        event = {"user_id": user_id, "type": "login", "by": "", "ip_address": "", "details": {}}
        yield Event(**event, created_at=end - 90 * day)


@on_both
def test_spent_rows_are_removed_in_batches_until_told_to_stop_and_live_ones_stay(
    app, make_user, monkeypatch
):
    monkeypatch.setattr(pruning, "BATCH", 3)
    now, user = core_clock.utcnow(), make_user()
    crowd(app, 9)
    owners = [row.id for row in rows(app, User) if row.id != user.id]
    with app.app_context():
        with transaction() as session:
            session.add_all(expiring(user.id, owners[:7], now, timedelta(seconds=-1)))
            session.add_all(expiring(user.id, owners[7:], now, timedelta(seconds=60)))
            session.flush()
            # A second factor that was confirmed stays, however old it is.
            old = {"created_at": now - timedelta(days=99), "confirmed_at": now}
            session.execute(update(SecondFactor).filter_by(user_id=owners[8]).values(**old))
        names = {table.__tablename__ for table in PRUNED}
        assert pruning.prune(now, stopping=lambda: True) == dict.fromkeys(names, 0)
        assert pruning.prune(now) == dict.fromkeys(names, 7)
        assert set(pruning.prune(now).values()) == {0}
    assert [len(rows(app, table)) for table in PRUNED] == [2] * len(PRUNED)
