"""Learning records of a user, for the course system (with a service key) and for instructors.

The URL rules use `id:`, which accepts a slash: an encoded slash in an id must be a 400 by the
schema, because a 404 would mean that the course does not exist. The rule that reads a course does
not use it: it would match the URLs of lessons too, and no call reads a single lesson.
"""

import functools
from datetime import date

from flask import Blueprint

import schemas
from core import clock
from core.roles import Role
from core.scopes import Scope
from database import transaction
from errors import NotFound, UserNotFound
from models import Achievement, Certificate, Course, Lesson, Record, UserRow
from services import certificates, learning, users
from web.api import endpoint
from web.bearer import caller
from web.responses import Reply

bp = Blueprint("records", __name__, url_prefix="/api/users/<uuid:user_id>")
record = functools.partial(
    endpoint, bp, role=Role.INSTRUCTOR, scopes=(Scope.LEARNING_WRITE,), errors=(UserNotFound,)
)
delivery = functools.partial(record, "PUT", creates=True)
removal = functools.partial(record, "DELETE", message="The record is removed.")
read = functools.partial(
    endpoint, bp, "GET", role=Role.INSTRUCTOR, scopes=(Scope.LEARNING_READ,), errors=(UserNotFound,)
)


def _learner(user_id: str) -> UserRow:
    return users.get_within(user_id, caller().learners)


@read("/courses", response=schemas.CourseList)
def list_user_courses(user_id: str) -> dict[str, object]:
    """List a user's courses, last activity first."""
    return {"courses": learning.list_courses(_learner(user_id).id)}


@read(
    "/courses/<course_id>",
    path_shape=schemas.CoursePath,
    response=schemas.CourseWithLessons,
    errors=(NotFound, UserNotFound),
)
def get_user_course(user_id: str, course_id: str) -> dict[str, object]:
    """Read a user's course with its completed lessons, oldest first."""
    return learning.course(_learner(user_id).id, course_id)


@read("/progress", response=schemas.Progress)
def get_user_progress(user_id: str) -> dict[str, object]:
    """Read a user's learning progress; achievements are newest first."""
    user = _learner(user_id)
    return learning.progress(user.id, user.timezone, now=clock.utcnow())


@read("/progress/days", query=schemas.DaysQuery, response=schemas.DayList)
def list_user_days(user_id: str, query: dict[str, date]) -> dict[str, object]:
    """List the days with a completed lesson, in the user's time zone: at most 366 days.

    By default the 366 days to today; with only one of `from` and `to` the 366 days from or to it.
    """
    return learning.list_days(_learner(user_id), query, now=clock.utcnow())


@read("/certificates", response=schemas.CertificateList)
def list_user_certificates(user_id: str) -> dict[str, object]:
    """List a user's certificates, newest first."""
    return {"certificates": certificates.list_all(_learner(user_id).id)}


def _put(kind: type[Record], user_id: str, body: dict[str, object], **key: str) -> Reply:
    with transaction():
        user = users.lock_within(user_id, caller().learners, read=True)
        row, is_new = learning.put(kind, user, {**key, **body}, now=clock.utcnow())
    found = certificates.with_url(row) if kind is Certificate else row
    return Reply(found, 201 if is_new else 200)


def _remove(kind: type[Record], user_id: str, **key: str) -> None:
    with transaction():
        users.lock_within(user_id, caller().learners, read=True)
        learning.remove(kind, user_id, key)


@delivery(
    "/courses/<id:course_id>",
    path_shape=schemas.CoursePath,
    body=schemas.CourseDelivery,
    response=schemas.CourseRecord,
    message="The course is recorded.",
)
def put_course(user_id: str, course_id: str, body: dict[str, object]) -> Reply:
    """Record that a user takes a course, and how many lessons it has."""
    return _put(Course, user_id, body, id=course_id)


@removal("/courses/<id:course_id>", path_shape=schemas.CoursePath)
def delete_course(user_id: str, course_id: str) -> None:
    """Remove a user's course and its lessons."""
    _remove(Course, user_id, id=course_id)


@delivery(
    "/courses/<course_id>/lessons/<id:lesson_id>",
    path_shape=schemas.LessonPath,
    body=schemas.LessonDelivery,
    response=schemas.LessonRecord,
    message="The lesson is recorded.",
    errors=(NotFound, UserNotFound),
)
def put_lesson(user_id: str, course_id: str, lesson_id: str, body: dict[str, object]) -> Reply:
    """Record that a user has completed a lesson, and how many minutes it took.

    `completedAt` defaults to the time of the first delivery. The course must exist: deliver it
    first, then the lesson again.
    """
    return _put(Lesson, user_id, body, course_id=course_id, id=lesson_id)


@removal("/courses/<course_id>/lessons/<id:lesson_id>", path_shape=schemas.LessonPath)
def delete_lesson(user_id: str, course_id: str, lesson_id: str) -> None:
    """Remove a completed lesson."""
    _remove(Lesson, user_id, course_id=course_id, id=lesson_id)


@delivery(
    "/achievements/<id:achievement_id>",
    path_shape=schemas.AchievementPath,
    body=schemas.AchievementDelivery,
    response=schemas.AchievementRecord,
    message="The achievement is recorded.",
)
def put_achievement(user_id: str, achievement_id: str, body: dict[str, object]) -> Reply:
    """Record that a user has earned an achievement.

    `earnedAt` defaults to the time of the first delivery.
    """
    return _put(Achievement, user_id, body, id=achievement_id)


@removal("/achievements/<id:achievement_id>", path_shape=schemas.AchievementPath)
def delete_achievement(user_id: str, achievement_id: str) -> None:
    """Remove an achievement."""
    _remove(Achievement, user_id, id=achievement_id)


@delivery(
    "/certificates/<id:certificate_id>",
    path_shape=schemas.CertificatePath,
    body=schemas.CertificateDelivery,
    response=schemas.CertificateRecord,
    message="The certificate is recorded.",
)
def put_certificate(user_id: str, certificate_id: str, body: dict[str, object]) -> Reply:
    """Record that a user has received a certificate.

    `issuedAt` defaults to the time of the first delivery; without `expiresAt` the certificate does
    not expire. A time as `revokedAt` revokes it, null takes that back, and without it nothing
    changes about it. Its holder is who the user was at the first delivery, and a certificate that
    is shared stays so; removing it ends both.
    """
    return _put(Certificate, user_id, body, id=certificate_id)


@removal("/certificates/<id:certificate_id>", path_shape=schemas.CertificatePath)
def delete_certificate(user_id: str, certificate_id: str) -> None:
    """Remove a certificate."""
    _remove(Certificate, user_id, id=certificate_id)
