"""all tables"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

moment = sa.DateTime(timezone=True)


def upgrade():
    op.create_table(
        "users",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("username", sa.String(32), nullable=False),
        sa.Column("username_key", sa.String(32), nullable=False, unique=True),
        sa.Column("email", sa.String(254), nullable=False, unique=True),
        sa.Column("first_name", sa.String(64), nullable=False),
        sa.Column("last_name", sa.String(64), nullable=False),
        sa.Column("password_hash", sa.String(255), nullable=False),
        sa.Column("password_version", sa.Integer, nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("is_active", sa.Boolean, nullable=False),
        sa.Column("email_verified_at", moment),
        sa.Column("created_at", moment, nullable=False),
        sa.Column("last_login_at", moment),
        sa.Column("bio", sa.String(500), nullable=False, server_default=""),
        sa.Column("location", sa.String(100), nullable=False, server_default=""),
        sa.Column("website", sa.String(200), nullable=False, server_default=""),
        sa.Column("avatar_digest", sa.String(64), index=True),
        sa.Column("search_key", sa.Text, nullable=False),
        sa.Column("theme", sa.String(16), nullable=False, server_default="light"),
        sa.Column("language", sa.String(35), nullable=False, server_default="en"),
        sa.Column("timezone", sa.String(64), nullable=False, server_default="UTC"),
        sa.Column("email_notifications", sa.Boolean, nullable=False, server_default=sa.true()),
        sa.Column("push_notifications", sa.Boolean, nullable=False, server_default=sa.true()),
        sa.Column("profile_visible", sa.Boolean, nullable=False, server_default=sa.true()),
        sa.Column("progress_visible", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.CheckConstraint("length(username) BETWEEN 3 AND 32", "username_length"),
        sa.CheckConstraint("username_key = lower(username)", "username_key"),
        sa.CheckConstraint("email = lower(email)", "email_lower_case"),
        sa.CheckConstraint("length(first_name) BETWEEN 1 AND 64", "first_name_length"),
        sa.CheckConstraint("length(last_name) BETWEEN 1 AND 64", "last_name_length"),
        sa.CheckConstraint("role IN ('student', 'instructor', 'admin')", "role"),
        sa.CheckConstraint("length(bio) <= 500", "bio_length"),
        sa.CheckConstraint("length(location) <= 100", "location_length"),
        sa.CheckConstraint("length(website) <= 200", "website_length"),
        sa.CheckConstraint("theme IN ('light', 'dark', 'system')", "theme"),
    )
    op.create_index("ix_users_role_id", "users", ["role", "id"])
    op.create_table(
        "sessions",
        sa.Column("id", sa.String(36), primary_key=True),
        user_id(primary_key=False),
        sa.Column("created_at", moment, nullable=False),
        sa.Column("last_used_at", moment, nullable=False),
        sa.Column("expires_at", moment, nullable=False, index=True),
        sa.Column("access_expires_at", moment, nullable=False),
        sa.Column("refresh_token_id", sa.String(36), nullable=False),
        sa.Column("previous_token_id", sa.String(36)),
        sa.Column("user_agent", sa.String(255), nullable=False),
        sa.Column("ip_address", sa.String(45), nullable=False),
    )
    op.create_index("ix_sessions_user_id_created_at", "sessions", ["user_id", "created_at"])
    op.create_table(
        "denylist",
        sa.Column("session_id", sa.String(36), primary_key=True),
        sa.Column("expires_at", moment, nullable=False, index=True),
    )
    op.create_table(
        "outbox",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("address", sa.String(254), nullable=False),
        sa.Column("created_at", moment, nullable=False),
        sa.Column("due_at", moment, nullable=False, index=True),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("claimed", sa.Boolean, nullable=False),
    )
    op.create_table(
        "counters",
        sa.Column("key", sa.String(160), primary_key=True),
        sa.Column("hits", sa.Integer, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False, index=True),
        sqlite_with_rowid=False,
    )
    op.create_table("avatars", user_id(), sa.Column("picture", sa.LargeBinary, nullable=False))
    op.create_table(
        "courses",
        user_id(),
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("lessons", sa.Integer, nullable=False),
        sa.CheckConstraint("length(id) BETWEEN 1 AND 64", "id_length"),
        sa.CheckConstraint("length(name) BETWEEN 1 AND 200", "name_length"),
        sa.CheckConstraint("lessons BETWEEN 1 AND 10000", "lessons"),
    )
    op.create_table(
        "lessons",
        sa.Column("user_id", sa.String(36), primary_key=True),
        sa.Column("course_id", sa.String(64), primary_key=True),
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("completed_at", sa.BigInteger, nullable=False),
        sa.Column("minutes", sa.Integer, nullable=False),
        sa.ForeignKeyConstraint(
            ["user_id", "course_id"], ["courses.user_id", "courses.id"], ondelete="CASCADE"
        ),
        sa.CheckConstraint("length(id) BETWEEN 1 AND 64", "id_length"),
        sa.CheckConstraint("minutes BETWEEN 0 AND 1440", "minutes"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "achievements",
        user_id(),
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("earned_at", sa.BigInteger, nullable=False),
        sa.CheckConstraint("length(id) BETWEEN 1 AND 64", "id_length"),
        sa.CheckConstraint("length(name) BETWEEN 1 AND 200", "name_length"),
    )
    op.create_table(
        "certificates",
        user_id(),
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("course_id", sa.String(64), nullable=False),
        sa.Column("course_name", sa.String(200), nullable=False),
        sa.Column("issued_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("credential_url", sa.String(200), nullable=False),
        sa.CheckConstraint("length(id) BETWEEN 1 AND 64", "id_length"),
        sa.CheckConstraint("length(course_id) BETWEEN 1 AND 64", "course_id_length"),
        sa.CheckConstraint("length(course_name) BETWEEN 1 AND 200", "course_name_length"),
        sa.CheckConstraint("length(credential_url) <= 200", "credential_url_length"),
    )


def user_id(*, primary_key=True):
    key = sa.ForeignKey("users.id", ondelete="CASCADE")
    return sa.Column("user_id", sa.String(36), key, primary_key=primary_key, nullable=False)
