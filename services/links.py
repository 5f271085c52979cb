"""Links with a signed token: to choose a password, or to verify or restore an e-mail address."""

import hashlib
import re
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from itsdangerous import BadSignature, Signer

import errors
from core import clock
from extensions import settings
from models import User, UserRow

CODE_LIFE = timedelta(days=1)
UNDO_LIFE = timedelta(days=7)


class Action(StrEnum):
    """What a link does. Each has a salt of its own: a token is never valid for another action."""

    CHOOSE_PASSWORD = "choose_password"
    VERIFY_EMAIL = "verify_email"
    UNDO = "undo_email_change"


_PAGES = {
    Action.CHOOSE_PASSWORD: lambda: settings.reset_page,
    Action.VERIFY_EMAIL: lambda: settings.verification_page,
    Action.UNDO: lambda: f"{settings.public_url}/undo-email-change",
}
# The last of a signature's 43 characters holds four bits. itsdangerous ignores its two other bits,
# so it would accept four spellings of each token.
_TOKEN = re.compile(r"[\w.-]+\.[\w-]{42}[048AEIMQUYcgkosw]", re.ASCII)


class Link(NamedTuple):
    """A URL with a token in its fragment, which browsers do not send."""

    link: str
    expires_at: datetime


def make(
    action: Action, user_id: str, bound: str, *, expires_at: datetime, by_mail: bool = True
) -> Link:
    """Return a new link for a user, to be sent `by_mail` or handed over.

    Its token has at most 130 characters, so that a link fits into two lines of an e-mail.
    """
    said = f"{user_id}.{int(expires_at.timestamp())}.{bound}.{by_mail:d}"
    return Link(f"{_PAGES[action]()}#token={_signer(action).sign(said).decode()}", expires_at)


def read(action: Action, token: str) -> tuple[str, str, datetime, bool]:
    """Return what a token for this action says: the user's id, what it is bound to, its end, and
    whether it was sent by mail. Raises InvalidToken, also if it has expired.
    """
    try:
        said = _signer(action).unsign(token if _TOKEN.fullmatch(token) else "").decode()
    except BadSignature:
        raise errors.InvalidToken from None
    user_id, end, bound, by_mail = said.split(".")
    expires_at = datetime.fromtimestamp(int(end), UTC)
    if expires_at <= clock.utcnow():
        raise errors.InvalidToken
    return user_id, bound, expires_at, by_mail == "1"


def bound_to(action: Action, user: User | UserRow) -> str:
    """Return a digest of what a token is bound to; it stops working when that changes."""
    bound = user.email
    if action is Action.CHOOSE_PASSWORD:
        bound += f"\0{user.password_hash}\0{user.password_version}"
    return hashlib.sha256(bound.encode()).hexdigest()[:32]


def _signer(action: Action) -> Signer:
    # The newest key is the last one, and signs; the older ones still verify.
    keys = settings.secret_keys[::-1]
    return Signer(keys, salt=f"accounts:{action}", digest_method=hashlib.sha256)
