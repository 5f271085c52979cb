"""The users' pictures. Browsers send no token for pictures, so none is asked for."""

from flask import Blueprint, Response, request

import errors
from services import profiles

bp = Blueprint("avatars", __name__)

A_YEAR = 365 * 24 * 3600


@bp.get("/<digest>.webp")
def get_picture(digest: str) -> Response:
    """Return a picture. Its name is the digest of its content, so it never changes."""
    picture = profiles.find_picture(digest)
    if picture is None:
        raise errors.NotFound
    response = Response(picture, mimetype="image/webp")
    response.set_etag(digest)
    response.cache_control.public = True
    response.cache_control.max_age = A_YEAR
    response.cache_control.immutable = True
    # Pages of other origins may show it.
    response.headers["Cross-Origin-Resource-Policy"] = "cross-origin"
    response.make_conditional(request)
    return response
