"""Service keys, which other services send instead of a person's token: their form and scopes."""

import hashlib
import secrets
from enum import StrEnum

KEY_PREFIX = "acsk_"
# Begins the id of a service key, in logs and in events.
KEY = "key:"


class Scope(StrEnum):
    LEARNING_READ = "learning:read"
    LEARNING_WRITE = "learning:write"
    USERS_READ = "users:read"
    USERS_WRITE = "users:write"
    GROUPS_WRITE = "groups:write"
    GROUPS_STAFF = "groups:staff"
    METRICS_READ = "metrics:read"


def new_key() -> str:
    return KEY_PREFIX + secrets.token_urlsafe(32)


def digest(key: str) -> str:
    """Return the SHA-256 of a key, in hex. A random key needs no slow hash (ASVS 5.0, 11.5.1)."""
    return hashlib.sha256(key.encode()).hexdigest()
