"""Endpoints as declarations: guard, body, response and possible errors stand above the view."""

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass
from typing import Any

from flask import Blueprint, Flask, Response, request
from marshmallow import Schema, ValidationError
from werkzeug.routing import BaseConverter

from core.roles import Role
from core.scopes import Scope
from errors import ApiError, InvalidRequest
from extensions import settings
from schemas import camel_case
from web import bearer, bodies, forms, refresh_cookie
from web.limits import Limit, View, call_within
from web.responses import Reply, json_response

# Seconds that a body may take to arrive before the token is checked again.
STALE_AFTER = 1.0
JSON, CSV = "application/json", "text/csv"


class AnyId(BaseConverter):
    """`<id:…>`: the whole rest of a path, as an id that `path_shape` validates."""

    regex = r"[\s\S]+"
    part_isolating = False
    weight = 200  # that of werkzeug's `path`: more specific rules go first


@dataclass(frozen=True)
class Operation:
    """What an endpoint takes and returns: a dataclass used as a decorator of its view.

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
    # Whether the body is about many, and may be large.
    of_many: bool = False
    # Whether it may also be a text of any type, which the view gets in bytes: `body["text"]`.
    or_text: bool = False
    # The form field of the file in a multipart/form-data body.
    upload: str | None = None
    response: type[Schema] | None = None
    status: int = 200
    # What the view returns is the whole body where this is another one.
    media_type: str = JSON
    # Whether the view may also return a Response, of CSV.
    or_csv: bool = False
    # Whether this GET changes something: then HEAD, which must not, is refused.
    writes: bool = False
    # Whether the view may reply with 201 too.
    creates: bool = False
    message: str | None = None
    # The lowest role that may call it; None when no token is needed.
    role: Role | None = None
    # Whether instructors may call it too, about students, where INSTRUCTOR_RIGHTS says so.
    for_teachers: bool = False
    # Called before the body is read: raises what refuses this caller whatever it says.
    check: Callable[[], None] | None = None
    # The scopes that a service key needs to call it; empty when no key may.
    scopes: Sequence[Scope] = ()
    # Whether the header X-Refresh-Cookie moves the refresh token into a cookie.
    refresh_cookie: bool = False
    errors: tuple[type[ApiError], ...] = ()
    # Calls that do not pass validation are not counted.
    limits: tuple[Limit, ...] = ()

    @property
    def least_role(self) -> Role:
        """The lowest role that may call it now."""
        teachers = self.for_teachers and settings.instructor_rights != "records"
        return Role.INSTRUCTOR if teachers else self.role or Role.STUDENT

    def __call__(self, view: View) -> View:
        act = functools.partial(call_within, self.limits, view) if self.limits else view

        @functools.wraps(view)
        def handle(**arguments: Any) -> Response:
            if self.role:
                bearer.require(self.least_role, self.scopes)
            if self.check:
                self.check()
            if self.refresh_cookie:
                refresh_cookie.check()
            # `<uuid:…>` takes either case and makes objects; views get text in lower case.
            arguments = {name: str(value) for name, value in arguments.items()}
            if self.path_shape:
                fields = _made(self.path_shape).fields
                sent = {camel_case(name): arguments[name] for name in fields}
                arguments |= _load(self.path_shape, sent)
            if self.query:
                # A repeated parameter is a list, so its type is wrong.
                lists = request.args.to_dict(flat=False).items()
                query = {name: found[0] if len(found) == 1 else found for name, found in lists}
                arguments["query"] = _load(self.query, query)
            start = time.monotonic()
            with forms.uploaded_file(self.upload) if self.upload else nullcontext() as file:
                if self.body:
                    arguments["body"] = self._read(self.body)
                elif self.upload:
                    arguments["file"] = file
                else:
                    bodies.discard()
                # While a slow body arrives, the caller's session may end: check the token again.
                if self.role and time.monotonic() - start > STALE_AFTER:
                    bearer.require(self.least_role, self.scopes)
                return _envelope(self, act(**arguments))

        handle.operation = self  # type: ignore[attr-defined]
        self.blueprint.add_url_rule(self.url, view_func=handle, methods=[self.method])
        return handle

    def _read(self, shape: type[Schema]) -> Any:
        most = bodies.MAX_BODY_OF_MANY if self.of_many else bodies.MAX_BODY
        if self.or_text and request.mimetype != JSON:
            return {"text": bodies.text(most)}
        return _load(shape, bodies.json_object(most))


endpoint = Operation  # above a view: `@endpoint(bp, "GET", "/profile", role=…, response=…)`


def init_app(app: Flask) -> None:
    """Take HEAD, which the router adds to each GET, from those that change something."""
    for rule in app.url_map.iter_rules():
        operation: Operation | None
        operation = getattr(app.view_functions[rule.endpoint], "operation", None)
        if operation and operation.writes and rule.methods:
            rule.methods.discard("HEAD")


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


def _envelope(operation: Operation, result: Any) -> Response:
    if isinstance(result, Response):
        return result
    if operation.media_type != JSON:
        return Response(result, content_type=operation.media_type)
    reply = result if isinstance(result, Reply) else Reply(result, operation.status)
    content: dict[str, object] = {"success": True}
    if operation.message:
        content["message"] = operation.message
    shape = _made(operation.response or Schema)
    content["data"] = shape.dump(reply.data)
    more = reply.more and (part for page in reply.more for part in shape.dump(page).values())
    return json_response(content, reply.status, reply.headers, more)
