"""One codec for every token of the service: JWTs signed with HS256 (RFC 7519).

Each purpose has an audience of its own, so a token of one kind never passes for another. Keys
are found by `kid` only: the newest key signs, the older ones still verify.
"""

import base64
import hashlib
import hmac
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

import jwt
import orjson

from core import clock, ids

ALGORITHM = "HS256"
ISSUER = "accounts"
# Seconds by which the clocks of two machines may differ before `iat` counts as the future.
CLOCK_SKEW = 60
# 9999-12-31T23:59:59Z, the last second that a datetime can hold.
LAST_MOMENT = 253402300799


class Purpose(StrEnum):
    """What a token is for; its `type` claim, and the end of its audience."""

    ACCESS = "access"
    REFRESH = "refresh"
    PASSWORD_RESET = "password_reset"
    EMAIL_VERIFICATION = "email_verification"

    @property
    def audience(self) -> str:
        return f"{ISSUER}:{self.value}"


# What a token of each purpose must say beyond sub, jti, type, iat and exp.
EXTRA_CLAIMS = {
    Purpose.ACCESS: ("sid", "role"),
    Purpose.REFRESH: ("sid",),
    Purpose.PASSWORD_RESET: ("bound",),
    Purpose.EMAIL_VERIFICATION: ("bound",),
}


_TEXTS = {purpose: ("sub", "jti", *extra) for purpose, extra in EXTRA_CLAIMS.items()}
# All that a token of each purpose says.
_CLAIMS = {
    purpose: {"iss", "aud", "type", "sub", "jti", "iat", "exp", *extra}
    for purpose, extra in EXTRA_CLAIMS.items()
}


class TokenInvalid(Exception):
    """The token is not one of ours, not of this purpose, or not whole."""


class TokenExpired(Exception):
    """The token was good once, and its time is over."""


def key_id(key: str) -> str:
    """Return the public name of a key, the `kid` of the tokens that it signed."""
    return hashlib.sha256(b"kid:" + key.encode()).hexdigest()[:12]


def fingerprint(secret: str) -> str:
    """Return a digest that binds a token to a stored value without showing the value."""
    return hashlib.sha256(b"bound:" + secret.encode()).hexdigest()[:32]


class TokenCodec:
    """Signs and reads tokens with a list of keys, newest first."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = {key_id(key): key.encode() for key in keys}
        # The first segment of every token that a key has signed is the same.
        self._by_header = {
            _base64url(orjson.dumps({"alg": ALGORITHM, "kid": kid, "typ": "JWT"})): key
            for kid, key in self._keys.items()
        }
        self._header, self._signing_key = next(iter(self._by_header.items()))

    def encode(
        self,
        purpose: Purpose,
        subject: str,
        *,
        issued_at: datetime,
        expires_at: datetime,
        token_id: str | None = None,
        **extra: str,
    ) -> str:
        """Return a signed token; the same arguments with a `token_id` give the same token."""
        claims = {
            "iss": ISSUER,
            "aud": purpose.audience,
            "type": purpose.value,
            "sub": subject,
            "jti": token_id or ids.new_token_id(),
            "iat": int(issued_at.timestamp()),
            "exp": int(expires_at.timestamp()),
            **extra,
        }
        signed = f"{self._header}.{_base64url(orjson.dumps(claims))}"
        return f"{signed}.{_signature(self._signing_key, signed)}"

    def decode(self, purpose: Purpose, token: str) -> dict[str, Any]:
        """Return the claims of a whole, signed, live token of this purpose.

        Raises TokenExpired for one whose only fault is its age, TokenInvalid for any other fault.
        """
        claims = self._read_own(purpose, token) or self._read_any(purpose, token)
        if claims.get("type") != purpose.value:
            raise TokenInvalid
        for name in _TEXTS[purpose]:
            if not isinstance(claims.get(name), str):
                raise TokenInvalid
        for name in ("sub", "sid"):
            if name in claims and not ids.is_row_id(claims[name]):
                raise TokenInvalid
        for name in ("iat", "exp"):
            if type(claims.get(name)) is not int:
                raise TokenInvalid
        if claims["exp"] > LAST_MOMENT:
            raise TokenInvalid
        now = clock.utcnow().timestamp()
        if claims["iat"] > now + CLOCK_SKEW:
            raise TokenInvalid
        if claims["exp"] <= now:
            raise TokenExpired
        return claims

    def _read_own(self, purpose: Purpose, token: str) -> dict[str, Any] | None:
        """Return the claims of a token that looks just as this codec writes them; else None.

        The short way for what nearly every request brings: PyJWT takes the token apart with much
        care, and for six times as long. Here no part of it is looked into before the signature is
        right, and whatever is unusual is left to PyJWT to judge. One header stands for one key and
        one algorithm, and the signature is compared as text, so it has one spelling only.
        """
        signed, _, signature = token.rpartition(".")
        header, _, payload = signed.partition(".")
        key = self._by_header.get(header)
        if key is None or not token.isascii():
            return None
        if not hmac.compare_digest(_signature(key, signed), signature):
            return None
        try:
            raw = base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
            claims: Any = orjson.loads(raw)
        except ValueError:
            return None
        if _base64url(raw) != payload:  # the decoder passes over what is no base64
            return None
        if (
            isinstance(claims, dict)
            and claims.keys() == _CLAIMS[purpose]
            and claims["iss"] == ISSUER
            and claims["aud"] == purpose.audience
        ):
            return claims
        return None

    def _read_any(self, purpose: Purpose, token: str) -> dict[str, Any]:
        try:
            kid = jwt.get_unverified_header(token)["kid"]
            claims: dict[str, Any] = jwt.decode(
                token,
                self._keys[kid],
                algorithms=[ALGORITHM],
                audience=purpose.audience,
                issuer=ISSUER,
                # The times are compared below, with the clock that tests can move.
                options={"strict_aud": True, "verify_exp": False, "verify_iat": False},
            )
        except (jwt.PyJWTError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise TokenInvalid from error
        return claims


def _signature(key: bytes, signed: str) -> str:
    return _base64url(hmac.digest(key, signed.encode(), "sha256"))


def _base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
