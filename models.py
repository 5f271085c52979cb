"""The tables and their constraints.

Rules that the schemas check for the sake of a good answer stand here again as constraints, for
the sake of the truth: schemas.py and this file name the same limits.
"""

import unicodedata
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    DateTime,
    Dialect,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    Row,
    String,
    Text,
    TypeDecorator,
    false,
    true,
)
from sqlalchemy.orm import Mapped, mapped_column

from core import clock
from core.ids import new_row_id
from core.roles import Role
from extensions import Base

USERNAME_LENGTH = 32
EMAIL_LENGTH = 254
NAME_LENGTH = 64
USER_AGENT_LENGTH = 255
# Characters of the ids and titles that the course system chooses.
RECORD_ID_LENGTH = 64
TITLE_LENGTH = 200
URL_LENGTH = 200
COUNTER_KEY_LENGTH = 160

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class UTCDateTime(TypeDecorator[datetime]):
    """An aware moment in UTC on both databases; SQLite itself knows no time zones."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a moment without a time zone")
        return value.astimezone(UTC)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        moment: datetime = value
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


class EpochSeconds(TypeDecorator[datetime]):
    """An aware moment to the second, kept as seconds since 1970.

    For times that clients choose: no session time zone of a database can shift one out of the
    years 1 to 9999, and both databases calculate with whole numbers in the same way.
    """

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        return None if value is None else (value - _EPOCH) // timedelta(seconds=1)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        return None if value is None else _EPOCH + timedelta(seconds=value)


def fold(words: str) -> str:
    """Return a text in the one form in which a search compares it, whatever its case."""
    # Folding takes some letters apart; and it keeps the two kinds of i that Turkish has.
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", words).casefold())
    return folded.replace("i\u0307", "i").replace("\u0131", "i")


def search_key(username: str, email: str, first_name: str, last_name: str) -> str:
    """Return what a search for an account looks into. No needle reaches across the line ends."""
    return fold(f"{username}\n{email}\n{first_name} {last_name}")


def _search_key_of_insert(context: Any) -> str:
    values = context.get_current_parameters()
    names = ("username", "email", "first_name", "last_name")
    return search_key(*(values[name] for name in names))


class User(Base):
    """An account. Its id is random and never used again, since old tokens name it."""

    __tablename__ = "users"
    __table_args__ = (
        CheckConstraint("length(username) BETWEEN 3 AND 32", "username_length"),
        CheckConstraint("username_key = lower(username)", "username_key"),
        CheckConstraint("email = lower(email)", "email_lower_case"),
        CheckConstraint("length(first_name) BETWEEN 1 AND 64", "first_name_length"),
        CheckConstraint("length(last_name) BETWEEN 1 AND 64", "last_name_length"),
        CheckConstraint("role IN ('student', 'instructor', 'admin')", "role"),
        CheckConstraint("length(bio) <= 500", "bio_length"),
        CheckConstraint("length(location) <= 100", "location_length"),
        CheckConstraint("length(website) <= 200", "website_length"),
        CheckConstraint("theme IN ('light', 'dark', 'system')", "theme"),
        # Ids are in the order of time, so this is also the accounts of a role, newest last.
        Index("ix_users_role_id", "role", "id"),
    )

    id: Mapped[str] = mapped_column(String(36), primary_key=True, default=new_row_id)
    username: Mapped[str] = mapped_column(String(USERNAME_LENGTH))
    # The username in lower case: names are unique whatever their case.
    username_key: Mapped[str] = mapped_column(String(USERNAME_LENGTH), unique=True)
    email: Mapped[str] = mapped_column(String(EMAIL_LENGTH), unique=True)
    first_name: Mapped[str] = mapped_column(String(NAME_LENGTH))
    last_name: Mapped[str] = mapped_column(String(NAME_LENGTH))
    password_hash: Mapped[str] = mapped_column(String(255))
    # Counts changes of the password (not new hashes of the same one), so that a login that was
    # verified against the old password cannot open a session after the change.
    password_version: Mapped[int] = mapped_column(default=1)
    role: Mapped[str] = mapped_column(String(16), default=Role.STUDENT.value)
    is_active: Mapped[bool] = mapped_column(default=True)
    email_verified_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    created_at: Mapped[datetime] = mapped_column(UTCDateTime, default=lambda: clock.utcnow())
    last_login_at: Mapped[datetime | None] = mapped_column(UTCDateTime)

    bio: Mapped[str] = mapped_column(String(500), server_default="")
    location: Mapped[str] = mapped_column(String(100), server_default="")
    website: Mapped[str] = mapped_column(String(URL_LENGTH), server_default="")
    # Names the picture in `avatars`; None for the default one.
    avatar_digest: Mapped[str | None] = mapped_column(String(64), index=True)
    # Case is folded here, since databases differ in which letters they can fold.
    search_key: Mapped[str] = mapped_column(
        Text, default=lambda context: _search_key_of_insert(context)
    )

    theme: Mapped[str] = mapped_column(String(16), server_default="light")
    language: Mapped[str] = mapped_column(String(35), server_default="en")
    timezone: Mapped[str] = mapped_column(String(64), server_default="UTC")
    email_notifications: Mapped[bool] = mapped_column(server_default=true())
    push_notifications: Mapped[bool] = mapped_column(server_default=true())
    profile_visible: Mapped[bool] = mapped_column(server_default=true())
    progress_visible: Mapped[bool] = mapped_column(server_default=false())


# A row of the table above, as Core reads it: all columns, no identity, no way back.
UserRow: TypeAlias = Row[*tuple[Any, ...]]


class UserSession(Base):
    """A login and the chain of refresh tokens that grew from it; ended by deleting the row."""

    __tablename__ = "sessions"
    __table_args__ = (Index("ix_sessions_user_id_created_at", "user_id", "created_at"),)

    id: Mapped[str] = mapped_column(String(36), primary_key=True, default=new_row_id)
    user_id: Mapped[str] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"))
    created_at: Mapped[datetime] = mapped_column(UTCDateTime)
    # The login or the last rotation; also the `iat` of the current refresh token.
    last_used_at: Mapped[datetime] = mapped_column(UTCDateTime)
    expires_at: Mapped[datetime] = mapped_column(UTCDateTime, index=True)
    # When the last access token of this session dies; its id stays on the denylist until then.
    access_expires_at: Mapped[datetime] = mapped_column(UTCDateTime)
    refresh_token_id: Mapped[str] = mapped_column(String(36))
    previous_token_id: Mapped[str | None] = mapped_column(String(36))
    user_agent: Mapped[str] = mapped_column(String(USER_AGENT_LENGTH))
    ip_address: Mapped[str] = mapped_column(String(45))


class DeniedSession(Base):
    """The token denylist: sessions that were ended while an access token of theirs still lived."""

    __tablename__ = "denylist"

    session_id: Mapped[str] = mapped_column(String(36), primary_key=True)
    expires_at: Mapped[datetime] = mapped_column(UTCDateTime, index=True)


class OutboxMail(Base):
    """A mail that is to go out. It holds no text and no token; both are made when it is sent."""

    __tablename__ = "outbox"

    id: Mapped[str] = mapped_column(String(36), primary_key=True, default=new_row_id)
    kind: Mapped[str] = mapped_column(String(32))
    address: Mapped[str] = mapped_column(String(EMAIL_LENGTH))
    created_at: Mapped[datetime] = mapped_column(UTCDateTime, default=lambda: clock.utcnow())
    # When it is tried next. A worker that takes it moves this on, so that no other takes it too.
    due_at: Mapped[datetime] = mapped_column(
        UTCDateTime, default=lambda: clock.utcnow(), index=True
    )
    attempts: Mapped[int] = mapped_column(default=0)
    # A worker holds it until `due_at`; else `due_at` is when its next attempt is due.
    claimed: Mapped[bool] = mapped_column(default=False)


class Counter(Base):
    """How often something was done that is limited. Its key names nobody: see web/limits.py."""

    __tablename__ = "counters"
    __table_args__ = ({"sqlite_with_rowid": False},)

    key: Mapped[str] = mapped_column(String(COUNTER_KEY_LENGTH), primary_key=True)
    hits: Mapped[int]
    # The end of the window. A later hit begins a new one.
    expires_at: Mapped[datetime] = mapped_column(EpochSeconds, index=True)


class Avatar(Base):
    """A user's picture, a WebP file; apart from the users, so that no query of those loads it."""

    __tablename__ = "avatars"

    user_id: Mapped[str] = mapped_column(
        ForeignKey("users.id", ondelete="CASCADE"), primary_key=True
    )
    picture: Mapped[bytes] = mapped_column(LargeBinary)


