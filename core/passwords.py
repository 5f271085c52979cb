"""Password hashes: bcrypt over a SHA-256 HMAC, in the format of Passlib's `bcrypt_sha256`.

Those of other software are verified too; foreign_hashes.py has the ones that are not bcrypt.

Bcrypt ignores everything after 72 bytes. So it gets a digest that is keyed with the salt (see
"Pre-Hashing Passwords with bcrypt" in OWASP's Password Storage Cheat Sheet).
"""

import base64
import hashlib
import hmac
import re
import secrets
import threading
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import NamedTuple

import bcrypt

from core import foreign_hashes
from core.foreign_hashes import ForeignHash, NotTaken

MAX_LENGTH = 128
# NFKC shrinks a text to a quarter at most. A longer one is refused before it is normalised,
# because long runs of combining marks take quadratic time.
_MAX_RAW_LENGTH = 4 * MAX_LENGTH
_DUMMY_SALT = "." * 22

# The last character of a salt holds two bits, so only four characters are valid. As in the
# settings, costs above 16 (several seconds for one hash) are refused.
_SALT_AND_DIGEST = r"(?P<salt>[./A-Za-z0-9]{21}[.Oeu])%s(?P<digest>[./A-Za-z0-9]{31})"
_OURS = re.compile(
    r"\$bcrypt-sha256\$v=2,t=2b,r=(?P<cost>[4-9]|1[0-6])\$" + _SALT_AND_DIGEST % r"\$"
)
# Of other systems; Django puts its own name before it.
_PLAIN_BCRYPT = re.compile(
    r"(?P<django>bcrypt\$|bcrypt_sha256\$)?\$2[aby]\$(?P<cost>0[4-9]|1[0-6])\$"
    + _SALT_AND_DIGEST % ""
)
_ANY_BCRYPT = re.compile(r"\$bcrypt-sha256\$|(bcrypt(_sha256)?\$)?\$2[aby]\$")
_MAX_IMPORTED_COST = 14
# How many calls of a process may wait to judge a hash of other software.
FOREIGN_WAITING = 8


def unusable(*, brief: bool = False) -> str:
    """Return a hash that no password matches; a new one each time, because it binds links.

    `brief` marks an account that had a password: a link that is handed over lives for an hour.
    """
    return f"!{'brief-' if brief else ''}{secrets.token_hex(16)}"


def is_brief(stored: str) -> bool:
    return stored.startswith("!brief-")


def is_usable(stored: str) -> bool:
    return not stored.startswith("!")


def is_known(stored: str) -> bool:
    """Return whether this is a hash that `Hasher.verify` reads; others never match."""
    return _read(stored) is not None


def problem_of(stored: str) -> str | None:
    """Return why a hash of other software, or of ours, is not imported; None if it is.

    The text names the form or the bound, and nothing of the hash.
    """
    known = _bcrypt_form(stored)
    if known and (known.re is _OURS or int(known["cost"]) <= _MAX_IMPORTED_COST):
        return None
    if _ANY_BCRYPT.match(stored):
        return f"its bcrypt is malformed, or has no cost from 4 to {_MAX_IMPORTED_COST}"
    try:
        foreign_hashes.read(stored)
    except NotTaken as problem:
        return str(problem)
    return None


class PasswordTooLong(ValueError):
    """The password has more than MAX_LENGTH characters."""


class HasherBusy(Exception):
    """Too many passwords are waiting to be hashed."""


class Verdict(NamedTuple):
    """Whether a password matches, and if so, whether its hash should be replaced."""

    matches: bool
    outdated: bool

    def __bool__(self) -> bool:
        # A tuple is always true: `if hasher.verify(...)` would accept every password.
        return self.matches


def normalise(raw_password: str) -> str:
    """Return the password in Unicode's form NFKC (NIST SP 800-63B). Raises PasswordTooLong."""
    if len(raw_password) > _MAX_RAW_LENGTH:
        raise PasswordTooLong
    password = unicodedata.normalize("NFKC", raw_password)
    if len(password) > MAX_LENGTH:
        raise PasswordTooLong
    return password


