"""Registration, login, tokens, sessions, and what links and codes do."""

import functools
from typing import Any

from flask import Blueprint

import counting
import errors
import schemas
from core import clock, passwords
from core.roles import Role
from database import transaction
from extensions import settings
from models import User
from services import (
    accounts,
    custom_fields,
    events,
    outbox,
    passkeys,
    profiles,
    providers,
    recovery,
    second_factor,
    sessions,
)
from services import login as login_steps
from services.letters import MailKind
from services.links import Action
from web import client, refresh_cookie
from web.api import endpoint
from web.bearer import caller, comes_from
from web.limits import GUESSES, By, Guess, Limit, call_within
from web.responses import Reply

bp = Blueprint("auth", __name__, url_prefix="/api/auth")
post = functools.partial(endpoint, bp, "POST")
student = functools.partial(endpoint, bp, role=Role.STUDENT)

# Whole classes register from one client IP.
REGISTRATIONS = Limit(lambda: settings.registrations_per_hour, "hour", "calls of register", By.IP)
LOGINS = Limit(lambda: settings.logins_per_minute, "minute", "logins", By.IP)
RESETS = Limit(lambda: settings.logins_per_minute, "minute", "password resets", By.IP)


@post(
    "/register",
    body=schemas.Register,
    response=schemas.Registered,
    status=201,
    message="Your account is ready. We have sent you an e-mail to confirm your e-mail address.",
    errors=(
        errors.RegistrationClosed,
        errors.WeakPassword,
        errors.UsernameTaken,
        errors.EmailTaken,
    ),
    limits=(REGISTRATIONS,),
)
def register(body: dict[str, Any]) -> User:
    """Create an account.

    Usernames and e-mail addresses are unique, ignoring case. Passwords that are easy to guess are
    rejected with the reason; no kinds of characters are required. E-mails are written in
    `language`, by default the one that `Accept-Language` chooses. By default `timezone` is that of
    the service (`DEFAULT_TIMEZONE`).
    """
    if settings.registration != "open":
        raise errors.RegistrationClosed
    accounts.check_domain(body["email"], field="email")
    fields = custom_fields.accepted(body.pop("custom_fields", {}), at_sign_up=True)
    body["custom_fields"] = custom_fields.merged({}, fields)
    password, language = body.pop("password"), body.pop("language", None) or client.language()
    password_hash = accounts.hash_new_password(password, body, field="password")
    with transaction():
        mail = MailKind.EMAIL_VERIFICATION
        return accounts.add(password_hash=password_hash, language=language, mail=mail, **body)


@endpoint(
    bp,
    "GET",
    "/options",
    response=schemas.RegistrationOptions,
    message="These are the registration options.",
)
def options() -> object:
    """Read what a form for registration must know."""
    return settings


@post(
    "/login",
    body=schemas.Login,
    response=schemas.LoggedIn,
    message="You are logged in.",
    errors=(
        errors.InvalidCredentials,
        errors.AccountInactive,
        errors.EmailUnverified,
        errors.SecondFactorRequired,
        errors.WrongCode,
        errors.InvalidToken,
        errors.RegistrationClosed,
        errors.EmailTaken,
        errors.UsernameTaken,
        errors.IdentityTaken,
    ),
    refresh_cookie=True,
    limits=(*GUESSES, LOGINS),
)
def login(body: dict[str, Any], guess: Guess) -> Reply:
    """Log in with e-mail address or username and password, a provider or a passkey.

    It opens a session. Send the access token in the `Authorization` header of other requests. When
    it has expired, exchange the refresh token for a new pair. An error sets no cookie.

    A `provider` alone opens the account that is linked to it, or one with the address to which
    nobody can sign in, else a new one. With `email` and `password` too, it is linked to that
    account. No error uses up its code. A `passkey` comes alone, and counts as password and second
    factor.
    """
    way = _way_in(body)
    proof = second_factor.check_code(way.user, body["second_factor"]) if way.needs_code else None
    device = {"user_agent": client.user_agent(), "ip_address": client.ip_address()}
    with transaction(), guess.right():
        user, pair = login_steps.finish(way, proof, **device, now=clock.utcnow())
    return refresh_cookie.delivered({**pair._asdict(), "user": profiles.profile(user)})


def _way_in(body: dict[str, Any]) -> login_steps.Way:
    if "passkey" in body:
        return passkeys.way_in(body["passkey"])
    came = providers.read(**body["provider"]) if "provider" in body else None
    if came and "password" not in body:
        wanted = {"came": came, "language": client.language(), "timezone": body["timezone"]}
        while (opened := providers.way_in(came)) is None:
            call_within((REGISTRATIONS,), providers.register, **wanted)
        return opened
    way = login_steps.check_password(body["email"], body["password"])
    return providers.link(came, way) if came else way


@post(
    "/refresh",
    body=schemas.Refresh,
    response=schemas.LoggedIn,
    message="Here are your new tokens.",
    errors=errors.BAD_TOKEN,
    refresh_cookie=True,
)
def refresh(body: dict[str, str]) -> Reply:
    """Exchange a refresh token for a new pair of tokens; the one sent becomes invalid.

    For 30 seconds the previous token gets the same new one again, for browser tabs that refresh in
    parallel and for lost responses. Any other used token ends the whole session.

    With `X-Refresh-Cookie`, send the body `{}`: the token comes in the cookie. No cookie is
    `token_missing`; each 401 clears it.
    """
    with refresh_cookie.received(body) as token:
        user, pair = sessions.rotate(token, now=clock.utcnow())
    return refresh_cookie.delivered({**pair._asdict(), "user": user})


