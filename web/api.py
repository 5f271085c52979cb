"""Endpoints as declarations: guard, body, answer and possible errors stand above the view.

`endpoint` does the same for each of them: the token is checked before the body is looked at, the
body is read strictly and validated, the result is dumped by a schema and put in the envelope.
The declaration stays on the view, and `web.openapi` makes the document from it.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flask import Blueprint, Response
from marshmallow import Schema, ValidationError

import errors
from web import bearer, bodies
from web.answers import answer as answer_with

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
        return schema.load(bodies.json_object())
    except ValidationError as error:
        raise errors.InvalidRequest(fields=error.messages_dict) from None


def _envelope(operation: Operation, result: Any) -> Response:
    content: dict[str, Any] = {"success": True}
    if operation.message:
        content["message"] = operation.message
    content["data"] = operation.answer.dump(result) if operation.answer else {}
    return answer_with(content, operation.status)
