"""Learning records, as the course system (an account with the role instructor) delivers them.

Each is put under an id of its choice and may be delivered again without harm. An encoded slash
in an id arrives as a slash, so the rules take one (`id:`), and the shape of the id refuses it: a
404 would say that a course is missing.
"""

from collections.abc import Callable
from typing import Any

from flask import Blueprint
from marshmallow import Schema
from sqlalchemy import Row

import schemas
from core import clock
from core.roles import Role
from database import transaction
from errors import ApiError, NotFound, UserNotFound
from models import Achievement, Certificate, Course, Lesson, Record
from services import learning
from web.api import Created, View, endpoint

bp = Blueprint("records", __name__)


def delivery(
    path: str,
    *,
    path_shape: type[Schema],
    body: type[Schema],
    answer: type[Schema],
    message: str,
    errors: tuple[type[ApiError], ...] = (),
) -> Callable[[View], View]:
    """Declare how a record of a user is put."""
    return endpoint(
        bp,
        "PUT",
        f"/<user:user_id>/{path}",
        path_shape=path_shape,
        role=Role.INSTRUCTOR,
        body=body,
        answer=answer,
        creates=True,
        message=message,
        errors=(*errors, UserNotFound),
    )


def removal(path: str, *, path_shape: type[Schema]) -> Callable[[View], View]:
    """Declare how a record of a user is removed."""
    return endpoint(
        bp,
        "DELETE",
        f"/<user:user_id>/{path}",
        path_shape=path_shape,
        role=Role.INSTRUCTOR,
        message="The record is removed.",
        errors=(UserNotFound,),
    )


def _put(
    kind: type[Record], user_id: str, key: dict[str, str], body: dict[str, Any], at: str = ""
) -> Row[Any] | Created:
    """Record something; `at` names the moment that is now, the first time, if it is left out."""
    with transaction():
        recorded = learning.put(
            kind, user_id, key, body, at_first={at: clock.utcnow()} if at else None
        )
    return Created(recorded.row) if recorded.created else recorded.row


def _remove(kind: type[Record], user_id: str, **key: str) -> None:
    with transaction():
        learning.remove(kind, user_id, key)


@delivery(
    "courses/<id:course_id>",
    path_shape=schemas.CoursePath,
    body=schemas.CourseDelivery,
    answer=schemas.CourseRecord,
    message="The course is recorded.",
)
def put_course(user_id: str, course_id: str, body: dict[str, Any]) -> Row[Any] | Created:
    """Record that a user takes a course of so many lessons."""
    return _put(Course, user_id, {"id": course_id}, body)


@removal("courses/<id:course_id>", path_shape=schemas.CoursePath)
def delete_course(user_id: str, course_id: str) -> None:
    """Remove a user's course, with its lessons."""
    _remove(Course, user_id, id=course_id)


@delivery(
    "courses/<course_id>/lessons/<id:lesson_id>",
    path_shape=schemas.LessonPath,
    body=schemas.LessonDelivery,
    answer=schemas.LessonRecord,
    message="The lesson is recorded.",
    errors=(NotFound,),
)
def put_lesson(
    user_id: str, course_id: str, lesson_id: str, body: dict[str, Any]
) -> Row[Any] | Created:
    """Record that a user has completed a lesson, in so many minutes.

    `completedAt` is the time of the first delivery if it is left out. The course must be there:
    deliver it, and then the lesson again.
    """
    key = {"course_id": course_id, "id": lesson_id}
    return _put(Lesson, user_id, key, body, at="completed_at")


@removal("courses/<course_id>/lessons/<id:lesson_id>", path_shape=schemas.LessonPath)
def delete_lesson(user_id: str, course_id: str, lesson_id: str) -> None:
    """Remove a completed lesson."""
    _remove(Lesson, user_id, course_id=course_id, id=lesson_id)


@delivery(
    "achievements/<id:achievement_id>",
    path_shape=schemas.AchievementPath,
    body=schemas.AchievementDelivery,
    answer=schemas.AchievementRecord,
    message="The achievement is recorded.",
)
def put_achievement(user_id: str, achievement_id: str, body: dict[str, Any]) -> Row[Any] | Created:
    """Record that a user has earned something.

    `earnedAt` is the time of the first delivery if it is left out.
    """
    return _put(Achievement, user_id, {"id": achievement_id}, body, at="earned_at")


@removal("achievements/<id:achievement_id>", path_shape=schemas.AchievementPath)
def delete_achievement(user_id: str, achievement_id: str) -> None:
    """Remove an achievement."""
    _remove(Achievement, user_id, id=achievement_id)


@delivery(
    "certificates/<id:certificate_id>",
    path_shape=schemas.CertificatePath,
    body=schemas.CertificateDelivery,
    answer=schemas.CertificateRecord,
    message="The certificate is recorded.",
)
def put_certificate(user_id: str, certificate_id: str, body: dict[str, Any]) -> Row[Any] | Created:
    """Record that a user has got a certificate.

    `issuedAt` is the time of the first delivery if it is left out; without `expiresAt` the
    certificate does not expire.
    """
    whole = {"expires_at": None, **body}
    return _put(Certificate, user_id, {"id": certificate_id}, whole, at="issued_at")


@removal("certificates/<id:certificate_id>", path_shape=schemas.CertificatePath)
def delete_certificate(user_id: str, certificate_id: str) -> None:
    """Remove a certificate."""
    _remove(Certificate, user_id, id=certificate_id)
