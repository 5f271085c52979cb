"""changes of e-mail addresses"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

moment = sa.DateTime(timezone=True)


def upgrade():
    owner = sa.ForeignKey("users.id", ondelete="CASCADE")
    op.create_table(
        "pending_emails",
        sa.Column("user_id", sa.String(36), owner, primary_key=True),
        sa.Column("id", sa.String(36), nullable=False, unique=True),
        sa.Column("new_email", sa.String(254), nullable=False),
        sa.Column("expires_at", moment, nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
    )
    op.add_column("outbox", sa.Column("about", sa.String(36)))
