"""Learning records: what the course system tells us of a user, and what that amounts to.

The course system chooses the ids and may deliver everything again, at once, and in any order; the
same deliveries make the same records.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias, TypeVar, cast

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Delete,
    Row,
    Select,
    String,
    Table,
    Update,
    bindparam,
    case,
    delete,
    func,
    select,
    true,
    type_coerce,
    update,
)
from sqlalchemy import cast as sql_cast
from sqlalchemy.exc import IntegrityError

import errors
from core import locales
from core.streaks import streak
from database import change, insert_new, reading
from extensions import db
from models import Achievement, Certificate, Course, Lesson, Record, User

Query: TypeAlias = Select[*tuple[Any, ...]]
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
    again = _only(update(table), table, user_id, key).values(**values).returning(table)
    while True:
        try:
            row = db.session.execute(insert_new(table).values(new).returning(table)).one_or_none()
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


def with_progress(user: Query, shown: ColumnElement[bool]) -> Query:
    """Return a query for one user, `:user_id`, that brings the progress as well, where `shown`.

    Rows differ in their achievement only; one that has none is there at least.
    """
    user_id: ColumnElement[str] = bindparam("user_id", type_=String)
    moments = sql_cast(type_coerce(Lesson.completed_at, BigInteger), String)
    by_course = (
        select(
            Lesson.course_id,
            func.count().label("lessons"),
            func.sum(Lesson.minutes).label("minutes"),
            func.aggregate_strings(moments, ",").label("moments"),
        )
        .where(Lesson.user_id == user_id, shown)
        .group_by(Lesson.course_id)
        .subquery("by_course")
    )
    totals = (
        select(
            func.count().label("total_courses"),
            func.count(case((by_course.c.lessons >= Course.lessons, 1))).label("completed_courses"),
            func.sum(Course.lessons).label("total_lessons"),
            func.sum(by_course.c.lessons).label("completed_lessons"),
            func.sum(by_course.c.minutes).label("minutes"),
            func.aggregate_strings(by_course.c.moments, ",").label("moments"),
        )
        .select_from(Course)
        .outerjoin(by_course, by_course.c.course_id == Course.id)
        .where(Course.user_id == user_id, shown)
        .subquery("totals")
    )
    newest_first = (Achievement.earned_at.desc(), Achievement.id.desc())
    achievement = (
        select(
            Achievement.id,
            Achievement.name,
            Achievement.earned_at,
            func.row_number().over(order_by=newest_first).label("place"),
        )
        .where(Achievement.user_id == user_id, shown)
        .subquery("achievement")
    )
    place = func.coalesce(achievement.c.place, 1)
    return (
        user.add_columns(
            *totals.c,
            achievement.c.id.label("achievement_id"),
            achievement.c.name.label("achievement_name"),
            achievement.c.earned_at.label("achievement_earned_at"),
        )
        .select_from(User)
        .outerjoin(achievement, true())
        # The totals come once: their list of moments is long, and there may be many achievements.
        .outerjoin(totals, place == 1)
        .where(User.id == user_id)
        .order_by(place)
    )


_OWN_PROGRESS = with_progress(select(User.timezone), true())


def own_progress(user_id: str, *, now: datetime) -> dict[str, Any]:
    """Return the progress of a user, by a single query."""
    with reading() as connection:
        rows = connection.execute(_OWN_PROGRESS, {"user_id": user_id}).all()
    if not rows:  # deleted since the token was checked
        raise errors.TokenRevoked
    return summary(rows, now=now)


def summary(rows: Sequence[Row[Any]], *, now: datetime) -> dict[str, Any]:
    """Return what the rows of `with_progress` say; they hold the user's `timezone` too."""
    first = rows[0]
    moments = map(int, first.moments.split(",")) if first.moments else ()
    return {
        "total_courses": first.total_courses,
        "completed_courses": first.completed_courses,
        "total_lessons": int(first.total_lessons or 0),
        "completed_lessons": int(first.completed_lessons or 0),
        "total_hours": round(int(first.minutes or 0) / 60, 1),
        "achievements": [
            {
                "id": row.achievement_id,
                "name": row.achievement_name,
                "earned_at": row.achievement_earned_at,
            }
            for row in rows
            if row.achievement_id is not None
        ],
        "current_streak": streak(moments, locales.time_zone(first.timezone), now),
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
