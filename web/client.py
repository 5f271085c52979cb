"""Who is calling, as far as the connection and the headers tell."""

import functools
import ipaddress
from typing import Any

from flask import request

from models import USER_AGENT_LENGTH


def address(environ: dict[str, Any] | None = None) -> str:
    """Return the IP address of a request's client, of this one's by default; "" if not known.

    With TRUSTED_PROXIES it comes from a header, so it is checked before it is stored. The zone of
    an IPv6 address is left out: it means nothing elsewhere, and may be any text. So is the port
    that some proxies add.
    """
    environ = request.environ if environ is None else environ
    return _plain(environ.get("REMOTE_ADDR") or "")


@functools.lru_cache(maxsize=1024)
def _plain(sent: str) -> str:
    sent = sent.partition("%")[0]
    if sent.startswith("["):
        sent = sent[1:].partition("]")[0]
    elif sent.count(":") == 1:
        sent = sent.partition(":")[0]
    try:
        found = ipaddress.ip_address(sent)
    except ValueError:
        return ""
    return str(getattr(found, "ipv4_mapped", None) or found)


def network() -> str:
    """Return what counts as one client: an IPv4 address, or the 64 bits before an IPv6 host's own.

    A household or a server gets those 64 bits (RFC 6177), and may use a new address for each call.
    """
    found = address()
    if ":" in found:
        return str(ipaddress.ip_network((found, 64), strict=False))
    return found


def user_agent() -> str:
    """Return what the client calls itself, printable and cut to the column's length."""
    sent = request.headers.get("User-Agent", "")[:USER_AGENT_LENGTH]
    return "".join(char for char in sent if char.isprintable())
