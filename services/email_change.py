"""Changes of the e-mail address: a code proves the new one, a link to the old one undoes it.

Somebody who gets the mail to a mistyped address can do nothing with a code.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import Row, case, delete, func, select, update

import errors
from core import audit, codes, ids
from core.addresses import UNDONE
from database import change, change_one, insert_into, one_statement, reading, unique
from extensions import db, settings
from models import EmailChange, PendingEmail, User, UserRow
from services import accounts, links, outbox, second_factor, sessions, users
from services.letters import MailKind

MAX_TRIES = 5
_NO_CHANGE = "No change of your e-mail address waits for this code. Ask for the change again."
_PENDING = PendingEmail.__table__


def pending(user_id: str, *, now: datetime) -> dict[str, object]:
    """Return the address that waits for its code, and until when; "" and None if there is none."""
    query = select(_PENDING.c.new_email, _PENDING.c.expires_at).filter_by(user_id=user_id)
    with reading() as connection:
        found = connection.execute(query.where(_PENDING.c.expires_at > now)).one_or_none()
    new_email, until = found or ("", None)
    return {"pending_email": new_email, "pending_until": until}


def request(user: UserRow, new_email: str, *, session_id: str, now: datetime) -> dict[str, object]:
    """Store a change instead of an earlier one, and queue its code; return what `pending` does.

    Raises EmailTaken; and WrongPassword or TokenRevoked if the account or the session has changed
    since the password was confirmed.
    """
    if not users.lock(user.id, *accounts.unchanged(user, session_id), key_share=True):
        raise accounts.changed_meanwhile(user, session_id)
    if db.session.scalar(select(User.id).where(User.email == new_email)):
        raise errors.EmailTaken.at("newEmail", "taken")
    until, id_ = now + links.CODE_LIFE, ids.new_row_id()
    values = {"id": id_, "new_email": new_email, "expires_at": until, "tries": 0}
    insert = insert_into(_PENDING).values(user_id=user.id, **values)
    db.session.execute(insert.on_conflict_do_update(index_elements=["user_id"], set_=values))
    outbox.queue(MailKind.EMAIL_CHANGE_CODE, new_email, language=user.language, about=id_)
    return {"pending_email": new_email, "pending_until": until}


def try_code(user_id: str, code: str, *, now: datetime) -> Row[Any]:
    """Return the pending change that this code confirms.

    Commits by itself, before the code is compared, so that parallel tries are all counted. Raises
    InvalidToken if nothing is pending or too many codes were wrong, and WrongCode.
    """
    counted = (
        update(_PENDING)
        .where(_PENDING.c.user_id == user_id, _PENDING.c.expires_at > now)
        .where(_PENDING.c.tries < MAX_TRIES)
        .values(tries=_PENDING.c.tries + 1)
        .returning(_PENDING.c.id, _PENDING.c.new_email)
    )
    with one_statement() as connection:
        found = connection.execute(counted).one_or_none()
    if found is None:
        raise errors.InvalidToken(_NO_CHANGE)
    if not codes.is_right(code, settings.secret_keys, found.id, found.new_email):
        raise errors.WrongCode.at("code", "wrong")
    return found


def confirm(user: UserRow, proven: Row[Any], *, session_id: str, now: datetime) -> None:
    """Change the e-mail address to the proven one, end the other sessions and notify the old one.

    Raises EmailTaken; and InvalidToken if the account, the session or the pending change is not
    what it was when the code was tried.
    """
    conditions = (User.email == user.email, *accounts.unchanged(user, session_id))
    with unique(lambda: errors.EmailTaken.at("code", "taken"), User.email):
        changed = users.update(user.id, *conditions, email=proven.new_email, email_verified_at=now)
    # A change that has replaced the proven one has a code that was not seen.
    if not changed or not change(delete(PendingEmail).where(PendingEmail.id == proven.id)):
        raise errors.InvalidToken(_NO_CHANGE)
    sessions.end_all(user.id, keep=session_id)
    outbox.withdraw(user.email)
    # The user's row is locked by its UPDATE, so each change gets a number of its own.
    last = select(func.coalesce(func.max(EmailChange.number), 0)).filter_by(user_id=user.id)
    done = EmailChange(id=proven.id, user_id=user.id, old_email=user.email, changed_at=now)
    done.number = last.scalar_subquery() + 1
    done.second_factor_at = changed.second_factor_at
    db.session.add(done)
    if user.email_verified_at:
        kind = MailKind.EMAIL_CHANGED
        outbox.queue(kind, user.email, language=user.language, about=proven.id)


def old_email(user_id: str, change_id: str) -> str:
    """Return the address that undoing a change restores. Raises InvalidToken if there is none."""
    this = (EmailChange.user_id == user_id, EmailChange.id == change_id)
    with reading() as connection:
        found = connection.scalar(select(EmailChange.old_email).where(*this))
    if found is None:
        raise errors.InvalidToken
    return found


def undo(user_id: str, change_id: str, *, now: datetime) -> bool:
    """Restore the address from before a change and remove the password; return True.

    Return False if another account has the address by now: then this account is deactivated, even
    that of the last admin, and loses the thief's address, or a reset mail would go there once it is
    activated again. Raises InvalidToken.
    """
    user = users.lock(user_id)
    changes = delete(EmailChange).where(EmailChange.user_id == user_id)
    this = changes.where(EmailChange.id == change_id)
    undone = change_one(this.returning(EmailChange.__table__))
    if user is None or undone is None:
        raise errors.InvalidToken
    # A process of the release before leaves 0 during an upgrade; then the ids tell the order.
    unknown = EmailChange.number * undone.number == 0
    newer_id, newer = EmailChange.id > change_id, EmailChange.number > undone.number
    change(changes.where(case((unknown, newer_id), else_=newer)))
    accounts.remove_password(user.id)
    if user.second_factor_at not in (None, undone.second_factor_at):  # perhaps it is a thief's
        second_factor.drop(user.id)
        audit.log("second_factor_removed", user.id)
    outbox.withdraw(user.email)
    try:
        with unique(errors.EmailTaken, User.email), db.session.begin_nested():
            users.update(user.id, email=undone.old_email, email_verified_at=now)
    except errors.EmailTaken:
        nobody = f"{user.id}@{UNDONE}"
        users.update(user.id, is_active=False, email=nobody, email_verified_at=None)
        return False
    outbox.queue(MailKind.PASSWORD_RESET, undone.old_email)
    return True


def set_email(user_id: str, new_email: str, *, replace_password: bool, now: datetime) -> None:
    """Change an address that an operator vouches for, and end all sessions.

    With `replace_password`, the password stops working too. Raises UserNotFound and EmailTaken.
    """
    replace(users.require(users.lock(user_id)), new_email, verified_at=now)
    if replace_password:
        accounts.remove_password(user_id)


def replace(user: UserRow, new_email: str, *, verified_at: datetime | None) -> None:
    """Change the address of a user whose row is locked, at once, and end all sessions.

    Links that undo earlier changes stop working: they could take the account away again. Raises
    EmailTaken.
    """
    with unique(lambda: errors.EmailTaken.at("email", "taken"), User.email):
        users.update(user.id, email=new_email, email_verified_at=verified_at)
    accounts.drop_pending_email(user.id)
    change(delete(EmailChange).where(EmailChange.user_id == user.id))
    sessions.end_all(user.id)
    outbox.withdraw(user.email)