class Hasher:
    """Hashes passwords with 2**rounds rounds, at most `parallel` at once to leave CPU to others.

    Up to `waiting` further calls wait, each in its thread; the next one raises HasherBusy. Hashes
    of other software take longer and more memory: one is judged at a time, and fewer wait.
    """

    def __init__(self, rounds: int, parallel: int, waiting: int) -> None:
        self._rounds = rounds
        self._ours = _Queue(parallel, waiting)
        self._foreign = _Queue(1, FOREIGN_WAITING)

    def hash(self, raw_password: str) -> str:
        """Return `$bcrypt-sha256$v=2,t=2b,r=<cost>$<salt>$<digest>`. Raises ValueError."""
        password = normalise(raw_password)
        salt = bcrypt.gensalt(self._rounds).decode().rpartition("$")[2]
        key = _prehash(password, salt)
        with self._ours.turn():
            digest = _bcrypt(key, self._rounds, salt)
        return f"$bcrypt-sha256$v=2,t=2b,r={self._rounds}${salt}${digest}"

    def verify(self, raw_password: str, stored: str | None) -> Verdict:
        """Compare a password with a stored hash: ours, or one of other software.

        An unknown account (None), a wrong or impossible password and an unreadable hash take the
        same time and raise nothing. Only a hash of a higher cost than `rounds`, and one that is not
        bcrypt, take longer.
        """
        account = _read(stored or "")
        key = _key(raw_password, account)
        is_foreign = account is not None and getattr(account, "re", None) is not _OURS
        with self._foreign.turn() if is_foreign else nullcontext(), self._ours.turn():
            if isinstance(account, ForeignHash):
                if key is not None and account.matches(key):
                    return Verdict(matches=True, outdated=_fits(raw_password))
                account = None
            if account is None or key is None:
                _bcrypt(b"", self._rounds, _DUMMY_SALT)
                return Verdict(matches=False, outdated=False)
            stored_cost = int(account["cost"])
            digest = _bcrypt(key, stored_cost, account["salt"])
            if hmac.compare_digest(digest, account["digest"]):
                renewed = account.re is not _OURS or stored_cost != self._rounds
                outdated = renewed and _fits(raw_password)
                return Verdict(matches=True, outdated=outdated)
            # 2**c + (2**c + 2**(c+1) + ... + 2**(rounds-1)) = 2**rounds: a wrong password for an
            # old, cheap hash takes as long as an unknown account, so the time reveals nothing.
            for cost in range(stored_cost, self._rounds):
                _bcrypt(key, cost, _DUMMY_SALT)
            return Verdict(matches=False, outdated=False)


class _Queue:
    """Lets some calls work at once, and some more wait."""

    def __init__(self, at_once: int, waiting: int) -> None:
        self._slots = threading.BoundedSemaphore(at_once)
        self._places = threading.BoundedSemaphore(at_once + waiting)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Work in a slot, after a wait for a free one. Raises HasherBusy if too many wait."""
        if not self._places.acquire(blocking=False):
            raise HasherBusy
        try:
            with self._slots:
                yield
        finally:
            self._places.release()


def _bcrypt_form(stored: str) -> re.Match[str] | None:
    return _OURS.fullmatch(stored) or _PLAIN_BCRYPT.fullmatch(stored)


def _read(stored: str) -> re.Match[str] | ForeignHash | None:
    try:
        return _bcrypt_form(stored) or foreign_hashes.read(stored)
    except NotTaken:
        return None


def _key(raw_password: str, account: re.Match[str] | ForeignHash | None) -> bytes | None:
    """Return what is hashed for this account, None if no password can match.

    Other software took the password as it was typed, of any length.
    """
    try:
        if isinstance(account, ForeignHash):
            return raw_password.encode()
        if account is None or account.re is _OURS:
            password = normalise(raw_password)
            return account and _prehash(password, account["salt"])
        if account["django"] == "bcrypt_sha256$":
            return hashlib.sha256(raw_password.encode()).hexdigest().encode()
        # Other systems silently ignored what follows 72 bytes, where our library raises ValueError.
        return raw_password.encode()[:72]
    except ValueError:  # too long, or a lone surrogate
        return None


def _fits(raw_password: str) -> bool:
    """Return whether our own form can hold this password; the foreign hash stays if not."""
    try:
        normalise(raw_password)
    except PasswordTooLong:
        return False
    return True


def _prehash(password: str, salt: str) -> bytes:
    return base64.b64encode(hmac.digest(salt.encode(), password.encode(), "sha256"))


def _bcrypt(key: bytes, cost: int, salt: str) -> str:
    return bcrypt.hashpw(key, f"$2b${cost:02}${salt}".encode()).decode()[-31:]
