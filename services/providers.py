"""Sign-in with a provider (OpenID Connect): the walk there and back, and whose account it opens.

Nothing of a walk is stored: `state` and our code are signed texts, and what has to be secret in
between is made from `state`. What a provider says opens an account or makes one; it never changes
one that is there.
"""

import re
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlencode

from marshmallow import ValidationError
from sqlalchemy import func

import errors
import fields
from config.providers import ProviderSettings
from core import audit, clock, ids
from core.addresses import (
    has_domain,
    has_mailbox,
    is_plainly_written,
    normalise_email,
    username_from,
)
from core.locales import time_zones
from core.openid import Json, ProviderFailed, Secrets, proves
from core.reasons import Reason
from core.roles import Role
from database import transaction, unique
from extensions import components, settings
from models import User, UserRow
from services import accounts, events, login, outbox, signed, users
from services.letters import MailKind

STATE_LIFE = timedelta(hours=1)
CODE_LIFE = timedelta(minutes=10)
GOOGLE = "https://accounts.google.com"
_OVER = "This sign-in is not valid any more. Begin again."
_NO_ANSWER = "The provider does not answer. Try again in a moment, or sign in with your password."
_PASSWORD = "If you have an account, sign in with its password once, together with the provider."
_NO_PAGE = Reason("invalid", "Not a page of SIGN_IN_RETURN_URLS, letter for letter.")
_NAME = fields.Name()
# Conditions for an account that a provider may open by its address.
_UNUSED = (*users.NO_WAY_IN, User.role != Role.ADMIN)


class Arrival(NamedTuple):
    """Somebody who has come from a provider, as our code says it.

    Our page shows `email` where `is_shown`: static/provider.js reads them in these places.
    """

    id: str  # of the code
    challenge: str
    provider: str
    identity: str
    email: str  # "" for none
    is_vouched: bool  # whether the provider's word counts for the address
    first_name: str  # "" for none
    last_name: str
    is_shown: bool = False  # whether the provider says that the address is this person's

    @property
    def shown(self) -> str:
        return self.email if self.is_shown else ""


@dataclass(frozen=True, kw_only=True)
class ByProvider(login.Way):
    """With somebody who has come from a provider: alone, or with the password, which links it."""

    came: Arrival
    by_password: bool

    @property
    def details(self) -> dict[str, str]:
        return {"provider": self.came.provider}

    def settle(self, now: datetime) -> UserRow:
        row = _connect(self.came, self.user, by_password=self.by_password)
        return login.Way(row, self.fresh_hash).settle(now)


def label_of(identity: str) -> str:
    """Return what the provider of an identity is called."""
    issuer = identity.partition(" ")[0]
    return {each.issuer: each.label for each in settings.oidc_providers}.get(issuer, issuer)


def begin(name: str, challenge: str, return_to: str | None) -> str:
    """Return the URL at which the user signs in at the provider.

    `return_to` is the page that gets our code, by default our own. Raises InvalidRequest and
    Unavailable.
    """
    own = f"{settings.public_url}/account"
    return_to = own if return_to is None else return_to
    if return_to not in (*settings.sign_in_return_urls, own if settings.account_pages else None):
        raise errors.InvalidRequest(fields={"returnTo": [_NO_PAGE]})
    payload = [name, challenge, return_to, ids.new_token_id()]
    state = signed.sign_list("provider-state", STATE_LIFE, payload)
    try:
        client = components().providers[name]
        return client.authorization_url(state, Secrets.of(settings.secret_key, state))
    except ProviderFailed as error:
        audit.log("provider_failed", provider=name, reason=str(error))
        raise errors.Unavailable(_NO_ANSWER) from None


def finish(name: str, state: str, code: str, error: str) -> str:
    """Return the URL of our page, with our code or an error in its fragment, for what a provider
    has sent. Raises InvalidToken for a `state` that is not ours.
    """
    provider, challenge, return_to, _ = signed.read_list("provider-state", state, _OVER)
    if provider != name:
        raise errors.InvalidToken(_OVER)
    answer = {"provider": name}
    try:
        if error or not code:
            # Anybody can make up what comes by the browser.
            raise ProviderFailed(
                f"user:{error}" if re.fullmatch("[a-z_]{1,40}", error) else "no_code"
            )
        ours = Secrets.of(settings.secret_key, state)
        claims = components().providers[name].claims(code, ours)
        came = _arrival(name, challenge, claims)
        answer["code"] = signed.sign_list("provider-code", CODE_LIFE, came)
    except ProviderFailed as failed:
        answer["error"] = "denied" if error == "access_denied" else "failed"
        audit.log("provider_failed", provider=name, reason=str(failed))
    return f"{return_to}#{urlencode(answer)}"


def read(code: str, verifier: str) -> Arrival:
    """Return who has come with our code. Raises InvalidToken, also without the right verifier."""
    came = Arrival(*signed.read_list("provider-code", code, _OVER))
    issuers = {each.name: each.issuer for each in settings.oidc_providers}
    # `_connect` decides; but a code that was used must not make an account before it is refused.
    is_good = not signed.is_used(came.id) and proves(verifier, came.challenge)
    if not is_good or came.identity.partition(" ")[0] != issuers.get(came.provider):
        raise errors.InvalidToken(_OVER)
    return came


