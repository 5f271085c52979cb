"""Learning records: what the course system tells us of a user, and what that amounts to.

The course system chooses the ids and may deliver everything again, at once, and in any order; the
same deliveries make the same records.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar, cast

from sqlalchemy import (
    BigInteger,
    Delete,
    Row,
    Table,
    Update,
    and_,
    delete,
    func,
    select,
    type_coerce,
    update,
)
from sqlalchemy.exc import IntegrityError

import errors
from core import locales
from core.streaks import streak
from database import change, insert_into, reading
from extensions import db
from models import Achievement, Certificate, Course, Lesson, Record, User

Statement = TypeVar("Statement", Update, Delete)


@dataclass(frozen=True)
class Recorded:
    """A record as it is now, and whether it is new."""

    row: Row[Any]
    created: bool


def put(
    kind: type[Record],
    user_id: str,
    key: Mapping[str, str],
    values: Mapping[str, Any],
    *,
    at_first: Mapping[str, Any] | None = None,
) -> Recorded:
    """Record something of a user, or replace it; `at_first` is only for what is not there yet.

    Raises UserNotFound, and NotFound for a lesson of a course that is not there.
    """
    table = _table(kind)
    new = {"user_id": user_id, **key, **(at_first or {}), **values}
    # Of many parallel calls with one key, the database gives one of them the row.
    add = insert_into(table).values(new).on_conflict_do_nothing().returning(table)
    again = _only(update(table), table, user_id, key).values(**values).returning(table)
    while True:
        try:
            row = db.session.execute(add).one_or_none()
        except IntegrityError:
            db.session.rollback()  # gives the connection back before the next one is taken
            raise _missing(user_id) from None
        if row is not None:
            return Recorded(row, created=True)
        row = db.session.execute(again).one_or_none()
        if row is not None:
            return Recorded(row, created=False)
        # It was there, and somebody has just removed it; so it is new after all.


def remove(kind: type[Record], user_id: str, key: Mapping[str, str]) -> None:
    """Remove a record; a course with its lessons. Nothing is amiss when it is not there.

    Raises UserNotFound.
    """
    table = _table(kind)
    removed = change(_only(delete(table), table, user_id, key))
    if not removed and db.session.scalar(select(User.id).where(User.id == user_id)) is None:
        raise errors.UserNotFound


def _table(kind: type[Record]) -> Table:
    return cast("Table", kind.__table__)


def _only(statement: Statement, table: Table, user_id: str, key: Mapping[str, str]) -> Statement:
    whole = {"user_id": user_id, **key}
    return statement.where(*(table.c[name] == value for name, value in whole.items()))


def _missing(user_id: str) -> errors.ApiError:
    with reading() as connection:
        known = connection.scalar(select(User.id).where(User.id == user_id))
    if known is None:
        return errors.UserNotFound()
    return errors.NotFound("There is no such course. Deliver it first, then this lesson again.")


def progress(user_id: str, timezone: str, *, now: datetime) -> dict[str, Any]:
    """Return what a user has learned so far; `timezone` decides which days the streak counts.

    A delivery between the statements may be in one number and not yet in another; the next call
    counts it everywhere. A user who was deleted meanwhile has not begun.
    """
    courses = (
        select(
            Course.lessons,
            func.count(Lesson.id).label("completed"),
            func.coalesce(func.sum(Lesson.minutes), 0).label("minutes"),
        )
        .outerjoin(Lesson, and_(Lesson.user_id == Course.user_id, Lesson.course_id == Course.id))
        .where(Course.user_id == user_id)
        .group_by(Course.id, Course.lessons)
    )
    # As the numbers that they are in the database: there may be thousands.
    moments = select(type_coerce(Lesson.completed_at, BigInteger)).where(Lesson.user_id == user_id)
    achievements = (
        select(Achievement.__table__)
        .where(Achievement.user_id == user_id)
        .order_by(Achievement.earned_at.desc(), Achievement.id.desc())
    )
    with reading() as connection:
        taken = connection.execute(courses).all()
        days = streak(connection.scalars(moments), locales.time_zone(timezone), now)
        return {
            "total_courses": len(taken),
            "completed_courses": sum(course.completed >= course.lessons for course in taken),
            "total_lessons": sum(course.lessons for course in taken),
            "completed_lessons": sum(course.completed for course in taken),
            "total_hours": round(sum(int(course.minutes) for course in taken) / 60, 1),
            "achievements": connection.execute(achievements).all(),
            "current_streak": days,
        }


def list_certificates(user_id: str) -> Sequence[Row[Any]]:
    """Return the certificates of a user, newest first."""
    query = (
        select(Certificate.__table__)
        .where(Certificate.user_id == user_id)
        .order_by(Certificate.issued_at.desc(), Certificate.id.desc())
    )
    with reading() as connection:
        return connection.execute(query).all()
