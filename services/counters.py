"""Where limits are counted: in the service's own database, shared by all workers and machines.

A storage of the library `limits`, which Flask-Limiter finds by the scheme of its URI. Each hit is
one statement that counts and begins a new window where the old one is over, so that of many at
once exactly as many pass as are allowed.
"""

from datetime import timedelta
from typing import cast

from limits.storage import Storage
from sqlalchemy import Table, case, delete, select
from sqlalchemy.exc import SQLAlchemyError

from core import clock
from database import insert_into, one_statement, reading
from models import Counter

URI = "database://"


class Counters(Storage):
    """Fixed windows in the table `counters`. Raises SQLAlchemy's errors."""

    STORAGE_SCHEME = ["database"]

    @property
    def base_exceptions(self) -> type[Exception]:
        """What a storage raises that cannot count."""
        return SQLAlchemyError

    def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        """Count, and return how many there are; the window ends `expiry` seconds after its first.

        A negative amount takes back what was counted.
        """
        now = clock.utcnow()
        statement = insert_into(cast("Table", Counter.__table__)).values(
            key=key, hits=max(amount, 0), expires_at=now + timedelta(seconds=expiry)
        )
        over, first = Counter.expires_at <= now, statement.excluded
        counted = statement.on_conflict_do_update(
            index_elements=[Counter.key],
            set_={
                "hits": case((over, first.hits), else_=Counter.hits + amount),
                "expires_at": case((over, first.expires_at), else_=Counter.expires_at),
            },
        ).returning(Counter.hits)
        with one_statement() as connection:
            return cast("int", connection.scalar(counted))

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
