"""Limits: declared above a view, counted in the table `counters`, refused with 429.

A call is counted before its view runs, or parallel guesses would slip through. Limits on guesses
take back a call that was no wrong guess; all others count calls, whatever comes of them. A limit
that is reached refuses at once: no call waits for another.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import Flag, auto
from typing import Any

from flask import request
from sqlalchemy import bindparam, delete, select, update
from sqlalchemy.exc import DBAPIError

import counting
import database
import errors
from core import audit, clock
from core.addresses import login_name
from counting import ANYWHERE, MOST, WRONG, WrongGuess
from extensions import settings
from models import Counter, User
from web import bearer, client

View = Callable[..., object]
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
    SESSION = auto()  # the caller's


@dataclass(frozen=True)
class Limit:
    """How many calls are allowed in a window, which begins with the first. The next one gets a 429.

    How many mails an address gets is limited by `services.outbox`.
    """

    calls: int | Callable[[], int]  # called where it is a setting
    window: str
    name: str  # what is counted, for the documentation and the keys of the counters
    by: By
    # The list of which each entry counts as a call, where the body has it. Such a view refuses no
    # call by a limit of its own, which would take back one.
    each: str = ""

    @property
    def allowed(self) -> int:
        return self.calls() if callable(self.calls) else self.calls

    @property
    def rate(self) -> str:
        return f"{self.allowed} per {self.window}"


# For views that check a password or a code: they get the `guess`, and count wrong ones only.
GUESSES = (
    Limit(MOST[WRONG], "15 minutes", WRONG, By.ACCOUNT | By.IP),
    Limit(MOST[ANYWHERE], "hour", ANYWHERE, By.ACCOUNT),
)
# For those of a caller: strangers who guess at the account do not keep its user from them.
OWN_GUESSES = GUESSES[:1]
# For those that check the caller's password, since logins wait for hashes. A thief of one session
# must not keep the user from what ends it.
CONFIRMATIONS = (*OWN_GUESSES, Limit(20, "hour", "calls with a current password", By.SESSION))


class _Reached(Exception):
    """A limit is reached. Its arguments are the limit and the end of the window."""


@dataclass(frozen=True)
class Guess:
    """A password or a code that a call tries, counted as a wrong one before it is judged.

    A service that finds it wrong raises WrongGuess, and it stays counted; the act that a right one
    allows says `right`. What says neither, such as every other error, takes the count back.
    """

    counted: Mapping[str, datetime]  # the ends of the windows, by the keys of their counters
    names: Collection[str]  # what was typed for the account, or the caller's address, if any

    @contextmanager
    def right(self, *, forgets: Collection[str] | None = None) -> Iterator[None]:
        """Run what a right guess allows in the open transaction, which then takes back its count.
        An act that fails changes no count in this way.

        The wrong ones from this client IP for the same account are forgotten too, or those with the
        names that it `forgets` instead.
        """
        yield
        if settings.ratelimit_enabled:
            names = self.names if forgets is None else forgets
            _take_back(self.counted, {_key(GUESSES[0], each, {}) for each in names})


def call_within(limits: tuple[Limit, ...], view: View, **arguments: Any) -> object:
    """Count a call, then call the view, with its `guess` where guesses are limited. Raises
    TooManyRequests where a limit is reached.
    """
    body = arguments.get("body", {})
    account = _account(body)
    applied = [limit for limit in limits if By.ACCOUNT not in limit.by or account is not None]
    counters = {_key(each, account, body): each for each in applied if settings.ratelimit_enabled}
    try:
        weights = {key: len(body.get(each.each, [each])) for key, each in counters.items()}
        ends = _add_hits(counters, weights) if counters else {}
    except _Reached as error:
        limit, end = error.args
        _log_reached(limit, body)
        raise counting.too_many(end) from None
    guessed = {key: end for key, end in ends.items() if counters[key] in GUESSES}
    if GUESSES[0] in limits:
        arguments["guess"] = Guess(guessed, () if account is None else (account,))
    try:
        return view(**arguments)
    except WrongGuess as wrong:
        raise wrong.args[0] from None
    except Exception as error:
        is_refused = isinstance(error, errors.TooManyRequests)
        _take_back_after(error, ends if is_refused else guessed)
        raise


def _key(limit: Limit, account: str | None, body: Mapping[str, Any]) -> str:
    others = (
        body["new_email"] if By.NEW_EMAIL in limit.by else "",
        _caller(limit),
        client.network() if By.IP in limit.by else "",
    )
    return counting.key(limit.name, *others, account=account if By.ACCOUNT in limit.by else None)


def _caller(limit: Limit) -> str:
    if By.SESSION in limit.by:
        return bearer.caller().session_id
    return bearer.caller().id if By.CALLER in limit.by else ""


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


def _add_hits(counters: dict[str, Limit], weights: dict[str, int]) -> dict[str, datetime]:
    """Count a call, by its weights; return the ends of the windows. Raises _Reached, and then
    counts nothing.
    """
    now = clock.utcnow()
    # Reads come first, so that a flood of refused calls does not become a flood of writes.
    found = database.read_all(_FOUND, keys=[*counters], now=now)
    full = [(end, key) for key, hits, end in found if hits + weights[key] > counters[key].allowed]
    if full:
        end, key = max(full)
        raise _Reached(counters[key], end)
    ends = {}
    with database.transaction() as session:
        # In one order for all calls, or two of them could wait for each other (a deadlock). Those
        # of an account come first: all calls from one school wait for the others, while locked.
        for key in sorted(counters, reverse=True):
            row = counting.row(key, counters[key].window, now) | {"hits": weights[key]}
            _, hits, ends[key] = session.execute(counting.upsert(now), row).one()
            if hits > counters[key].allowed:  # parallel calls took the last places after the read
                raise _Reached(counters[key], ends[key])
    return ends


def _log_reached(limit: Limit, body: Mapping[str, Any]) -> None:
    user_id = request.environ.get("accounts.user_id")
    if By.ACCOUNT in limit.by and (name := _named(body)) is not None:
        key = User.email if "@" in name else User.username_key
        user_id = database.read_value(select(User.id).where(key == login_name(name)))
    audit.log("limit_reached", user_id, limit=f"{limit.rate}: {limit.name}")


def _take_back_after(error: Exception, counted: Mapping[str, datetime]) -> None:
    """Take back what a call has counted that failed with this error."""
    is_lost = isinstance(error, DBAPIError) and database.is_unavailable(error)
    if not counted or (is_lost and not database.ended_statement(error)):
        return  # the counters are in the same database; do not time out twice
    with database.harmless(_log, "a count could not be changed"), database.transaction():
        _take_back(counted)


def _take_back(counted: Mapping[str, datetime], forgotten: Collection[str] = ()) -> None:
    """Take back what these windows have counted once, and forget these counters."""
    for key in sorted({*counted, *forgotten}, reverse=True):
        this = Counter.key == key
        if key in forgotten:
            database.change(delete(Counter).where(this))
            continue
        # The window that has counted the call may be over.
        window = Counter.expires_at == counted[key], Counter.hits > 0
        database.change(update(Counter).where(this, *window).values(hits=Counter.hits - 1))
