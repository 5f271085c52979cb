"""Limits: declared above a view, counted in the table `counters`, refused with 429.

A call is counted before its view runs, or parallel guesses would slip through. Limits on guesses
take back a call that was no wrong guess; all others count calls, whatever comes of them. A limit
that is reached refuses at once: no call waits for another.
"""

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import Flag, auto
from typing import Any, TypeAlias

from flask import request
from sqlalchemy import ColumnElement, and_, bindparam, delete, or_, select, update
from sqlalchemy.exc import DBAPIError

import counting
import errors
from core import audit, clock
from core.addresses import login_name
from database import (
    change,
    ended_statement,
    harmless,
    is_unavailable,
    reading,
    transaction,
)
from extensions import db, settings
from models import Counter, User, UserRow
from web import bearer, client

View = Callable[..., object]
Person: TypeAlias = User | UserRow

_log = logging.getLogger("accounts.limits")
_OPEN = Counter.expires_at > bindparam("now")
_FOUND = select(Counter.__table__).where(Counter.key.in_(bindparam("keys", expanding=True)), _OPEN)


class By(Flag):
    """Whose calls are counted together."""

    IP = auto()  # the client IP
    # The address or username in the body, whether or not it has an account, else the caller's
    # address. Where there is none of these, nothing is counted.
    ACCOUNT = auto()
    NEW_EMAIL = auto()  # the new e-mail address in the body
    CALLER = auto()  # a user, or a service key


@dataclass(frozen=True)
class Limit:
    """How many calls are allowed in a window, which begins with the first. The next one gets a 429.

    How many mails an address gets is limited by `services.outbox`.
    """

    calls: int | Callable[[], int]  # called where it is a setting
    window: str
    name: str  # what is counted, for the documentation and the keys of the counters
    by: By
    # Whether it counts wrong passwords and wrong codes only.
    guesses: bool = False

    @property
    def allowed(self) -> int:
        return self.calls() if callable(self.calls) else self.calls

    @property
    def rate(self) -> str:
        return f"{self.allowed} per {self.window}"


# For views that check a password or a code; the transaction of their act has the `right_guess`.
_WRONG, _ANYWHERE = "wrong passwords for an account", "wrong passwords from all client IPs"
GUESSES = (
    Limit(10, "15 minutes", _WRONG, By.ACCOUNT | By.IP, guesses=True),
    Limit(100, "hour", _ANYWHERE, By.ACCOUNT, guesses=True),
)
# For views that check the password of a caller. Hashes are what logins wait for.
CONFIRMATIONS = (*GUESSES, Limit(20, "hour", "calls with a current password", By.CALLER))


class _Reached(Exception):
    """A limit is reached. Its arguments are the limit and the end of the window."""


def call_within(limits: tuple[Limit, ...], view: View, **arguments: Any) -> object:
    """Count a call, then call the view. Raises TooManyRequests where a limit is reached."""
    body = arguments.get("body", {})
    applied = [
        limit for limit in limits if By.ACCOUNT not in limit.by or _account(body) is not None
    ]
    counters = {_key(limit, body): limit for limit in applied if settings.ratelimit_enabled}
    try:
        ends = _add_hits(counters) if counters else {}
    except _Reached as error:
        limit, end = error.args
        _log_reached(limit, body)
        seconds = math.ceil((end - clock.utcnow()).total_seconds())
        raise errors.TooManyRequests(retry_after=max(1, seconds)) from None
    try:
        return view(**arguments)
    except Exception as error:
        _take_back(counters, ends, error)
        raise


def _key(limit: Limit, body: Mapping[str, Any]) -> str:
    account = _account(body) if By.ACCOUNT in limit.by else None
    others = (
        body["new_email"] if By.NEW_EMAIL in limit.by else "",
        bearer.caller().id if By.CALLER in limit.by else "",
        client.network() if By.IP in limit.by else "",
    )
    return counting.key(limit.name, *others, account=account)


def _account(body: Mapping[str, Any]) -> str | None:
    """Return the account that a call is about: as its body names it, or the caller's, if any.

    An address and a username of one account are counted apart: one count would tell whose address
    a public name has, and let strangers shut it out.
    """
    name = _named(body)
    if name is not None:
        return login_name(name) or name
    if me := bearer.caller_if_any():
        return me.id if me.is_key else me.user.email
    return None


def _named(body: Mapping[str, str]) -> str | None:
    return body.get("email", body.get("account"))


