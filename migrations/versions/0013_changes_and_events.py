"""changes and events"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"

number, moment = sa.BigInteger, sa.DateTime(timezone=True)


def column(name, kind, *owner, **options):
    return sa.Column(name, kind, *owner, nullable=False, **options)


def upgrade():
    op.add_column("users", column("changed", number, server_default="0"))
    op.create_index("ix_users_changed_id", "users", ["changed", "id"])
    # It stays empty until the first change: `flask db copy-to` refuses a target that has rows.
    op.create_table(
        "last_change",
        sa.Column("id", sa.SmallInteger, primary_key=True, autoincrement=False),
        column("number", number),
        sa.CheckConstraint("id = 1", "one_row"),
    )
    op.create_table(
        "deletions",
        sa.Column("id", sa.String(36), primary_key=True),
        column("number", number),
        column("deleted_at", moment, index=True),
        sa.Index("ix_deletions_number_id", "number", "id"),
    )
    op.create_table(
        "events",
        sa.Column("id", sa.String(36), primary_key=True),
        column("user_id", sa.String(36), sa.ForeignKey("users.id", ondelete="CASCADE")),
        column("type", sa.String(32)),
        column("by", sa.String(40)),
        column("ip_address", sa.String(45)),
        column("details", sa.JSON),
        column("created_at", moment, index=True),
        sa.Index("ix_events_user_id_created_at", "user_id", "created_at"),
    )
