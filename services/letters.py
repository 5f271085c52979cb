"""Our e-mails, written when they are sent.

`_names` says which of them may contain the names of an account.
"""

from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import select

from core import clock, codes
from core.addresses import has_mailbox
from core.templates import Mail
from database import read_value
from extensions import settings, templates
from models import OutboxMail, PendingEmail, User, UserRow
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
    USERNAME_CHANGED = "username_changed"
    SECOND_FACTOR = "second_factor"
    PROVIDER_LINKED = "provider_linked"
    NEW_LOGIN = "new_login"
    UNUSED_WARNING = "unused_warning"


class _AccountMail(NamedTuple):
    """A kind of e-mail with a link that is only valid for the account with that address."""

    action: Action
    life: Callable[[], timedelta]
    wanted: Callable[[Any], bool]


# They are withdrawn when the address changes. No other kind has a link that opens an account.
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
        wanted=lambda user: user.is_active and not users.has_way_in(user),
    ),
}
# Somebody waits for these in front of a screen, so they are sent before all others.
AWAITED = (MailKind.PASSWORD_RESET, MailKind.EMAIL_VERIFICATION, MailKind.EMAIL_CHANGE_CODE)
# An account that nobody uses is deleted so long after the warning at the earliest.
UNTIL_DELETION = timedelta(days=30)
# An address without an account costs the same work.
_NOBODY = User(id="00000000-0000-7000-8000-000000000000", email="", is_active=False)


def compose(mail: OutboxMail) -> tuple[Mail, str]:
    """Return the content of an e-mail, and its recipient; "" if nobody needs it.

    The account is looked up here and not by the request, so that the response for an unknown
    address takes the same time, and so that the database never contains a usable token. The text
    is also rendered for nobody, or the load on this process would reveal that there is no account.
    """
    kind, wanted = MailKind(mail.kind), True
    user = users.get(users.named(mail.address)) or _NOBODY
    recipient = user.email if "@" not in mail.address else mail.address  # of a username
    is_open = settings.registration == "open"
    facts: dict[str, Any] = {"happened_at": mail.created_at, "registration_open": is_open}
    facts |= {"unlinked": False, "had_passkeys": False, **_names(kind, user), **mail.facts}
    if kind in ACCOUNT_MAILS:
        action, life, is_wanted = ACCOUNT_MAILS[kind]
        bound, expires_at = links.bound_to(action, user), clock.utcnow() + life()
        facts["link"] = links.make(action, user.id, bound, expires_at=expires_at).link
        facts["life"], wanted = life(), is_wanted(user)
    elif kind is MailKind.EMAIL_CHANGE_CODE:
        # The code is bound to this change; one that was replaced or dropped needs none.
        change_id = facts.pop("change_id")
        pending = select(PendingEmail.id).where(PendingEmail.id == change_id)
        wanted = read_value(pending) is not None
        facts["code"] = codes.email_code(settings.secret_key, change_id, mail.address)
        facts["life"] = links.CODE_LIFE
    elif kind is MailKind.NEW_LOGIN:
        page = "account" if settings.account_pages else "reset-password"
        facts["link"] = f"{settings.public_url}/{page}#forgot-password"
    elif kind is MailKind.UNUSED_WARNING:
        # Not to somebody who has come back, or is gone, meanwhile.
        used_at = user.last_login_at or user.created_at
        wanted = user.warned_at is not None and used_at <= user.warned_at
        facts["deleted_at"] = mail.created_at + UNTIL_DELETION
        own = f"{settings.public_url}/account" if settings.account_pages else ""
        facts["link"] = settings.app_url or own
    language = mail.language or user.language or settings.default_language
    wanted = wanted and has_mailbox(recipient)
    shown = {name: getattr(settings, name) for name in ("site", "app_url", "imprint", "contact")}
    return templates.mail(kind, language, **shown, **facts), recipient if wanted else ""


def _names(kind: MailKind, user: User | UserRow) -> dict[str, str]:
    """Return the names that an e-mail may say: "" for an address that was never confirmed.

    Otherwise anybody could register a victim's e-mail address with an advertisement as a name, and
    we would deliver it. An invitation says the names that staff has chosen: nobody has had a way
    into an account of the first version that has none.
    """
    is_by_staff = kind is MailKind.INVITATION and user.password_version == 1
    is_safe = is_by_staff or user.email_verified_at is not None
    names = ("first_name", "last_name", "username")
    # In one line each, whatever came into the database: a blank line would begin a paragraph.
    return {name: " ".join(getattr(user, name).split()) if is_safe else "" for name in names}
