"""The public keys of access tokens, for services that verify them on their own (RFC 7517)."""

from flask import Blueprint, Response

import errors
from extensions import tokens
from web.responses import public_json

bp = Blueprint("jwks", __name__)
_NONE_PUBLIC = "Access tokens are signed with HS256: no key is public. Set TOKEN_ALGORITHM=ES256."


@bp.get("/.well-known/jwks.json")
def get_keys() -> Response:
    """Return the keys, newest first. Without ES256 there are none."""
    if tokens.jwks is None:
        raise errors.NotFound(_NONE_PUBLIC)
    return public_json(tokens.jwks, "application/jwk-set+json")
