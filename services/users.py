"""The one door to single rows of the table of users: finds, locks and changes them."""

from typing import Any, TypeAlias, cast

from sqlalchemy import ColumnElement, ColumnExpressionArgument, Row, and_, or_, select
from sqlalchemy import update as update_table
from sqlalchemy.orm import aliased

import counting
import errors
from core import passwords
from core.addresses import login_name, search_key
from core.roles import EVERYBODY, Reach, Role
from database import change_one, read_one, read_value
from extensions import components, db, settings
from models import Membership, User, UserRow
from services import changes, custom_fields, events

Condition: TypeAlias = ColumnExpressionArgument[bool]
_OWN, _OTHER = aliased(Membership), aliased(Membership)
# The parts of what searches look in.
SEARCHED = ("username", "email", "first_name", "last_name")
# How often users change their own names in a day.
MAX_RENAMES, RENAMES = 20, "changes of first and last name by the user"
# Conditions for an account to which nobody can sign in; `has_way_in` asks the same of a row.
NO_WAY_IN = User.password_hash.startswith("!"), User.identity.is_(None)


def get(*conditions: Condition) -> UserRow | None:
    """Return the user that meets all of these conditions, or None."""
    return cast("UserRow | None", read_one(select(User.__table__).where(*conditions)))


def get_within(user_id: str, reach: Reach = EVERYBODY) -> UserRow:
    """Return the user with this id. Raises UserNotFound, and Forbidden for one out of reach."""
    user = require(get(User.id == user_id))
    if not is_within(reach, user):
        raise errors.Forbidden
    return user


def named(text: str) -> ColumnElement[bool]:
    """Return the condition for the account with this username or e-mail address."""
    return (User.email if "@" in text else User.username_key) == login_name(text)


def find(name: str) -> UserRow:
    """Return the user with this id, username or e-mail address. Raises UserNotFound."""
    return require(get(or_(User.id == name.lower(), named(name))))


def lock(user_id: str, *, read: bool = False, key_share: bool = False) -> UserRow | None:
    """Lock a user's row until the transaction ends; return it, or None if there is none.

    Several transactions may `read` it at once; `key_share` lets others add rows that refer to it.
    Call this before any other row of the user is locked; the fixed order prevents deadlocks.
    """
    query = select(User.__table__).where(User.id == user_id)
    query = query.with_for_update(read=read, key_share=key_share)
    row = db.session.execute(query).one_or_none()
    return cast("UserRow | None", row)


def lock_within(user_id: str, reach: Reach = EVERYBODY, **how: bool) -> UserRow:
    """Lock a user's row as `lock` does, and return it. Raises as `get_within` does."""
    user = require(lock(user_id, **how))
    # A statement of its own after the lock: Postgres shows it what was committed during the wait.
    if not is_within(reach, user, db.session):
        raise errors.Forbidden
    return user


def require(user: UserRow | None) -> UserRow:
    """Return the user. Raises UserNotFound for None."""
    if user is None:
        raise errors.UserNotFound
    return user


def require_active(user: UserRow) -> UserRow:
    """Return the user. Raises UserNotFound for an inactive one."""
    if not user.is_active:
        raise errors.UserNotFound
    return user


def reached(reach: Reach) -> list[ColumnElement[bool]]:
    """Return the conditions for the users within a reach."""
    roles = [role.value for role in reach.roles]
    if not reach.teacher:
        return [] if reach == EVERYBODY else [User.role.in_(roles)]
    # Not EXISTS, for which SQLite would look at the groups of each user anew; and not the bare
    # column, for which it would read all students by their index.
    taught = select(_OTHER.user_id).join(_OWN, _OWN.group_id == _OTHER.group_id)
    taught = taught.where(_OWN.user_id == reach.teacher)
    return [(User.role + "").in_(roles), User.id.in_(taught)]


def is_within(reach: Reach, user: UserRow, connection: Any = None) -> bool:
    """Return whether a user is within a reach, by default as others see the database now."""
    if not reach.teacher:
        return user.role in reach.roles
    query = select(and_(*reached(reach))).where(User.id == user.id)
    return bool(connection.scalar(query) if connection else read_value(query))


def has_way_in(user: User | UserRow) -> bool:
    """Return whether an account has a password, or a link to a provider."""
    return passwords.is_usable(user.password_hash) or user.identity is not None


def needs_factor(role: str) -> bool:
    """Return whether a role takes effect only with a second factor."""
    least = settings.require_second_factor
    return bool(least) and Role(role).includes(Role(least))


def role_in_effect(user: UserRow | Row[Any]) -> str:
    """Return the role that an account has for itself; for others it has the granted one."""
    # The settings are looked up last, since this is a part of every request.
    if user.role == Role.STUDENT or user.second_factor_at or not needs_factor(user.role):
        return user.role
    return Role.STUDENT.value


def update(user_id: str, *conditions: Condition, **values: object) -> UserRow | None:
    """Change columns of a user, and what searches look in; return the whole row.

    Of `custom_fields`, those that are given change. Return None if there is no such user or a
    condition does not hold. Raises IntegrityError, and TooManyRequests beyond `MAX_RENAMES`.
    """
    values = not_warned(values)
    # Locked, because these are the values that the UPDATE replaces.
    before = lock(user_id, key_share=True) if changes.WATCHED & values.keys() else None
    if before and isinstance(sent := values.get("custom_fields"), dict):
        values["custom_fields"] = custom_fields.merged(before.custom_fields, sent)
    this = update_table(User).where(User.id == user_id).returning(User.__table__)
    row: UserRow | None = change_one(this.where(*conditions).values(**values))
    if row is None:
        return None
    if before:
        changes.compare(before, row)
        custom_fields.tell([(before, row.custom_fields)])
        if (before.first_name, before.last_name) != (row.first_name, row.last_name):
            events.tell("names_changed", user_id)
            if components().actor().id == user_id:
                counting.require(RENAMES, MAX_RENAMES, "day", account=user_id)
    key = search_key(*(getattr(row, name) for name in SEARCHED))
    return row if row.search_key == key else change_one(this.values(search_key=key))


def not_warned(values: dict[str, Any]) -> dict[str, Any]:
    """Return new values of an account. Nobody was warned at a new address, or while inactive."""
    is_new = "email" in values or values.get("is_active")
    return {**values, "warned_at": None} if is_new else values


def update_active(user_id: str, **values: object) -> UserRow:
    """Change columns of an active user as `update` does; return the whole row.

    Raises TokenRevoked if the account was deleted or deactivated.
    """
    row = update(user_id, User.is_active, **values)
    if row is None:
        raise errors.TokenRevoked
    return row
