"""The accounts as an admin or an operator sees and manages them."""

from collections.abc import Sequence
from typing import cast

from sqlalchemy import ColumnElement, delete, func, or_, select, update

import errors
from core.events import record
from core.roles import Role
from database import change_one, reading
from extensions import db
from fieldtypes import normalise_email
from models import User, UserRow, fold
from services import outbox, sessions
from services.letters import MailKind


def list_accounts(
    *,
    search: str = "",
    role: str | None = None,
    is_active: bool | None = None,
    page: int = 1,
    per_page: int = 20,
) -> tuple[Sequence[UserRow], int]:
    """Return a page of the accounts that match, newest first, and how many match in all.

    `search` is part of a username, an address or a name (or of both names together).
    """
    wanted: list[ColumnElement[bool]] = []
    if search:
        wanted.append(User.search_key.contains(fold(search), autoescape=True))
    if role is not None:
        wanted.append(User.role == role)
    if is_active is not None:
        wanted.append(User.is_active.is_(is_active))
    # Ids are in the order of time.
    found = select(User.__table__).where(*wanted).order_by(User.id.desc())
    with reading() as connection:
        total = connection.scalar(select(func.count()).select_from(User).where(*wanted)) or 0
        first = (page - 1) * per_page
        if first >= total:
            return [], total
        return connection.execute(found.offset(first).limit(per_page)).all(), total


def find(name: str) -> UserRow:
    """Return the account with this id, username or e-mail address. Raises UserNotFound."""
    # None of the three can look like another.
    this = or_(
        User.id == name.lower(),
        User.username_key == name.lower(),
        User.email == normalise_email(name),
    )
    with reading() as connection:
        found = connection.execute(select(User.__table__).where(this)).one_or_none()
    if found is None:
        raise errors.UserNotFound
    return found


def alter(
    user_id: str, *, role: str | None = None, is_active: bool | None = None
) -> tuple[UserRow, UserRow]:
    """Change an account's role, or whether it is active; return its row before and after.

    A change of role and a deactivation end all of its sessions. Raises UserNotFound and LastAdmin.
    """
    given = {"role": role, "is_active": is_active}
    admins = _hold_admins() if role not in (None, Role.ADMIN) or is_active is False else None
    before = _hold(user_id)
    values = {
        name: value
        for name, value in given.items()
        if value is not None and value != getattr(before, name)
    }
    if not values:
        return before, before
    if admins == [user_id]:
        raise errors.LastAdmin
    altered = update(User).where(User.id == user_id).values(values).returning(User.__table__)
    after = cast("UserRow", change_one(altered))
    if "role" in values or not after.is_active:
        sessions.end_all(user_id)
    return before, after


def record_changes(before: UserRow, after: UserRow, *, by: str | None = None) -> None:
    """Log what `alter` has changed, as security events, once that is committed."""
    if after.role != before.role:
        record("role_changed", after.id, by=by)
    if before.is_active and not after.is_active:
        record("account_deactivated", after.id, by=by)
    if after.is_active and not before.is_active:
        record("account_activated", after.id, by=by)


def remove(user_id: str, *only_if: ColumnElement[bool]) -> bool:
    """Delete an account and all that is stored of it; a notice goes to its address.

    False when there is no such account, or another condition does not hold. Raises LastAdmin.
    """
    admins = _hold_admins()
    gone = change_one(delete(User).where(User.id == user_id, *only_if).returning(User.email))
    if gone is None:
        return False
    if admins == [user_id]:
        raise errors.LastAdmin
    outbox.withdraw(gone.email)
    outbox.queue(MailKind.ACCOUNT_DELETED, gone.email)
    return True


def _hold(user_id: str) -> UserRow:
    query = select(User.__table__).where(User.id == user_id).with_for_update(key_share=True)
    found = db.session.execute(query).one_or_none()
    if found is None:
        raise errors.UserNotFound
    return found


def _hold_admins() -> list[str]:
    """Lock the rows of all active admins until the transaction ends; return their ids.

    Of two admins who demote each other at once, the second sees what the first has done. Always
    locked before any other row, and in the same order, so that no two wait for each other.
    """
    query = (
        select(User.id)
        .where(User.role == Role.ADMIN.value, User.is_active)
        .order_by(User.id)
        .with_for_update(key_share=True)
    )
    return list(db.session.scalars(query))
