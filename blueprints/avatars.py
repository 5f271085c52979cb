"""The users' pictures. No token is required, because browsers send none for pictures."""

from flask import Blueprint, Response, request

import errors
from services import profiles

bp = Blueprint("avatars", __name__, url_prefix="/avatars")


@bp.get("/<digest>.webp")
def get_picture(digest: str) -> Response:
    """Return the picture with this digest of its content; it never changes."""
    picture = profiles.find_picture(digest)
    if picture is None:
        raise errors.NotFound
    response = Response(picture, mimetype="image/webp")
    response.set_etag(digest)
    response.cache_control.public = True
    response.cache_control.max_age = 365 * 24 * 3600  # seconds
    response.cache_control.immutable = True
    # Pages of other origins, such as the frontend's, show it.
    response.headers["Cross-Origin-Resource-Policy"] = "cross-origin"
    response.make_conditional(request)
    return response
