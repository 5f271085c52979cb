"""Learning records: how all are written; courses, lessons and progress of users.

The course system chooses the ids. It may deliver a record again, or in parallel; the result is the
same.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from sqlalchemy import BigInteger, Row, and_, case, delete, func, select, type_coerce, update
from sqlalchemy.exc import IntegrityError

import errors
from core import locales, streaks
from core.streaks import MOST_DAYS
from database import change, insert_into, lacks_parent, read_all, reading
from extensions import db
from models import Achievement, Course, Lesson, Record, UserRow
from services.users import Condition

# A lesson's time, as a plain number: converting thousands of times to datetime is slow.
SECONDS = type_coerce(Lesson.completed_at, BigInteger)
_NO_COURSE = "There is no such course. Deliver it first, then this lesson again."
_COMPLETED = and_(Lesson.user_id == Course.user_id, Lesson.course_id == Course.id)


def put(
    kind: type[Record],
    user_id: str,
    key: Mapping[str, str],
    values: Mapping[str, object],
    *,
    at_first: Mapping[str, object] | None = None,
) -> tuple[Row[Any], bool]:
    """Add or replace a record of a user whose row is locked; return its row and whether it is new.

    `at_first` holds values that are set for a new record only. Raises NotFound for a lesson whose
    course does not exist.
    """
    table = kind.__table__
    new = {"user_id": user_id, **key, **(at_first or {}), **values}
    insert = insert_into(table).values(new).on_conflict_do_nothing().returning(table)
    replace = update(table).filter_by(user_id=user_id, **key).values(**values).returning(table)
    while True:
        try:
            with db.session.begin_nested():
                row = db.session.execute(insert).one_or_none()
        except IntegrityError as error:
            if not lacks_parent(error):
                raise
            raise errors.NotFound(_NO_COURSE) from None
        if row is not None:
            return row, True
        row = db.session.execute(replace).one_or_none()
        if row is not None:
            return row, False
        # A parallel call has removed the record between the two statements: insert it again.


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
