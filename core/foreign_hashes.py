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
from itertools import cycle, islice
from string import ascii_lowercase, ascii_uppercase
from typing import NamedTuple

from cryptography.hazmat.primitives.kdf.argon2 import Argon2d, Argon2i, Argon2id

Derive = Callable[[bytes], bytes]
_MAX_LENGTH = 255  # as in models.py
# How other hashes begin. Nothing else is repeated: it may be a password in a wrong column.
_OTHER = re.compile(
    r"\$(?:1|5|7|y|gy|apr1|md5|sha1|pbkdf2|p5k2|scrypt|P|H|S|B|2x|wp)\$"
    r"|(?i:\{(?:S?MD5|S?SHA(?:1|256|384|512)?|(?:MD5|SHA256|SHA512|BLF|DES)-CRYPT|CRYPT|BCRYPT|SCRYPT"
    r"|ARGON2(?:I|D|ID)?|PBKDF2(?:[-_]SHA(?:1|256|512))?|CLEARTEXT|PLAIN|NOOP)\})"
    r"|(?:unsalted_)?(?:md5|sha1)\$|pbkdf2_sha512\$|crypt\$|pbkdf2:|(?i:scram-sha-(?:1|256|512)\$)"
)
# The alphabet of `crypt`, in place of base64's.
_LETTERS = (ascii_uppercase + ascii_lowercase).encode()
_CRYPT64 = bytes.maketrans(_LETTERS + b"0123456789+/", b"./0123456789" + _LETTERS)
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
            raise NotTaken(f"its form is {begun[0]}, but it is malformed")
    other = _OTHER.match(stored)
    kind = f"the form {other[0]}" if other else "an unknown form"
    raise NotTaken(f"a hash of {kind} is not taken")


def _read(found: re.Match[str], form: _Form) -> ForeignHash | None:
    """Return the hash, None if it is malformed. Raises NotTaken beyond a bound."""
    parts = found.groupdict()
    try:
        salt = parts["salt"].encode() if "salt" in parts else _base64(parts["salt64"])
        if "crypt" in parts:
            digest = parts["crypt"].encode()
        else:
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


def _sha512_crypt(found: re.Match[str], salt: bytes, _size: int) -> Derive | None:
    """SHA-512 crypt, by Ulrich Drepper's specification of 2007; the steps are his."""
    rounds = int(found["rounds"] or 5_000)
    if rounds > 100_000:
        raise NotTaken("its SHA-512 crypt has more than 100,000 rounds")
    if rounds < 1_000 or len(salt) > 16:  # `crypt` takes, and writes, 1,000 and 16 then
        return None

    def derive(password: bytes) -> bytes:
        size = len(password)
        if size > 512:  # Linux takes no longer ones, and each round would hash them all
            return b""
        other = hashlib.sha512(password + salt + password).digest()
        bits = reversed(f"{size:b}".lstrip("0"))
        mixed = b"".join(other if bit == "1" else password for bit in bits)
        digest = hashlib.sha512(password + salt + _repeated(other, size) + mixed).digest()
        p = _repeated(hashlib.sha512(password * size).digest(), size)
        s = _repeated(hashlib.sha512(salt * (16 + digest[0])).digest(), len(salt))
        # What comes before and after the digest in each round; it is the same again after 42.
        sides = []
        for number in range(42):
            middle = s * (number % 3 > 0) + p * (number % 7 > 0)
            sides.append((p + middle, b"") if number % 2 else (b"", middle + p))
        for before, after in islice(cycle(sides), rounds):
            digest = hashlib.sha512(before + digest + after).digest()
        return _crypt64(digest)

    return derive


def _repeated(digest: bytes, size: int) -> bytes:
    return (digest * (size // len(digest) + 1))[:size]


def _crypt64(digest: bytes) -> bytes:
    """Return a digest of SHA-512 as `crypt` writes it: base64 from the end, in its own order."""
    ordered = b"\0\0" + digest[63:]
    for first in reversed(range(21)):
        three = digest[first::21][:3]
        ordered += three[first % 3 :] + three[: first % 3]
    return base64.b64encode(ordered)[:1:-1].translate(_CRYPT64)


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
    "crypt": "[A-Za-z0-9/.]{86}",
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
    # Moodle, and `crypt` of Linux
    _form(r"\$6\$", r"(?:rounds=<rounds>\$)?<salt>\$<crypt>", _sha512_crypt),
    # PHC strings, also inside Django's. Version 16 has no mark.
    _form(
        r"(?:argon2)?\$(?P<kind>argon2(?:id|i|d))\$",
        r"(?:v=<v>\$)?m=<m>,t=<t>,p=<p>\$<salt64>\$<digest>",
        _argon2,
    ),
)
