"""Limits: declared on the view, counted by Flask-Limiter, refused with 429 and Retry-After.

All workers and machines count in one place. A counter's key is an HMAC of the client's network
and of the account's e-mail address, so nobody can tell from the counters who was here.

A call is counted before the view runs, or parallel ones would slip through, and taken back where
it turns out not to be one of those that its limit is about.
"""

import functools
import hmac
import inspect
import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from flask import Flask, current_app, g
from flask_limiter import Limiter, RateLimitExceeded
from limits import RateLimitItem, parse

import errors
from config import Settings
from core import clock
from core.events import record
from database import is_unavailable
from extensions import settings
from fieldtypes import normalise_email
from web import bearer, client

View = Callable[..., Any]
# Seconds that a call waits for the verdicts on guesses that are being hashed; and between looks.
VERDICTS_WITHIN = 5.0
LOOK_AGAIN = 0.05

_log = logging.getLogger("accounts.limits")


class By(Enum):
    """Whose calls are counted together."""

    ADDRESS = "address"
    ACCOUNT = "account"
    ACCOUNT_AND_ADDRESS = "account and address"


class Counts(Enum):
    """Which calls stay counted."""

    ALL = auto()
    WRONG_PASSWORDS = auto()
    SUCCESSES = auto()


@dataclass(frozen=True)
class Limit:
    """So many in so much time, and then a 429; or, if it is `silent`, the answer without the act.

    Views that name the same limit have one count for all.
    """

    name: str
    rate: str  # as the library `limits` reads it
    things: str  # in the words of the documentation
    by: By
    counts: Counts = Counts.ALL
    silent: bool = False


# For views that check a password.
GUESSES = (
    Limit(
        "guesses",
        "10 per 15 minutes",
        "wrong passwords for an account",
        By.ACCOUNT_AND_ADDRESS,
        Counts.WRONG_PASSWORDS,
    ),
    Limit(
        "guesses-everywhere",
        "100 per hour",
        "wrong passwords for an account from all addresses",
        By.ACCOUNT,
        Counts.WRONG_PASSWORDS,
    ),
)


class _Counter:
    """The count of one limit for one client or account."""

    def __init__(self, limiter: Limiter, limit: Limit) -> None:
        self.limit = limit
        self.item: RateLimitItem = parse(limit.rate)
        self._strategy = limiter.limiter
        self._key = _key(limit.by)()

    def is_full(self) -> bool:
        return not self._strategy.test(self.item, self._key, self.limit.name)

    def take_back(self) -> None:
        self._strategy.hit(self.item, self._key, self.limit.name, cost=-1)

    def clear(self) -> None:
        self._strategy.clear(self.item, self._key, self.limit.name)
        self._strategy.clear(self.item, self._key, f"{self.limit.name}-judged")

    def note_verdict(self) -> None:
        """Count a guess as one that was wrong, and not just under way."""
        self._strategy.hit(self.item, self._key, f"{self.limit.name}-judged")

    def awaits_verdicts(self) -> bool:
        return self._strategy.test(self.item, self._key, f"{self.limit.name}-judged")

    def seconds_left(self) -> int:
        key = self.item.key_for(self._key, self.limit.name)
        return max(1, math.ceil(self._strategy.storage.get_expiry(key) - _now()))


def _now() -> float:
    return clock.utcnow().timestamp()


def init_app(app: Flask, settings: Settings, storage_uri: str) -> None:
    """Count the calls of all views that declare limits. Comes after the blueprints."""
    app.extensions["limits"] = None
    if not settings.ratelimit_enabled:
        return
    limiter = Limiter(_key(By.ADDRESS), storage_uri=storage_uri, strategy="fixed-window")
    # Named as there already, so that it adds no hooks. At each request they would look for limits
    # of the whole application; there are none, and it takes a seventh of a quick call's time.
    app.extensions["limiter"] = {limiter}
    limiter.init_app(app)
    # A view stands at two paths, and must be decorated once, or each call would count for two.
    operations = {
        inspect.unwrap(handle): handle.operation
        for handle in app.view_functions.values()
        if hasattr(handle, "operation")
    }
    counted = {
        view: _counted(limiter, view, operation.limits)
        for view, operation in operations.items()
        if operation.limits
    }
    app.extensions["limits"] = limiter, counted


def _counted(limiter: Limiter, view: View, limits: tuple[Limit, ...]) -> View:
    for limit in limits:
        view = limiter.shared_limit(limit.rate, limit.name, key_func=_key(limit.by))(view)
    return view


