"""Ways back into an account: the reset of a forgotten password, and the verified address.

OWASP Forgot Password Cheat Sheet: same answer for all addresses, a token that works once and
soon expires, all sessions ended, and a notice to the owner.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import func, select, update

import errors
from core.tokens import Purpose, TokenExpired, TokenInvalid, fingerprint
from database import change, reading
from extensions import tokens
from models import User, UserRow
from services import outbox, sessions
from services.letters import MailKind


def find_by_reset_token(token: str) -> UserRow:
    """Return the active user whose password this token may replace.

    Raises InvalidToken when it is unknown or expired, or when the password was changed since.
    """
    claims = _decode(Purpose.PASSWORD_RESET, token)
    user = _find_active(claims["sub"])
    if user is None or claims["bound"] != fingerprint(user.password_hash):
        raise errors.InvalidToken
    return user


def replace_password(user: UserRow, password_hash: str, *, now: datetime) -> None:
    """Set a new password for one that was forgotten, end all sessions, and tell the owner.

    Who reads the mail owns the address, so this verifies it too. Raises InvalidToken when the
    password is not the one any more that `user` had: of many calls with one token, one wins.
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


def find_by_verification_token(token: str) -> UserRow:
    """Return the active user whose address this token confirms.

    Raises InvalidToken when it is unknown, expired or for an address that the user had before.
    """
    claims = _decode(Purpose.EMAIL_VERIFICATION, token)
    user = _find_active(claims["sub"])
    if user is None or claims["bound"] != fingerprint(user.email):
        raise errors.InvalidToken
    return user


def verify_email(user: UserRow, *, now: datetime) -> None:
    """Mark a user's address as verified. Raises InvalidToken when it is already."""
    changed = change(
        update(User)
        .where(User.id == user.id, User.email == user.email, User.email_verified_at.is_(None))
        .values(email_verified_at=now)
    )
    if not changed:
        raise errors.InvalidToken


def _decode(purpose: Purpose, token: str) -> Mapping[str, Any]:
    try:
        return tokens.decode(purpose, token)
    except (TokenInvalid, TokenExpired):
        raise errors.InvalidToken from None


def _find_active(user_id: str) -> UserRow | None:
    query = select(User.__table__).where(User.id == user_id, User.is_active)
    with reading() as connection:
        return connection.execute(query).one_or_none()
