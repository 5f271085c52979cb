"""version 1.1"""

import sqlalchemy as sa
from alembic import op

revision = "0006"  # no release had the ones between
down_revision = "0001"

moment = sa.DateTime(timezone=True)
# Until they are replaced, processes of version 1.0 keep a session that they end on the denylist until
# this time of its row. Later versions do not set it, so it must be later than any access token lives.
# When the column is dropped, rows of the denylist with this time can be deleted.
LATER = "9999-01-01 00:00:00.000000"


def owner():
    return sa.ForeignKey("users.id", ondelete="CASCADE")


def upgrade():
    op.create_table(
        "service_keys",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("name", sa.String(64), nullable=False, unique=True),
        sa.Column("digest", sa.String(64), nullable=False, unique=True),
        sa.Column("scopes", sa.String(100), nullable=False),
        sa.Column("created_at", moment, nullable=False),
        sa.Column("expires_at", moment),
        sa.Column("last_used_at", moment),
        sa.CheckConstraint("length(name) BETWEEN 1 AND 64", "name_length"),
    )
    op.create_table(
        "pending_emails",
        sa.Column("user_id", sa.String(36), owner(), primary_key=True),
        sa.Column("id", sa.String(36), nullable=False, unique=True),
        sa.Column("new_email", sa.String(254), nullable=False),
        sa.Column("expires_at", moment, nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
    )
    op.create_table(
        "email_changes",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("user_id", sa.String(36), owner(), nullable=False, index=True),
        sa.Column("old_email", sa.String(254), nullable=False),
        sa.Column("changed_at", moment, nullable=False),
        sa.Column("number", sa.Integer, nullable=False, server_default="0"),
    )
    op.add_column("outbox", sa.Column("language", sa.String(35)))
    op.add_column("outbox", sa.Column("about", sa.String(36)))
    if op.get_context().dialect.name == "postgresql":  # SQLite compares bytes anyway
        op.alter_column("counters", "key", type_=sa.String(160, collation="C"))
    # SQLite cannot change the default of a column. This also sets it in the rows that exist, and
    # Postgres need not write to them.
    op.drop_column("sessions", "access_expires_at")
    later = sa.Column("access_expires_at", moment, nullable=False, server_default=LATER)
    op.add_column("sessions", later)


def downgrade():
    # The default of `access_expires_at` stays; it does no harm.
    if op.get_context().dialect.name == "postgresql":
        op.alter_column("counters", "key", type_=sa.String(160))
    op.drop_column("outbox", "about")
    op.drop_column("outbox", "language")
    for table in ("email_changes", "pending_emails", "service_keys"):
        op.drop_table(table)
