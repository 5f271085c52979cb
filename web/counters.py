"""The storage that limits are counted in: the service's own database, or Redis."""

import sys
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, cast

from limits import RateLimitItem
from limits.storage import Storage, storage_from_string
from limits.strategies import FixedWindowRateLimiter
from sqlalchemy import BigInteger, Table, bindparam, case, delete, select
from sqlalchemy.exc import SQLAlchemyError

from core import clock
from database import insert_into, one_statement, reading
from models import Counter


class Limiter(FixedWindowRateLimiter):
    """Fixed windows, in which a hit beyond the limit is not counted."""

    def hit(self, item: RateLimitItem, *identifiers: str, cost: int = 1) -> bool:
        """Count, and return True; or return False when the limit is reached."""
        if isinstance(self.storage, DatabaseCounters):
            key = item.key_for(*identifiers)
            return self.storage.add(key, item.get_expiry(), cost, limit=item.amount) > 0
        within = super().hit(item, *identifiers, cost=cost)
        if not within:
            self.take_back(item, *identifiers)
        return within

    def take_back(self, item: RateLimitItem, *identifiers: str) -> None:
        """Undo one hit."""
        if self.storage.incr(item.key_for(*identifiers), item.get_expiry(), -1) < 0:
            self.clear(item, *identifiers)  # the window ended or was cleared meanwhile


def limiter(redis_url: str) -> Limiter:
    """Return a limiter that counts in Redis and raises limits.errors.StorageError; or, without a
    URL, in the database, and raises SQLAlchemy's errors."""
    if not redis_url:
        return Limiter(DatabaseCounters())
    waits = {"socket_timeout": 1, "socket_connect_timeout": 1}  # seconds
    return Limiter(storage_from_string(redis_url, wrap_exceptions=True, **waits))


# Built once: that takes longer than running it.
_WINDOW = select(Counter.hits, Counter.expires_at).where(
    Counter.key == bindparam("key"), Counter.expires_at > bindparam("now")
)


class DatabaseCounters(Storage):
    """Fixed windows in the table `counters`: a counter's window begins with its first hit."""

    base_exceptions = SQLAlchemyError

    @cached_property
    def _upsert(self) -> Any:
        statement = insert_into(cast("Table", Counter.__table__))
        new, over = statement.excluded, Counter.expires_at <= bindparam("now")
        changes = {
            "hits": case((over, new.hits), else_=Counter.hits + new.hits),
            "expires_at": case((over, new.expires_at), else_=Counter.expires_at),
        }
        statement = statement.on_conflict_do_update(
            index_elements=[Counter.key],
            set_=changes,
            where=over | (Counter.hits < bindparam("limit", type_=BigInteger)),
        )
        return statement.returning(Counter.hits)

    def add(self, key: str, expiry: int, amount: int, *, limit: int) -> int:
        """Count, and return how many there are; or change nothing and return 0 at the limit."""
        now = clock.utcnow()
        row = {"key": key, "hits": amount, "expires_at": now + timedelta(seconds=expiry)}
        with one_statement() as connection:
            return connection.scalar(self._upsert, {**row, "now": now, "limit": limit}) or 0

    def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        return self.add(key, expiry, amount, limit=sys.maxsize)

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
