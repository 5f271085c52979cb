"""The pages for browsers: reset-password, verify-email, undo-email-change and the API's docs.

They contain no user data; their scripts call the API like any other client. Their URLs are
relative, so that they also work below a path prefix that a proxy strips. They are in the language
that the browser asks for; the docs are in English.
"""

from importlib import metadata
from pathlib import Path
from urllib.parse import urlsplit

from flask import Blueprint, Response, redirect, request, send_from_directory
from werkzeug.wrappers import Response as BaseResponse

import errors
from extensions import settings, templates
from web import caller

bp = Blueprint("site", __name__)

# Forms are sent by a script. If it is missing, `form-action 'none'` keeps the browser from sending
# the password in a URL.
_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
# Trusted Types turn every innerHTML into an error. Swagger UI needs innerHTML.
_TOKEN_PAGE_POLICY = f"{_PAGE_POLICY}; require-trusted-types-for 'script'; trusted-types 'none'"
# Swagger UI's style sheet has icons in data: URLs.
_DOCS_POLICY = _PAGE_POLICY.replace("img-src 'self'", "img-src 'self' data:")

# The package's own blueprint is not used: its page has an inline script.
_swagger = metadata.distribution("flask-swagger-ui")
_SWAGGER_FOLDER = Path(str(_swagger.locate_file("flask_swagger_ui/dist")))
_SWAGGER_FILES = frozenset({"swagger-ui.css", "swagger-ui-bundle.js"})


@bp.after_request
def _harden(response: Response) -> Response:
    if response.mimetype == "text/html":
        headers = response.headers
        headers["Content-Security-Policy"] = (
            _DOCS_POLICY if request.endpoint == "site.docs" else _TOKEN_PAGE_POLICY
        )
        headers["X-Frame-Options"] = "DENY"
        headers["Referrer-Policy"] = "no-referrer"
        headers["Cross-Origin-Opener-Policy"] = "same-origin"
        headers["Cache-Control"] = "no-store"
    return response


# With strict slashes, the router would redirect an empty path to the host in the client's header.
@bp.get("/", strict_slashes=False)
def home() -> BaseResponse:
    """Redirect to the docs."""
    return redirect(f"{urlsplit(settings.public_url).path}/docs")


@bp.get("/reset-password")
def reset_password() -> Response:
    """Show the page of a reset link; the token is in the URL's fragment, which is not sent."""
    return _page("reset_password", caller.language())


@bp.get("/verify-email")
def verify_email() -> Response:
    """Show the page of a verification link."""
    return _page("verify_email", caller.language())


@bp.get("/undo-email-change")
def undo_email_change() -> Response:
    """Show the page of a link that undoes a change of the e-mail address."""
    return _page("undo_email_change", caller.language())


@bp.get("/docs")
def docs() -> Response:
    """Show the interactive docs of the API."""
    return _page("docs", "en")


def _page(name: str, language: str) -> Response:
    tag, html = templates.page(
        name,
        language,
        site=settings.site,
        min_length=settings.password_min_length,
        swagger_version=_swagger.version,
    )
    response = Response(html, headers={"Content-Language": tag})
    response.vary.add("Accept-Language")
    return response


@bp.get("/docs/assets/<name>")
def docs_asset(name: str) -> Response:
    """Return a file of Swagger UI; cached for a year, because its URL names the version."""
    if name not in _SWAGGER_FILES:
        raise errors.NotFound
    response = send_from_directory(_SWAGGER_FOLDER, name, max_age=365 * 24 * 3600)
    response.cache_control.immutable = True
    return response