@student("GET", "/verify", response=schemas.Verified, message="This access token is valid.")
def verify() -> dict[str, object]:
    """Check an access token: how long it is valid, and whose it is."""
    me = caller()
    seconds = me.claims["exp"] - int(clock.utcnow().timestamp())
    return {"valid": True, "expires_in": seconds, "user": me.user}


@student("POST", "/logout", message="You are logged out.", refresh_cookie=True)
def logout() -> Reply:
    """End the session of the access token; its refresh token stops working too.

    With `X-Refresh-Cookie`, the cookie is cleared.
    """
    with transaction():
        sessions.end(caller().session_id, caller().id)
        events.tell("logout", caller().id)
    return refresh_cookie.cleared()


@student("GET", "/sessions", response=schemas.SessionList, message="These are your open sessions.")
def list_sessions() -> dict[str, object]:
    """List the caller's open sessions, last used first."""
    me = caller()
    return {"sessions": sessions.list_open(me.id, current=me.session_id, now=clock.utcnow())}


@student(
    "DELETE",
    "/sessions/<uuid:session_id>",
    message="The session has ended.",
    errors=(errors.NotFound,),
)
def end_session(session_id: str) -> None:
    """End one of the caller's sessions, such as that of a lost device."""
    with transaction():
        if not sessions.end(session_id, caller().id):
            raise errors.NotFound("There is no such session.")
        events.tell("session_ended", caller().id)


@student("DELETE", "/sessions", message="Your other sessions have ended.")
def end_other_sessions() -> None:
    """End all of the caller's sessions except the current one."""
    with transaction():
        sessions.end_all(caller().id, keep=caller().session_id)
        events.tell("other_sessions_ended", caller().id)


@post(
    "/forgot-password",
    body=schemas.AccountName,
    message="If there is such an active account, we have sent a link to its e-mail address.",
    limits=(Limit(60, "hour", "requests for reset mails", By.IP),),
)
def forgot_password(body: dict[str, str]) -> None:
    """Send an e-mail with a link to set a new password to the address of an account.

    The response is the same, and takes the same time, whether or not an account exists. At most
    three mails go to one account while the link of the first works, or in an hour if that is less;
    beyond them, too, the response is the same.
    """
    with transaction():
        outbox.queue(MailKind.PASSWORD_RESET, body["email"])


@post(
    "/check-link",
    body=schemas.MailToken,
    response=schemas.CheckedLink,
    message="This link is valid.",
    errors=(errors.InvalidToken,),
)
def check_link(body: dict[str, str]) -> dict[str, object]:
    """Read what the token of a link does, and for whom. Changes nothing.

    A token that the call for its `action` would refuse as `invalid_token` is refused here too.
    """
    return recovery.check(body["token"])


@post(
    "/reset-password",
    body=schemas.ResetPassword,
    message="Your password is changed and all sessions have ended. Log in with the new password.",
    errors=(errors.InvalidToken, errors.WrongAccessCode, errors.WeakPassword),
    limits=(*GUESSES, RESETS),
)
def reset_password(body: dict[str, str], guess: Guess) -> None:
    """Set a password with the token of a link, or with the code that came with an access link.

    Send `token` (of a reset mail, an invitation or an access link), or `account` and `code`. Each
    works once; a wrong code counts as a failed login. All sessions of the account end, and a notice
    is sent to its e-mail address.
    """
    if "token" in body:
        found = recovery.find(Action.CHOOSE_PASSWORD, body["token"])
    else:
        found = recovery.find_by_code(body["account"], body["code"], now=clock.utcnow())
    person = found.user._asdict()
    password_hash = accounts.hash_new_password(body["new_password"], person, field="newPassword")
    # The user probably tried old passwords before; with a second factor, codes could be tried on.
    forgets = () if found.user.second_factor_at else counting.names(found.user)
    with transaction(), guess.right(forgets=forgets):
        recovery.replace_password(found, password_hash, now=clock.utcnow())


@post(
    "/verify-email",
    body=schemas.VerifyEmail,
    message="Your e-mail address is confirmed.",
    errors=(errors.InvalidToken, errors.WrongPassword),
    limits=GUESSES,
)
def verify_email(body: dict[str, str], guess: Guess) -> None:
    """Confirm an e-mail address with the token from a verification e-mail, which works once.

    Send the account's password too, if it has one: who reads the e-mail may be another one than who
    registered the address. A wrong or missing one counts as a failed login. An access token of the
    account does instead. Who does not know the password chooses another one by forgot-password.
    """
    user = recovery.find(Action.VERIFY_EMAIL, body["token"]).user
    is_proven = not passwords.is_usable(user.password_hash) or comes_from(user.id)

    def confirm(guess: Guess, **_: object) -> None:
        if not is_proven:
            accounts.confirm_password(user, body["password"], field="password")
        # Without the code of a second factor, it is no login, and forgets no failed ones.
        forgets = () if user.second_factor_at else None
        with transaction(), guess.right(forgets=forgets):
            recovery.verify_email(user, now=clock.utcnow())

    if is_proven:
        confirm(guess)  # has counted nothing: the body names no account, but the token does
    else:
        call_within(GUESSES, confirm, body={"email": user.email})


@post(
    "/resend-verification",
    body=schemas.Address,
    message="If this e-mail address is not confirmed yet, we have sent it a new link.",
    limits=(Limit(60, "hour", "requests for verification mails", By.IP),),
)
def resend_verification(body: dict[str, str]) -> None:
    """Send another verification e-mail, at most three an hour to one e-mail address.

    The response is the same for every e-mail address, and beyond the limit.
    """
    with transaction():
        outbox.queue(MailKind.EMAIL_VERIFICATION, body["email"])
