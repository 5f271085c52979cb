"""Read the body of a request: strictly, within its bounds, and to its end."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any

import orjson
from flask import request
from werkzeug.exceptions import RequestEntityTooLarge

import errors

# Bytes of a JSON body, and of what may surround an uploaded file; and of a body about many.
MAX_BODY = 64 * 1024
MAX_BODY_OF_MANY = 2 * 1024 * 1024
# How much of a refused body is read before the response.
DRAIN_BYTES = 16 * 1024 * 1024
DRAIN_SECONDS = 5
CUT_OFF = "The body could not be read to its end."


def json_object(most: int = MAX_BODY) -> dict[str, object]:
    """Return the object in a JSON body of at most so many bytes. Raises UnsupportedMediaType,
    TooLarge, InvalidRequest.
    """
    raw = _raw(most)
    if request.mimetype != "application/json" and (raw or request.mimetype):
        raise errors.UnsupportedMediaType
    _refuse_encoded()
    try:
        # Refuses NaN, Infinity, broken UTF-8, lone surrogates and deep nesting.
        value = orjson.loads(raw)
    except ValueError:
        raise errors.InvalidRequest("The body is not valid JSON.") from None
    if not isinstance(value, dict):
        raise errors.InvalidRequest("The body must be a JSON object.")
    return value


def text(most: int) -> bytes:
    """Return a body of any type. Raises UnsupportedMediaType, TooLarge, InvalidRequest."""
    raw = _raw(most)
    _refuse_encoded()
    return raw


def _refuse_encoded() -> None:
    if request.headers.get("Content-Encoding", "").lower() not in ("", "identity"):
        raise errors.UnsupportedMediaType("Send the body as it is, without Content-Encoding.")


def discard() -> None:
    """Read a body that the endpoint does not use, so that nothing is done for half a request."""
    environ = request.environ
    if environ.get("CONTENT_LENGTH") or "HTTP_TRANSFER_ENCODING" in environ:
        _raw()


def _raw(most: int = MAX_BODY) -> bytes:
    # Werkzeug cuts a chunked body at its limit without an error. One byte more shows that it did.
    request.max_content_length = most + 1
    with errors_named():
        raw = request.get_data(cache=False)
    if len(raw) > most:
        raise errors.TooLarge
    check_end(len(raw))
    return raw


@contextmanager
def errors_named() -> Iterator[None]:
    try:
        yield
    except RequestEntityTooLarge:
        raise
    except OSError:  # no space for an upload; werkzeug has its own exception for a lost client
        raise errors.Unavailable from None
    except Exception:  # a lost client, or gunicorn's own exception for a broken chunk
        raise errors.InvalidRequest(CUT_OFF) from None


def check_end(received: int) -> None:
    # gunicorn passes on a body that was cut off without an error. It is refused even if it looks
    # whole (RFC 9112, section 8).
    if received < (request.content_length or 0):
        raise errors.InvalidRequest(CUT_OFF)


def drain(environ: dict[str, Any]) -> None:
    """Read what a refused client still sends, or it gets no response (RFC 9112, section 9.6)."""
    # Without `wsgi.input_terminated`, the stream has no end and the read would hang.
    if environ.get("wsgi.input_terminated"):
        # `request.stream` would end at the limit of the endpoint.
        stream: IO[bytes] = environ["wsgi.input"]
        left, deadline = DRAIN_BYTES, time.monotonic() + DRAIN_SECONDS
        with suppress(Exception):  # as in `errors_named`
            while left > 0 and time.monotonic() < deadline:
                left -= len(stream.read(MAX_BODY)) or left
