"""Password hashes: plain bcrypt, which most other software reads too.

Bcrypt ignores what follows 72 bytes, of which the last is a NUL unless the password fills them, and
repeats what is shorter. So a password with more than 71 bytes or with a NUL is hashed first, in the
format of Passlib's `bcrypt_sha256`: a digest that is keyed with the salt (see "Pre-Hashing
Passwords with bcrypt" in OWASP's Password Storage Cheat Sheet).

Hashes of other software are verified too; foreign_hashes.py has those that are not bcrypt.
"""

import base64
import hashlib
import hmac
import re
import secrets
import threading
import unicodedata
from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from itertools import count
from operator import itemgetter
from queue import Empty, SimpleQueue
from typing import NamedTuple

import bcrypt

from core import foreign_hashes, turns
from core.foreign_hashes import ForeignHash, NotTaken

MAX_LENGTH = 128
# NFKC shrinks a text to a quarter at most. A longer one is refused before it is normalised,
# because long runs of combining marks take quadratic time.
_MAX_RAW_LENGTH = 4 * MAX_LENGTH
_DUMMY_SALT = "." * 22
_MAX_PLAIN_BYTES = 71

# The last character of a salt holds two bits, so only four characters are valid. As in the
# settings, costs above 16 (several seconds for one hash) are refused.
_SALT_AND_DIGEST = r"(?P<salt>[./A-Za-z0-9]{21}[.Oeu])%s(?P<digest>[./A-Za-z0-9]{31})"
_LONG = re.compile(
    r"(?P<form>\$bcrypt-sha256\$v=2,t=2b,r=)(?P<cost>[4-9]|1[0-6])\$" + _SALT_AND_DIGEST % r"\$"
)
# Django and WordPress put their own names before it.
_BCRYPT = re.compile(
    r"(?P<form>|bcrypt\$|bcrypt_sha256\$|\$wp)\$2[aby]\$(?P<cost>0[4-9]|1[0-6])\$"
    + _SALT_AND_DIGEST % ""
)
_PLAIN = ("", "bcrypt$")
# Others hash the password as it was typed before bcrypt does.
_PREHASHES: dict[str, Callable[[str], bytes]] = {
    "bcrypt_sha256$": lambda typed: hashlib.sha256(typed.encode()).hexdigest().encode(),
    "$wp": lambda typed: base64.b64encode(
        hmac.digest(b"wp-sha384", typed.strip(" \t\n\r\0\v").encode(), "sha384")
    ),
}
_ANY_BCRYPT = re.compile(r"\$bcrypt-sha256\$|(bcrypt(_sha256)?\$|\$wp)?\$2[aby]\$")
_MAX_IMPORTED_COST = 14
# How many calls of a process may wait to judge a hash that takes longer than our own.
FOREIGN_WAITING = 31
# Seconds that a call waits at most: proxies give up after 60.
LONGEST_WAIT = 45
# How many names a process counts the tries of, before it begins anew.
_NAMES_COUNTED = 10_000


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
    if known and (known.re is _LONG or int(known["cost"]) <= _MAX_IMPORTED_COST):
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
    password = _nfkc(raw_password)
    if len(password) > MAX_LENGTH:
        raise PasswordTooLong
    return password


class Hasher:
    """Hashes passwords with 2**rounds rounds, at most `parallel` at once to leave CPU to others.

    Up to `waiting` further calls wait, each in its thread; beyond that, one raises HasherBusy.
    Hashes of a higher cost and those that are not bcrypt take longer, some with much memory: one of
    them is judged at a time, and fewer wait.
    """

    def __init__(self, rounds: int, parallel: int, waiting: int) -> None:
        self._rounds = rounds
        self._ours = _Queue(parallel, waiting)
        self._foreign = _Queue(1, FOREIGN_WAITING)
        # By name, the tries that are under way or were wrong since the last right one.
        self._tries: Counter[str] = Counter()
        self._counting = threading.Lock()

    def hash(self, raw_password: str) -> str:
        """Return the hash of a new password, in one of our two forms. Raises ValueError."""
        password = normalise(raw_password)
        start, salt = self._start(password), bcrypt.gensalt(self._rounds).decode()[-22:]
        is_plain = start.startswith("$2b$")
        key = password.encode() if is_plain else _prehash(password, salt)
        with turns.waiting(), self._ours.turn():
            digest = _bcrypt(key, self._rounds, salt)
        return f"{start}{salt}{'' if is_plain else '$'}{digest}"

    def verify(self, raw_password: str, stored: str | None, name: str = "") -> Verdict:
        """Compare a password with a stored hash: ours, or one of other software.

        An unknown account (None), a wrong or impossible password and an unreadable hash take the
        same time and raise nothing: that of one hash, or of two if NFKC changes the password. Only
        a hash of a higher cost than `rounds`, and one that is not bcrypt, take longer.

        `name` is what the account was called. Those with fewer wrong passwords go first, and if too
        many wait, the one with the most gets HasherBusy: a flood of wrong passwords for some names
        keeps nobody with another name out, from however many clients it comes.
        """
        behind = self._count(name, 1)
        account = _read(stored or "")
        queue = self._foreign.turn(behind) if self._is_dear(account) else nullcontext()
        try:
            with turns.waiting(), queue, self._ours.turn(behind):
                place = self._match(raw_password, account)
        except HasherBusy:
            self._count(name, -1)
            raise
        if place is None:
            if len(self._tries) > _NAMES_COUNTED:
                self._tries.clear()
            return Verdict(matches=False, outdated=False)
        del self._tries[name]
        return Verdict(matches=True, outdated=self._is_outdated(raw_password, stored or "", place))

    def _count(self, name: str, more: int) -> int:
        """Change how many tries a name has; return how many it had."""
        with self._counting:
            before = self._tries[name]
            self._tries[name] = max(0, before + more)
        return before

    def _is_dear(self, account: re.Match[str] | ForeignHash | None) -> bool:
        if account is None or isinstance(account, ForeignHash):
            return account is not None
        return account["form"] in _PREHASHES or int(account["cost"]) > self._rounds

    def _match(self, raw_password: str, account: re.Match[str] | ForeignHash | None) -> int | None:
        """Return which of the `_keys` matches, None if none does."""
        if isinstance(account, ForeignHash):
            with suppress(UnicodeEncodeError):
                if account.matches(raw_password.encode()):
                    return 0
            account = None
        for place, key in enumerate(_keys(raw_password, account)):
            if account is None or key is None:
                _bcrypt(b"", self._rounds, _DUMMY_SALT)
                continue
            stored_cost = int(account["cost"])
            digest = _bcrypt(key, stored_cost, account["salt"])
            if hmac.compare_digest(digest, account["digest"]):
                return place
            # 2**c + (2**c + 2**(c+1) + ... + 2**(rounds-1)) = 2**rounds: a wrong password for an
            # old, cheap hash takes as long as an unknown account, so the time reveals nothing.
            for cost in range(stored_cost, self._rounds):
                _bcrypt(key, cost, _DUMMY_SALT)
        return None

    def _is_outdated(self, raw_password: str, stored: str, place: int) -> bool:
        """Return whether another hash than this would be stored for a password that matches."""
        try:
            start = self._start(normalise(raw_password))
        except PasswordTooLong:
            return False  # our own forms cannot hold it, so the foreign hash stays
        return place > 0 or not stored.startswith(start)

    def _start(self, password: str) -> str:
        """Return what comes before the salt in the hash of a new password."""
        key = password.encode()
        if len(key) <= _MAX_PLAIN_BYTES and 0 not in key:
            return f"$2b${self._rounds:02}$"
        return f"$bcrypt-sha256$v=2,t=2b,r={self._rounds}$"


