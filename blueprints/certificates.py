"""Certificates that their holders share, for everybody who has the code: as JSON and as a page."""

from base64 import b64encode
from typing import Any

from flask import Blueprint, Response

import errors
import schemas
from blueprints import site
from core import clock
from core.qr_codes import svg
from services import certificates
from web.api import endpoint
from web.limits import By, Limit, call_within

bp = Blueprint("certificates", __name__)

# One count for both.
CHECKS = (Limit(60, "minute", "checks of certificates", By.IP),)


@bp.after_request
def keep_out_of_search_engines(response: Response) -> Response:
    response.headers["X-Robots-Tag"] = "noindex"
    return response


# `id:` accepts a slash: for every text that is no code, the response is the same 404.
@endpoint(
    bp,
    "GET",
    "/api/certificates/<id:code>",
    path_shape=schemas.ShareCodePath,
    response=schemas.CheckedCertificate,
    errors=(errors.NotFound, errors.Unavailable),
    limits=CHECKS,
)
def check_certificate(code: str) -> dict[str, object]:
    """Check a certificate whose holder shares it.

    `holder` is the user's name when the certificate was delivered first. The page
    `/certificates/{code}` shows the same; this call needs its prefix `/api`.
    """
    return certificates.check(code, now=clock.utcnow())


@bp.get("/certificates/<id:code>")
def show_certificate(code: str) -> Response:
    """Show the same as a page, which works and can be printed without a script."""
    now, shown = clock.utcnow(), dict[str, Any]()
    try:
        call_within(CHECKS, lambda: shown.update(certificates.check(code, now=now)))
    except (errors.NotFound, errors.TooManyRequests) as error:
        is_limited = isinstance(error, errors.TooManyRequests)
        page = _render("no_certificate", {"is_limited": is_limited})
        page.status_code, page.retry_after = error.status, error.retry_after
        return page
    qr = f"data:image/svg+xml;base64,{b64encode(svg(shown['verify_url']).encode()).decode()}"
    return _render("certificate", {**shown, "checked_at": now, "qr": qr})


def _render(name: str, shown: dict[str, Any]) -> Response:
    # A code holds no slash, so the service is always one level up.
    return site.page(name, site.QR_POLICY, root="../", **shown)
