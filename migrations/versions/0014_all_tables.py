"""all tables

The numbers up to 0013 belong to databases that were made before the first release.
"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = None

moment, seconds = sa.DateTime(timezone=True), sa.BigInteger


def upgrade():
    postgres = op.get_context().dialect.name == "postgresql"
    by_bytes = {"collation": "C"} if postgres else {}  # SQLite compares bytes anyway
    op.create_table(
        "users",
        sa.Column("id", sa.String(36), primary_key=True),
        *text("username", 3, 32),
        column("username_key", sa.String(32), unique=True),
        column("email", sa.String(254), unique=True),
        *text("first_name", 1, 64),
        *text("last_name", 1, 64),
        column("password_hash", sa.String(255)),
        column("password_version", sa.Integer),
        column("role", sa.String(16)),
        column("is_active", sa.Boolean),
        sa.Column("email_verified_at", moment),
        column("created_at", moment),
        sa.Column("last_login_at", moment),
        sa.Column("second_factor_at", moment),
        sa.Column("identity", sa.String(600)),
        *text("external_id", 1, 64, nullable=True),
        column("changed", sa.BigInteger, server_default="0"),
        *text("bio", 0, 500, server_default=""),
        *text("location", 0, 100, server_default=""),
        *text("website", 0, 200, server_default=""),
        sa.Column("avatar_digest", sa.String(64), index=True),
        column("search_key", sa.Text(**by_bytes)),
        column("theme", sa.String(16), server_default="system"),
        column("language", sa.String(35), server_default="en"),
        column("timezone", sa.String(64), server_default="UTC"),
        column("email_notifications", sa.Boolean, server_default=sa.true()),
        column("push_notifications", sa.Boolean, server_default=sa.true()),
        column("profile_visible", sa.Boolean, server_default=sa.true()),
        column("progress_visible", sa.Boolean, server_default=sa.false()),
        sa.CheckConstraint("username_key = lower(username)", "username_key"),
        sa.CheckConstraint("email = lower(email)", "email_lower_case"),
        sa.CheckConstraint("role IN ('student', 'instructor', 'admin')", "role"),
        sa.CheckConstraint("theme IN ('light', 'dark', 'system')", "theme"),
        sa.Index("ix_users_created_at_id", "created_at", "id"),
        sa.Index("ix_users_role_created_at_id", "role", "created_at", "id"),
        sa.Index("ix_users_changed_id", "changed", "id"),
        sa.Index("uq_users_identity", "identity", unique=True),
        sa.Index("uq_users_external_id", "external_id", unique=True),
    )
    op.create_table(
        "sessions",
        sa.Column("id", sa.String(36), primary_key=True),
        part_of("users.id", "user_id"),
        column("created_at", moment),
        column("last_used_at", moment),
        column("expires_at", moment, index=True),
        column("refresh_token_id", sa.String(36)),
        sa.Column("previous_token_id", sa.String(36)),
        column("user_agent", sa.String(255)),
        column("ip_address", sa.String(45)),
        sa.Index("ix_sessions_user_id_created_at", "user_id", "created_at"),
    )
    op.create_table(
        "denylist",
        sa.Column("session_id", sa.String(36), primary_key=True),
        column("expires_at", moment, index=True),
    )
    op.create_table(
        "service_keys",
        sa.Column("id", sa.String(36), primary_key=True),
        *text("name", 1, 64, unique=True),
        column("digest", sa.String(64), unique=True),
        column("scopes", sa.String(100)),
        column("created_at", moment),
        sa.Column("expires_at", moment),
        sa.Column("last_used_at", moment),
    )
    op.create_table(
        "pending_emails",
        part_of("users.id", "user_id", primary_key=True),
        column("id", sa.String(36), unique=True),
        column("new_email", sa.String(254)),
        column("expires_at", moment),
        column("tries", sa.Integer),
    )
    op.create_table(
        "second_factors",
        part_of("users.id", "user_id", primary_key=True),
        column("sealed", sa.LargeBinary),
        column("created_at", moment),
        sa.Column("confirmed_at", moment),
        column("last_step", sa.BigInteger),
        column("wrong_codes", sa.Integer),
        sa.Column("window_ends_at", moment),
        column("generation", sa.Integer),
        column("unused", sa.Integer),
    )
    op.create_table(
        "passkeys",
        sa.Column("id", sa.String(36), primary_key=True),
        part_of("users.id", "user_id", index=True),
        column("credential_id", sa.LargeBinary, unique=True),
        column("public_key", sa.LargeBinary),
        *text("name", 0, 64),
        column("created_at", moment),
        sa.Column("last_used_at", moment),
    )
    op.create_table(
        "outbox",
        sa.Column("id", sa.String(36), primary_key=True),
        column("kind", sa.String(32)),
        column("address", sa.String(254)),
        sa.Column("language", sa.String(35)),
        column("facts", sa.JSON),
        column("created_at", moment),
        column("due_at", moment, index=True),
        column("attempts", sa.Integer),
        column("claimed", sa.Boolean),
    )
    op.create_table(
        "counters",
        sa.Column("key", sa.String(160, **by_bytes), primary_key=True),
        column("hits", sa.Integer),
        column("expires_at", seconds, index=True),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "last_change",
        sa.Column("id", sa.SmallInteger, primary_key=True, autoincrement=False),
        column("number", sa.BigInteger),
        sa.CheckConstraint("id = 1", "one_row"),
    )
    op.create_table(
        "deletions",
        sa.Column("id", sa.String(36), primary_key=True),
        column("number", sa.BigInteger),
        column("deleted_at", moment, index=True),
        sa.Index("ix_deletions_number_id", "number", "id"),
    )
    op.create_table(
        "events",
        sa.Column("id", sa.String(36), primary_key=True),
        part_of("users.id", "user_id"),
        column("type", sa.String(32)),
        column("by", sa.String(40)),
        column("ip_address", sa.String(45)),
        column("details", sa.JSON),
        column("created_at", moment, index=True),
        sa.Index("ix_events_user_id_id", "user_id", "id"),
    )
    op.create_table(
        "avatars",
        part_of("users.id", "user_id", primary_key=True),
        column("picture", sa.LargeBinary),
    )
    op.create_table(
        "groups",
        sa.Column("id", sa.String(36), primary_key=True),
        *text("name", 1, 64),
    )
    op.create_table(
        "memberships",
        part_of("groups.id", "group_id", primary_key=True),
        part_of("users.id", "user_id", primary_key=True),
        sa.Index("ix_memberships_user_id_group_id", "user_id", "group_id"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "courses",
        part_of("users.id", "user_id", primary_key=True),
        *text("id", 1, 64, primary_key=True),
        *text("name", 1, 200),
        column("lessons", sa.Integer),
        sa.CheckConstraint("lessons BETWEEN 1 AND 10000", "lessons"),
    )
    op.create_table(
        "lessons",
        sa.Column("user_id", sa.String(36), primary_key=True),
        sa.Column("course_id", sa.String(64), primary_key=True),
        *text("id", 1, 64, primary_key=True),
        *text("name", 0, 200, server_default=""),
        column("completed_at", seconds),
        column("minutes", sa.Integer),
        sa.ForeignKeyConstraint(
            ["user_id", "course_id"], ["courses.user_id", "courses.id"], ondelete="CASCADE"
        ),
        sa.CheckConstraint("minutes BETWEEN 0 AND 1440", "minutes"),
        sa.Index("ix_lessons_user_id_completed_at", "user_id", "completed_at", "minutes"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "achievements",
        part_of("users.id", "user_id", primary_key=True),
        *text("id", 1, 64, primary_key=True),
        *text("name", 1, 200),
        column("earned_at", seconds),
    )
    op.create_table(
        "certificates",
        part_of("users.id", "user_id", primary_key=True),
        *text("id", 1, 64, primary_key=True),
        *text("course_id", 1, 64),
        *text("course_name", 1, 200),
        column("issued_at", seconds),
        sa.Column("expires_at", seconds),
        *text("credential_url", 0, 200),
        sa.Column("share_code", sa.String(16), index=True, unique=True),
        column("holder", sa.String(129)),
        sa.Column("revoked_at", seconds),
    )


def column(name, kind, *more, **options):
    return sa.Column(name, kind, *more, nullable=False, **options)


def part_of(parent, name, **options):
    return column(name, sa.String(36), sa.ForeignKey(parent, ondelete="CASCADE"), **options)


def text(name, least, most, **options):
    """Return a column for a text of so many characters, and its CHECK."""
    bounds = f"BETWEEN {least} AND {most}" if least else f"<= {most}"
    yield sa.Column(name, sa.String(most), **{"nullable": False, **options})
    yield sa.CheckConstraint(f"length({name}) {bounds}", f"{name}_length")
