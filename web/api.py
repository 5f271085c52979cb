"""Endpoints as declarations: guard, body, answer and possible errors stand above the view.

`endpoint` does the same for each of them: the token is checked before the body is looked at, the
body is read strictly and validated, the result is dumped by a schema and put in the envelope.
The declaration stays on the view, and `web.openapi` makes the document from it.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flask import Blueprint, Response, request
from marshmallow import Schema, ValidationError
from werkzeug.exceptions import HTTPException

import errors
from core import strict_json
from web import bearer
from web.answers import answer as answer_with

# Bytes of a JSON body, chunked ones included.
MAX_BODY = 64 * 1024

View = Callable[..., Any]


@dataclass(frozen=True)
class Operation:
    """What an endpoint takes and answers."""

    body: Schema | None
    answer: Schema | None
    status: int
    message: str | None
    guarded: bool
    errors: tuple[type[errors.ApiError], ...]


def endpoint(
    blueprint: Blueprint,
    method: str,
    path: str,
    *,
    body: type[Schema] | None = None,
    answer: type[Schema] | None = None,
    status: int = 200,
    message: str | None = None,
    guarded: bool = False,
    errors: tuple[type[errors.ApiError], ...] = (),
) -> Callable[[View], View]:
    """Declare a view of the API.

    The view gets the path's parameters and, where a body is declared, the validated `body` as a
    dictionary; what it returns is dumped by `answer` into the envelope's `data`.
    """
    operation = Operation(
        body=body() if body else None,
        answer=answer() if answer else None,
        status=status,
        message=message,
        guarded=guarded,
        errors=errors,
    )

    def declare(view: View) -> View:
        @functools.wraps(view)
        def handle(**arguments: Any) -> Response:
            if operation.guarded:
                bearer.require_token()
            if operation.body:
                arguments["body"] = _load(operation.body)
            return _envelope(operation, view(**arguments))

        handle.operation = operation  # type: ignore[attr-defined]
        blueprint.add_url_rule(path, view_func=handle, methods=[method])
        return handle

    return declare


def _load(schema: Schema) -> Any:
    try:
        return schema.load(_json_object())
    except ValidationError as error:
        raise errors.InvalidRequest(fields=error.messages_dict) from None


def _json_object() -> dict[str, Any]:
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


def _envelope(operation: Operation, result: Any) -> Response:
    content: dict[str, Any] = {"success": True}
    if operation.message:
        content["message"] = operation.message
    content["data"] = operation.answer.dump(result) if operation.answer else {}
    return answer_with(content, operation.status)