class Course(Base):
    """A course that a user takes, as the course system told us. It also chose the id."""

    __tablename__ = "courses"
    __table_args__ = (
        CheckConstraint("length(id) BETWEEN 1 AND 64", "id_length"),
        CheckConstraint("length(name) BETWEEN 1 AND 200", "name_length"),
        CheckConstraint("lessons BETWEEN 1 AND 10000", "lessons"),
    )

    user_id: Mapped[str] = mapped_column(
        ForeignKey("users.id", ondelete="CASCADE"), primary_key=True
    )
    id: Mapped[str] = mapped_column(String(RECORD_ID_LENGTH), primary_key=True)
    name: Mapped[str] = mapped_column(String(TITLE_LENGTH))
    lessons: Mapped[int]


class Lesson(Base):
    """A lesson that a user has completed."""

    __tablename__ = "lessons"
    __table_args__ = (
        ForeignKeyConstraint(
            ["user_id", "course_id"],
            ["courses.user_id", "courses.id"],
            name="fk_lessons_course",
            ondelete="CASCADE",
        ),
        CheckConstraint("length(id) BETWEEN 1 AND 64", "id_length"),
        CheckConstraint("minutes BETWEEN 0 AND 1440", "minutes"),
        # In the order of the key, a learner's lessons lie side by side.
        {"sqlite_with_rowid": False},
    )

    user_id: Mapped[str] = mapped_column(String(36), primary_key=True)
    course_id: Mapped[str] = mapped_column(String(RECORD_ID_LENGTH), primary_key=True)
    id: Mapped[str] = mapped_column(String(RECORD_ID_LENGTH), primary_key=True)
    completed_at: Mapped[datetime] = mapped_column(EpochSeconds)
    minutes: Mapped[int]


