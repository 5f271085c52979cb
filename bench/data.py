"""Fills a migrated database, and makes the tokens and bodies that the load sends.

The database makes the rows itself, from their numbers: a million take seconds. So everything
about session 17 can be computed here without asking for it.
"""

import json
import random
from datetime import UTC, datetime, timedelta
from itertools import count, islice
from typing import Any
from uuid import uuid4

import bcrypt
import jwt
from sqlalchemy import (
    URL,
    BigInteger,
    Connection,
    Text,
    cast,
    create_engine,
    func,
    insert,
    literal,
    literal_column,
    select,
)

from bench.databases import SECRET, run_alone
from core.passwords import Hasher
from core.tokens import Purpose, TokenCodec
from models import Course, DeniedSession, Lesson, User, UserSession

PASSWORD = "Tr4vel-Mug-Blue-42"
# Fewer users have more sessions, or the refresh tokens would not last for all rounds.
SESSIONS = 10_000
# The users who have learning records, or all if there are fewer.
LEARNERS = 1000
COURSES = 3
LESSONS = 10
# Refresh tokens in use at once: each is replaced by its successor, after all others.
CHAINS = 200
# The first part of the ids of each kind of row.
USER, SESSION, SPENT = 1, 2, 3


class Data:
    """A filled database, and what the service may be sent on it."""

    def __init__(
        self, url: URL, users: int, *, cost: int = 4, spent: int = 0, tokens: int = 1000
    ) -> None:
        """Add users with open sessions, whose password is hashed at `cost`.

        Beside them, add `spent` sessions that nobody uses again, and as many rows of the denylist
        that have not expired. `tokens` different access tokens are sent in turn.
        """
        self.url = url
        self.users = users
        self._now = datetime.now(UTC).replace(microsecond=0)
        sessions = max(users, SESSIONS)
        self._fill(sessions, spent, self.hash(cost))
        someone = random.Random(1)
        chosen = someone.sample(range(sessions), SESSIONS)
        self._unused = iter(chosen)
        self._new = count()
        reads = [self.access_token(session) for session in chosen[:tokens]]
        logins = [
            json.dumps({"email": email(someone.randrange(users)), "password": PASSWORD})
            for _ in range(1000)
        ]
        progress = [self.access_token(session) for session in range(min(users, LEARNERS))]
        self._lines = {"verify": reads, "profile": reads, "progress": progress, "login": logins}

    def lines(self, operation: str, seconds: int = 1) -> list[str]:
        """Return what to send for so long. What works only once is never returned twice."""
        if operation == "refresh":
            lines = [self.refresh_token(session) for session in islice(self._unused, CHAINS)]
            assert lines, "No refresh tokens are left; measure fewer rounds."
            return lines
        if operation == "register":
            return [registration(f"new-{n:06}") for n in islice(self._new, 1000 * seconds)]
        return self._lines[operation]

    @staticmethod
    def hash(cost: int) -> str:
        return Hasher(cost, parallel=1, waiting=1).hash(PASSWORD)

    def access_token(self, session: int) -> str:
        """Return an access token that outlives any run."""
        return TokenCodec([SECRET]).encode(
            Purpose.ACCESS,
            row_id(USER, session % self.users),
            issued_at=self._now,
            expires_at=self._now + timedelta(days=1),
            sid=row_id(SESSION, session),
            role="student",
        )

    def refresh_token(self, session: int) -> str:
        """Return the session's refresh token, which works once."""
        return TokenCodec([SECRET]).encode(
            Purpose.REFRESH,
            row_id(USER, session % self.users),
            issued_at=self._now,
            expires_at=self._now + timedelta(days=30),
            token_id=row_id(SESSION, session),
            sid=row_id(SESSION, session),
        )

    def _fill(self, sessions: int, spent: int, password_hash: str) -> None:
        n = literal_column("n", BigInteger)
        now, long_ago = self._now, self._now - timedelta(days=20)
        time = User.created_at.type
        seconds = literal(int(now.timestamp()), BigInteger)
        name = literal("user", Text) + _digits(n, 7)
        address = name + "@example.org"
        user = {
            "id": _row_id(USER, n),
            "username": name,
            "username_key": name,
            "email": address,
            "first_name": literal("First", Text),
            "last_name": literal("Last", Text),
            "password_hash": literal(password_hash, Text),
            "created_at": literal(now, time),
            "search_key": name + "\n" + address + "\nfirst last",
        }

        def session(kind: int, moment: datetime) -> dict[str, Any]:
            return {
                "id": _row_id(kind, n),
                "user_id": _row_id(USER, n % self.users),
                "created_at": literal(moment, time),
                "last_used_at": literal(moment, time),
                "expires_at": literal(moment + timedelta(days=30), time),
                "access_expires_at": literal(moment + timedelta(minutes=15), time),
                "refresh_token_id": _row_id(kind, n),
                "user_agent": literal("a browser", Text),
                "ip_address": literal("127.0.0.1", Text),
            }

        denied = {
            "session_id": _row_id(SPENT, n),
            "expires_at": literal(now + timedelta(days=1), time),
        }
        course = {
            "user_id": _row_id(USER, n // COURSES),
            "id": _digits(n % COURSES, 3),
            "name": literal("A course", Text),
            "lessons": literal(LESSONS),
        }
        lesson = {
            "user_id": _row_id(USER, n // (COURSES * LESSONS)),
            "course_id": _digits(n // LESSONS % COURSES, 3),
            "id": _digits(n % LESSONS, 3),
            "completed_at": seconds - n % LESSONS * 86400,
            "minutes": literal(30),
        }
        learners = min(self.users, LEARNERS)
        engine = create_engine(self.url)
        with engine.begin() as connection:
            _insert(connection, User, self.users, user)
            _insert(connection, UserSession, sessions, session(SESSION, now))
            _insert(connection, UserSession, spent, session(SPENT, long_ago))
            _insert(connection, DeniedSession, spent, denied)
            _insert(connection, Course, learners * COURSES, course)
            _insert(connection, Lesson, learners * COURSES * LESSONS, lesson)
        engine.dispose()
        if engine.name == "postgresql":
            # Postgres does this by itself some time after so many new rows.
            run_alone(self.url, "VACUUM ANALYZE")


class TutorialData(Data):
    """The same for the tutorial stack, with its kinds of token and of password hash."""

    @staticmethod
    def hash(cost: int) -> str:
        return bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(cost)).decode()

    def access_token(self, session: int) -> str:
        return self._token(session, "access")

    def refresh_token(self, session: int) -> str:
        return self._token(session, "refresh")

    def _token(self, session: int, kind: str) -> str:
        claims = {
            "fresh": False,
            "iat": self._now,
            "jti": str(uuid4()),
            "type": kind,
            "sub": row_id(USER, session % self.users),
            "nbf": self._now,
            "exp": self._now + timedelta(days=1),
        }
        return jwt.encode(claims, SECRET, algorithm="HS256")


def email(user: int) -> str:
    return f"user{user:07}@example.org"


def row_id(kind: int, number: int) -> str:
    return f"{kind:08}-0000-7000-8000-{number:012}"


def registration(username: str) -> str:
    """Return the body of a registration."""
    body = {"username": username, "email": f"{username}@example.org", "password": PASSWORD}
    return json.dumps({**body, "firstName": "First", "lastName": "Last"})


def _row_id(kind: int, number: Any) -> Any:
    """Return the same id as an expression in SQL."""
    return literal(row_id(kind, 0)[:-12], Text) + _digits(number, 12)


def _digits(number: Any, width: int) -> Any:
    return func.substr(cast(number + literal(10**width, BigInteger), Text), 2)


def _insert(connection: Connection, model: Any, rows: int, values: dict[str, Any]) -> None:
    """Insert so many rows; `n` in the expressions is the number of a row, from 0."""
    if rows:
        first = select(literal(0, BigInteger).label("n")).cte("series", recursive=True)
        series = first.union_all(select(first.c.n + 1).where(first.c.n < rows - 1))
        row = select(*values.values()).select_from(series)
        connection.execute(insert(model.__table__).from_select(list(values), row))
