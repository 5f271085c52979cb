"""Many accounts at once: locks, adds and changes them by statements for all."""

from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeAlias

from sqlalchemy import bindparam, select
from sqlalchemy import update as update_table
from sqlalchemy.orm import InstrumentedAttribute

import errors
from core import clock, passwords
from core.addresses import has_mailbox, search_key
from core.ids import new_row_id
from core.roles import EVERYBODY, Reach
from database import insert_into, unique
from extensions import db
from models import User, UserRow
from services import accounts, changes, events, users

# Why nothing is done for some of many accounts, by their ids.
Refused: TypeAlias = dict[str, type[errors.ApiError]]
# What is compared for many accounts at once, besides id and role: to read all takes longest of all.
COMPARED = (
    *(User.username, User.username_key, User.email, User.email_verified_at, User.external_id),
    *(User.first_name, User.last_name, User.language, User.is_active),
    *(User.last_login_at, User.password_hash, User.password_version, User.identity),
    User.custom_fields,
)


def lock_all(
    user_ids: Collection[str],
    reach: Reach = EVERYBODY,
    *columns: InstrumentedAttribute[Any],
    key_share: bool = False,
) -> tuple[dict[str, UserRow], Refused]:
    """Lock the rows of many users, in the order of their ids, as `users.lock` does; return by id
    those within the reach, and why others are refused.

    With `columns`, the rows have id, role and these: to read all takes longest of all.
    """
    wanted = (User.id, User.role, *columns) if columns else (User.__table__,)
    ordered = select(*wanted).where(User.id.in_(user_ids)).order_by(User.id)
    found: dict[str, Any] = {
        row.id: row for row in db.session.execute(ordered.with_for_update(key_share=key_share))
    }
    refused: Refused = {each: errors.UserNotFound for each in user_ids if each not in found}
    within = {user_id for user_id, row in found.items() if row.role in reach.roles}
    if reach.teacher:  # after the lock, as in `users.lock_within`
        these = select(User.id).where(User.id.in_(within), *users.reached(reach))
        within = {*db.session.scalars(these)}
    refused |= dict.fromkeys(found.keys() - within, errors.Forbidden)
    return {each: row for each, row in found.items() if each in within}, refused


def add_all(people: Sequence[Mapping[str, Any]]) -> dict[str, UserRow]:
    """Add accounts without a password, which have the same columns; return by address those that
    are new: the others have a name or number that somebody has. Nobody can prove an address that
    cannot exist, so it counts as verified.
    """
    now, usual = clock.utcnow(), accounts.usual_settings()
    rows = [
        {"id": new_row_id(), **usual, **person, "username_key": person["username"].lower()}
        | {"email_verified_at": None if has_mailbox(person["email"]) else now}
        | {"password_hash": passwords.unusable()}
        for person in people
    ]
    if not rows:
        return {}
    # In one order, or parallel calls could wait for each other; the ids keep that of the list.
    rows.sort(key=itemgetter("email"))
    insert = insert_into(User.__table__).on_conflict_do_nothing()
    made: Any = db.session.execute(insert.returning(User.__table__), rows).all()
    ids = [row.id for row in made]
    changes.note(ids)
    events.tell_each("account_created", ids)
    return {row.email: row for row in made}


def update_all(rows: Mapping[str, UserRow], values: Mapping[str, dict[str, Any]]) -> None:
    """Change columns of accounts, by their ids, as `users.update` does one; their rows are locked.

    Raises Unavailable where another account has got an address or number of them just now.
    """
    values = {user_id: users.not_warned(new) for user_id, new in values.items()}
    names = {name for each in values.values() for name in each}
    changed: list[dict[str, Any]] = []
    for user_id, new in values.items():
        row = rows[user_id]._asdict() | new
        key = search_key(*(str(row[name]) for name in users.SEARCHED))
        changed.append({name: row[name] for name in names} | {"search_key": key, "_id": user_id})
    if not changed:
        return
    this = update_table(User.__table__).where(User.__table__.c.id == bindparam("_id"))
    this = this.values({name: bindparam(name) for name in (*names, "search_key")})
    with unique(errors.Unavailable, User.email, User.external_id):
        db.session.connection().execute(this, changed)
    changes.note([user_id for user_id, new in values.items() if changes.WATCHED & new.keys()])
