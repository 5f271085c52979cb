"""Verifies access tokens of a service with TOKEN_ALGORITHM=ES256: pip install "pyjwt[crypto]"."""

import jwt

KEYS = jwt.PyJWKClient("https://accounts.example.org/.well-known/jwks.json", lifespan=300)
DEMANDS = {"require": ["exp", "iss", "aud", "sub", "type"]}


def verify(token):
    """Return the claims: `sub` is the user's id, `role` the role. Raises jwt.PyJWTError."""
    key = KEYS.get_signing_key_from_jwt(token)
    whose = {"issuer": "accounts", "audience": "accounts:access"}
    claims = jwt.decode(token, key, algorithms=["ES256"], options=DEMANDS, **whose)
    if claims["type"] != "access":
        raise jwt.InvalidTokenError("not an access token")
    return claims
