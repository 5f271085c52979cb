"""order of e-mail changes, and of counters"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

NUMBER = """UPDATE email_changes SET number = (
    SELECT count(*) FROM email_changes AS others
    WHERE others.user_id = email_changes.user_id AND others.id <= email_changes.id
)"""


def upgrade():
    number = sa.Column("number", sa.Integer, nullable=False, server_default="0")
    op.add_column("email_changes", number)
    op.execute(NUMBER)
    if op.get_context().dialect.name == "postgresql":  # SQLite compares bytes anyway
        op.alter_column("counters", "key", type_=sa.String(160, collation="C"))


def downgrade():
    if op.get_context().dialect.name == "postgresql":
        op.alter_column("counters", "key", type_=sa.String(160))
    op.drop_column("email_changes", "number")
