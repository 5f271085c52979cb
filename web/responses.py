"""How a Python value becomes a JSON response."""

from collections.abc import Mapping

import orjson
from flask import Response


def json_response(content: object, status: int, headers: Mapping[str, str]) -> Response:
    data = orjson.dumps(content, option=orjson.OPT_NON_STR_KEYS)
    return Response(data, status, headers, content_type="application/json")
