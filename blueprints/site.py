"""The pages for browsers: reset-password, verify-email, undo-email-change and the API's docs.

They contain no user data; their scripts call the API like any other client. Their URLs are
relative, so that they also work below a path prefix that a proxy strips. They are in the language
that the browser asks for; the docs are in English. blueprints/certificates.py has one more page.
"""

from importlib import metadata
from pathlib import Path
from urllib.parse import urlsplit

from flask import Blueprint, Response, redirect, send_from_directory
from werkzeug.wrappers import Response as BaseResponse

import errors
from extensions import settings, templates
from web import caller

bp = Blueprint("site", __name__)

# Forms are sent by a script. If it is missing, `form-action 'none'` keeps the browser from sending
# the password in a URL.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
# Trusted Types turn every innerHTML into an error. Swagger UI needs innerHTML.
STRICT_POLICY = f"{_POLICY}; require-trusted-types-for 'script'; trusted-types 'none'"
# Swagger UI's style sheet has icons in data: URLs.
_DOCS_POLICY = _POLICY.replace("img-src 'self'", "img-src 'self' data:")

# The package's own blueprint is not used: its page has an inline script.
_swagger = metadata.distribution("flask-swagger-ui")
_SWAGGER_FOLDER = Path(str(_swagger.locate_file("flask_swagger_ui/dist")))
_SWAGGER_FILES = frozenset({"swagger-ui.css", "swagger-ui-bundle.js"})

# The policies of the pages. Each page is at the URL of its name.
PAGES = {
    # Links open these. The token is in the URL's fragment, which is not sent.
    "reset_password": STRICT_POLICY,
    "verify_email": STRICT_POLICY,
    "undo_email_change": STRICT_POLICY,
    "docs": _DOCS_POLICY,
}


# With strict slashes, the router would redirect an empty path to the host in the client's header.
@bp.get("/", strict_slashes=False)
def home() -> BaseResponse:
    """Redirect to where users go: to `APP_URL`, else to the docs."""
    if not (settings.app_url or settings.docs):
        raise errors.NotFound
    return redirect(settings.app_url or f"{urlsplit(settings.public_url).path}/docs")


def show(name: str) -> Response:
    """Show a page that contains no user data."""
    if name == "docs" and not settings.docs:
        raise errors.NotFound
    return page(name, PAGES[name], swagger_version=_swagger.version)


def page(name: str, policy: str, **facts: object) -> Response:
    """Return a page with the facts that it shows. `web.headers` sets the other headers."""
    tag, html = templates.page(
        name,
        "en" if name == "docs" else caller.language(),
        site=settings.site,
        app_url=settings.app_url,
        imprint=settings.imprint,
        min_length=settings.password_min_length,
        **facts,
    )
    response = Response(html)
    response.headers["Content-Language"] = tag
    response.headers["Content-Security-Policy"] = policy
    response.headers["Cross-Origin-Opener-Policy"] = "same-origin"
    response.headers["X-Frame-Options"] = "DENY"
    response.vary.add("Accept-Language")
    return response


for _name in PAGES:
    bp.add_url_rule(f"/{_name.replace('_', '-')}", _name, show, defaults={"name": _name})


@bp.get("/docs/assets/<name>")
def docs_asset(name: str) -> Response:
    """Return a file of Swagger UI; cached for a year, because its URL names the version."""
    if name not in _SWAGGER_FILES or not settings.docs:
        raise errors.NotFound
    response = send_from_directory(_SWAGGER_FOLDER, name, max_age=365 * 24 * 3600)
    response.cache_control.immutable = True
    return response
