"""Accounts that are made for others, and ways in for users who have none."""

from datetime import datetime
from typing import cast

from sqlalchemy import select, update

import errors
from core import passwords
from core.roles import Role
from core.tokens import Purpose
from database import change_one
from extensions import db
from models import User, UserRow
from services import accounts, links, outbox, profiles
from services.letters import MailKind
from services.links import Link


def create(*, verified: bool, invite: bool, now: datetime, **details: str) -> User:
    """Add an account without a password and, to `invite` its user, queue an e-mail.

    Raises UsernameTaken and EmailTaken.
    """
    user = accounts.add(verified_at=now if verified else None, **details)
    if invite:
        outbox.queue(MailKind.INVITATION, user.email)
    return user


def find(user_id: str) -> UserRow:
    """Return an active user. Raises UserNotFound, and Forbidden for an admin."""
    user = profiles.read_user(User.id == user_id, User.is_active)
    return _checked(user, except_admins=True)


def remove_password(user_id: str) -> None:
    """Make the password of an active user useless at once. Raises as `find` does."""
    _lock(user_id, except_admins=True)
    accounts.remove_password(user_id)


def make_link(user_id: str, *, except_admins: bool, replace_password: bool, now: datetime) -> Link:
    """Return a link to be handed over, with which the user chooses a password.

    With `replace_password`, the present one stops working at once. For an account without a
    password, all earlier links stop working, also those in queued e-mails. For one with a password,
    a notice is queued if the e-mail address is verified. Raises UserNotFound, also for an inactive
    user, and Forbidden for an admin if those are excepted.
    """
    user = _lock(user_id, except_admins=except_admins)
    if replace_password:
        user = accounts.remove_password(user_id)
    if not passwords.is_usable(user.password_hash):
        fresh = update(User).where(User.id == user_id).values(password_hash=passwords.unusable())
        user = cast("UserRow", change_one(fresh.returning(User.__table__)))
        # A link that is not sent yet would be made for the new marker, and work.
        outbox.withdraw(user.email)
    elif user.email_verified_at:
        outbox.queue(MailKind.ACCESS_LINK_MADE, user.email, language=user.language)
    return links.make(Purpose.ACCESS_LINK, user, now=now)


def _lock(user_id: str, *, except_admins: bool) -> UserRow:
    query = select(User.__table__).where(User.id == user_id, User.is_active)
    found = cast("UserRow | None", db.session.execute(query.with_for_update()).one_or_none())
    return _checked(found, except_admins=except_admins)


def _checked(user: UserRow | None, *, except_admins: bool) -> UserRow:
    if user is None:
        raise errors.UserNotFound
    if except_admins and user.role == Role.ADMIN:
        raise errors.Forbidden
    return user
