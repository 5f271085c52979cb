"""keys by bytes

The order of an index would change with the C library of the system, and rows would not be found.
"""

from alembic import op

revision = "0017"
down_revision = "0016"

KEYS = {
    "users": {"username_key": 32, "email": 254, "identity": 600, "external_id": 64},
    "service_keys": {"name": 64},
    "courses": {"id": 64},
    "lessons": {"course_id": 64, "id": 64},
    "achievements": {"id": 64},
    "certificates": {"id": 64},
}


def upgrade():
    if op.get_context().dialect.name == "postgresql":  # SQLite compares bytes anyway
        for table, columns in KEYS.items():
            changes = (f'ALTER {name} TYPE varchar({n}) COLLATE "C"' for name, n in columns.items())
            op.execute(f"ALTER TABLE {table} {', '.join(changes)}")
