"""The body of a request: read strictly, never beyond its bounds, never left in the pipe."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from tempfile import TemporaryFile
from typing import IO, Any, cast

from flask import Flask, Response, request
from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.formparser import FormDataParser

import errors
from core import strict_json

# Bytes of a JSON body, chunked ones included; also what may stand around an uploaded file.
MAX_BODY = 64 * 1024
# Parts of a multipart body. One is right; with a few, the response can still name what is wrong.
MAX_PARTS = 10
# What is read of a refused body before the response: bytes in all, bytes at once, and the seconds
# after which no more is begun. What was begun ends within the bounds of web/worker.py.
DRAIN_BYTES = 16 * 1024 * 1024
DRAIN_PIECE = 64 * 1024
DRAIN_SECONDS = 5
CUT_OFF = "The body could not be read to its end."


def init_app(app: Flask) -> None:
    """Read what is left of a body before every error response."""
    app.after_request(_drain)


def json_object() -> dict[str, Any]:
    """Return the JSON object that the client sent.

    Raises UnsupportedMediaType, TooLarge, or InvalidRequest for anything that is no such object.
    """
    raw = _raw()
    if request.mimetype != "application/json" and (raw or request.mimetype):
        raise errors.UnsupportedMediaType
    try:
        value = strict_json.loads(raw)
    except ValueError:
        raise errors.InvalidRequest("The body is not valid JSON.") from None
    if not isinstance(value, dict):
        raise errors.InvalidRequest("The body must be a JSON object.")
    return value


def discard() -> None:
    """Read a body that the endpoint does not use, so that nothing is done for half a request.

    Raises TooLarge, and InvalidRequest when it is cut off.
    """
    if request.content_length or "HTTP_TRANSFER_ENCODING" in request.environ:
        _raw()


def _raw() -> bytes:
    # Werkzeug cuts a chunked body at its limit without an error. One byte more shows that it did.
    request.max_content_length = MAX_BODY + 1
    with _reading():
        raw = request.get_data(cache=False)
    if len(raw) > MAX_BODY:
        raise errors.TooLarge
    _check_end(len(raw))
    return raw


def uploaded_file(name: str, max_bytes: int) -> IO[bytes]:
    """Return the one file of a multipart/form-data body (RFC 7578), in the field of this name.

    Raises UnsupportedMediaType for any other type of body, TooLarge, and InvalidRequest where
    the field is missing, is no file, or is not alone.
    """
    if request.mimetype != "multipart/form-data":
        raise errors.UnsupportedMediaType("Send the file as multipart/form-data.")
    request.max_content_length = max_bytes + MAX_BODY
    # For each text, and for the parser's buffer: a piece and what is left of the one before.
    memory = 4 * MAX_BODY
    parser = FormDataParser(_on_disk, memory, max_form_parts=MAX_PARTS)
    kind, parameters = request.mimetype, request.mimetype_params
    with _reading():
        _, texts, files = parser.parse(request.stream, kind, None, parameters)
    wrong = {str(other): ["Unknown field."] for other in {*texts, *files} - {name}}
    if name in texts:
        wrong[name] = ["Not a file."]
    elif name not in files:
        wrong[name] = ["Missing data for required field."]
    elif len(files.getlist(name)) > 1:
        wrong[name] = ["More than one file."]
    if wrong:
        raise errors.InvalidRequest(fields=wrong)
    _check_end(request.stream.tell())
    file = files[name].stream
    if file.seek(0, os.SEEK_END) > max_bytes:
        raise errors.TooLarge
    file.seek(0)
    return file


def _on_disk(*_: Any, **_more: Any) -> IO[bytes]:
    # `request.files` keeps 500 KB of each upload in memory, which is 50 MB for all threads.
    return cast("IO[bytes]", TemporaryFile())


@contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except RequestEntityTooLarge:
        raise
    except OSError:  # No space for an upload. Werkzeug has another exception for the client.
        raise errors.Unavailable from None
    except Exception:  # a client that has gone, or gunicorn's own exception for a broken chunk
        raise errors.InvalidRequest(CUT_OFF) from None


def _check_end(received: int) -> None:
    """Refuse a body that is cut off, even if it looks whole (RFC 9112, section 8).

    gunicorn passes on what there is, and tells werkzeug that this is all.
    """
    if received < (request.content_length or 0):
        raise errors.InvalidRequest(CUT_OFF)


def _drain(response: Response) -> Response:
    """Throw away what the client still sends, so that it can read the error.

    Most clients send the whole body before they look. A connection that is closed before that is
    reset, and the response is lost with it (RFC 9112, section 9.6). gunicorn itself reads 64 KiB.
    """
    # Without `wsgi.input_terminated`, the stream has no end and the read would hang.
    if response.status_code >= 400 and request.environ.get("wsgi.input_terminated"):
        # Not `request.stream`: that ends at the limit of the endpoint.
        stream: IO[bytes] = request.environ["wsgi.input"]
        left, deadline = DRAIN_BYTES, time.monotonic() + DRAIN_SECONDS
        with suppress(Exception):  # as above: a broken chunk, or a client that has gone
            while left > 0 and time.monotonic() < deadline:
                left -= len(stream.read(min(left, DRAIN_PIECE))) or left
    return response
