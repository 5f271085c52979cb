"""Links with a signed token: to choose a password, or to verify an e-mail address."""

import hashlib
import re
import struct
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from itsdangerous import BadSignature, Signer, base64_decode, base64_encode

import errors
from core import clock
from extensions import settings
from models import User, UserRow

CODE_LIFE = timedelta(days=1)


class Action(StrEnum):
    """What a link does. Each has a salt of its own: a token is never valid for another action."""

    CHOOSE_PASSWORD = "choose_password"
    VERIFY_EMAIL = "verify_email"


_PAGES = {
    Action.CHOOSE_PASSWORD: lambda: settings.reset_page,
    Action.VERIFY_EMAIL: lambda: settings.verification_page,
}
# The last of a signature's 43 characters holds four bits. itsdangerous ignores its two other bits,
# so it would accept four spellings of each token.
_TOKEN = re.compile(r"[\w.-]+\.[\w-]{42}[048AEIMQUYcgkosw]", re.ASCII)
# The user's id, what the token is bound to, its end, and whether it was sent by mail.
_SAID = struct.Struct("!16s16sI?")


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
    ids = (UUID(user_id).bytes, UUID(bound).bytes)
    said = base64_encode(_SAID.pack(*ids, int(expires_at.timestamp()), by_mail))
    return Link(f"{_PAGES[action]()}#token={_signer(action).sign(said).decode()}", expires_at)


def read(action: Action, token: str) -> tuple[str, str, datetime, bool]:
    """Return what a token for this action says: the user's id, what it is bound to, its end, and
    whether it was sent by mail. Raises InvalidToken, also if it has expired.
    """
    try:
        said = _signer(action).unsign(token if _TOKEN.fullmatch(token) else "")
    except BadSignature:
        raise errors.InvalidToken from None
    user_id, bound, end, by_mail = _SAID.unpack(base64_decode(said))
    expires_at = datetime.fromtimestamp(end, UTC)
    if expires_at <= clock.utcnow():
        raise errors.InvalidToken
    return str(UUID(bytes=user_id)), str(UUID(bytes=bound)), expires_at, by_mail


def bound_to(action: Action, user: User | UserRow) -> str:
    """Return what a token is bound to, as a UUID; it stops working when that changes."""
    bound = user.email
    if action is Action.CHOOSE_PASSWORD:
        bound += f"\0{user.password_hash}\0{user.password_version}"
    return str(UUID(bytes=hashlib.sha256(bound.encode()).digest()[:16]))


def _signer(action: Action) -> Signer:
    # The newest key is the last one, and signs; the older ones still verify.
    keys = settings.secret_keys[::-1]
    return Signer(keys, salt=f"accounts:{action}", digest_method=hashlib.sha256)
