"""service keys"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

moment = sa.DateTime(timezone=True)


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
