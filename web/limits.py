"""Limits: declared on the view, counted with the library `limits`, refused with 429.

A counter's key is an HMAC of the client's network and the account's e-mail address, so that the
counters do not show who called.

A call is counted before the view runs, or parallel calls would slip through. It is taken back when
its outcome does not count, such as a right password. If its window has ended by then, the next
window's count becomes too low by one.
"""

import functools
import hmac
import itertools
import logging
import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from flask import request
from limits import parse
from limits.errors import StorageError
from limits.storage import storage_from_string
from sqlalchemy.exc import DBAPIError

import errors
from config import Settings
from core import audit, clock
from core.addresses import normalise_email
from database import is_unavailable
from extensions import limiter, settings
from web import bearer, caller
from web.counters import DatabaseCounters, Limiter

View = Callable[..., object]

_log = logging.getLogger("accounts.limits")
_item = functools.cache(parse)


class By(Enum):
    """Whose calls are counted together."""

    IP = "client IP"
    ACCOUNT = "account"  # that of the e-mail address in the body, else the caller's
    ACCOUNT_AND_IP = "account and client IP"
    CALLER = "caller"  # a user, or a service key


class Counts(Enum):
    """Which calls stay counted."""

    ALL = auto()
    ALSO_INVALID = auto()  # those whose body is refused too
    FAILED_LOGINS = auto()
    SUCCESSES = auto()
    RIGHT_PASSWORDS = auto()


@dataclass(frozen=True)
class Limit:
    """How many calls are allowed in how much time. The next one gets a 429.

    A view counts what its `silent` limits are about by `allowance`, and when one is reached, it
    gives the usual response and sends nothing.
    """

    name: str
    rate: str  # as the library `limits` reads it
    things: str  # what the documentation says is counted
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


def mails_to_one(kind: str) -> Limit:
    """Return the limit of mails of a kind that one e-mail address gets."""
    words = f"{kind} to an e-mail address"
    return Limit(kind, "3 per hour", words, By.ACCOUNT, Counts.SUCCESSES, silent=True)


RESET_MAILS = mails_to_one("reset mails")


class _Counter:
    """The count of one limit for one client or account."""

    def __init__(self, limit: Limit, account: str) -> None:
        by = limit.by
        account = "" if by is By.IP else bearer.caller_id() if by is By.CALLER else account
        network = caller.network() if by in (By.IP, By.ACCOUNT_AND_IP) else ""
        text = "\0".join(("limits", limit.by.value, account, network)).encode()
        key = hmac.digest(settings.secret_key.encode(), text, "sha256").hex()[:32]
        self.limit, item = limit, _item(limit.rate)
        self.calls = item, key, limit.name
        # How many of the counted passwords turned out wrong; the others are still being checked.
        self.wrong = item, key, f"{limit.name}-judged"

    def clear(self) -> None:
        limiter.clear(*self.calls)
        limiter.clear(*self.wrong)

    def seconds_to_wait(self) -> int:
        # A password that is still being checked may be right and make room.
        if self.limit.counts is Counts.FAILED_LOGINS and limiter.test(*self.wrong):
            return 1
        end = limiter.storage.get_expiry(self.calls[0].key_for(*self.calls[1:]))
        return max(1, math.ceil(end - clock.utcnow().timestamp()))


def make_limiter(settings: Settings) -> Limiter:
    """Return what counts the calls: in Redis, or in the database without a URL."""
    url, waits = settings.ratelimit_storage_uri, {"socket_timeout": 1, "socket_connect_timeout": 1}
    storage = storage_from_string(url, wrap_exceptions=True, **waits) if url else DatabaseCounters()
    return Limiter(storage)


def count_invalid(limits: tuple[Limit, ...]) -> None:
    """Count a call whose body is refused. Raises TooManyRequests at a limit on such calls."""
    if such := tuple(limit for limit in limits if limit.counts is Counts.ALSO_INVALID):
        call_within(such, lambda: None)


