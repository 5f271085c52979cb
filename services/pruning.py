"""Deletes expired rows, called by the background thread and by `flask prune`.

Each batch is a transaction of its own, so that a million rows neither keep SQLite's only writer
busy for long nor need a million row locks on Postgres.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, delete, select
from sqlalchemy.orm import InstrumentedAttribute

from database import change, transaction
from models import Counter, DeniedSession, EmailChange, OutboxMail, PendingEmail, UserSession
from services import links, outbox

BATCH = 1000

# Each table's name, key and time column, and how long after that time its rows expire. E-mails are
# kept for longer than the outbox tries, so that a service that was off for a day tries them again.
_EXPIRED: tuple[
    tuple[str, InstrumentedAttribute[str], InstrumentedAttribute[datetime], timedelta], ...
] = (
    ("sessions", UserSession.id, UserSession.expires_at, timedelta()),
    ("denylist", DeniedSession.session_id, DeniedSession.expires_at, timedelta()),
    ("counters", Counter.key, Counter.expires_at, timedelta()),
    ("outbox", OutboxMail.id, OutboxMail.created_at, 2 * outbox.GIVE_UP_AFTER),
    ("pending_emails", PendingEmail.user_id, PendingEmail.expires_at, timedelta()),
    ("email_changes", EmailChange.id, EmailChange.changed_at, links.UNDO_LIFE),
)


def prune(now: datetime, stopping: Callable[[], bool] = lambda: False) -> dict[str, int]:
    """Delete expired rows until none is left or `stopping()`; return how many, by table."""
    return {
        name: _prune_table(key, moment <= now - kept, stopping)
        for name, key, moment, kept in _EXPIRED
    }


def _prune_table(
    key: InstrumentedAttribute[str], expired: ColumnElement[bool], stopping: Callable[[], bool]
) -> int:
    # Two processes that prune at once take different rows and do not wait for each other.
    batch = select(key).where(expired).limit(BATCH).with_for_update(skip_locked=True)
    total = 0
    while not stopping():
        with transaction():
            deleted = change(delete(key.class_).where(key.in_(batch)))
        total += deleted
        if deleted < BATCH:
            break
    return total
