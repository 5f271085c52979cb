"""What the database knows about the state of the service, for monitoring."""

from datetime import datetime
from typing import Any

from sqlalchemy import Select, bindparam, func, select

from database import read_one
from database.columns import UTCDateTime
from models import Counter, DeniedSession, LastChange, OutboxMail, UserSession
from services.outbox import DROPPED

# The figures, in the order in which they are told.
HELP = {
    "info": "Version of the service and revision of its schema.",
    "mails_waiting": "E-mails that wait to be sent.",
    "mails_oldest_seconds": "How long the oldest e-mail has waited.",
    "mails_dropped_total": "E-mails that were refused for good, or given up after a day.",
    "sessions": "Open sessions.",
    "changes_total": "Changes of accounts, by the numbers of GET /api/users/changes.",
    "pruning_late_seconds": "How long the oldest expired row has waited to be removed.",
}


def _one(query: Select[Any], name: str) -> Any:
    return query.scalar_subquery().label(name)


_IS_OPEN = UserSession.expires_at > bindparam("now", type_=UTCDateTime)
_FIGURES = select(
    _one(select(func.count(OutboxMail.id)), "mails"),
    # Ids are ordered by time.
    _one(select(OutboxMail.created_at).order_by(OutboxMail.id).limit(1), "oldest_mail"),
    _one(select(Counter.hits).where(Counter.key == DROPPED), "dropped"),
    # Not of a column: that would read each row, and not only the index.
    _one(select(func.count()).select_from(UserSession).where(_IS_OPEN), "sessions"),
    _one(select(LastChange.number), "changes"),
    _one(select(func.min(Counter.expires_at)), "counter"),
    _one(select(func.min(DeniedSession.expires_at)), "denial"),
)


def read(now: datetime) -> dict[str, int]:
    """Return the figures by the names of their metrics; times are in seconds."""
    found = read_one(_FIGURES, now=now)
    return {
        "mails_waiting": found.mails,
        "mails_oldest_seconds": _age(now, found.oldest_mail),
        "mails_dropped_total": found.dropped or 0,
        "sessions": found.sessions,
        "changes_total": found.changes or 0,
        "pruning_late_seconds": max(_age(now, found.counter), _age(now, found.denial)),
    }


def _age(now: datetime, moment: datetime | None) -> int:
    return max(0, int((now - moment).total_seconds())) if moment else 0