class _Queue:
    """Lets some calls work at once, and some more wait.

    Those who are less far behind go first, and in every second turn who has waited longest: or a
    wrong guess at a name would let everybody pass its user, for as long as others come.
    """

    def __init__(self, at_once: int, waiting: int) -> None:
        self._free, self._waiting = at_once, waiting
        self._line: list[tuple[int, int, SimpleQueue[bool]]] = []
        self._numbers, self._turns, self._lock = count(), count(), threading.Lock()

    @contextmanager
    def turn(self, behind: int = 0) -> Iterator[None]:
        """Work in a slot, after a wait for a free one.

        Raises HasherBusy, also during the wait, if too many wait and nobody is further behind, and
        after LONGEST_WAIT.
        """
        is_my_turn: SimpleQueue[bool] = SimpleQueue()
        with self._lock:
            place = (behind, next(self._numbers), is_my_turn)
            insort(self._line, place)
            self._call()
            if len(self._line) > self._waiting:
                self._line.pop()[-1].put(False)
        try:
            is_called = is_my_turn.get(timeout=LONGEST_WAIT)
        except Empty:
            with self._lock:
                if place in self._line:
                    self._line.remove(place)
                    raise HasherBusy from None
            is_called = is_my_turn.get()  # called, or refused, just now
        if not is_called:
            raise HasherBusy
        try:
            yield
        finally:
            with self._lock:
                self._free += 1
                self._call()

    def _call(self) -> None:
        """Give a free slot to one who waits."""
        if self._free and self._line:
            self._free -= 1
            is_by_time = next(self._turns) % 2
            chosen = min(self._line, key=itemgetter(1)) if is_by_time else self._line[0]
            self._line.remove(chosen)
            chosen[-1].put(True)


def _bcrypt_form(stored: str) -> re.Match[str] | None:
    return _LONG.fullmatch(stored) or _BCRYPT.fullmatch(stored)


def _read(stored: str) -> re.Match[str] | ForeignHash | None:
    try:
        return _bcrypt_form(stored) or foreign_hashes.read(stored)
    except NotTaken:
        return None


def _nfkc(raw_password: str) -> str:
    is_far_too_long = len(raw_password) > _MAX_RAW_LENGTH
    return raw_password if is_far_too_long else unicodedata.normalize("NFKC", raw_password)


def _keys(raw_password: str, account: re.Match[str] | None) -> list[bytes | None]:
    """Return what is hashed to judge a password; None is for a hash that cannot match.

    How many they are depends on the password alone. Other software took it as it was typed.
    """
    password = _nfkc(raw_password)
    keys: list[bytes | None] = [None] * (1 if password == raw_password else 2)
    with suppress(UnicodeEncodeError):  # a lone surrogate
        if account is None:
            pass
        elif account["form"] in _PLAIN:
            # Bcrypt takes "a", a NUL and "a" for "a". Other software cut off what follows 72 bytes,
            # where our library raises ValueError.
            if "\0" not in raw_password:
                texts = dict.fromkeys((password, raw_password))
                keys = [text.encode()[:72] for text in texts]
        elif prehash := _PREHASHES.get(account["form"]):
            keys[0] = prehash(raw_password)
        else:
            keys[0] = _prehash(password, account["salt"])
    return keys


def _prehash(password: str, salt: str) -> bytes:
    return base64.b64encode(hmac.digest(salt.encode(), password.encode(), "sha256"))


def _bcrypt(key: bytes, cost: int, salt: str) -> str:
    return bcrypt.hashpw(key, f"$2b${cost:02}${salt}".encode()).decode()[-31:]
