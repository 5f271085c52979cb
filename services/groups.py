"""Groups: who is in them, and what their students have learned."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import date, datetime
from typing import Any, TypeAlias

from sqlalchemy import Row, Select, delete, func, select, tuple_, update
from sqlalchemy.orm import aliased

import errors
from core import locales, streaks
from core.addresses import fold
from core.roles import Reach, Role
from database import change, change_all, insert_into, insert_rows, read_all
from extensions import db
from models import Group, Lesson, Membership, User
from services import events, learning, sets, users
from services.users import Condition

# The days of a group that are read where no bound says more, and its students at most.
DAYS = 8
MOST_STUDENTS = 1000
_NONE = "There is no such group."
_TOO_MANY = f"This group has more than {MOST_STUDENTS} active students."


_OWN = aliased(Membership)
# Id, name and number of members.
GroupRow: TypeAlias = Row[str, str, int]
# The ids of a group and of a user.
Pair: TypeAlias = tuple[str, str]
_PAIR = Membership.group_id, Membership.user_id


def members(group_id: str) -> Select[str]:
    """Return the query for the ids of the users in a group."""
    return select(_OWN.user_id).where(_OWN.group_id == group_id)


def list_groups(*conditions: Condition, member: str | None = None) -> list[GroupRow]:
    """Return groups with the numbers of their members, by name; with `member`, only those that
    this user is in.
    """
    if member:
        conditions += (_has(member),)
    found = read_all(_counted(*conditions))
    return sorted(found, key=lambda group: (fold(group.name), group.id))


def of_user(user_id: str, *, member: str | None = None) -> list[GroupRow]:
    """Return the groups of a user; with `member`, only those that this one is in too."""
    return list_groups(_has(user_id), member=member)


def require(group_id: str, *, member: str | None = None) -> None:
    """Raise NotFound if there is no such group, with `member` also if this user is not in it."""
    if not list_groups(Group.id == group_id, member=member):
        raise errors.NotFound(_NONE)


def _counted(*conditions: Condition) -> Select[str, str, int]:
    counted = func.count(Membership.user_id).label("members")
    query = select(Group.id, Group.name, counted).outerjoin(Membership).where(*conditions)
    return query.group_by(Group.id)


def _has(user_id: str) -> Condition:
    return Group.id.in_(select(_OWN.group_id).where(_OWN.user_id == user_id))


def save(group_id: str, name: str) -> tuple[GroupRow, bool]:
    """Add a group, or rename the one with this id; return it, and whether it is new."""
    values = {"id": group_id, "name": name}
    insert = insert_into(Group.__table__).values(values).on_conflict_do_nothing()
    present = select(Group.name).where(Group.id == group_id).with_for_update(key_share=True)
    old = None
    while old is None:  # a parallel call may remove it between the two statements
        is_new = db.session.scalar(insert.returning(Group.id)) is not None
        old = db.session.scalar(present)
    if old != name:
        change(update(Group).where(Group.id == group_id).values(name=name))
    if is_new or old != name:
        events.tell("group_saved", group=group_id)
    return db.session.execute(_counted(Group.id == group_id)).one(), is_new


def save_all(names: Mapping[str, str]) -> None:
    """Add or rename groups, by their ids, as `save` does one."""
    rows = [{"id": group_id, "name": name} for group_id, name in sorted(names.items())]
    insert = insert_rows(Group.__table__, rows)
    new = {"name": insert.excluded.name}
    db.session.execute(insert.on_conflict_do_update(index_elements=["id"], set_=new))
    for group_id in names:
        events.tell("group_saved", group=group_id)


def remove(group_id: str) -> None:
    """Remove a group; the accounts stay. Raises NotFound."""
    if not change(delete(Group).where(Group.id == group_id)):
        raise errors.NotFound(_NONE)
    events.tell("group_deleted", group=group_id)


def join(group_id: str, user_id: str, reach: Reach) -> bool:
    """Put a user into a group; return whether that is new.

    Raises UserNotFound, Forbidden for one out of reach, and NotFound without the group.
    """
    # Locked, or the account could get another role meanwhile, and keep this membership.
    users.lock_within(user_id, reach, key_share=True)
    return bool(_add(group_id, [user_id]))


def _add(group_id: str, user_ids: Collection[str]) -> list[str]:
    """Put users, whose rows are locked, into a group; return those who were not in it."""
    if not lock([group_id]):
        raise errors.NotFound(_NONE)
    return put_in({(group_id, user_id) for user_id in user_ids}).get(group_id, [])


def lock(group_ids: Collection[str]) -> set[str]:
    """Lock groups, so that they stay until the commit; return the ids of those that exist."""
    these = select(Group.id).where(Group.id.in_(group_ids)).order_by(Group.id)
    return {*db.session.scalars(these.with_for_update(read=True, key_share=True))}


def put_in(pairs: Collection[Pair]) -> dict[str, list[str]]:
    """Put users into groups, all of which are locked; return who was not in one, by group."""
    rows = [{"group_id": group_id, "user_id": user_id} for group_id, user_id in sorted(pairs)]
    if not rows:
        return {}
    insert = insert_rows(Membership.__table__, rows).on_conflict_do_nothing()
    return _tell("group_joined", db.session.execute(insert.returning(*_PAIR)))


def take_out(pairs: Collection[Pair]) -> dict[str, list[str]]:
    """Take users, whose rows are locked, out of groups; return who was in one, by group."""
    these = delete(Membership).where(tuple_(*_PAIR).in_(sorted(pairs)))
    return _tell("group_left", db.session.execute(these.returning(*_PAIR)) if pairs else ())


def _tell(event: str, pairs: Iterable[Any]) -> dict[str, list[str]]:
    found = defaultdict(list)
    for group_id, user_id in sorted(pairs):
        found[group_id].append(user_id)
    events.tell_all(event, [(user, {"group": each}) for each in found for user in found[each]])
    return found


def leave(group_id: str, user_id: str, reach: Reach) -> bool:
    """Take a user out of a group; return whether that was one of its members.

    Raises UserNotFound, and Forbidden for one out of reach.
    """
    users.lock_within(user_id, reach, key_share=True)
    return bool(_take_out(group_id, [user_id]))


def _take_out(group_id: str, user_ids: Collection[str]) -> list[str]:
    """Take users, whose rows are locked, out of a group; return those who were in it."""
    return take_out({(group_id, user_id) for user_id in user_ids}).get(group_id, [])


def change_members(
    group_id: str, add: Collection[str], remove: Collection[str], reach: Reach
) -> dict[str, object]:
    """Put users into a group, and take others out of it, as `join` and `leave` do one; return who
    is new, who has left, and why others are refused. Raises NotFound without the group.
    """
    found, refused = sets.lock_all({*add, *remove}, reach, key_share=True)
    added, removed = _add(group_id, found.keys() & add), _take_out(group_id, found.keys() & remove)
    return {"added": added, "removed": removed, "refused": refused}


def leave_all(user_id: str) -> None:
    """End all memberships of a user whose row is locked."""
    these = delete(Membership).where(Membership.user_id == user_id)
    for group_id in change_all(these.returning(Membership.group_id)):
        events.tell("group_left", user_id, group=group_id)


def list_days(group_id: str, bounds: Mapping[str, date], *, now: datetime) -> dict[str, object]:
    """Return the days on which active students of a group completed lessons, each in the student's
    own time zone.

    `bounds` may name the first day as `from_` and the last one as `to`, each included. Raises
    InvalidRequest for more than MOST_STUDENTS.
    """
    first, last = streaks.span(bounds.get("from_"), bounds.get("to"), today=now.date(), count=DAYS)
    learns = Membership.group_id == group_id, User.role == Role.STUDENT.value, User.is_active
    learners = select(User.id, User.timezone).join(Membership).where(*learns)
    found = read_all(learners.limit(MOST_STUDENTS + 1))
    if len(found) > MOST_STUDENTS:
        raise errors.InvalidRequest(_TOO_MANY)
    zones = {row.id: locales.time_zone(row.timezone) for row in found}
    is_meant = Lesson.user_id.in_(members(group_id))
    return {"from_": first, "to": last, "days": learning.sum_days(is_meant, zones, first, last)}