class Achievement(Base):
    """Something that a user has earned."""

    __tablename__ = "achievements"
    __table_args__ = (
        CheckConstraint("length(id) BETWEEN 1 AND 64", "id_length"),
        CheckConstraint("length(name) BETWEEN 1 AND 200", "name_length"),
    )

    user_id: Mapped[str] = mapped_column(
        ForeignKey("users.id", ondelete="CASCADE"), primary_key=True
    )
    id: Mapped[str] = mapped_column(String(RECORD_ID_LENGTH), primary_key=True)
    name: Mapped[str] = mapped_column(String(TITLE_LENGTH))
    earned_at: Mapped[datetime] = mapped_column(EpochSeconds)


class Certificate(Base):
    """A certificate of a user. Its course need not be among the courses above."""

    __tablename__ = "certificates"
    __table_args__ = (
        CheckConstraint("length(id) BETWEEN 1 AND 64", "id_length"),
        CheckConstraint("length(course_id) BETWEEN 1 AND 64", "course_id_length"),
        CheckConstraint("length(course_name) BETWEEN 1 AND 200", "course_name_length"),
        CheckConstraint("length(credential_url) <= 200", "credential_url_length"),
    )

    user_id: Mapped[str] = mapped_column(
        ForeignKey("users.id", ondelete="CASCADE"), primary_key=True
    )
    id: Mapped[str] = mapped_column(String(RECORD_ID_LENGTH), primary_key=True)
    course_id: Mapped[str] = mapped_column(String(RECORD_ID_LENGTH))
    course_name: Mapped[str] = mapped_column(String(TITLE_LENGTH))
    issued_at: Mapped[datetime] = mapped_column(EpochSeconds)
    expires_at: Mapped[datetime | None] = mapped_column(EpochSeconds)
    credential_url: Mapped[str] = mapped_column(String(URL_LENGTH))


# What the course system records about a user.
Record: TypeAlias = Course | Lesson | Achievement | Certificate