def _add_hits(counters: dict[str, Limit]) -> dict[str, datetime]:
    """Count a call; return the ends of the windows. Raises _Reached, and then counts nothing."""
    now = clock.utcnow()
    # Reads come first, so that a flood of refused calls does not become a flood of writes.
    with reading() as connection:
        found = connection.execute(_FOUND, {"keys": [*counters], "now": now}).all()
    full = [(end, key) for key, hits, end in found if hits >= counters[key].allowed]
    if full:
        end, key = max(full)
        raise _Reached(counters[key], end)
    ends = {}
    with transaction() as session:
        # In one order for all calls, or two of them could wait for each other (a deadlock). Those
        # of an account come first: all calls from one school wait for the others, while locked.
        for key in sorted(counters, reverse=True):
            row = counting.row(key, counters[key].window, now)
            _, hits, ends[key] = session.execute(counting.upsert(now), row).one()
            if hits > counters[key].allowed:  # parallel calls took the last places after the read
                raise _Reached(counters[key], ends[key])
    return ends


def _log_reached(limit: Limit, body: Mapping[str, Any]) -> None:
    user_id = request.environ.get("accounts.user_id")
    if By.ACCOUNT in limit.by and (name := _named(body)) is not None:
        key = User.email if "@" in name else User.username_key
        with reading() as connection:
            user_id = connection.scalar(select(User.id).where(key == login_name(name)))
    audit.log("limit_reached", user_id, limit=f"{limit.rate}: {limit.name}")


def _take_back(counters: dict[str, Limit], ends: dict[str, datetime], error: Exception) -> None:
    """Take back what a call has counted that failed with this error."""
    is_lost = isinstance(error, DBAPIError) and is_unavailable(error)
    if not ends or (is_lost and not ended_statement(error)):
        return  # the counters are in the same database; do not time out twice
    is_wrong = isinstance(error, errors.ApiError) and error.wrong_guess
    is_refused = isinstance(error, errors.TooManyRequests)
    undone = [key for key in ends if is_refused or (counters[key].guesses and not is_wrong)]
    if undone:
        with harmless(_log, "a count could not be changed"), transaction():
            for key in undone:
                # The window that has counted the call may be over.
                this = Counter.key == key, Counter.expires_at == ends[key], Counter.hits > 0
                change(update(Counter).where(*this).values(hits=Counter.hits - 1))


@contextmanager
def right_guess(
    body: Mapping[str, Any] | None = None, *, forgets: Sequence[str] | None = None
) -> Iterator[None]:
    """Run what a right password or code allows in the open transaction, which then takes back that
    its call was counted as a wrong one. An act that fails changes no count in this way.

    The wrong ones from this client IP are forgotten too, by default those with the name in the
    body, or those of the caller.
    """
    yield
    if not settings.ratelimit_enabled:
        return
    name = _account(body or {})
    own = () if name is None else (name,)
    counted = {_key(limit, {"email": each}) for limit in GUESSES for each in own}
    forgets = own if forgets is None else forgets
    forgotten = {_key(GUESSES[0], {"email": each}) for each in forgets}
    for key in sorted(forgotten | counted, reverse=True):
        this = Counter.key == key
        taken_back = update(Counter).where(this, Counter.hits > 0).values(hits=Counter.hits - 1)
        change(delete(Counter).where(this) if key in forgotten else taken_back)


def unlock(user: Person) -> None:
    """Clear, in the open transaction, all that is counted for an account from all client IPs."""
    keys = select(Counter.key).where(_of_account(user)).order_by(Counter.key.desc())
    found = db.session.scalars(keys.with_for_update()).all()
    change(delete(Counter).where(Counter.key.in_(found)))


def locked_until(user: Person) -> datetime | None:
    """Return when the last limit that refuses logins to an account ends; None if none does."""
    if not settings.ratelimit_enabled:
        return None
    allowed = {limit.name: limit.allowed for limit in GUESSES}
    query = select(Counter.__table__).where(_of_account(user), _OPEN)
    with reading() as connection:
        found = connection.execute(query, {"now": clock.utcnow()}).all()
    full = (end for key, hits, end in found if hits >= allowed.get(key.split("/")[1], math.inf))
    return max(full, default=None)


def names(user: Person) -> tuple[str, str]:
    """Return what may be typed at a login, each of which is counted by itself."""
    return user.email, user.username.lower()


def _of_account(user: Person) -> ColumnElement[bool]:
    accounts = map(counting.digest, names(user))  # "0" follows "/" in the order of characters
    return or_(*(and_(Counter.key >= f"{each}/", Counter.key < f"{each}0") for each in accounts))
