"""The OpenAPI document, made from the declarations of the endpoints and their schemas."""

import functools
import inspect
import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import orjson
from apispec import APISpec
from apispec.ext.marshmallow import MarshmallowPlugin
from flask import Flask, Response
from werkzeug.exceptions import default_exceptions
from werkzeug.routing import Rule

import errors
from core.ids import ROW_ID
from core.reasons import WORDS
from core.roles import Role
from extensions import settings
from fields import CustomFields
from schemas import SEEN, camel_case
from web import refresh_cookie
from web.api import CSV, JSON, Operation
from web.bodies import MAX_BODY
from web.forms import NOT_MULTIPART
from web.limits import By

Json: TypeAlias = dict[str, Any]
VERSION = "1.0.0-dev"

DESCRIPTION = f"""
Accounts and logins of a learning platform.

A successful response has `success`, `data`, and often a `message` for people. An error has a
`message` too, and `error` with a stable `code`; `fields` in it names the fields that are wrong, and
`reasons` says the same in stable words.
Ids are UUIDs, times are RFC 3339 in UTC. JSON bodies are objects of at most {MAX_BODY // 1024} KiB
without unknown fields. Space around texts is removed, but not around passwords. Every response has
an `X-Request-ID`; 429 and 503 have a `Retry-After` in seconds, and a refused token the challenge of
RFC 6750. The same API is also available without the prefix `/api`.
"""

TAGS = {
    "auth": "Accounts, tokens, sessions, and mails",
    "providers": "Sign-in with an OpenID provider",
    "applications": "Sign-in to the operator's applications",
    "second_factor": "The caller's second factor",
    "passkeys": "The caller's passkeys, and what a login with one needs",
    "users": "What a user sees and sets, and what others see of a user",
    "records": "Learning records of a user: reading, delivering, removing",
    "learning": "Learning records of all users, in bulk",
    "certificates": "Certificates that their holders share, for everybody who has the code",
    "admin": "The accounts, for admins and service keys; some calls also for teachers",
    "lists": "Lists of people, read and done in one call",
    "activity": "What was done to all accounts, for admins",
    "groups": "Classes and teams: who teaches whom, and what a group has learned",
    "keys": "The service keys, for admins",
    "health": "For supervisors and balancers",
    "metrics": "For monitoring",
}

ROW = {"type": "string", "pattern": f"^{ROW_ID}$", "format": "uuid"}
COOKIE_PARAMETER = {
    "description": (
        "Moves the refresh token into a cookie that scripts cannot read: `__Host-refresh`, or "
        "`refresh` without https. `refreshToken` in the response is empty. `1` keeps the cookie as "
        "long as the session lives, `session` until the browser is closed. Browsers send it only "
        "for pages of the service's own origin and of those in `CORS_ORIGINS`."
    ),
    "schema": {"type": "string", "enum": [*refresh_cookie.WISHES]},
}


def init_app(app: Flask) -> None:
    document = functools.cache(lambda: orjson.dumps(build(app)))

    @app.get("/openapi.json")
    def openapi() -> Response:
        return app.response_class(document(), mimetype="application/json")


def build(app: Flask) -> Json:
    """Return the OpenAPI 3.1 document of all declared endpoints."""
    marshmallow = MarshmallowPlugin()
    spec = APISpec(
        title="Accounts",
        version=VERSION,
        openapi_version="3.1.0",
        info={"description": DESCRIPTION.strip(), "license": {"name": "MIT", "identifier": "MIT"}},
        servers=[{"url": urlsplit(settings.public_url).path or "/"}],
        tags=[{"name": name, "description": text} for name, text in TAGS.items()],
        plugins=[marshmallow],
    )
    for adapt in (_no_default, _custom_fields):
        marshmallow.converter.add_attribute_function(adapt)  # type: ignore[union-attr]
    spec.components.schema("CustomFields", _all_custom_fields())
    bearer = {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}
    spec.components.security_scheme("bearer", bearer)
    key = {"type": "http", "scheme": "bearer", "description": "A service key: `acsk_…`."}
    spec.components.security_scheme("serviceKey", key)
    spec.components.parameter(refresh_cookie.HEADER, "header", COOKIE_PARAMETER)
    _add_error(spec)
    for rule, path, operation in declared(app):
        view = app.view_functions[rule.endpoint]
        tag, _, name = rule.endpoint.rpartition(".")
        described = _describe(spec, operation, inspect.getdoc(view) or "")
        described |= {"operationId": camel_case(name), "tags": [tag]}
        shaped = operation.path_shape().fields if operation.path_shape else {}
        parameters: list[Any] = [
            {"name": camel_case(name), "in": "path", "required": True, "schema": ROW}
            for name in sorted(rule.arguments - {*shaped})
        ]
        shapes = {"path": operation.path_shape, "query": operation.query}
        parameters += [{"in": place, "schema": shape} for place, shape in shapes.items() if shape]
        if operation.refresh_cookie:
            parameters.append(refresh_cookie.HEADER)
        if parameters:
            described["parameters"] = parameters
        spec.path(path=path, operations={operation.method.lower(): described})
    return spec.to_dict()


