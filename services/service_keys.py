"""Service keys; the table holds their digests. They are created on the machine only, because a
thief of an admin's token must not get a key that outlives the token."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Row, bindparam, delete, select, update

import errors
from core import clock, scopes
from core.reasons import Reason
from core.scopes import Scope
from database import change_one, is_unavailable, one_statement, read_all, unique
from database.driver import DriverStatement
from extensions import db
from models import ServiceKey
from services import events

# Using a key writes its `last_used_at` at most this often.
USE_INTERVAL = timedelta(hours=1)
_KEY = DriverStatement(select(ServiceKey.__table__).where(ServiceKey.digest == bindparam("digest")))


def create(name: str, allowed: Iterable[Scope], *, expires_at: datetime | None) -> str:
    """Add a service key; return the key, which is stored nowhere.

    Raises InvalidRequest if another key has this name.
    """
    key = scopes.new_key()
    row = ServiceKey(name=name, digest=scopes.digest(key), expires_at=expires_at)
    row.scopes = " ".join(sorted(set(allowed)))
    db.session.add(row)
    reason = Reason("taken", "There is a service key with this name already.")
    taken = errors.InvalidRequest(fields={"name": [reason]})
    with unique(lambda: taken, ServiceKey.name):
        db.session.flush()
    events.tell("service_key_created", f"{scopes.KEY}{row.id}")
    return key


def load(key: str) -> Row[Any] | None:
    """Return the row of a service key, expired or not, or None; store that it is used.

    Commits the use by itself, because most requests with a key open no transaction.
    """
    row = _KEY.one_or_none(digest=scopes.digest(key))
    now = clock.utcnow()
    if row and (row.last_used_at is None or row.last_used_at <= now - USE_INTERVAL):
        # Of concurrent calls only one changes the row.
        unused_since = ServiceKey.last_used_at.is_not_distinct_from(row.last_used_at)
        use = update(ServiceKey).where(ServiceKey.id == row.id, unused_since)
        try:
            with one_statement() as connection:
                connection.execute(use.values(last_used_at=now))
        except Exception as error:
            # Calls that only read must work while the database takes no writes.
            if not is_unavailable(error):
                raise
    return row


def list_all() -> list[dict[str, Any]]:
    """Return all service keys, newest first."""
    rows = read_all(select(ServiceKey.__table__).order_by(ServiceKey.id.desc()))
    return [{**row._asdict(), "scopes": row.scopes.split()} for row in rows]


def revoke(this: ColumnElement[bool]) -> None:
    """Delete the service key that meets this condition. Raises NotFound."""
    revoked = change_one(delete(ServiceKey).where(this).returning(ServiceKey.id))
    if revoked is None:
        raise errors.NotFound("There is no such service key.")
    events.tell("service_key_revoked", f"{scopes.KEY}{revoked.id}")
