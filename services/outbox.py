"""The outbox: e-mails that are sent only if the transaction that queued them commits.

Delivery is at least once. A process claims one row with a lease, sends the e-mail without holding
a connection, and then deletes the row or sets the time of the next try. If it dies in between, the
lease expires and another process takes the row.
"""

import html
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage

from sqlalchemy import Delete, Update, delete, insert, select, update

import counting
from core import clock, smtp
from core.addresses import login_name
from core.ids import new_row_id
from core.message import build
from core.templates import Mail
from database import afterwards, change, change_one, is_unavailable, read_value, transaction
from extensions import components, db, settings
from models import OutboxMail, PendingEmail, User, UserRow
from services import events, letters, users
from services.letters import MailKind

# Longer than a delivery: smtplib waits for about eleven responses, each at most smtp.TIMEOUT.
LEASE = timedelta(seconds=120)
# Seconds to wait after the first failure; doubled after each further one.
FIRST_WAIT = 10
LONGEST_WAIT = 3600
GIVE_UP_AFTER = timedelta(days=1)
# After so many e-mails in a row that the server does not take, it gets no further ones for a while:
# it may refuse all of us, and a thousand invitations must not make that worse.
IN_A_ROW = 3
# Nobody sits in front of the screen any more when an e-mail has failed so often.
AWAITED_TRIES = 3
# The key of the counter of e-mails that were dropped. Its window never ends.
DROPPED, NEVER = "dropped mails", datetime.max.replace(tzinfo=UTC)

# How many e-mails of each of these kinds go to one address in a `_window`.
MAX_MAILS = 3
LIMITED = {
    MailKind.PASSWORD_RESET: "reset mails to an e-mail address",
    MailKind.EMAIL_VERIFICATION: "verification mails to an e-mail address",
    MailKind.INVITATION: "invitations to an e-mail address",
    MailKind.NEW_LOGIN: "notices of logins to an e-mail address",
}
HOUR = timedelta(hours=1)
# How many e-mails admins and teachers send to one account in an hour.
MAX_BY_STAFF, BY_STAFF = 5, "mails to an account by admins and teachers"

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
            rate = f"{MAX_MAILS} in {_window(kind) // timedelta(minutes=1)} minutes"
            events.tell("limit_reached", user_id, limit=f"{rate}: {LIMITED[kind]}")
            return False
    _add({"kind": kind.value, "address": address, "language": language, "facts": facts})
    return True


def queue_notices(kind: MailKind, *people: UserRow) -> None:
    """Queue a notice to each of these users, as `queue` does."""
    about = [{"address": user.email, "language": user.language} for user in people]
    _add(*({"kind": kind.value, **each} for each in about))


def queue_by_staff(kind: MailKind, user: UserRow) -> None:
    """Queue an e-mail that an admin or teacher sends to a user, as `queue` does, but never drop it
    without a word: raises TooManyRequests beyond `MAX_BY_STAFF`.
    """
    counting.require(BY_STAFF, MAX_BY_STAFF, "hour", account=user.id)
    _add({"kind": kind.value, "address": user.email})


def _add(*mails: Mapping[str, object]) -> None:
    if mails:
        db.session.execute(insert(OutboxMail.__table__), [*mails])
    if thread := components().background:
        afterwards(thread.wake)


def queue_invitations(addresses: Sequence[str]) -> None:
    """Queue many invitations as `queue` does, without a log line for those beyond the limit."""
    kind = MailKind.INVITATION
    _add(*({"kind": kind.value, "address": each} for each in _within_limit(kind, addresses)))


def _window(kind: MailKind) -> timedelta:
    """Return for how long e-mails of a kind are counted: no longer than their links live. So there
    is always one with a link that works, also if strangers asked for all before it.
    """
    with_link = letters.ACCOUNT_MAILS.get(kind)
    return min(HOUR, with_link.life()) if with_link else HOUR


def _within_limit(kind: MailKind, addresses: Sequence[str]) -> list[str]:
    keys = {
        each: counting.key(LIMITED[kind], account=login_name(each) or each) for each in addresses
    }
    always = kind is MailKind.NEW_LOGIN  # no limit of calls bounds it
    allowed = counting.within(keys.values(), MAX_MAILS, _window(kind), always=always)
    return [each for each, key in keys.items() if key in allowed]


def withdraw(*names: str) -> None:
    """Delete queued e-mails with a link for the account of an address or username; notices stay."""
    needs_account = OutboxMail.kind.in_(letters.ACCOUNT_MAILS)
    change(delete(OutboxMail).where(OutboxMail.address.in_(names), needs_account))


