"""Deletes expired rows, called by the background thread and by `flask prune`.

Each batch is a transaction of its own, so that a million rows neither keep SQLite's only writer
busy for long nor need a million row locks on Postgres.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from sqlalchemy import delete, select
from sqlalchemy.orm import InstrumentedAttribute

from database import change, transaction
from models import Counter, DeniedSession, EmailChange, OutboxMail, PendingEmail, UserSession
from services import links, outbox

BATCH = 1000

# Each table's key and time column, and how long after that time its rows expire. E-mails are
# kept for longer than the outbox tries, so that a service that was off for a day tries them again.
_EXPIRED: list[tuple[InstrumentedAttribute[str], InstrumentedAttribute[datetime], timedelta]] = [
    (UserSession.id, UserSession.expires_at, timedelta()),
    (DeniedSession.session_id, DeniedSession.expires_at, timedelta()),
    (Counter.key, Counter.expires_at, timedelta()),
    (OutboxMail.id, OutboxMail.created_at, 2 * outbox.GIVE_UP_AFTER),
    (PendingEmail.user_id, PendingEmail.expires_at, timedelta()),
    (EmailChange.id, EmailChange.changed_at, links.UNDO_LIFE),
]


def prune(now: datetime, stopping: Callable[[], bool] = lambda: False) -> dict[str, int]:
    """Delete expired rows until none is left or `stopping()`; return how many, by table."""
    pruned = {}
    for key, moment, kept in _EXPIRED:
        # Two processes that prune at once take different rows and do not wait for each other.
        batch = select(key).where(moment <= now - kept).limit(BATCH)
        expired = delete(key.class_).where(key.in_(batch.with_for_update(skip_locked=True)))
        total, deleted = 0, BATCH
        while deleted == BATCH and not stopping():
            with transaction():
                deleted = change(expired)
            total += deleted
        pruned[key.class_.__tablename__] = total
    return pruned
