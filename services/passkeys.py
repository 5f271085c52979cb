"""Passkeys: added with password and second factor, and a way in that counts as both.

Nothing is stored before a passkey is made or used: the challenge is a signed text.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, NamedTuple
from uuid import UUID

from sqlalchemy import Row, Select, delete, func, insert, select, update

import errors
from callers import Caller
from core import audit, clock
from core.passkeys import ES256, RS256, PasskeyInvalid, RelyingParty, challenge_in, decode, encode
from core.passkeys import NewPasskey as NewKey
from core.roles import Role
from database import change, change_one, read_all, read_one, read_value, unique
from extensions import db, settings
from models import Passkey, User, UserRow
from services import login, second_factor, sessions, signed, users

MOST = 10  # for an account
LIFE = timedelta(minutes=5)  # of a challenge
_OVER = "This passkey came too late, or its challenge was used. Begin again."
_NONE = "There is no such passkey."
_REFUSED = "This passkey does not log in here. Use another one, or the password."
_RANDOM = 16  # bytes of a challenge
_LOGIN, _NEW = "passkey-login", "passkey-new"
_KEYS = Passkey.__table__


@dataclass(frozen=True, kw_only=True)
class ByPasskey(login.Way):
    """With a passkey, which was added with password and code, and whose holder was verified."""

    needs_code: ClassVar[bool] = False
    passkey_id: str
    challenge_id: str

    @property
    def details(self) -> dict[str, str]:
        return {"passkey": "yes"}

    def settle(self, now: datetime) -> UserRow:
        row = super().settle(now)
        is_unused = signed.use_up(self.challenge_id)
        if not change(update(Passkey).filter_by(id=self.passkey_id).values(last_used_at=now)):
            raise errors.InvalidCredentials(_REFUSED)
        if not is_unused:
            raise errors.InvalidToken(_OVER)
        return row


class Made(NamedTuple):
    """A passkey that a browser has made, and whose challenge must still be unused."""

    key: NewKey
    challenge_id: str


def are_for(role: str) -> bool:
    """Return whether accounts with this granted role add passkeys and sign in with them."""
    return settings.has_passkeys and (role != Role.STUDENT or settings.passkeys == "all")


def request_options() -> dict[str, object]:
    """Return what a browser needs for a login; the passkey names the account. Raises NotFound."""
    if not settings.has_passkeys:
        raise errors.NotFound("Nobody signs in with a passkey here.")
    return {"rpId": settings.passkey_host, "userVerification": "required", **_options(_LOGIN)}


def state(user: UserRow) -> dict[str, object]:
    """Return a caller's passkeys, and what a browser needs to make another one; None for that if
    the caller may have no more.
    """
    own = list_all(user.id)
    may_add = are_for(user.granted_role) and len(own) < MOST
    return {"passkeys": own, "public_key": _creation_options(user, own) if may_add else None}


def _creation_options(user: UserRow, own: Sequence[Mapping[str, Any]]) -> dict[str, object]:
    kind = "public-key"
    return {
        **_options(_NEW, _handle(user.id)),
        "rp": {"id": settings.passkey_host, "name": settings.site},
        "user": {
            "id": encode(_handle(user.id)),
            "name": user.username,
            "displayName": f"{user.first_name} {user.last_name}",
        },
        "pubKeyCredParams": [{"type": kind, "alg": algorithm} for algorithm in (ES256, RS256)],
        # Without them, a second passkey on the same device would silently replace the first.
        "excludeCredentials": [{"type": kind, "id": each["credential_id"]} for each in own],
        "authenticatorSelection": {
            "residentKey": "required",
            "requireResidentKey": True,
            "userVerification": "required",
        },
        "attestation": "none",
    }


def _handle(user_id: str) -> bytes:
    """Return what passkeys know a user by."""
    return UUID(user_id).bytes


def _options(purpose: str, whose: bytes = b"") -> dict[str, object]:
    payload, end = secrets.token_bytes(_RANDOM) + whose, clock.utcnow() + LIFE
    return {
        "challenge": encode(signed.sign(purpose, payload, end=end).encode()),
        "timeout": LIFE // timedelta(milliseconds=1),
    }


def _read_challenge(purpose: str, sent: Mapping[str, Any]) -> tuple[str, bytes]:
    """Return the id of the challenge that was signed, and whose it is. Raises PasskeyInvalid, and
    InvalidToken for one that is not ours or too old.
    """
    payload, _ = signed.read_fresh(purpose, challenge_in(sent), _OVER)
    return payload[:_RANDOM].hex(), payload[_RANDOM:]


def _relying_party() -> RelyingParty:
    return RelyingParty(settings.passkey_host, settings.passkey_origins)


def way_in(sent: Mapping[str, Any]) -> ByPasskey:
    """Return the way in of somebody who has come with a passkey.

    Raises InvalidCredentials; InvalidToken for a challenge that is not ours or too old; and what
    `login.refuse_hindered` does.
    """
    user_id = None
    try:
        if not settings.has_passkeys:
            raise PasskeyInvalid("off")
        challenge_id, _ = _read_challenge(_LOGIN, sent)
        this = _KEYS.c.credential_id == decode(sent.get("id", ""))
        key = read_one(select(_KEYS).where(this))
        if key is None:
            raise PasskeyInvalid("unknown")
        user_id = key.user_id
        _relying_party().check_signature(sent, _handle(user_id), key.public_key)
        user = users.get(User.id == user_id)
        if user is None or not are_for(user.role):
            raise PasskeyInvalid("role")
    except PasskeyInvalid as error:
        audit.log("login_failed", user_id, reason=f"passkey_{error}")
        raise errors.InvalidCredentials(_REFUSED) from None
    login.refuse_hindered(user)
    return ByPasskey(user, passkey_id=key.id, challenge_id=challenge_id)


def read_new(user: UserRow, sent: Mapping[str, Any]) -> Made:
    """Return the passkey that a browser has made for a user.

    Raises InvalidPasskey; and InvalidToken for a challenge that is another's or too old.
    """
    try:
        challenge_id, whose = _read_challenge(_NEW, sent)
        key = _relying_party().read_new(sent)
    except PasskeyInvalid as error:
        audit.log("passkey_refused", user.id, reason=str(error))
        raise errors.InvalidPasskey from None
    if whose != _handle(user.id):
        raise errors.InvalidToken(_OVER)
    return Made(key, challenge_id)


def add(user: UserRow, made: Made, name: str) -> dict[str, Any]:
    """Add a passkey for a user whose row is locked, and notify the user; return it as it is shown.

    Raises InvalidToken if its challenge was used, TooManyPasskeys and PasskeyTaken.
    """
    if not signed.use_up(made.challenge_id):
        raise errors.InvalidToken(_OVER)
    if (db.session.scalar(_how_many(user.id)) or 0) >= MOST:
        raise errors.TooManyPasskeys
    values = {**made.key._asdict(), "name": name or made.key.name, "user_id": user.id}
    with unique(errors.PasskeyTaken, Passkey.credential_id):
        row = db.session.execute(insert(_KEYS).values(values).returning(_KEYS)).one()
    second_factor.tell(user, "passkey_added", "passkey_added")
    return _shown(row)


def rename(user_id: str, passkey_id: str, name: str) -> dict[str, Any]:
    """Give a user's passkey another name; return it as it is shown. Raises NotFound."""
    this = update(_KEYS).filter_by(id=passkey_id, user_id=user_id).returning(_KEYS)
    row = change_one(this.values(name=name))
    if row is None:
        raise errors.NotFound(_NONE)
    return _shown(row)


def remove(caller: Caller, passkey_id: str) -> None:
    """Remove a caller's passkey, end the other sessions and notify the user. Raises NotFound."""
    user = caller.user
    sessions.end_all(user.id, keep=caller.session_id)
    if not change(delete(Passkey).filter_by(id=passkey_id, user_id=user.id)):
        raise errors.NotFound(_NONE)
    second_factor.tell(user, "passkey_removed", "passkey_removed")


def count(user_id: str) -> int:
    """Return how many passkeys an account has."""
    return read_value(_how_many(user_id)) or 0


def _how_many(user_id: str) -> Select[int]:
    return select(func.count()).select_from(_KEYS).where(_KEYS.c.user_id == user_id)


def list_all(user_id: str) -> list[dict[str, Any]]:
    """Return a user's passkeys as they are shown, oldest first."""
    query = select(_KEYS).where(_KEYS.c.user_id == user_id).order_by(_KEYS.c.id)
    return [_shown(row) for row in read_all(query)]


def _shown(row: Row[Any]) -> dict[str, Any]:
    return {**row._asdict(), "credential_id": encode(row.credential_id)}