def withdraw_codes(*user_ids: str) -> None:
    """Delete the queued e-mails with the codes of users' new addresses."""
    pending = select(PendingEmail.id).where(PendingEmail.user_id.in_(user_ids))
    about = OutboxMail.facts["change_id"].as_string()
    change(delete(OutboxMail).where(about.in_(pending)))


def deliver_due(stopping: Callable[[], bool] = lambda: False) -> bool:
    """Send the e-mails that are due, until none is left, the server takes none or `stopping()`;
    return whether it takes none.
    """
    # An idle service must not take the lock to write every few seconds.
    due = select(OutboxMail.id).where(OutboxMail.due_at <= clock.utcnow())
    if read_value(due.limit(1)) is None:
        return False
    failed = 0  # in a row
    while failed < IN_A_ROW and not stopping() and (mail := _claim()):
        failures = _deliver(mail)
        failed = failed + failures if failures else 0
    return failed >= IN_A_ROW


def _claim() -> OutboxMail | None:
    """Claim a due e-mail and count the attempt; return its row, or None if none is due.

    A thousand invitations do not delay a reset, and e-mails that keep failing do not delay others.
    """
    is_awaited = OutboxMail.kind.in_(letters.AWAITED) & (OutboxMail.attempts < AWAITED_TRIES)
    # SQLite ignores SKIP LOCKED and does not need it: it runs one write transaction at a time.
    first = (
        select(OutboxMail.id)
        .where(OutboxMail.due_at <= clock.utcnow())
        .order_by(is_awaited.desc(), OutboxMail.attempts, OutboxMail.due_at)
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


def _deliver(mail: OutboxMail) -> int:
    """Send or drop an e-mail, or let it wait for another try; return how much speaks against the
    server: 0, 1 for an e-mail that it did not take, `IN_A_ROW` if it is down.
    """
    try:
        content, recipient = letters.compose(mail)
        sender = settings.sender
        message = build(content, sender, recipient or NOBODY, mail.id, mail.created_at)
        if recipient:
            _send(message)
            _log.info("Mail %s (%s) is sent", mail.id, mail.kind)
    except smtp.MailRefused as error:
        _drop(mail, f"is dropped: {error}")
    except smtp.MailDeferred as error:
        _postpone(mail, str(error))
        return IN_A_ROW if isinstance(error, smtp.ServerDown) else 1
    except Exception as error:
        if is_unavailable(error):
            raise  # the row cannot be changed either; its lease will expire
        _log.exception("Mail %s (%s) could not be written", mail.id, mail.kind)
        _postpone(mail, type(error).__name__)
    else:
        _settle(mail, delete(OutboxMail))
    return 0


def send_test(address: str) -> str:
    """Send an e-mail to an address now; return what the server said. Raises MailRefused and
    MailDeferred.
    """
    text = f"This is a test. E-mails of {settings.site} arrive here."
    content = Mail("Test", text, f"<p>{html.escape(text)}</p>")
    return _send(build(content, settings.sender, address, new_row_id(), clock.utcnow()))


def _send(message: EmailMessage) -> str:
    if settings.mail_url:
        return smtp.send(settings.mail_url, message, settings.mail_host)
    body = message.get_body(("plain",))
    text = body.get_content() if body else ""
    _log.info("Mail\nTo: %s\nSubject: %s\n\n%s", message["To"], message["Subject"], text)
    return ""


def _postpone(mail: OutboxMail, reason: str) -> None:
    now = clock.utcnow()
    if now - mail.created_at >= GIVE_UP_AFTER:
        _drop(mail, f"is given up after a day: {reason}")
        return
    wait = min(FIRST_WAIT * 2 ** min(mail.attempts - 1, 16), LONGEST_WAIT)
    _log.warning("Mail %s (%s) waits %d s more: %s", mail.id, mail.kind, wait, reason)
    later = now + timedelta(seconds=wait)
    _settle(mail, update(OutboxMail).values(claimed=False, due_at=later))


def _drop(mail: OutboxMail, why: str) -> None:
    _log.error("Mail %s (%s) %s", mail.id, mail.kind, why)
    _settle(mail, delete(OutboxMail), counts=True)


def _settle(mail: OutboxMail, statement: Update | Delete, *, counts: bool = False) -> None:
    # If our lease expired and another process claimed the row, `attempts` is higher now.
    ours = OutboxMail.id == mail.id, OutboxMail.attempts == mail.attempts
    with transaction() as session:
        if change(statement.where(*ours)) and counts:
            once = {"key": DROPPED, "hits": 1, "expires_at": NEVER}
            session.execute(counting.upsert(clock.utcnow()), once)
