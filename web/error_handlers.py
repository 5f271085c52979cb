"""Every error in one shape: ours, Flask's, werkzeug's, and unexpected ones."""

import logging
from collections.abc import Mapping

from flask import Flask, Response, has_request_context, request
from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Response as AnyResponse

import database
import errors
from core.images import PicturesBusy
from core.passwords import HasherBusy
from extensions import components
from web.responses import json_response

NOT_VALID = "The request is not valid."
_log = logging.getLogger("accounts.errors")

# An application may send a browser there with a form.
_OPENED_BY_FORMS = ("/oauth/authorize", "/oauth/logout")
_BY_STATUS = {
    kind.status: kind for kind in (errors.NotFound, errors.MethodNotAllowed, errors.TooLarge)
}


def init_app(app: Flask) -> None:
    app.register_error_handler(errors.ApiError, render)
    app.register_error_handler(HTTPException, _from_http)
    app.register_error_handler(Exception, _from_anything)


def render(error: errors.ApiError, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error as JSON, or as a page to a browser that has opened a URL."""
    retry = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    headers = {**retry, **error.headers, **(headers or {})}
    if _is_opened():
        page = components().error_page(error.code)
        page.status_code = error.status
        page.headers.update(headers)
        page.vary.add("Accept")
        return page
    detail: dict[str, object] = {"code": error.code}
    if error.fields:
        detail |= {"fields": error.fields, "reasons": error.reasons}
    if error.email is not None:
        detail["email"] = error.email
    content = {"success": False, "message": str(error), "error": detail}
    return json_response(content, error.status, headers)


def _is_opened() -> bool:
    if not has_request_context():
        return False  # the worker's own errors come before there is a request
    if request.method not in ("GET", "HEAD") and request.path not in _OPENED_BY_FORMS:
        return False
    is_called = request.path.startswith(("/api/", "/metrics"))
    return not is_called and "text/html" in request.headers.get("Accept", "")


def _from_http(error: HTTPException) -> AnyResponse:
    original = error.get_response()
    status = original.status_code
    if status < 400:
        return original  # a redirect
    fallback = errors.InvalidRequest if status < 500 else errors.InternalError
    kind = _BY_STATUS.get(status, fallback)
    response = render(kind(NOT_VALID if kind is errors.InvalidRequest else None))
    response.status_code = status
    if "Allow" in original.headers:  # of a 405
        response.headers["Allow"] = original.headers["Allow"]
    return response


def _from_anything(error: Exception) -> Response:
    if isinstance(error, HasherBusy | PicturesBusy):
        _log.warning("too many requests wait for the CPU: %s", type(error).__name__)
    elif database.is_unavailable(error):
        # With the traceback, an operator finds a statement that is slow.
        message = getattr(error, "orig", None) or error
        trace = error if database.ended_statement(error) else None
        _log.error("the database is unavailable: %s", message, exc_info=trace)
    else:
        _log.error("unexpected error", exc_info=error)
        return render(errors.InternalError())
    return render(errors.Unavailable())
