"""The guard: an access token, read by Flask-JWT-Extended, or a service key (RFC 6750)."""

from collections.abc import Mapping
from typing import Any, cast

from flask import Flask, Response, has_request_context, request
from flask_jwt_extended import JWTManager, decode_token

import errors
from core import audit, clock
from core.audit import Actor
from core.roles import BUT_ADMINS, EVERYBODY, NOBODY, STUDENTS, Reach, Role
from core.scopes import KEY_PREFIX, Scope
from core.tokens import Purpose, TokenCodec, TokenExpired, TokenInvalid
from extensions import Components, components, settings
from models import Caller, UserRow
from web import caller as client
from web.error_handlers import render


class BearerTokens(JWTManager):
    """Flask-JWT-Extended with our own codec; its own takes tokens without `type` or `exp`."""

    codec: TokenCodec

    def _decode_jwt_from_config(
        self, encoded_token: str, csrf_value: Any = None, allow_expired: bool = False
    ) -> dict[str, Any]:
        try:
            return dict(self.codec.decode(Purpose.ACCESS, encoded_token))
        except TokenInvalid:
            raise errors.TokenInvalid from None
        except TokenExpired:
            raise errors.TokenExpired from None


def init_app(app: Flask, parts: Components) -> None:
    tokens = (errors.TokenMissing, errors.TokenInvalid, errors.TokenExpired, errors.TokenRevoked)
    for kind in (*tokens, errors.Forbidden):
        app.register_error_handler(kind, _render)
    BearerTokens(app).codec = parts.tokens  # looking it up would cost each request 2 µs


def require(role: Role, scope: Scope | None) -> None:
    """Require the token of an active user with this role or a higher one, or a key with this scope.

    No key may call where the scope is None. The role is that of the user's row, not the one in the
    token. Raises Forbidden, TokenMissing, TokenInvalid, TokenExpired or TokenRevoked.
    """
    # The extension's own reader accepts one spelling of the scheme, takes a token out of a list of
    # credentials, and costs 75 microseconds more.
    environ = request.environ
    environ["accounts.guarded"] = True
    scheme, *token = environ.get("HTTP_AUTHORIZATION", "").split() or [""]
    if scheme.lower() != "bearer":
        raise errors.TokenMissing
    if len(token) != 1:
        raise errors.TokenInvalid
    if token[0].startswith(KEY_PREFIX):
        _require_scope(token[0], scope)
        return
    environ["accounts.claims"] = claims = decode_token(token[0])
    environ["accounts.user_id"] = claims["sub"]  # for the logs, also when it is refused
    row = components().load_user(claims["sub"], claims["sid"])
    environ["accounts.user"] = row
    if row is None:
        raise errors.TokenRevoked
    if not Role(row.role).includes(role):
        if Role(row.granted_role).includes(role):
            raise errors.RoleNeedsFactor
        raise errors.Forbidden


def _require_scope(key: str, scope: Scope | None) -> None:
    environ = request.environ
    environ["accounts.key"] = row = components().load_key(key)
    environ["accounts.user_id"] = f"key:{row.id}" if row else "-"
    if row is None:
        raise errors.TokenInvalid("This service key is unknown or was revoked.")
    if row.expires_at and row.expires_at <= clock.utcnow():
        raise errors.TokenExpired("This service key has expired. Replace it by a new one.")
    if scope not in row.scopes.split():  # None is in no list
        raise errors.Forbidden


def is_guarded() -> bool:
    """Return whether this request needed a token, or a service key."""
    return "accounts.guarded" in request.environ


def is_key() -> bool:
    return "accounts.key" in request.environ


def reach(
    *, admins: Reach = EVERYBODY, instructors: Reach = STUDENTS, role: str | None = None
) -> Reach:
    """Return whose accounts the caller may manage, by default in the role in effect.

    `instructors` is what they reach where they need no group for it.
    """
    if is_key():
        return BUT_ADMINS
    role = role or user().role
    if role != Role.INSTRUCTOR:
        return admins if role == Role.ADMIN else NOBODY
    in_groups = settings.instructor_rights == "groups"
    return STUDENTS._replace(teacher=user().id) if in_groups else instructors


def member() -> str | None:
    """Return the id of the user in whose groups the caller sees; None sees all groups."""
    return None if is_key() or user().role == Role.ADMIN else user().id


def caller_id() -> str:
    """Return the id of the user who calls, or `key:` and the id of the service key."""
    return cast("str", request.environ["accounts.user_id"])


def actor() -> Actor:
    """Return who acts now, and from where; outside of a request, the machine."""
    if not has_request_context():
        return audit.MACHINE
    who = request.environ.get("accounts.user_id", "")
    return Actor(who, client.ip_address(), client.network())


def user() -> UserRow:
    """Return the row of the user whose token this request carries."""
    return cast("UserRow", request.environ["accounts.user"])


def claims() -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", request.environ["accounts.claims"])


def caller() -> Caller:
    """Return the user whose token this request carries, with its session."""
    return Caller(user(), claims()["sid"])


def _render(error: errors.ApiError) -> Response:
    if is_key():
        audit.log("service_key_refused", caller_id(), reason=error.code)
    # A refresh token is not sent as a bearer token, so its errors carry no challenge.
    guarded = error.status == 401 and is_guarded()
    return _challenge(error) if guarded else render(error)


def _challenge(error: errors.ApiError) -> Response:
    challenge = "Bearer"
    if not isinstance(error, errors.TokenMissing):  # RFC 6750, section 3: no error without a token
        challenge += f' error="invalid_token", error_description="{error}"'
    return render(error, {"WWW-Authenticate": challenge})
