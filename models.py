"""The tables and their constraints.

schemas.py checks the same limits to give a helpful error; the CHECK constraints here hold for every
code path. Lengths of columns alone are enforced by Postgres only. docs/reference.md is made from
the docstrings.
"""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from core import clock
from core.addresses import search_key
from core.ids import new_row_id
from core.roles import Role
from core.totp import RECOVERY_CODES
from database.columns import EpochSeconds, UTCDateTime, by_bytes, lower_case, text_column
from extensions import Base

USER_AGENT_LENGTH = 255
# A bit for each recovery code of a second factor.
ALL_UNUSED = (1 << RECOVERY_CODES) - 1


# A key of a row that is deleted with the user.
Owner = Annotated[
    str, mapped_column(sa.ForeignKey("users.id", ondelete="CASCADE"), primary_key=True)
]


def _search_key(context: Any) -> str:
    row = context.get_current_parameters()
    return search_key(row["username"], row["email"], row["first_name"], row["last_name"])


class User(Base):
    """An account. Its id is never used again, since tokens may still name it."""

    __tablename__ = "users"
    __table_args__ = (
        *lower_case("username_key", "username", "username_key"),
        *lower_case("email", "email", "email_lower_case"),
        sa.CheckConstraint("role IN ('student', 'instructor', 'admin')", "role"),
        sa.CheckConstraint("theme IN ('light', 'dark', 'system')", "theme"),
        # For lists: by the time of joining, which other systems may have set.
        sa.Index("ix_users_created_at_id", "created_at", "id"),
        sa.Index("ix_users_role_created_at_id", "role", "created_at", "id"),
        sa.Index("ix_users_changed_id", "changed", "id"),
        # Named like constraints, for `database.unique`.
        sa.Index("uq_users_identity", "identity", unique=True),
        sa.Index("uq_users_external_id", "external_id", unique=True),
    )

    id: Mapped[str] = mapped_column(sa.String(36), primary_key=True, default=new_row_id)
    """A UUID, which never changes and is never used again."""
    username: Mapped[str] = text_column(3, 32)
    """Unique, as its user writes it."""
    username_key: Mapped[str] = mapped_column(by_bytes(32), unique=True)
    """The username in lower case: two usernames must not differ only in case."""
    email: Mapped[str] = mapped_column(by_bytes(254), unique=True)
    """Unique, in lower case."""
    first_name: Mapped[str] = text_column(1, 64)
    """Never empty."""
    last_name: Mapped[str] = text_column(1, 64)
    """Never empty."""
    password_hash: Mapped[str] = mapped_column(sa.String(255))
    """Internal; begins with `!` where there is no password."""
    # The account's version, which nothing lowers. A new password (not the same one hashed again), a
    # new address, a deactivation, a new role and every change of the second factor raise it: what
    # was begun before cannot be completed afterwards, such as a login or the use of a link.
    password_version: Mapped[int] = mapped_column(default=1)
    """Internal: what was begun before it rose cannot be completed."""
    role: Mapped[str] = mapped_column(sa.String(16), default=Role.STUDENT.value)
    """`student`, `instructor` or `admin`."""
    is_active: Mapped[bool] = mapped_column(default=True)
    """False for a deactivated account, which cannot log in."""
    email_verified_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    """When the address was confirmed."""
    created_at: Mapped[datetime] = mapped_column(UTCDateTime, default=lambda: clock.utcnow())
    """The registration, or the `joinDate` of an import."""
    last_login_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    warned_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    """When the user was warned last that nobody uses the account."""
    # Here, because the one query of the guard reads this table.
    second_factor_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    """When the second factor was confirmed, also in its own row; NULL without one."""
    identity: Mapped[str | None] = mapped_column(by_bytes(600))
    """The account at a provider that opens this one: its issuer, a space, and the subject."""
    external_id: Mapped[str | None] = text_column(1, 64, is_key=True)
    """The number of the person in another system, unique and never empty."""
    changed: Mapped[int] = mapped_column(sa.BigInteger, server_default="0")
    """The number of the latest change that other systems are told of, or 0."""

    bio: Mapped[str] = text_column(0, 500, server_default="")
    """What users say about themselves, as in `location` and `website`."""
    location: Mapped[str] = text_column(0, 100, server_default="")
    website: Mapped[str] = text_column(0, 200, server_default="")
    avatar_digest: Mapped[str | None] = mapped_column(sa.String(64), index=True)
    """Names the picture in `avatars`; NULL for the default one."""
    # Folded in Python, since databases differ in which letters they fold. Lists by name are in its
    # order, on Postgres too by bytes: others skip spaces, or the line ends between its parts.
    search_key: Mapped[str] = mapped_column(
        sa.Text().with_variant(sa.Text(collation="C"), "postgresql"), default=_search_key
    )
    """Internal, for lists and searches."""

    theme: Mapped[str] = mapped_column(sa.String(16), server_default="system")
    """`light`, `dark` or `system`."""
    language: Mapped[str] = mapped_column(sa.String(35), server_default="en")
    """A tag such as `en` or `pt-BR`."""
    timezone: Mapped[str] = mapped_column(sa.String(64), server_default="UTC")
    """An IANA name, such as `Europe/Berlin`."""
    email_notifications: Mapped[bool] = mapped_column(server_default=sa.true())
    """Only stored."""
    push_notifications: Mapped[bool] = mapped_column(server_default=sa.true())
    """Only stored."""
    profile_visible: Mapped[bool] = mapped_column(server_default=sa.true())
    """Whether other users see the profile."""
    progress_visible: Mapped[bool] = mapped_column(server_default=sa.false())
    """Whether other users see the progress."""
    custom_fields: Mapped[dict[str, Any]] = mapped_column(
        sa.JSON().with_variant(JSONB, "postgresql"), default=dict, server_default="{}"
    )
    """The values of `CUSTOM_FIELDS` by name, and of names that were there; none that is not set."""


