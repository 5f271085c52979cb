"""The copy of everything that is stored about a user (GDPR, articles 15 and 20)."""

import base64
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Row, select

from database import read_all
from extensions import Base
from models import Achievement, Avatar, Course, Lesson, UserRow
from schemas import SEEN
from services import (
    certificates,
    email_change,
    groups,
    history,
    passkeys,
    profiles,
    second_factor,
    sessions,
)
from services.custom_fields import seen

# What a browser calls the copy.
AS_FILE = {"Content-Disposition": 'attachment; filename="account.json"'}


def collect(user: UserRow, *, session_id: str = "", now: datetime) -> tuple[Any, Iterable[Any]]:
    """Return all data of a user, and further pages of `events`, which are read only when they are
    wanted: there may be too many for the memory. The session with this id is the current one.
    """
    lessons: dict[str, list[Row[Any]]] = {}
    for lesson in _rows(Lesson, user.id):
        lessons.setdefault(lesson.course_id, []).append(lesson)
    courses = _rows(Course, user.id)
    pictures = [base64.b64encode(row.picture).decode() for row in _rows(Avatar, user.id)]
    page = history.page(for_admins=False, user_id=user.id)
    data = {
        "exported_at": now,
        # Also what names have left that are no longer in CUSTOM_FIELDS.
        "account": profiles.profile(user)
        | {SEEN: {**seen(user.custom_fields), **user.custom_fields}},
        "settings": profiles.preferences(user),
        "second_factor": second_factor.status(user),
        "passkeys": passkeys.list_all(user.id),
        "avatar": {"media_type": "image/webp", "data": pictures[0]} if pictures else None,
        "sessions": sessions.list_open(user.id, current=session_id, now=now),
        "courses": [
            {**course._asdict(), "completed_lessons": lessons.get(course.id, [])}
            for course in courses
        ],
        "pending_email": email_change.pending(user.id, now=now)["pending_email"],
        "achievements": _rows(Achievement, user.id),
        "certificates": certificates.list_all(user.id),
        "groups": [group.name for group in groups.of_user(user.id)],
        "events": page["events"],  # the last one, since more follow
    }
    return data, _pages(user.id, page["next"]) if page["next"] else ()


def _pages(user_id: str, after: str | None) -> Iterator[dict[str, Any]]:
    while after:
        page = history.page(for_admins=False, user_id=user_id, after=after)
        if page["events"]:  # not pruned meanwhile
            yield page
        after = page["next"]


def _rows(model: type[Base], user_id: str) -> Sequence[Row[Any]]:
    table = model.__table__
    return read_all(select(table).where(table.c.user_id == user_id).order_by(*table.primary_key))
