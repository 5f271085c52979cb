"""Accounts: registration, the check of a password, and its change."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import exists, select, update
from sqlalchemy.exc import IntegrityError

import errors
from core import guessable
from core.events import record
from core.roles import Role
from database import change, change_one, reading
from extensions import db, hasher, settings
from fieldtypes import normalise_email
from models import User, UserRow, UserSession
from services import administration, outbox, sessions
from services.letters import MailKind


@dataclass(frozen=True)
class Authenticated:
    """A user who gave the right password, as of the password's version then."""

    user: UserRow
    # A new hash of the same password, where the stored one was made at another cost.
    fresh_hash: str | None


def hash_new_password(password: str, personal: Iterable[str], *, field: str) -> str:
    """Return the hash of a password that is to be set. Takes as long as a hash takes.

    `personal` are the texts that a stranger would try first for this user. Raises WeakPassword
    with the reason at `field` (NIST SP 800-63B, section 5.1.1.2).
    """
    reason = guessable.why_guessable(password, personal, settings.password_min_length)
    if reason:
        raise errors.WeakPassword(fields={field: [reason]})
    return hasher.hash(password)


def add(
    *,
    username: str,
    email: str,
    password_hash: str,
    first_name: str,
    last_name: str,
    role: str = Role.STUDENT,
    verified_at: datetime | None = None,
) -> User:
    """Add an account and, unless its address is verified, queue the mail that does so.

    Raises UsernameTaken or EmailTaken; `fields` names both when both are.
    """
    user = User(
        username=username,
        username_key=username.lower(),
        email=email,
        password_hash=password_hash,
        first_name=first_name,
        last_name=last_name,
        role=role,
        email_verified_at=verified_at,
    )
    db.session.add(user)
    try:
        db.session.flush()
    except IntegrityError:
        db.session.rollback()  # gives the connection back before the next one is taken
        raise _taken(user) from None
    if verified_at is None:
        outbox.queue(MailKind.EMAIL_VERIFICATION, email)
    return user


def _taken(user: User) -> errors.ApiError:
    rivals = select(User.username_key, User.email).where(
        (User.username_key == user.username_key) | (User.email == user.email)
    )
    with reading() as connection:
        found = connection.execute(rivals).all()
    kinds: dict[str, type[errors.ApiError]] = {}
    if any(rival.username_key == user.username_key for rival in found):
        kinds["username"] = errors.UsernameTaken
    if any(rival.email == user.email for rival in found):
        kinds["email"] = errors.EmailTaken
    # The rival may be deleted again by now; then the same request would go through.
    first = next(iter(kinds.values()), errors.Unavailable)
    return first(fields={name: [kind.message] for name, kind in kinds.items()})


def authenticate(raw_email: str, raw_password: str) -> Authenticated:
    """Return the user of an address and password. Takes as long as a hash takes, or two.

    The work is the same whether or not the account exists. Raises InvalidCredentials; and only
    after the right password AccountInactive or EmailUnverified.
    """
    user = _find(normalise_email(raw_email))
    verdict = hasher.verify(raw_password, user.password_hash if user else None)
    if user is None or not verdict.matches:
        record("login_failed", user.id if user else None)
        raise errors.InvalidCredentials
    if not user.is_active:
        record("login_refused_inactive", user.id)
        raise errors.AccountInactive
    if settings.require_verified_email and user.email_verified_at is None:
        record("login_refused_unverified", user.id)
        raise errors.EmailUnverified
    return Authenticated(user, hasher.hash(raw_password) if verdict.outdated else None)


def _find(email: str | None) -> UserRow | None:
    with reading() as connection:
        return connection.execute(select(User.__table__).where(User.email == email)).one_or_none()


def note_login(found: Authenticated, *, now: datetime) -> UserRow:
    """Write down a login, and hold the account's row until the transaction ends; return that row.

    Its role may be another than before the password was hashed. Raises InvalidCredentials when
    the password was changed, or the account deactivated, while it was being hashed: whoever did
    that has ended all sessions and wants no new ones.
    """
    values: dict[str, Any] = {"last_login_at": now}
    if found.fresh_hash:
        values["password_hash"] = found.fresh_hash
    user = change_one(
        update(User)
        .where(
            User.id == found.user.id,
            User.password_version == found.user.password_version,
            User.is_active,
        )
        .values(values)
        .returning(User.__table__)
    )
    if user is None:
        raise errors.InvalidCredentials
    return user


def confirm_password(user: UserRow, raw_password: str, *, field: str) -> None:
    """Check the current password of somebody who is logged in. Takes as long as a hash takes.

    Raises WrongPassword at `field`.
    """
    if not hasher.verify(raw_password, user.password_hash):
        record("wrong_password", user.id)
        raise errors.WrongPassword(fields={field: [errors.WrongPassword.message]})


def change_password(user: UserRow, password_hash: str, *, session_id: str) -> None:
    """Set a new password for the one that was confirmed, end the other sessions, tell the owner.

    Raises WrongPassword or TokenRevoked when that comes too late.
    """
    changed = change(
        update(User)
        .where(User.id == user.id, *_as_confirmed(user, session_id))
        .values(password_hash=password_hash, password_version=User.password_version + 1)
    )
    if not changed:
        raise _too_late(user, session_id)
    sessions.end_all(user.id, keep=session_id)
    outbox.queue(MailKind.PASSWORD_CHANGED, user.email)


def delete_own(user: UserRow, *, session_id: str) -> None:
    """Delete the account of somebody who has confirmed the password, and all that is stored of it.

    Raises LastAdmin; and WrongPassword or TokenRevoked when it comes too late.
    """
    if not administration.remove(user.id, *_as_confirmed(user, session_id)):
        raise _too_late(user, session_id)


def _as_confirmed(user: UserRow, session_id: str) -> tuple[Any, ...]:
    """Return what must still hold of an account to act on a password that was just confirmed.

    Hashing takes its time. Whoever has meanwhile changed the password, deactivated the account or
    ended this session did so to keep out the one who acts in it.
    """
    this_session = exists().where(UserSession.id == session_id, UserSession.user_id == user.id)
    return User.password_version == user.password_version, User.is_active, this_session


def _too_late(user: UserRow, session_id: str) -> errors.ApiError:
    open_still = sessions.is_open(session_id, user.id)
    return errors.WrongPassword() if open_still else errors.TokenRevoked()
