"""Read a form, and the file in one."""

import os
from tempfile import TemporaryFile
from typing import IO, cast
from urllib.parse import parse_qs

from flask import request
from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.formparser import FormDataParser

import errors
from core.reasons import REQUIRED, UNKNOWN, Reason
from extensions import settings
from web.bodies import MAX_BODY, check_end, discard, errors_named, text

# Parts of a multipart body: the file, and some that are wrong and get named in the response.
MAX_PARTS = 10
NOT_MULTIPART = "Send the file as multipart/form-data."


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


def uploaded_file(name: str) -> IO[bytes]:
    """Return the one file of a multipart/form-data body (RFC 7578). Raises as
    `bodies.json_object` does."""
    if request.mimetype != "multipart/form-data":
        raise errors.UnsupportedMediaType(NOT_MULTIPART)
    max_bytes = settings.max_avatar_bytes
    request.max_content_length = max_bytes + MAX_BODY
    parser = FormDataParser(_on_disk, 4 * MAX_BODY, max_form_parts=MAX_PARTS)
    parameters = request.mimetype_params
    too_large = f"The upload is too large. Send one picture of at most {max_bytes / 2**20:.3g} MiB."
    try:
        with errors_named():
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
    check_end(request.stream.tell())
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
