"""The outbox: which mails go out, with which words, when, and how often they are tried."""

import logging
import re
import socket
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from endpoints import UNKNOWN_ID
from flask import current_app
from helpers import (
    Log,
    connections_held,
    crowd,
    failure,
    forgot,
    on_both,
    race,
    rows,
    statements_of,
    success,
)
from sqlalchemy import delete, update

from core import clock as core_clock
from core import passwords, smtp
from core.addresses import parse_sender
from database import transaction
from extensions import components, db
from models import Counter, OutboxMail, PendingEmail, User
from services import background, letters, outbox, pruning
from services.letters import MailKind

STUDENT = "student@example.org"
NO_MAILBOX = "pupil@class.invalid"
FACTS = {"event": "added", "left": "", "change_id": UNKNOWN_ID, "device": "", "ip_address": ""}
IDN = "xn--schule-mller-klb.example"


@pytest.fixture(autouse=True)
def context(app):
    with app.app_context():
        yield


def queue(*mails):
    with transaction():
        for kind, address in mails or [(MailKind.PASSWORD_CHANGED, STUDENT)]:
            outbox.queue(kind, address, **FACTS)


def queue_wanted(kind, user):
    """Queue a mail of this kind to a user who has every reason to get it."""
    now = core_clock.utcnow()
    with transaction() as session:
        change = {"id": UNKNOWN_ID, "user_id": user.id}
        session.add(PendingEmail(**change, new_email=STUDENT, expires_at=now, tries=0))
        if kind is MailKind.INVITATION:
            # As an admin does who takes the password away.
            session.execute(update(User).values(password_hash="!marker", password_version=2))
        if kind is MailKind.UNUSED_WARNING:
            session.execute(update(User).values(warned_at=now))
        outbox.queue(kind, STUDENT, **FACTS)


def numbered(count):
    return [(MailKind.PASSWORD_CHANGED, f"student{n}@example.org") for n in range(count)]


def deliver():
    """Deliver what is due; return how many mails left the outbox, and how many are tried again."""

    def attempts():
        return {row.id: row.attempts for row in rows(current_app, OutboxMail)}

    before = attempts()
    outbox.deliver_due()
    after = attempts()
    return len(before.keys() - after.keys()), sum(after[mail] > before[mail] for mail in after)


def dropped(app):
    return sum(row.hits for row in rows(app, Counter) if row.key == outbox.DROPPED)


# Letters


@pytest.mark.asvs("1.3.7", "1.3.11")
@pytest.mark.parametrize("kind", list(MailKind))
def test_no_text_that_a_stranger_chose_is_mailed(server, make_user, kind):
    names = {"username": "cheap-pills", "first_name": "Buy", "last_name": "pills.example"}
    queue_wanted(kind, make_user(email=STUDENT, **names))
    outbox.deliver_due()
    assert "pills" not in server.box.mails[0].as_string()


def said_to(user, kind):
    """Return the paragraphs of the mail of a kind to a user."""
    now = core_clock.utcnow()
    row = OutboxMail(kind=kind, address=user.email, facts=FACTS, created_at=now)
    return letters.compose(row)[0].text.split("\n\n")


@pytest.mark.parametrize("kind", list(MailKind))
def test_mail_to_a_confirmed_address_greets_by_name_in_one_line(make_user, kind):
    now, names = core_clock.utcnow(), {"first_name": "Ada\n\nLove", "last_name": "Lace\u2028x"}
    user = make_user("ada.l", email_verified_at=now, **names)
    # These go to an address that the account does not have, or never proved.
    unnamed = ("account_deleted", "email_changed", "email_change_code", "email_verification")
    greeting, *said = said_to(user, kind)
    assert greeting == ("Hello," if kind in unnamed else "Hello Ada Love Lace x,")
    by_name = ("invitation", "password_reset", "password_changed", "username_changed")
    by_name += ("unused_warning",)
    assert any("ada.l" in each for each in said) == (kind in by_name)


