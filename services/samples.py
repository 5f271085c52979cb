"""Sample accounts with learning records, so that a new installation has something to show."""

import itertools
import random
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import errors
from core import clock
from database import transaction
from extensions import db, hasher
from models import Achievement, Certificate, Course, Lesson, User
from services import accounts

_FIRST_NAMES = ("Alex", "Jules", "Kim", "Mika", "Noor", "Robin", "Sam", "Yuki")
_LAST_NAMES = ("Birch", "Brook", "Fern", "Heath", "Lake", "Linden", "Maple", "Meadow", "Vale")
# The id, name and number of lessons of each course.
_COURSES = (("python", "Python for beginners", 12), ("sql", "SQL", 10), ("web", "The web", 8))


def add(count: int, password: str) -> list[str]:
    """Add `count` students who share a password; return their e-mail addresses.

    Usernames and e-mail addresses that are taken are skipped, so a second call continues.
    """
    password_hash, now = hasher.hash(password), clock.utcnow()
    added: list[str] = []
    numbers = itertools.count(1)
    while len(added) < count:
        name = f"student-{next(numbers):04}"
        chance = random.Random(name)  # noqa: S311 - a sample is no secret
        names = {"first_name": chance.choice(_FIRST_NAMES), "last_name": chance.choice(_LAST_NAMES)}
        student: dict[str, Any] = {"username": name, "email": f"{name}@example.org", **names}
        # One transaction for each account, or the requests of a running service would time out.
        with suppress(errors.UsernameTaken, errors.EmailTaken), transaction():
            user = accounts.add(**student, password_hash=password_hash, email_verified_at=now)
            _add_records(user, chance, now)
            added.append(user.email)
    return added


def _add_records(user: User, chance: random.Random, now: datetime) -> None:
    for course, name, lessons in chance.sample(_COURSES, chance.randint(1, len(_COURSES))):
        done = chance.choice((lessons, chance.randint(1, lessons)))
        last = now - timedelta(days=chance.randint(0, 9))
        key = {"user_id": user.id, "id": course}
        db.session.add(Course(**key, name=name, lessons=lessons))
        db.session.flush()  # its lessons refer to it
        for day in range(done):
            when = {"completed_at": last - timedelta(days=day), "minutes": chance.randint(10, 60)}
            db.session.add(Lesson(user_id=user.id, course_id=course, id=str(done - day), **when))
        if done == lessons:
            db.session.add(Achievement(**key, name=f"Completed: {name}", earned_at=last))
            about = {"course_id": course, "course_name": name, "credential_url": ""}
            holder = f"{user.first_name} {user.last_name}"
            db.session.add(Certificate(**key, **about, issued_at=last, holder=holder))