# All columns of a user, read-only: a row of a query, not an object of the session.
if TYPE_CHECKING:

    class UserRow(User):
        # Only of the row that the guard reads: there, `role` is the one in effect.
        granted_role: str

        def _asdict(self) -> dict[str, object]: ...

else:
    UserRow = sa.Row


class UserSession(Base):
    """A login and its chain of refresh tokens. Ending it deletes the row and denies its id."""

    __tablename__ = "sessions"
    __table_args__ = (sa.Index("ix_sessions_user_id_created_at", "user_id", "created_at"),)

    id: Mapped[str] = mapped_column(sa.String(36), primary_key=True, default=new_row_id)
    """The session, which its tokens name."""
    user_id: Mapped[str] = mapped_column(sa.ForeignKey("users.id", ondelete="CASCADE"))
    created_at: Mapped[datetime] = mapped_column(UTCDateTime)
    # Of the login or of the last rotation; the `iat` of the current refresh token.
    last_used_at: Mapped[datetime] = mapped_column(UTCDateTime)
    """The login or the last refresh."""
    expires_at: Mapped[datetime] = mapped_column(UTCDateTime, index=True)
    """The end, if it is not refreshed before."""
    refresh_token_id: Mapped[str] = mapped_column(sa.String(36))
    """The refresh token that is valid."""
    previous_token_id: Mapped[str | None] = mapped_column(sa.String(36))
    """The one before."""
    user_agent: Mapped[str] = mapped_column(sa.String(USER_AGENT_LENGTH))
    """Of the login."""
    ip_address: Mapped[str] = mapped_column(sa.String(45))
    """Of the login."""


# How long the denylist names an ended session: longer than ACCESS_TOKEN_MINUTES can be.
DENIED_FOR = timedelta(days=2)


class DeniedSession(Base):
    """The token denylist: ended sessions, for longer than their access tokens live."""

    __tablename__ = "denylist"

    session_id: Mapped[str] = mapped_column(sa.String(36), primary_key=True)
    """A session that has ended, or the used code of a sign-in; with `-twice`: it was sent again.
    """
    expires_at: Mapped[datetime] = mapped_column(UTCDateTime, index=True)
    """When the row may be deleted."""


