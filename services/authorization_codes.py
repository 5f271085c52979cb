"""Codes of applications, and the tokens for them: OpenID Connect Core 1.0, sections 3.1.3 and 5.3.

A code and an access token are signed texts; a code is used up on the denylist. If it is sent again,
a mark beside it ends the access token that it got (RFC 6749, section 4.1.2).
"""

import base64
import hmac
from collections.abc import Mapping
from contextlib import suppress
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
# Behind an id on the denylist: the code came twice, and its access token has ended.
_TWICE = "-twice"
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


def issue(caller: Caller, asked: Fields, login_at: datetime) -> str:
    """Return a code for what an application has asked for."""
    scope = " ".join(each for each in SCOPES if each in asked["scope"].split(" "))
    bound = asked["client_id"], asked["redirect_uri"], asked.get("code_challenge", "")
    who = caller.id, caller.session_id, int(login_at.timestamp())
    code = Code(ids.new_token_id(), *bound, *who, scope, asked.get("nonce", ""))
    return signed.sign_list(_CODE, CODE_LIFE, code)


def redeem(sent: Fields, authorization: str) -> dict[str, object]:
    """Return the tokens for a code. Raises OAuthError, and then nothing is used up."""
    application = _authenticate(sent, authorization)
    if sent.get("grant_type", _GRANT) != _GRANT:
        raise _refused(application, "unsupported_grant_type", f"grant_type must be {_GRANT}")
    if missing := {"grant_type", "code", "redirect_uri"} - sent.keys():
        raise _refused(application, "invalid_request", f"{min(missing)} is missing")
    with suppress(errors.InvalidToken):
        code = Code(*signed.read_list(_CODE, sent["code"]))
        user = _user_of(application, code, sent)
        # Last, since whatever else is wrong must not use it up; of parallel calls one goes on.
        if user and _use_up(code):
            return _tokens(application, user, code)
    raise _refused(application, "invalid_grant", "the code is wrong, used or too old")


def _refused(application: ApplicationSettings | None, code: str, description: str) -> OAuthError:
    name = application.name if application else None
    audit.log("application_refused", application=name, reason=code)
    return OAuthError(code, description)


def _user_of(application: ApplicationSettings, code: Code, sent: Fields) -> UserRow | None:
    """Return the user of a code that this application may redeem, if that one may enter."""
    verifier = sent.get("code_verifier", "")
    # A verifier without a challenge: somebody has taken the challenge out of the request.
    must_prove = code.challenge or not application.secret
    is_proven = proves(verifier, code.challenge) if must_prove else not verifier
    bound = application.name, sent["redirect_uri"]
    if not is_proven or bound != (code.application, code.redirect_uri):
        return None
    return _user(application, code.user_id, code.session_id)


def _authenticate(sent: Fields, authorization: str) -> ApplicationSettings:
    """Return the application that proves itself, in the header or the form (RFC 6749, section
    2.3.1). One that runs in the browser has no secret. Raises OAuthError.
    """
    name, secret = sent.get("client_id", ""), sent.get("client_secret")
    if authorization:
        named, (name, basic) = name, _basic(authorization)
        if secret is not None or (name and named not in ("", name)):
            raise _refused(None, "invalid_request", "the client must prove itself in one way")
        secret = basic
    application = settings.application_named.get(name)
    expected = application.secret if application else ""
    # Both as bytes, since a text may hold what is not ASCII.
    is_right = hmac.compare_digest((secret or "").encode(), expected.encode())
    if application is None or not is_right or (secret is None) != (expected == ""):
        raise _refused(application, "invalid_client", "the client or its secret is wrong")
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


def _user(application: ApplicationSettings, user_id: str, session_id: str) -> UserRow | None:
    """Return the active user of an open session, also by its age and idleness, who may enter."""
    if sessions.login_time(session_id, user_id, now=clock.utcnow()) is None:
        return None
    user = sessions.load_user(user_id, session_id)
    return user if user and Role(user.role).includes(Role(application.role)) else None


def _use_up(code: Code) -> bool:
    """Use up a code; return False if it was used before. The mark stays, whatever is answered."""
    with transaction():
        is_first = signed.use_up(code.id)
        if not is_first:
            signed.use_up(f"{code.id}{_TWICE}")
    return is_first


def _tokens(application: ApplicationSettings, user: UserRow, code: Code) -> dict[str, object]:
    life = timedelta(minutes=settings.access_token_minutes)
    seconds, now = int(life.total_seconds()), int(clock.utcnow().timestamp())
    said = claims(application, user, code.scope) | {"auth_time": code.login_at}
    said |= {"iat": now, "exp": now + seconds, **({"nonce": code.nonce} if code.nonce else {})}
    access = code.id, application.name, code.user_id, code.session_id, code.scope
    return {
        "access_token": signed.sign_list(_ACCESS, life, access),
        "token_type": "Bearer",
        "expires_in": seconds,
        "scope": code.scope,
        "id_token": id_tokens.sign(said),
    }


def user_info(token: str) -> dict[str, object]:
    """Return the claims of the user of an access token. Raises OAuthError."""
    with suppress(errors.InvalidToken):
        code_id, name, user_id, session_id, scope = signed.read_list(_ACCESS, token)
        application = settings.application_named.get(name)
        user = _user(application, user_id, session_id) if application else None
        if application and user and not signed.is_used(f"{code_id}{_TWICE}"):
            return claims(application, user, scope)
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
