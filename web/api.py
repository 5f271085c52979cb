"""Endpoints as declarations: guard, body, answer and possible errors stand above the view.

`endpoint` does the same for each of them: the token and the role are checked before anything else
is looked at; path, query and body are read strictly and validated; the result is dumped by a
schema and put in the envelope. The declaration stays on the view, and `web.openapi` makes the
document from it.
"""

import functools
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from flask import Blueprint, Flask, Response, request
from marshmallow import Schema, ValidationError
from werkzeug.routing import BaseConverter

import errors
from core import ids
from core.roles import Role
from extensions import settings
from schemas import camel_case
from web import bearer, bodies
from web import limits as limiting
from web.answers import answer as answer_with

View = Callable[..., Any]
# Seconds after which a token is checked again before the body that it came with is acted on.
STALE_AFTER = 1.0


@dataclass(frozen=True)
class Operation:
    """What an endpoint takes and answers."""

    path: Schema | None
    query: Schema | None
    body: Schema | None
    # The form field of the file, where the body is multipart/form-data.
    upload: str | None
    answer: Schema | None
    status: int
    creates: bool
    message: str | None
    # The least role that may call it; None for everybody, also without a token.
    role: Role | None
    errors: tuple[type[errors.ApiError], ...]
    limits: tuple[limiting.Limit, ...]


@dataclass(frozen=True)
class Created:
    """What a view returns when it made something new that was to be made or replaced: a 201."""

    content: Any


class UserId(BaseConverter):
    """`<user:user_id>`: any path segment but those that are paths of their own below /users.

    Without it, a wrong method on one of those would be taken for a call about a user.
    """

    regex = r"(?!(?:profile|avatar|settings|progress|certificates|password|account)\Z)[^/]+"


class AnyId(BaseConverter):
    """`<id:…>`: the rest of a path, whatever is in it, for an id whose shape the view declares."""

    regex = r"[\s\S]+"
    part_isolating = False
    weight = 200  # as werkzeug's own `path`, after all that is more particular


def init_app(app: Flask) -> None:
    """Teach the application's router what the declarations use."""
    app.url_map.converters |= {"user": UserId, "id": AnyId}


def endpoint(
    blueprint: Blueprint,
    method: str,
    path: str,
    *,
    path_shape: type[Schema] | None = None,
    query: type[Schema] | None = None,
    body: type[Schema] | None = None,
    upload: str | None = None,
    answer: type[Schema] | None = None,
    status: int = 200,
    creates: bool = False,
    message: str | None = None,
    role: Role | None = None,
    errors: tuple[type[errors.ApiError], ...] = (),
    limits: tuple[limiting.Limit, ...] = (),
) -> Callable[[View], View]:
    """Declare a view of the API.

    The view gets the path's parameters, those of `path_shape` validated; and where they are
    declared the validated `query` and `body` as dictionaries, and `file`, what was uploaded. What
    it returns is dumped by `answer` into the envelope's `data`. One that `creates` may return
    Created, which is answered with 201. `limits` count the calls whose shape is right.
    """
    operation = Operation(
        path=path_shape() if path_shape else None,
        query=query() if query else None,
        body=body() if body else None,
        upload=upload,
        answer=answer() if answer else None,
        status=status,
        creates=creates,
        message=message,
        role=role,
        errors=errors,
        limits=limits,
    )

    def declare(view: View) -> View:
        act = limiting.within(limits, view) if limits else view

        @functools.wraps(view)
        def handle(**arguments: Any) -> Response:
            if operation.role:
                bearer.require(operation.role)
            _check_user_id(**arguments)
            if operation.path:
                sent = {camel_case(name): arguments[name] for name in operation.path.fields}
                arguments |= _load(operation.path, sent)
            if operation.query:
                arguments["query"] = _load(operation.query, _query())
            if operation.body or operation.upload:
                return _with_body(operation, act, arguments)
            return _envelope(operation, act(**arguments))

        handle.operation = operation  # type: ignore[attr-defined]
        blueprint.add_url_rule(path, view_func=handle, methods=[method])
        return handle

    return declare


def _with_body(operation: Operation, act: View, arguments: dict[str, Any]) -> Response:
    start = time.monotonic()
    with _upload(operation.upload) as file:
        if operation.body:
            arguments["body"] = _load(operation.body, bodies.json_object())
        if operation.upload:
            arguments["file"] = file
        # Who sends a body slowly may have lost the right to by the time it is there.
        if operation.role and time.monotonic() - start > STALE_AFTER:
            bearer.require(operation.role)
        return _envelope(operation, act(**arguments))


def _check_user_id(*, user_id: str | None = None, **_others: str) -> None:
    """Find nobody at an id that no user can have. Raises UserNotFound."""
    if user_id is not None and not ids.is_row_id(user_id):
        raise errors.UserNotFound


def _upload(name: str | None) -> AbstractContextManager[Any]:
    return bodies.uploaded_file(name, settings.max_avatar_bytes) if name else nullcontext()


def _load(schema: Schema, sent: Any) -> Any:
    try:
        return schema.load(sent)
    except ValidationError as error:
        raise errors.InvalidRequest(fields=_named(error.messages_dict)) from None


def _named(found: dict[str, Any]) -> dict[str, Any]:
    """Return what is wrong, without marshmallow's name for an object that is none at all."""
    return {
        name: reasons["_schema"] if isinstance(reasons, dict) and "_schema" in reasons else reasons
        for name, reasons in found.items()
    }


def _query() -> dict[str, Any]:
    """Return the query's parameters; one that is given twice is a list, and so of a wrong type."""
    found = request.args.to_dict(flat=False)
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def _envelope(operation: Operation, result: Any) -> Response:
    status = operation.status
    if isinstance(result, Created):
        result, status = result.content, 201
    content: dict[str, Any] = {"success": True}
    if operation.message:
        content["message"] = operation.message
    content["data"] = operation.answer.dump(result) if operation.answer else {}
    return answer_with(content, status)
