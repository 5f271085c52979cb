"""Signs ID tokens, and reads those that come back as hints: OpenID Connect Core 1.0, section 2."""

from collections.abc import Mapping, Sequence
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from core import signing_keys

ALGORITHM = "RS256"
# A hint names who signs out: it may have expired, and its audience is compared by the caller.
_OF_HINTS: Any = {"verify_exp": False, "verify_iat": False, "verify_aud": False}


class IdTokens:
    """Signs with the first of some keys; each may have signed a hint."""

    def __init__(self, issuer: str, keys: Sequence[RSAPrivateKey]) -> None:
        jwks = [signing_keys.public_rsa_jwk(key) for key in keys]
        # The public keys (RFC 7517).
        self.jwks = {"keys": jwks}
        self._issuer = issuer
        self._keys = {jwk["kid"]: key for jwk, key in zip(jwks, keys, strict=True)}

    def sign(self, claims: Mapping[str, Any]) -> str:
        kid, key = next(iter(self._keys.items()))
        return jwt.encode({"iss": self._issuer, **claims}, key, ALGORITHM, {"kid": kid})

    def read_hint(self, token: str) -> dict[str, Any] | None:
        """Return the claims of an ID token of ours, however old; None for anything else."""
        try:
            key = self._keys[jwt.get_unverified_header(token)["kid"]].public_key()
            return jwt.decode(token, key, [ALGORITHM], _OF_HINTS, issuer=self._issuer)
        except (jwt.PyJWTError, KeyError, TypeError, ValueError, RecursionError):
            return None
