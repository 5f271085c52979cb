"""accounts of providers"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade():
    op.add_column("users", sa.Column("identity", sa.String(600)))
    # An index and not a constraint: for that, SQLite would copy the whole table.
    op.create_index("uq_users_identity", "users", ["identity"], unique=True)