class ServiceKey(Base):
    """A key of another service, of which only the digest is stored."""

    __tablename__ = "service_keys"

    id: Mapped[str] = mapped_column(sa.String(36), primary_key=True, default=new_row_id)
    """As `flask keys list` shows it."""
    name: Mapped[str] = text_column(1, 64, is_key=True, unique=True)
    digest: Mapped[str] = mapped_column(sa.String(64), unique=True)
    """The SHA-256 of the key."""
    scopes: Mapped[str] = mapped_column(sa.String(100))
    """Separated by spaces."""
    created_at: Mapped[datetime] = mapped_column(UTCDateTime, default=lambda: clock.utcnow())
    expires_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    """NULL: never."""
    last_used_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    """Up to an hour late."""


class PendingEmail(Base):
    """A change of a user's e-mail address that waits for the code sent to the new address."""

    __tablename__ = "pending_emails"

    user_id: Mapped[Owner]
    id: Mapped[str] = mapped_column(sa.String(36), unique=True)
    """The change, from which its code is made. A later one of the same user replaces it."""
    new_email: Mapped[str] = mapped_column(sa.String(254))
    """Where the code was sent."""
    expires_at: Mapped[datetime] = mapped_column(UTCDateTime)
    """Until when the code works."""
    tries: Mapped[int]
    """Codes that were typed."""


class SecondFactor(Base):
    """The authenticator app and the recovery codes of an account, all made from one seed."""

    __tablename__ = "second_factors"

    user_id: Mapped[Owner]
    sealed: Mapped[bytes] = mapped_column(sa.LargeBinary)
    """The seed, encrypted with a key that belongs to SECRET_KEY."""
    created_at: Mapped[datetime] = mapped_column(UTCDateTime)
    """The set-up, which tells one factor of a user from the next."""
    confirmed_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    """Its first code; NULL while that is awaited."""
    last_step: Mapped[int] = mapped_column(sa.BigInteger, default=0)
    """The half minute, counted since 1970, whose code was used last."""
    wrong_codes: Mapped[int] = mapped_column(default=0)
    """Those of a window of 24 hours, which begins with the first one."""
    window_ends_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    """When they are forgotten; NULL without one."""
    generation: Mapped[int] = mapped_column(default=1)
    """Which set of recovery codes, counted from 1."""
    unused: Mapped[int] = mapped_column(default=ALL_UNUSED)
    """A bit for each recovery code of this set that is unused."""


class Passkey(Base):
    """A public key whose holder logs in without a password; the private one is in a device, a
    password manager or a security key."""

    __tablename__ = "passkeys"

    id: Mapped[str] = mapped_column(sa.String(36), primary_key=True, default=new_row_id)
    user_id: Mapped[str] = mapped_column(sa.ForeignKey("users.id", ondelete="CASCADE"), index=True)
    """Whose account it opens."""
    credential_id: Mapped[bytes] = mapped_column(sa.LargeBinary, unique=True)
    """The passkey, as what keeps it calls it: 16 to 1,023 bytes."""
    public_key: Mapped[bytes] = mapped_column(sa.LargeBinary)
    """In the form of COSE (RFC 9052)."""
    name: Mapped[str] = text_column(0, 64)
    """By the user, or of what keeps it; may be empty."""
    created_at: Mapped[datetime] = mapped_column(UTCDateTime, default=lambda: clock.utcnow())
    last_used_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    """NULL before the first login."""


