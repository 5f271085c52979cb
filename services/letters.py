"""Our e-mails, written when they are sent.

They contain no name and no username. Otherwise anybody could register a victim's e-mail address
with an advertisement as a name, and we would deliver it.
"""

from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, select

from core import clock, codes, passwords
from core.templates import Mail
from database import reading
from extensions import Base, settings, templates
from models import EmailChange, OutboxMail, PendingEmail, User
from services import links, users
from services.links import Action


class MailKind(StrEnum):
    """What an e-mail is about; also the name of its templates."""

    PASSWORD_RESET = "password_reset"
    EMAIL_VERIFICATION = "email_verification"
    INVITATION = "invitation"
    ACCESS_LINK_MADE = "access_link_made"
    PASSWORD_CHANGED = "password_changed"
    ACCOUNT_DELETED = "account_deleted"
    EMAIL_CHANGE_CODE = "email_change_code"
    EMAIL_CHANGED = "email_changed"
    EMAIL_REPLACED = "email_replaced"
    USERNAME_CHANGED = "username_changed"
    SECOND_FACTOR = "second_factor"


class _AccountMail(NamedTuple):
    """A kind of e-mail with a link that is only valid for the account with that address."""

    action: Action
    life: Callable[[], timedelta]
    wanted: Callable[[Any], bool]


# They are withdrawn when the address changes. All other kinds have no link, or one of their own.
ACCOUNT_MAILS = {
    MailKind.PASSWORD_RESET: _AccountMail(
        Action.CHOOSE_PASSWORD,
        life=lambda: timedelta(minutes=settings.reset_token_minutes),
        wanted=lambda user: user.is_active,
    ),
    MailKind.EMAIL_VERIFICATION: _AccountMail(
        Action.VERIFY_EMAIL,
        life=lambda: timedelta(days=3),
        wanted=lambda user: user.is_active and user.email_verified_at is None,
    ),
    MailKind.INVITATION: _AccountMail(
        Action.CHOOSE_PASSWORD,
        life=lambda: timedelta(days=settings.invitation_days),
        wanted=lambda user: user.is_active and not passwords.is_usable(user.password_hash),
    ),
}
# Somebody waits for these in front of a screen, so they are sent before all others.
AWAITED = (MailKind.PASSWORD_RESET, MailKind.EMAIL_VERIFICATION, MailKind.EMAIL_CHANGE_CODE)
# An address without an account costs the same work.
_NOBODY = User(id="00000000-0000-7000-8000-000000000000", email="", is_active=False)


def compose(mail: OutboxMail) -> tuple[Mail, bool]:
    """Return the content of an e-mail, and whether anybody needs it.

    The account is looked up here and not by the request, so that the response for an unknown
    address takes the same time, and so that the database never contains a usable token. The text
    is also rendered for nobody, or the load on this process would reveal that there is no account.
    """
    kind, wanted = MailKind(mail.kind), True
    user = users.get(User.email == mail.address) or _NOBODY
    is_open = settings.registration == "open"
    facts: dict[str, object] = {"happened_at": mail.created_at, "registration_open": is_open}
    if kind in ACCOUNT_MAILS:
        action, life, is_wanted = ACCOUNT_MAILS[kind]
        bound, expires_at = links.bound_to(action, user), clock.utcnow() + life()
        facts["link"] = links.make(action, user.id, bound, expires_at=expires_at).link
        facts["life"], wanted = life(), is_wanted(user)
    elif kind is MailKind.EMAIL_CHANGE_CODE:
        # The code is bound to this change; one that was replaced or dropped needs none.
        wanted = _row(PendingEmail, PendingEmail.id == mail.about) is not None
        facts["code"] = codes.make(settings.secret_key, mail.about or "", mail.address)
        facts["life"] = links.CODE_LIFE
    elif kind is MailKind.EMAIL_CHANGED:
        done = _row(EmailChange, EmailChange.id == mail.about)
        facts["link"], facts["life"], wanted = "", links.UNDO_LIFE, done is not None
        if done:
            end = done.changed_at + links.UNDO_LIFE
            facts["link"] = links.make(Action.UNDO, done.user_id, done.id, expires_at=end).link
    elif kind is MailKind.SECOND_FACTOR:
        facts["event"], _, facts["left"] = (mail.about or "").partition(" ")
    language = mail.language or user.language or settings.default_language
    # Accounts without a mailbox have addresses under this domain, which nobody has (RFC 6761).
    wanted = wanted and not mail.address.endswith(".invalid")
    written = templates.mail(
        kind,
        language,
        site=settings.site,
        app_url=settings.app_url,
        imprint=settings.imprint,
        **facts,
    )
    return written, wanted


def _row(model: type[Base], condition: ColumnElement[bool]) -> Any:
    with reading() as connection:
        return connection.execute(select(model.__table__).where(condition)).one_or_none()
