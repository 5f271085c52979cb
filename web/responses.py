"""How a Python value becomes a JSON response."""

import orjson
from flask import Response


def json_response(content: object, status: int = 200) -> Response:
    """Return a JSON response."""
    data = orjson.dumps(content, option=orjson.OPT_NON_STR_KEYS)
    return Response(data, status, content_type="application/json")
