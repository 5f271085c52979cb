"""Fills a migrated database, and makes the tokens and bodies that the load sends.

The rows go in by the tables of models.py, so that they are what the service itself would write.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any
from uuid import uuid4

import jwt
import orjson
from sqlalchemy import Connection, Engine, Table, create_engine, func, insert, select, update
from sqlalchemy.engine import URL

from bench.databases import SECRET
from core.ids import new_row_id, new_token_id
from core.passwords import Hasher
from core.tokens import Purpose, TokenCodec
from extensions import Base
from models import Achievement, Course, DeniedSession, Lesson, User, UserSession, search_key

PASSWORD = "Tr4vel-Mug-Blue-42"
# The users who have learning records, or all if there are fewer.
LEARNERS = 1000
COURSES = 3
LESSONS = 10
ACHIEVEMENTS = 2
BATCH = 10_000
LIVE, SPENT = "a browser", "a browser of long ago"

_codec = TokenCodec([SECRET])


@dataclass(frozen=True)
class Caller:
    """A user with an open session, and what the session's row says."""

    user_id: str
    username: str
    email: str
    session_id: str
    refresh_token_id: str
    last_used_at: datetime
    expires_at: datetime

    def access_token(self) -> str:
        """Return an access token that outlives any run."""
        now = datetime.now(UTC)
        return _codec.encode(
            Purpose.ACCESS,
            self.user_id,
            issued_at=now,
            expires_at=now + timedelta(days=1),
            sid=self.session_id,
            role="student",
        )

    def refresh_token(self) -> str:
        """Return the session's refresh token, which works once."""
        return _codec.encode(
            Purpose.REFRESH,
            self.user_id,
            issued_at=self.last_used_at,
            expires_at=self.expires_at,
            token_id=self.refresh_token_id,
            sid=self.session_id,
        )

    def tutorial_token(self, kind: str) -> str:
        """Return a token of Flask-JWT-Extended's own, of kind `access` or `refresh`."""
        now = datetime.now(UTC)
        claims = {
            "fresh": False,
            "iat": now,
            "jti": str(uuid4()),
            "type": kind,
            "sub": self.user_id,
            "nbf": now,
            "exp": now + timedelta(days=1),
        }
        return jwt.encode(claims, SECRET, algorithm="HS256")


def username(number: int) -> str:
    return f"user{number:07}"


def fill(url: URL, users: int, *, rounds: int, sessions_each: int = 1, spent: int = 0) -> None:
    """Add users with open sessions, and so many spent rows.

    All users have the password PASSWORD, hashed once, at the cost of `rounds`. Spent rows are
    sessions that nobody will use again, and as many rows of the denylist, whose time is not over:
    those past it leave the database by themselves.
    """
    now = datetime.now(UTC)
    password_hash = Hasher(rounds, parallel=1, waiting=1).hash(PASSWORD)
    with _connected(url) as engine, engine.begin() as connection:
        _add_all(connection, User, (_user(n, password_hash, now) for n in range(users)))
        order = select(User.id).order_by(User.username_key)
        ids = connection.scalars(order).all()
        _add_all(
            connection,
            UserSession,
            (_session(id_, now, LIVE) for _ in range(sessions_each) for id_ in ids),
        )
        someone = random.Random(1)
        old = now - timedelta(days=20)
        _add_all(
            connection,
            UserSession,
            (_session(someone.choice(ids), old, SPENT) for _ in range(spent)),
        )
        _add_all(
            connection,
            DeniedSession,
            (
                {"session_id": new_row_id(), "expires_at": now + timedelta(days=1)}
                for _ in range(spent)
            ),
        )
        learners = ids[:LEARNERS]
        for kind, rows in _records(learners, now).items():
            _add_all(connection, kind, rows)


def _add_all(connection: Connection, kind: type[Base], rows: Iterator[dict[str, Any]]) -> None:
    table = kind.__table__
    assert isinstance(table, Table)
    while batch := list(islice(rows, BATCH)):
        connection.execute(insert(table), batch)


def _user(number: int, password_hash: str, now: datetime) -> dict[str, Any]:
    name = username(number)
    email = f"{name}@example.org"
    return {
        "id": new_row_id(),
        "username": name,
        "username_key": name,
        "email": email,
        "first_name": "First",
        "last_name": "Last",
        "password_hash": password_hash,
        "created_at": now,
        "search_key": search_key(name, email, "First", "Last"),
    }


def _session(user_id: str, now: datetime, user_agent: str) -> dict[str, Any]:
    return {
        "id": new_row_id(),
        "user_id": user_id,
        "created_at": now,
        "last_used_at": now,
        "expires_at": now + timedelta(days=30),
        "access_expires_at": now + timedelta(minutes=15),
        "refresh_token_id": new_token_id(),
        "user_agent": user_agent,
        "ip_address": "127.0.0.1",
    }


def _records(learners: list[str], now: datetime) -> dict[type[Base], Iterator[dict[str, Any]]]:
    courses = (
        {"user_id": id_, "id": f"course-{n}", "name": f"Course {n}", "lessons": LESSONS}
        for id_ in learners
        for n in range(COURSES)
    )
    lessons = (
        {
            "user_id": id_,
            "course_id": f"course-{n}",
            "id": f"lesson-{m}",
            "completed_at": now - timedelta(days=m),
            "minutes": 30,
        }
        for id_ in learners
        for n in range(COURSES)
        for m in range(LESSONS)
    )
    achievements = (
        {"user_id": id_, "id": f"badge-{n}", "name": f"Badge {n}", "earned_at": now}
        for id_ in learners
        for n in range(ACHIEVEMENTS)
    )
    return {Course: courses, Lesson: lessons, Achievement: achievements}


def callers(url: URL, count: int, *, learners: bool = False) -> list[Caller]:
    """Choose users at random among all, or among those with learning records."""
    query = (
        select(
            User.id,
            User.username,
            User.email,
            UserSession.id,
            UserSession.refresh_token_id,
            UserSession.last_used_at,
            UserSession.expires_at,
        )
        .join(UserSession, UserSession.user_id == User.id)
        .where(UserSession.user_agent == LIVE)
        .order_by(func.random())
        .limit(count)
    )
    if learners:
        query = query.where(User.username_key < username(LEARNERS))
    with _connected(url) as engine, engine.connect() as connection:
        return [Caller(*row) for row in connection.execute(query)]


def use_plain_bcrypt(url: URL, plain_hash: str) -> None:
    """Give all users a hash that other software can read; it must be one of PASSWORD."""
    with _connected(url) as engine, engine.begin() as connection:
        connection.execute(update(User.__table__).values(password_hash=plain_hash))


@contextmanager
def _connected(url: URL) -> Iterator[Engine]:
    engine = create_engine(url)
    try:
        yield engine
    finally:
        engine.dispose()  # SQLite's log is merged into its file by the last one to leave


def login(email: str) -> str:
    """Return the body of a login."""
    return orjson.dumps({"email": email, "password": PASSWORD}).decode()


def registrations(label: str) -> Iterator[str]:
    """Yield bodies of registrations; no two of any label are for the same name."""
    number = 0
    while True:
        number += 1
        name = f"{label}-{number:06}"
        yield orjson.dumps(
            {
                "username": name,
                "email": f"{name}@example.org",
                "password": PASSWORD,
                "firstName": "First",
                "lastName": "Last",
            }
        ).decode()
