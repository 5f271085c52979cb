"""Runs the migrations in one transaction, one process at a time, on SQLite and Postgres."""

from alembic import context
from flask import current_app
from sqlalchemy import TypeDecorator, text

from database import patiently
from extensions import Base, db

# An arbitrary number that nothing else in the database locks.
UPGRADE_LOCK = 0x6163636F756E7473


def render_item(kind, item, _autogen_context):
    """Render our own column types as the database types that they wrap."""
    return f"sa.{item.impl!r}" if kind == "type" and isinstance(item, TypeDecorator) else False


def migrate():
    connection = db.session.connection()
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": UPGRADE_LOCK})
    context.configure(connection=connection, target_metadata=Base.metadata, render_item=render_item)
    with context.begin_transaction():
        context.run_migrations()


# Commits at the end. On SQLite the transaction takes the write lock, so a second process waits.
with current_app.app_context():
    patiently(migrate)
