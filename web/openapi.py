"""The OpenAPI document, made from the declarations of the endpoints and their schemas."""

import functools
import inspect
import re
from collections import defaultdict
from http import HTTPStatus
from typing import Any

import orjson
from apispec import APISpec
from apispec.ext.marshmallow import MarshmallowPlugin
from flask import Flask, Response
from marshmallow import Schema

import errors
from core.ids import ROW_ID
from core.roles import Role
from schemas import camel_case
from web.api import Operation
from web.bodies import MAX_BODY
from web.limits import By

VERSION = "1.0.0"

DESCRIPTION = f"""
Accounts and logins of a learning platform.

Every answer is an envelope: `success`, mostly a `message` for people, and `data`; or, where
something is wrong, `error` with a stable `code` and, where single fields are at fault, `fields`.
Ids are UUIDs, times are RFC 3339 in UTC. JSON bodies are objects of at most {MAX_BODY // 1024} KiB
without unknown fields; text is trimmed, passwords are not. Every answer carries `X-Request-ID`.
The same API also answers without the prefix `/api`.
"""

TAGS = {
    "auth": "Accounts, tokens, sessions, and mails",
    "users": "What a user sees and sets, and what others see of a user",
    "records": "Learning records, as the course system delivers them",
    "admin": "The accounts, for admins",
    "health": "For supervisors and balancers",
}


def init_app(app: Flask) -> None:
    """Serve the document at /openapi.json."""

    @functools.cache
    def document() -> bytes:
        return orjson.dumps(build(app))

    @app.get("/openapi.json")
    def openapi() -> Response:
        return app.response_class(document(), mimetype="application/json")


