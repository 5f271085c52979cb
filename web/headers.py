"""The headers of every response, and CORS for the allowed origins."""

import functools
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from flask import Flask, Response, redirect, request
from werkzeug.wrappers import Response as BaseResponse

import errors
from config import Settings
from web.bodies import drain
from web.error_handlers import NOT_VALID, render
from web.logs import log_request, request_id

# A response that sets nothing else is data: it must not be stored, framed, sniffed or executed, nor
# be loaded as a picture or a script by a page of another origin.
DEFAULTS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
HSTS = "max-age=31536000"
# The API is also available without its prefix; only `/api` is documented.
WITHOUT_PREFIX = ("/auth/", "/users/", "/groups/", "/activity/", "/learning/", "/service-keys/")
PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, POST, PUT, PATCH, DELETE",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, X-Request-ID, X-Refresh-Cookie",
    "Access-Control-Max-Age": "600",
}


def init_app(app: Flask, settings: Settings) -> None:
    """Add `/api` to paths, drain refused bodies, log requests, set the headers of all responses."""
    fixed = [(name, name.lower(), value) for name, value in defaults(settings).items()]
    inner = app.wsgi_app

    def add_fixed(environ: Any, start_response: Any) -> Any:
        begin, path = time.perf_counter(), environ.get("PATH_INFO", "")
        if "//" in path:  # unknown
            # werkzeug would drop a slash, and a proxy's rule for a path would not hold.
            environ["PATH_INFO"] = f"/-{path}"
        elif f"{path}/".startswith(WITHOUT_PREFIX):
            environ["PATH_INFO"] = f"/api{path}"

        def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            if status >= "4":
                drain(environ)
            log_request(environ, path, status, time.perf_counter() - begin)
            there = {name.lower() for name, _ in headers}
            missing = [(name, value) for name, lower, value in fixed if lower not in there]
            named = ("X-Request-ID", request_id(environ))
            return start_response(status, [*headers, *missing, named], *more)

        return inner(environ, start)

    app.before_request(_refuse_unclear)
    if settings.is_https and settings.trusted_proxies:
        app.before_request(functools.partial(_demand_https, settings.public_url))
    # In WSGI, headers are a plain list; on a Response each one would cost as much as all do here.
    app.wsgi_app = add_fixed  # type: ignore[method-assign]
    if settings.cors_origins:
        app.after_request(functools.partial(_allow, frozenset(settings.cors_origins)))


def can_go_on(environ: Mapping[str, Any]) -> bool:
    """Return whether another request can follow one: it names a host, in a coding that we read."""
    return "HTTP_HOST" in environ and _is_decoded(environ)


def _is_decoded(environ: Mapping[str, Any]) -> bool:
    return str(environ.get("HTTP_TRANSFER_ENCODING", "chunked")).lower() == "chunked"


def _refuse_unclear() -> Response | None:
    """Refuse what gunicorn takes, but HTTP or this service does not."""
    environ = request.environ
    if "HTTP_HOST" not in environ and environ["SERVER_PROTOCOL"] == "HTTP/1.1":
        raise errors.InvalidRequest(NOT_VALID)  # RFC 9112, section 3.2
    if _is_decoded(environ):
        return None
    refusal = render(errors.InvalidRequest(NOT_VALID))
    refusal.status_code = 501  # RFC 9112, section 6.1: gunicorn decodes nothing else
    return refusal


def _demand_https(public_url: str) -> BaseResponse | None:
    """Send browsers from http to https, and refuse what may hold a password."""
    proto = request.headers.get("X-Forwarded-Proto", "").rpartition(",")[2]  # the nearest proxy's
    if proto.strip().lower() != "http" or request.path in ("/healthz", "/readyz"):
        return None
    if request.method not in ("GET", "HEAD"):
        raise errors.Forbidden("Use https.")
    path = quote(request.environ["PATH_INFO"].encode("latin-1"), safe="/:@!$&'()*+,;=~")
    query = request.query_string.decode("latin-1")
    return redirect(f"{public_url}{path}{'?' * bool(query)}{query}", 308)


def defaults(settings: Settings) -> dict[str, str]:
    return DEFAULTS | ({"Strict-Transport-Security": HSTS} if settings.is_https else {})


def _allow(origins: frozenset[str], response: Response) -> Response:
    response.vary.add("Origin")
    origin = request.headers.get("Origin", "")
    # What is for all origins stays so: browsers refuse `*` with credentials.
    if origin.lower() not in origins or "Access-Control-Allow-Origin" in response.headers:
        return response
    response.headers["Access-Control-Allow-Origin"] = origin
    response.headers["Access-Control-Allow-Credentials"] = "true"  # for the refresh cookie
    response.headers["Access-Control-Expose-Headers"] = "X-Request-ID, Retry-After, Link"
    if request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers:
        response.headers.update(PREFLIGHT)
        # Also for unknown URLs: else no page could read the 404 of the call itself.
        if response.status_code == 404:
            response.status_code, response.data = 200, b""
    return response
