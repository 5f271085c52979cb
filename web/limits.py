"""Limits: declared on the view, counted by Flask-Limiter, refused with 429 and Retry-After.

All workers and machines count in one place. A counter's key is an HMAC of the client's network
and of the account's e-mail address, so nobody can tell from the counters who was here.
"""

import hmac
import inspect
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from flask import Flask, current_app, g
from flask_limiter import Limiter, RateLimitExceeded, RequestLimit
from limits import RateLimitItem, parse
from limits.strategies import STRATEGIES, FixedWindowRateLimiter

import errors
from config import Settings
from core import clock
from core.events import record
from extensions import settings
from fieldtypes import normalise_email
from web import bearer, client

View = Callable[..., Any]
# Seconds that a call waits for Redis.
REDIS_WAIT = 1

_log = logging.getLogger("accounts.limits")


class By(Enum):
    """Whose calls are counted together."""

    ADDRESS = "address"
    ACCOUNT = "account"
    ACCOUNT_AND_ADDRESS = "account and address"


@dataclass(frozen=True)
class Limit:
    """So many in so much time, and then a 429; or, if it is `silent`, the answer without the act.

    Views whose limits name the same things have one count for all.
    """

    rate: str  # as the library `limits` reads it
    things: str  # in the words of the documentation
    by: By
    silent: bool = False


# For views that check a password. Each call is counted before the password is hashed, or parallel
# guesses would slip through; what turns out to be no wrong password is taken back.
GUESSES = (
    Limit("10 per 15 minutes", "wrong passwords for an account", By.ACCOUNT_AND_ADDRESS),
    Limit("100 per hour", "wrong passwords for an account from all addresses", By.ACCOUNT),
)
_WRONG = (errors.InvalidCredentials, errors.WrongPassword)


class ReadFirst(FixedWindowRateLimiter):
    """Fixed windows that are looked at before they are counted in.

    To refuse a call costs a read, so a flood of calls does not become a flood of writes.
    """

    def hit(self, item: RateLimitItem, *identifiers: str, cost: int = 1) -> bool:
        free = cost < 0 or self.test(item, *identifiers, cost=cost)
        return free and super().hit(item, *identifiers, cost=cost)


STRATEGIES["read-first"] = ReadFirst


def init_app(app: Flask, settings: Settings, storage_uri: str) -> None:
    """Count the calls of all views that declare limits, in `storage_uri` or where the settings say.

    While a Redis is away, each process counts by itself; logins go on. The database has no such
    stand-in: without it nothing that is limited could work.
    """
    app.extensions["limits"] = None
    if not settings.ratelimit_enabled:
        return
    redis = settings.ratelimit_storage_uri
    patience: dict[str, str | int] = {
        "socket_timeout": REDIS_WAIT,
        "socket_connect_timeout": REDIS_WAIT,
    }
    limiter = Limiter(
        _key(By.ADDRESS),
        strategy="read-first",
        storage_uri=redis or storage_uri,
        storage_options=patience if redis else {},
        in_memory_fallback_enabled=bool(redis),
    )
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
    # Flask-Limiter looks at the innermost first, and at no more once one is reached.
    for limit in limits:
        view = limiter.shared_limit(limit.rate, limit.things, key_func=_key(limit.by))(view)
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


def run(view: View, limits: tuple[Limit, ...], arguments: dict[str, Any]) -> Any:
    """Run a view within its limits, and return what it returns.

    Raises TooManyRequests when one is reached, unless it is silent: then returns None.
    """
    if current_app.extensions["limits"] is None:
        return view(**arguments)
    limiter, counted = current_app.extensions["limits"]
    if any(limit.by is not By.ADDRESS for limit in limits):
        g.limited_account = _account(arguments["body"])
    try:
        result = counted[view](**arguments)
    except RateLimitExceeded:
        _take_back(limiter, right=False)
        reached = limiter.current_limit
        (limit,) = (limit for limit in limits if limit.things == reached.request_args[-1])
        record("limit_reached", g.get("user_id"), limit=f"{limit.rate}: {limit.things}")
        if limit.silent:
            return None
        raise errors.TooManyRequests(retry_after=_seconds_left(reached)) from None
    except _WRONG:
        raise
    except Exception as error:
        # An answer that is given only after the right password; or a fault, and nothing is known.
        _take_back(limiter, right=isinstance(error, errors.ApiError) and error.status < 500)
        raise
    _take_back(limiter, right=True)
    return result


def _account(body: dict[str, Any]) -> str:
    """Return the e-mail address that a call is about, whether or not there is such an account."""
    if "email" in body:
        return normalise_email(body["email"]) or str(body["email"])
    return str(bearer.user().email)


def _take_back(limiter: Limiter, *, right: bool) -> None:
    """Uncount a call that was no wrong password; the right one clears the count of its address."""
    guesses = {limit.things: limit for limit in GUESSES}
    for counted in limiter.current_limits:
        limit = guesses.get(counted.request_args[-1])
        if limit is None or counted.breached:
            continue
        try:
            if right and limit.by is By.ACCOUNT_AND_ADDRESS:
                counted.limiter.clear(counted.limit, *counted.request_args)
            else:
                counted.limiter.hit(counted.limit, *counted.request_args, cost=-1)
        except Exception as error:
            # The answer stands: a login that was written down is not to be told as a failure.
            _log.warning("a count could not be taken back: %s", type(error).__name__)


def forgive(email: str) -> None:
    """Clear what the caller has guessed at an account, after another proof that it is theirs."""
    if current_app.extensions["limits"] is None:
        return
    limiter, _ = current_app.extensions["limits"]
    g.limited_account = email
    for limit in GUESSES:
        if limit.by is By.ACCOUNT_AND_ADDRESS:
            limiter.limiter.clear(parse(limit.rate), _key(limit.by)(), limit.things)


def _seconds_left(reached: RequestLimit) -> int:
    end = reached.limiter.storage.get_expiry(reached.key)
    return max(1, math.ceil(end - clock.utcnow().timestamp()))
