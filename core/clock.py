"""The current time, read here only so that tests can set it, and RFC 3339."""

import re
from datetime import UTC, datetime

# RFC 3339, section 5.6, letters in either case. Python's own parser accepts more formats.
_RFC3339 = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt]((?:[01]\d|2[0-3]):[0-5]\d):(\d\d)(?:\.\d+)?"
    r"([Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)",
    re.A,
)


def utcnow() -> datetime:
    """Return the current time as an aware datetime in UTC."""
    return datetime.now(UTC)


def rfc3339(moment: datetime) -> str:
    """Return an aware datetime as RFC 3339 in UTC, to the second: `2026-11-20T09:31:00Z`."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def parse_rfc3339(text: str) -> datetime:
    """Return an RFC 3339 time as a datetime in UTC, truncated to the second. Raises ValueError."""
    found = _RFC3339.fullmatch(text)
    if found is None:
        raise ValueError("not an RFC 3339 time with an offset")
    date, minute, second, offset = found.groups()
    second = "59" if second == "60" else second  # a leap second
    local = datetime.fromisoformat(f"{date}T{minute}:{second}{offset.upper()}")
    try:
        return local.astimezone(UTC)
    except OverflowError:
        raise ValueError("outside the years 1 to 9999") from None