@pytest.mark.parametrize("version", [1, 2])
def test_an_invitation_says_the_names_only_if_nobody_has_had_a_way_in(make_user, version):
    pupil = make_user("ada.l", password_hash="!marker", password_version=version)
    greeting, way, *_ = said_to(pupil, MailKind.INVITATION)
    assert greeting == ("Hello First Last," if version == 1 else "Hello,")
    assert ("your username, ada.l" in way) == (version == 1)


@pytest.mark.parametrize(
    ("kind", "user"),
    [
        (MailKind.PASSWORD_RESET, None),
        (MailKind.PASSWORD_RESET, {"is_active": False}),
        (MailKind.EMAIL_VERIFICATION, None),
        (MailKind.EMAIL_VERIFICATION, {"is_active": False}),
        (MailKind.INVITATION, None),
        (MailKind.INVITATION, {}),  # has a password
        (MailKind.INVITATION, {"password_hash": "!marker", "is_active": False}),
        (MailKind.PASSWORD_CHANGED, {"email": NO_MAILBOX}),
        (MailKind.PASSWORD_RESET, {"email": NO_MAILBOX}),
        (MailKind.EMAIL_CHANGE_CODE, {}),
        (MailKind.EMAIL_VERIFICATION, {"email_verified_at": datetime(2026, 1, 1, tzinfo=UTC)}),
    ],
)
def test_mail_that_nobody_needs_is_dropped_with_no_word_to_the_server(
    server, make_user, app, kind, user
):
    address = STUDENT
    if user is not None:
        address = make_user(**{"email": STUDENT, **user}).email
    queue((kind, address))
    assert deliver() == (1, 0)
    assert rows(app, OutboxMail) == []
    assert server.box.mail_commands == 0


@pytest.mark.parametrize(
    ("setting", "kind", "words"),
    [
        ({"reset_token_minutes": 120}, "password_reset", "for 2 hours."),
        ({"registration": "open"}, "account_deleted", "create a new account"),
    ],
)
def test_mail_says_what_the_settings_say(app, make_user, setting, kind, words):
    make_user(email=STUDENT)
    row = OutboxMail(kind=kind, address=STUDENT, facts={}, created_at=core_clock.utcnow())
    others = replace(components(app).settings, registration="closed")
    for components(app).settings in (others, replace(others, **setting)):
        mail, _ = letters.compose(row)
        assert (words in mail.text) == (words in mail.html) == (components(app).settings != others)


def test_without_a_server_the_mail_is_printed(caplog, use_server, make_user, app):
    use_server(None)
    make_user(email=STUDENT)
    queue((MailKind.PASSWORD_RESET, STUDENT))
    with caplog.at_level(logging.INFO, "accounts.mail"):
        outbox.deliver_due()
    printed = caplog.records[0].getMessage()
    assert f"To: {STUDENT}\nSubject: Choose a new password\n" in printed
    # The link stands on a line of its own, whole, to be copied.
    assert re.search(r"^https?://\S+#token=[\w.-]{94}$", printed, re.M)
    assert rows(app, OutboxMail) == []


# Transactions


@on_both
def test_rolled_back_transaction_sends_nothing(server, app):
    with suppress(RuntimeError), transaction():
        outbox.queue(MailKind.PASSWORD_CHANGED, STUDENT)
        db.session.flush()
        raise RuntimeError
    assert rows(app, OutboxMail) == []
    assert deliver() == (0, 0)


@on_both
def test_looking_into_an_empty_outbox_takes_no_lock(app, server):
    outbox.deliver_due()
    with statements_of(app) as seen:
        outbox.deliver_due()
    (only,) = seen
    assert only.startswith("SELECT")
    assert "UPDATE" not in only


def test_no_connection_is_held_while_a_mail_is_sent(app, server, monkeypatch, make_user):
    held = connections_held(app, monkeypatch, smtp, "send")
    make_user(email=STUDENT)
    queue((MailKind.PASSWORD_RESET, STUDENT), (MailKind.PASSWORD_CHANGED, STUDENT))
    assert deliver() == (2, 0)
    assert held == [0, 0]


# Failures


