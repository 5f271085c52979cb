"""The history of an account: what was done to it, by whom and from where.

The log says the same and more. This is what users and admins see, and it holds nothing else: no
name, address, code or token.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

from sqlalchemy import insert, select

from core import audit, clock, ids
from database import afterwards, reading
from extensions import components, db
from models import Event

# How many a call returns.
LATEST = 200
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
    if user_id and kept is not None and not (is_login and _is_known(user_id, who.network)):
        ip_address = "" if by else who.network if is_login else who.ip_address
        details = {name: more[name] for name in kept if name in more}
        _insert([_row(event, user_id, by=by, ip_address=ip_address, details=details)])
    if by not in ("", MACHINE):
        more["by"] = by
    afterwards(partial(audit.log, event, user_id, **more))


def _is_known(user_id: str, network: str) -> bool:
    """Return whether a login from there is kept, or logins could fill the table and hide a trace.

    Asked when the user's row is locked, so that of parallel logins one is the first.
    """
    known = select(_EVENTS.c.id).where(_EVENTS.c.user_id == user_id, _EVENTS.c.type == "login")
    return db.session.scalar(known.where(_EVENTS.c.ip_address == network).limit(1)) is not None


def add(event: str, user_ids: Iterable[str], **details: str) -> None:
    """Add an event that the machine has caused to these accounts, in the open transaction."""
    _insert([_row(event, user_id, by=MACHINE, details=details) for user_id in user_ids])


def _insert(rows: list[dict[str, Any]]) -> None:
    if rows:
        db.session.execute(insert(_EVENTS), rows)


def _row(event: str, user_id: str, *, ip_address: str = "", **more: Any) -> dict[str, Any]:
    row = {"id": ids.new_row_id(), "user_id": user_id, "type": event, "ip_address": ip_address}
    return {**row, "created_at": clock.utcnow(), **more}


def history(user_id: str, *, shows_who: bool, latest: int | None = None) -> list[dict[str, Any]]:
    """Return the events of an account, newest first; `shows_who` of others has caused them."""
    query = select(_EVENTS).where(_EVENTS.c.user_id == user_id).limit(latest)
    query = query.order_by(_EVENTS.c.created_at.desc(), _EVENTS.c.id.desc())
    with reading() as connection:
        rows = connection.execute(query).mappings().all()
    return [{**row, **_who(row["by"], shows_who)} for row in rows]


def _who(by: str, shows_who: bool) -> dict[str, str]:
    if by in ("", MACHINE):
        return {"by": by or "user", "by_id": ""}
    kind = "service" if by.startswith("key:") else "staff"
    return {"by": kind, "by_id": by if shows_who else ""}
