"""custom fields of accounts"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0018"
down_revision = "0017"


def upgrade():
    # With a default, so that processes of the release before can still add accounts.
    kind = sa.JSON().with_variant(JSONB, "postgresql")
    op.add_column("users", sa.Column("custom_fields", kind, nullable=False, server_default="{}"))
