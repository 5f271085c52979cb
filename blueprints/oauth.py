"""What applications call to sign users in: the end points of an OpenID provider, in the words of
OAuth 2.0 and without our envelope. None looks at a cookie.
"""

import re

import orjson
from flask import Blueprint, Response, request

import errors
from core.id_tokens import ALGORITHM
from extensions import id_tokens, settings
from services import applications, authorization_codes
from services.authorization_codes import OAuthError
from web import bodies

bp = Blueprint("oauth", __name__)
# Scripts of every origin may read what carries no cookie.
_OPEN = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Headers": "Authorization, Content-Type",
    "Access-Control-Max-Age": "600",
}
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# How a client is told to prove itself, by the error.
_CHALLENGES = {"invalid_client": 'Basic realm="accounts"', "invalid_token": "Bearer"}


@bp.before_request
def require_applications() -> None:
    """Answer as if nothing were here where no application is set."""
    if not settings.applications:
        raise errors.NotFound


@bp.after_request
def allow_scripts(response: Response) -> Response:
    is_for_browsers = request.endpoint in ("oauth.authorize", "oauth.end_session")
    if settings.applications and not is_for_browsers:
        response.headers.update(_OPEN)
    return response


@bp.get("/.well-known/openid-configuration")
def get_configuration() -> Response:
    """Return what clients must know (OpenID Connect Discovery 1.0, section 3)."""
    base = f"{settings.public_url}/oauth"
    return _public(
        {
            "issuer": settings.public_url,
            "authorization_endpoint": f"{base}/authorize",
            "token_endpoint": f"{base}/token",
            "userinfo_endpoint": f"{base}/userinfo",
            "end_session_endpoint": f"{base}/logout",
            "jwks_uri": f"{base}/keys",
            "scopes_supported": authorization_codes.SCOPES,
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": ["authorization_code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [ALGORITHM],
            "token_endpoint_auth_methods_supported": [
                *("client_secret_basic", "client_secret_post", "none")
            ],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
            "request_uri_parameter_supported": False,
        }
    )


@bp.get("/oauth/keys")
def get_keys() -> Response:
    """Return the public keys of ID tokens; they sign nothing else."""
    return _public(id_tokens.jwks)


@bp.route("/oauth/authorize", methods=["GET", "POST"])
def authorize() -> Response:
    """Send a browser that comes from an application on to our page, or back with an error."""
    return _see_other(applications.begin(_sent(applications.ASKED)))


@bp.route("/oauth/logout", methods=["GET", "POST"])
def end_session() -> Response:
    """Send a browser whose user leaves an application on to our page, which signs out here too."""
    return _see_other(applications.leave(_sent(applications.LEFT)))


@bp.post("/oauth/token")
def get_tokens() -> Response:
    """Give an application the tokens for its code (RFC 6749, section 4.1.3)."""
    try:
        sent = _sent(authorization_codes.SENT)
        authorization = request.headers.get("Authorization", "")
        return _json(authorization_codes.redeem(sent, authorization))
    except (errors.InvalidRequest, errors.UnsupportedMediaType) as error:
        return _error("invalid_request", str(error))
    except OAuthError as error:
        return _error(error.code, str(error))


@bp.route("/oauth/userinfo", methods=["GET", "POST"])
def get_user_info() -> Response:
    """Return the claims of the user of an application's access token."""
    bodies.discard()
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    try:
        return _json(authorization_codes.user_info(token if scheme.lower() == "bearer" else ""))
    except OAuthError as error:
        return _error(error.code, str(error))


def _sent(names: tuple[str, ...]) -> dict[str, str]:
    """Return what was sent of these; an empty one counts as left out (RFC 6749, section 3.1).

    Raises InvalidRequest, also if one of them came twice or has a control character.
    """
    found = bodies.form()
    sent = {name: found[name] for name in names if name in found}
    for name, values in sent.items():
        if len(values) > 1 or _CONTROL.search(values[0]):
            raise errors.InvalidRequest(f"{name} is there twice, or has a control character.")
    return {name: value for name, (value,) in sent.items() if value}


def _see_other(url: str) -> Response:
    return Response(status=303, headers={"Location": url})


def _public(content: object) -> Response:
    response = _json(content)
    response.cache_control.public = True
    response.cache_control.max_age = 300  # seconds
    response.add_etag()
    response.make_conditional(request)
    return response


def _json(content: object, status: int = 200) -> Response:
    return Response(orjson.dumps(content), status, content_type="application/json")


def _error(code: str, description: str) -> Response:
    """Return an error (RFC 6749, section 5.2; RFC 6750, section 3)."""
    challenge = _CHALLENGES.get(code)
    content = {"error": code, "error_description": description}
    response = _json(content, 401 if challenge else 400)
    if challenge:
        is_bearer = code == "invalid_token" and "Authorization" in request.headers
        response.headers["WWW-Authenticate"] = challenge + f' error="{code}"' * is_bearer
    return response
