"""Links to choose a password, or to confirm or restore an e-mail address, with a signed token."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

from sqlalchemy import Row

from core import passwords
from core.tokens import Purpose, fingerprint
from extensions import settings, tokens
from models import EmailChange, User

VERIFICATION_DAYS = 3
CODE_LIFE = timedelta(days=1)
UNDO_LIFE = timedelta(days=7)
# Minutes. Somebody who has a password gets one more way in, and should use it at once.
SECOND_WAY_IN = 60


@dataclass(frozen=True)
class Link:
    """A URL with a token in its fragment, which browsers do not send."""

    link: str
    life: timedelta
    expires_at: datetime


def make(purpose: Purpose, user: User | SimpleNamespace, *, now: datetime) -> Link:
    """Return a new link for a user."""
    life = _life(purpose, user)
    token = tokens.encode(
        purpose, user.id, issued_at=now, expires_at=now + life, bound=bound_to(purpose, user)
    )
    verifies = purpose is Purpose.EMAIL_VERIFICATION
    page = settings.verification_page if verifies else settings.reset_page
    return Link(f"{page}#token={token}", life, now + life)


def make_undo(change: EmailChange | Row[Any], *, now: datetime) -> str:
    """Return the URL of a link that undoes a change of an e-mail address."""
    token = tokens.encode(
        Purpose.EMAIL_UNDO,
        change.user_id,
        issued_at=now,
        expires_at=change.changed_at + UNDO_LIFE,
        change=change.id,
    )
    return f"{settings.public_url}/undo-email-change#token={token}"


def bound_to(purpose: Purpose, user: User | SimpleNamespace) -> str:
    """Return a digest of what a token is bound to; it stops working when that changes."""
    if purpose is Purpose.EMAIL_VERIFICATION:
        return fingerprint(user.email)
    return fingerprint(f"{user.password_hash}\0{user.email}\0{user.password_version}")


def _life(purpose: Purpose, user: User | SimpleNamespace) -> timedelta:
    if purpose is Purpose.EMAIL_VERIFICATION:
        return timedelta(days=VERIFICATION_DAYS)
    if purpose is Purpose.PASSWORD_RESET:
        return timedelta(minutes=settings.reset_token_minutes)
    if purpose is Purpose.ACCESS_LINK and passwords.is_usable(user.password_hash):
        return timedelta(minutes=SECOND_WAY_IN)
    return timedelta(days=settings.invitation_days)
