"""The caller's own passkeys, and what a browser needs to log in with one."""

import functools
from typing import Any

from flask import Blueprint

import errors
import schemas
from core.roles import Role
from database import transaction
from services import passkeys, second_factor
from web.api import endpoint
from web.bearer import caller
from web.limits import CONFIRMATIONS, Guess

bp = Blueprint("passkeys", __name__, url_prefix="/api/auth/passkeys")
student = functools.partial(endpoint, bp, role=Role.STUDENT)


@endpoint(
    bp,
    "POST",
    "/options",
    response=schemas.PasskeyRequest,
    message="Let the browser ask for a passkey, then log in with what it returns.",
    errors=(errors.NotFound,),
)
def request_options() -> dict[str, object]:
    """Get what a browser needs to log in with a passkey. Nothing is stored.

    Give `publicKey` to `navigator.credentials.get()`, and send what that returns to `POST
    /api/auth/login` as `passkey`, within five minutes. One challenge is good for one login.
    """
    return {"public_key": passkeys.request_options()}


@student("GET", "", response=schemas.PasskeyList, message="These are your passkeys.")
def list_passkeys() -> dict[str, object]:
    """List the caller's passkeys, oldest first, with what a browser needs to make another one.

    Give `publicKey` to `navigator.credentials.create()`, and send what that returns to `POST
    /api/auth/passkeys`, within five minutes. It is null where the caller may have no more: because
    of `PASSKEYS`, or at ten.
    """
    return passkeys.state(caller().user)


def _may_add() -> None:
    if not passkeys.are_for(caller().user.granted_role):
        raise errors.Forbidden("Your account can have no passkeys here.")


@student(
    "POST",
    "",
    check=_may_add,
    body=schemas.NewPasskey,
    response=schemas.PasskeyRecord,
    status=201,
    message="Your passkey is ready. You can log in with it.",
    errors=(*errors.UNCONFIRMED, errors.InvalidToken, errors.TooManyPasskeys, errors.PasskeyTaken),
    limits=CONFIRMATIONS,
)
def add_passkey(body: dict[str, Any], guess: Guess) -> dict[str, Any]:
    """Add a passkey that the browser has made. A notice is sent by e-mail.

    It logs in without password and code until it is removed: by its user, by a new password, by a
    new second factor or the reset of one. No refused call uses up its challenge: after a wrong
    password or code, send the same `credential` again.
    """
    me = caller()
    proof = second_factor.prove(me.user, body["password"], body["second_factor"])
    made = passkeys.read_new(me.user, body["credential"])
    with second_factor.allowed(me, proof), guess.right():
        return passkeys.add(me.user, made, body["name"])


@student(
    "PUT",
    "/<uuid:passkey_id>",
    body=schemas.PasskeyName,
    response=schemas.PasskeyRecord,
    message="The passkey has another name.",
    errors=(errors.NotFound,),
)
def rename_passkey(passkey_id: str, body: dict[str, str]) -> dict[str, Any]:
    """Give one of the caller's passkeys another name."""
    with transaction():
        return passkeys.rename(caller().id, passkey_id, body["name"])


@student(
    "DELETE",
    "/<uuid:passkey_id>",
    body=schemas.Confirmation,
    message="The passkey is removed and your other sessions have ended.",
    errors=(*errors.UNCONFIRMED, errors.NotFound),
    limits=CONFIRMATIONS,
)
def remove_passkey(passkey_id: str, body: dict[str, str], guess: Guess) -> None:
    """Remove one of the caller's passkeys.

    All other sessions end, and a notice is sent by e-mail.
    """
    me = caller()
    proof = second_factor.prove(me.user, body["password"], body["second_factor"])
    with second_factor.allowed(me, proof), guess.right():
        passkeys.remove(me, passkey_id)
