"""How the result of a view becomes a JSON response."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import orjson
from flask import Response, request, stream_with_context

_log = logging.getLogger("accounts.errors")


@dataclass(frozen=True)
class Reply:
    """The result of a view whose status or headers are not those that every call of it has."""

    data: object
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    # Further pages of the list that `data` ends with, which are read while they are sent.
    more: Iterable[object] = ()


def json_response(
    content: object, status: int, headers: Mapping[str, str], more: Iterable[object] = ()
) -> Response:
    data = orjson.dumps(content, option=orjson.OPT_NON_STR_KEYS)
    body = stream_with_context(_longer(data, more)) if more else data
    return Response(body, status, headers, content_type="application/json")


def _longer(data: bytes, more: Iterable[object]) -> Iterator[bytes]:
    """Yield an envelope with more items in the list that its `data` ends with. An error on the way
    cuts it off: it is no JSON then, and its last chunk is missing.
    """
    yield data.removesuffix(b"]}}")
    try:
        yield from (b"," + orjson.dumps(items)[1:-1] for items in more)
    except Exception:
        _log.exception("a response was cut off")  # here the request's id is known
        raise
    yield b"]}}"


def public_json(content: object, media_type: str = "application/json") -> Response:
    """Return what everybody may keep for five minutes."""
    response = Response(orjson.dumps(content), content_type=media_type)
    response.cache_control.public = True
    response.cache_control.max_age = 300  # seconds
    response.add_etag()
    response.make_conditional(request)
    return response
