"""The outbox: mails that go out if, and only if, the transaction that asked for them commits.

A row names a kind of mail and an address. Delivery is at least once: a worker claims one row with
a lease, sends the mail while it holds neither a transaction nor a connection to the database, and
settles the row. When it dies in between, the lease ends and another worker takes the row.

Services do not commit, but claiming and settling are use cases of their own, run by the background
worker and by `flask mail send`, so this module commits them itself.
"""

import logging
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.message import EmailMessage
from typing import NamedTuple, Protocol

from flask import current_app
from sqlalchemy import ColumnElement, delete, or_, select, update
from sqlalchemy.event import listens_for
from sqlalchemy.orm import Session

from core import clock, smtp
from core.message import build
from database import change, is_unavailable, reading, transaction
from extensions import db, settings
from models import OutboxMail
from services import letters
from services.letters import MailKind

# How long a claimed mail is its worker's alone: smtp.DELIVERY_TIMEOUT, and time to write the mail
# before and to settle its row after.
LEASE = timedelta(seconds=30)
# The wait after the first failure, in seconds; twice as long after each further one, up to the
# longest. Up to half of it is taken off at random, so that many mails do not come back as one.
FIRST_WAIT = 10
LONGEST_WAIT = 3600
GIVE_UP_AFTER = timedelta(days=1)

_log = logging.getLogger("accounts.mail")
_chance = secrets.SystemRandom()
_WAKE = "outbox_wake"


@dataclass
class Tally:
    """What one run did: mails sent, failed for now, and dropped for good."""

    sent: int = 0
    failed: int = 0
    dropped: int = 0
    server_down: bool = False


class _Claim(NamedTuple):
    """A mail that this worker may send until its lease ends."""

    id: str
    kind: str
    address: str
    created_at: datetime
    attempts: int


class _Transport(Protocol):
    def send(self, message: EmailMessage) -> None: ...


class _Printer:
    """Where there is no mail server, in development, mails are printed to the log."""

    def send(self, message: EmailMessage) -> None:
        body = message.get_body(("plain",))
        text = body.get_content() if body else ""
        _log.info("Mail\nTo: %s\nSubject: %s\n\n%s", message["To"], message["Subject"], text)


def queue(kind: MailKind, address: str) -> None:
    """Add a mail to the caller's transaction; it is delivered right after that commits."""
    db.session.add(OutboxMail(kind=kind.value, address=address))
    worker = current_app.extensions.get("background")
    if worker is not None:
        db.session.info[_WAKE] = worker.wake


def withdraw(address: str) -> None:
    """Take back the mails that need an account, which is going; the notices to its owner stay."""
    about = [MailKind.PASSWORD_RESET.value, MailKind.EMAIL_VERIFICATION.value]
    change(delete(OutboxMail).where(OutboxMail.address == address, OutboxMail.kind.in_(about)))


@listens_for(db.session, "after_commit")
def _wake_worker(session: Session) -> None:
    wake: Callable[[], None] | None = session.info.pop(_WAKE, None)
    if wake is not None:
        wake()


def deliver_due(
    stopping: Callable[[], bool] = lambda: False, *, after_outage: bool = False
) -> Tally:
    """Send the mails that are due, until none is left, the server is down or `stopping()`.

    A mail that fails comes due again after this run, so the run ends. An idle one costs a SELECT.
    `after_outage`: once one mail is sent, the server is back, and all that wait become due.
    """
    tally = Tally()
    start = clock.utcnow()
    with _transport() as transport:
        for mail in _claim_due(start):
            error = _deliver(mail, transport, tally)
            if after_outage and tally.sent:
                _end_waits(start)
                after_outage = False
            if stopping():
                break
            if isinstance(error, smtp.ServerDown):
                # The other mails stay due, and are there for the next run.
                tally.server_down = True
                break
    return tally


def send_all() -> Tally:
    """Try every mail once, due or not, except those that another worker is sending right now.

    When the server cannot be reached, the rest counts as failed without being tried.
    """
    tally = Tally()
    free = or_(~OutboxMail.claimed, OutboxMail.due_at <= clock.utcnow())
    with reading() as connection:
        ids = connection.scalars(select(OutboxMail.id).where(free).order_by(OutboxMail.due_at))
        waiting = list(ids)
    with _transport() as transport:
        for tried, mail_id in enumerate(waiting, start=1):
            mail = _claim(OutboxMail.id == mail_id, free)
            if mail is None:
                continue
            error = _deliver(mail, transport, tally)
            if isinstance(error, smtp.ServerDown) and error.connecting:
                tally.server_down = True
                tally.failed += len(waiting) - tried
                break
    return tally


def _transport() -> smtp.Connection | nullcontext[_Printer]:
    server = settings.mail_url
    return smtp.Connection(server) if server else nullcontext(_Printer())


