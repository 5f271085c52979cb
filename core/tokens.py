"""Signs and verifies access and refresh tokens: JWTs (RFC 7519, RFC 8725).

Each purpose has its own audience, so a token for one purpose is never valid for another. Keys
are found by `kid` only: the newest key signs, the older ones still verify. Access tokens are signed
with HS256 or, for services that verify them on their own, ES256; refresh tokens with HS256.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import jwt
import orjson

from core import clock, ids, signing_keys

ISSUER = "accounts"
# Seconds by which the clocks of two machines may differ before `iat` counts as the future.
CLOCK_SKEW = 60
# Verified tokens that a process remembers, about 2 KB each.
REMEMBERED = 2048
# They choose a key (RFC 8725, section 3.10) or ask for an extension (RFC 7515, section 4.1.11).
_REFUSED_HEADERS = {"jwk", "jku", "x5u", "x5c", "crit"}
LAST_MOMENT = 253402300799  # 9999-12-31T23:59:59Z, the last second that a datetime can hold
# `jwt.encode` would sign ES256 with a random number.
_SIGNER = jwt.PyJWS(["HS256"])
_SIGNER.register_algorithm("ES256", signing_keys.DeterministicES256())


class Purpose(StrEnum):
    """What a token is for; its `type` claim, and with the issuer its audience."""

    ACCESS = "access"
    REFRESH = "refresh"


# Required claims besides sub, jti and type: texts, and times in seconds.
EXTRA_CLAIMS = {Purpose.ACCESS: ("sid", "role"), Purpose.REFRESH: ("sid",)}
TIMES = {Purpose.ACCESS: ("iat", "exp"), Purpose.REFRESH: ("iat", "exp", "auth_time")}


@dataclass(frozen=True)
class _Key:
    algorithm: str
    kid: str
    signs: Any
    verifies: Any


class TokenInvalid(Exception):
    """The token is malformed, not signed by us, or not for this purpose."""


class TokenExpired(Exception):
    """The token was valid and has expired."""


def key_id(key: str) -> str:
    """Return the `kid` of the tokens that a key signs."""
    return hashlib.sha256(b"kid:" + key.encode()).hexdigest()[:12]


class TokenCodec:
    """Signs and verifies tokens with a list of secrets, newest first."""

    def __init__(self, secrets: Sequence[str], algorithm: str = "HS256") -> None:
        secrets = tuple(dict.fromkeys(secrets))  # one that is listed twice is published once
        pairs = [(key, signing_keys.public_jwk(key)) for key in map(signing_keys.derive, secrets)]
        shared = [_Key("HS256", key_id(text), text.encode(), text.encode()) for text in secrets]
        public = [_Key("ES256", jwk["kid"], key, key.public_key()) for key, jwk in pairs]
        self._keys = {key.kid: key for key in (*shared, *public)}
        self._newest, self._algorithm = shared[0], algorithm
        self._newest_access = public[0] if algorithm == "ES256" else shared[0]
        # The public keys of access tokens (RFC 7517).
        self.jwks = {"keys": [jwk for _, jwk in pairs]} if algorithm == "ES256" else None
        # All tokens of a key have the same header, so each header is parsed once.
        self._key_of = lru_cache(maxsize=16)(self._find_key)
        # A client sends the same access token with every request until it expires, so its
        # signature is verified once. `decode` compares its times on every request. A refresh token
        # comes once.
        self._remembered = lru_cache(REMEMBERED)(self._verify)

    def encode(
        self,
        purpose: Purpose,
        subject: str,
        *,
        issued_at: datetime,
        expires_at: datetime,
        token_id: str | None = None,
        **extra: str | int,
    ) -> str:
        """Return a signed token; the same arguments and `token_id` give the same token."""
        claims = {
            "iss": ISSUER,
            "aud": f"{ISSUER}:{purpose}",
            "type": purpose.value,
            "sub": subject,
            "jti": token_id or ids.new_token_id(),
            "iat": int(issued_at.timestamp()),
            "exp": int(expires_at.timestamp()),
            **extra,
        }
        key = self._newest_access if purpose is Purpose.ACCESS else self._newest
        content = orjson.dumps(claims)
        return _SIGNER.encode(content, key.signs, key.algorithm, headers={"kid": key.kid})

    def decode(self, purpose: Purpose, token: str) -> Mapping[str, Any]:
        """Return the claims. Raises TokenExpired if nothing else is wrong, else TokenInvalid."""
        verify = self._remembered if purpose is Purpose.ACCESS else self._verify
        claims = verify(purpose, token)
        now = clock.utcnow().timestamp()
        if claims["iat"] > now + CLOCK_SKEW:
            raise TokenInvalid
        if claims["exp"] <= now:
            raise TokenExpired
        return claims

    def _find_key(self, header: str) -> _Key:
        found = jwt.get_unverified_header(f"{header}..")
        if not found.keys().isdisjoint(_REFUSED_HEADERS):
            raise TokenInvalid
        return self._keys[found["kid"]]

    def _verify(self, purpose: Purpose, token: str) -> Mapping[str, Any]:
        """Return the claims of a signed and complete token, even if it has expired."""
        try:
            key = self._key_of(token.partition(".")[0])
            # PyJWT would accept base64url with padding, which RFC 7515 forbids.
            if "=" in token or (purpose is not Purpose.ACCESS and key.algorithm != "HS256"):
                raise TokenInvalid
            claims = jwt.decode(
                token,
                key.verifies,
                algorithms=[key.algorithm],
                audience=f"{ISSUER}:{purpose}",
                issuer=ISSUER,
                # `decode` compares the times, with the clock that tests can set.
                options={"strict_aud": True, "verify_exp": False, "verify_iat": False},
            )
        except (jwt.PyJWTError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise TokenInvalid from error
        texts = [claims.get(name) for name in ("sub", "jti", *EXTRA_CLAIMS[purpose])]
        if (
            claims.get("type") != purpose.value
            or not all(isinstance(text, str) and text.isprintable() for text in texts)
            or not all(ids.is_row_id(claims[name]) for name in ("sub", "sid"))
            or any(type(claims.get(name)) is not int for name in TIMES[purpose])
            or claims["exp"] > LAST_MOMENT
        ):
            raise TokenInvalid
        if purpose is Purpose.ACCESS and key.algorithm != self._algorithm:
            claims["exp"] = 0  # after TOKEN_ALGORITHM has changed, clients refresh
        return MappingProxyType(claims)  # read-only, since it is remembered
