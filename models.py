"""The tables and their constraints.

Rules that the schemas check for the sake of a good answer stand here again as constraints, for
the sake of the truth: schemas.py and this file name the same limits.
"""

from datetime import UTC, datetime
from typing import Any, TypeAlias

from sqlalchemy import (
    CheckConstraint,
    DateTime,
    Dialect,
    ForeignKey,
    Index,
    Row,
    String,
    TypeDecorator,
)
from sqlalchemy.orm import Mapped, mapped_column

from core import clock
from core.ids import new_row_id
from extensions import Base

USERNAME_LENGTH = 32
EMAIL_LENGTH = 254
NAME_LENGTH = 64
USER_AGENT_LENGTH = 255


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
    role: Mapped[str] = mapped_column(String(16), default="student")
    is_active: Mapped[bool] = mapped_column(default=True)
    email_verified_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    created_at: Mapped[datetime] = mapped_column(UTCDateTime, default=lambda: clock.utcnow())
    last_login_at: Mapped[datetime | None] = mapped_column(UTCDateTime)


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
