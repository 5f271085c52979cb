"""Our e-mails, written when they are sent.

They contain no name and no username. Otherwise anybody could register a victim's e-mail address
with an advertisement as a name, and we would deliver it.
"""

from datetime import UTC, datetime
from enum import StrEnum
from types import SimpleNamespace
from typing import Any, NamedTuple

from sqlalchemy import Row, select

from core import clock, codes, passwords
from core.templates import Mail
from core.tokens import Purpose
from database import reading
from extensions import settings, templates
from models import EmailChange, PendingEmail, User
from services import links, profiles


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


# The mails with a link that needs the account with that address.
PURPOSES = {
    MailKind.PASSWORD_RESET: Purpose.PASSWORD_RESET,
    MailKind.EMAIL_VERIFICATION: Purpose.EMAIL_VERIFICATION,
    MailKind.INVITATION: Purpose.INVITATION,
}


class Letter(NamedTuple):
    """An e-mail, and whether anybody needs it; otherwise it is not sent."""

    mail: Mail
    wanted: bool


def compose(
    kind: MailKind,
    address: str,
    *,
    queued_at: datetime,
    language: str | None = None,
    about: str = "",
) -> Letter:
    """Return an e-mail to an address, in its user's language unless another one is given.

    `about` is the id of a change of an e-mail address.

    The account is looked up here and not by the request, so that the response for an unknown
    address takes the same time, and so that the database never contains a usable token. The text
    is rendered even without a recipient; otherwise the load on this process would reveal whether
    the account exists.
    """
    user = profiles.read_user(User.email == address) or _NOBODY
    facts: dict[str, object] = {"happened_at": queued_at}
    wanted = True
    if kind in PURPOSES:
        if kind is MailKind.EMAIL_VERIFICATION:
            wanted = user.email_verified_at is None
        elif kind is MailKind.INVITATION:
            wanted = user.is_active and not passwords.is_usable(user.password_hash)
        else:
            wanted = user.is_active
        made = links.make(PURPOSES[kind], user, now=clock.utcnow())
        facts |= {"link": made.link, "life": made.life}
    elif kind is MailKind.EMAIL_CHANGE_CODE:
        # The code is bound to this change; one that was replaced or dropped needs none.
        wanted = _read(PendingEmail, about) is not None
        code = codes.make(settings.secret_key, about, address)
        facts |= {"code": code, "life": links.CODE_LIFE}
    elif kind is MailKind.ACCOUNT_DELETED:
        facts["registration_open"] = settings.registration == "open"
    elif kind is MailKind.EMAIL_CHANGED:
        done = _read(EmailChange, about)
        wanted = done is not None
        link = links.make_undo(done, now=clock.utcnow()) if done else ""
        facts |= {"link": link, "life": links.UNDO_LIFE}
    language = language or user.language or settings.default_language
    return Letter(templates.mail(kind, language, site=settings.site, **facts), wanted)


def _read(table: type[PendingEmail | EmailChange], change_id: str) -> Row[Any] | None:
    with reading() as connection:
        return connection.execute(
            select(table.__table__).where(table.id == change_id)
        ).one_or_none()


_NOBODY = SimpleNamespace(
    id="00000000-0000-7000-8000-000000000000",
    email="",
    language="",
    password_hash="",
    password_version=0,
    is_active=False,
    email_verified_at=datetime.min.replace(tzinfo=UTC),
)
