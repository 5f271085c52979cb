"""Profiles, usernames, settings and pictures of users: their own view and the public one."""

import hashlib
import re
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from sqlalchemy import delete, insert, select

import errors
from callers import Caller
from config import ROOT
from core.roles import BUT_ADMINS, EVERYBODY, Role
from database import change, read_value, unique
from extensions import db, settings
from models import Avatar, User, UserRow
from services import accounts, custom_fields, events, learning, outbox, users
from services.letters import MailKind

_DEFAULT_PICTURE = Path(ROOT / "static" / "avatar.webp").read_bytes()
_DEFAULT_DIGEST = hashlib.sha256(_DEFAULT_PICTURE).hexdigest()
_NOT_YOURS = "You cannot change this yourself. Ask the operators of this service."


def profile(user: UserRow, reader: str = "user") -> dict[str, object]:
    """Return a user's own profile, with the role in effect."""
    role, avatar = users.role_in_effect(user), avatar_url(user.avatar_digest)
    shown = {**custom_fields.with_seen(user, reader), "role": role, "avatar": avatar}
    return {**shown, "may_change_account": may_change_account(user)}


def may_change_account(user: UserRow) -> bool:
    """Return whether users may change their names, username and address, and delete themselves."""
    # Of the row that the guard reads, `role` is the one in effect.
    granted = getattr(user, "granted_role", user.role)
    return settings.student_rights == "all" or granted != Role.STUDENT


def require_own_account(user: UserRow) -> None:
    """Raise Forbidden unless users may change their own account."""
    if not may_change_account(user):
        raise errors.Forbidden(_NOT_YOURS)


def public_profile(user_id: str, viewer: Caller, *, now: datetime) -> dict[str, object]:
    """Return what `viewer` may see of a user, including `progress` if the user allows it.

    Of learners within its reach, and of the own account, a viewer sees all; service keys see no
    admins. Raises UserNotFound, also for an inactive user, Forbidden, ProfilePrivate and
    RoleNeedsFactor.
    """
    reach, all_others = viewer.learners, BUT_ADMINS if viewer.is_key else EVERYBODY
    user = users.require_active(users.get_within(user_id, all_others))
    sees_all = viewer.id == user_id or users.is_within(reach, user)
    if not (user.profile_visible or sees_all):
        granted = viewer.with_factor
        if granted != reach and users.is_within(granted, user):
            raise errors.RoleNeedsFactor
        raise errors.ProfilePrivate
    sees_as_office = viewer.id == user_id or (sees_all and not viewer.member)
    reader = "user" if sees_as_office else "teachers" if sees_all else "everybody"
    shown = {**profile(user, reader), "role": user.role}
    if user.progress_visible or sees_all:
        shown["progress"] = learning.progress(user.id, user.timezone, now=now)
    return shown


def rename(user: UserRow, username: str) -> UserRow:
    """Change the username of a user whose row is locked, and notify the user if it is another one;
    return the whole row. Raises UsernameTaken.
    """
    names = {"username": username, "username_key": username.lower()}
    with unique(lambda: errors.UsernameTaken.at("username", "taken"), User.username_key):
        renamed = users.require(users.update(user.id, **names))
    if username != user.username:
        # Somebody else may have the old name before the e-mail is sent.
        outbox.withdraw(user.username_key)
        events.tell("username_changed", user.id)
        outbox.queue(MailKind.USERNAME_CHANGED, renamed.email, language=renamed.language)
    return renamed


def preferences(user: UserRow) -> dict[str, object]:
    """Return the settings of a user."""
    return {**user._asdict(), "privacy": user}


def update(user: UserRow, changes: dict[str, Any]) -> UserRow:
    """Change fields or settings, also within `privacy`; return the row.

    Raises TokenRevoked, InvalidRequest for custom fields, and Forbidden for other names where they
    are not the user's to change.
    """
    changes |= changes.pop("privacy", {})
    if sent := changes.pop("custom_fields", None):
        changes["custom_fields"] = custom_fields.accepted(sent, by_user=True)
    if not may_change_account(user):
        for name, value in (("first_name", user.first_name), ("last_name", user.last_name)):
            if changes.pop(name, value) != value:
                raise errors.Forbidden(_NOT_YOURS)
    return users.update_active(user.id, **changes) if changes else user


def set_avatar(caller: Caller, picture: bytes) -> str:
    """Replace a user's picture by this WebP file; return its URL.

    Raises TokenRevoked if the session ended while the picture was made.
    """
    digest, user_id = hashlib.sha256(picture).hexdigest(), caller.user.id
    # Also because parallel uploads must not insert two pictures.
    accounts.lock_caller(caller, replaced=None)
    users.update(user_id, avatar_digest=digest)
    change(delete(Avatar).where(Avatar.user_id == user_id))
    db.session.execute(insert(Avatar), {"user_id": user_id, "picture": picture})
    return avatar_url(digest)


def remove_avatar(user: UserRow) -> str:
    """Remove a user's picture; return the URL of the default one. Raises TokenRevoked."""
    users.update_active(user.id, avatar_digest=None)
    change(delete(Avatar).where(Avatar.user_id == user.id))
    return avatar_url(None)


def avatar_url(digest: str | None) -> str:
    """Return the URL of the picture with this digest, or of the default one for None."""
    return f"{settings.public_url}/avatars/{digest or _DEFAULT_DIGEST}.webp"


def find_picture(digest: str) -> bytes | None:
    """Return the WebP file with this digest if it is an active user's or the default one."""
    if digest == _DEFAULT_DIGEST:
        return _DEFAULT_PICTURE
    if not re.fullmatch("[0-9a-f]{64}", digest):
        return None
    query = select(Avatar.picture).join(User).where(User.avatar_digest == digest, User.is_active)
    return cast("bytes | None", read_value(query.limit(1)))
