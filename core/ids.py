"""Identifiers: random ones for tokens, time-ordered ones for rows."""

import re
import secrets
import uuid

from core import clock

ROW_ID = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
NIL = "00000000-0000-0000-0000-000000000000"


def new_row_id() -> str:
    """Return a UUID version 7 (RFC 9562), ordered by time, so that indexes grow at the end."""
    milliseconds = int(clock.utcnow().timestamp() * 1000)
    value = milliseconds << 80 | secrets.randbits(80)
    value = value & ~(0xF << 76) | 0x7 << 76  # the version
    value = value & ~(0x3 << 62) | 0x2 << 62  # the variant
    return str(uuid.UUID(int=value))


def is_row_id(text: str) -> bool:
    return re.fullmatch(ROW_ID, text) is not None


def parse_uuid(text: str) -> str | None:
    """Return a UUID of any version in lower case; None for anything else."""
    lower = text.lower()
    return lower if is_row_id(lower) else None


def new_token_id() -> str:
    """Return 128 random bits as URL-safe text, for the `jti` claim of a token."""
    return secrets.token_urlsafe(16)
