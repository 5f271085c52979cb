"""The public keys of access tokens, for services that verify them on their own (RFC 7517)."""

import orjson
from flask import Blueprint, Response, request

import errors
from extensions import tokens

bp = Blueprint("jwks", __name__)
_NONE_PUBLIC = "Access tokens are signed with HS256: no key is public. Set TOKEN_ALGORITHM=ES256."


@bp.get("/.well-known/jwks.json")
def get_keys() -> Response:
    """Return the keys, newest first. Without ES256 there are none."""
    if tokens.jwks is None:
        raise errors.NotFound(_NONE_PUBLIC)
    response = Response(orjson.dumps(tokens.jwks), content_type="application/jwk-set+json")
    response.cache_control.public = True
    response.cache_control.max_age = 300  # seconds
    response.add_etag()
    response.make_conditional(request)
    return response
