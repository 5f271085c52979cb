"""The learning records of all users: a copy of a table, page by page, in the order of its key."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeAlias

from marshmallow import Schema
from sqlalchemy import Dialect, Select, func, select, tuple_, type_coerce

import errors
import schemas
from core import csv_files
from core.ids import is_row_id
from core.reasons import Reason
from core.roles import EVERYBODY, Reach
from database import read_all
from database.columns import EpochSeconds
from extensions import Base
from models import Achievement, Certificate, Course, Group, Lesson, Membership, User
from services import groups

# Records that are read at once for a file.
BATCH = 5000
# An external id may be any text; one in the form of the other ids stays good for joins.
_ID = re.compile("[A-Za-z0-9._~-]*")
_NO_PLACE = Reason("invalid", "Send the `next` of the page before.")

# A record, in the order of its schema's fields.
Values: TypeAlias = tuple[str | int | None, ...]


class WrittenTime(EpochSeconds):
    """A time as RFC 3339; a datetime in between would take longer than all else."""

    cache_ok = True

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        if value is None:
            return None
        return f"{datetime.fromtimestamp(value, UTC).isoformat()[:19]}Z"


class Kind(NamedTuple):
    """A table, and the schema whose fields are copied of it."""

    model: type[Base]
    shape: type[Schema]

    @property
    def key(self) -> list[str]:
        """The names of the key's columns, that of the user first."""
        names = (each.name for each in self.model.__table__.primary_key)
        return sorted(names, key=lambda name: name != "user_id")


KINDS = {
    "courses": Kind(Course, schemas.CopiedCourse),
    "lessons": Kind(Lesson, schemas.CopiedLesson),
    "achievements": Kind(Achievement, schemas.CopiedAchievement),
    "certificates": Kind(Certificate, schemas.CopiedCertificate),
    "memberships": Kind(Membership, schemas.CopiedMembership),
}


class Page(NamedTuple):
    """Records by user and id, and the `after` of the next page; None at the end."""

    records: list[Values]
    next: str | None


def page(
    kind: Kind, reach: Reach, *, limit: int, after: str | None = None, group_id: str | None = None
) -> Page:
    """Return the next `limit` records, without those of users out of reach.

    With `group_id`, only of users who are in this group now. Raises InvalidRequest for an `after`
    that is none, and NotFound for an unknown group.
    """
    place = None if after is None else _place(kind, after)
    if group_id:
        groups.require(group_id)
    rows = read_all(_query(kind, reach, limit, place, group_id))
    is_last = len(rows) < limit
    end = None if is_last else "/".join(rows[-1]._mapping[name] for name in kind.key)
    return Page([tuple(row) for row in rows], end)


def _place(kind: Kind, after: str) -> list[str]:
    place = after.split("/")  # no id holds one
    is_id = {"user_id": is_row_id, "group_id": is_row_id}
    parts = zip(kind.key, place, strict=False)
    known = (is_id.get(name, _ID.fullmatch)(each) for name, each in parts)
    if len(place) != len(kind.key) or "" in place or not all(known):
        raise errors.InvalidRequest(fields={"after": [_NO_PLACE]})
    return place


def _query(
    kind: Kind, reach: Reach, limit: int, place: Sequence[str] | None, group_id: str | None
) -> Select[Any]:
    table = kind.model.__table__
    key = [table.c[name] for name in kind.key]
    cut = select(table).order_by(*key).limit(limit)
    if place:
        cut = cut.where(tuple_(*key) > tuple_(*place))
    if group_id:
        cut = cut.where(table.c.user_id.in_(groups.members(group_id)))
        if kind.model is Membership:
            cut = cut.where(table.c.group_id == group_id)
    if hidden := EVERYBODY.roles - reach.roles:  # here, so that `next` names none of them either
        cut = cut.where(table.c.user_id.not_in(select(User.id).where(User.role.in_(hidden))))
    # Cut before it is joined: else both databases would begin with the users, and sort.
    rows = cut.subquery()
    values: dict[str, Any] = {
        name: type_coerce(each, WrittenTime) if isinstance(each.type, EpochSeconds) else each
        for name, each in rows.c.items()
    }
    values |= {"external_id": func.coalesce(User.external_id, ""), "group_name": Group.name}
    wanted = [values[name].label(name) for name in kind.shape().fields]
    found = select(*wanted).join(User, User.id == rows.c.user_id)
    if "group_name" in kind.shape().fields:
        found = found.join(Group, Group.id == rows.c.group_id)
    return found.order_by(*(rows.c[name] for name in kind.key))


def head(kind: Kind) -> str:
    """Return the first line of CSV."""
    return csv_files.lines([[each.data_key for each in kind.shape().fields.values()]])


def as_csv(kind: Kind, records: Sequence[Values]) -> str:
    """Return records as lines of CSV: ids, numbers and times as they are, texts guarded."""
    columns = zip(kind.shape().fields, zip(*records, strict=True), strict=False)
    return csv_files.lines(zip(*(_cells(*each) for each in columns), strict=True))


def _cells(name: str, values: Sequence[Any]) -> Iterator[Any]:
    if name.endswith("id"):
        return (each if _ID.fullmatch(each) else csv_files.guarded(each) for each in values)
    return (csv_files.guarded(each) if isinstance(each, str) else each for each in values)


def everything(kind: Kind) -> Iterator[list[Values]]:
    """Yield all records, in pages; between two of them no connection is held."""
    found = page(kind, EVERYBODY, limit=BATCH)
    yield found.records
    while found.next is not None:
        found = page(kind, EVERYBODY, limit=BATCH, after=found.next)
        yield found.records
