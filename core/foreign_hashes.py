"""Password hashes of other software: their forms, their bounds, and how a password is compared.

All forms of bcrypt are in passwords.py. The bounds keep a login near a second and 128 MiB.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from cryptography.hazmat.primitives.kdf.argon2 import Argon2d, Argon2i, Argon2id

Derive = Callable[[bytes], bytes]
_MAX_LENGTH = 255  # as in models.py
# How other hashes begin. Nothing else is repeated: it may be a password in a wrong column.
_OTHER = re.compile(
    r"\$(?:1|5|6|7|y|gy|apr1|sha1|pbkdf2|P|H|S|2x)\$|\{(?:S?SHA|S?MD5|S?SHA(?:256|384|512)|CRYPT)\}"
    r"|(?:unsalted_)?(?:md5|sha1)\$|crypt\$|pbkdf2:"
)
_ARGON2: dict[str, type[Argon2id] | type[Argon2i] | type[Argon2d]] = {
    "argon2id": Argon2id,
    "argon2i": Argon2i,
    "argon2d": Argon2d,
}


class NotTaken(ValueError):
    """No login can verify this hash; the text says why and holds nothing of the hash."""


class ForeignHash(NamedTuple):
    """The digest of a stored hash, and the function that makes the like of a password."""

    digest: bytes
    derive: Derive

    def matches(self, password: bytes) -> bool:
        return hmac.compare_digest(self.derive(password), self.digest)


class _Form(NamedTuple):
    name: re.Pattern[str]  # what a hash of this form begins with
    whole: re.Pattern[str]
    derivation: Callable[[re.Match[str], bytes, int], Derive | None]


def read(stored: str) -> ForeignHash:
    """Return a hash of one of our `_FORMS`, within the bounds. Raises NotTaken."""
    if len(stored) > _MAX_LENGTH:
        raise NotTaken(f"it has more than {_MAX_LENGTH} characters")
    for form in _FORMS:
        if begun := form.name.match(stored):
            found = form.whole.fullmatch(stored)
            if foreign := found and _read(found, form):
                return foreign
            raise NotTaken(f"its form is {begun[0].strip('$:')}, but it is malformed")
    other = _OTHER.match(stored)
    kind = f"the form {other[0]}" if other else "an unknown form"
    raise NotTaken(f"a hash of {kind} is not taken")


def _read(found: re.Match[str], form: _Form) -> ForeignHash | None:
    """Return the hash, None if it is malformed. Raises NotTaken beyond a bound."""
    parts = found.groupdict()
    try:
        salt = parts["salt"].encode() if "salt" in parts else _base64(parts["salt64"])
        digest = bytes.fromhex(parts["hex"]) if "hex" in parts else _base64(parts["digest"])
    except binascii.Error:
        return None
    derive = form.derivation(found, salt, len(digest))
    return derive and ForeignHash(digest, derive)


def _pbkdf2(found: re.Match[str], salt: bytes, size: int) -> Derive | None:
    rounds = int(found["rounds"])
    if rounds > 2_000_000:
        raise NotTaken("its PBKDF2 has more than 2,000,000 rounds")
    # A digest that is longer than the hash function's would take the rounds several times.
    if size != hashlib.new(found["hash"]).digest_size:
        return None
    return partial(hashlib.pbkdf2_hmac, found["hash"], salt=salt, iterations=rounds)


def _scrypt(found: re.Match[str], salt: bytes, size: int) -> Derive | None:
    n, r, p = (int(found[name]) for name in "nrp")
    if n * r * p > 2**20:
        raise NotTaken("its scrypt has an N·r·p above 2^20")
    if 128 * n * r > 64 * 2**20:
        raise NotTaken("its scrypt takes more than 64 MiB")
    if r * p > 2**13:  # with a small N, the time goes into PBKDF2 over 128·r·p bytes
        raise NotTaken("its scrypt has an r·p above 8,192")
    # OpenSSL refuses other numbers (RFC 7914, section 2).
    if n < 2 or n & (n - 1) or n >= 2 ** (16 * r) or size != 64:
        return None

    def derive(password: bytes) -> bytes:
        memory = 128 * r * (n + p + 2)  # as OpenSSL counts; without it the bound is 32 MiB
        return hashlib.scrypt(password, salt=salt, n=n, r=r, p=p, maxmem=memory, dklen=size)

    return derive


def _argon2(found: re.Match[str], salt: bytes, size: int) -> Derive | None:
    kib, passes, lanes = (int(found[name]) for name in "mtp")
    if found["v"] != "19":
        raise NotTaken("its Argon2 is not of version 19")
    if kib > 128 * 2**10:
        raise NotTaken("its Argon2 takes more than 128 MiB")
    if kib * passes > 2**20:
        raise NotTaken("its Argon2 takes more than 1 GiB in all its passes")
    if lanes > 16:
        raise NotTaken("its Argon2 has more than 16 lanes")
    if passes * lanes > 2**11:  # with little memory, the time goes into starting threads
        raise NotTaken("its Argon2 has a t·p above 2,048")
    # The sizes of the PHC string format; and RFC 9106 wants 8 KiB for a lane.
    if not 8 <= len(salt) <= 48 or not 12 <= size <= 64 or kib < 8 * lanes:
        return None

    def derive(password: bytes) -> bytes:
        kind = _ARGON2[found["kind"]]
        return kind(salt=salt, length=size, iterations=passes, lanes=lanes, memory_cost=kib).derive(
            password
        )

    return derive


def _base64(text: str) -> bytes:
    """Decode base64 with or without its padding, and with Passlib's `.` instead of `+`."""
    text = text.rstrip("=").replace(".", "+")
    return base64.b64decode(text + "=" * (-len(text) % 4))


def _form(
    name: str, rest: str, derivation: Callable[[re.Match[str], bytes, int], Derive | None]
) -> _Form:
    """Return a form; `<part>` in `rest` is a number unless `_PARTS` has another pattern for it."""

    def group(part: re.Match[str]) -> str:
        return f"(?P<{part[1]}>{_PARTS.get(part[1], '[1-9][0-9]{0,9}')})"

    return _Form(re.compile(name), re.compile(name + re.sub(r"<(\w+)>", group, rest)), derivation)


_PARTS = {
    "salt": "[!-#%-~]+",
    "salt64": "[A-Za-z0-9+/.]+",
    "digest": "[A-Za-z0-9+/.]+={0,2}",
    "hex": "(?:[0-9a-f]{2})+",
}
_FORMS = (
    # Django
    _form(r"pbkdf2_(?P<hash>sha256|sha1)\$", r"<rounds>\$<salt>\$<digest>", _pbkdf2),
    _form(r"scrypt\$", r"<n>\$<salt>\$<r>\$<p>\$<digest>", _scrypt),
    # Werkzeug
    _form(r"pbkdf2:(?P<hash>sha256|sha512|sha1):", r"<rounds>\$<salt>\$<hex>", _pbkdf2),
    _form(r"scrypt:", r"<n>:<r>:<p>\$<salt>\$<hex>", _scrypt),
    # Passlib
    _form(r"\$pbkdf2-(?P<hash>sha256|sha512)\$", r"<rounds>\$<salt64>\$<digest>", _pbkdf2),
    # PHC strings, also inside Django's. Version 16 has no mark.
    _form(
        r"(?:argon2)?\$(?P<kind>argon2(?:id|i|d))\$",
        r"(?:v=<v>\$)?m=<m>,t=<t>,p=<p>\$<salt64>\$<digest>",
        _argon2,
    ),
)