def declared(app: Flask) -> Iterator[tuple[Rule, str, Operation]]:
    """Yield each endpoint: its rule, its path as the document writes it, and its declaration."""
    for rule in app.url_map.iter_rules():
        operation: Operation | None
        operation = getattr(app.view_functions[rule.endpoint], "operation", None)
        if operation and rule.endpoint.partition(".")[0] in TAGS:
            path = re.sub(r"<(?:\w+:)?(\w+)>", lambda name: f"{{{camel_case(name[1])}}}", rule.rule)
            yield rule, path, operation


def _no_default(_converter: object, _field: object, ret: Json) -> Json:
    # Generated clients would demand the property, which may be left out.
    ret.pop("default", None)
    return {}


def _custom_fields(_converter: object, field: object, ret: Json) -> Json:
    if not isinstance(field, CustomFields):
        return {}
    ret.clear()
    # A client may be older than a field; what it sends must be one of them.
    ref = _ref("CustomFields")
    return ref if field.attribute == SEEN else {"allOf": [ref], "unevaluatedProperties": False}


def _all_custom_fields() -> Json:
    """Return the schema of the custom fields of this installation; which come differs by reader."""
    kinds, properties = {"number": "integer", "boolean": "boolean"}, {}
    for field in settings.custom_fields:
        # What the settings do not allow any more stays where it is: so, neither `enum` nor bounds.
        choices = f" One of: {', '.join(field.choices)}." if field.choices else ""
        about = {"description": f"{field.title}.{choices}"}
        properties[field.name] = {"type": [kinds.get(field.type, "string"), "null"], **about}
    return {"type": "object", "properties": properties}


def _describe(spec: APISpec, operation: Operation, text: str) -> Json:
    summary, _, description = text.partition("\n\n")
    described: Json = {"summary": summary, "security": []}
    described["responses"] = _responses(spec, operation)
    if description := "\n\n".join(filter(None, (description, _limits(operation)))):
        described["description"] = description
    if operation.role:
        # OpenAPI 3.1 lets a bearer scheme name the roles that it takes; none for any role.
        allowed = [role for role in Role if role.includes(operation.least_role)]
        described["security"] = [{"bearer": [] if len(allowed) == len(Role) else allowed}]
        if operation.scopes:
            described["security"].append({"serviceKey": [*operation.scopes]})
    if operation.body:
        or_text = {CSV: {"schema": {"type": "string"}}} if operation.or_text else {}
        described["requestBody"] = {"required": True, "content": _json(operation.body) | or_text}
    if operation.upload:
        file = {operation.upload: {"type": "string", "format": "binary"}}
        form = {"schema": _object(file) | {"additionalProperties": False}}
        described["requestBody"] = {"required": True, "content": {"multipart/form-data": form}}
    return described


def _limits(operation: Operation) -> str:
    limits = []
    for limit in operation.limits:
        whose = " from one client IP" if By.IP in limit.by else ""
        limits.append(f"{limit.name}{whose}, {limit.rate}")
    return f"Limits: {'; '.join(limits)}." if limits else ""


def _responses(spec: APISpec, operation: Operation) -> Json:
    responses: Json = {
        str(status): {
            "description": operation.message or HTTPStatus(status).phrase,
            "content": _content(spec, operation),
        }
        for status in successes(operation)
    }
    possible = possible_errors(operation)
    for status in sorted({kind.status for kind in possible}):
        text = _codes(possible, status)
        if operation.upload:
            text = text.replace(errors.UnsupportedMediaType.message, NOT_MULTIPART)
        responses[str(status)] = _ref(_failure(spec, status), "responses")
        if text != _usual(status):
            # It replaces the description of the named response.
            responses[str(status)]["description"] = text
    return responses


