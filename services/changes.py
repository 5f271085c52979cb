"""What changed: new accounts, new values and deletions, for systems that keep a copy.

A transaction takes the number of its changes right before its commit, from a row that stays locked
until then. So numbers follow the order of commits, and a reader who goes by them skips nothing.
"""

import struct
from collections.abc import Iterable
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Select, cast, null, select, tuple_, union_all, update

import errors
from core import clock, ids
from core.reasons import Reason
from core.roles import Reach
from database import change_all, insert_into, last, reading
from database.columns import UTCDateTime
from extensions import db
from models import Deletion, LastChange, User, UserRow
from services import custom_fields, signed

# How long deletions are kept, and how old a cursor may be.
KEPT = timedelta(days=90)
# The columns whose new value is a change.
WATCHED = {"username", "email", "first_name", "last_name", "role", "is_active", "external_id"}
WATCHED |= {"email_verified_at", "custom_fields"}
_NO_CURSOR = Reason("invalid", "Not a `next` of this service.")
# The number and the id of the last row of a page.
_PAYLOAD = struct.Struct("!Q16s")
_LAST = LastChange.__table__


def note(user_ids: Iterable[str]) -> None:
    """Say that the open transaction has added, changed or deleted these accounts."""
    last(_number, user_ids)


def compare(before: UserRow, after: UserRow) -> None:
    """Note an account whose row has a new value that others are told of."""
    # As written in Python: there, True equals 1, which it does not in JSON.
    if any(repr(getattr(before, name)) != repr(getattr(after, name)) for name in WATCHED):
        note([after.id])


def _number(noted: set[str]) -> None:
    """Give what was noted its number."""
    if not noted:
        return
    row = insert_into(_LAST).values(id=1, number=len(noted))
    more = {"number": _LAST.c.number + row.excluded.number}
    taken = row.on_conflict_do_update(index_elements=["id"], set_=more)
    number = db.session.scalar(taken.returning(_LAST.c.number))
    numbered = update(User).where(User.id.in_(noted)).values(changed=number).returning(User.id)
    if gone := noted.difference(change_all(numbered)):
        place = {"number": number, "deleted_at": clock.utcnow()}
        # There is a row where an account with this id was imported after an earlier deletion.
        insert = insert_into(Deletion.__table__)
        insert = insert.on_conflict_do_update(index_elements=["id"], set_=place)
        db.session.execute(insert, [{"id": user_id, **place} for user_id in gone])


def since(cursor: str | None, limit: int, reach: Reach) -> dict[str, object]:
    """Return the changes after a cursor, or from the start, oldest first, and the next cursor.

    Of a change, `account` is the row of an account within `reach` as it is now, or None after its
    deletion. Raises InvalidRequest for a text that is no cursor, and CursorExpired.
    """
    number, row_id = (0, ids.NIL) if cursor is None else _read(cursor)
    with reading() as connection:
        newest = connection.scalar(select(LastChange.number)) or 0
        if number > newest:
            raise errors.CursorExpired
        rows = connection.execute(_page((number, row_id), limit, reach)).all()
    changes: list[dict[str, object]] = [
        {"id": row.place, "account": _account(row), "deleted_at": row.deleted_at} for row in rows
    ]
    number, row_id = (rows[-1].number, rows[-1].place) if rows else (number, row_id)
    payload = _PAYLOAD.pack(number, UUID(row_id).bytes)
    return {"changes": changes, "next": signed.sign("changes", payload, end=clock.utcnow() + KEPT)}


def _account(row: Any) -> dict[str, object] | None:
    return None if row.deleted_at else custom_fields.with_seen(row)


def _read(cursor: str) -> tuple[int, str]:
    """Return the number and the id in a cursor. Raises InvalidRequest and CursorExpired."""
    try:
        payload, _ = signed.read("changes", cursor)
    except signed.NotSigned:
        raise errors.InvalidRequest(fields={"after": [_NO_CURSOR]}) from None
    except signed.TooOld:
        raise errors.CursorExpired from None
    number, row_id = _PAYLOAD.unpack(payload)
    return number, str(UUID(bytes=row_id))


def _page(place: tuple[int, str], limit: int, reach: Reach) -> Select[Any]:
    def half(number: Any, row_id: Any, deleted_at: Any, *wanted: Any) -> Any:
        columns = row_id.label("place"), number.label("number"), deleted_at.label("deleted_at")
        later = select(*columns).where(tuple_(number, row_id) > place, *wanted)
        return select(later.order_by(number, row_id).limit(limit).subquery())

    # Not the bare column: SQLite would read and sort all accounts by its index.
    within = (User.role + "").in_(reach.roles)
    living = half(User.changed, User.id, cast(null(), UTCDateTime), within)
    gone = half(Deletion.number, Deletion.id, Deletion.deleted_at)
    # One statement sees both tables at one moment.
    page = union_all(living, gone).order_by("number", "place").limit(limit).subquery()
    found = select(page, User.__table__).outerjoin(User.__table__, User.id == page.c.place)
    return found.order_by(page.c.number, page.c.place)
