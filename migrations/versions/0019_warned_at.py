"""when users were warned that nobody uses their account"""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade():
    op.add_column("users", sa.Column("warned_at", sa.DateTime(timezone=True)))
