"""The guard: an access token in the Authorization header (RFC 6750), read by Flask-JWT-Extended."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import jwt
from flask import Flask, Response, current_app, g, request
from flask_jwt_extended import JWTManager, decode_token

import errors
from core.roles import Role
from core.tokens import Purpose, TokenExpired, TokenInvalid
from extensions import tokens
from web.errors import render


class Bearer(NamedTuple):
    """Who calls: the row of the active user, and what the token says."""

    user: Any
    claims: Mapping[str, Any]


class BearerTokens(JWTManager):
    """Flask-JWT-Extended with our own codec.

    Its own decoder accepts a token without a type as an access token, and one without `exp` or
    `jti` as a valid one; its callbacks see a token only after that. Our codec refuses those, and
    remembers the tokens that it has verified.
    """

    def _decode_jwt_from_config(
        self, encoded_token: str, csrf_value: Any = None, allow_expired: bool = False
    ) -> dict[str, Any]:
        try:
            return dict(tokens.decode(Purpose.ACCESS, encoded_token))
        except TokenInvalid as error:
            raise jwt.InvalidTokenError from error
        except TokenExpired as error:
            expired: Any = jwt.ExpiredSignatureError()
            expired.jwt_header = expired.jwt_data = {}  # the extension's handler reads them
            raise expired from error


def init_app(app: Flask, load_user: Callable[[str, str], Any]) -> None:
    """Guard the application.

    `load_user(user_id, session_id)` returns the active user whose session has not ended, or None.
    """
    app.extensions["load_user"] = load_user
    manager = BearerTokens(app)
    manager.user_lookup_loader(lambda _header, claims: load_user(claims["sub"], claims["sid"]))
    for loader, kind in (
        (manager.unauthorized_loader, errors.TokenMissing),
        (manager.invalid_token_loader, errors.TokenInvalid),
        (manager.expired_token_loader, errors.TokenExpired),
        (manager.user_lookup_error_loader, errors.TokenRevoked),
        # We use nothing that triggers these three. They are set so that even an unexpected call
        # keeps our error shape.
        (manager.revoked_token_loader, errors.TokenRevoked),
        (manager.needs_fresh_token_loader, errors.TokenInvalid),
        (manager.token_verification_failed_loader, errors.TokenInvalid),
    ):
        loader(lambda *_details, kind=kind: _challenge(kind()))
        app.register_error_handler(kind, _render)


def require(role: Role) -> None:
    """Let a request pass whose live access token is of a user with this role, or a higher one.

    `user()` and `claims()` are available afterwards. The role is that of the user's row, not the
    one in the token. Raises Forbidden, and a 401 with a challenge for a missing or bad token.

    The header is read here and not by the extension's `verify_jwt_in_request`. That one accepts a
    single spelling of the scheme, takes a token out of a list of credentials, and parses the header
    of every token again, for 75 of the 250 microseconds that a request would then take.
    """
    g.guarded = True
    scheme, *token = request.environ.get("HTTP_AUTHORIZATION", "").split() or [""]
    if scheme.lower() != "bearer":
        raise errors.TokenMissing
    if len(token) != 1:
        raise errors.TokenInvalid
    claims = decode_token(token[0])
    g.user_id = claims["sub"]
    user = current_app.extensions["load_user"](claims["sub"], claims["sid"])
    if user is None:
        raise errors.TokenRevoked
    g.bearer = Bearer(user, claims)
    if not Role(user.role).includes(role):
        raise errors.Forbidden


def user() -> Any:
    """Return the row of the user whose token this request carries."""
    return g.bearer.user


def claims() -> Mapping[str, Any]:
    """Return what that token says."""
    return cast("Mapping[str, Any]", g.bearer.claims)


def _render(error: errors.ApiError) -> Response:
    # A refresh token is not sent as a bearer token, so its errors carry no challenge.
    return _challenge(error) if "guarded" in g else render(error)


def _challenge(error: errors.ApiError) -> Response:
    challenge = "Bearer"
    if not isinstance(error, errors.TokenMissing):  # RFC 6750, section 3: no error without a token
        challenge += f' error="invalid_token", error_description="{error.message}"'
    return render(error, {"WWW-Authenticate": challenge})
