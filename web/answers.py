"""How a Python value becomes an answer: orjson out, the strict reader in."""

from typing import Any

import orjson
from flask import Flask, Response
from flask.json.provider import JSONProvider

from core import strict_json


def answer(content: Any, status: int = 200) -> Response:
    """Return a JSON response."""
    return Response(_dumps(content), status, content_type="application/json")


def _dumps(content: Any) -> bytes:
    return orjson.dumps(content, option=orjson.OPT_NON_STR_KEYS)


class StrictJson(JSONProvider):
    """The same for whatever Flask itself reads and writes."""

    def dumps(self, obj: Any, **_kwargs: Any) -> str:
        return _dumps(obj).decode()

    def loads(self, s: str | bytes, **_kwargs: Any) -> Any:
        return strict_json.loads(s.encode() if isinstance(s, str) else s)


def init_app(app: Flask) -> None:
    """Make the application speak strict JSON."""
    app.json = StrictJson(app)
