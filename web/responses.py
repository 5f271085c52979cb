"""How the result of a view becomes a JSON response."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import orjson
from flask import Response


@dataclass(frozen=True)
class Reply:
    """The result of a view whose status or headers are not those that every call of it has."""

    data: object
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


def json_response(content: object, status: int, headers: Mapping[str, str]) -> Response:
    data = orjson.dumps(content, option=orjson.OPT_NON_STR_KEYS)
    return Response(data, status, headers, content_type="application/json")
