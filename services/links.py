"""Links with a signed token: to choose a password, or to verify an e-mail address."""

import hashlib
import struct
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from extensions import settings
from models import User, UserRow
from services import signed

CODE_LIFE = timedelta(days=1)


class Action(StrEnum):
    """What a link does. Each has a salt of its own: a token is never valid for another action."""

    CHOOSE_PASSWORD = "choose_password"
    VERIFY_EMAIL = "verify_email"


# The user's id, what the token is bound to, and whether it was sent by mail.
_PAYLOAD = struct.Struct("!16s16s?")


class Link(NamedTuple):
    """A URL with a token in its fragment, which browsers do not send."""

    link: str
    expires_at: datetime


def make(
    action: Action, user_id: str, bound: str, *, expires_at: datetime, by_mail: bool = True
) -> Link:
    """Return a new link for a user, to be sent `by_mail` or handed over. `bound` is a UUID.

    Its token has 94 characters, so that a link fits into two lines of an e-mail.
    """
    payload = _PAYLOAD.pack(UUID(user_id).bytes, UUID(bound).bytes, by_mail)
    token = signed.sign(action, payload, end=expires_at)
    page = settings.reset_page if action is Action.CHOOSE_PASSWORD else settings.verification_page
    return Link(f"{page}#token={token}", expires_at)


def read(action: Action, token: str) -> tuple[str, str, datetime, bool]:
    """Return what a token for this action says: the user's id, what it is bound to, its end, and
    whether it was sent by mail. Raises InvalidToken, also if it has expired.
    """
    payload, expires_at = signed.read_fresh(action, token)
    user_id, bound, by_mail = _PAYLOAD.unpack(payload)
    return str(UUID(bytes=user_id)), str(UUID(bytes=bound)), expires_at, by_mail


def bound_to(action: Action, user: User | UserRow) -> str:
    """Return what a token is bound to, as a UUID; it stops working when that changes."""
    bound = user.email
    if action is Action.CHOOSE_PASSWORD:
        bound += f"\0{user.password_hash}\0{user.password_version}"
    return str(UUID(bytes=hashlib.sha256(bound.encode()).digest()[:16]))
