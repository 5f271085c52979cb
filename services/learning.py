"""Learning records: how all are written; courses, lessons and progress of users.

The course system chooses the ids. It may deliver a record again, or in parallel; the result is the
same.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from marshmallow import ValidationError
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Row,
    and_,
    case,
    delete,
    func,
    select,
    type_coerce,
)

import errors
from core import locales, streaks
from core.roles import Reach
from core.streaks import MOST_DAYS
from database import change, insert_rows, read_all, reading
from extensions import db
from models import Achievement, Certificate, Course, Lesson, Record, User, UserRow
from services import sets, users
from services.users import Condition

# A lesson's time, as a plain number: converting thousands of times to datetime is slow.
SECONDS = type_coerce(Lesson.completed_at, BigInteger)
_NO_COURSE = "There is no such course. Deliver it first, then this lesson again."
_COMPLETED = and_(Lesson.user_id == Course.user_id, Lesson.course_id == Course.id)


def put(
    kind: type[Record], user: UserRow, values: Mapping[str, Any], *, now: datetime
) -> tuple[Row[Any], bool]:
    """Add or replace a record of a user whose row is locked; return its row and whether it is new.

    Raises NotFound for a lesson whose course does not exist.
    """
    row = {"user_id": user.id, **values}
    if kind is Lesson and not _lock_courses([row]):
        raise errors.NotFound(_NO_COURSE)
    new, replaced = _write(kind, [row], {user.id: user}, *kind.__table__.c, now=now)
    return (new or replaced)[0], bool(new)


def put_all(
    kind: type[Record],
    records: Sequence[dict[str, Any] | ValidationError],
    reach: Reach,
    *,
    by_number: bool,
    now: datetime,
) -> dict[str, object]:
    """Add or replace records of many users, as `put` does one; return how many are new, how many
    are replaced, and why others are refused, with their `index`.

    Each has the `user_id` or, `by_number`, the `external_id` of its user. Of several with one key
    the last one counts.
    """
    rows = {index: row for index, row in enumerate(records) if isinstance(row, dict)}
    _find_owners(rows.values(), reach, by_number=by_number)
    named, names = {row["user_id"] for row in rows.values()}, (User.first_name, User.last_name)
    owners, others = sets.lock_all(named, reach, *names, key_share=True)
    courses = _lock_courses(rows.values()) if kind is Lesson else {}
    refused, good = list[dict[str, object]](), []
    for index, row in enumerate(records):
        error: errors.ApiError
        if isinstance(row, ValidationError):
            error = errors.InvalidRequest(fields=row.messages_dict)
        elif row["user_id"] not in owners:
            error = others[row["user_id"]]()
        elif kind is Lesson and (row["user_id"], row["course_id"]) not in courses:
            error = errors.NotFound(_NO_COURSE)
        else:
            good.append(row)
            continue
        reasons = {"reasons": error.reasons} if error.reasons else {}
        refused.append({"index": index, "code": error.code, **reasons})
    new, replaced = _write(kind, good, owners, now=now)
    return {"new": len(new), "replaced": len(replaced), "refused": refused}


def _find_owners(rows: Collection[dict[str, Any]], reach: Reach, *, by_number: bool) -> None:
    """Put the `user_id` in the place of the `external_id`; None if nobody within reach has it."""
    numbers = [row.pop("external_id", None) for row in rows]
    is_meant = User.external_id.in_({*numbers} - {None}), *users.reached(reach)
    query = select(User.external_id, User.id).where(*is_meant)
    pairs = db.session.execute(query).all() if by_number else ()
    found = {row.external_id: row.id for row in pairs}
    for row, number in zip(rows, numbers, strict=True):
        row.setdefault("user_id", found.get(number))


def _lock_courses(lessons: Collection[Mapping[str, Any]]) -> set[tuple[str, str]]:
    """Keep the courses of these lessons from being removed; return the keys of those there are."""
    wanted = [{lesson[name] for lesson in lessons} for name in ("user_id", "course_id")]
    # Perhaps some more than these: to look for pairs takes longer.
    these = select(Course.user_id, Course.id)
    these = these.where(Course.user_id.in_(wanted[0]), Course.id.in_(wanted[1]))
    found = db.session.execute(these.with_for_update(read=True, key_share=True))
    return {(row.user_id, row.id) for row in found}


def _write(
    kind: type[Record],
    rows: Iterable[Mapping[str, Any]],
    owners: Mapping[str, UserRow],
    *columns: ColumnElement[Any],
    now: datetime,
) -> tuple[Sequence[Row[Any]], Sequence[Row[Any]]]:
    """Add or replace records, whose users' rows are locked; return these columns of the new ones
    and of the replaced ones, by default their keys.
    """
    table = kind.__table__
    key = [column.name for column in table.primary_key]
    full, sets = {}, {}
    for row in rows:
        place = tuple(row[name] for name in key)
        full[place] = {**_at_first(kind, owners[row["user_id"]], now), **row}
        sets[place] = tuple(sorted(row.keys() - {*key}))
    wanted, new, replaced = columns or table.primary_key, list[Row[Any]](), list[Row[Any]]()
    if full:
        this = insert_rows(table, [*full.values()]).on_conflict_do_nothing()
        new += db.session.execute(this.returning(*wanted))
    for made in new:
        del sets[tuple(getattr(made, name) for name in key)]
    # A statement for those that set the same columns. A record that a parallel call has removed
    # since the first statement is inserted again.
    for names in {*sets.values()}:
        this = insert_rows(table, [full[place] for place, each in sets.items() if each == names])
        values = {name: this.excluded[name] for name in names}
        this = this.on_conflict_do_update(index_elements=key, set_=values)
        replaced += db.session.execute(this.returning(*wanted))
    return new, replaced


def _at_first(kind: type[Record], user: UserRow, now: datetime) -> dict[str, object]:
    """Return what only a new record gets, if its delivery does not say it."""
    if kind is Certificate:
        holder = f"{user.first_name} {user.last_name}"
        return {"issued_at": now, "revoked_at": None, "holder": holder}
    names = {Lesson: "completed_at", Achievement: "earned_at"}
    return {names[kind]: now} if kind in names else {}


def remove(kind: type[Record], user_id: str, key: Mapping[str, str]) -> None:
    """Remove a record if it exists, a course with its lessons."""
    change(delete(kind).filter_by(user_id=user_id, **key))


def list_courses(user_id: str, *conditions: Condition) -> Sequence[Row[Any]]:
    """Return the courses of a user with what is completed of each, last activity first.

    With conditions, only the courses that meet them.
    """
    count, last = func.count(Lesson.id), func.max(Lesson.completed_at)
    query = (
        select(
            Course.id,
            Course.name,
            Course.lessons,
            # A course that was delivered again may have fewer lessons than were completed.
            case((count > Course.lessons, Course.lessons), else_=count).label("completed_lessons"),
            func.coalesce(func.sum(Lesson.minutes), 0).label("minutes"),
            case((count >= Course.lessons, last)).label("completed_at"),
            last.label("last_activity_at"),
        )
        .outerjoin(Lesson, _COMPLETED)
        .where(Course.user_id == user_id, *conditions)
        .group_by(Course.id, Course.name, Course.lessons)
        .order_by(last.desc().nulls_last(), Course.id)
    )
    return read_all(query)


def course(user_id: str, course_id: str) -> dict[str, object]:
    """Return a course of a user with its completed lessons, oldest first. Raises NotFound."""
    found = list_courses(user_id, Course.id == course_id)
    if not found:
        raise errors.NotFound("There is no such course.")
    query = select(Lesson.__table__).filter_by(user_id=user_id, course_id=course_id)
    completed = read_all(query.order_by(Lesson.completed_at, Lesson.id))
    return {**found[0]._asdict(), "completed": completed}


def list_days(user: UserRow, bounds: Mapping[str, date], *, now: datetime) -> dict[str, object]:
    """Return the local days of a user with a completed lesson.

    `bounds` may name the first day as `from_` and the last one as `to`, each included.
    """
    zone = locales.time_zone(user.timezone)
    first, last = streaks.span(
        bounds.get("from_"), bounds.get("to"), today=now.astimezone(zone).date(), count=MOST_DAYS
    )
    days = sum_days(Lesson.user_id == user.id, {user.id: zone}, first, last)
    return {"timezone": zone.key, "days": days}


class Day(NamedTuple):
    """What somebody learned on a local day."""

    user_id: str
    date: date
    lessons: int
    minutes: int


def sum_days(
    is_meant: Condition, zones: Mapping[str, ZoneInfo], first: date, last: date
) -> list[Day]:
    """Return the days with a completed lesson between these two, by date: those of the users in
    `zones`, each in the own time zone. The condition finds their lessons.
    """
    bounds = [streaks.seconds(first, last, zone) for zone in {*zones.values()}] or [(0, 0)]
    earliest, latest = min(start for start, _ in bounds), max(end for _, end in bounds)
    query = select(Lesson.user_id, SECONDS, Lesson.minutes)
    query = query.where(is_meant, SECONDS.between(earliest, latest))
    sums: defaultdict[tuple[date, str], list[int]] = defaultdict(lambda: [0, 0])
    with reading() as connection:
        for user_id, moment, minutes in connection.execute(query):
            if zone := zones.get(user_id):
                day = datetime.fromtimestamp(moment, zone).date()
                sums[day, user_id][0] += 1
                sums[day, user_id][1] += minutes
    return [
        Day(user_id, day, *both)
        for (day, user_id), both in sorted(sums.items())
        if first <= day <= last
    ]


def progress(user_id: str, timezone: str, *, now: datetime) -> dict[str, object]:
    """Return a user's learning progress; the streak counts days in `timezone`.

    A delivery between the statements may be in one number and not yet in another.
    """
    moments = select(SECONDS).where(Lesson.user_id == user_id)
    newest_first = Achievement.earned_at.desc(), Achievement.id.desc()
    achievements = select(Achievement.__table__).where(Achievement.user_id == user_id)
    taken, zone = list_courses(user_id), locales.time_zone(timezone)
    with reading() as connection:
        return {
            "total_courses": len(taken),
            "completed_courses": sum(course.completed_at is not None for course in taken),
            "total_lessons": sum(course.lessons for course in taken),
            "completed_lessons": sum(course.completed_lessons for course in taken),
            "total_hours": round(sum(int(course.minutes) for course in taken) / 60, 1),
            "achievements": connection.execute(achievements.order_by(*newest_first)).all(),
            "current_streak": streaks.streak(connection.scalars(moments), zone, now),
        }
