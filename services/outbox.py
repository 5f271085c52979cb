"""The outbox: e-mails that are sent only if the transaction that queued them commits.

Delivery is at least once. A process claims one row with a lease, sends the e-mail without holding
a connection, and then deletes the row or sets the time of the next try. If it dies in between, the
lease expires and another process takes the row.
"""

import logging
from collections.abc import Callable, Sequence
from datetime import timedelta
from email.message import EmailMessage

from sqlalchemy import Delete, Update, delete, select, update

import counting
from core import clock, smtp
from core.addresses import login_name
from core.message import build
from database import afterwards, change, change_one, is_unavailable, reading, transaction
from extensions import components, db, settings
from models import OutboxMail, PendingEmail, User
from services import events, letters, users
from services.letters import MailKind

# Longer than a delivery: smtplib waits for about eleven responses, each at most smtp.TIMEOUT.
LEASE = timedelta(seconds=120)
# Seconds to wait after the first failure; doubled after each further one.
FIRST_WAIT = 10
LONGEST_WAIT = 3600
GIVE_UP_AFTER = timedelta(days=1)

# How many e-mails of each of these kinds go to one address in an hour.
MAX_MAILS = 3
LIMITED = {
    MailKind.PASSWORD_RESET: "reset mails to an e-mail address",
    MailKind.EMAIL_VERIFICATION: "verification mails to an e-mail address",
    MailKind.INVITATION: "invitations to an e-mail address",
}

_log = logging.getLogger("accounts.mail")
# A message to nobody is built too, or the load would reveal that there is no account.
NOBODY = "nobody@nobody.invalid"


def queue(kind: MailKind, address: str, *, language: str | None = None, **facts: object) -> bool:
    """Queue an e-mail in the caller's transaction; the commit wakes the background thread.

    `language` is needed where no account may have this address when the e-mail is sent.
    `letters.compose` says which kinds need `facts`. Return False, and queue nothing, where the
    address, or that of this username, has had its `MAX_MAILS` of this kind; the response must not
    show it.
    """
    if kind in LIMITED:
        found = select(User.id, User.email).where(users.named(address))
        user_id, recipient = db.session.execute(found).one_or_none() or (None, address)
        if not _within_limit(kind, [recipient]):
            events.tell("limit_reached", user_id, limit=f"{MAX_MAILS} per hour: {LIMITED[kind]}")
            return False
    db.session.add(OutboxMail(kind=kind.value, address=address, language=language, facts=facts))
    if thread := components().background:
        afterwards(thread.wake)
    return True


def queue_invitations(addresses: Sequence[str]) -> None:
    """Queue many invitations as `queue` does, without a log line for those beyond the limit."""
    kind = MailKind.INVITATION
    rows = [{"kind": kind.value, "address": each} for each in _within_limit(kind, addresses)]
    db.session.add_all(OutboxMail(**row, facts={}) for row in rows)


def _within_limit(kind: MailKind, addresses: Sequence[str]) -> list[str]:
    keys = {
        each: counting.key(LIMITED[kind], account=login_name(each) or each) for each in addresses
    }
    allowed = counting.within(keys.values(), MAX_MAILS, "hour")
    return [each for each, key in keys.items() if key in allowed]


def withdraw(*names: str) -> None:
    """Delete queued e-mails with a link for the account of an address or username; notices stay."""
    needs_account = OutboxMail.kind.in_(letters.ACCOUNT_MAILS)
    change(delete(OutboxMail).where(OutboxMail.address.in_(names), needs_account))


def withdraw_code(user_id: str) -> None:
    """Delete the queued e-mail with the code of a user's new address."""
    pending = select(PendingEmail.id).where(PendingEmail.user_id == user_id)
    about = OutboxMail.facts["change_id"].as_string()
    change(delete(OutboxMail).where(about.in_(pending)))


