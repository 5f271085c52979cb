"""Fills a migrated database, and makes the tokens and bodies that the load sends.

The database makes the rows itself, from their numbers: a million take seconds. So everything
about session 17 can be computed here without asking for it.
"""

import copy
import json
import random
from datetime import UTC, datetime, timedelta
from itertools import count, islice
from typing import Any
from uuid import uuid4

import bcrypt
import jwt
import sqlalchemy as sa

from bench.databases import SECRET, run_alone
from core.passwords import Hasher
from core.tokens import Purpose, TokenCodec
from models import Course, DeniedSession, Lesson, User, UserSession

PASSWORD = "Tr4vel-Mug-Blue-42"
# Fewer users have more sessions, or the refresh tokens would not last for all rounds.
SESSIONS = 10_000
# The users who have learning records.
LEARNERS = 1000
LESSONS = 30
# Refresh tokens in use at once: each is replaced by its successor, after all others.
CHAINS = 200
# The first part of the ids of each kind of row.
USER, SESSION, SPENT = 1, 2, 3


class Data:
    """A filled database, and what the service may be sent on it."""

    def __init__(
        self,
        url: sa.URL,
        users: int,
        *,
        cost: int = 4,
        spent: int = 0,
        tokens: int = 1000,
        learners: int = LEARNERS,
    ) -> None:
        """Add users with open sessions, whose password is hashed at `cost`.

        Beside them, add `spent` sessions that nobody uses again, and as many rows of the denylist
        that have not expired. `tokens` different access tokens are sent in turn. The first
        `learners` have learning records.
        """
        self.url = url
        self.users = users
        self._learners = min(users, learners)
        self._codec = TokenCodec([SECRET])
        self._now = datetime.now(UTC).replace(microsecond=0)
        sessions = max(users, SESSIONS)
        self._fill(sessions, spent, self.hash(cost))
        someone = random.Random(1)
        chosen = someone.sample(range(sessions), SESSIONS)
        self._unused = iter(chosen)
        self._new = count()
        self._reading = chosen[:tokens]
        reads = [self.access_token(session) for session in self._reading]
        some = [email(someone.randrange(users)) for _ in range(1000)]
        logins = [json.dumps({"email": address, "password": PASSWORD}) for address in some]
        progress = [self.access_token(session) for session in range(self._learners)]
        self._lines = {"verify": reads, "profile": reads, "progress": progress, "login": logins}

    def store_hash(self, users: range, password_hash: str) -> None:
        """Replace the stored hash of these users."""
        engine = sa.create_engine(self.url)
        these = User.email.in_([email(user) for user in users])
        with engine.begin() as connection:
            connection.execute(sa.update(User).where(these).values(password_hash=password_hash))
        engine.dispose()

    def with_es256(self) -> "Data":
        """Return the same data, with verified tokens that are signed with ES256."""
        other = copy.copy(self)
        other._codec = TokenCodec([SECRET], "ES256")
        reads = [other.access_token(session) for session in self._reading]
        other._lines = {**self._lines, "verify": reads}
        return other

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
        return self._token(Purpose.ACCESS, session, days=1, role="student")

    def refresh_token(self, session: int) -> str:
        began = int(self._now.timestamp())
        claims = {"token_id": row_id(SESSION, session), "auth_time": began}
        return self._token(Purpose.REFRESH, session, days=30, **claims)

    def _token(self, purpose: Purpose, session: int, *, days: int, **claims: Any) -> str:
        return self._codec.encode(
            purpose,
            row_id(USER, session % self.users),
            issued_at=self._now,
            expires_at=self._now + timedelta(days=days),
            sid=row_id(SESSION, session),
            **claims,
        )

    def _fill(self, sessions: int, spent: int, password_hash: str) -> None:
        n = sa.literal_column("n", sa.BigInteger)
        engine = sa.create_engine(self.url)
        name = sa.literal("user", sa.Text) + _digits(n, 7)
        address = name + "@example.org"
        user = {"id": _row_id(USER, n), "username": name, "username_key": name, "email": address}
        user |= {"first_name": "First", "last_name": "Last", "password_hash": password_hash}
        # Not the default language, in which mails to addresses without an account are written.
        user |= {"language": "de-AT"}
        user |= {"created_at": self._now, "search_key": "last\nfirst\n" + name + "\n" + address}

        def session(kind: int, moment: datetime) -> dict[str, Any]:
            ids = {"id": _row_id(kind, n), "user_id": _row_id(USER, n % self.users)}
            ids["refresh_token_id"] = _row_id(kind, n)
            times = {"created_at": moment, "last_used_at": moment}
            times["expires_at"] = moment + timedelta(days=30)
            return {**ids, **times, "user_agent": "a browser", "ip_address": "127.0.0.1"}

        tomorrow = self._now + timedelta(days=1)
        denied = {"session_id": _row_id(SPENT, n), "expires_at": tomorrow}
        course = {"user_id": _row_id(USER, n), "id": "course", "name": "A", "lessons": LESSONS}
        lesson = {"user_id": _row_id(USER, n // LESSONS), "course_id": "course"}
        lesson |= {"id": _digits(n % LESSONS, 3), "completed_at": self._now, "minutes": 30}
        with engine.begin() as connection:
            _insert(connection, User, self.users, user)
            _insert(connection, UserSession, sessions, session(SESSION, self._now))
            _insert(connection, UserSession, spent, session(SPENT, tomorrow - timedelta(days=20)))
            _insert(connection, DeniedSession, spent, denied)
            _insert(connection, Course, self._learners, course)
            _insert(connection, Lesson, self._learners * LESSONS, lesson)
        engine.dispose()
        if engine.name == "postgresql":
            # Postgres does this by itself some time after so many new rows.
            run_alone(self.url, "VACUUM ANALYZE")


class TutorialData(Data):
    """The same for the tutorial stack, with its kinds of token and of password hash."""

    @staticmethod
    def hash(cost: int) -> str:
        return bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(cost)).decode()

    def _token(self, purpose: Purpose, session: int, *, days: int, **_claims: Any) -> str:
        claims = {"fresh": False, "jti": str(uuid4()), "type": purpose.value}
        claims |= {"sub": row_id(USER, session % self.users), "iat": self._now, "nbf": self._now}
        claims["exp"] = self._now + timedelta(days=days)
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
    return sa.literal(row_id(kind, 0)[:-12], sa.Text) + _digits(number, 12)


def _digits(number: Any, width: int) -> Any:
    return sa.func.substr(sa.cast(number + sa.literal(10**width, sa.BigInteger), sa.Text), 2)


def _insert(connection: sa.Connection, model: Any, rows: int, values: dict[str, Any]) -> None:
    """Insert so many rows; `n` in the expressions is the number of a row, from 0."""
    if rows:
        first = sa.select(sa.literal(0, sa.BigInteger).label("n")).cte("series", recursive=True)
        series = first.union_all(sa.select(first.c.n + 1).where(first.c.n < rows - 1))
        table = model.__table__
        row = (
            value if isinstance(value, sa.ColumnElement) else sa.literal(value, table.c[name].type)
            for name, value in values.items()
        )
        connection.execute(
            sa.insert(table).from_select(list(values), sa.select(*row).select_from(series))
        )
