"""Service keys. They are created on the machine only, so that a stolen admin token cannot make
itself lasting; the table holds their digests."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row, bindparam, delete, select, update
from sqlalchemy.exc import IntegrityError

from core import clock, scopes
from core.scopes import Scope
from database import DriverSelect, change_one, is_unavailable, one_statement, reading
from extensions import db
from models import ServiceKey

# Using a key writes its `last_used_at` at most this often.
USE_INTERVAL = timedelta(hours=1)
_KEY = DriverSelect(select(ServiceKey.__table__).where(ServiceKey.digest == bindparam("digest")))


class NameTaken(Exception):
    """Another service key has this name."""


def create(name: str, allowed: Iterable[Scope], *, expires_at: datetime | None) -> tuple[str, str]:
    """Add a service key; return its id and the key, which is stored nowhere. Raises NameTaken."""
    key = scopes.new_key()
    row = ServiceKey(
        name=name,
        digest=scopes.digest(key),
        scopes=" ".join(sorted(set(allowed))),
        expires_at=expires_at,
    )
    db.session.add(row)
    try:
        db.session.flush()
    except IntegrityError:
        raise NameTaken from None
    return row.id, key


def load(key: str) -> Row[Any] | None:
    """Return the row of a service key, expired or not, or None. Store from time to time its use."""
    row = _KEY.one_or_none(digest=scopes.digest(key))
    now = clock.utcnow()
    if row and (row.last_used_at is None or row.last_used_at <= now - USE_INTERVAL):
        # Of parallel calls only one changes the row.
        unused_since = ServiceKey.last_used_at.is_not_distinct_from(row.last_used_at)
        use = update(ServiceKey).where(ServiceKey.id == row.id, unused_since)
        try:
            with one_statement() as connection:
                connection.execute(use.values(last_used_at=now))
        except Exception as error:
            # The key must also work while the database takes no writes.
            if not is_unavailable(error):
                raise
    return row


def list_all() -> Sequence[Row[Any]]:
    """Return all service keys, newest first."""
    with reading() as connection:
        query = select(ServiceKey.__table__).order_by(ServiceKey.id.desc())
        return connection.execute(query).all()


def revoke(*, id_: str | None = None, name: str | None = None) -> str | None:
    """Delete the service key with this id or name; return its id, or None if there is none."""
    this = ServiceKey.id == id_ if id_ else ServiceKey.name == name
    revoked = change_one(delete(ServiceKey).where(this).returning(ServiceKey.id))
    return str(revoked.id) if revoked else None
