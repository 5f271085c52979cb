"""search keys without letters that do not decompose, and with other spellings"""

import sqlalchemy as sa
from alembic import op

from core.addresses import search_key

revision = "0015"
down_revision = "0014"

names = "id username email first_name last_name search_key"
users = sa.table("users", *map(sa.column, names.split()))


def upgrade():
    connection, last = op.get_bind(), ""
    update = users.update().where(users.c.id == sa.bindparam("user"))
    query = sa.select(users).order_by(users.c.id).limit(1000)
    while rows := connection.execute(query.where(users.c.id > last)).all():
        last = rows[-1].id
        made = [(row, {"user": row.id, "search_key": search_key(*row[1:5])}) for row in rows]
        # Rows that stay as they are stay unlocked.
        if changed := [new for row, new in made if new["search_key"] != row.search_key]:
            connection.execute(update, changed)
