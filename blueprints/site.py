"""The pages for browsers: those that links open, account, admin, and the API's docs.

They contain no user data; their scripts call the API like any other client. Their URLs are
relative, so that they also work below a path prefix that a proxy strips. They are in the language
that the browser asks for, or in that of `?language=`; of the docs, only the frame is.
blueprints/certificates.py has one more page.
"""

import functools
import gzip
import mimetypes
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from urllib.parse import urlsplit

from flask import Blueprint, Response, redirect, request
from werkzeug.wrappers import Response as BaseResponse

import errors
from core import look
from core.locales import ranges, standard_language
from extensions import settings, templates
from services import profiles
from services.changes import KEPT
from web import client
from web.openapi import DESCRIPTION

bp = Blueprint("site", __name__)

# Forms are sent by a script. If it is missing, `form-action 'none'` keeps the browser from sending
# the password in a URL.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
# Trusted Types turn every innerHTML into an error. Swagger UI needs innerHTML.
STRICT_POLICY = f"{_POLICY}; require-trusted-types-for 'script'; trusted-types 'none'"
_PICTURES = ("img-src 'self'", "img-src 'self' data:")
# QR codes are data: URLs, and so are the icons in Swagger UI's style sheet.
QR_POLICY = STRICT_POLICY.replace(*_PICTURES)
_DOCS_POLICY = _POLICY.replace(*_PICTURES)
# An operator's drawing may hold scripts, which run where the file itself is opened.
_DRAWING_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
_CLIENT = {".js": "text/javascript", ".ts": "text/plain"}

# The package's own blueprint is not used: its page has an inline script.
_swagger = metadata.distribution("flask-swagger-ui")
_swagger_folder = Path(str(_swagger.locate_file("flask_swagger_ui/dist")))
_SWAGGER_FILES = frozenset({"swagger-ui.css", "swagger-ui-bundle.js"})


# The policies of the pages. Each page is at the URL of its name.
PAGES = {
    # Links open these two. The token is in the URL's fragment, which is not sent.
    "reset_password": STRICT_POLICY,
    "verify_email": STRICT_POLICY,
    "privacy": STRICT_POLICY,
    "account": QR_POLICY,
    "admin": QR_POLICY,
    "docs": _DOCS_POLICY,
}
_OF_LINKS = ("reset_password", "verify_email")
_OF_ACCOUNTS = ("account", "admin")
# The settings that pages show, and those that "What is kept, and who sees it" is made from.
_OF_ALL = ("site", "app_url", "imprint", "contact", "account_pages", "custom_fields")
_OF_PRIVACY = ("profiles", "student_rights", "session_days", "session_idle_days", "event_days")


# With strict slashes, the router would redirect an empty path to the host in the client's header.
@bp.get("/", strict_slashes=False)
def home() -> BaseResponse:
    """Redirect to where users go: to `APP_URL`, else to their account, else to the docs."""
    if not (settings.app_url or settings.account_pages or settings.docs):
        raise errors.NotFound
    page = "account" if settings.account_pages else "docs"
    return redirect(settings.app_url or f"{urlsplit(settings.public_url).path}/{page}")


def show(name: str) -> Response:
    """Show a page that contains no user data."""
    if name in _OF_ACCOUNTS and not settings.account_pages:
        raise errors.NotFound
    if name == "docs" and not settings.docs:
        raise errors.NotFound
    # The scripts ask for the language of the user; the pages to which this one leads keep it.
    wanted = standard_language(request.args.get("language", "")) or ""
    language = wanted if templates.languages.intersection(ranges(wanted)) else ""
    query = f"?language={language}" if language else ""
    if name in _OF_LINKS:
        return page("links", PAGES[name], language, query=query, opened=name)
    more = {"swagger_version": _swagger.version, "about": DESCRIPTION} if name == "docs" else {}
    return page(name, PAGES[name], language, query=query, **more)


def page(
    name: str, policy: str, language: str = "", *, root: str = "", query: str = "", **more: object
) -> Response:
    """Return a page, by default in the caller's language; `more` is what only this one shows.

    `root` is the way up from its URL to that of the service, and with the `query` other pages keep
    the language. `web.headers` sets the other headers.
    """
    facts = {name: getattr(settings, name) for name in (*_OF_ALL, *_OF_PRIVACY)} | {
        "teachers": settings.instructor_rights != "records",  # whether they may use /admin
        # Whether these reach the students of their groups only.
        "by_groups": settings.instructor_rights == "groups",
        "registration_open": settings.registration != "closed",
        "domains": settings.registration_domains,  # whose addresses may register; none: any
        "providers": settings.oidc_providers,
        "passkeys": settings.has_passkeys,
        "applications": bool(settings.applications),
        "min_length": settings.password_min_length,
        "deletion_days": KEPT.days,
        "no_picture": profiles.avatar_url(None).rpartition("/")[2],
        "root": root,
        "query": query,
    }
    tag, html = templates.page(name, language or client.language(), facts, **more)
    response = _packed_text(html.encode(), "text/html")
    response.headers["Content-Language"] = tag
    response.headers["Content-Security-Policy"] = policy
    response.headers["Cross-Origin-Opener-Policy"] = "same-origin"
    response.headers["X-Frame-Options"] = "DENY"
    response.vary.add("Accept-Language")
    return response