class OutboxMail(Base):
    """An e-mail to be sent. Its text and token are made when it is sent, never stored."""

    __tablename__ = "outbox"

    id: Mapped[str] = mapped_column(sa.String(36), primary_key=True, default=new_row_id)
    kind: Mapped[str] = mapped_column(sa.String(32))
    """Its template."""
    address: Mapped[str] = mapped_column(sa.String(254))
    """Its recipient."""
    language: Mapped[str | None] = mapped_column(sa.String(35))
    """Of a notice whose address may have no account when it is sent."""
    facts: Mapped[dict[str, Any]] = mapped_column(sa.JSON, default=dict)
    """What the text says; no token."""
    created_at: Mapped[datetime] = mapped_column(UTCDateTime, default=lambda: clock.utcnow())
    due_at: Mapped[datetime] = mapped_column(
        UTCDateTime, default=lambda: clock.utcnow(), index=True
    )
    """When to try next; of a claimed mail, the end of the lease."""
    attempts: Mapped[int] = mapped_column(default=0)
    claimed: Mapped[bool] = mapped_column(default=False)
    """Whether a process is sending it."""


class Counter(Base):
    """The hits of a rate limit in a window, and without an end how many mails were dropped. Keys
    identify nobody: see web/limits.py.
    """

    __tablename__ = "counters"
    __table_args__ = ({"sqlite_with_rowid": False},)

    # Ordered by bytes, as on SQLite, so that the index finds all keys with the same beginning.
    key: Mapped[str] = mapped_column(by_bytes(160), primary_key=True)
    """What a limit counts, of whom; without an address in clear text."""
    hits: Mapped[int]
    expires_at: Mapped[datetime] = mapped_column(EpochSeconds, index=True)
    """The end of the window. A later hit starts a new one."""


class LastChange(Base):
    """The number of the latest change of an account. One row, which the first change adds."""

    __tablename__ = "last_change"
    __table_args__ = (sa.CheckConstraint("id = 1", "one_row"),)

    id: Mapped[int] = mapped_column(sa.SmallInteger, primary_key=True, autoincrement=False)
    number: Mapped[int] = mapped_column(sa.BigInteger)
    """How many changes there have been."""


class Deletion(Base):
    """The id of an account that was deleted, so that other systems delete their copy too."""

    __tablename__ = "deletions"
    __table_args__ = (sa.Index("ix_deletions_number_id", "number", "id"),)

    id: Mapped[str] = mapped_column(sa.String(36), primary_key=True)
    number: Mapped[int] = mapped_column(sa.BigInteger)
    """Of the deletion, among the changes."""
    deleted_at: Mapped[datetime] = mapped_column(UTCDateTime, index=True)
    """The row goes 90 days later."""


class Event(Base):
    """Something that was done to an account; see services/events.py."""

    __tablename__ = "events"
    __table_args__ = (sa.Index("ix_events_user_id_id", "user_id", "id"),)

    id: Mapped[str] = mapped_column(sa.String(36), primary_key=True, default=new_row_id)
    user_id: Mapped[str] = mapped_column(sa.ForeignKey("users.id", ondelete="CASCADE"))
    """To whose account it was done."""
    type: Mapped[str] = mapped_column(sa.String(32))
    """An event that is kept."""
    by: Mapped[str] = mapped_column(sa.String(40))
    """The id of another user, `key:` and the id of a service key, `machine`, or empty: the user."""
    ip_address: Mapped[str] = mapped_column(sa.String(45))
    """Of the user; empty for others."""
    details: Mapped[dict[str, str]] = mapped_column(sa.JSON)
    created_at: Mapped[datetime] = mapped_column(UTCDateTime, index=True)


class Avatar(Base):
    """A user's picture, a WebP file. In its own table, so that queries of users do not load it."""

    __tablename__ = "avatars"

    user_id: Mapped[Owner]
    picture: Mapped[bytes] = mapped_column(sa.LargeBinary)
    """A WebP file."""


class Group(Base):
    """A class, a cohort, a team. Its admins or another system choose the id."""

    __tablename__ = "groups"

    id: Mapped[str] = mapped_column(sa.String(36), primary_key=True)
    """Chosen by an admin or another system."""
    name: Mapped[str] = text_column(1, 64)
    """Need not be unique."""


