"""Identifiers: random ones for tokens, time-ordered ones for rows."""

import re
import secrets
import uuid

from core import clock

ROW_ID = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
NIL = "00000000-0000-0000-0000-000000000000"


def new_row_id() -> str:
    """Return a UUID version 7 (RFC 9562), ordered by time, so that indexes grow at the end."""
    milliseconds, microseconds = divmod(int(clock.utcnow().timestamp() * 1_000_000), 1000)
    # The parts of a millisecond keep the events of one act in their order (section 6.2, method 3).
    high = milliseconds << 16 | 0x7 << 12 | microseconds * 4096 // 1000  # 7 is the version
    return str(uuid.UUID(int=high << 64 | 0x2 << 62 | secrets.randbits(62)))  # 2 is the variant


def is_row_id(text: str) -> bool:
    return re.fullmatch(ROW_ID, text) is not None


def parse_uuid(text: str) -> str | None:
    """Return a UUID of any version in lower case; None for anything else."""
    lower = text.lower()
    return lower if is_row_id(lower) else None


def new_token_id() -> str:
    """Return 128 random bits as URL-safe text, for the `jti` claim of a token."""
    return secrets.token_urlsafe(16)
