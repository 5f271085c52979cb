"""What the token of a link does: it sets a password or verifies an e-mail address.

Resets follow the OWASP Forgot Password Cheat Sheet: the token works once and expires soon, all
sessions end, and the user is notified.
"""

from contextlib import suppress
from datetime import datetime

from sqlalchemy import func, update

import errors
from core.tokens import Purpose, TokenExpired, TokenInvalid
from database import change
from extensions import tokens
from models import User, UserRow
from services import accounts, links, outbox, profiles, sessions
from services.letters import MailKind

# With which a password can be chosen. Those that came by mail verify the e-mail address too.
_WAYS_IN = (Purpose.PASSWORD_RESET, Purpose.INVITATION, Purpose.ACCESS_LINK)


def find_way_in(token: str) -> tuple[Purpose, UserRow]:
    """Return the purpose and the active user of a token that lets a password be chosen.

    Raises InvalidToken.
    """
    for purpose in _WAYS_IN:
        with suppress(errors.InvalidToken):
            return purpose, find_user(purpose, token)
    raise errors.InvalidToken


def find_user(purpose: Purpose, token: str) -> UserRow:
    """Return the active user of the token of a link.

    Raises InvalidToken if it is malformed or expired, or if what it is bound to has changed.
    """
    try:
        claims = tokens.decode(purpose, token)
    except (TokenInvalid, TokenExpired):
        raise errors.InvalidToken from None
    user = profiles.read_user(User.id == claims["sub"], User.is_active)
    if user is None or claims["bound"] != links.bound_to(purpose, user):
        raise errors.InvalidToken
    return user


def replace_password(user: UserRow, password_hash: str, *, verifies: bool, now: datetime) -> None:
    """Set a new password, end all sessions and notify the user.

    A token that came by e-mail `verifies` the e-mail address too. Raises InvalidToken if what the
    token is bound to was changed after `user` was read; of parallel calls with one token, one wins.
    """
    verified_at = func.coalesce(User.email_verified_at, now if verifies else None)
    changed = change(
        update(User)
        .where(
            User.id == user.id,
            User.password_hash == user.password_hash,
            User.password_version == user.password_version,
            User.email == user.email,
            User.is_active,
        )
        .values(
            password_hash=password_hash,
            password_version=User.password_version + 1,
            email_verified_at=verified_at,
        )
    )
    if not changed:
        raise errors.InvalidToken
    accounts.drop_pending_email(user.id)
    sessions.end_all(user.id)
    outbox.queue(MailKind.PASSWORD_CHANGED, user.email, language=user.language)


def verify_email(user: UserRow, *, now: datetime) -> None:
    """Mark a user's e-mail address as verified. Raises InvalidToken if it already is."""
    changed = change(
        update(User)
        .where(User.id == user.id, User.email == user.email, User.email_verified_at.is_(None))
        .values(email_verified_at=now)
    )
    if not changed:
        raise errors.InvalidToken
