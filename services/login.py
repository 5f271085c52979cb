"""The login, in steps: check the password, judge the second factor, then finish."""

import logging
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import ColumnElement, and_, func, not_, or_

import counting
import errors
from core import audit, devices, passwords
from core.addresses import NO_MAILBOX, has_mailbox, login_name
from core.hindrances import Hindrance
from extensions import hasher, settings
from models import User, UserRow
from services import events, history, outbox, second_factor, sessions, users
from services.letters import MailKind
from services.second_factor import Proof
from services.sessions import TokenPair

_log = logging.getLogger("accounts.login")


@dataclass(frozen=True)
class Way:
    """A way to log in, as it was judged before the transaction of the login: by the password."""

    # Whether the second factor of an account that has one is asked for.
    needs_code: ClassVar[bool] = True
    user: UserRow  # as it was read first
    # A new hash of the same password if the stored one is not as it would be stored now.
    fresh_hash: str | None = None

    @property
    def details(self) -> dict[str, str]:
        """What the event of the login says of it."""
        return {}

    def settle(self, now: datetime) -> UserRow:
        """Store the login in the open transaction; return the user's row as it is then.

        Raises InvalidCredentials if the account's version has grown since the row was read: what
        raises it ends the sessions, so no new one may open.
        """
        values = {"last_login_at": now, "password_hash": self.fresh_hash or User.password_hash}
        unchanged = (User.password_version == self.user.password_version, User.is_active)
        row = users.update(self.user.id, *unchanged, **values)
        if row is None:
            raise errors.InvalidCredentials
        return row


def check_password(name: str, raw_password: str) -> Way:
    """Return the way in of the user with this e-mail address or username, and password; takes the
    time of one or two hashes.

    Unknown names take as long as known ones, except those with a hash of other software, which may
    take longer. Raises WrongGuess; and only after the right password what `refuse_hindered` raises.
    """
    user = users.get(users.named(name))
    stored = user.password_hash if user else None
    verdict = hasher.verify(raw_password, stored, login_name(name) or name)
    if user is None:
        audit.log("login_failed", reason="unknown_account")
        raise counting.WrongGuess(errors.InvalidCredentials())
    if not verdict.matches:
        has_password = passwords.is_usable(user.password_hash)
        reason = "wrong_password" if has_password else "no_password"
        audit.log("login_failed", user.id, reason=reason)
        if Hindrance.UNKNOWN_HASH in hindrances(user):
            _log.warning("the stored hash of account %s has an unknown form", user.id)
        raise counting.WrongGuess(errors.InvalidCredentials())
    refuse_hindered(user)
    return Way(user, hasher.hash(raw_password) if verdict.outdated else None)


def hindrances(user: UserRow) -> list[Hindrance]:
    """Return why nobody can log in to this account, whatever limits have counted."""
    found, stored = lasting(user), user.password_hash
    if passwords.is_usable(stored) and not passwords.is_known(stored):
        found.append(Hindrance.UNKNOWN_HASH)
    return found


def lasting(user: UserRow) -> list[Hindrance]:
    """Return those of the `hindrances` that lists show: an account's columns tell them."""
    has_password = passwords.is_usable(user.password_hash)
    issuer = (user.identity or "").partition(" ")[0]
    # Nobody can prove an address that has no mailbox.
    unproven = not user.email_verified_at and has_mailbox(user.email)
    rules = {
        Hindrance.INACTIVE: not user.is_active,
        Hindrance.UNVERIFIED: settings.require_verified_email and unproven,
        Hindrance.NO_PASSWORD: not (has_password or issuer in _issuers()),
    }
    return [hindrance for hindrance, holds in rules.items() if holds]


def _issuers() -> list[str]:
    return [provider.issuer for provider in settings.oidc_providers]


def is_hindered() -> ColumnElement[bool]:
    """Return the condition for accounts with a hindrance that is `lasting`."""
    identity = func.coalesce(User.identity, "")
    # Not LIKE, for which SQLite takes capital letters for small ones.
    provided = [func.substr(identity, 1, len(each) + 1) == f"{each} " for each in _issuers()]
    rules = [~User.is_active, and_(User.password_hash.startswith("!"), *map(not_, provided))]
    if settings.require_verified_email:
        rules.append(and_(User.email_verified_at.is_(None), ~User.email.endswith(NO_MAILBOX)))
    return or_(*rules)


def state(user: UserRow) -> dict[str, Any]:
    """Return why the right password does not log in now, and when the last limit ends; no reason if
    it is enough, with the second factor where there is one.
    """
    factor_until = second_factor.status(user)["locked_until"]
    locks = {Hindrance.LOCKED: counting.locked_until(user), Hindrance.FACTOR_LOCKED: factor_until}
    ends = {lock: end for lock, end in locks.items() if end}
    reasons = [*hindrances(user), *ends]
    return {"hindrances": reasons, "locked_until": max(ends.values(), default=None)}


def refuse_hindered(user: UserRow, *, is_proven: bool = False) -> None:
    """Raise AccountInactive or EmailUnverified for an account that may not log in.

    With `is_proven`, this login proves the e-mail address.
    """
    hindered = hindrances(user)
    if Hindrance.INACTIVE in hindered:
        audit.log("login_refused_inactive", user.id)
        raise errors.AccountInactive
    if Hindrance.UNVERIFIED in hindered and not is_proven:
        audit.log("login_refused_unverified", user.id)
        raise errors.EmailUnverified


def finish(
    way: Way, proof: Proof | None, *, now: datetime, **client: str
) -> tuple[UserRow, TokenPair]:
    """Record the login, spend the proof of the second factor and open a session; return the user's
    row as it is now, and the tokens.

    Raises what the way's `settle` does, and WrongGuess if the code was used meanwhile.
    """
    user = way.settle(now)
    second_factor.spend(proof)
    pair = sessions.open_session(user, now=now, **client)
    is_kept = events.tell("login", user.id, **way.details)
    # An unverified address may be a stranger's, who would learn from where the user logs in.
    is_told = settings.login_notices and settings.event_days and user.email_verified_at
    if is_kept and is_told and history.is_elsewhere(user.id):
        facts = {"device": devices.device(client["user_agent"]), "ip_address": client["ip_address"]}
        outbox.queue(MailKind.NEW_LOGIN, user.email, language=user.language, **facts)
    return user, pair
