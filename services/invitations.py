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


def make_link(user_id: str, *, except_admins: bool, now: datetime) -> Link:
    """Return a link to be handed over, with which the user chooses a password.

    For an account without a password, all earlier links stop working, also those in queued
    e-mails. For one with a password, a notice is queued if the e-mail address is verified. Raises
    UserNotFound, also for an inactive user, and Forbidden for an admin if those are excepted.
    """
    query = select(User.__table__).where(User.id == user_id, User.is_active)
    found = cast("UserRow | None", db.session.execute(query.with_for_update()).one_or_none())
    user = _checked(found, except_admins=except_admins)
    if not passwords.is_usable(user.password_hash):
        fresh = update(User).where(User.id == user_id).values(password_hash=passwords.unusable())
        user = cast("UserRow", change_one(fresh.returning(User.__table__)))
        # A link that is not sent yet would be made for the new marker, and work.
        outbox.withdraw(user.email)
    elif user.email_verified_at:
        outbox.queue(MailKind.ACCESS_LINK_MADE, user.email, language=user.language)
    return links.make(Purpose.ACCESS_LINK, user, now=now)


def _checked(user: UserRow | None, *, except_admins: bool) -> UserRow:
    if user is None:
        raise errors.UserNotFound
    if except_admins and user.role == Role.ADMIN:
        raise errors.Forbidden
    return user
