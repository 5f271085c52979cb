"""order of counters"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade():
    if op.get_context().dialect.name == "postgresql":  # SQLite compares bytes anyway
        op.alter_column("counters", "key", type_=sa.String(160, collation="C"))
