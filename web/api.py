"""Endpoints as declarations: guard, body, answer and possible errors stand above the view.

`endpoint` does the same for each of them: it checks the token and the role before anything else;
it reads path, query and body strictly and validates them; it dumps the result by a schema and puts
it in the envelope. The declaration stays on the view, and `web.openapi` makes the document from it.
"""

import functools
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import KW_ONLY, dataclass
from typing import Any

from flask import Blueprint, Flask, Response, request
from marshmallow import Schema, ValidationError
from werkzeug.routing import BaseConverter

from core import ids
from core.roles import Role
from errors import ApiError, InvalidRequest, UserNotFound
from extensions import settings
from schemas import camel_case
from web import answers, bearer, bodies
from web.limits import Limit, count_invalid, within

View = Callable[..., Any]
# Seconds after which a token is checked again before the body that it came with is acted on.
STALE_AFTER = 1.0


@dataclass(frozen=True)
class Created:
    """What a view returns when it created what otherwise would have been replaced: a 201."""

    content: Any


class UserId(BaseConverter):
    """`<user:user_id>`: any path segment, except those that are paths of their own below /users.

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


@dataclass(frozen=True)
class Operation:
    """What an endpoint takes and answers; used as a decorator, it makes a view that endpoint.

    The view gets the path's parameters, those of `path_shape` validated; and where they are
    declared the validated `query` and `body` as dictionaries, and `file`, what was uploaded. What
    it returns is dumped by `answer` into the envelope's `data`.
    """

    blueprint: Blueprint
    method: str
    url: str
    _: KW_ONLY
    path_shape: type[Schema] | None = None
    query: type[Schema] | None = None
    body: type[Schema] | None = None
    # The form field of the file, where the body is multipart/form-data.
    upload: str | None = None
    answer: type[Schema] | None = None
    status: int = 200
    # Whether the view may return Created, which is answered with 201.
    creates: bool = False
    message: str | None = None
    # The lowest role that may call it; None for everybody, also without a token.
    role: Role | None = None
    errors: tuple[type[ApiError], ...] = ()
    # These count the calls whose shape is right.
    limits: tuple[Limit, ...] = ()

    def __call__(self, view: View) -> View:
        """Add the view to the blueprint, and return what is called in its place."""
        act = within(self.limits, view) if self.limits else view

        @functools.wraps(view)
        def handle(**arguments: Any) -> Response:
            if self.role:
                bearer.require(self.role)
            _check_user_id(**arguments)
            if self.path_shape:
                fields = _made(self.path_shape).fields
                sent = {camel_case(name): arguments[name] for name in fields}
                arguments |= _load(self.path_shape, sent)
            if self.query:
                arguments["query"] = _load(self.query, _query())
            if self.body or self.upload:
                return _with_body(self, act, arguments)
            if self.method != "GET":
                bodies.discard()
            return _envelope(self, act(**arguments))

        handle.operation = self  # type: ignore[attr-defined]
        self.blueprint.add_url_rule(self.url, view_func=handle, methods=[self.method])
        return handle


# `@endpoint(bp, "GET", "/profile", role=…, answer=…)` stands above a view.
endpoint = Operation


def _with_body(operation: Operation, act: View, arguments: dict[str, Any]) -> Response:
    start = time.monotonic()
    with _upload(operation.upload) as file:
        if operation.body:
            try:
                arguments["body"] = _load(operation.body, bodies.json_object())
            except InvalidRequest:
                count_invalid(operation.limits)
                raise
        if operation.upload:
            arguments["file"] = file
        # While a slow body arrives, the caller's session may end: check the token again.
        if operation.role and time.monotonic() - start > STALE_AFTER:
            bearer.require(operation.role)
        return _envelope(operation, act(**arguments))


def _check_user_id(*, user_id: str | None = None, **_others: str) -> None:
    """Find nobody at an id that no user can have. Raises UserNotFound."""
    if user_id is not None and not ids.is_row_id(user_id):
        raise UserNotFound


def _upload(name: str | None) -> AbstractContextManager[Any]:
    return bodies.uploaded_file(name, settings.max_avatar_bytes) if name else nullcontext()


@functools.cache
def _made(schema: type[Schema]) -> Schema:
    return schema()  # once, since it takes longer than to load or dump something


def _load(schema: type[Schema], sent: Any) -> Any:
    try:
        return _made(schema).load(sent)
    except ValidationError as error:
        raise InvalidRequest(fields=_named(error.messages_dict)) from None


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
    content["data"] = _made(operation.answer).dump(result) if operation.answer else {}
    return answers.answer(content, status)
