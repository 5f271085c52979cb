"""Why somebody cannot log in: words for the API, the pages and the commands."""

from enum import StrEnum


class Hindrance(StrEnum):
    """Why the right password does not log in to an account now."""

    INACTIVE = "inactive"
    UNVERIFIED = "email_unverified"
    NO_PASSWORD = "no_password"
    UNKNOWN_HASH = "unknown_hash"
    LOCKED = "locked"  # by a limit, until its window ends
    FACTOR_LOCKED = "second_factor_locked"  # recovery codes still work


# What lists show: what nobody waits for, and the columns of an account tell.
LASTING = (Hindrance.INACTIVE, Hindrance.UNVERIFIED, Hindrance.NO_PASSWORD)
