"""Who is calling, as far as the connection and the headers tell."""

import ipaddress

from flask import request

# Characters; what the column in models.py holds.
USER_AGENT_LENGTH = 255


def address() -> str:
    """Return the client's IP address, or an empty text where it is not known.

    With TRUSTED_PROXIES it comes from a header, so it is checked before it is stored. The zone of
    an IPv6 address is left out: it means nothing elsewhere, and may be any text.
    """
    try:
        found = ipaddress.ip_address((request.remote_addr or "").partition("%")[0])
    except ValueError:
        return ""
    return str(getattr(found, "ipv4_mapped", None) or found)


def user_agent() -> str:
    """Return what the client calls itself, printable and cut to the column's length."""
    sent = request.headers.get("User-Agent", "")[:USER_AGENT_LENGTH]
    return "".join(char for char in sent if char.isprintable())
