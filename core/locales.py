"""The language tags and time zones that users can choose."""

import re
from functools import cache
from importlib import resources
from zoneinfo import ZoneInfo

MAX_LANGUAGE_LENGTH = 35  # characters, as RFC 5646, section 4.4.1, recommends
_TAG = re.compile(r"[A-Za-z0-9]+(-[A-Za-z0-9]+)*")


def standard_language(tag: str) -> str | None:
    """Return a BCP 47 language tag in its standard form (`en-US` for `en-us`), None if invalid.

    All parts of the tag must be in the IANA registry (RFC 5646, section 2.2.9).
    """
    if len(tag) > MAX_LANGUAGE_LENGTH or not _TAG.fullmatch(tag):
        return None
    # Imported on first use: it takes 3 MB and 50 ms, and few users set a language.
    import langcodes  # noqa: PLC0415

    if not langcodes.tag_is_valid(tag):
        return None
    standard = langcodes.standardize_tag(tag)  # may be longer, or invalid
    fits = len(standard) <= MAX_LANGUAGE_LENGTH and langcodes.tag_is_valid(standard)
    return standard if fits else None


@cache
def time_zones() -> frozenset[str]:
    """Return the names of the IANA time zones.

    Check a name against this list before passing it to ZoneInfo, which uses names as paths.
    """
    listed = (resources.files("tzdata") / "zones").read_text("ascii").split()
    return frozenset(listed) - {"Factory"}  # a placeholder for an unset time zone


def time_zone(name: str) -> ZoneInfo:
    """Return a time zone by name; UTC if a newer list does not have it any more."""
    return ZoneInfo(name if name in time_zones() else "UTC")
