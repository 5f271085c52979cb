"""What our page calls to sign in to an application; blueprints/oauth.py is what they call."""

from functools import partial

from flask import Blueprint, request

import errors
import schemas
from core.roles import Role
from extensions import settings
from services import applications
from web import bearer
from web.api import endpoint
from web.limits import By, Limit

bp = Blueprint("applications", __name__, url_prefix="/api/auth/applications")
# An application and our page could send a browser to and fro for ever.
SIGN_INS = Limit(30, "minute", "sign-ins to applications", By.CALLER)
_PATHS = (f"{bp.url_prefix}/", "/oauth/", "/.well-known/openid-configuration")
asks = partial(endpoint, bp, "POST", body=schemas.ApplicationRequest)


@bp.before_app_request  # a wrong method has no view, and no blueprint
def require_applications() -> None:
    """Answer as if nothing were here, nor in blueprints/oauth.py, where no application is set."""
    if request.path.startswith(_PATHS) and not settings.applications:
        raise errors.NotFound


@asks(
    "/check",
    response=schemas.ApplicationAsks,
    message="This request is valid.",
    errors=(errors.NotFound, errors.InvalidToken),
)
def check_application(body: dict[str, str]) -> dict[str, str]:
    """Read what an application asks for, or where a sign-out goes on."""
    return applications.check(body["request"])


@asks(
    "/codes",
    role=Role.STUDENT,
    response=schemas.ProviderUrl,
    message="Send the browser to this URL.",
    errors=(errors.NotFound, errors.InvalidToken, errors.LoginTooOld, errors.RoleNeedsFactor),
    limits=(SIGN_INS,),
)
def sign_in_to_application(body: dict[str, str]) -> dict[str, str]:
    """Return with a code, or an error of OAuth 2.0, to the application that asks."""
    return {"url": applications.answer(bearer.caller(), body["request"])}
