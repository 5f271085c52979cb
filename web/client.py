"""What the connection and the headers of a request say about its client."""

import functools
import ipaddress
import logging
from typing import Any, cast
from wsgiref.types import WSGIEnvironment

from flask import Flask, request
from werkzeug.datastructures import LanguageAccept
from werkzeug.http import parse_accept_header

from config import Settings
from core import locales
from extensions import settings, templates
from models import USER_AGENT_LENGTH

# Characters of Accept-Language that are parsed; thousands of tags would cost a page 75 ms.
_LANGUAGES_LENGTH = 1024
_log = logging.getLogger("accounts")


def init_app(app: Flask, settings: Settings) -> None:
    """Find the client IP of each request before anything else is done with it.

    With TRUSTED_PROXIES it is in X-Forwarded-For, counted from the right, because the client sent
    what is on the left. What is no IP there is an unknown client, and not the proxy.
    """
    inner, proxies, warned = app.wsgi_app, settings.trusted_proxies, False

    def identify(environ: WSGIEnvironment, start_response: Any) -> Any:
        nonlocal warned
        sent, forwarded = environ.get("REMOTE_ADDR"), environ.get("HTTP_X_FORWARDED_FOR")
        if forwarded is not None and proxies:
            values = forwarded.rsplit(",", proxies)
            sent = values[-proxies] if len(values) >= proxies else ""
        elif forwarded is not None and not warned:
            warned = True
            _log.warning(
                "A request has X-Forwarded-For and TRUSTED_PROXIES is 0: "
                "if it came through a proxy, all its clients count as one."
            )
        environ["accounts.ip"] = _valid_ip(sent or "")
        return inner(environ, start_response)

    app.wsgi_app = identify  # type: ignore[method-assign]


def ip_address(environ: WSGIEnvironment | None = None) -> str:
    """Return the client IP of a request, by default the current one; "" if it is not known."""
    return cast("str", (request.environ if environ is None else environ)["accounts.ip"])


@functools.lru_cache(maxsize=1024)
def _valid_ip(sent: str) -> str:
    """Return an IP in its plain form, without a port (some proxies add one); "" for other texts."""
    sent = sent.strip().partition("%")[0]  # without the zone of an IPv6 address, which is any text
    if sent.startswith("["):
        sent = sent[1:].partition("]")[0]
    elif sent.count(":") == 1:
        sent = sent.partition(":")[0]
    try:
        ip = ipaddress.ip_address(sent)
    except ValueError:
        return ""
    return str(getattr(ip, "ipv4_mapped", None) or ip)


def network() -> str:
    """Return what counts as one client: an IPv4 address, or a /64, as households get (RFC 6177)."""
    ip = ip_address()
    return str(ipaddress.ip_network((ip, 64), strict=False)) if ":" in ip else ip


def user_agent() -> str:
    """Return the User-Agent header, printable and cut to the column's length."""
    sent = request.headers.get("User-Agent", "")[:USER_AGENT_LENGTH]
    return "".join(char for char in sent if char.isprintable())


def language() -> str:
    """Return the language that the client wants most among those of our templates."""
    sent = request.headers.get("Accept-Language", "")[:_LANGUAGES_LENGTH]
    accepted = parse_accept_header(sent, LanguageAccept)
    return locales.choose(accepted, templates.languages, settings.default_language)
