"""Accounts as admins and operators list and change them.

Calls of service keys set `except_admins`, because keys neither see nor change accounts of admins.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import func, select

import errors
from core import audit, clock
from core.addresses import fold
from core.roles import Role
from database import reading
from models import User, UserRow
from services import accounts, sessions, users

_NO_ADMIN = User.role != Role.ADMIN.value


def list_accounts(
    *, page: int, per_page: int, search: str = "", except_admins: bool = False, **columns: Any
) -> tuple[Sequence[UserRow], int]:
    """Return a page of the matching accounts, newest first, and how many match in all.

    `search` is part of a username, an e-mail address or a name, or of both names together. Of the
    `columns`, None matches any value.
    """
    if "username" in columns:
        columns["username_key"] = columns.pop("username").lower()
    wanted = [getattr(User, name) == value for name, value in columns.items() if value is not None]
    if search:
        wanted.append(User.search_key.contains(fold(search), autoescape=True))
    if except_admins:
        wanted.append(_NO_ADMIN)
    # Ids begin with their time (UUID version 7).
    found = select(User.__table__).where(*wanted).order_by(User.id.desc())
    with reading() as connection:
        total = connection.scalar(select(func.count()).select_from(User).where(*wanted)) or 0
        first = (page - 1) * per_page
        if first >= total:
            return [], total
        rows: Sequence[Any] = connection.execute(found.offset(first).limit(per_page)).all()
        return rows, total


def alter(
    user_id: str,
    *,
    role: str | None = None,
    is_active: bool | None = None,
    email_verified: bool = False,
    except_admins: bool = False,
) -> tuple[UserRow, UserRow]:
    """Change an account; return its row before and after.

    A new role or a deactivation ends all its sessions, and for good all links to choose a password.
    Raises UserNotFound, LastAdmin and Forbidden.
    """
    if except_admins and role == Role.ADMIN:
        raise errors.Forbidden
    may_lose_admin = role not in (None, Role.ADMIN) or is_active is False
    admins = accounts.lock_admins(user_id) if may_lose_admin else None
    # Locked, so that the values that are compared below are those that the UPDATE replaces.
    before = users.require(users.lock(user_id, key_share=True), except_admins=except_admins)
    values: dict[str, Any] = {
        name: value
        for name, value in {"role": role, "is_active": is_active}.items()
        if value is not None and value != getattr(before, name)
    }
    if email_verified and before.email_verified_at is None:
        values["email_verified_at"] = clock.utcnow()
    if not values:
        return before, before
    if admins == [user_id]:
        raise errors.LastAdmin
    shuts_out = "role" in values or values.get("is_active") is False
    if shuts_out:
        values["password_version"] = before.password_version + 1
    after = users.require(users.update(user_id, **values))
    if shuts_out:
        sessions.end_all(user_id)
    return before, after


def delete(user_id: str, *, except_admins: bool = False) -> None:
    """Delete an account with everything stored about it, and notify its e-mail address.

    Raises UserNotFound, LastAdmin and Forbidden.
    """
    if not accounts.delete(user_id, *([_NO_ADMIN] if except_admins else [])):
        users.require(users.lock(user_id))
        raise errors.Forbidden


def log_changes(before: UserRow, after: UserRow, *, by: str | None = None) -> None:
    """Log what `alter` has changed, as security events; to be called after the commit."""
    if after.role != before.role:
        audit.log("role_changed", after.id, by=by)
    if after.email_verified_at != before.email_verified_at:
        audit.log("email_verified", after.id, by=by)
    if after.is_active != before.is_active:
        event = "account_activated" if after.is_active else "account_deactivated"
        audit.log(event, after.id, by=by)
