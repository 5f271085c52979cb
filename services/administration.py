"""Lists, changes and deletes accounts for admins, teachers, service keys and operators.

`reach` is whose accounts a caller may see or change: service keys do not reach admins, and teachers
reach students only.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

from sqlalchemy import Row, exists, func, literal, or_, select, tuple_, update

import errors
from core import clock
from core.addresses import fold, has_mailbox, login_name
from core.roles import EVERYBODY, Reach, Role
from database import change, patiently, read_all, reading, unique
from database.columns import UTCDateTime
from extensions import db
from models import Achievement, Certificate, Course, User, UserRow
from services import (
    accounts,
    custom_fields,
    email_change,
    events,
    groups,
    login,
    outbox,
    profiles,
    sessions,
    sets,
    users,
)
from services.changes import note
from services.letters import MailKind
from services.recovery import Handout, hand_over
from services.users import Condition

# Conditions for an account that nobody but the school has used yet.
UNTOUCHED = (User.role == Role.STUDENT.value, User.last_login_at.is_(None), *users.NO_WAY_IN)
# Conditions for an account that nobody has used, and that has no learning record.
_UNUSED = (
    User.role != Role.ADMIN.value,
    User.last_login_at.is_(None),
    *(~exists().where(kind.user_id == User.id) for kind in (Course, Achievement, Certificate)),
)
# What is told of new values of an account, where `update_all` sets them.
_TOLD = {
    "names_changed": {"first_name", "last_name"},
    "profile_changed": {"language", "external_id"},
    "email_changed": {"email"},
    "account_activated": {"is_active"},
}
# Accounts of a transaction where all are changed.
_AT_ONCE = 100
_ORDERS = {
    "-joinDate": (User.created_at.desc(), User.id.desc()),
    "name": (User.search_key,),  # unique, because it has the username
    "-lastLogin": (User.last_login_at.desc().nulls_last(), User.id.desc()),
}


def list_accounts(
    *,
    page: int,
    per_page: int,
    search: str = "",
    group_id: str | None = None,
    any_of: Sequence[str] | None = None,
    by_number: bool = True,
    hindered: bool = False,
    field: str = "",
    reader: str = "user",
    sort: str = "-joinDate",
    reach: Reach = EVERYBODY,
    below: UserRow | None = None,
    after: str | None = None,
    **columns: Any,
) -> tuple[Sequence[UserRow], int]:
    """Return a page of the matching accounts, last joined first, and how many match in all.

    Each word of `search` is part of a username, an e-mail address or a name. Each of `any_of` is a
    username, an address or, `by_number`, an external id. Those who are `hindered` cannot log in.
    `field` is `name:value` of a custom one that the `reader` sees. Of the `columns`, None matches
    any value. By its number, a page skips somebody when another account goes, or takes another
    place, meanwhile. So a whole list is read in an order that stays: newest first, each page
    `below` the last row of the one before, or by id, `after` the last one.
    """
    if "username" in columns:
        columns["username_key"] = columns.pop("username").lower()
    wanted = [getattr(User, name) == value for name, value in columns.items() if value is not None]
    words = {*fold(search).split()}
    wanted += [User.search_key.contains(word, autoescape=True) for word in sorted(words)]
    wanted += users.reached(reach)
    if group_id:
        wanted.append(User.id.in_(groups.members(group_id)))
    if any_of is not None:
        names, numbers = {login_name(each) for each in any_of} - {None}, any_of if by_number else ()
        named = User.username_key.in_(names), User.email.in_(names), User.external_id.in_(numbers)
        wanted.append(or_(*named))
    if field:
        wanted.append(custom_fields.condition(field, reader))
    if hindered:
        wanted.append(login.is_hindered())
    if below:
        place = literal(below.created_at, UTCDateTime), literal(below.id)
        wanted.append(tuple_(User.created_at, User.id) < tuple_(*place))
    if after:
        wanted.append(User.id > after)
    order = (User.id,) if after else _ORDERS[sort]
    found = select(User.__table__).where(*wanted).order_by(*order)
    with reading() as connection:
        total = connection.scalar(select(func.count()).select_from(User).where(*wanted)) or 0
        first = (page - 1) * per_page
        rows: Sequence[Any] = connection.execute(found.offset(first).limit(per_page)).all()
        return rows, total


def make_account(
    *, deliver: str, email_verified: bool, **person: Any
) -> tuple[UserRow, Handout | None]:
    """Add an account for somebody else; return its row, and the way in if it is to be handed over.

    `deliver` is "mail" for an invitation, "link" for a way in to hand over, or "none". Raises what
    `accounts.add` does.
    """
    mail, now = MailKind.INVITATION if deliver == "mail" else None, clock.utcnow()
    fields = custom_fields.accepted(person.pop("custom_fields", {}))
    person["custom_fields"] = custom_fields.merged({}, fields)
    made = accounts.add(**person, email_verified_at=now if email_verified else None, mail=mail)
    user = users.lock_within(made.id)  # as lists show it: a row and no object
    return user, hand_over(user, now=now)[user.id] if deliver == "link" else None


def alter(
    user_id: str,
    *,
    email: str | None = None,
    email_if: Sequence[Condition] = (),
    email_verified: bool = False,
    reach: Reach = EVERYBODY,
    **changes: Any,
) -> tuple[UserRow, UserRow]:
    """Change columns of an account, its address, or mark that as verified; return its row before
    and after it.

    A new role or a deactivation ends all its sessions, and for good all links to choose a password;
    a new address too, and it is not verified by itself. A new role ends all memberships. Raises
    UserNotFound, LastAdmin, Forbidden, UsernameTaken, EmailTaken and ExternalIdTaken; Forbidden
    also for an address if a condition of `email_if` does not hold.
    """
    role = changes.get("role")
    may_end_admin = role not in (None, Role.ADMIN) or changes.get("is_active") is False
    is_last_admin = may_end_admin and accounts.lock_admins(user_id)
    # Locked, so that the values that are compared below are those that the UPDATE replaces.
    before = users.lock_within(user_id, reach, key_share=email is None)
    if role not in (None, *reach.roles) or (email and before.role == Role.ADMIN):
        raise errors.Forbidden
    if is_last_admin:
        raise errors.LastAdmin
    fields = custom_fields.accepted(changes.pop("custom_fields", {}))
    verified_at = clock.utcnow() if email_verified else None
    if email in (None, before.email):
        email = None
        changes["email_verified_at"] = before.email_verified_at or verified_at
    values = {name: value for name, value in changes.items() if value != getattr(before, name)}
    values |= {"custom_fields": fields} if fields else {}
    _refuse_taken(before, values, email)
    if "username" in values:
        profiles.rename(before, values.pop("username"))
    if email:
        email_change.replace(before, email, *email_if, verified_at=verified_at)
        email_change.notify_old_address(before)
    after = _update(before, values)
    _tell(before, after)
    return before, after


def _refuse_taken(before: UserRow, values: dict[str, Any], email: str | None) -> None:
    """Raise the error for new names that others have; it names all of them.

    Asked before the changes; the constraints decide.
    """
    if "username" in values or email:
        names = values.get("username", ""), email or "", values.get("external_id")
        if error := accounts.taken(*names, but=before.id):
            raise error


def _update(before: UserRow, values: dict[str, Any]) -> UserRow:
    """Change columns, and end what ends with a role or an activation; return the whole row."""
    shuts_out = "role" in values or values.get("is_active") is False
    if shuts_out:
        values["password_version"] = User.password_version + 1
    with unique(lambda: errors.ExternalIdTaken.at("externalId", "taken"), User.external_id):
        found = users.update(before.id, **values) if values else users.lock(before.id)
    if shuts_out:
        sessions.end_all(before.id)
    if "role" in values:
        groups.leave_all(before.id)
    return users.require(found)


def _tell(before: UserRow, after: UserRow) -> None:
    # New names and a new address are told where they are set.
    changed = {name for name, value in before._asdict().items() if getattr(after, name) != value}
    if "role" in changed:
        events.tell("role_changed", after.id, role=after.role)
    if "email_verified_at" in changed and after.email_verified_at:
        events.tell("email_verified", after.id)
    if changed & {"language", "timezone", "external_id"}:
        events.tell("profile_changed", after.id)
    if "is_active" in changed:
        events.tell("account_activated" if after.is_active else "account_deactivated", after.id)


def update_all(rows: Mapping[str, UserRow], values: Mapping[str, dict[str, Any]]) -> None:
    """Change columns of accounts, by their ids, as `alter` does one; their rows are locked, and an
    address changes only where nobody could sign in. Raises Unavailable as `sets.update_all` does.
    """
    moved = [rows[each] for each, new in values.items() if "email" in new]
    marks = {row.id: _marks(row, values[row.id]["email"]) for row in moved}
    new_values = {each: new | marks.get(each, {}) for each, new in values.items() if new}
    sets.update_all(rows, new_values)
    if moved:
        accounts.drop_pending_email(*marks)
        outbox.withdraw(*(name for row in moved for name in (row.email, row.username_key)))
    verified = [row for row in moved if row.email_verified_at]
    outbox.queue_notices(MailKind.EMAIL_CHANGED, *verified)
    fields = {each: new["custom_fields"] for each, new in values.items() if "custom_fields" in new}
    custom_fields.tell((rows[each], new) for each, new in fields.items())
    for event, told in _TOLD.items():
        events.tell_each(event, [each for each, new in values.items() if told & new.keys()])


def _marks(before: UserRow, email: str) -> dict[str, Any]:
    """Return the columns that change with an address."""
    verified_at = None if has_mailbox(email) else clock.utcnow()
    return {"email_verified_at": verified_at, "password_version": before.password_version + 1}


def activate(user_ids: Collection[str], *, is_active: bool, reach: Reach) -> dict[str, object]:
    """Activate or deactivate accounts as `alter` does one; return who has changed, and why others
    are refused.
    """
    last_admin = None if is_active else accounts.lock_admins(*user_ids)
    found, refused = sets.lock_all(user_ids, reach, User.is_active, key_share=True)
    if last_admin and found.pop(last_admin, None):
        refused[last_admin] = errors.LastAdmin
    changed = [user_id for user_id, row in found.items() if row.is_active != is_active]
    version = User.password_version + int(not is_active)
    values = {"is_active": is_active, "password_version": version}
    change(update(User).where(User.id.in_(changed)).values(values))
    note(changed)
    if not is_active:
        sessions.end_all(*changed)
    events.tell_each("account_activated" if is_active else "account_deactivated", changed)
    return {"changed": changed, "refused": refused}


def remove_unused(user_ids: Collection[str]) -> dict[str, object]:
    """Delete the accounts of these that nobody has used, as `delete` does one; return them, and why
    others are refused.
    """
    found, refused = sets.lock_all(user_ids)
    # After the lock, and only for these, so that no record can be added to one meanwhile.
    unused = [*db.session.scalars(select(User.id).where(User.id.in_(found), *_UNUSED))]
    refused |= dict.fromkeys(found.keys() - unused, errors.AccountUsed)
    accounts.delete(*(found[user_id] for user_id in unused))
    return {"removed": sorted(unused), "refused": refused}


def empty_field(name: str) -> int:
    """Empty a custom field of all accounts, as changes of theirs; return how many had a value.

    Commits by itself, some accounts at a time, so that nobody waits long.
    """

    def empty(rows: Sequence[Row[Any]]) -> None:
        for row in rows:
            users.update(row.id, custom_fields={name: None})

    found = read_all(select(User.id).where(custom_fields.is_set(name)).order_by(User.id))
    for start in range(0, len(found), _AT_ONCE):
        patiently(partial(empty, found[start : start + _AT_ONCE]))
    return len(found)


def delete(user_id: str, *, reach: Reach = EVERYBODY) -> None:
    """Delete an account with everything stored about it, and notify its e-mail address.

    Raises UserNotFound, LastAdmin and Forbidden.
    """
    is_last_admin = accounts.lock_admins(user_id)
    user = users.lock_within(user_id, reach)
    if is_last_admin:
        raise errors.LastAdmin
    accounts.delete(user)
