"""What the token of a link does: it sets a password, or verifies or restores an e-mail address.

Resets follow the OWASP Forgot Password Cheat Sheet: the token works once and expires soon, all
sessions end, and the user is notified.
"""

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import func, update

import errors
from core.tokens import Purpose, TokenExpired, TokenInvalid
from database import change
from extensions import tokens
from models import User, UserRow
from services import accounts, identity, links, outbox, profiles, sessions
from services.letters import MailKind

CHOOSE_PASSWORD, VERIFY_EMAIL, UNDO = "choose_password", "verify_email", "undo_email_change"
_ACTIONS = {
    Purpose.PASSWORD_RESET: CHOOSE_PASSWORD,
    Purpose.INVITATION: CHOOSE_PASSWORD,
    Purpose.ACCESS_LINK: CHOOSE_PASSWORD,
    Purpose.EMAIL_VERIFICATION: VERIFY_EMAIL,
    Purpose.EMAIL_UNDO: UNDO,
}


class Found(NamedTuple):
    """The account that the token of a link is for, and the e-mail address that it is about."""

    purpose: Purpose
    user: UserRow
    email: str
    change: str  # the id of the change of the address that it undoes, or ""
    expires_at: datetime


def find(token: str, action: str | None = None) -> Found:
    """Return what the token of a link is good for: for this action, or for any.

    Raises InvalidToken if it is malformed, expired or used, or if what it is bound to has changed.
    """
    for purpose, own_action in _ACTIONS.items():
        if action in (None, own_action):
            with suppress(TokenInvalid, TokenExpired):
                return _find(purpose, tokens.decode(purpose, token))
    raise errors.InvalidToken


def check(token: str) -> dict[str, object]:
    """Return what the token of a link does, for whom and how long. Raises InvalidToken."""
    found = find(token)
    action = _ACTIONS[found.purpose]
    # Somebody else may have registered this address, with an insult as the username.
    username = "" if action == VERIFY_EMAIL else found.user.username
    return {**found._asdict(), "action": action, "username": username}


def _find(purpose: Purpose, claims: Mapping[str, Any]) -> Found:
    user = profiles.read_user(User.id == claims["sub"])
    if user is None:
        raise errors.InvalidToken
    email, change_id = user.email, claims.get("change", "")
    if purpose is Purpose.EMAIL_UNDO:
        email = identity.old_email(user.id, change_id)
    elif (
        not user.is_active
        or claims["bound"] != links.bound_to(purpose, user)
        or (purpose is Purpose.EMAIL_VERIFICATION and user.email_verified_at)
    ):
        raise errors.InvalidToken
    return Found(purpose, user, email, change_id, datetime.fromtimestamp(claims["exp"], UTC))


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
