"""The way to a provider (OpenID Connect) and back; `auth.login` takes what comes of it."""

from typing import Any

from flask import Blueprint, request

import errors
import schemas
from extensions import components, settings
from services import providers
from web.api import endpoint
from web.limits import By, Limit
from web.responses import Reply

bp = Blueprint("providers", __name__, url_prefix="/api/auth/providers")
CALLBACKS = Limit(lambda: settings.logins_per_minute, "minute", "returns from a provider", By.IP)


@bp.before_request
def know_provider() -> None:
    """Refuse the name of a provider that there is not, before anything else."""
    known = (request.view_args or {}).get("name") in components().providers
    if not known and request.method != "OPTIONS":
        raise errors.NotFound("There is no such provider.")


@endpoint(
    bp,
    "POST",
    "/<name>/start",
    path_shape=schemas.ProviderPath,
    body=schemas.ProviderStart,
    response=schemas.ProviderUrl,
    message="Send the browser to this URL.",
    errors=(errors.NotFound,),
)
def start(name: str, body: dict[str, Any]) -> dict[str, str]:
    """Begin a sign-in with a provider.

    Make a random `verifier` (43 to 128 of `A-Z a-z 0-9 - . _ ~`), keep it, and send its SHA-256 in
    base64url without padding as the `challenge`. Then send the browser to `url`. It comes back to
    `returnTo`, by default our own page, with `#provider=…&code=…`, or with `error=denied` or
    `error=failed`. Log in with that code and your verifier.
    """
    return {"url": providers.begin(name, body["challenge"], body.get("return_to"))}


@endpoint(
    bp,
    "GET",
    "/<name>/callback",
    path_shape=schemas.ProviderPath,
    query=schemas.ProviderAnswer,
    writes=True,
    status=303,
    message="The sign-in goes on at the URL in `Location`.",
    errors=(errors.NotFound, errors.InvalidToken),
    limits=(CALLBACKS,),
)
def callback(name: str, query: dict[str, str]) -> Reply:
    """Take what a provider sends back by the browser, and send that on to the page that began.

    No account is touched. A `state` that is not ours is refused here.
    """
    url = providers.finish(name, query["state"], query["code"], query["error"])
    return Reply(None, 303, {"Location": url})
