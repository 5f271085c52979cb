"""Changes of the e-mail address: a code that was sent to the new one proves it.

Somebody who gets the mail to a mistyped address can do nothing with a code.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import Row, delete, select, update

import errors
from callers import Caller
from core import codes, ids
from database import change, insert_into, one_statement, read_one, unique
from extensions import db, settings
from models import PendingEmail, User, UserRow
from services import accounts, events, links, outbox, recovery, sessions, users
from services.letters import MailKind
from services.users import Condition

MAX_TRIES = 5
_NO_CHANGE = "No change of your e-mail address waits for this code. Ask for the change again."
_PENDING = PendingEmail.__table__


def pending(user_id: str, *, now: datetime) -> dict[str, object]:
    """Return the address that waits for its code, and until when; "" and None if there is none."""
    query = select(_PENDING.c.new_email, _PENDING.c.expires_at).where(*_open(user_id, now))
    new_email, until = read_one(query) or ("", None)
    return {"pending_email": new_email, "pending_until": until}


def _open(user_id: str, now: datetime) -> tuple[Condition, ...]:
    """Return the conditions for a change that a code may still confirm."""
    table = _PENDING.c
    return table.user_id == user_id, table.expires_at > now, table.tries < MAX_TRIES


def request(caller: Caller, new_email: str, *, now: datetime) -> dict[str, object]:
    """Store a change instead of an earlier one, and queue its code; return what `pending` does.

    Raises EmailTaken.
    """
    if db.session.scalar(select(User.id).where(User.email == new_email)):
        raise errors.EmailTaken.at("newEmail", "taken")
    until, id_, user = now + links.CODE_LIFE, ids.new_row_id(), caller.user
    values = {"id": id_, "new_email": new_email, "expires_at": until, "tries": 0}
    insert = insert_into(_PENDING).values(user_id=user.id, **values)
    db.session.execute(insert.on_conflict_do_update(index_elements=["user_id"], set_=values))
    events.tell("email_change_requested", user.id)
    outbox.queue(MailKind.EMAIL_CHANGE_CODE, new_email, language=user.language, change_id=id_)
    return {"pending_email": new_email, "pending_until": until}


def try_code(user_id: str, code: str, *, now: datetime) -> Row[Any]:
    """Return the pending change that this code confirms.

    Commits by itself, before the code is compared, so that parallel tries are all counted. Raises
    InvalidToken if nothing is pending or too many codes were wrong, and WrongCode.
    """
    counted = update(_PENDING).where(*_open(user_id, now)).values(tries=_PENDING.c.tries + 1)
    with one_statement() as connection:
        found = connection.execute(counted.returning(*_PENDING.c["id", "new_email"])).one_or_none()
    if found is None:
        raise errors.InvalidToken(_NO_CHANGE)
    if not codes.is_email_code(code, settings.secret_keys, found.id, found.new_email):
        raise errors.WrongCode.at("code", "wrong")
    return found


def confirm(caller: Caller, proven: Row[Any], *, now: datetime) -> None:
    """Change the e-mail address to the proven one, end the other sessions and notify the old one.

    Raises EmailTaken; TokenRevoked if the session has ended; and InvalidToken if the account or the
    pending change is not what it was when the code was tried.
    """
    accounts.lock_caller(caller, lambda: errors.InvalidToken(_NO_CHANGE))
    # A change that has replaced the proven one has a code that was not seen.
    if not change(delete(PendingEmail).where(PendingEmail.id == proven.id)):
        raise errors.InvalidToken(_NO_CHANGE)
    user = caller.user
    replace(user, proven.new_email, verified_at=now, field="code", keep=caller.session_id)
    notify_old_address(user)


def set_email(user_id: str, new_email: str, *, replace_password: bool, now: datetime) -> None:
    """Change an address that an operator vouches for, and end all sessions if it is another one.

    With `replace_password`, the password stops working too. Raises UserNotFound and EmailTaken.
    """
    user = users.lock_within(user_id)
    if new_email != user.email:
        replace(user, new_email, verified_at=now)
    elif user.email_verified_at is None:
        users.update(user_id, email_verified_at=now)
        events.tell("email_verified", user_id)
    if replace_password:
        recovery.remove_passwords(user)


def replace(
    user: UserRow,
    new_email: str,
    *conditions: Condition,
    verified_at: datetime | None,
    field: str = "email",
    keep: str | None = None,
) -> None:
    """Change the address of a user whose row is locked, and end all sessions but the one to `keep`.

    Raises EmailTaken at `field`, and Forbidden if a condition does not hold.
    """
    values = {"email": new_email, "email_verified_at": verified_at}
    version = User.password_version + 1
    with unique(lambda: errors.EmailTaken.at(field, "taken"), User.email):
        if not users.update(user.id, *conditions, password_version=version, **values):
            raise errors.Forbidden
    accounts.drop_pending_email(user.id)
    sessions.end_all(user.id, keep=keep)
    events.tell("email_changed", user.id)
    outbox.withdraw(user.email, user.username_key)


def notify_old_address(user: UserRow) -> None:
    """Queue a notice to the address that a user had, if it was verified."""
    if user.email_verified_at:
        outbox.queue(MailKind.EMAIL_CHANGED, user.email, language=user.language)
