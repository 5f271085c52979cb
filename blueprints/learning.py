"""Learning records of all users in bulk: out as pages of JSON or of CSV, and in as JSON."""

import functools
from typing import Any
from urllib.parse import urlencode

from flask import Blueprint, Response, request

import schemas
from core import clock
from core.reasons import Reason
from core.roles import Role
from core.scopes import Scope
from database import transaction
from errors import InvalidRequest, NotFound
from extensions import settings
from models import Achievement, Certificate, Course, Lesson, Record
from services import bulk, learning
from web.api import CSV, JSON, endpoint
from web.bearer import caller

bp = Blueprint("learning", __name__, url_prefix="/api/learning")
copies = functools.partial(
    endpoint,
    bp,
    "GET",
    role=Role.ADMIN,
    scopes=(Scope.LEARNING_READ,),
    query=schemas.CopyQuery,
    or_csv=True,
    errors=(NotFound,),
)
deliveries = functools.partial(
    endpoint,
    bp,
    "POST",
    role=Role.INSTRUCTOR,
    scopes=(Scope.LEARNING_WRITE,),
    of_many=True,
    response=schemas.Delivered,
    message="The records are delivered.",
)
_CSV_TYPE = f"{CSV}; charset=utf-8"
_TOO_MANY = Reason("too_large", f"The largest number is {schemas.MOST_RECORDS}, but for CSV.")


def _page(name: str, query: dict[str, Any]) -> Response | dict[str, object]:
    as_csv = request.accept_mimetypes.best_match((JSON, CSV, _CSV_TYPE)) in (CSV, _CSV_TYPE)
    if not as_csv and query["limit"] > schemas.MOST_RECORDS:
        raise InvalidRequest(fields={"limit": [_TOO_MANY]})
    kind = bulk.KINDS[name]
    found = bulk.page(kind, caller().learners, **query)
    if not as_csv:
        return found._asdict()
    text = bulk.head(kind) + bulk.as_csv(kind, found.records)
    response = Response(text, content_type=_CSV_TYPE)
    if found.next:
        more = urlencode({**request.args, "after": found.next})
        response.headers["Link"] = f'<{settings.public_url}/api/learning/{name}?{more}>; rel="next"'
    return response


@copies("/courses", response=schemas.CopiedCourses)
def copy_courses(query: dict[str, Any]) -> Response | dict[str, object]:
    """List the courses of all users, by user and id.

    Call again with `next` as `after` until it is null: a page may have fewer records than `limit`,
    even none. It is a copy and no feed: what changes meanwhile may be missed. With `Accept:
    text/csv` it is a page of CSV, and the header `Link` has the URL of the next one. The records of
    admins are left out for service keys; so in all these calls.
    """
    return _page("courses", query)


@copies("/lessons", response=schemas.CopiedLessons)
def copy_lessons(query: dict[str, Any]) -> Response | dict[str, object]:
    """List the completed lessons of all users, by user, course and id, as `copyCourses` does."""
    return _page("lessons", query)


@copies("/achievements", response=schemas.CopiedAchievements)
def copy_achievements(query: dict[str, Any]) -> Response | dict[str, object]:
    """List the achievements of all users, by user and id, as `copyCourses` does."""
    return _page("achievements", query)


@copies("/certificates", response=schemas.CopiedCertificates)
def copy_certificates(query: dict[str, Any]) -> Response | dict[str, object]:
    """List the certificates of all users, by user and id, as `copyCourses` does."""
    return _page("certificates", query)


@copies(
    "/memberships",
    response=schemas.CopiedMemberships,
    scopes=(Scope.LEARNING_READ, Scope.USERS_READ),
)
def copy_memberships(query: dict[str, Any]) -> Response | dict[str, object]:
    """List who is in which group now, by user and group, as `copyCourses` does."""
    return _page("memberships", query)


def _deliver(kind: type[Record], body: dict[str, Any]) -> dict[str, object]:
    me, now = caller(), clock.utcnow()
    with transaction():
        by_number = not me.member
        return learning.put_all(kind, body["records"], me.learners, by_number=by_number, now=now)


@deliveries("/courses", body=schemas.DeliveredCourses)
def deliver_courses(body: dict[str, Any]) -> dict[str, object]:
    """Record up to 1,000 courses of users, as `putCourse` does one.

    A record is what `copyCourses` gives out. The whole call takes effect, but for refused records,
    or nothing of it. Of two with one user and id, the later one counts. So in all these calls.
    """
    return _deliver(Course, body)


@deliveries("/lessons", body=schemas.DeliveredLessons)
def deliver_lessons(body: dict[str, Any]) -> dict[str, object]:
    """Record up to 1,000 completed lessons of users, whose courses are there."""
    return _deliver(Lesson, body)


@deliveries("/achievements", body=schemas.DeliveredAchievements)
def deliver_achievements(body: dict[str, Any]) -> dict[str, object]:
    """Record up to 1,000 achievements of users."""
    return _deliver(Achievement, body)


@deliveries("/certificates", body=schemas.DeliveredCertificates)
def deliver_certificates(body: dict[str, Any]) -> dict[str, object]:
    """Record up to 1,000 certificates of users."""
    return _deliver(Certificate, body)
