"""The history of an account: what was done to it, by whom and from where.

The log says the same and more. This is what users and admins see, and it holds nothing else: no
name, address, code or token.
"""

from collections.abc import Iterable
from datetime import timedelta
from functools import partial
from typing import Any

from sqlalchemy import func, insert, select

from core import audit, clock, ids
from database import afterwards, reading
from extensions import components, db
from models import Event

# How many logins of an account are kept in a day: from many addresses, they could fill its history.
LOGINS, DAY = 20, timedelta(days=1)
MACHINE = audit.MACHINE.id
_EVENTS = Event.__table__


def tell(event: str, user_id: str | None = None, **said: str | None) -> None:
    """Say in the open transaction what it does to an account.

    The commit puts it into the history of the account, if it is kept, and into the log.
    """
    kept, who = audit.EVENTS[event].kept, components().actor()
    by = "" if who.id == user_id else who.id
    more = {name: value for name, value in said.items() if value}
    is_login = event == "login"
    if user_id and kept is not None and (not is_login or _is_news(user_id, who.network)):
        ip_address = "" if by else who.network if is_login else who.ip_address
        details = {name: more[name] for name in kept if name in more}
        _insert([_row(event, user_id, by=by, ip_address=ip_address, details=details)])
    if by not in ("", MACHINE):
        more["by"] = by
    afterwards(partial(audit.log, event, user_id, **more))


def _is_news(user_id: str, network: str) -> bool:
    """Return whether a login is kept: the first from there, and not too many in a day.

    Else logins could fill the table and hide a trace. Asked when the user's row is locked, so that
    of parallel logins one is the first.
    """
    logins = select(_EVENTS).where(_EVENTS.c.user_id == user_id, _EVENTS.c.type == "login")
    is_known = logins.where(_EVENTS.c.ip_address == network).exists()
    of_today = logins.where(_EVENTS.c.created_at > clock.utcnow() - DAY).limit(LOGINS).subquery()
    count = select(func.count()).select_from(of_today).scalar_subquery()
    return bool(db.session.scalar(select(~is_known & (count < LOGINS))))


def add(event: str, user_ids: Iterable[str], **details: str) -> None:
    """Add an event that the machine has caused to these accounts, in the open transaction."""
    _insert([_row(event, user_id, by=MACHINE, details=details) for user_id in user_ids])


def _insert(rows: list[dict[str, Any]]) -> None:
    if rows:
        db.session.execute(insert(_EVENTS), rows)


def _row(event: str, user_id: str, *, ip_address: str = "", **more: Any) -> dict[str, Any]:
    row = {"id": ids.new_row_id(), "user_id": user_id, "type": event, "ip_address": ip_address}
    return {**row, "created_at": clock.utcnow(), **more}


def history(
    user_id: str,
    *,
    shows_who: bool,
    type: str | None = None,
    after: str | None = None,
    limit: int | None = None,
) -> dict[str, Any]:
    """Return a page of the events of an account, by default all: by id, newest first, those `after`
    an id, and the id of the last one if there are more. `shows_who` of others has caused them.
    """
    query = select(_EVENTS).where(_EVENTS.c.user_id == user_id).order_by(_EVENTS.c.id.desc())
    if type:
        query = query.where(_EVENTS.c.type == type)
    if after:
        query = query.where(_EVENTS.c.id < after)
    with reading() as connection:
        rows = connection.execute(query.limit(limit and limit + 1)).mappings().all()
    page = rows[:limit]
    following = page[-1]["id"] if len(page) < len(rows) else None
    return {
        "events": [{**row, **_who(row["by"], shows_who)} for row in page],
        "next": following,
    }


def _who(by: str, shows_who: bool) -> dict[str, str]:
    if by in ("", MACHINE):
        return {"by": by or "user", "by_id": ""}
    kind = "service" if by.startswith("key:") else "staff"
    return {"by": kind, "by_id": by if shows_who else ""}
