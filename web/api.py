"""Endpoints as declarations: guard, body, response and possible errors stand above the view.

For each call: check the token and the role; validate path, query and body; apply the limits; call
the view; dump its result by a schema into the envelope. `web.openapi` makes the OpenAPI document
from the same declarations.
"""

import functools
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass
from typing import Any

from flask import Blueprint, Flask, Response, request
from marshmallow import Schema, ValidationError
from werkzeug.routing import BaseConverter

from core import ids
from core.roles import Role
from core.scopes import Scope
from errors import ApiError, InvalidRequest, UserNotFound
from extensions import settings
from schemas import camel_case
from web import bearer, bodies, responses
from web.limits import Limit, View, call_within

# Seconds that a body may take to arrive before the token is checked again.
STALE_AFTER = 1.0


@dataclass(frozen=True)
class Created:
    """The result of a view that has created something and not replaced it: a 201."""

    content: object


class UserId(BaseConverter):
    """`<user:user_id>`: any path segment that is not another path below /users.

    Without it, a wrong method on one of those would be read as a call about a user.
    """

    regex = (
        r"(?!(?:profile|avatar|settings|progress|certificates|password|account"
        r"|email|username|export)\Z)[^/]+"
    )


class AnyId(BaseConverter):
    """`<id:…>`: the whole rest of a path, as an id that `path_shape` validates."""

    regex = r"[\s\S]+"
    part_isolating = False
    weight = 200  # that of werkzeug's `path`: more specific rules go first


def init_app(app: Flask) -> None:
    """Register the converters that the URLs of endpoints use."""
    app.url_map.converters |= {"user": UserId, "id": AnyId}


@dataclass(frozen=True)
class Operation:
    """What an endpoint takes and returns. As a decorator, it makes a view that endpoint.

    The view gets the parameters of the path and, where they are declared, the validated `query`
    and `body` as dictionaries and the uploaded `file`. `response` dumps its result into `data`.
    """

    blueprint: Blueprint
    method: str
    url: str
    _: KW_ONLY
    path_shape: type[Schema] | None = None
    query: type[Schema] | None = None
    body: type[Schema] | None = None
    # The form field of the file in a multipart/form-data body.
    upload: str | None = None
    response: type[Schema] | None = None
    status: int = 200
    # Whether the view may return Created.
    creates: bool = False
    message: str | None = None
    # The lowest role that may call it; None when no token is needed.
    role: Role | None = None
    # The scope with which a service key may call it; None when no key may.
    scope: Scope | None = None
    errors: tuple[type[ApiError], ...] = ()
    # Calls that do not pass validation are not counted.
    limits: tuple[Limit, ...] = ()

    def __call__(self, view: View) -> View:
        """Add the view to the blueprint; return the function that Flask calls."""
        act = functools.partial(call_within, self.limits, view) if self.limits else view

        @functools.wraps(view)
        def handle(**arguments: Any) -> Response:
            if self.role:
                bearer.require(self.role, self.scope)
            if "user_id" in arguments and not ids.is_row_id(arguments["user_id"]):
                raise UserNotFound
            if self.path_shape:
                fields = _made(self.path_shape).fields
                sent = {camel_case(name): arguments[name] for name in fields}
                arguments |= _load(self.path_shape, sent)
            if self.query:
                arguments["query"] = _load(self.query, _query())
            return _with_body(self, act, arguments)

        handle.operation = self  # type: ignore[attr-defined]
        self.blueprint.add_url_rule(self.url, view_func=handle, methods=[self.method])
        return handle


endpoint = Operation  # above a view: `@endpoint(bp, "GET", "/profile", role=…, response=…)`


def _with_body(operation: Operation, act: View, arguments: dict[str, Any]) -> Response:
    """Read the body to its end, also where the endpoint uses none, and call the view."""
    start, name = time.monotonic(), operation.upload
    upload = bodies.uploaded_file(name, settings.max_avatar_bytes) if name else nullcontext()
    with upload as file:
        if operation.body:
            arguments["body"] = _load(operation.body, bodies.json_object())
        elif operation.upload:
            arguments["file"] = file
        else:
            bodies.discard()
        # While a slow body arrives, the caller's session may end: check the token again.
        if operation.role and time.monotonic() - start > STALE_AFTER:
            bearer.require(operation.role, operation.scope)
        return _envelope(operation, act(**arguments))


@functools.cache
def _made(schema: type[Schema]) -> Schema:
    return schema()  # kept, because making one takes longer than using it


def _load(schema: type[Schema], sent: Mapping[str, object]) -> Any:
    try:
        return _made(schema).load(sent)
    except ValidationError as error:
        fields = {  # without marshmallow's key for a value that is no object
            name: found["_schema"] if isinstance(found, dict) and "_schema" in found else found
            for name, found in error.messages_dict.items()
        }
        raise InvalidRequest(fields=fields) from None


def _query() -> dict[str, object]:
    """Return the parameters of the query; a repeated one is a list, so its type is wrong."""
    found = request.args.to_dict(flat=False)
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def _envelope(operation: Operation, result: object) -> Response:
    status = operation.status
    if isinstance(result, Created):
        result, status = result.content, 201
    content: dict[str, object] = {"success": True}
    if operation.message:
        content["message"] = operation.message
    content["data"] = _made(operation.response).dump(result) if operation.response else {}
    return responses.json_response(content, status)
