"""The texts of our mails, made at the moment they are sent.

No text that a stranger chose (a name, a username) goes into a mail: anybody could register a
victim's address with an advertisement for a name, and we would deliver it.
"""

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from types import SimpleNamespace
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from flask import render_template
from sqlalchemy import Row, select

from core import clock
from core.tokens import Purpose, fingerprint
from database import reading
from extensions import settings, tokens
from models import User

VERIFICATION_DAYS = 3


class MailKind(StrEnum):
    """What a mail is about; also the name of its templates."""

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
    """A mail's words; not `wanted` when there is nobody to write to, or nothing to say any more."""

    subject: str
    text: str
    html: str
    wanted: bool


def compose(kind: MailKind, address: str, *, queued_at: datetime) -> Letter:
    """Return the words of a mail.

    The account is looked up only now. So a request for an unknown address costs and looks the
    same as for a known one, and the token in a link exists nowhere but in the mail. A letter to
    nobody is written all the same: other calls could feel whether this process is busy.
    """
    facts: dict[str, Any] = {
        "site": urlsplit(settings.public_url).netloc,
        "happened_at": f"{queued_at:%d %B %Y, %H:%M} UTC",
    }
    wanted = True
    if kind is MailKind.PASSWORD_RESET:
        user = _find(address) or _NOBODY
        wanted = user.is_active
        life = timedelta(minutes=settings.reset_token_minutes)
        token = _mint(Purpose.PASSWORD_RESET, user.id, life, bound_to=user.password_hash)
        facts |= {"link": f"{settings.reset_page}#token={token}", "life": _in_words(life)}
    elif kind is MailKind.EMAIL_VERIFICATION:
        user = _find(address) or _NOBODY
        wanted = user.email_verified_at is None
        life = timedelta(days=VERIFICATION_DAYS)
        token = _mint(Purpose.EMAIL_VERIFICATION, user.id, life, bound_to=user.email)
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


def _find(address: str) -> Row[str, str, str, bool, datetime | None] | None:
    query = select(
        User.id, User.email, User.password_hash, User.is_active, User.email_verified_at
    ).where(User.email == address)
    with reading() as connection:
        return connection.execute(query).one_or_none()


def _mint(purpose: Purpose, user_id: str, life: timedelta, *, bound_to: str) -> str:
    now = clock.utcnow()
    return tokens.encode(
        purpose, user_id, issued_at=now, expires_at=now + life, bound=fingerprint(bound_to)
    )


def _in_words(life: timedelta) -> str:
    minutes = int(life.total_seconds()) // 60
    for unit, size in (("day", 1440), ("hour", 60), ("minute", 1)):
        if minutes % size == 0:
            return f"{minutes // size} {unit}{'s' if minutes > size else ''}"
    raise AssertionError("every number of minutes is a multiple of one")
