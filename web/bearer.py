"""The guard: a bearer token in the Authorization header (RFC 6750), read by Flask-JWT-Extended."""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import jwt
from flask import Flask, Response, current_app, g, request
from flask_jwt_extended import JWTManager, current_user, get_jwt, verify_jwt_in_request

import errors
from core.roles import Role
from core.tokens import Purpose, TokenExpired, TokenInvalid
from extensions import tokens
from web.errors import render


class Bearer(NamedTuple):
    """Who calls: the row of the active user, and what the token says."""

    user: Any
    claims: dict[str, Any]


class BearerTokens(JWTManager):
    """Flask-JWT-Extended with our own codec.

    Its own decoder takes a token without a type for an access token, and one without `exp` or
    `jti` for a good one. The codec refuses those, and it is the same one that reads all other
    tokens, so that no two readers can disagree.
    """

    def _decode_jwt_from_config(
        self, encoded_token: str, csrf_value: Any = None, allow_expired: bool = False
    ) -> dict[str, Any]:
        try:
            return tokens.decode(Purpose.ACCESS, encoded_token)
        except TokenInvalid as error:
            raise jwt.InvalidTokenError from error
        except TokenExpired as error:
            expired: Any = jwt.ExpiredSignatureError()
            # The extension's handler passes these on to the loader below.
            expired.jwt_header = expired.jwt_data = {}
            raise expired from error


def init_app(app: Flask, find_bearer: Callable[[str, str], Any]) -> None:
    """Guard the application.

    `find_bearer(user_id, session_id)` returns the active user whose session stands, or None.
    """
    app.extensions["find_bearer"] = find_bearer
    manager = BearerTokens(app)
    manager.user_lookup_loader(lambda _header, claims: find_bearer(claims["sub"], claims["sid"]))
    app.register_error_handler(errors.TokenRevoked, _from_service)
    manager.unauthorized_loader(_answer(errors.TokenMissing))
    manager.invalid_token_loader(_answer(errors.TokenInvalid))
    manager.expired_token_loader(_answer(errors.TokenExpired))
    manager.user_lookup_error_loader(_answer(errors.TokenRevoked))
    # Nothing here makes these three happen. They are set so that nothing ever answers in
    # another shape.
    manager.revoked_token_loader(_answer(errors.TokenRevoked))
    manager.needs_fresh_token_loader(_answer(errors.TokenInvalid))
    manager.token_verification_failed_loader(_answer(errors.TokenInvalid))


def require(role: Role) -> None:
    """Let only a live access token of somebody with this role pass, or with one that includes it.

    `user()` and `claims()` are the token's from then on. Whatever is wrong with it becomes a 401 by
    way of the loaders. The role is that of the user's row, not the one in the token. Raises
    Forbidden.
    """
    scheme, _, token = request.environ.get("HTTP_AUTHORIZATION", "").partition(" ")
    bearer = _read(token) if scheme.lower() == "bearer" else None
    if bearer is None:
        if scheme.lower() == "bearer":  # RFC 9110: a scheme has no case; the extension's has
            request.environ["HTTP_AUTHORIZATION"] = f"Bearer {token}"
        verify_jwt_in_request()
        bearer = Bearer(current_user._get_current_object(), get_jwt())
    g.bearer, g.user_id = bearer, bearer.claims["sub"]
    if not Role(bearer.user.role).includes(role):
        raise errors.Forbidden


def _read(token: str) -> Bearer | None:
    """Return whose a good token is; None for any other, which is for the extension to judge.

    The extension reads a token twice, and asks the configuration some thirty times: it takes longer
    than the query for the user. Raises TokenRevoked.
    """
    extensions = current_app.extensions
    try:
        claims = extensions["tokens"].decode(Purpose.ACCESS, token)
    except (TokenInvalid, TokenExpired):
        return None
    user = extensions["find_bearer"](claims["sub"], claims["sid"])
    if user is None:
        g.user_id = claims["sub"]
        raise errors.TokenRevoked
    return Bearer(user, claims)


def user() -> Any:
    """Return the row of the user whose token this request carries."""
    return g.bearer.user


def claims() -> dict[str, Any]:
    """Return what that token says."""
    return cast("dict[str, Any]", g.bearer.claims)


def _from_service(error: errors.ApiError) -> Response:
    """Answer for a token that was revoked after the guard had let it pass; or for a refresh token,
    which is not sent as a bearer."""
    return _answer(errors.TokenRevoked)() if "user_id" in g else render(error)


def _answer(kind: type[errors.ApiError]) -> Callable[..., Response]:
    challenge = "Bearer"
    if kind is not errors.TokenMissing:  # RFC 6750, section 3: no error without a token
        challenge += f' error="invalid_token", error_description="{kind.message}"'

    def answer(*_details: Any) -> Response:
        return render(kind(), {"WWW-Authenticate": challenge})

    return answer
