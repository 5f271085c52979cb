"""Deletes expired rows, called by the background thread and by `flask prune`.

Each batch is a transaction of its own, so that a million rows neither keep SQLite's only writer
busy for long nor need a million row locks on Postgres.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from sqlalchemy import SQLColumnExpression, case, delete, select
from sqlalchemy.orm import InstrumentedAttribute

from database import change, transaction
from extensions import settings
from models import Counter, Deletion, DeniedSession, Event, PendingEmail, SecondFactor, UserSession
from services import changes, second_factor

BATCH = 1000

# None for one that was confirmed, which never expires.
_WAITS_SINCE = case((SecondFactor.confirmed_at.is_(None), SecondFactor.created_at))

# Each table's key and time column, and how long after that time its rows expire. E-mails are not
# among them: the outbox tries each one once more, and then gives up what is a day old.
_EXPIRED: list[tuple[InstrumentedAttribute[str], SQLColumnExpression[datetime], timedelta]] = [
    (UserSession.id, UserSession.expires_at, timedelta()),
    (DeniedSession.session_id, DeniedSession.expires_at, timedelta()),
    (Counter.key, Counter.expires_at, timedelta()),
    (PendingEmail.user_id, PendingEmail.expires_at, timedelta()),
    (SecondFactor.user_id, _WAITS_SINCE, second_factor.LIFE),
    (Deletion.id, Deletion.deleted_at, changes.KEPT),
]


def prune(now: datetime, stopping: Callable[[], bool] = lambda: False) -> dict[str, int]:
    """Delete expired rows until none is left or `stopping()`; return how many, by table."""
    pruned = {}
    history = (Event.id, Event.created_at, timedelta(days=settings.event_days))
    for key, moment, kept in (*_EXPIRED, history):
        # Two processes that prune at once take different rows and do not wait for each other.
        is_over = moment <= now - kept
        batch = select(key).where(is_over).limit(BATCH).with_for_update(skip_locked=True)
        # The condition stands in both, so that no row goes that was renewed since it was found.
        expired = delete(key.class_).where(key.in_(batch), is_over)
        total, deleted = 0, BATCH
        while deleted == BATCH and not stopping():
            with transaction():
                deleted = change(expired)
            total += deleted
        pruned[key.class_.__tablename__] = total
    return pruned