def wait_of(row):
    return (row.due_at - core_clock.utcnow()).total_seconds()


def test_mail_that_the_server_broke_off_is_sent_again_as_the_same_message(server, app, clock):
    created = core_clock.utcnow()
    server.box.drops = 1
    queue()
    assert deliver() == (0, 1)
    clock.move(seconds=30)
    assert deliver() == (1, 0)
    assert rows(app, OutboxMail) == []
    (mail,) = server.box.mails
    assert abs(mail["Date"].datetime - created) < timedelta(seconds=20)
    assert re.fullmatch(r"<[0-9a-f-]{36}@[a-z0-9.]+>", mail["Message-ID"])


def test_one_mail_refused_for_now_does_not_stop_the_others(server, app):
    server.box.to_recipient.append("450 Mailbox busy")
    queue(*numbered(3))
    assert outbox.deliver_due() is False
    assert (len(server.box.mails), len(rows(app, OutboxMail))) == (2, 1)


def test_mail_refused_for_good_is_dropped_counted_and_logged_without_the_address(
    server, app, caplog, clock
):
    server.box.to_recipient += [f"550 5.1.1 No {STUDENT} here"] * 2
    queue(*numbered(2))
    assert deliver() == (2, 0)
    assert rows(app, OutboxMail) == []
    assert dropped(app) == 2
    (record, _) = [r for r in caplog.records if r.name == "accounts.mail"]
    assert record.levelno == logging.ERROR
    assert "550 5.1.1" in record.getMessage()
    assert STUDENT not in record.getMessage()
    clock.move(days=4000)
    pruning.prune(core_clock.utcnow())
    assert dropped(app) == 2


def test_server_that_refuses_us_gets_a_few_at_a_time_and_all_of_them_once_it_is_mended(
    server, app, clock
):
    queue(*numbered(40))
    server.box.to_recipient += ["554 5.7.1 Relay access denied"] * 12
    for _ in range(4):
        assert outbox.deliver_due() is True
        clock.move(seconds=background.PAUSE)
    assert server.box.mail_commands == 4 * outbox.IN_A_ROW
    # Each is tried before one is tried again.
    assert sorted(row.attempts for row in rows(app, OutboxMail)) == [0] * 28 + [1] * 12
    assert outbox.deliver_due() is False
    clock.move(seconds=10)
    assert outbox.deliver_due() is False
    assert len({to for _, (to,) in server.box.envelopes}) == 40
    assert (rows(app, OutboxMail), dropped(app)) == ([], 0)


def test_recipients_that_are_refused_again_and_again_do_not_keep_others_waiting(server, app):
    crowd(app, 9)
    queue(*((MailKind.PASSWORD_RESET, f"user{number}@example.org") for number in range(1, 10)))
    with transaction() as session:
        session.execute(update(OutboxMail).values(attempts=outbox.AWAITED_TRIES))
    queue()
    server.box.to_recipient += ["550 Unrouteable address"] * 9
    assert outbox.deliver_due() is True
    tried = [row.attempts for row in rows(app, OutboxMail) if row.address == STUDENT]
    assert tried == [1]


@pytest.mark.parametrize(
    ("url", "sender", "greeting"),
    [
        ("https://school.test", None, "school.test"),
        ("https://school.test.", None, "school.test"),
        (f"https://{IDN}:8443/accounts", None, IDN),
        ("http://192.0.2.7", "accounts@mail.school.test", "mail.school.test"),
        ("http://[2001:db8::7]:5000", "accounts@mail.school.test", "mail.school.test"),
        ("http://127.0.0.1:5000", None, "localhost"),
    ],
)
def test_server_is_greeted_by_the_name_of_the_service(server, app, url, sender, greeting):
    settings = {"public_url": url, "mail_from": sender and parse_sender(sender)}
    components(app).settings = replace(components(app).settings, **settings)
    queue()
    assert deliver() == (1, 0)
    assert server.box.greetings == [greeting]
    assert server.box.envelopes[0][0] == (sender or f"no-reply@{greeting}")


