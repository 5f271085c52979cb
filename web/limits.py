"""Limits: declared on the view, counted with the library `limits`, refused with 429.

All workers and machines count in one storage. A counter's key is an HMAC of the client's network
and of the account's e-mail address, so that the counters tell nobody who was here.

A call is counted before the view runs, because parallel calls would slip through otherwise. When
its outcome is not what the limit is about, such as a right password, it is taken back. A count may
be off by one when its window ends in between; nobody can guess more often by that.
"""

import functools
import hmac
import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, cast

from flask import Flask, current_app, g
from limits import parse
from limits.errors import StorageError
from werkzeug.local import LocalProxy

import errors
from config import Settings
from core import clock
from core.events import record
from database import is_unavailable
from extensions import settings
from fieldtypes import normalise_email
from web import bearer, client, counters

View = Callable[..., Any]

_log = logging.getLogger("accounts.limits")
_item = functools.cache(parse)
_limiter = cast("counters.Limiter", LocalProxy(lambda: current_app.extensions["limiter"]))


class By(Enum):
    """Whose calls are counted together."""

    IP = "client IP"
    ACCOUNT = "account"
    ACCOUNT_AND_IP = "account and client IP"


class Counts(Enum):
    """Which calls stay counted."""

    ALL = auto()
    ALSO_INVALID = auto()  # those whose body is refused too
    FAILED_LOGINS = auto()
    SUCCESSES = auto()


@dataclass(frozen=True)
class Limit:
    """How many calls are allowed in how much time. One more is answered with 429; a `silent` limit
    sends the usual response and nothing is done. Views with the same limit share its counts."""

    name: str
    rate: str  # as the library `limits` reads it
    things: str  # in the words of the documentation
    by: By
    counts: Counts = Counts.ALL
    silent: bool = False


# For views that check a password.
_WRONG = "wrong passwords for an account"
_ANYWHERE = f"{_WRONG} from all client IPs"
GUESSES = (
    Limit("guesses", "10 per 15 minutes", _WRONG, By.ACCOUNT_AND_IP, Counts.FAILED_LOGINS),
    Limit("guesses-everywhere", "100 per hour", _ANYWHERE, By.ACCOUNT, Counts.FAILED_LOGINS),
)


class _Counter:
    """The count of one limit for one client or account."""

    def __init__(self, limit: Limit, account: str) -> None:
        whose = [limit.by.value]
        if limit.by is not By.IP:
            whose.append(account)
        if limit.by is not By.ACCOUNT:
            whose.append(client.network())
        text = "\0".join(("limits", *whose)).encode()
        key = hmac.digest(settings.secret_key.encode(), text, "sha256").hex()[:32]
        self.limit, self.item = limit, _item(limit.rate)
        self.calls = self.item, key, limit.name
        # How many of the counted passwords were found to be wrong. The others are being checked.
        self.wrong = self.item, key, f"{limit.name}-judged"

    def has_room(self) -> bool:
        return _limiter.test(*self.calls)

    def hit(self) -> bool:
        return _limiter.hit(*self.calls)

    def take_back(self) -> None:
        _limiter.take_back(*self.calls)

    def clear(self) -> None:
        _limiter.clear(*self.calls)
        _limiter.clear(*self.wrong)

    def seconds_to_wait(self) -> int:
        # A password that is still being checked may be right and make room.
        if self.limit.counts is Counts.FAILED_LOGINS and _limiter.test(*self.wrong):
            return 1
        end = _limiter.storage.get_expiry(self.item.key_for(*self.calls[1:]))
        return max(1, math.ceil(end - clock.utcnow().timestamp()))


def init_app(app: Flask, settings: Settings) -> None:
    """Choose where calls are counted."""
    app.extensions["limiter"] = counters.limiter(settings.ratelimit_storage_uri)


def within(limits: tuple[Limit, ...], view: View) -> View:
    """Return the view with its limits, silent ones last. It raises TooManyRequests when one is
    reached, or returns None when that one is silent."""
    return functools.partial(_run, view, limits)


def count_invalid(limits: tuple[Limit, ...]) -> None:
    """Count a call whose body is refused. Raises TooManyRequests at a limit on such calls."""
    if such := tuple(limit for limit in limits if limit.counts is Counts.ALSO_INVALID):
        within(such, lambda: None)()


def _run(view: View, limits: tuple[Limit, ...], **arguments: Any) -> Any:
    if not settings.ratelimit_enabled:
        return view(**arguments)
    by_account = any(limit.by is not By.IP for limit in limits)
    account = _account(arguments["body"]) if by_account else ""
    counted = [_Counter(limit, account) for limit in limits]
    try:
        full = _count(counted)
        if full and not full.limit.silent:
            raise errors.TooManyRequests(retry_after=full.seconds_to_wait())
    except StorageError as error:
        _log.error("Redis cannot be used, so this call is not limited: %s", error)
        full, counted = None, []
    if full:
        return None
    try:
        result = view(**arguments)
    except Exception as error:
        _settle(counted, error)
        raise
    _settle(counted, None)
    return result


def _account(body: dict[str, Any]) -> str:
    """Return the e-mail address that a call is about, whether or not there is such an account."""
    if "email" in body:
        return normalise_email(body["email"]) or str(body["email"])
    return str(bearer.user().email)


def _count(all_counters: list[_Counter]) -> _Counter | None:
    """Count a call; or return the counter that is full, and count it for no loud limit."""
    # Reads come first, so that a flood of refused calls is not a flood of writes.
    loud = [counter for counter in all_counters if not counter.limit.silent]
    full = next((counter for counter in loud if not counter.has_room()), None)
    if full is None:
        for number, counter in enumerate(all_counters):
            if not counter.hit():
                full = counter
                if not full.limit.silent:  # parallel calls took the last places since the read
                    with _harmless():
                        for each in all_counters[:number]:
                            each.take_back()
                break
    if full:
        limit = full.limit
        record("limit_reached", g.get("user_id"), limit=f"{limit.rate}: {limit.things}")
    return full


def _settle(all_counters: list[_Counter], error: Exception | None) -> None:
    """Change the counts by the outcome of a call; `error` is what the view raised."""
    if error and is_unavailable(error) and not settings.ratelimit_storage_uri:
        return  # The counters are in the same unreachable database; do not time out twice.
    wrong = isinstance(error, errors.InvalidCredentials | errors.WrongPassword)
    fault = error is not None and not (isinstance(error, errors.ApiError) and error.status < 500)
    with _harmless():
        for counter in all_counters:
            counts, by = counter.limit.counts, counter.limit.by
            if counts is Counts.FAILED_LOGINS and wrong:
                _limiter.hit(*counter.wrong)
            elif counts is Counts.FAILED_LOGINS and by is By.ACCOUNT_AND_IP and not fault:
                counter.clear()  # the password was right, whatever the response
            elif counts is Counts.FAILED_LOGINS or (counts is Counts.SUCCESSES and error):
                counter.take_back()


@contextmanager
def _harmless() -> Iterator[None]:
    """Keep a count that cannot be changed from changing the response."""
    try:
        yield
    except Exception as error:
        _log.warning("a count could not be changed: %s", type(error).__name__)


def forgive(email: str) -> None:
    """Clear the caller's failed logins to an account, after another proof that it is theirs."""
    if settings.ratelimit_enabled:
        with _harmless():
            _Counter(GUESSES[0], email).clear()
