"""groups"""

import sqlalchemy as sa
from alembic import op

from core.addresses import search_key

revision = "0012"
down_revision = "0011"

names = ("username", "email", "first_name", "last_name")
users = sa.table("users", *map(sa.column, ("id", *names, "search_key")))


def upgrade():
    # First, because nobody can read the table from its next change on until the commit.
    make_search_keys()
    length = sa.CheckConstraint("length(external_id) BETWEEN 1 AND 64", "external_id_length")
    op.add_column("users", sa.Column("external_id", sa.String(64), length))
    # An index and not a constraint: for that, SQLite would copy the whole table.
    op.create_index("uq_users_external_id", "users", ["external_id"], unique=True)
    if op.get_context().dialect.name == "postgresql":  # SQLite compares bytes anyway
        op.alter_column("users", "search_key", type_=sa.Text(collation="C"))
    op.create_table(
        "groups",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("name", sa.String(64), nullable=False),
        sa.CheckConstraint("length(name) BETWEEN 1 AND 64", "name_length"),
    )
    op.create_table(
        "memberships",
        part_of_key("group_id", "groups.id"),
        part_of_key("user_id", "users.id"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_memberships_user_id_group_id", "memberships", ["user_id", "group_id"])
    columns = ["user_id", "completed_at", "minutes"]
    op.create_index("ix_lessons_user_id_completed_at", "lessons", columns)


def part_of_key(name, target):
    key = sa.ForeignKey(target, ondelete="CASCADE")
    return sa.Column(name, sa.String(36), key, primary_key=True)


def make_search_keys():
    """Let searches ignore accents, and lists by name begin with the last name."""
    connection = op.get_bind()
    found = connection.execute(sa.select(users.c["id", *names])).all()
    if found:
        this = sa.update(users).where(users.c.id == sa.bindparam("this"))
        keys = [{"this": row.id, "key": search_key(*row[1:])} for row in found]
        connection.execute(this.values(search_key=sa.bindparam("key")), keys)
