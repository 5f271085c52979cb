"""The guard: an access token, read by Flask-JWT-Extended, or a service key (RFC 6750)."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast

from flask import Flask, Response, has_request_context, request
from flask_jwt_extended import JWTManager, decode_token

import errors
from callers import Caller
from core import audit, clock
from core.audit import Actor
from core.roles import Role
from core.scopes import KEY, KEY_PREFIX, Scope
from core.tokens import Purpose, TokenCodec, TokenExpired, TokenInvalid
from extensions import Components, components
from models import UserRow
from web import client
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
    for kind in (*errors.BAD_TOKEN, errors.Forbidden):
        app.register_error_handler(kind, _render)
    BearerTokens(app).codec = parts.tokens  # looking it up would cost each request 2 µs


def require(role: Role, scopes: Sequence[Scope]) -> None:
    """Require the token of an active user with this role or a higher one, or a key with all scopes.

    No key may call where there are none. The role is that of the user's row, not the one in the
    token. Raises Forbidden, TokenMissing, TokenInvalid, TokenExpired or TokenRevoked.
    """
    # The extension's own reader accepts one spelling of the scheme, takes a token out of a list of
    # credentials, and costs 75 microseconds more.
    request.environ["accounts.user_id"] = ""
    sent = request.environ.get("HTTP_AUTHORIZATION", "").split(" ")  # at no other white space
    scheme, *token = [*filter(None, sent)] or [""]
    if scheme.lower() != "bearer":
        raise errors.TokenMissing
    if len(token) != 1:
        raise errors.TokenInvalid
    is_key = token[0].startswith(KEY_PREFIX)
    who = _of_key(token[0], scopes) if is_key else _of_token(token[0], role)
    request.environ["accounts.caller"] = who


def _of_token(token: str, role: Role) -> Caller:
    claims = decode_token(token)
    request.environ["accounts.user_id"] = claims["sub"]  # for the logs, also when it is refused
    row = components().load_user(claims["sub"], claims["sid"])
    if row is None:
        raise errors.TokenRevoked
    if not Role(row.role).includes(role):
        if Role(row.granted_role).includes(role):
            raise errors.RoleNeedsFactor
        raise errors.Forbidden
    return Caller(row.id, row, claims)


def _of_key(key: str, scopes: Sequence[Scope]) -> Caller:
    row = components().load_key(key)
    request.environ["accounts.user_id"] = f"{KEY}{row.id}" if row else "-"
    if row is None:
        raise errors.TokenInvalid("This service key is unknown or was revoked.")
    if row.expires_at and row.expires_at <= clock.utcnow():
        raise errors.TokenExpired("This service key has expired. Replace it by a new one.")
    held = row.scopes.split()
    if not scopes or not {*scopes} <= {*held}:
        raise errors.Forbidden
    return Caller(f"{KEY}{row.id}", cast("UserRow", None), {}, held)


def caller() -> Caller:
    """Return who calls, where a token or a service key is needed."""
    return cast("Caller", request.environ["accounts.caller"])


def caller_if_any() -> Caller | None:
    return cast("Caller | None", request.environ.get("accounts.caller"))


def comes_from(user_id: str) -> bool:
    """Return whether a call that needs no token has a valid one of this user all the same. That of
    another user counts for nothing, also in the history.
    """
    with suppress(errors.ApiError):
        require(Role.STUDENT, ())
    me = request.environ.pop("accounts.caller", None)
    return me is not None and me.id == user_id


def actor() -> Actor:
    """Return who acts now, and from where; outside of a request, the machine."""
    if not has_request_context():
        return audit.MACHINE
    who = caller_if_any()
    return Actor(who.id if who else "", client.ip_address(), client.network())


def _render(error: errors.ApiError) -> Response:
    who = request.environ.get("accounts.user_id")  # None where none is needed, "-" of no known key
    if who and who.startswith((KEY, "-")):
        audit.log("service_key_refused", who, reason=error.code)
    if error.status != 401 or who is None:
        return render(error)  # a refresh token is no bearer token: its errors carry no challenge
    challenge = "Bearer"
    if not isinstance(error, errors.TokenMissing):  # RFC 6750, section 3: no error without a token
        challenge += f' error="invalid_token", error_description="{error}"'
    return render(error, {"WWW-Authenticate": challenge})