def call_within(limits: tuple[Limit, ...], view: View, **arguments: Any) -> object:
    """Call a view with its limits. Raises TooManyRequests at a limit."""
    limits = tuple(limit for limit in limits if not limit.silent)
    of_account = any(limit.by in (By.ACCOUNT, By.ACCOUNT_AND_IP) for limit in limits)
    with _counted(limits, _account(arguments.get("body", {})) if of_account else ""):
        return view(**arguments)


def allowance(limit: Limit, email: str) -> AbstractContextManager[bool]:
    """Count what a view is about to do; lend whether a silent limit allows it."""
    return _counted((limit,), email)


@contextmanager
def _counted(limits: tuple[Limit, ...], account: str) -> Iterator[bool]:
    """Count a call and lend True, then change the counts by its outcome.

    At a silent limit, lend False and count nothing. Raises TooManyRequests at any other limit.
    """
    enabled = settings.ratelimit_enabled and "accounts.unlimited" not in request.environ
    counted = [_Counter(limit, account) for limit in limits] if enabled else []
    try:
        full = _count(counted)
        if full and not full.limit.silent:
            raise errors.TooManyRequests(retry_after=full.seconds_to_wait())
    except StorageError as error:
        _log.error("Redis cannot be used, so this call is not limited: %s", error)
        request.environ["accounts.unlimited"] = True  # do not time out twice in one request
        full, counted = None, []
    if full:
        counted = []
    try:
        yield not full
    except Exception as error:
        _settle(counted, error)
        raise
    _settle(counted, None)


def _account(body: dict[str, Any]) -> str:
    """Return the e-mail address that a call is about, whether or not there is such an account."""
    if "email" in body:
        return normalise_email(body["email"]) or str(body["email"])
    return bearer.user().email


def _count(counters: list[_Counter]) -> _Counter | None:
    """Count a call and return None, or count nothing and return the counter that is full."""
    # Reads come first, so that a flood of refused calls does not become a flood of writes.
    full = next((counter for counter in counters if not limiter.test(*counter.calls)), None)
    if full is None:
        passed = list(itertools.takewhile(lambda counter: limiter.hit(*counter.calls), counters))
        if len(passed) == len(counters):
            return None
        full = counters[len(passed)]
        with _harmless():  # parallel calls took the last places after the read
            for counter in passed:
                limiter.take_back(*counter.calls)
    limit = full.limit
    user_id = request.environ.get("accounts.user_id")
    audit.log("limit_reached", user_id, limit=f"{limit.rate}: {limit.things}")
    return full


def _settle(counters: list[_Counter], error: Exception | None) -> None:
    """Change the counts by the outcome of a call: what the view raised, or None."""
    unreachable = isinstance(error, DBAPIError) and is_unavailable(error)
    if unreachable and not settings.ratelimit_storage_uri:
        return  # the counters are in the same database; do not time out twice
    wrong = isinstance(error, errors.InvalidCredentials | errors.WrongPassword)
    fault = error is not None and not (isinstance(error, errors.ApiError) and error.status < 500)
    with _harmless():
        for counter in counters:
            counts, by = counter.limit.counts, counter.limit.by
            if counts is Counts.FAILED_LOGINS and wrong:
                limiter.hit(*counter.wrong)
            elif counts is Counts.FAILED_LOGINS and by is By.ACCOUNT_AND_IP and not fault:
                counter.clear()  # the password was right, even if the account may not log in
            elif (
                counts is Counts.FAILED_LOGINS
                or (counts is Counts.SUCCESSES and error)
                or (counts is Counts.RIGHT_PASSWORDS and wrong)
            ):
                limiter.take_back(*counter.calls)


@contextmanager
def _harmless() -> Iterator[None]:
    """Log an error while a count is changed, so that it does not change the response."""
    try:
        yield
    except Exception as error:
        _log.warning("a count could not be changed: %s", type(error).__name__)


def forgive(email: str) -> None:
    """Clear the caller's failed logins to an account, after a reset of its password."""
    if settings.ratelimit_enabled:
        with _harmless():
            _Counter(GUESSES[0], email).clear()
