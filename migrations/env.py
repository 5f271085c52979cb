"""Runs the migrations in one transaction, one process at a time, on SQLite and Postgres."""

from alembic import context
from flask import current_app
from sqlalchemy import text

import models
from database import transaction
from extensions import Base

# Any number will do, as long as nothing else in the database locks the same one.
UPGRADE_LOCK = 0x6163636F756E7473


def render_item(kind, item, _autogen_context):
    """Write our own types as the plain ones that they are in the database."""
    if kind == "type" and isinstance(item, models.UTCDateTime):
        return "sa.DateTime(timezone=True)"
    if kind == "type" and isinstance(item, models.EpochSeconds):
        return "sa.BigInteger()"
    return False


# Commits at the end. On SQLite it begins with the write lock, so that a second process waits here.
with current_app.app_context(), transaction() as session:
    connection = session.connection()
    if connection.dialect.name == "postgresql":
        connection.execute(text("SET LOCAL lock_timeout = 0"))
        connection.execute(text("SET LOCAL statement_timeout = 0"))
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": UPGRADE_LOCK})
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        render_as_batch=True,
        render_item=render_item,
        compare_type=True,
    )
    with context.begin_transaction():
        context.run_migrations()
