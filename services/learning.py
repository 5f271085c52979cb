"""Learning records: courses, lessons, achievements and certificates of users, and their progress.

The course system chooses the ids. It may deliver a record again, or in parallel; the result is the
same.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Row, and_, delete, func, select, type_coerce, update
from sqlalchemy.exc import IntegrityError

import errors
from core import locales
from core.streaks import streak
from database import change, insert_into, lacks_parent, reading
from extensions import db
from models import Achievement, Certificate, Course, Lesson, Record
from services import users


def put(
    kind: type[Record],
    user_id: str,
    key: Mapping[str, str],
    values: Mapping[str, object],
    *,
    at_first: Mapping[str, object] | None = None,
) -> tuple[Row[Any], bool]:
    """Add or replace a record of a user; return its row and whether it is new.

    `at_first` holds values that are set for a new record only. Raises UserNotFound, and NotFound
    for a lesson whose course does not exist.
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
            users.require(users.lock(user_id, read=True))
            raise errors.NotFound(
                "There is no such course. Deliver it first, then this lesson again."
            ) from None
        if row is not None:
            return row, True
        row = db.session.execute(replace).one_or_none()
        if row is not None:
            return row, False
        # A parallel call has removed the record between the two statements: insert it again.


def remove(kind: type[Record], user_id: str, key: Mapping[str, str]) -> None:
    """Remove a record if it exists, a course with its lessons. Raises UserNotFound."""
    if not change(delete(kind).filter_by(user_id=user_id, **key)):
        users.require(users.lock(user_id, read=True))


def progress(user_id: str, timezone: str, *, now: datetime) -> dict[str, object]:
    """Return a user's learning progress; the streak counts days in `timezone`.

    A delivery between the statements may be in one number and not yet in another.
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
    # Read as plain numbers, because converting thousands of times to datetime is slow.
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
            # A course that was delivered again may have fewer lessons than were completed.
            "completed_lessons": sum(min(course.completed, course.lessons) for course in taken),
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
