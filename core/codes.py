"""Codes that a user types to prove that mails to an e-mail address arrive.

A code is made from the change and the address, so it is stored nowhere and proves nothing else.
"""

import hmac
from collections.abc import Iterable

# Crockford's base32, which has no I, L, O and U. Case, hyphens and spaces do not matter.
_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_LENGTH = 8
_AS_MEANT = str.maketrans("OIL", "011", "- ")


def make(secret: str, change_id: str, address: str) -> str:
    """Return the code of a change of the e-mail address, such as `ABCD-EFGH`."""
    text = b"\0".join((b"email-change", change_id.encode(), address.encode()))
    digest = hmac.digest(secret.encode(), text, "sha256")
    bits = int.from_bytes(digest[: _LENGTH * 5 // 8])
    code = "".join(_DIGITS[bits >> 5 * place & 31] for place in reversed(range(_LENGTH)))
    return f"{code[:4]}-{code[4:]}"


def is_right(typed: str, secrets: Iterable[str], change_id: str, address: str) -> bool:
    """Return whether this is the code of a change, made with any of these secrets."""
    read = typed.upper().translate(_AS_MEANT).encode()
    codes = [make(secret, change_id, address).replace("-", "").encode() for secret in secrets]
    return any(hmac.compare_digest(read, code) for code in codes)
