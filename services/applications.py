"""Sign-in to applications with this service: an OpenID provider for those in the settings.

The other direction of services/providers.py, by the same means: what an application asks for waits
with our page as a signed text, and nothing is stored. Its server gets its tokens from
services/authorization_codes.py.
"""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import errors
from callers import Caller
from config.applications import ApplicationSettings
from core import audit, clock
from core.addresses import login_name
from core.reasons import Reason
from core.roles import Role
from extensions import id_tokens, settings
from services import authorization_codes, sessions, signed

PROMPTS = ("none", "login", "select_account", "consent")
# A sign-up with a mail in between should still end where it began.
REQUEST_LIFE = timedelta(hours=1)
# Where a new login is asked for, the next one at the same computer could use the request.
SHORT_LIFE = timedelta(minutes=5)
LONGEST = 4096  # characters of a signed text, which stands in a URL
_REQUEST, _LEAVE = "application-request", "application-leave"
_OVER = "This sign-in is not valid any more. Begin again at the application."
_NOT_LISTED = Reason("invalid", "The settings do not have it, letter for letter.")
_NO_HINT = Reason("invalid", "Not an ID token of this service for this application.")
# What is kept of a request while it waits; what else is read of it, and of one to sign out.
_KEPT = (
    *("client_id", "redirect_uri", "scope", "state", "nonce"),
    *("code_challenge", "prompt", "max_age", "login_hint"),
)
_READ = ("response_type", "response_mode", "code_challenge_method", "request", "request_uri")
ASKED = (*_KEPT, *_READ)
LEFT = ("id_token_hint", "client_id", "post_logout_redirect_uri", "state")
Fields = Mapping[str, str]


def begin(sent: Fields) -> str:
    """Return the URL at which a sign-in goes on: our page, or the application's with an error.

    Raises InvalidRequest, and then nobody is sent anywhere.
    """
    application = _named(sent.get("client_id", ""))
    if sent.get("redirect_uri") not in application.redirect_uris:
        audit.log("application_refused", application=application.name, reason="redirect_uri")
        raise errors.InvalidRequest(fields={"redirect_uri": [_NOT_LISTED]})
    kept = {name: sent[name] for name in _KEPT if name in sent}
    fault = _fault(application, sent)
    is_short = not fault and ("login" in _prompts(sent) or int(sent.get("max_age", 300)) < 300)
    life = SHORT_LIFE if is_short else REQUEST_LIFE
    url = _on_our_page("request", _REQUEST, life, _now(), kept)
    if fault:
        code, what = fault
        audit.log("application_refused", application=application.name, reason=code)
        return _answer(sent, error=code, error_description=f"{what} is missing or not supported")
    return url


def _named(name: str) -> ApplicationSettings:
    if name not in settings.application_named:
        raise errors.InvalidRequest(fields={"client_id": [_NOT_LISTED]})
    return settings.application_named[name]


def _on_our_page(action: str, purpose: str, life: timedelta, *said: Any) -> str:
    """Return the URL of our page with a signed text. Raises InvalidRequest if that is too long."""
    text = signed.sign_list(purpose, life, said)
    if len(text) > LONGEST:
        raise errors.InvalidRequest("The request is too long.")
    return f"{settings.public_url}/account#{action}={text}"


def _fault(application: ApplicationSettings, sent: Fields) -> tuple[str, str] | None:
    """Return the error, and what is wrong (RFC 6749, section 4.1.2.1; RFC 7636, section 4.4.1)."""
    challenge, method = sent.get("code_challenge", ""), sent.get("code_challenge_method", "")
    # Without a method it would be `plain`, which shows the verifier.
    is_s256 = method == "S256" and re.fullmatch(r"[\w-]{43}", challenge, re.ASCII)
    prompts, invalid = _prompts(sent), "invalid_request"
    is_proven = is_s256 or not (challenge or method or not application.secret)
    faults = {
        ("unsupported_response_type", "response_type"): sent.get("response_type") != "code",
        ("invalid_scope", "openid"): "openid" not in sent.get("scope", "").split(" "),
        (invalid, "request"): "request" in sent or "request_uri" in sent,
        (invalid, "response_mode"): sent.get("response_mode", "query") != "query",
        (invalid, "code_challenge"): not is_proven,
        (invalid, "prompt"): {*prompts} - {*PROMPTS} or ("none" in prompts and len(prompts) > 1),
        (invalid, "max_age"): not re.fullmatch("[0-9]{1,9}", sent.get("max_age", "0")),
    }
    return next((fault for fault, is_there in faults.items() if is_there), None)


