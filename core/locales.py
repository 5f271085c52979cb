"""Language tags and time zones: which are taken, and which language a client gets."""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import resources
from zoneinfo import ZoneInfo

MAX_LANGUAGE_LENGTH = 35  # characters, as RFC 5646, section 4.4.1, recommends
# RFC 5646, section 2.1: language, script, region; variants, extensions and private use.
_TAG = re.compile(
    r"([a-z]{2,3}(?:-[a-z]{3}){0,3})(-[a-z]{4})?(-(?:[a-z]{2}|[0-9]{3}))?"
    r"((?:-(?:[a-z0-9]{5,8}|[0-9][a-z0-9]{3}))*(?:-[a-wyz0-9](?:-[a-z0-9]{2,8})+)*"
    r"(?:-x(?:-[a-z0-9]{1,8})+)?)",
    re.ASCII | re.IGNORECASE,
)


def standard_language(tag: str) -> str | None:
    """Return a BCP 47 language tag in its usual case (`en-US` for `en-us`), None if malformed."""
    found = _TAG.fullmatch(tag) if len(tag) <= MAX_LANGUAGE_LENGTH else None
    if not found:
        return None
    language, script, region, rest = found.groups("")
    return language.lower() + script.title() + region.upper() + rest.lower()


@cache
def time_zones() -> frozenset[str]:
    """Return the names of the IANA time zones; ZoneInfo would use any other name as a path."""
    listed = (resources.files("tzdata") / "zones").read_text("ascii").split()
    return frozenset(listed) - {"Factory"}  # a placeholder for an unset time zone


def time_zone(name: str) -> ZoneInfo:
    """Return a time zone by name; UTC if a newer list does not have it any more."""
    return ZoneInfo(name if name in time_zones() else "UTC")


def ranges(tag: str) -> Iterator[str]:
    """Yield a language tag, then each more general one: `de-AT`, `de` (RFC 4647, section 3.4)."""
    parts = tag.split("-")
    while parts:
        yield "-".join(parts)
        parts.pop()
        if parts and len(parts[-1]) == 1:  # it only introduced the part after it
            parts.pop()


def choose(accepted: Iterable[tuple[str, float]], there: Iterable[str], default: str) -> str:
    """Return the language that a client accepts (RFC 9110, section 12.5.4) most, or the default."""
    wishes = [
        (tag.lower(), quality) for tag, quality in accepted if len(tag) <= MAX_LANGUAGE_LENGTH
    ]
    refused = {tag for tag, quality in wishes if quality == 0}
    offered = {tag.lower(): tag for tag in there if tag.lower() not in refused}
    for wish, quality in sorted(wishes, key=lambda wish: -wish[1]):
        for tag in ranges(default.lower() if wish == "*" else wish):
            if quality and tag in offered:
                return offered[tag]
    return default
