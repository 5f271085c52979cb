"""The pages that people open in a browser: reset-password, verify-email and the API's docs.

The pages hold no data of any user; their scripts speak to the API as any other client does. All
their addresses are relative, so they also work below a path prefix that a proxy strips.
"""

from importlib import metadata
from pathlib import Path
from urllib.parse import urlsplit

from flask import (
    Blueprint,
    Response,
    abort,
    redirect,
    render_template,
    request,
    send_from_directory,
)
from werkzeug.wrappers import Response as BaseResponse

from extensions import settings

bp = Blueprint("site", __name__)

# Forms are sent by script only. Were the script missing, `form-action 'none'` keeps the browser
# from sending a password anywhere by itself.
_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
# Trusted Types turn every innerHTML into an error, which Swagger UI could not bear.
_TOKEN_PAGE_POLICY = f"{_PAGE_POLICY}; require-trusted-types-for 'script'; trusted-types 'none'"
# Swagger UI draws its icons from data: URLs in its style sheet.
_DOCS_POLICY = _PAGE_POLICY.replace("img-src 'self'", "img-src 'self' data:")

# Only the files of the package are used. Its blueprint has a page with an inline script.
_swagger = metadata.distribution("flask-swagger-ui")
_SWAGGER_FOLDER = Path(str(_swagger.locate_file("flask_swagger_ui/dist")))
_SWAGGER_FILES = frozenset({"swagger-ui.css", "swagger-ui-bundle.js"})
_A_YEAR = 365 * 24 * 3600


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


# For an empty path the router itself would redirect, to the host that the client names.
@bp.get("/", strict_slashes=False)
def home() -> BaseResponse:
    """Lead to the docs."""
    return redirect(f"{urlsplit(settings.public_url).path}/docs")


@bp.get("/reset-password")
def reset_password() -> str:
    """Show the page that a reset link opens; the token stays in the URL's fragment."""
    return render_template("reset_password.html", min_length=settings.password_min_length)


@bp.get("/verify-email")
def verify_email() -> str:
    """Show the page that a verification link opens; the token stays in the URL's fragment."""
    return render_template("verify_email.html")


@bp.get("/docs")
def docs() -> str:
    """Show the API's docs, where every call can be tried."""
    return render_template("docs.html", swagger_version=_swagger.version)


@bp.get("/docs/assets/<name>")
def docs_asset(name: str) -> Response:
    """Return a file of Swagger UI. The page names its version, so it may be cached for a year."""
    if name not in _SWAGGER_FILES:
        abort(404)
    response = send_from_directory(_SWAGGER_FOLDER, name, max_age=_A_YEAR)
    response.cache_control.immutable = True
    return response