def _content(spec: APISpec, operation: Operation) -> Json:
    text = {"schema": {"type": "string"}}
    if operation.media_type != JSON:
        return {operation.media_type.partition(";")[0]: text}
    return _json(_ref(_envelope(spec, operation))) | ({CSV: text} if operation.or_csv else {})


def successes(operation: Operation) -> list[int]:
    return [operation.status, *([HTTPStatus.CREATED.value] if operation.creates else [])]


def possible_errors(operation: Operation) -> list[type[errors.ApiError]]:
    """Return all errors that an endpoint can return, declared ones and those of its kind."""
    # Each endpoint refuses a body that is cut off or too large, also where it uses none.
    kinds = [*operation.errors, errors.TooLarge, errors.InvalidRequest]
    if operation.body or operation.upload:
        kinds.append(errors.UnsupportedMediaType)
    if operation.role:
        kinds += [*errors.BAD_TOKEN, errors.Forbidden]
    if operation.role not in (None, Role.STUDENT):
        kinds.append(errors.RoleNeedsFactor)
    if operation.limits:
        kinds.append(errors.TooManyRequests)
    if operation.body or operation.role or operation.limits:  # then it needs the database
        kinds.append(errors.Unavailable)
    kinds.append(errors.InternalError)
    known = [kind for each in errors.all_errors() for kind in (each, *each.__subclasses__())]
    return [kind for kind in known if kind in kinds]


def _envelope(spec: APISpec, operation: Operation) -> str:
    """Return the name of the schema of a success. Adds it, if it is new."""
    data = operation.response.__name__ if operation.response else "Empty"
    name = f"{data}EnvelopeWithMessage" if operation.message else f"{data}Envelope"
    if data not in spec.components.schemas:
        empty = None if operation.response else {"type": "object", "maxProperties": 0}
        spec.components.schema(data, empty, schema=operation.response)
    if name not in spec.components.schemas:
        message = {"message": {"type": "string"}} if operation.message else {}
        properties = {"success": {"const": True}, **message, "data": _ref(data)}
        spec.components.schema(name, _object(properties))
    return name


def _failure(spec: APISpec, status: int) -> str:
    """Return the name of the response to all errors of a status. Adds it, if it is new."""
    name = default_exceptions[status].__name__
    if name not in spec.components.responses:
        content = _json(_ref("Error"))
        spec.components.response(name, {"description": _usual(status), "content": content})
    return name


def _usual(status: int) -> str:
    """Return what the most calls tell of a status: the text of its named response."""
    usual = (errors.InvalidRequest, *errors.BAD_TOKEN, errors.RoleNeedsFactor, errors.Forbidden)
    return _codes([*usual], status) or _codes(errors.all_errors(), status)


def _add_error(spec: APISpec) -> None:
    code = {"type": "string", "enum": [kind.code for kind in errors.all_errors()]}
    text = {"type": "string"}
    spec.components.schema("Reason", {**text, "enum": [*WORDS]})
    fields = _by_field(text, "What is wrong with single fields: lists of sentences by name.")
    reasons = _by_field(_ref("Reason"), "The same in words for programs.")
    email = {**text, "description": "At a login with `provider` alone: its address."}
    detail = {"code": code, "fields": fields, "reasons": reasons, "email": email}
    spec.components.schema("ErrorDetail", _object(detail) | {"required": ["code"]})
    envelope = {"success": {"const": False}, "message": {"type": "string"}}
    spec.components.schema("Error", _object({**envelope, "error": _ref("ErrorDetail")}))


def _by_field(text: Json, description: str) -> Json:
    texts = {"type": "array", "items": text}
    # Of an object in a body, they are by the names of its own fields.
    found = {"anyOf": [texts, {"type": "object", "additionalProperties": texts}]}
    return {"type": "object", "additionalProperties": found, "description": description}


def _codes(kinds: list[type[errors.ApiError]], status: int) -> str:
    return " ".join(f"`{kind.code}`: {kind.message}" for kind in kinds if kind.status == status)


def _object(properties: Json) -> Json:
    return {"type": "object", "required": [*properties], "properties": properties}


def _ref(name: str, kind: str = "schemas") -> dict[str, str]:
    return {"$ref": f"#/components/{kind}/{name}"}


def _json(schema: Any) -> Json:
    return {"application/json": {"schema": schema}}