class Membership(Base):
    """A user in a group. Who is a student learns there, and who is an instructor teaches those."""

    __tablename__ = "memberships"
    __table_args__ = (
        sa.Index("ix_memberships_user_id_group_id", "user_id", "group_id"),
        {"sqlite_with_rowid": False},
    )

    group_id: Mapped[str] = mapped_column(
        sa.ForeignKey("groups.id", ondelete="CASCADE"), primary_key=True
    )
    """Deleting the group deletes these rows."""
    user_id: Mapped[Owner]


class Course(Base):
    """A course that a user takes. The course system chooses the id."""

    __tablename__ = "courses"
    __table_args__ = (sa.CheckConstraint("lessons BETWEEN 1 AND 10000", "lessons"),)

    user_id: Mapped[Owner]
    id: Mapped[str] = text_column(1, 64, is_key=True, primary_key=True)
    """Chosen by the course system, the same for all users."""
    name: Mapped[str] = text_column(1, 200)
    """As last delivered for this user."""
    lessons: Mapped[int]
    """How many the course has."""


class Lesson(Base):
    """A lesson that a user has completed."""

    __tablename__ = "lessons"
    __table_args__ = (
        sa.ForeignKeyConstraint(
            ["user_id", "course_id"], ["courses.user_id", "courses.id"], ondelete="CASCADE"
        ),
        sa.CheckConstraint("minutes BETWEEN 0 AND 1440", "minutes"),
        # For the days of a user, or of a group: all that they need.
        sa.Index("ix_lessons_user_id_completed_at", "user_id", "completed_at", "minutes"),
        # Rows are stored in key order, so one read finds a user's lessons side by side.
        {"sqlite_with_rowid": False},
    )

    user_id: Mapped[str] = mapped_column(sa.String(36), primary_key=True)
    course_id: Mapped[str] = mapped_column(by_bytes(64), primary_key=True)
    """The row of `courses`."""
    id: Mapped[str] = text_column(1, 64, is_key=True, primary_key=True)
    """Chosen by the course system, unique in the course."""
    name: Mapped[str] = text_column(0, 200, server_default="")
    """As last delivered for this user; it may be empty."""
    completed_at: Mapped[datetime] = mapped_column(EpochSeconds)
    minutes: Mapped[int]
    """How long it took, 0 to 1440."""


class Achievement(Base):
    """Something that a user has earned."""

    __tablename__ = "achievements"

    user_id: Mapped[Owner]
    id: Mapped[str] = text_column(1, 64, is_key=True, primary_key=True)
    """Chosen by the course system."""
    name: Mapped[str] = text_column(1, 200)
    earned_at: Mapped[datetime] = mapped_column(EpochSeconds)
    """When it was earned."""


class Certificate(Base):
    """A certificate of a user. Its course need not be in `courses`."""

    __tablename__ = "certificates"

    user_id: Mapped[Owner]
    id: Mapped[str] = text_column(1, 64, is_key=True, primary_key=True)
    """Chosen by the course system."""
    course_id: Mapped[str] = text_column(1, 64)
    """The course, which may be none of `courses`."""
    course_name: Mapped[str] = text_column(1, 200)
    issued_at: Mapped[datetime] = mapped_column(EpochSeconds)
    expires_at: Mapped[datetime | None] = mapped_column(EpochSeconds)
    """NULL: never."""
    credential_url: Mapped[str] = text_column(0, 200)
    """A page of the course system about it, or empty."""
    # In clear, because its owner gives it away; None while the certificate is not shared.
    share_code: Mapped[str | None] = mapped_column(sa.String(16), index=True, unique=True)
    """The end of its public URL; treat it like a link. NULL while it is not shared."""
    # The user's name at the first delivery, first and last: nobody can share a certificate under
    # another name.
    holder: Mapped[str] = mapped_column(sa.String(129))
    """The user's name at the first delivery, first and last."""
    revoked_at: Mapped[datetime | None] = mapped_column(EpochSeconds)
    """NULL: not revoked."""


# A learning record, written by the course system.
Record: TypeAlias = Course | Lesson | Achievement | Certificate
