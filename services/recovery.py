"""What a token from an e-mail does: it resets a password or verifies an e-mail address.

Resets follow the OWASP Forgot Password Cheat Sheet: the token works once and expires soon, all
sessions end, and the user is notified.
"""

from datetime import datetime

from sqlalchemy import func, update

import errors
from core.tokens import Purpose, TokenExpired, TokenInvalid, fingerprint
from database import change
from extensions import tokens
from models import User, UserRow
from services import outbox, profiles, sessions
from services.letters import MailKind

# The column that a token is bound to. The token stops working when its value changes.
_BOUND_TO = {Purpose.PASSWORD_RESET: "password_hash", Purpose.EMAIL_VERIFICATION: "email"}


def find_user(purpose: Purpose, token: str) -> UserRow:
    """Return the active user of a token that was sent by e-mail.

    Raises InvalidToken if it is malformed or expired, or if what it is bound to has changed.
    """
    try:
        claims = tokens.decode(purpose, token)
    except (TokenInvalid, TokenExpired):
        raise errors.InvalidToken from None
    user = profiles.read_user(User.id == claims["sub"], User.is_active)
    if user is None or claims["bound"] != fingerprint(getattr(user, _BOUND_TO[purpose])):
        raise errors.InvalidToken
    return user


def replace_password(user: UserRow, password_hash: str, *, now: datetime) -> None:
    """Set a new password, end all sessions and notify the user.

    The reset token came by e-mail, so this verifies the e-mail address too. Raises InvalidToken
    if the password was changed after `user` was read; of parallel calls with one token, one wins.
    """
    changed = change(
        update(User)
        .where(User.id == user.id, User.password_hash == user.password_hash, User.is_active)
        .values(
            password_hash=password_hash,
            password_version=User.password_version + 1,
            email_verified_at=func.coalesce(User.email_verified_at, now),
        )
    )
    if not changed:
        raise errors.InvalidToken
    sessions.end_all(user.id)
    outbox.queue(MailKind.PASSWORD_CHANGED, user.email)


def verify_email(user: UserRow, *, now: datetime) -> None:
    """Mark a user's e-mail address as verified. Raises InvalidToken if it already is."""
    changed = change(
        update(User)
        .where(User.id == user.id, User.email == user.email, User.email_verified_at.is_(None))
        .values(email_verified_at=now)
    )
    if not changed:
        raise errors.InvalidToken