def _claim_due(start: datetime) -> Iterator[_Claim]:
    due = OutboxMail.due_at <= start
    # Asked by reading first: an empty outbox, the usual case, takes no lock to be seen empty.
    while _any(due):
        mail = _claim(due)
        if mail is None:  # another worker was faster
            return
        yield mail


def _any(condition: ColumnElement[bool]) -> bool:
    with reading() as connection:
        return connection.scalar(select(OutboxMail.id).where(condition).limit(1)) is not None


def _claim(*conditions: ColumnElement[bool]) -> _Claim | None:
    """Take a mail, and count the attempt; None when there is none.

    It is one with the fewest attempts, so that each gets its turn while a dead server is only
    probed, and of those the one that has been due longest.
    """
    # SQLite knows no SKIP LOCKED and needs none: there, one transaction writes at a time.
    first = (
        select(OutboxMail.id)
        .where(*conditions)
        .order_by(OutboxMail.attempts, OutboxMail.due_at)
        .limit(1)
        .with_for_update(skip_locked=True)
    )
    with transaction() as session:
        # Asked for the time here, since waiting for the turn to write is no part of the lease.
        row = session.execute(
            update(OutboxMail)
            .where(OutboxMail.id == first.scalar_subquery())
            .values(claimed=True, due_at=clock.utcnow() + LEASE, attempts=OutboxMail.attempts + 1)
            .returning(
                OutboxMail.id,
                OutboxMail.kind,
                OutboxMail.address,
                OutboxMail.created_at,
                OutboxMail.attempts,
            )
            .execution_options(synchronize_session=False)
        ).one_or_none()
    return _Claim(*row) if row else None


def _deliver(mail: _Claim, transport: _Transport, tally: Tally) -> Exception | None:
    """Send a claimed mail and settle it; return what hindered it, if anything did."""
    try:
        message = _write(mail)
        if message is not None:
            transport.send(message)
    except smtp.MailRefused as error:
        _log.error("Mail %s (%s) is dropped: %s", mail.id, mail.kind, error)
        tally.dropped += 1
        _remove(mail)
        return error
    except Exception as error:
        if is_unavailable(error):
            raise  # then the row cannot be settled either; its lease will end
        if not isinstance(error, smtp.MailDeferred):
            _log.exception("Mail %s (%s) could not be written", mail.id, mail.kind)
        _postpone(mail, error, tally)
        return error
    if message is None:
        tally.dropped += 1
    else:
        _log.info("Mail %s (%s) is sent", mail.id, mail.kind)
        tally.sent += 1
    _remove(mail)
    return None


def _write(mail: _Claim) -> EmailMessage | None:
    letter = letters.compose(MailKind(mail.kind), mail.address, queued_at=mail.created_at)
    try:
        message = build(
            sender=settings.sender,
            recipient=mail.address,
            subject=letter.subject,
            text=letter.text,
            html=letter.html,
            mail_id=mail.id,
            created_at=mail.created_at,
        )
        return message if letter.wanted else None
    except ValueError as error:
        raise smtp.MailRefused(str(error)) from None


def _postpone(mail: _Claim, error: Exception, tally: Tally) -> None:
    now = clock.utcnow()
    reason = error if isinstance(error, smtp.MailDeferred) else type(error).__name__
    if now - mail.created_at >= GIVE_UP_AFTER:
        _log.error("Mail %s (%s) is given up after a day: %s", mail.id, mail.kind, reason)
        tally.dropped += 1
        _remove(mail)
        return
    longest = min(FIRST_WAIT * 2 ** min(mail.attempts - 1, 16), LONGEST_WAIT)
    wait = timedelta(seconds=_chance.uniform(longest / 2, longest))
    _log.warning(
        "Mail %s (%s) waits %d s more: %s", mail.id, mail.kind, wait.total_seconds(), reason
    )
    tally.failed += 1
    with transaction() as session:
        session.execute(
            update(OutboxMail)
            .where(*_still_ours(mail))
            .values(claimed=False, due_at=now + wait)
            .execution_options(synchronize_session=False)
        )


def _end_waits(now: datetime) -> None:
    # Rows that another process has locked are left to it, so that no two wait for each other.
    waiting = (
        select(OutboxMail.id)
        .where(~OutboxMail.claimed, OutboxMail.due_at > now)
        .with_for_update(skip_locked=True)
    )
    with transaction() as session:
        session.execute(
            update(OutboxMail)
            .where(OutboxMail.id.in_(waiting))
            .values(due_at=now)
            .execution_options(synchronize_session=False)
        )


def _remove(mail: _Claim) -> None:
    with transaction() as session:
        session.execute(
            delete(OutboxMail)
            .where(*_still_ours(mail))
            .execution_options(synchronize_session=False)
        )


def _still_ours(mail: _Claim) -> Iterable[ColumnElement[bool]]:
    # Another worker that took the mail after our lease has counted one attempt more.
    return OutboxMail.id == mail.id, OutboxMail.attempts == mail.attempts