def _prompts(sent: Fields) -> list[str]:
    # By spaces alone (RFC 6749, section 3.3).
    return [each for each in sent.get("prompt", "").split(" ") if each]


def _answer(sent: Fields, **said: str) -> str:
    """Return an application's URL with our answer, which says whose it is (RFC 9207)."""
    state = {"state": sent["state"]} if "state" in sent else {}
    return _with_query(sent["redirect_uri"], {**said, **state, "iss": settings.public_url})


def _with_query(url: str, query: Fields) -> str:
    return f"{url}{'&' if '?' in url else '?'}{urlencode(query)}"


def check(text: str) -> dict[str, str]:
    """Return what our page must know of a sign-in or a sign-out. Raises InvalidToken."""
    try:
        label, url, user_id = signed.read_list(_LEAVE, text)
        prompt = hint = ""
    except errors.InvalidToken:
        application, sent, _ = _asked(text)
        label, prompt, user_id = application.label, " ".join(_prompts(sent)), ""
        hint = login_name(sent.get("login_hint", "")) or ""
        url = _answer(sent, error="login_required" if prompt == "none" else "access_denied")
    facts = {"label": label, "url": url, "user_id": user_id}
    return {**facts, "prompt": prompt, "login_hint": hint}


def _asked(text: str) -> tuple[ApplicationSettings, Fields, float]:
    asked_at, sent = signed.read_list(_REQUEST, text, _OVER)
    application = settings.application_named.get(sent["client_id"])
    if application is None or sent["redirect_uri"] not in application.redirect_uris:
        raise errors.InvalidToken(_OVER)  # the settings have changed
    return application, sent, asked_at


def answer(caller: Caller, text: str) -> str:
    """Return the application's URL with our code, or with why there is none.

    Raises InvalidToken; TokenRevoked if the session is over; LoginTooOld if the user has to log in
    again first, and RoleNeedsFactor.
    """
    application, sent, asked_at = _asked(text)
    login_at = sessions.login_time(caller.session_id, caller.id, now=clock.utcnow())
    if login_at is None:
        raise errors.TokenRevoked
    asks_nothing = "none" in _prompts(sent)
    if _is_too_old(login_at, sent, asked_at):
        if asks_nothing:
            return _answer(sent, error="login_required")
        raise errors.LoginTooOld
    least = Role(application.role)
    if not Role(caller.user.role).includes(least):
        if not Role(caller.user.granted_role).includes(least):
            audit.log("application_denied", caller.id, application=application.name)
            return _answer(sent, error="access_denied")
        if asks_nothing:
            return _answer(sent, error="interaction_required")
        raise errors.RoleNeedsFactor
    # Here, since the application's server comes with the code from another IP.
    audit.log("application_login", caller.id, application=application.name)
    return _answer(sent, code=authorization_codes.issue(caller, sent, login_at))


def _is_too_old(login_at: datetime, sent: Fields, asked_at: float) -> bool:
    if login_at.timestamp() >= asked_at:  # for this request, even with `max_age=0`
        return False
    age = _now() - login_at.timestamp()
    return "login" in _prompts(sent) or age > int(sent.get("max_age", 10**9))


def leave(sent: Fields) -> str:
    """Return the URL of our page, which signs out and goes on (RP-Initiated Logout 1.0, section 2).

    Raises InvalidRequest.
    """
    hint = id_tokens.read_hint(sent["id_token_hint"]) if "id_token_hint" in sent else {}
    name, url = sent.get("client_id"), sent.get("post_logout_redirect_uri", "")
    if hint is None or name not in (None, hint.get("aud", name)):
        raise errors.InvalidRequest(fields={"id_token_hint": [_NO_HINT]})
    # That of a hint may have left the settings; its users sign out here all the same.
    application = _named(name) if name else settings.application_named.get(hint.get("aud", ""))
    if url and (application is None or url not in application.logout_uris):
        raise errors.InvalidRequest(fields={"post_logout_redirect_uri": [_NOT_LISTED]})
    if url and "state" in sent:
        url = _with_query(url, {"state": sent["state"]})
    is_old = int(_now() - hint.get("iat", 0)) > settings.session_days * 24 * 3600
    label, user_id = application.label if application else "", "" if is_old else hint["sub"]
    return _on_our_page("leave", _LEAVE, SHORT_LIFE, label, url, user_id)


def _now() -> float:
    return clock.utcnow().timestamp()