def link(came: Arrival, way: login.Way) -> ByProvider:
    """Return the way in of somebody who comes from a provider and has sent the password."""
    return ByProvider(way.user, way.fresh_hash, came=came, by_password=True)


def way_in(came: Arrival) -> ByProvider | None:
    """Return the way in of somebody who comes from a provider alone: to the linked account, or to
    one with the address to which nobody can sign in; None if there is none, and one may be made.

    Raises RegistrationClosed if none may be made, and what `login.refuse_hindered` does.
    """
    user = users.get(User.identity == came.identity)
    is_joined = user is None and came.is_vouched
    if is_joined:
        user = users.get(User.email == came.email, *_UNUSED)
    if user is None:
        _check_registration(came)
        return None
    login.refuse_hindered(user, is_proven=is_joined)
    return ByProvider(user, came=came, by_password=False)


def _check_registration(came: Arrival) -> None:
    email, domains = came.email, settings.registration_domains
    if settings.registration == "closed":
        reason = "Nobody can register here."
    elif not email:
        reason = "The provider gives no e-mail address of yours."
    elif not has_mailbox(email) or (domains and not has_domain(email, domains)):
        reason = "Nobody can register here with the e-mail address that the provider gives."
    else:
        return
    raise errors.RegistrationClosed(f"{reason} {_PASSWORD}", email=came.shown)


def register(came: Arrival, language: str, timezone: str) -> None:
    """Make an account for somebody who comes from a provider, which commits, unless a parallel call
    has made it. Raises EmailTaken and UsernameTaken.
    """
    username = username_from(came.email)
    if users.get(User.username_key == username):
        username = username_from(came.email, 2 + secrets.randbelow(9998))
    facts: dict[str, Any] = {"identity": came.identity, "language": language}
    facts |= {"first_name": came.first_name or username, "last_name": came.last_name or username}
    if timezone in time_zones():
        facts["timezone"] = timezone
    if came.is_vouched:
        facts["email_verified_at"] = clock.utcnow()
    else:
        facts["mail"] = MailKind.EMAIL_VERIFICATION
    try:
        with transaction():
            accounts.add(username=username, email=came.email, provider=came.provider, **facts)
    except errors.ApiError as error:
        if users.get(User.identity == came.identity):
            return
        if isinstance(error, errors.EmailTaken):
            text = f"{error.message} {_PASSWORD}"
            raise errors.EmailTaken(text, email=came.shown) from None
        raise


def _connect(came: Arrival, user: UserRow, *, by_password: bool) -> UserRow:
    """Use up our code and link the account where it is not linked yet; return its row as it is now.

    Raises InvalidToken if the code was used, IdentityTaken if either has another link, and
    InvalidCredentials if the account has changed since it was read.
    """
    users.lock(user.id, key_share=True)
    if not signed.use_up(came.id):
        raise errors.InvalidToken(_OVER)
    if user.identity == came.identity:
        return user
    if user.identity:
        raise errors.IdentityTaken
    unchanged = [User.password_version == user.password_version, User.identity.is_(None)]
    values: dict[str, Any] = {"identity": came.identity}
    if not by_password:
        unchanged += [User.email == came.email, *_UNUSED]
        values["email_verified_at"] = func.coalesce(User.email_verified_at, clock.utcnow())
        values["password_version"] = User.password_version + 1
    with unique(errors.IdentityTaken, User.identity):
        linked = users.update(user.id, *unchanged, **values)
    if linked is None:
        raise errors.InvalidCredentials
    event = "identity_linked" if by_password else "identity_joined"
    events.tell(event, user.id, provider=came.provider)
    outbox.queue(MailKind.PROVIDER_LINKED, linked.email, language=linked.language)
    return linked


def _arrival(name: str, challenge: str, claims: Json) -> Arrival:
    provider = next(each for each in settings.oidc_providers if each.name == name)
    email = normalise_email(_text(claims, "email")) or ""
    first, last = _text(claims, "given_name"), _text(claims, "family_name")
    if not (first or last):
        first, _, last = _text(claims, "name").strip().partition(" ")
    identity, is_vouched = f"{provider.issuer} {claims['sub']}", _vouches(provider, claims, email)
    who = (name, identity, email, is_vouched, _name(first), _name(last))
    is_shown = is_vouched or _is_verified(claims, unsaid=False)
    return Arrival(ids.new_token_id(), challenge, *who, is_shown)


def _vouches(provider: ProviderSettings, claims: Json, email: str) -> bool:
    """Return whether an address counts as this person's, as the provider wrote it."""
    if provider.issuer == GOOGLE and not (email.endswith("@gmail.com") or claims.get("hd")):
        return False  # an account of Google's can have any address
    is_listed = has_domain(email, provider.domains) and is_plainly_written(claims["email"])
    return is_listed and _is_verified(claims, unsaid=True)


def _is_verified(claims: Json, *, unsaid: bool) -> bool:
    verified = claims.get("email_verified", unsaid)
    return verified is True or verified == "true"


def _text(claims: Json, name: str) -> str:
    """Return a claim; "" for one that is no text, or that cannot be encoded."""
    found = claims.get(name)
    return found if isinstance(found, str) and not re.search("[\ud800-\udfff]", found) else ""


def _name(text: str) -> str:
    try:
        return str(_NAME.deserialize(text))
    except ValidationError:
        return ""
