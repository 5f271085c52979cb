"""Which languages and time zones there are, as the libraries that follow the registries say."""

import re
from functools import cache
from importlib import resources
from zoneinfo import ZoneInfo

# Characters; the longest that RFC 5646, section 4.4.1, makes us expect.
MAX_LANGUAGE_LENGTH = 35
_TAG = re.compile(r"[A-Za-z0-9]+(-[A-Za-z0-9]+)*")


def standard_language(tag: str) -> str | None:
    """Return a BCP 47 language tag in its standard form (`en-us` is `en-US`), None for no tag.

    The language and all that follows it must be in the IANA registry (RFC 5646, section 2.2.9).
    """
    if len(tag) > MAX_LANGUAGE_LENGTH or not _TAG.fullmatch(tag):
        return None
    # Its tables take 3 MB of each process and 50 ms of its start; few ever set a language.
    import langcodes  # noqa: PLC0415

    if not langcodes.tag_is_valid(tag):
        return None
    standard = langcodes.standardize_tag(tag)  # which may be longer, or no tag any more
    fits = len(standard) <= MAX_LANGUAGE_LENGTH and langcodes.tag_is_valid(standard)
    return standard if fits else None


@cache
def time_zones() -> frozenset[str]:
    """Return the names of the IANA time zones.

    Names are compared with this list before ZoneInfo sees them, since it reads them as paths.
    """
    listed = (resources.files("tzdata") / "zones").read_text("ascii").split()
    return frozenset(listed) - {"Factory"}  # which says that nobody has chosen one


def time_zone(name: str) -> ZoneInfo:
    """Return a time zone of the list; UTC for one that a later list does not have any more."""
    return ZoneInfo(name if name in time_zones() else "UTC")
