"""The caller's own second factor: an authenticator app and recovery codes."""

import functools

from flask import Blueprint

import errors
import schemas
from core import totp
from core.qr_codes import svg
from core.roles import Role
from database import transaction
from extensions import settings
from services import accounts, second_factor, users
from web.api import endpoint
from web.bearer import caller
from web.limits import CONFIRMATIONS, OWN_GUESSES, Guess

bp = Blueprint("second_factor", __name__, url_prefix="/api/auth/second-factor")
student = functools.partial(endpoint, bp, role=Role.STUDENT)


@student("GET", "", response=schemas.SecondFactorState, message="This is your second factor.")
def get_second_factor() -> dict[str, object]:
    """Read whether the caller has a second factor, and whether the role needs one."""
    user = caller().user
    return {**second_factor.status(user), "required": users.needs_factor(user.granted_role)}


@student(
    "POST",
    "",
    body=schemas.CurrentPassword,
    response=schemas.NewSecondFactor,
    message="Add this key to an authenticator app, then send the code that it shows.",
    errors=(errors.WrongPassword, errors.SecondFactorExists),
    limits=CONFIRMATIONS,
)
def begin_second_factor(body: dict[str, str], guess: Guess) -> dict[str, str]:
    """Make the key of an authenticator app; it replaces one that was not confirmed.

    Nothing of the account changes before `POST /api/auth/second-factor/confirm` gets the first
    code, within 15 minutes.
    """
    me = caller()
    accounts.confirm_password(me.user, body["password"], field="password")
    with transaction(), guess.right():
        seed = second_factor.begin(me)
    uri = totp.app_uri(seed, settings.site, me.user.email)
    return {"secret": totp.app_key(seed), "uri": uri, "qr_code": svg(uri)}


@student(
    "POST",
    "/confirm",
    body=schemas.FirstCode,
    response=schemas.RecoveryCodeList,
    message="Your second factor is on. Keep the recovery codes in a safe place.",
    errors=(errors.InvalidToken, errors.WrongCode),
    limits=OWN_GUESSES,
)
def confirm_second_factor(body: dict[str, str], guess: Guess) -> dict[str, object]:
    """Turn the second factor on with the first code of the app.

    All other sessions end, and a notice is sent by e-mail. Each of the recovery codes works once,
    in place of a code of the app. They are shown only now.
    """
    me = caller()
    proof = second_factor.try_first_code(me.user, body["code"])
    with transaction(), guess.right():
        return {"recovery_codes": second_factor.confirm(me, proof)}


@student(
    "POST",
    "/recovery-codes",
    body=schemas.Confirmation,
    response=schemas.RecoveryCodeList,
    message="These are your new recovery codes; the old ones do not work any more.",
    errors=(*errors.UNCONFIRMED, errors.NotFound),
    limits=CONFIRMATIONS,
)
def replace_recovery_codes(body: dict[str, str], guess: Guess) -> dict[str, object]:
    """Make ten new recovery codes; the old ones stop working. A notice is sent by e-mail."""
    me = caller()
    proof = second_factor.prove(me.user, body["password"], body["second_factor"])
    with second_factor.allowed(me, proof), guess.right():
        return {"recovery_codes": second_factor.replace_recovery_codes(me, proof)}


@student(
    "DELETE",
    "",
    body=schemas.Confirmation,
    message="Your second factor is removed and your other sessions have ended.",
    errors=(*errors.UNCONFIRMED, errors.NotFound),
    limits=CONFIRMATIONS,
)
def remove_second_factor(body: dict[str, str], guess: Guess) -> None:
    """Remove the second factor. All other sessions end, and a notice is sent by e-mail."""
    me = caller()
    proof = second_factor.prove(me.user, body["password"], body["second_factor"])
    with second_factor.allowed(me, proof), guess.right():
        second_factor.remove(me)
