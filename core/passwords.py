"""Password hashes: bcrypt over a SHA-256 HMAC, in the format of Passlib's `bcrypt_sha256`.

Bcrypt itself reads 72 bytes and no more. So what it gets here is the digest of the password,
keyed with the salt: always 44 bytes, without NUL, and of no use as a hash in any other system.
See "Pre-Hashing Passwords with bcrypt" in OWASP's Password Storage Cheat Sheet.
"""

import base64
import hmac
import re
import threading
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import bcrypt

MAX_LENGTH = 128
# No character takes more than four to type, so a longer text cannot shrink to MAX_LENGTH; it is
# refused unread, because normalising long runs of combining marks takes quadratic time.
_MAX_RAW_LENGTH = 4 * MAX_LENGTH
_BCRYPT_BYTES = 72
_DUMMY_SALT = "." * 22

# The last character of a salt carries two bits only, so few characters can stand there. Costs
# above 16 (half a minute on common machines) are no more accepted here than in the settings.
_SALT_AND_DIGEST = r"(?P<salt>[./A-Za-z0-9]{21}[.Oeu])%s(?P<digest>[./A-Za-z0-9]{31})"
_OURS = re.compile(
    r"\$bcrypt-sha256\$v=2,t=2b,r=(?P<cost>[4-9]|1[0-6])\$" + _SALT_AND_DIGEST % r"\$"
)
_PLAIN_BCRYPT = re.compile(r"\$2[aby]\$(?P<cost>0[4-9]|1[0-6])\$" + _SALT_AND_DIGEST % "")


class PasswordTooLong(ValueError):
    """The password has more than MAX_LENGTH characters."""


class HasherBusy(Exception):
    """Too many passwords wait to be hashed."""


class Verdict(NamedTuple):
    """Whether a password matches, and if so, whether to hash it anew and store that."""

    matches: bool
    outdated: bool

    def __bool__(self) -> bool:
        # A tuple is always true: `if hasher.verify(...)` would let everybody in.
        return self.matches


class _Stored(NamedTuple):
    ours: bool
    cost: int
    salt: str
    digest: str


def normalise(raw_password: str) -> str:
    """Return the password in Unicode's form NFKC (NIST SP 800-63B), so that one typed on another
    keyboard is the same.

    Raises PasswordTooLong beyond MAX_LENGTH characters in that form.
    """
    if len(raw_password) > _MAX_RAW_LENGTH:
        raise PasswordTooLong
    password = unicodedata.normalize("NFKC", raw_password)
    if len(password) > MAX_LENGTH:
        raise PasswordTooLong
    return password


class Hasher:
    """Hashes passwords at the cost of 2**rounds, at most `parallel` at once in this process.

    Bcrypt lets other threads run; without the limit, many logins would still take every core
    from all other requests. Up to `waiting` calls wait for their turn. Each holds a thread, so
    one more is refused with HasherBusy, known and unknown accounts alike.
    """

    def __init__(self, rounds: int, parallel: int, waiting: int) -> None:
        self._rounds = rounds
        self._slots = threading.BoundedSemaphore(parallel)
        self._places = threading.BoundedSemaphore(parallel + waiting)

    def hash(self, raw_password: str) -> str:
        """Return `$bcrypt-sha256$v=2,t=2b,r=<cost>$<salt>$<digest>`, with a new salt.

        Raises ValueError for a password that is too long (PasswordTooLong) or not UTF-8.
        """
        password = normalise(raw_password)
        salt = bcrypt.gensalt(self._rounds).decode().rpartition("$")[2]
        key = _prehash(password, salt)
        with self._turn():
            digest = _bcrypt(key, self._rounds, salt)
        return f"$bcrypt-sha256$v=2,t=2b,r={self._rounds}${salt}${digest}"

    def verify(self, raw_password: str, stored: str | None) -> Verdict:
        """Compare a password with a stored hash: ours, or plain bcrypt from another system.

        None stands for an account that does not exist. That, a wrong password, an impossible
        one and an unreadable hash all cost the same and never raise. Only a hash of a higher
        cost than today's takes longer, until its user logs in.
        """
        account = _parse(stored)
        key = _key(raw_password, account)
        with self._turn():
            if account is None or key is None:
                _bcrypt(b"", self._rounds, _DUMMY_SALT)
                return Verdict(matches=False, outdated=False)
            digest = _bcrypt(key, account.cost, account.salt)
            if hmac.compare_digest(digest, account.digest):
                outdated = not account.ours or account.cost != self._rounds
                return Verdict(matches=True, outdated=outdated)
            # 2**c + (2**c + 2**(c+1) + ... + 2**(rounds-1)) = 2**rounds: a wrong password against
            # an old, cheap hash takes as long as an unknown account, and gives nothing away.
            for cost in range(account.cost, self._rounds):
                _bcrypt(key, cost, _DUMMY_SALT)
            return Verdict(matches=False, outdated=False)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        if not self._places.acquire(blocking=False):
            raise HasherBusy
        try:
            with self._slots:
                yield
        finally:
            self._places.release()


def _parse(stored: str | None) -> _Stored | None:
    ours = _OURS.fullmatch(stored or "")
    found = ours or _PLAIN_BCRYPT.fullmatch(stored or "")
    if found is None:
        return None
    return _Stored(ours is not None, int(found["cost"]), found["salt"], found["digest"])


def _key(raw_password: str, account: _Stored | None) -> bytes | None:
    """Return what bcrypt gets for this account, None where nothing can match."""
    try:
        password = normalise(raw_password)
        if account is None:
            return None
        if account.ours:
            return _prehash(password, account.salt)
        # Other systems hashed what was typed. They cut it at 72 bytes without a word, where the
        # library that we use raises ValueError; so it is cut here, or nobody gets in with those.
        return raw_password.encode()[:_BCRYPT_BYTES]
    except ValueError:  # Too long, or half a surrogate pair, which no request can carry in.
        return None


def _prehash(password: str, salt: str) -> bytes:
    return base64.b64encode(hmac.digest(salt.encode(), password.encode(), "sha256"))


def _bcrypt(key: bytes, cost: int, salt: str) -> str:
    return bcrypt.hashpw(key, f"$2b${cost:02}${salt}".encode()).decode()[-31:]
