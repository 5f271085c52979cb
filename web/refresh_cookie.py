"""The refresh token in a cookie, for pages that must not keep it in JavaScript (RFC 6265bis).

A client asks for it with a header at each call. Pages of other origins can send that header only
after a preflight, so only those of `CORS_ORIGINS` can use a visitor's cookie.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from flask import request
from werkzeug.http import dump_cookie

import errors
from core.reasons import REQUIRED, UNKNOWN, Reason
from extensions import settings
from web.responses import Reply

HEADER = "X-Refresh-Cookie"
ONE_BROWSER_RUN = "session"
WISHES = ("1", ONE_BROWSER_RUN)
_NO_COOKIE = "There is no cookie with a refresh token. Log in."


def check() -> None:
    """Raise InvalidRequest if this request asks for the cookie with another value than we know."""
    if _wish() not in (None, *WISHES):
        raise errors.InvalidRequest(fields={HEADER: [Reason("invalid", "Send 1 or session.")]})


@contextmanager
def received(body: Mapping[str, str]) -> Iterator[str]:
    """Lend the refresh token of the body, or of the cookie, which is cleared if it is refused.

    Raises InvalidRequest if the body lacks it, or has it although the client asks for the cookie;
    and TokenMissing if there is no cookie.
    """
    token, in_cookie = body.get("refresh_token"), _wish() is not None
    if in_cookie == (token is not None):
        raise errors.InvalidRequest(fields={"refreshToken": [UNKNOWN if in_cookie else REQUIRED]})
    try:
        yield _cookie() if token is None else token
    except errors.BAD_TOKEN as error:
        error.headers = _clearing()
        raise


def delivered(tokens: Mapping[str, Any]) -> Reply:
    """Return tokens as the result of a view, with the refresh token in the cookie if asked to."""
    if _wish() is None:
        return Reply(tokens)
    life = None if _wish() == ONE_BROWSER_RUN else tokens["session_expires_in"]
    return Reply({**tokens, "refresh_token": ""}, headers=_set(tokens["refresh_token"], life))


def cleared() -> Reply:
    """Return an empty result of a view, which clears the cookie if asked to."""
    return Reply(None, headers=_clearing())


def _name() -> str:
    # Browsers let only the host itself set the first one, and only over https.
    return "__Host-refresh" if settings.is_https else "refresh"


def _wish() -> str | None:
    return request.headers.get(HEADER)


def _cookie() -> str:
    # `request.cookies` raises UnicodeDecodeError if any cookie of this host is not UTF-8.
    for part in request.headers.get("Cookie", "").split(";"):
        # A plain strip() takes bytes for white space that browsers take for a part of the name: any
        # host of the site can set a cookie called "\xa0__Host-refresh".
        key, _, value = part.strip(" ").partition("=")
        if key == _name() and value:
            return value
    raise errors.TokenMissing(_NO_COOKIE)


def _clearing() -> dict[str, str]:
    return {} if _wish() is None else _set("", 0)


def _set(value: str, max_age: int | None) -> dict[str, str]:
    secure = settings.is_https
    cookie = dump_cookie(
        _name(), value, max_age, path="/", secure=secure, httponly=True, samesite="Strict"
    )
    return {"Set-Cookie": cookie}