def build(app: Flask) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of all declared endpoints, in their canonical form."""
    spec = APISpec(
        title="Accounts",
        version=VERSION,
        openapi_version="3.1.0",
        info={"description": DESCRIPTION.strip()},
        # Relative to the document, so that it is right wherever the service is reached.
        servers=[{"url": "."}],
        tags=[{"name": name, "description": text} for name, text in TAGS.items()],
        plugins=[MarshmallowPlugin(schema_name_resolver=_schema_name)],
    )
    spec.components.security_scheme(
        "bearer", {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}
    )
    for rule in app.url_map.iter_rules():
        view = app.view_functions[rule.endpoint]
        operation: Operation | None = getattr(view, "operation", None)
        tag, _, name = rule.endpoint.rpartition(".")
        if operation is None or tag not in TAGS:
            continue
        method = next(iter((rule.methods or set()) - {"HEAD", "OPTIONS"})).lower()
        path = re.sub(r"<(?:\w+:)?(\w+)>", lambda match: f"{{{camel_case(match[1])}}}", rule.rule)
        described = _describe(operation, inspect.getdoc(view) or "")
        described |= {"operationId": camel_case(name), "tags": [tag]}
        shaped = operation.path_shape().fields if operation.path_shape else {}
        parameters: list[Any] = [_row_id(name) for name in sorted(rule.arguments - {*shaped})]
        if operation.path_shape:
            parameters.append({"in": "path", "schema": operation.path_shape})
        if operation.query:
            parameters.append({"in": "query", "schema": operation.query})
        if parameters:
            described["parameters"] = parameters
        spec.path(path=path, operations={method: described})
    return spec.to_dict()


def _describe(operation: Operation, text: str) -> dict[str, Any]:
    summary, _, description = text.partition("\n\n")
    described: dict[str, Any] = {"summary": summary, "responses": _responses(operation)}
    if operation.limits:
        description = "\n\n".join(filter(None, (description, _limits(operation))))
    if description:
        described["description"] = description
    if operation.role:
        # OpenAPI 3.1 lets a bearer scheme name the roles that it takes; none for any role.
        least = [role for role in Role if role.includes(operation.role)]
        described["security"] = [{"bearer": [] if len(least) == len(Role) else least}]
    content: dict[str, Any] = {}
    if operation.body:
        content = {"application/json": {"schema": operation.body}}
    if operation.upload:
        content = {"multipart/form-data": {"schema": _form(operation.upload)}}
    if content:
        described["requestBody"] = {"required": True, "content": content}
    return described


def _limits(operation: Operation) -> str:
    sentences = []
    for limit in operation.limits:
        whose = "" if limit.by is By.ACCOUNT else " from one client IP"
        beyond = "; beyond it, nothing is sent" if limit.silent else ""
        sentences.append(f"At most {limit.rate}: {limit.things}{whose}{beyond}.")
    return " ".join(sentences)


def _form(name: str) -> dict[str, Any]:
    return {
        "type": "object",
        "required": [name],
        "properties": {name: {"type": "string", "format": "binary"}},
        "additionalProperties": False,
    }


def _responses(operation: Operation) -> dict[str, Any]:
    by_status: dict[int, list[type[errors.ApiError]]] = defaultdict(list)
    for error in possible_errors(operation):
        by_status[error.status].append(error)
    responses = {
        str(status): {
            "description": operation.message or HTTPStatus(status).phrase,
            "headers": _headers(),
            "content": {"application/json": {"schema": _success(operation)}},
        }
        for status in successes(operation)
    }
    for status, kinds in sorted(by_status.items()):
        extra = ["Retry-After"] if any(kind.retry_after for kind in kinds) else []
        if operation.role and status == HTTPStatus.UNAUTHORIZED:
            extra.append("WWW-Authenticate")
        responses[str(status)] = {
            "description": " ".join(f"`{kind.code}`: {kind.message}" for kind in kinds),
            "headers": _headers(*extra),
            "content": {"application/json": {"schema": _failure(kinds)}},
        }
    return responses


def successes(operation: Operation) -> list[int]:
    """Return the statuses that an endpoint answers a success with."""
    return [operation.status, *([HTTPStatus.CREATED.value] if operation.creates else [])]


def possible_errors(operation: Operation) -> list[type[errors.ApiError]]:
    """Return all errors that an endpoint can answer with, declared ones and those of its kind."""
    kinds = [*operation.errors]
    if operation.body or operation.upload:
        kinds.append(errors.UnsupportedMediaType)
    if operation.method != "GET":  # a body that is cut off or too large, also where none is used
        kinds += [errors.TooLarge, errors.InvalidRequest]
    if operation.path_shape or operation.query:
        kinds.append(errors.InvalidRequest)
    if operation.role:
        kinds += [errors.TokenMissing, errors.TokenInvalid]
        kinds += [errors.TokenExpired, errors.TokenRevoked]
        if operation.role is not Role.STUDENT:
            kinds.append(errors.Forbidden)
    if any(not limit.silent for limit in operation.limits):
        kinds.append(errors.TooManyRequests)
    if operation.body or operation.role:  # then it needs the database
        kinds.append(errors.Unavailable)
    kinds.append(errors.InternalError)
    return [kind for kind in errors.all_errors() if kind in kinds]


def _success(operation: Operation) -> dict[str, Any]:
    properties: dict[str, Any] = {"success": {"const": True}}
    if operation.message:
        properties["message"] = {"type": "string"}
    properties["data"] = operation.answer or {"type": "object", "maxProperties": 0}
    return {"type": "object", "required": [*properties], "properties": properties}


def _failure(kinds: list[type[errors.ApiError]]) -> dict[str, Any]:
    detail = {
        "type": "object",
        "required": ["code"],
        "properties": {
            "code": {"type": "string", "enum": [kind.code for kind in kinds]},
            "fields": {
                "type": "object",
                "description": "What is wrong with single fields: lists of sentences by name.",
            },
        },
    }
    return {
        "type": "object",
        "required": ["success", "message", "error"],
        "properties": {
            "success": {"const": False},
            "message": {"type": "string"},
            "error": detail,
        },
    }


def _headers(*extra: str) -> dict[str, Any]:
    texts = {
        "X-Request-ID": "Names this request in the log.",
        "Retry-After": "Seconds to wait before the next try.",
        "WWW-Authenticate": "The challenge of RFC 6750.",
    }
    return {
        name: {"description": texts[name], "required": True, "schema": {"type": "string"}}
        for name in ("X-Request-ID", *extra)
    }


def _row_id(name: str) -> dict[str, Any]:
    return {
        "name": camel_case(name),
        "in": "path",
        "required": True,
        "schema": {"type": "string", "pattern": f"^{ROW_ID}$", "format": "uuid"},
    }


def _schema_name(schema: type[Schema] | Schema) -> str:
    cls = schema if isinstance(schema, type) else type(schema)
    return cls.__name__
