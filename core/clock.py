"""The one door through which time comes in, so that tests can move it."""

from datetime import UTC, datetime


def utcnow() -> datetime:
    """Return the current time, aware, in UTC."""
    return datetime.now(UTC)


def rfc3339(moment: datetime) -> str:
    """Return an aware moment as RFC 3339 in UTC, to the second: `2026-11-20T09:31:00Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
