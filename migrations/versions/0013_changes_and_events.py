"""changes and events"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0011"

number = sa.BigInteger
moment = sa.DateTime(timezone=True)


def upgrade():
    op.add_column("users", sa.Column("changed", number, nullable=False, server_default="0"))
    op.create_index("ix_users_changed_id", "users", ["changed", "id"])
    # It stays empty until the first change: `flask db copy-to` refuses a target that has rows.
    op.create_table(
        "last_change",
        sa.Column("id", sa.SmallInteger, primary_key=True, autoincrement=False),
        sa.Column("number", number, nullable=False),
        sa.CheckConstraint("id = 1", "one_row"),
    )
    op.create_table(
        "deletions",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("number", number, nullable=False),
        sa.Column("deleted_at", moment, nullable=False, index=True),
        sa.Index("ix_deletions_number_id", "number", "id"),
    )
    owner = sa.ForeignKey("users.id", ondelete="CASCADE")
    op.create_table(
        "events",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("user_id", sa.String(36), owner, nullable=False),
        sa.Column("type", sa.String(32), nullable=False),
        sa.Column("by", sa.String(40), nullable=False),
        sa.Column("ip_address", sa.String(45), nullable=False),
        sa.Column("details", sa.JSON, nullable=False),
        sa.Column("created_at", moment, nullable=False, index=True),
        sa.Index("ix_events_user_id_created_at", "user_id", "created_at"),
    )
