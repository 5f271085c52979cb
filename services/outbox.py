"""The outbox: mails that go out if, and only if, the transaction that asked for them commits.

A row names a kind of mail and an e-mail address. Delivery is at least once: a process claims one
row with a lease, sends the mail while it holds neither a transaction nor a connection to the
database, and then removes the row or sets the time of the next try. When the process dies in
between, the lease ends and another one takes the row.

Services do not commit, but claiming and settling are use cases of their own, run by the background
thread and by `flask mail send`, so this module commits them itself.
"""

import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.message import EmailMessage
from typing import NamedTuple

from flask import current_app
from sqlalchemy import ColumnElement, Delete, Update, delete, select, update
from sqlalchemy.event import listens_for
from sqlalchemy.orm import Session

from core import clock, smtp
from core.message import build
from database import change, is_unavailable, reading, transaction
from extensions import db, settings
from models import OutboxMail
from services import letters
from services.letters import MailKind

# How long a claimed mail is one process's alone: longer than a delivery, in which smtplib waits for
# some eleven steps (connection, TLS, each response), at most smtp.TIMEOUT each.
LEASE = timedelta(seconds=120)
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
    """A mail that this process may send until its lease ends."""

    id: str
    kind: str
    address: str
    created_at: datetime
    attempts: int


def queue(kind: MailKind, address: str) -> None:
    """Add a mail to the caller's transaction; it is delivered right after that commits."""
    db.session.add(OutboxMail(kind=kind.value, address=address))
    if "background" in current_app.extensions:
        db.session.info[_WAKE] = current_app.extensions["background"].wake


def withdraw(address: str) -> None:
    """Remove the mails that need an account which is being deleted; notices to its owner stay."""
    about = [MailKind.PASSWORD_RESET.value, MailKind.EMAIL_VERIFICATION.value]
    change(delete(OutboxMail).where(OutboxMail.address == address, OutboxMail.kind.in_(about)))


@listens_for(db.session, "after_commit")
def _wake_thread(session: Session) -> None:
    if _WAKE in session.info:
        session.info.pop(_WAKE)()


def deliver_due(stopping: Callable[[], bool] = lambda: False) -> Tally:
    """Send the mails that are due, until none is left, the server is down or `stopping()`.

    A mail that fails comes due again after this run, so the run ends. When the server is down, the
    other mails stay due. A run with nothing to send costs a SELECT and takes no lock.
    """
    tally = Tally()
    due = OutboxMail.due_at <= clock.utcnow()
    with reading() as connection:
        if connection.scalar(select(OutboxMail.id).where(due).limit(1)) is None:
            return tally
    while not (stopping() or tally.server_down) and (mail := _claim(due)):
        _deliver(mail, tally)
    return tally


def send_all() -> Tally:
    """Try every mail once, due or not, except those that another process is sending right now.

    When the server is down, the rest is not tried; it stays due.
    """
    with transaction():
        change(update(OutboxMail).where(~OutboxMail.claimed).values(due_at=clock.utcnow()))
    return deliver_due()


def _claim(due: ColumnElement[bool]) -> _Claim | None:
    """Take a mail that is due, and count the attempt; None when there is none.

    Take one with the fewest attempts, so that mails which fail again and again do not hold up new
    ones, and of those the one that has been due longest.
    """
    # SQLite ignores SKIP LOCKED and does not need it: there, one transaction writes at a time.
    first = (
        select(OutboxMail.id)
        .where(due)
        .order_by(OutboxMail.attempts, OutboxMail.due_at)
        .limit(1)
        .with_for_update(skip_locked=True)
    )
    with transaction():
        # The lease begins now; waiting for the lock to write is no part of it.
        row = db.session.execute(
            update(OutboxMail)
            .where(OutboxMail.id == first.scalar_subquery())
            .values(claimed=True, due_at=clock.utcnow() + LEASE, attempts=OutboxMail.attempts + 1)
            .returning(*(getattr(OutboxMail, name) for name in _Claim._fields))
            .execution_options(synchronize_session=False)
        ).one_or_none()
    return _Claim(*row) if row else None


def _deliver(mail: _Claim, tally: Tally) -> None:
    """Send a claimed mail and settle it."""
    try:
        message = _write(mail)
        if message is not None:
            _send(message)
    except smtp.MailRefused as error:
        _log.error("Mail %s (%s) is dropped: %s", mail.id, mail.kind, error)
        tally.dropped += 1
        _settle(mail, delete(OutboxMail))
    except smtp.MailDeferred as error:
        tally.server_down = isinstance(error, smtp.ServerDown)
        _postpone(mail, str(error), tally)
    except Exception as error:
        if is_unavailable(error):
            raise  # then the row cannot be settled either; its lease will end
        _log.exception("Mail %s (%s) could not be written", mail.id, mail.kind)
        _postpone(mail, type(error).__name__, tally)
    else:
        if message is None:
            tally.dropped += 1
        else:
            _log.info("Mail %s (%s) is sent", mail.id, mail.kind)
            tally.sent += 1
        _settle(mail, delete(OutboxMail))


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
    except ValueError as error:
        raise smtp.MailRefused(str(error)) from None
    return message if letter.wanted else None


def _send(message: EmailMessage) -> None:
    server = settings.mail_url
    if server:
        smtp.send(server, message)
    else:  # in development, mails are printed to the log
        body = message.get_body(("plain",))
        text = body.get_content() if body else ""
        _log.info("Mail\nTo: %s\nSubject: %s\n\n%s", message["To"], message["Subject"], text)


def _postpone(mail: _Claim, reason: str, tally: Tally) -> None:
    now = clock.utcnow()
    if now - mail.created_at >= GIVE_UP_AFTER:
        _log.error("Mail %s (%s) is given up after a day: %s", mail.id, mail.kind, reason)
        tally.dropped += 1
        _settle(mail, delete(OutboxMail))
        return
    longest = min(FIRST_WAIT * 2 ** min(mail.attempts - 1, 16), LONGEST_WAIT)
    wait = _chance.uniform(longest / 2, longest)
    _log.warning("Mail %s (%s) waits %d s more: %s", mail.id, mail.kind, wait, reason)
    tally.failed += 1
    later = {"claimed": False, "due_at": now + timedelta(seconds=wait)}
    _settle(mail, update(OutboxMail).values(later))


def _settle(mail: _Claim, statement: Update | Delete) -> None:
    with transaction():
        # A process that took the mail after our lease has counted one attempt more.
        change(statement.where(OutboxMail.id == mail.id, OutboxMail.attempts == mail.attempts))
