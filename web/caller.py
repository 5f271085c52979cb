"""What the connection and the headers of a request say about its client."""

import functools
import ipaddress
from wsgiref.types import WSGIEnvironment

from flask import request

from core import locales
from extensions import settings, templates
from models import USER_AGENT_LENGTH


def ip_address(environ: WSGIEnvironment | None = None) -> str:
    """Return the client IP of a request, by default the current one; "" if it is not known.

    With TRUSTED_PROXIES it comes from a header, so only a valid IP is returned. A port, which some
    proxies add, is cut off, and so is the zone of an IPv6 address, which may be any text.
    """
    environ = request.environ if environ is None else environ
    return _valid_ip(environ.get("REMOTE_ADDR") or "")


@functools.lru_cache(maxsize=1024)
def _valid_ip(sent: str) -> str:
    sent = sent.partition("%")[0]
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
    """Return what counts as one client: an IPv4 address, or the first 64 bits of an IPv6 address.

    A household or a server gets a /64 (RFC 6177) and may use a new address in it for each call.
    """
    ip = ip_address()
    return str(ipaddress.ip_network((ip, 64), strict=False)) if ":" in ip else ip


def user_agent() -> str:
    """Return the User-Agent header, printable and cut to the column's length."""
    sent = request.headers.get("User-Agent", "")[:USER_AGENT_LENGTH]
    return "".join(char for char in sent if char.isprintable())


def language() -> str:
    """Return the language that the client wants most among those of our templates."""
    return locales.choose(request.accept_languages, templates.languages, settings.default_language)