def deliver_due(stopping: Callable[[], bool] = lambda: False) -> bool:
    """Send the e-mails that are due, until none is left, the server is down or `stopping()`;
    return whether the server is down.
    """
    # An idle service must not take the lock to write every few seconds.
    with reading() as connection:
        due = OutboxMail.due_at <= clock.utcnow()
        if connection.scalar(select(OutboxMail.id).where(due).limit(1)) is None:
            return False
    server_down = False
    while not (stopping() or server_down) and (mail := _claim()):
        server_down = _deliver(mail)
    return server_down


def _claim() -> OutboxMail | None:
    """Claim a due e-mail and count the attempt; return its row, or None if none is due.

    A thousand invitations do not delay a reset, and e-mails that keep failing do not delay others.
    """
    # SQLite ignores SKIP LOCKED and does not need it: it runs one write transaction at a time.
    first = (
        select(OutboxMail.id)
        .where(OutboxMail.due_at <= clock.utcnow())
        .order_by(OutboxMail.kind.not_in(letters.AWAITED), OutboxMail.attempts, OutboxMail.due_at)
        .limit(1)
        .with_for_update(skip_locked=True)
    )
    with transaction():
        # The lease starts here, after the wait for the write lock.
        claimed: OutboxMail | None = change_one(
            update(OutboxMail)
            .where(OutboxMail.id == first.scalar_subquery())
            .values(claimed=True, due_at=clock.utcnow() + LEASE, attempts=OutboxMail.attempts + 1)
            .returning(OutboxMail.__table__)
        )
    return claimed


def _deliver(mail: OutboxMail) -> bool:
    """Send or drop an e-mail, or let it wait for another try; return whether the server is down."""
    try:
        message = _write(mail)
        if message is not None:
            _send(message)
            _log.info("Mail %s (%s) is sent", mail.id, mail.kind)
    except smtp.MailRefused as error:
        _log.error("Mail %s (%s) is dropped: %s", mail.id, mail.kind, error)
    except smtp.MailDeferred as error:
        _postpone(mail, str(error))
        return isinstance(error, smtp.ServerDown)
    except Exception as error:
        if is_unavailable(error):
            raise  # the row cannot be changed either; its lease will expire
        _log.exception("Mail %s (%s) could not be written", mail.id, mail.kind)
        _postpone(mail, type(error).__name__)
        return False
    _settle(mail, delete(OutboxMail))
    return False


def _write(mail: OutboxMail) -> EmailMessage | None:
    content, recipient = letters.compose(mail)
    try:
        message = build(
            **content._asdict(),
            sender=settings.sender,
            recipient=recipient or NOBODY,
            mail_id=mail.id,
            created_at=mail.created_at,
        )
    except ValueError as error:
        raise smtp.MailRefused(str(error)) from None
    return message if recipient else None


def _send(message: EmailMessage) -> None:
    if settings.mail_url:
        smtp.send(settings.mail_url, message)
    else:
        body = message.get_body(("plain",))
        text = body.get_content() if body else ""
        _log.info("Mail\nTo: %s\nSubject: %s\n\n%s", message["To"], message["Subject"], text)


def _postpone(mail: OutboxMail, reason: str) -> None:
    now = clock.utcnow()
    if now - mail.created_at >= GIVE_UP_AFTER:
        _log.error("Mail %s (%s) is given up after a day: %s", mail.id, mail.kind, reason)
        _settle(mail, delete(OutboxMail))
        return
    wait = min(FIRST_WAIT * 2 ** min(mail.attempts - 1, 16), LONGEST_WAIT)
    _log.warning("Mail %s (%s) waits %d s more: %s", mail.id, mail.kind, wait, reason)
    later = now + timedelta(seconds=wait)
    _settle(mail, update(OutboxMail).values(claimed=False, due_at=later))


def _settle(mail: OutboxMail, statement: Update | Delete) -> None:
    with transaction():
        # If our lease expired and another process claimed the row, `attempts` is higher now.
        change(statement.where(OutboxMail.id == mail.id, OutboxMail.attempts == mail.attempts))
