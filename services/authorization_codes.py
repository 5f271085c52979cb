"""Codes of applications, and the tokens for them: OpenID Connect Core 1.0, sections 3.1.3 and 5.3.

A code and an access token are signed texts; a code is used up on the denylist. If it is sent again,
a mark beside it ends the access token that it got (RFC 6749, section 4.1.2).
"""

import base64
import hmac
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple
from urllib.parse import unquote_plus

import errors
from callers import Caller
from config.applications import ApplicationSettings
from core import audit, clock, ids
from core.addresses import has_mailbox
from core.openid import proves
from core.roles import Role
from database import transaction
from extensions import id_tokens, settings
from models import UserRow
from services import profiles, sessions, signed

SCOPES = ("openid", "profile", "email")
CODE_LIFE = timedelta(minutes=1)
SENT = ("grant_type", "code", "redirect_uri", "code_verifier", "client_id", "client_secret")
_GRANT = "authorization_code"
_CODE, _ACCESS = "application-code", "application-access"
Fields = Mapping[str, str]


class OAuthError(Exception):
    """An error in the words of OAuth 2.0 (RFC 6749, section 5.2): its code, and what is wrong."""

    def __init__(self, code: str, description: str) -> None:
        super().__init__(description)
        self.code = code


class Code(NamedTuple):
    """What our code says to the application's server that sends it."""

    id: str
    application: str
    redirect_uri: str
    challenge: str  # empty without PKCE
    user_id: str
    session_id: str
    login_at: int
    scope: str
    nonce: str


class Access(NamedTuple):
    """What an access token says."""

    code_id: str
    application: str
    user_id: str
    session_id: str
    scope: str


def issue(caller: Caller, asked: Fields, login_at: datetime) -> str:
    """Return a code for what an application has asked for."""
    scope = " ".join(each for each in SCOPES if each in asked["scope"].split())
    bound = asked["client_id"], asked["redirect_uri"], asked.get("code_challenge", "")
    who = caller.id, caller.session_id, int(login_at.timestamp())
    code = Code(ids.new_token_id(), *bound, *who, scope, asked.get("nonce", ""))
    return signed.sign_list(_CODE, CODE_LIFE, code)


def redeem(sent: Fields, authorization: str) -> dict[str, object]:
    """Return the tokens for a code. Raises OAuthError, and then nothing is used up."""
    application = _authenticate(sent, authorization)
    try:
        return _redeem(application, sent)
    except OAuthError as error:
        audit.log("application_refused", application=application.name, reason=error.code)
        raise


def _redeem(application: ApplicationSettings, sent: Fields) -> dict[str, object]:
    if sent.get("grant_type", _GRANT) != _GRANT:
        raise OAuthError("unsupported_grant_type", f"grant_type must be {_GRANT}")
    if missing := {"grant_type", "code", "redirect_uri"} - sent.keys():
        raise OAuthError("invalid_request", f"{min(missing)} is missing")
    wrong = OAuthError("invalid_grant", "the code is wrong, used, too old, or of another request")
    try:
        code = Code(*signed.read_list(_CODE, sent["code"]))
    except errors.InvalidToken:
        raise wrong from None
    verifier = sent.get("code_verifier", "")
    # A verifier without a challenge: somebody has taken the challenge out of the request.
    is_proven = proves(verifier, code.challenge) if code.challenge else not verifier
    bound = application.name, sent["redirect_uri"]
    if not is_proven or bound != (code.application, code.redirect_uri):
        raise wrong
    user = _user(code.user_id, code.session_id)
    if user is None or not Role(user.role).includes(Role(application.role)):
        raise wrong
    # Last, since whatever else is wrong must not use it up; of parallel calls one goes on.
    if not _use_up(code):
        raise wrong
    return _tokens(application, user, code)


