"""The second factor: six digits of an authenticator app, recovery codes, and the seed of both.

The app's key is a part of the seed, so a QR code that was seen does not give away recovery codes.
"""

import base64
import hmac
import secrets
from collections.abc import Iterable
from urllib.parse import quote

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from core import codes

STEP = 30  # seconds that a code is shown
RECOVERY_CODES = 10
SEED, _KEY, _NONCE = 32, 20, 12  # bytes
_INFO = b"accounts second factor v1"


def seal(secret: str, seed: bytes, user_id: str) -> bytes:
    """Return the seed, encrypted for this account with a key that belongs to a SECRET_KEY."""
    nonce = secrets.token_bytes(_NONCE)
    return nonce + _cipher(secret).encrypt(nonce, seed, user_id.encode())


def unseal(secret_keys: Iterable[str], sealed: bytes, user_id: str) -> bytes | None:
    """Return the seed that one of these keys has sealed for this account; None for any other."""
    for secret in secret_keys:
        try:
            return _cipher(secret).decrypt(sealed[:_NONCE], sealed[_NONCE:], user_id.encode())
        except (InvalidTag, ValueError):  # ValueError: cut off
            continue
    return None


def _cipher(secret: str) -> AESGCM:
    return AESGCM(HKDF(SHA256(), length=32, salt=None, info=_INFO).derive(secret.encode()))


def app_key(seed: bytes) -> str:
    """Return the key of an authenticator app, in base32 as people type it."""
    return base64.b32encode(seed[:_KEY]).decode().rstrip("=")


def app_uri(seed: bytes, site: str, email: str) -> str:
    """Return the URI that an authenticator app reads from a QR code (Key Uri Format)."""
    # A colon ends the issuer, also where it is percent-encoded.
    issuer = quote(site.replace(":", " "), safe="")
    return f"otpauth://totp/{issuer}:{quote(email, safe='')}?secret={app_key(seed)}&issuer={issuer}"


def hotp(key: bytes, count: int) -> str:
    """Return the six digits of a counter (RFC 4226, section 5.3)."""
    digest = hmac.digest(key, count.to_bytes(8), "sha1")
    start = digest[-1] & 15
    return f"{(int.from_bytes(digest[start : start + 4]) & 0x7FFFFFFF) % 10**6:06}"


def step_of(typed: str, seed: bytes, seconds: float, *, after: int) -> int | None:
    """Return the time step of these six digits (RFC 6238), None if they are wrong.

    `seconds` since 1970 are now. The steps before and after are accepted too, because clocks
    differ; none up to `after`, the last one used.
    """
    now, found = int(seconds) // STEP, None
    for step in (now - 1, now, now + 1):
        if hmac.compare_digest(hotp(seed[:_KEY], step).encode(), codes.read(typed)):
            found = step if step > after else found
    return found


def has_form_of_digits(typed: str) -> bool:
    """Return whether this looks like six digits of an app, and not like a recovery code."""
    read = codes.read(typed)
    return len(read) == 6 and read.isdigit()


def recovery_codes(seed: bytes, generation: int) -> list[str]:
    """Return the recovery codes, such as `ABCDE-FGHJK`; each generation has others."""
    made = []
    for number in range(RECOVERY_CODES):
        text = f"recovery\0{generation}\0{number}".encode()
        bits = int.from_bytes(hmac.digest(seed, text, "sha256")[:7]) >> 6
        made.append(codes.shown(bits, 10, group=5))
    return made


def recovery_code_of(typed: str, seed: bytes, generation: int) -> int | None:
    """Return the number of this recovery code, from 0; None if it is none."""
    found = None
    for number, code in enumerate(recovery_codes(seed, generation)):
        if hmac.compare_digest(codes.read(code), codes.read(typed)):
            found = number
    return found
