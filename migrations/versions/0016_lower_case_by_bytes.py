"""lower case by bytes

Postgres lowered a username by the locale of the database: in Turkish, I is no capital i.
"""

from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade():
    if op.get_context().dialect.name == "postgresql":  # SQLite lowers ASCII alone
        # One statement, which locks and reads the table once.
        op.execute("""ALTER TABLE users
            DROP CONSTRAINT ck_users_username_key, DROP CONSTRAINT ck_users_email_lower_case,
            ADD CONSTRAINT ck_users_username_key
                CHECK (username_key = lower(username COLLATE "C")),
            ADD CONSTRAINT ck_users_email_lower_case CHECK (email = lower(email COLLATE "C"))""")
