"""The body of a request: read strictly, never beyond its bounds, never left in the pipe."""

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from tempfile import SpooledTemporaryFile
from typing import IO, Any, cast

from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException
from werkzeug.formparser import FormDataParser

import errors
from core import strict_json

# Bytes of a JSON body, chunked ones included; also what may stand around an uploaded file, and
# what of such a file is held in memory. The rest of it lies on disk.
MAX_BODY = 64 * 1024
# Parts of a multipart body. One is right; with a few, the answer can still name what is wrong.
MAX_PARTS = 10
# What is read of a refused body before the answer: bytes in all, bytes at once, and the seconds
# after which no more is begun. What was begun ends within the bounds of web/worker.py.
DRAIN_BYTES = 16 * 1024 * 1024
DRAIN_PIECE = 64 * 1024
DRAIN_SECONDS = 5
# What is cut off is never acted on, however whole it looks (RFC 9112, section 8). gunicorn hands on
# what there is, and only a broken chunk or trailer, or a reset connection, is an exception.
CUT_OFF = "The body could not be read to its end."


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
    # One byte more than allowed shows that a chunked body is too long.
    raw = _read(MAX_BODY + 1)
    if len(raw) > MAX_BODY:
        raise errors.TooLarge
    if len(raw) < (request.content_length or 0):
        raise errors.InvalidRequest(CUT_OFF)
    return raw


def _read(size: int) -> bytes:
    try:
        return request.stream.read(size)
    except HTTPException:
        raise
    except Exception:
        # A broken chunk or trailer, or a client that went away. Each server has exceptions of
        # its own for these, with no common ancestor.
        raise errors.InvalidRequest(CUT_OFF) from None


@contextmanager
def uploaded_file(name: str, max_bytes: int) -> Iterator[IO[bytes]]:
    """Lend the one file of a multipart/form-data body (RFC 7578), in the field of this name.

    Raises UnsupportedMediaType for any other type of body, TooLarge, and InvalidRequest where
    the field is missing, is no file, or is not alone.
    """
    if request.mimetype != "multipart/form-data":
        raise errors.UnsupportedMediaType("Send the file as multipart/form-data.")
    try:
        with ExitStack() as open_files:

            def new_file(*_details: Any, **_more: Any) -> IO[bytes]:
                file = open_files.enter_context(SpooledTemporaryFile(max_size=MAX_BODY))
                return cast("IO[bytes]", file)

            parser = FormDataParser(
                stream_factory=new_file,
                # For each text; and for the parser's buffer, which holds a piece and what is left
                # of the one before it.
                max_form_memory_size=4 * MAX_BODY,
                max_form_parts=MAX_PARTS,
                silent=False,
            )
            body = cast("IO[bytes]", _Bounded(max_bytes + MAX_BODY))
            try:
                _, texts, files = parser.parse(
                    body, request.mimetype, None, request.mimetype_params
                )
            except ValueError:
                raise errors.InvalidRequest("The body is not valid multipart/form-data.") from None
            wrong = {str(other): ["Unknown field."] for other in {*texts, *files} - {name}}
            if name in texts:
                wrong[name] = ["Not a file."]
            elif name not in files:
                wrong[name] = ["Missing data for required field."]
            elif len(files.getlist(name)) > 1:
                wrong[name] = ["More than one file."]
            if wrong:
                raise errors.InvalidRequest(fields=wrong)
            file = files[name].stream
            if file.seek(0, os.SEEK_END) > max_bytes:
                raise errors.TooLarge
            file.seek(0)
            yield file
    except OSError:  # nowhere to put the file; its end is written when it is closed
        raise errors.Unavailable from None


class _Bounded:
    """The request's body, as long as it is not longer than allowed."""

    def __init__(self, max_bytes: int) -> None:
        self._left = max_bytes
        self._announced = request.content_length or 0
        if self._announced > max_bytes:
            raise errors.TooLarge

    def read(self, size: int) -> bytes:
        piece = _read(size)
        self._left -= len(piece)
        self._announced -= len(piece)
        if self._left < 0:
            raise errors.TooLarge
        if not piece and self._announced > 0:
            raise errors.InvalidRequest(CUT_OFF)
        return piece


def _drain(response: Response) -> Response:
    """Throw away what the client still sends, so that it can read the answer.

    Most clients send the whole body before they look. A connection that is closed before that is
    reset, and the answer is lost with it (RFC 9112, section 9.6). gunicorn itself reads 64 KiB.
    """
    environ = request.environ
    if environ.get("CONTENT_LENGTH") or "HTTP_TRANSFER_ENCODING" in environ:
        left, deadline = DRAIN_BYTES, time.monotonic() + DRAIN_SECONDS
        with suppress(Exception):  # as above: a broken chunk, or a client that went away
            while left > 0 and time.monotonic() < deadline:
                left -= len(request.stream.read(min(left, DRAIN_PIECE))) or left
    return response
