"""What applications call to sign users in: the end points of an OpenID provider, in the words of
OAuth 2.0 and without our envelope. None looks at a cookie.
"""

import re
from collections.abc import Callable

from flask import Blueprint, Response, request

import errors
from core.id_tokens import ALGORITHM
from extensions import id_tokens, settings
from services import applications, authorization_codes
from services.authorization_codes import OAuthError
from web import bodies, forms
from web.responses import json_response, public_json

bp = Blueprint("oauth", __name__)
# Scripts of every origin may read what carries no cookie.
_FOR_SCRIPTS = (
    *("/.well-known/openid-configuration", "/oauth/keys"),
    *("/oauth/token", "/oauth/userinfo"),
)
_OPEN = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Headers": "Authorization, Content-Type",
    "Access-Control-Max-Age": "600",
}
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# How a client may prove itself.
_PROOFS = ("client_secret_basic", "client_secret_post", "none")
# How a client is told to prove itself, by the error.
_CHALLENGES = {"invalid_client": 'Basic realm="accounts"'}
_CHALLENGES["invalid_token"] = 'Bearer error="invalid_token"'


@bp.after_app_request  # a wrong method has no view, and no blueprint
def allow_scripts(response: Response) -> Response:
    if request.path in _FOR_SCRIPTS and settings.applications:
        response.headers.update(_OPEN)
    return response


@bp.get("/.well-known/openid-configuration")
def get_configuration() -> Response:
    """Return what clients must know (OpenID Connect Discovery 1.0, section 3)."""
    base = f"{settings.public_url}/oauth"
    return public_json(
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
            "token_endpoint_auth_methods_supported": _PROOFS,
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
            "request_uri_parameter_supported": False,
        }
    )


@bp.get("/oauth/keys")
def get_keys() -> Response:
    """Return the public keys of ID tokens; they sign nothing else."""
    return public_json(id_tokens.jwks)


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
    known, proof = authorization_codes.SENT, request.headers.get("Authorization", "")
    return _in_oauth(lambda: authorization_codes.redeem(_sent(known), proof))


@bp.route("/oauth/userinfo", methods=["GET", "POST"])
def get_user_info() -> Response:
    """Return the claims of the user of an application's access token."""

    def claims() -> dict[str, object]:
        bodies.discard()
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        return authorization_codes.user_info(token if scheme.lower() == "bearer" else "")

    return _in_oauth(claims)


def _sent(names: tuple[str, ...]) -> dict[str, str]:
    """Return what was sent of these; an empty one counts as left out (RFC 6749, section 3.1).

    Raises InvalidRequest, also if one of them came twice or has a control character.
    """
    found = forms.form()
    sent = {name: found[name] for name in names if name in found}
    for name, values in sent.items():
        if len(values) > 1 or _CONTROL.search(values[0]):
            raise errors.InvalidRequest(f"{name} is there twice, or has a control character.")
    return {name: value for name, (value,) in sent.items() if value}


def _see_other(url: str) -> Response:
    return Response(status=303, headers={"Location": url})


def _in_oauth(work: Callable[[], dict[str, object]]) -> Response:
    """Return what comes of some work, or its error (RFC 6749, section 5.2; RFC 6750, section 3)."""
    try:
        return json_response(work(), 200, {})
    except (errors.InvalidRequest, errors.UnsupportedMediaType) as error:
        code, description = "invalid_request", str(error)
    except OAuthError as error:
        code, description = error.code, str(error)
    challenge = _CHALLENGES.get(code)
    headers = {"WWW-Authenticate": challenge} if challenge else {}
    content = {"error": code, "error_description": description}
    return json_response(content, 401 if challenge else 400, headers)
