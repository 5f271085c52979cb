"""The texts of our e-mails, rendered when they are sent.

They contain no name and no username. Otherwise anybody could register a victim's e-mail address
with an advertisement as a name, and we would deliver it.
"""

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from types import SimpleNamespace
from typing import NamedTuple
from urllib.parse import urlsplit

from flask import render_template

from core import clock
from core.tokens import Purpose, fingerprint
from extensions import settings, tokens
from models import User
from services import profiles

VERIFICATION_DAYS = 3


class MailKind(StrEnum):
    """What an e-mail is about; also the name of its templates."""

    PASSWORD_RESET = "password_reset"
    EMAIL_VERIFICATION = "email_verification"
    PASSWORD_CHANGED = "password_changed"
    ACCOUNT_DELETED = "account_deleted"


_SUBJECTS = {
    MailKind.PASSWORD_RESET: "Choose a new password",
    MailKind.EMAIL_VERIFICATION: "Confirm your e-mail address",
    MailKind.PASSWORD_CHANGED: "Your password was changed",
    MailKind.ACCOUNT_DELETED: "Your account was deleted",
}


class Letter(NamedTuple):
    """The content of an e-mail; it is sent only if `wanted`."""

    subject: str
    text: str
    html: str
    wanted: bool


def compose(kind: MailKind, address: str, *, queued_at: datetime) -> Letter:
    """Return the content of an e-mail to an address.

    The account is looked up here and not by the request, so that the response for an unknown
    address takes the same time, and so that the database never contains a usable token. The text
    is rendered even without a recipient; otherwise the load on this process would reveal whether
    the account exists.
    """
    facts: dict[str, object] = {
        "site": urlsplit(settings.public_url).netloc,
        "happened_at": f"{queued_at:%d %B %Y, %H:%M} UTC",
    }
    wanted = True
    if kind is MailKind.PASSWORD_RESET:
        user = profiles.read_user(User.email == address) or _NOBODY
        wanted = user.is_active
        life = timedelta(minutes=settings.reset_token_minutes)
        token = _token(Purpose.PASSWORD_RESET, user.id, life, bound_to=user.password_hash)
        facts |= {"link": f"{settings.reset_page}#token={token}", "life": _in_words(life)}
    elif kind is MailKind.EMAIL_VERIFICATION:
        user = profiles.read_user(User.email == address) or _NOBODY
        wanted = user.email_verified_at is None
        life = timedelta(days=VERIFICATION_DAYS)
        token = _token(Purpose.EMAIL_VERIFICATION, user.id, life, bound_to=user.email)
        facts |= {"link": f"{settings.verification_page}#token={token}", "life": _in_words(life)}
    subject = _SUBJECTS[kind]
    text = render_template(f"mail/{kind}.txt", **facts)
    html = render_template(f"mail/{kind}.html", subject=subject, **facts)
    return Letter(subject, text, html, wanted)


_NOBODY = SimpleNamespace(
    id="00000000-0000-7000-8000-000000000000",
    email="",
    password_hash="",
    is_active=False,
    email_verified_at=datetime.min.replace(tzinfo=UTC),
)


def _token(purpose: Purpose, user_id: str, life: timedelta, *, bound_to: str) -> str:
    now = clock.utcnow()
    return tokens.encode(
        purpose, user_id, issued_at=now, expires_at=now + life, bound=fingerprint(bound_to)
    )


def _in_words(life: timedelta) -> str:
    minutes = int(life.total_seconds()) // 60
    units = {"day": 1440, "hour": 60, "minute": 1}
    unit, size = next((unit, size) for unit, size in units.items() if minutes % size == 0)
    return f"{minutes // size} {unit}{'s' if minutes > size else ''}"
