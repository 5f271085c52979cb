"""profiles, settings, avatars and learning records"""

import unicodedata

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

# Each with its constraint in one statement that both databases know. A constraint added later
# would make Alembic copy the table on SQLite, and dropping the old one would end all sessions.
USER_COLUMNS = {
    "bio": "VARCHAR(500) NOT NULL DEFAULT ''"
    " CONSTRAINT ck_users_bio_length CHECK (length(bio) <= 500)",
    "location": "VARCHAR(100) NOT NULL DEFAULT ''"
    " CONSTRAINT ck_users_location_length CHECK (length(location) <= 100)",
    "website": "VARCHAR(200) NOT NULL DEFAULT ''"
    " CONSTRAINT ck_users_website_length CHECK (length(website) <= 200)",
    "avatar_digest": "VARCHAR(64)",
    "search_key": "TEXT NOT NULL DEFAULT ''",
    "theme": "VARCHAR(16) NOT NULL DEFAULT 'light'"
    " CONSTRAINT ck_users_theme CHECK (theme IN ('light', 'dark', 'system'))",
    "language": "VARCHAR(35) NOT NULL DEFAULT 'en'",
    "timezone": "VARCHAR(64) NOT NULL DEFAULT 'UTC'",
    "email_notifications": "BOOLEAN NOT NULL DEFAULT true",
    "push_notifications": "BOOLEAN NOT NULL DEFAULT true",
    "profile_visible": "BOOLEAN NOT NULL DEFAULT true",
    "progress_visible": "BOOLEAN NOT NULL DEFAULT false",
}
BATCH = 1000


def upgrade():
    for name, definition in USER_COLUMNS.items():
        op.execute(f"ALTER TABLE users ADD COLUMN {name} {definition}")
    op.create_index("ix_users_avatar_digest", "users", ["avatar_digest"])
    op.create_index("ix_users_role_id", "users", ["role", "id"])
    fill_search_keys(op.get_bind())
    op.create_table(
        "avatars",
        user_id("avatars"),
        sa.Column("picture", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "courses",
        user_id("courses"),
        record_id(),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("lessons", sa.Integer, nullable=False),
        sa.CheckConstraint("length(id) BETWEEN 1 AND 64", "id_length"),
        sa.CheckConstraint("length(name) BETWEEN 1 AND 200", "name_length"),
        sa.CheckConstraint("lessons BETWEEN 1 AND 10000", "lessons"),
    )
    op.create_table(
        "lessons",
        sa.Column("user_id", sa.String(36), primary_key=True),
        sa.Column("course_id", sa.String(64), primary_key=True),
        record_id(),
        sa.Column("completed_at", sa.BigInteger, nullable=False),
        sa.Column("minutes", sa.Integer, nullable=False),
        sa.ForeignKeyConstraint(
            ["user_id", "course_id"],
            ["courses.user_id", "courses.id"],
            name="fk_lessons_course",
            ondelete="CASCADE",
        ),
        sa.CheckConstraint("length(id) BETWEEN 1 AND 64", "id_length"),
        sa.CheckConstraint("minutes BETWEEN 0 AND 1440", "minutes"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "achievements",
        user_id("achievements"),
        record_id(),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("earned_at", sa.BigInteger, nullable=False),
        sa.CheckConstraint("length(id) BETWEEN 1 AND 64", "id_length"),
        sa.CheckConstraint("length(name) BETWEEN 1 AND 200", "name_length"),
    )
    op.create_table(
        "certificates",
        user_id("certificates"),
        record_id(),
        sa.Column("course_id", sa.String(64), nullable=False),
        sa.Column("course_name", sa.String(200), nullable=False),
        sa.Column("issued_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("credential_url", sa.String(200), nullable=False),
        sa.CheckConstraint("length(id) BETWEEN 1 AND 64", "id_length"),
        sa.CheckConstraint("length(course_id) BETWEEN 1 AND 64", "course_id_length"),
        sa.CheckConstraint("length(course_name) BETWEEN 1 AND 200", "course_name_length"),
        sa.CheckConstraint("length(credential_url) <= 200", "credential_url_length"),
    )


def user_id(table):
    key = sa.ForeignKey("users.id", name=f"fk_{table}_user_id", ondelete="CASCADE")
    return sa.Column("user_id", sa.String(36), key, primary_key=True)


def record_id():
    return sa.Column("id", sa.String(64), primary_key=True)


def fold(words):
    """As models.fold was when this was written."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", words).casefold())
    return folded.replace("i\u0307", "i").replace("\u0131", "i")


def fill_search_keys(connection):
    """Let the accounts that are there already be found by a search."""
    users = sa.table("users", *map(sa.column, ("id", "search_key")))
    texts = sa.text(
        "SELECT id, username, email, first_name, last_name FROM users"
        " WHERE id > :last ORDER BY id LIMIT :batch"
    )
    change = sa.update(users).where(users.c.id == sa.bindparam("key"))
    change = change.values(search_key=sa.bindparam("words"))
    last = ""
    while rows := connection.execute(texts, {"last": last, "batch": BATCH}).all():
        last = rows[-1].id
        connection.execute(
            change,
            [
                {
                    "key": row.id,
                    "words": fold(
                        f"{row.username}\n{row.email}\n{row.first_name} {row.last_name}"
                    ),
                }
                for row in rows
            ],
        )


def downgrade():
    for table in ("certificates", "achievements", "lessons", "courses", "avatars"):
        op.drop_table(table)
    op.drop_index("ix_users_role_id", "users")
    op.drop_index("ix_users_avatar_digest", "users")
    for name in reversed(USER_COLUMNS):
        op.execute(f"ALTER TABLE users DROP COLUMN {name}")
