"""Learning records, delivered by the course system (with a service key) or by an instructor.

The URL rules use `id:`, which accepts a slash: an encoded slash in an id must be a 400 by the
schema, because a 404 would mean that the course does not exist.
"""

import functools

from flask import Blueprint

import schemas
from core import clock
from core.roles import Role
from core.scopes import Scope
from database import transaction
from errors import NotFound, UserNotFound
from models import Achievement, Certificate, Course, Lesson, Record
from services import learning, users
from web import bearer
from web.api import Reply, endpoint

bp = Blueprint("records", __name__)
record = functools.partial(
    endpoint, bp, role=Role.INSTRUCTOR, scope=Scope.LEARNING_WRITE, errors=(UserNotFound,)
)
delivery = functools.partial(record, "PUT", creates=True)
removal = functools.partial(record, "DELETE", message="The record is removed.")


def _put(
    kind: type[Record], user_id: str, key: dict[str, str], body: dict[str, object], at: str = ""
) -> Reply:
    """Add or replace a record; `at` names the time field that defaults to now in a new record."""
    at_first = {at: clock.utcnow()} if at else None
    with transaction():
        if bearer.is_key():
            users.require(users.lock(user_id, read=True), except_admins=True)
        row, is_new = learning.put(kind, user_id, key, body, at_first=at_first)
    return Reply(row, 201 if is_new else 200)


def _remove(kind: type[Record], user_id: str, **key: str) -> None:
    with transaction():
        if bearer.is_key():
            users.require(users.lock(user_id, read=True), except_admins=True)
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
    return _put(Course, user_id, {"id": course_id}, body)


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
    key = {"course_id": course_id, "id": lesson_id}
    return _put(Lesson, user_id, key, body, at="completed_at")


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
    return _put(Achievement, user_id, {"id": achievement_id}, body, at="earned_at")


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
    not expire.
    """
    values = {"expires_at": None, **body}
    return _put(Certificate, user_id, {"id": certificate_id}, values, at="issued_at")


@removal("/certificates/<id:certificate_id>", path_shape=schemas.CertificatePath)
def delete_certificate(user_id: str, certificate_id: str) -> None:
    """Remove a certificate."""
    _remove(Certificate, user_id, id=certificate_id)