def _key(by: By) -> Callable[[], str]:
    def key() -> str:
        whose = [by.value]
        if by is not By.ADDRESS:
            whose.append(g.limited_account)
        if by is not By.ACCOUNT:
            whose.append(client.network())
        text = "\0".join(("limits", *whose)).encode()
        return hmac.digest(settings.secret_key.encode(), text, "sha256").hex()[:32]

    return key


def within(limits: tuple[Limit, ...], view: View) -> View:
    """Return a view that is run within its limits.

    It raises TooManyRequests when one is reached, unless that is silent: then it returns None.
    """

    @functools.wraps(view)
    def run(**arguments: Any) -> Any:
        return _run(view, limits, arguments)

    return run


def _run(view: View, limits: tuple[Limit, ...], arguments: dict[str, Any]) -> Any:
    if current_app.extensions["limits"] is None:
        return view(**arguments)
    limiter, counted = current_app.extensions["limits"]
    if any(limit.by is not By.ADDRESS for limit in limits):
        g.limited_account = _account(arguments["body"])
    counters = [_Counter(limiter, limit) for limit in limits]
    # To refuse a call costs reads only: a flood of calls is no flood of writes.
    while not (full := [counter for counter in counters if _is_full(counter)]):
        try:
            result = counted[view](**arguments)
        except RateLimitExceeded:
            # Others were faster since the look above. What was counted, up to that limit, goes.
            hit = {counted.request_args[-1] for counted in limiter.current_limits}
            _quietly(*(each.take_back for each in counters if each.limit.name in hit))
        except Exception as error:
            _settle(counters, error)
            raise
        else:
            _settle(counters, None)
            return result
    return _refuse(full[0])


def _account(body: dict[str, Any]) -> str:
    """Return the e-mail address that a call is about, whether or not there is such an account."""
    if "email" in body:
        return normalise_email(body["email"]) or str(body["email"])
    return str(bearer.user().email)


def _is_full(counter: _Counter) -> bool:
    """Whether a limit is reached, for good.

    Guesses that are still being hashed may be right, as when a class logs in to one account, and
    the first right one makes room. So their verdicts are waited for.
    """
    deadline = time.monotonic() + VERDICTS_WITHIN
    while counter.is_full():
        patient = counter.limit.by is By.ACCOUNT_AND_ADDRESS and counter.awaits_verdicts()
        if not patient or time.monotonic() > deadline:
            return True
        time.sleep(LOOK_AGAIN)
    return False


def _refuse(reached: _Counter) -> None:
    limit = reached.limit
    record("limit_reached", g.get("user_id"), limit=f"{limit.rate}: {limit.things}")
    if not limit.silent:
        raise errors.TooManyRequests(retry_after=reached.seconds_left())


def _settle(counters: list[_Counter], error: Exception | None) -> None:
    """Take back what a call was counted for and was not; `error` is how it ended."""
    if error and is_unavailable(error) and not settings.ratelimit_storage_uri:
        return  # the counters are in the database that is away, and the answer shall not wait twice
    wrong = isinstance(error, errors.InvalidCredentials | errors.WrongPassword)
    fault = error is not None and not (isinstance(error, errors.ApiError) and error.status < 500)
    for counter in counters:
        change = _change(counter, failed=error is not None, wrong=wrong, fault=fault)
        if change and not _quietly(change):
            return


def _change(
    counter: _Counter, *, failed: bool, wrong: bool, fault: bool
) -> Callable[[], None] | None:
    counts, of_address = counter.limit.counts, counter.limit.by is By.ACCOUNT_AND_ADDRESS
    if counts is Counts.SUCCESSES and failed:
        return counter.take_back
    if counts is not Counts.WRONG_PASSWORDS:
        return None
    if wrong:
        return counter.note_verdict if of_address else None
    # The password was right if there is any answer; and that clears the count of its address.
    return counter.clear if of_address and not fault else counter.take_back


def _quietly(*changes: Callable[[], None]) -> bool:
    """Change counts; return whether that was possible. What was done and answered stands anyway."""
    try:
        for change in changes:
            change()
    except Exception as error:
        _log.warning("a count could not be changed: %s", type(error).__name__)
        return False
    return True


def forgive(email: str) -> None:
    """Clear what the caller has guessed at an account, after another proof that it is theirs."""
    if current_app.extensions["limits"] is None:
        return
    limiter, _ = current_app.extensions["limits"]
    g.limited_account = email
    _quietly(*(_Counter(limiter, limit).clear for limit in GUESSES[:1]))