@pytest.mark.asvs("1.3.7", "1.3.11")
@pytest.mark.parametrize("address", ["a@example.org\r\nBcc: b@example.org", "a@b.org, c@d.org"])
@on_both
def test_address_that_would_inject_is_dropped(server, app, address):
    queue((MailKind.PASSWORD_CHANGED, address))
    assert deliver() == (1, 0)
    assert rows(app, OutboxMail) == []
    assert dropped(app) == 1
    assert server.box.mail_commands == 0


@pytest.fixture
def dead_server(use_server):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        use_server(smtp.MailServer("127.0.0.1", unused.getsockname()[1], False))
        yield


@pytest.mark.usefixtures("dead_server")
def test_waits_grow_while_the_server_is_dead_and_end_after_a_day(clock, app, caplog):
    queue()
    begun = core_clock.utcnow()
    waits = []
    while True:
        assert outbox.deliver_due()
        if not (left := rows(app, OutboxMail)):
            break
        waits.append(wait_of(left[0]))
        clock.move(seconds=waits[-1] + 0.1)
    assert 0 < waits[0] <= 30
    assert waits[:8] == sorted(waits[:8])
    assert max(waits) <= 3600
    assert waits[-1] >= 1800
    assert timedelta(days=1) <= core_clock.utcnow() - begun < timedelta(days=1, hours=1)
    assert 24 <= len(waits) < 70
    assert caplog.records[-1].levelno == logging.ERROR
    assert "given up after a day" in caplog.records[-1].getMessage()
    assert dropped(app) == 1


@pytest.mark.usefixtures("dead_server")
def test_dead_server_is_tried_once_in_a_run_and_the_log_says_why(app, caplog):
    queue(*numbered(5))
    assert deliver() == (0, 1)
    assert sorted(row.attempts for row in rows(app, OutboxMail)) == [0, 0, 0, 0, 1]
    assert sum(wait_of(row) > 0 for row in rows(app, OutboxMail)) == 1
    (record,) = [r for r in caplog.records if r.name == "accounts.mail"]
    assert "ConnectionRefusedError" in record.getMessage()
    assert "example.org" not in record.getMessage()


@on_both
def test_new_mails_go_before_retried_ones_and_older_ones_before_newer_ones(server):
    kinds = [(MailKind.PASSWORD_CHANGED, f"{name}@example.org") for name in "abcd"]
    queue(*kinds)
    now = core_clock.utcnow()
    for address, attempts, waited in [("a", 0, 1), ("b", 1, 9), ("c", 0, 3), ("d", 0, 2)]:
        with transaction() as session:
            this = update(OutboxMail).where(OutboxMail.address == f"{address}@example.org")
            due_at = now - timedelta(seconds=waited)
            session.execute(this.values(attempts=attempts, due_at=due_at))
    assert deliver() == (4, 0)
    assert [to[0] for _, (to,) in server.box.envelopes] == ["c", "d", "a", "b"]


@on_both
def test_mail_that_somebody_waits_for_goes_first_also_during_a_run(server, make_user):
    make_user(email=STUDENT)
    queue(*numbered(3))
    waiting = iter([STUDENT])

    def stopping():
        if len(server.box.mails) == 1 and (address := next(waiting, None)):
            queue((MailKind.PASSWORD_RESET, address))
        return False

    assert outbox.deliver_due(stopping) is False
    subjects = [str(mail["Subject"]) for mail in server.box.mails]
    changed = "Your password was changed"
    assert subjects == [changed, "Choose a new password", changed, changed]


def test_mail_that_cannot_be_written_waits_and_does_not_stop_the_others(server, app):
    """Of a newer version of the service, say, that runs beside this one on the same database."""
    queue()
    with transaction() as session:
        session.execute(update(OutboxMail).values(kind="from_the_future"))
    queue()
    assert deliver() == (1, 1)
    (row,) = rows(app, OutboxMail)
    assert 0 < wait_of(row) <= 30


