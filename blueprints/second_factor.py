"""The caller's own second factor: an authenticator app and recovery codes."""

import functools

from flask import Blueprint

import errors
import schemas
from core import audit, clock
from core import second_factor as codes
from core.qr_codes import svg
from core.roles import Role
from database import transaction
from extensions import settings
from services import accounts, users
from services import second_factor as factors
from web import bearer
from web.api import endpoint
from web.limits import CONFIRMATIONS, GUESSES

bp = Blueprint("second_factor", __name__)
student = functools.partial(endpoint, bp, role=Role.STUDENT)


@student("GET", "", response=schemas.SecondFactorState, message="This is your second factor.")
def get_second_factor() -> dict[str, object]:
    """Read whether the caller has a second factor, and whether the role needs one."""
    user = bearer.user()
    return {**factors.status(user), "required": users.needs_factor(user.granted_role)}


@student(
    "POST",
    "",
    body=schemas.CurrentPassword,
    response=schemas.NewSecondFactor,
    message="Add this key to an authenticator app, then send the code that it shows.",
    errors=(errors.WrongPassword, errors.SecondFactorExists),
    limits=CONFIRMATIONS,
)
def begin_second_factor(body: dict[str, str]) -> dict[str, str]:
    """Make the key of an authenticator app; it replaces one that was not confirmed.

    Nothing of the account changes before `POST /api/auth/second-factor/confirm` gets the first
    code, within 15 minutes.
    """
    user, session_id = bearer.user(), bearer.claims()["sid"]
    accounts.confirm_password(user, body["password"], field="password")
    with transaction():
        seed = factors.begin(user, session_id=session_id, now=clock.utcnow())
    uri = codes.app_uri(seed, settings.site, user.email)
    return {"secret": codes.app_key(seed), "uri": uri, "qr_code": svg(uri)}


@student(
    "POST",
    "/confirm",
    body=schemas.FirstCode,
    response=schemas.RecoveryCodes,
    message="Your second factor is on. Keep the recovery codes in a safe place.",
    errors=(errors.InvalidToken, errors.WrongCode),
    limits=GUESSES,
)
def confirm_second_factor(body: dict[str, str]) -> dict[str, object]:
    """Turn the second factor on with the first code of the app.

    All other sessions end, and a notice is sent by e-mail. Each of the recovery codes works once,
    in place of a code of the app. They are shown only now.
    """
    user, session_id, now = bearer.user(), bearer.claims()["sid"], clock.utcnow()
    proof = factors.try_first_code(user, body["code"], now=now)
    with transaction():
        made = factors.confirm(user, proof, session_id=session_id, now=now)
    audit.log("second_factor_added", user.id)
    return {"recovery_codes": made}


@student(
    "POST",
    "/recovery-codes",
    body=schemas.Confirmation,
    response=schemas.RecoveryCodes,
    message="These are your new recovery codes; the old ones do not work any more.",
    errors=(*errors.UNCONFIRMED, errors.NotFound),
    limits=CONFIRMATIONS,
)
def replace_recovery_codes(body: dict[str, str]) -> dict[str, object]:
    """Make ten new recovery codes; the old ones stop working. A notice is sent by e-mail."""
    user, session_id = bearer.user(), bearer.claims()["sid"]
    confirmed = factors.confirmed(user, body["password"], body["second_factor"])
    with confirmed as proof, transaction():
        made = factors.replace_recovery_codes(user, proof, session_id=session_id)
    audit.log("recovery_codes_replaced", user.id)
    return {"recovery_codes": made}


@student(
    "DELETE",
    "",
    body=schemas.Confirmation,
    message="Your second factor is removed and your other sessions have ended.",
    errors=(*errors.UNCONFIRMED, errors.NotFound),
    limits=CONFIRMATIONS,
)
def remove_second_factor(body: dict[str, str]) -> None:
    """Remove the second factor. All other sessions end, and a notice is sent by e-mail."""
    user, session_id = bearer.user(), bearer.claims()["sid"]
    confirmed = factors.confirmed(user, body["password"], body["second_factor"])
    with confirmed as proof, transaction():
        factors.remove(user, proof, session_id=session_id)
    audit.log("second_factor_removed", user.id)
