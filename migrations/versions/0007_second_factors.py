"""second factors"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

moment = sa.DateTime(timezone=True)


def upgrade():
    owner = sa.ForeignKey("users.id", ondelete="CASCADE")
    op.create_table(
        "second_factors",
        sa.Column("user_id", sa.String(36), owner, primary_key=True),
        sa.Column("sealed", sa.LargeBinary, nullable=False),
        sa.Column("created_at", moment, nullable=False),
        sa.Column("confirmed_at", moment),
        sa.Column("last_step", sa.BigInteger, nullable=False),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("warned_at", moment),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("unused", sa.Integer, nullable=False),
    )
    op.add_column("users", sa.Column("second_factor_at", moment))
