"""Read the body of a request: strictly, within its bounds, and to its end."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from tempfile import TemporaryFile
from typing import IO, Any, cast
from urllib.parse import parse_qs

import orjson
from flask import request
from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.formparser import FormDataParser

import errors
from core.reasons import REQUIRED, UNKNOWN, Reason
from extensions import settings

# Bytes of a JSON body, and of what may surround an uploaded file; and of a body about many.
MAX_BODY = 64 * 1024
MAX_BODY_OF_MANY = 2 * 1024 * 1024
# Parts of a multipart body: the file, and some that are wrong and get named in the response.
MAX_PARTS = 10
# How much of a refused body is read before the response.
DRAIN_BYTES = 16 * 1024 * 1024
DRAIN_SECONDS = 5
NOT_MULTIPART = "Send the file as multipart/form-data."
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


def form() -> dict[str, list[str]]:
    """Return the fields of a form, or of the query where there is no body to have (RFC 6749,
    appendix B). Raises UnsupportedMediaType, TooLarge, InvalidRequest.
    """
    if request.method != "POST":
        discard()
        return _fields(request.query_string)
    raw = text(MAX_BODY)
    if request.mimetype != "application/x-www-form-urlencoded":
        raise errors.UnsupportedMediaType("Send the body as application/x-www-form-urlencoded.")
    return _fields(raw)


def _fields(raw: bytes) -> dict[str, list[str]]:
    try:  # werkzeug's own reader changes what is not UTF-8
        return parse_qs(raw.decode(), keep_blank_values=True, max_num_fields=100, errors="strict")
    except ValueError:
        raise errors.InvalidRequest("These are not valid fields of a form.") from None


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
    with _reading():
        raw = request.get_data(cache=False)
    if len(raw) > most:
        raise errors.TooLarge
    _check_end(len(raw))
    return raw


def uploaded_file(name: str) -> IO[bytes]:
    """Return the one file of a multipart/form-data body (RFC 7578). Raises like `json_object`."""
    if request.mimetype != "multipart/form-data":
        raise errors.UnsupportedMediaType(NOT_MULTIPART)
    max_bytes = settings.max_avatar_bytes
    request.max_content_length = max_bytes + MAX_BODY
    parser = FormDataParser(_on_disk, 4 * MAX_BODY, max_form_parts=MAX_PARTS)
    parameters = request.mimetype_params
    too_large = f"The upload is too large. Send one picture of at most {max_bytes / 2**20:.3g} MiB."
    try:
        with _reading():
            _, texts, files = parser.parse(request.stream, request.mimetype, None, parameters)
    except RequestEntityTooLarge:
        raise errors.TooLarge(too_large) from None
    wrong = {str(other): [UNKNOWN] for other in {*texts, *files} - {name}}
    if name in texts or len(files.getlist(name)) > 1:
        wrong[name] = [Reason("type", "Send one file.")]
    elif name not in files:
        wrong[name] = [REQUIRED]
    if wrong:
        raise errors.InvalidRequest(fields=wrong)
    _check_end(request.stream.tell())
    file = files[name].stream
    size = file.seek(0, os.SEEK_END)
    if size > max_bytes:
        raise errors.TooLarge(too_large)
    if not size:  # as browsers send a field in which no file was chosen
        raise errors.InvalidRequest(fields={name: [REQUIRED]})
    file.seek(0)
    return file


def _on_disk(*_: object, **_more: object) -> IO[bytes]:
    # `request.files` would keep 500 KB of each upload in memory, which is 50 MB for all threads.
    return cast("IO[bytes]", TemporaryFile())


@contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except RequestEntityTooLarge:
        raise
    except OSError:  # no space for an upload; werkzeug has its own exception for a lost client
        raise errors.Unavailable from None
    except Exception:  # a lost client, or gunicorn's own exception for a broken chunk
        raise errors.InvalidRequest(CUT_OFF) from None


def _check_end(received: int) -> None:
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
        with suppress(Exception):  # as in `_reading`
            while left > 0 and time.monotonic() < deadline:
                left -= len(stream.read(MAX_BODY)) or left
