"""Where limits are counted: in the service's own database, or in Redis.

Storages of the library `limits`, which Flask-Limiter finds by the scheme of their URI. Of many hits
at once, exactly as many pass as are allowed, whatever workers and machines they come to.
"""

import logging
import time
from datetime import timedelta
from typing import Any, cast

from limits.storage import MemoryStorage, Storage, storage_from_string
from sqlalchemy import Table, case, delete, select, update
from sqlalchemy.exc import SQLAlchemyError

from core import clock
from database import insert_into, one_statement, reading
from models import Counter

# Seconds that a call waits for Redis, and that a process counts by itself when it was away.
REDIS_WAIT = 1
REDIS_PAUSE = 5.0

_log = logging.getLogger("accounts.limits")


def uri(redis_url: str) -> str:
    """Return the URI of the storage to count in: of the database, unless a Redis is given."""
    return f"patient+{redis_url}" if redis_url else "database://"


class DatabaseCounters(Storage):
    """Fixed windows in the table `counters`. Raises SQLAlchemy's errors."""

    STORAGE_SCHEME = ["database"]

    @property
    def base_exceptions(self) -> type[Exception]:
        """What a storage raises that cannot count."""
        return SQLAlchemyError

    def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        """Count, and return how many there are; the window ends `expiry` seconds after its first.

        A negative amount takes back what was counted in this window, and no more than that.
        """
        now = clock.utcnow()
        over = Counter.expires_at <= now
        statement: Any
        if amount < 0:
            enough = (Counter.key == key, ~over, Counter.hits >= -amount)
            statement = update(Counter).where(*enough).values(hits=Counter.hits + amount)
        else:
            statement = insert_into(cast("Table", Counter.__table__)).values(
                key=key, hits=amount, expires_at=now + timedelta(seconds=expiry)
            )
            first = statement.excluded
            statement = statement.on_conflict_do_update(
                index_elements=[Counter.key],
                set_={
                    "hits": case((over, first.hits), else_=Counter.hits + first.hits),
                    "expires_at": case((over, first.expires_at), else_=Counter.expires_at),
                },
            )
        with one_statement() as connection:
            return connection.scalar(statement.returning(Counter.hits)) or 0

    def get(self, key: str) -> int:
        """Return how many there are."""
        query = select(Counter.hits).where(Counter.key == key, Counter.expires_at > clock.utcnow())
        with reading() as connection:
            return connection.scalar(query) or 0

    def get_expiry(self, key: str) -> float:
        """Return when the window ends, in seconds since 1970; now, if there is none."""
        query = select(Counter.expires_at).where(Counter.key == key)
        with reading() as connection:
            return (connection.scalar(query) or clock.utcnow()).timestamp()

    def clear(self, key: str) -> None:
        """Forget a counter."""
        with one_statement() as connection:
            connection.execute(delete(Counter).where(Counter.key == key))

    def reset(self) -> int:
        """Forget all counters; return how many there were."""
        with one_statement() as connection:
            return connection.execute(delete(Counter)).rowcount

    def check(self) -> bool:
        """Return that all is well. There is no second place to count in while it is not."""
        return True


class RedisCounters(Storage):
    """In Redis; and while that is away or takes no writes, in the memory of this process.

    Flask-Limiter has such a stand-in too, but only the first of several calls at once gets it.
    """

    STORAGE_SCHEME = ["patient+redis", "patient+rediss"]

    def __init__(self, uri: str, **options: Any) -> None:
        super().__init__(uri, **options)
        patience = {"socket_timeout": REDIS_WAIT, "socket_connect_timeout": REDIS_WAIT}
        self._redis = storage_from_string(uri.removeprefix("patient+"), **patience)
        self._memory = MemoryStorage()
        self._away_until = time.monotonic()

    @property
    def base_exceptions(self) -> tuple[type[Exception], ...]:
        """What this never lets out."""
        return ()

    def _ask(self, question: str, *arguments: Any) -> Any:
        if time.monotonic() >= self._away_until:
            try:
                return getattr(self._redis, question)(*arguments)
            except self._redis.base_exceptions as error:
                self._away_until = time.monotonic() + REDIS_PAUSE
                _log.error("Redis is away, each process counts by itself: %s", type(error).__name__)
        return getattr(self._memory, question)(*arguments)

    def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        """Count, or take back with a negative amount; return how many there are."""
        if amount < 0 and self.get(key) < -amount:
            return 0
        return cast("int", self._ask("incr", key, expiry, amount))

    def get(self, key: str) -> int:
        """Return how many there are."""
        return cast("int", self._ask("get", key))

    def get_expiry(self, key: str) -> float:
        """Return when the window ends, in seconds since 1970."""
        return cast("float", self._ask("get_expiry", key))

    def clear(self, key: str) -> None:
        """Forget a counter."""
        self._ask("clear", key)

    def reset(self) -> int | None:
        """Forget all counters."""
        return cast("int | None", self._ask("reset"))

    def check(self) -> bool:
        """Return that all is well: there is always a place to count in."""
        return True