def test_run_that_is_told_to_stop_takes_no_further_mail(server, app):
    queue(*numbered(3))
    outbox.deliver_due(stopping=lambda: len(server.box.mails) == 1)
    assert len(server.box.mails) == 1
    assert [row.claimed for row in rows(app, OutboxMail)] == [False, False]


# Claims


@on_both
def test_claim_of_a_crashed_worker_is_taken_after_its_lease(server, clock, app):
    queue()
    assert outbox._claim() is not None
    assert deliver() == (0, 0)
    clock.move(seconds=outbox.LEASE.total_seconds() + 1)
    assert deliver() == (1, 0)
    assert rows(app, OutboxMail) == []


@on_both
def test_worker_that_comes_back_too_late_does_not_touch_what_another_has(clock, app):
    queue()
    late = outbox._claim()
    clock.move(seconds=outbox.LEASE.total_seconds() + 1)
    other = outbox._claim()
    assert other.id == late.id
    before = rows(app, OutboxMail)
    outbox._postpone(late, "slow")
    outbox._settle(late, delete(OutboxMail))
    outbox._drop(late, "is dropped")
    assert rows(app, OutboxMail) == before
    assert dropped(app) == 0
    outbox._settle(other, delete(OutboxMail))
    assert rows(app, OutboxMail) == []


def test_a_lease_outlasts_a_delivery():
    """It connects, starts TLS, waits for nine responses, and writes the mail before all that."""
    assert outbox.LEASE.total_seconds() >= 12 * smtp.TIMEOUT


@on_both
def test_three_workers_deliver_each_mail_exactly_once(app, server):
    queue(*numbered(60))

    def work(_):
        with app.app_context():
            while rows(app, OutboxMail):
                outbox.deliver_due()

    race(work, 3)
    got = [to for _, (to,) in server.box.envelopes]
    assert sorted(got) == sorted(address for _, address in numbered(60))


# Limits


@pytest.mark.parametrize(("minutes", "window"), [(30, 30), (5, 5), (180, 60)])
def test_beyond_the_limit_there_is_always_a_reset_mail_with_a_living_link(
    make_app, make_user, clock, minutes, window
):
    """However often a stranger asks, and whenever."""
    app = make_app(ratelimit_enabled=True, reset_token_minutes=minutes)
    make_user(email=STUDENT)
    asked = []
    for _ in range(3 * window):
        success(forgot(app.test_client(), STUDENT))
        asked.append(len(rows(app, OutboxMail)))
        clock.move(minutes=1)
    assert [asked[minute] for minute in (0, 1, 2, 3, window - 1)] == [1, 2, 3, 3, 3]
    assert [asked[minute] for minute in (window, window + 1, 2 * window - 1)] == [4, 5, 6]
    assert asked[-1] == 9


@pytest.mark.parametrize("has_password", [True, False])
def test_mail_of_an_admin_is_never_dropped_without_a_word(
    make_app, make_user, log_in, clock, has_password
):
    app = make_app(ratelimit_enabled=True, log_format="json")
    first, second = (make_user(name, role="admin") for name in ("one", "two"))
    client, log = app.test_client(), Log()
    kind = "password_reset" if has_password else "invitation"
    hashes = {} if has_password else {"password_hash": passwords.unusable()}
    user, other = make_user(email=STUDENT, **hashes), make_user("other")
    for _ in range(3):  # which a stranger can do
        success(forgot(client, STUDENT))

    def send(to=user, by=first, **more):
        path, headers = f"/api/users/{to.id}/access-link", log_in(by).headers
        return client.post(path, json={"deliver": "mail", **more}, headers=headers)

    for number in range(5):
        success(send())
        waiting = [row.kind for row in rows(app, OutboxMail)].count(kind)
        assert waiting == number + 1 + 3 * has_password
    refusal = send(by=second, replacePassword=True)
    failure(refusal, 429, "too_many_requests")
    assert 3500 < int(refusal.headers["Retry-After"]) <= 3600
    reached = [line["user"] for line in log.events() if line["message"] == "limit_reached"]
    assert reached == [user.id]
    success(send(other))
    clock.move(minutes=61)
    success(send())