for _name in PAGES:
    bp.add_url_rule(f"/{_name.replace('_', '-')}", _name, show, defaults={"name": _name})


# What people type in place of a URL of ours.
_TYPED = {"account/": "account", "admin/": "admin", "Reset-Password": "reset-password"}
_TYPED |= {"reset-password/": "reset-password", "code": "reset-password"}
_TYPED |= {"Account": "account", "Admin": "admin"}


def typed(page: str) -> BaseResponse:
    return redirect(f"{urlsplit(settings.public_url).path}/{page}")


for _text, _page in _TYPED.items():
    bp.add_url_rule(f"/{_text}", f"typed {_text}", typed, defaults={"page": _page})


@bp.get("/<any('own.css', 'logo.svg', 'logo-dark.svg'):name>")
def own_look(name: str) -> Response:
    """Return the operator's own style sheet or logo, which may change with the next restart."""
    text = templates.own_look(name)
    if text is None:
        raise errors.NotFound
    response = Response(text, mimetype=mimetypes.guess_type(name)[0])
    response.cache_control.max_age = 300
    response.headers["Content-Security-Policy"] = _DRAWING_POLICY
    return response


@bp.get("/<any('client.js', 'client-passkeys.js', 'client.d.ts'):name>")
def client_file(name: str) -> BaseResponse:
    """Return the client for front ends of any origin, the part for passkeys, or their types."""
    text = (look.FOLDER / name).read_bytes()
    response = Response(text, mimetype=_CLIENT[Path(name).suffix])
    response.cache_control.public, response.cache_control.max_age = True, 300
    response.headers["Access-Control-Allow-Origin"] = "*"
    response.headers["Cross-Origin-Resource-Policy"] = "cross-origin"
    response.add_etag()  # of the content, so all machines have the same
    return response.make_conditional(request)


# Without the version, which is for copies of pages that name a file, it is asked for anew.
@bp.get("/static/<name>", defaults={"version": ""})
@bp.get("/static/<version>/<name>")
def static_file(name: str, version: str) -> Response:
    """Return a style sheet, script or icon; cached for a year under the version of this code."""
    data = templates.look.files.get(name)
    if data is None:
        raise errors.NotFound
    response = _file(name, data)
    response.cache_control.no_cache = True
    # During an upgrade, a process of the other release has other files under this URL.
    if version == templates.look.version:
        _keep(response)
    return response


# In all processes the same, and so is its ETag.
_pack = functools.partial(gzip.compress, compresslevel=6, mtime=0)
_pack_once = functools.lru_cache(maxsize=200)(_pack)  # of files: pages may name people


def _packed_text(data: bytes, kind: str, pack: Callable[[bytes], bytes] = _pack) -> Response:
    """Return a text without secrets (BREACH), compressed if the browser takes that."""
    response = Response(data, mimetype=kind)
    if request.accept_encodings.quality("gzip"):
        response.set_data(pack(data))
        response.content_encoding = "gzip"
    response.vary.add("Accept-Encoding")
    return response


def _file(name: str, data: bytes) -> Response:
    response = _packed_text(data, mimetypes.guess_type(name)[0] or "image/webp", _pack_once)
    response.add_etag()
    response.make_conditional(request)
    return response


def _keep(response: Response) -> None:
    """Let browsers keep a file for a year, because its URL names the version."""
    response.cache_control.no_cache = None
    response.cache_control.public = response.cache_control.immutable = True
    response.cache_control.max_age = 365 * 24 * 3600


def error_page(code: str) -> Response:
    """Return the page for an error of a URL that a browser has opened, and not called."""
    root = f"{urlsplit(settings.public_url).path}/"
    return page("error", STRICT_POLICY, root=root, code=code)


@functools.cache  # not before somebody opens the docs: they are large
def _swagger_file(name: str) -> bytes:
    return (_swagger_folder / name).read_bytes()


@bp.get("/docs/assets/<name>")
def docs_asset(name: str) -> Response:
    """Return a file of Swagger UI; cached for a year, because its URL names the version."""
    if name not in _SWAGGER_FILES or not settings.docs:
        raise errors.NotFound
    response = _file(name, _swagger_file(name))
    _keep(response)
    return response