def _authenticate(sent: Fields, authorization: str) -> ApplicationSettings:
    """Return the application that proves itself, in the header or the form (RFC 6749, section
    2.3.1). One that runs in the browser has no secret. Raises OAuthError.
    """
    name, secret = sent.get("client_id", ""), sent.get("client_secret")
    if authorization:
        in_form = name, secret
        name, secret = _basic(authorization)
        if in_form[1] is not None or (name and in_form[0] not in ("", name)):
            raise OAuthError("invalid_request", "the client must prove itself in one way")
    application = settings.application_named.get(name)
    expected = application.secret if application else ""
    # Both as bytes, since a text may hold what is not ASCII.
    is_right = hmac.compare_digest((secret or "").encode(), expected.encode())
    if application is None or not is_right or (secret is None) != (expected == ""):
        known = application.name if application else None
        audit.log("application_refused", application=known, reason="invalid_client")
        raise OAuthError("invalid_client", "the client or its secret is wrong")
    return application


def _basic(authorization: str) -> tuple[str, str]:
    """Return name and secret in a header of the scheme Basic; empty ones for any other."""
    scheme, _, encoded = authorization.partition(" ")
    try:
        raw = base64.b64decode(encoded.strip(), validate=True).decode()
        name, secret = (unquote_plus(part, errors="strict") for part in raw.split(":", 1))
    except ValueError:
        return "", ""
    return (name, secret) if scheme.lower() == "basic" else ("", "")


def _user(user_id: str, session_id: str) -> UserRow | None:
    """Return the active user of a session that is open, by its age and idleness too."""
    if sessions.login_time(session_id, user_id, now=clock.utcnow()) is None:
        return None
    return sessions.load_user(user_id, session_id)


def _use_up(code: Code) -> bool:
    """Use up a code; return False if it was used before. The mark stays, whatever is answered."""
    with transaction():
        is_first = signed.use_up(code.id)
        if not is_first:
            signed.use_up(_mark(code.id))
    return is_first


def _mark(code_id: str) -> str:
    """Return what is on the denylist when a code came twice: its access token has ended."""
    return f"{code_id}-twice"


def _tokens(application: ApplicationSettings, user: UserRow, code: Code) -> dict[str, object]:
    life = timedelta(minutes=settings.access_token_minutes)
    seconds, now = int(life.total_seconds()), int(clock.utcnow().timestamp())
    said = claims(application, user, code.scope) | {"auth_time": code.login_at}
    said |= {"iat": now, "exp": now + seconds, **({"nonce": code.nonce} if code.nonce else {})}
    access = Access(code.id, application.name, code.user_id, code.session_id, code.scope)
    return {
        "access_token": signed.sign_list(_ACCESS, life, access),
        "token_type": "Bearer",
        "expires_in": seconds,
        "scope": code.scope,
        "id_token": id_tokens.sign(said),
    }


def user_info(token: str) -> dict[str, object]:
    """Return the claims of the user of an access token. Raises OAuthError."""
    try:
        access = Access(*signed.read_list(_ACCESS, token))
    except errors.InvalidToken:
        access = None
    if access and not signed.is_used(_mark(access.code_id)):
        application = settings.application_named.get(access.application)
        user = _user(access.user_id, access.session_id)
        if application and user:
            return claims(application, user, access.scope)
    raise OAuthError("invalid_token", "the access token is wrong, has expired or was revoked")


def claims(application: ApplicationSettings, user: UserRow, scope: str) -> dict[str, object]:
    """Return what an application is told of a user (OpenID Connect Core 1.0, section 5)."""
    said: dict[str, object] = {"aud": application.name, "sub": user.id}
    said |= {"preferred_username": user.username, "roles": [user.role]}  # the role in effect
    if "profile" in scope:
        said |= {"name": f"{user.first_name} {user.last_name}"}
        said |= {"given_name": user.first_name, "family_name": user.last_name}
        said |= {"locale": user.language, "zoneinfo": user.timezone}
        if user.avatar_digest:
            said["picture"] = profiles.avatar_url(user.avatar_digest)
    if "email" in scope:
        if user.email_verified_at and has_mailbox(user.email):
            said |= {"email": user.email, "email_verified": True}
        elif application.placeholder_email:
            said |= {"email": f"{user.id}@users.invalid", "email_verified": True}
    return said
