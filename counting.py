"""Counters of how often something happened in a window of time, shared by all machines; and those
of an account: how they are found, and cleared.

Their keys are HMACs, so that the table does not show who called. The part of an account comes
first, so that all of its counters can be found together.
"""

import hmac
import math
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import TypeAlias

from sqlalchemy import ColumnElement, and_, case, delete, false, or_, select
from sqlalchemy.sql.dml import ReturningInsert

import errors
from core import audit, clock
from database import change, insert_into, read_all
from extensions import db, settings
from models import Counter, User, UserRow

Person: TypeAlias = User | UserRow

WINDOWS = {
    "minute": timedelta(minutes=1),
    "15 minutes": timedelta(minutes=15),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
}
# How many wrong passwords and codes an account may have: from one client IP in 15 minutes, and from
# all in an hour.
WRONG, ANYWHERE = "wrong passwords for an account", "wrong passwords from all client IPs"
MOST = {WRONG: 10, ANYWHERE: 100}


class WrongGuess(Exception):
    """A password or a code was wrong, and stays counted. Its argument is the error for the client.

    No other error says so: after each of them, the count is taken back.
    """


def digest(*parts: str) -> str:
    text = "\0".join(("limits", *parts)).encode()
    return hmac.digest(settings.secret_key.encode(), text, "sha256").hex()[:32]


def key(name: str, *others: str, account: str | None = None) -> str:
    """Return the key of what is counted under this name: for an account, by what else."""
    return f"{'' if account is None else digest(account)}/{name}/{digest(*others)}"


def row(key: str, window: str, now: datetime) -> dict[str, object]:
    """Return the row of a counter that begins now."""
    return {"key": key, "hits": 1, "expires_at": now + WINDOWS[window]}


def upsert(now: datetime) -> ReturningInsert[str, int, datetime]:
    """Return the statement that counts: it begins a window, or adds to the one that is open.

    It returns key, hits and the end of the window. Keys must be counted in descending order, or two
    transactions could wait for each other.
    """
    insert = insert_into(Counter.__table__)
    new, over = insert.excluded, Counter.expires_at <= now
    return insert.on_conflict_do_update(
        index_elements=[Counter.key],
        set_={
            "hits": case((over, new.hits), else_=Counter.hits + new.hits),
            "expires_at": case((over, new.expires_at), else_=Counter.expires_at),
        },
    ).returning(Counter.key, Counter.hits, Counter.expires_at)


def within(
    keys: Collection[str], allowed: int, window: timedelta, *, always: bool = False
) -> set[str]:
    """Count each of these once in the open transaction; return those that were counted no more
    often than is allowed; all of them with RATELIMIT_ENABLED=0, unless `always`.
    """
    if not (keys and (always or settings.ratelimit_enabled)):
        return set(keys)
    now = clock.utcnow()
    new = {"hits": 1, "expires_at": now + window}
    rows = [{"key": each, **new} for each in sorted(keys, reverse=True)]
    return {each for each, hits, _ in db.session.execute(upsert(now), rows) if hits <= allowed}


def require(name: str, allowed: int, window: str, *, account: str) -> None:
    """Count this once for an account in the open transaction. Raises TooManyRequests, after which
    the transaction counts nothing, beyond what is allowed in a window.
    """
    this = key(name, account=account)
    if not within([this], allowed, WINDOWS[window]):
        audit.log("limit_reached", account, limit=f"{allowed} per {window}: {name}")
        end = db.session.scalars(select(Counter.expires_at).where(Counter.key == this)).one()
        raise too_many(end)


def too_many(end: datetime, message: str | None = None) -> errors.TooManyRequests:
    """Return the refusal of a call in a window with this end."""
    seconds = math.ceil((end - clock.utcnow()).total_seconds())
    return errors.TooManyRequests(message, retry_after=max(1, seconds))


def names(user: Person) -> tuple[str, str]:
    """Return what may be typed at a login, each of which is counted by itself."""
    return user.email, user.username.lower()


def unlock(*people: Person) -> None:
    """Clear, in the open transaction, all that is counted for accounts from all client IPs."""
    counted = or_(false(), *map(_of_account, people))
    keys = select(Counter.key).where(counted).order_by(Counter.key.desc())
    found = db.session.scalars(keys.with_for_update()).all()
    change(delete(Counter).where(Counter.key.in_(found)))


def locked_until(user: Person) -> datetime | None:
    """Return when the last limit that refuses logins to an account ends; None if none does."""
    if not settings.ratelimit_enabled:
        return None
    query = select(Counter.__table__).where(_of_account(user), Counter.expires_at > clock.utcnow())
    found = read_all(query)
    full = (end for key, hits, end in found if hits >= MOST.get(key.split("/")[1], math.inf))
    return max(full, default=None)


def _of_account(user: Person) -> ColumnElement[bool]:
    accounts = map(digest, names(user))  # "0" follows "/" in the order of characters
    return or_(*(and_(Counter.key >= f"{each}/", Counter.key < f"{each}0") for each in accounts))
