"""Codes that people type, in Crockford's base32: in either case, with O for 0, and I and L for 1.

A code is made from what it is for and stored nowhere, so it proves nothing about anything else.
Only a share code is random: its certificate keeps it.
"""

import hmac
import re
import secrets as random
import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # without I, L, O and U
_AS_MEANT = str.maketrans("OIL", "011")
_CHANGE_DIGITS = 8
_ACCESS_DIGITS = 12
_SHARE_DIGITS = 16


def email_code(secret: str, change_id: str, address: str) -> str:
    """Return the code of a change of the e-mail address, such as `ABCD-EFGH`."""
    digest = _digest(secret, "email-change", change_id, address)
    return shown(int.from_bytes(digest[: _CHANGE_DIGITS * 5 // 8]), _CHANGE_DIGITS)


def is_email_code(typed: str, secrets: Iterable[str], change_id: str, address: str) -> bool:
    """Return whether this is the code of a change, made with any of these secrets."""
    codes = [read(email_code(secret, change_id, address)) for secret in secrets]
    return any(hmac.compare_digest(read(typed), code) for code in codes)


class Access(NamedTuple):
    """What an access code is bound to: it stops working when any of it changes."""

    user_id: str
    password_hash: str
    address: str
    version: int


def make_access_code(secret: str, access: Access, hour: int) -> str:
    """Return a code to choose a password, such as `ABCD-EFGH-JKMN`; `hour` is since 1970."""
    user_id, *others = access
    digest = _digest(secret, "access-code", user_id, f"{hour}", *map(str, others))
    return shown(int.from_bytes(digest[:8]) >> (64 - 5 * _ACCESS_DIGITS), _ACCESS_DIGITS)


def hours_of_access_code(
    typed: str, secrets: Iterable[str], access: Access, hours: range
) -> list[int]:
    """Return in which of these hours the code was made, with any of these secrets; [] for a wrong
    one. Takes the same time for every code and account.
    """
    wanted = read(typed)
    made = ((hour, make_access_code(secret, access, hour)) for secret in secrets for hour in hours)
    return [hour for hour, code in made if hmac.compare_digest(wanted, read(code))]


def new_share_code() -> str:
    """Return a random code of 80 bits for a certificate, as it is stored and stands in a URL."""
    return shown(random.randbits(5 * _SHARE_DIGITS), _SHARE_DIGITS, group=_SHARE_DIGITS)


def read_share_code(typed: str) -> str:
    """Return a share code as it is stored; "" for a text that cannot be one."""
    code = read(typed).decode()
    return code if re.fullmatch(f"[{_DIGITS}]{{{_SHARE_DIGITS}}}", code) else ""


def _digest(secret: str, *parts: str) -> bytes:
    return hmac.digest(secret.encode(), "\0".join(parts).encode(), "sha256")


def shown(bits: int, digits: int, group: int = 4) -> str:
    """Return the last bits of a number as digits, with a hyphen between groups."""
    code = "".join(_DIGITS[bits >> 5 * place & 31] for place in reversed(range(digits)))
    return "-".join(code[start : start + group] for start in range(0, digits, group))


def read(typed: str) -> bytes:
    """Return what a user has typed as it is meant: whatever its case, its width and the script of
    its digits, without what is no letter and no digit.
    """
    text = unicodedata.normalize("NFKC", typed).upper()
    meant = (str(unicodedata.decimal(char, char)) for char in text if char.isalnum())
    return "".join(meant).translate(_AS_MEANT).encode()
