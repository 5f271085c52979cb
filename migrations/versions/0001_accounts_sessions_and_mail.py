"""accounts, sessions and mail"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

moment = sa.DateTime(timezone=True)


def upgrade():
    op.create_table(
        "users",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("username", sa.String(32), nullable=False),
        sa.Column("username_key", sa.String(32), nullable=False),
        sa.Column("email", sa.String(254), nullable=False),
        sa.Column("first_name", sa.String(64), nullable=False),
        sa.Column("last_name", sa.String(64), nullable=False),
        sa.Column("password_hash", sa.String(255), nullable=False),
        sa.Column("password_version", sa.Integer, nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("is_active", sa.Boolean, nullable=False),
        sa.Column("email_verified_at", moment),
        sa.Column("created_at", moment, nullable=False),
        sa.Column("last_login_at", moment),
        sa.UniqueConstraint("username_key", name="uq_users_username_key"),
        sa.UniqueConstraint("email", name="uq_users_email"),
        sa.CheckConstraint("length(username) BETWEEN 3 AND 32", "username_length"),
        sa.CheckConstraint("username_key = lower(username)", "username_key"),
        sa.CheckConstraint("email = lower(email)", "email_lower_case"),
        sa.CheckConstraint("length(first_name) BETWEEN 1 AND 64", "first_name_length"),
        sa.CheckConstraint("length(last_name) BETWEEN 1 AND 64", "last_name_length"),
        sa.CheckConstraint("role IN ('student', 'instructor', 'admin')", "role"),
    )
    op.create_table(
        "sessions",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column(
            "user_id",
            sa.String(36),
            sa.ForeignKey("users.id", name="fk_sessions_user_id", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column("created_at", moment, nullable=False),
        sa.Column("last_used_at", moment, nullable=False),
        sa.Column("expires_at", moment, nullable=False),
        sa.Column("access_expires_at", moment, nullable=False),
        sa.Column("refresh_token_id", sa.String(36), nullable=False),
        sa.Column("previous_token_id", sa.String(36)),
        sa.Column("user_agent", sa.String(255), nullable=False),
        sa.Column("ip_address", sa.String(45), nullable=False),
    )
    op.create_index("ix_sessions_user_id_created_at", "sessions", ["user_id", "created_at"])
    op.create_index("ix_sessions_expires_at", "sessions", ["expires_at"])
    op.create_table(
        "denylist",
        sa.Column("session_id", sa.String(36), primary_key=True),
        sa.Column("expires_at", moment, nullable=False),
    )
    op.create_index("ix_denylist_expires_at", "denylist", ["expires_at"])
    op.create_table(
        "outbox",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("address", sa.String(254), nullable=False),
        sa.Column("created_at", moment, nullable=False),
        sa.Column("due_at", moment, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("claimed", sa.Boolean, nullable=False),
    )
    op.create_index("ix_outbox_due_at", "outbox", ["due_at"])


def downgrade():
    for table in ("outbox", "denylist", "sessions", "users"):
        op.drop_table(table)
