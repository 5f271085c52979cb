"""The body of a request: read strictly, never beyond its bounds, never left in the pipe."""

import time
from contextlib import suppress
from typing import Any

from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

import errors
from core import strict_json

# Bytes of a JSON body, chunked ones included.
MAX_BODY = 64 * 1024
# What is read of a refused body before the answer: bytes in all, bytes at once, seconds.
DRAIN_BYTES = 16 * 1024 * 1024
DRAIN_PIECE = 64 * 1024
DRAIN_SECONDS = 5


def init_app(app: Flask) -> None:
    """Read what is left of a body before every answer."""
    app.after_request(_drain)


def json_object() -> dict[str, Any]:
    """Return the JSON object that the client sent.

    Raises UnsupportedMediaType, TooLarge, or InvalidRequest for anything that is no such object.
    """
    raw = _raw_body()
    if request.mimetype != "application/json" and (raw or request.mimetype):
        raise errors.UnsupportedMediaType
    try:
        value = strict_json.loads(raw)
    except ValueError:
        raise errors.InvalidRequest("The body is not valid JSON.") from None
    if not isinstance(value, dict):
        raise errors.InvalidRequest("The body must be a JSON object.")
    return value


def _raw_body() -> bytes:
    if (request.content_length or 0) > MAX_BODY:
        raise errors.TooLarge
    try:
        # One byte more than allowed shows that a chunked body is too long.
        raw = request.stream.read(MAX_BODY + 1)
    except HTTPException:
        raise
    except Exception:
        # A broken chunk or trailer, or a client that went away. Each server has exceptions of
        # its own for these, with no common ancestor.
        raise errors.InvalidRequest("The body could not be read.") from None
    if len(raw) > MAX_BODY:
        raise errors.TooLarge
    return raw


def _drain(response: Response) -> Response:
    """Throw away what the client still sends, so that it can read the answer.

    Most clients send the whole body before they look. A connection that is closed before that is
    reset, and the answer is lost with it (RFC 9112, section 9.6). gunicorn itself reads 64 KiB.
    """
    if request.content_length or "HTTP_TRANSFER_ENCODING" in request.environ:
        left, deadline = DRAIN_BYTES, time.monotonic() + DRAIN_SECONDS
        with suppress(Exception):  # as above: a broken chunk, or a client that went away
            while left > 0 and time.monotonic() < deadline:
                left -= len(request.stream.read(min(left, DRAIN_PIECE))) or left
    return response
