"""order of accounts"""

from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade():
    op.create_index("ix_users_created_at_id", "users", ["created_at", "id"])
    op.create_index("ix_users_role_created_at_id", "users", ["role", "created_at", "id"])
    op.drop_index("ix_users_role_id", "users")
