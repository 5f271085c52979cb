"""Spent rows leave the database by themselves; no cron job is needed.

Services do not commit, but this is a use case of its own, run by the background worker and by
`flask prune`. It commits batch by batch: a million spent rows must not keep SQLite's one writer
busy for long, nor hold a million row locks on Postgres.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, cast

from sqlalchemy import CursorResult, delete, select
from sqlalchemy.orm import InstrumentedAttribute

from database import transaction
from models import Counter, DeniedSession, OutboxMail, UserSession
from services import outbox

BATCH = 1000

# Table, its key, its moment, and how long after that moment a row is of no use to anybody. The
# outbox gives up by itself; this finds what it could not, and leaves a service that was off for
# a day the time to try once more.
_SPENT: tuple[
    tuple[str, InstrumentedAttribute[str], InstrumentedAttribute[datetime], timedelta], ...
] = (
    ("sessions", UserSession.id, UserSession.expires_at, timedelta()),
    ("denylist", DeniedSession.session_id, DeniedSession.expires_at, timedelta()),
    ("counters", Counter.key, Counter.expires_at, timedelta()),
    ("outbox", OutboxMail.id, OutboxMail.created_at, 2 * outbox.GIVE_UP_AFTER),
)


def prune(now: datetime, stopping: Callable[[], bool] = lambda: False) -> dict[str, int]:
    """Delete spent rows until none is left or `stopping()`; return how many, by table."""
    return {
        name: _prune_table(key, moment <= now - kept, stopping)
        for name, key, moment, kept in _SPENT
    }


def _prune_table(key: InstrumentedAttribute[str], spent: Any, stopping: Callable[[], bool]) -> int:
    # Two workers that prune at once take different rows, and do not wait for each other.
    batch = select(key).where(spent).limit(BATCH).with_for_update(skip_locked=True)
    removal = delete(key.class_).where(key.in_(batch)).execution_options(synchronize_session=False)
    total = 0
    while not stopping():
        with transaction() as session:
            found = cast("CursorResult[Any]", session.execute(removal)).rowcount
        total += found
        if found < BATCH:
            break
    return total
