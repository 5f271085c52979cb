"""Counting in fixed windows: in the service's own database, or in Redis."""

import sys
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, cast

from limits import RateLimitItem
from limits.storage import Storage
from limits.strategies import FixedWindowRateLimiter
from sqlalchemy import BigInteger, Executable, bindparam, case, delete, select
from sqlalchemy.exc import SQLAlchemyError

from core import clock
from database import insert_into, one_statement, reading
from models import Counter


class Limiter(FixedWindowRateLimiter):
    """Fixed windows that do not count a hit beyond the limit."""

    def hit(self, item: RateLimitItem, *identifiers: str, cost: int = 1) -> bool:
        """Count and return True, or return False when the limit is reached."""
        if isinstance(self.storage, DatabaseCounters):
            key = item.key_for(*identifiers)
            return self.storage.add(key, item.get_expiry(), cost, limit=item.amount) is not None
        if super().hit(item, *identifiers, cost=cost):
            return True
        self.take_back(item, *identifiers)
        return False

    def take_back(self, item: RateLimitItem, *identifiers: str) -> None:
        """Undo one hit."""
        if self.storage.incr(item.key_for(*identifiers), item.get_expiry(), -1) < 0:
            self.clear(item, *identifiers)  # the window that counted the hit is over


# Built once: that takes longer than running it.
_WINDOW = select(Counter.hits, Counter.expires_at).where(
    Counter.key == bindparam("key"), Counter.expires_at > bindparam("now")
)


class DatabaseCounters(Storage):
    """The table `counters`, where the first hit of a counter starts its window."""

    base_exceptions = SQLAlchemyError

    @cached_property
    def _upsert(self) -> Executable:
        insert = insert_into(Counter.__table__)
        new, over = insert.excluded, Counter.expires_at <= bindparam("now")
        return insert.on_conflict_do_update(
            index_elements=[Counter.key],
            set_={
                "hits": case((over, new.hits), else_=Counter.hits + new.hits),
                "expires_at": case((over, new.expires_at), else_=Counter.expires_at),
            },
            where=over | (Counter.hits < bindparam("limit", type_=BigInteger)),
        ).returning(Counter.hits)

    def add(self, key: str, expiry: int, amount: int, *, limit: int) -> int | None:
        """Count and return the new count, or change nothing and return None at the limit."""
        now = clock.utcnow()
        row = {"key": key, "hits": amount, "expires_at": now + timedelta(seconds=expiry)}
        with one_statement() as connection:
            parameters = {**row, "now": now, "limit": limit}
            return cast("int | None", connection.scalar(self._upsert, parameters))

    def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        return self.add(key, expiry, amount, limit=sys.maxsize) or 0

    def get(self, key: str) -> int:
        return self._window(key)[0]

    def get_expiry(self, key: str) -> float:
        return self._window(key)[1].timestamp()

    def _window(self, key: str) -> tuple[int, datetime]:
        now = clock.utcnow()
        with reading() as connection:
            row: Any = connection.execute(_WINDOW, {"key": key, "now": now}).one_or_none()
        return row or (0, now)

    def clear(self, key: str) -> None:
        with one_statement() as connection:
            connection.execute(delete(Counter).where(Counter.key == key))

    def reset(self) -> None:
        with one_statement() as connection:
            connection.execute(delete(Counter))

    def check(self) -> bool:
        return True  # `/readyz` tells whether the database can be used
