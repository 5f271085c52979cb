"""Ways in: links to hand over, and what the token of a link does.

Resets follow the OWASP Forgot Password Cheat Sheet.
"""

from contextlib import suppress
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import func

import errors
from core import passwords
from extensions import settings
from models import User, UserRow
from services import accounts, email_change, links, outbox, users
from services.letters import MailKind
from services.links import Action, Link

# Somebody who has a password gets one more way in, and should use it at once.
SECOND_WAY_IN = timedelta(hours=1)


class Found(NamedTuple):
    """The account that the token of a link is for, and the e-mail address that it is about."""

    user: UserRow
    email: str
    change: str  # the id of the change of the address that it undoes
    by_mail: bool
    expires_at: datetime


def access_link(user: User | UserRow, *, now: datetime) -> Link:
    """Return a link to be handed over, with which a user chooses a password."""
    life = timedelta(days=settings.invitation_days)
    if passwords.is_usable(user.password_hash):
        life = SECOND_WAY_IN
    action, bound = Action.CHOOSE_PASSWORD, links.bound_to(Action.CHOOSE_PASSWORD, user)
    return links.make(action, user.id, bound, expires_at=now + life, by_mail=False)


def make_link(user_id: str, *, except_admins: bool, replace_password: bool, now: datetime) -> Link:
    """Return an access link for a user.

    For an account without a password, all earlier links stop working, also those in queued e-mails.
    For one with a password, a notice is queued if the e-mail address is verified. Raises
    UserNotFound, also for an inactive user, and Forbidden for an admin if those are excepted.
    """
    user = users.require(users.lock(user_id, User.is_active), except_admins=except_admins)
    if replace_password:
        user = accounts.remove_password(user_id)
    if not passwords.is_usable(user.password_hash):
        user = users.require(users.update(user_id, password_hash=passwords.unusable()))
        # A link that is not sent yet would be made for the new marker, and work.
        outbox.withdraw(user.email)
    elif user.email_verified_at:
        outbox.queue(MailKind.ACCESS_LINK_MADE, user.email, language=user.language)
    return access_link(user, now=now)


def find(action: Action, token: str) -> Found:
    """Return what a token for this action is good for.

    Raises InvalidToken if it is malformed, expired or used, or if what it is bound to has changed.
    """
    user_id, bound, expires_at, by_mail = links.read(action, token)
    user = users.get(User.id == user_id)
    if user is None:
        raise errors.InvalidToken
    email = user.email
    if action is Action.UNDO:
        email = email_change.old_email(user.id, bound)
    elif (
        not user.is_active
        or bound != links.bound_to(action, user)
        or (action is Action.VERIFY_EMAIL and user.email_verified_at)
    ):
        raise errors.InvalidToken
    return Found(user, email, bound, by_mail, expires_at)


def check(token: str) -> dict[str, object]:
    """Return what the token of a link does, for whom and how long. Raises InvalidToken."""
    for action in Action:
        with suppress(errors.InvalidToken):
            found = find(action, token)
            # Somebody else may have registered this address, with an insult as the username.
            username = "" if action is Action.VERIFY_EMAIL else found.user.username
            return {**found._asdict(), "action": action, "username": username}
    raise errors.InvalidToken


def replace_password(found: Found, password_hash: str, *, now: datetime) -> None:
    """Set a new password, end all sessions and notify the user.

    A token that came by e-mail verifies the address too: only its reader has it. Raises
    InvalidToken if what the token is bound to has changed since it was read; of parallel calls
    with one token, one wins.
    """
    user = found.user
    changed = accounts.set_password(
        user.id,
        password_hash,
        User.password_hash == user.password_hash,
        User.password_version == user.password_version,
        User.email == user.email,
        User.is_active,
        email_verified_at=func.coalesce(User.email_verified_at, now if found.by_mail else None),
    )
    if not changed:
        raise errors.InvalidToken
    outbox.queue(MailKind.PASSWORD_CHANGED, user.email, language=user.language)


def verify_email(user: UserRow, *, now: datetime) -> None:
    """Mark a user's e-mail address as verified. Raises InvalidToken if it already is."""
    unchanged = (User.email == user.email, User.email_verified_at.is_(None))
    if not users.update(user.id, *unchanged, email_verified_at=now):
        raise errors.InvalidToken
