"""The history of an account: what was done to it, by whom and from where.

The log says the same and more. This is what users and admins see, and it holds nothing else: no
name, address, code or token.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import ColumnElement, exists, insert, literal, select

from core import audit, clock, ids
from database import harmless, one_statement, reading
from extensions import db
from models import Event, User

# How many a call returns.
LATEST = 200
MACHINE = "machine"
# The events that are kept, with the details that are.
KEPT = {name: event.kept for name, event in audit.EVENTS.items() if event.kept is not None}
_EVENTS = Event.__table__
_log = logging.getLogger("accounts.events")


def keep(event: str, user_id: str, said: Mapping[str, Any], *, client: str | None) -> None:
    """Keep an event that was logged, if the account is there. A failure is only logged.

    `client` is where the request came from, None for the machine itself.
    """
    if event not in KEPT:
        return
    by = said.get("by", MACHINE if client is None else "")
    by = "" if by == user_id else by
    details = {name: said[name] for name in KEPT[event] if name in said}
    row = _row(event, user_id, by=by, ip_address="" if by else client, details=details)
    wanted: ColumnElement[bool] = exists().where(User.id == user_id)
    if event == "login":  # or whoever knows the password could fill the table, and hide a trace
        known = (Event.user_id == user_id, Event.type == event, Event.ip_address == client)
        wanted &= ~exists().where(*known)
    values = select(*(literal(value, _EVENTS.c[name].type) for name, value in row.items()))
    statement = insert(_EVENTS).from_select([*row], values.where(wanted))
    with harmless(_log, "an event could not be kept"):
        if db.session().in_transaction():  # SQLite has one writer, which is this one
            with db.session.begin_nested():
                db.session.execute(statement)
        else:
            with one_statement() as connection:
                connection.execute(statement)


def add(event: str, user_ids: Iterable[str], **details: str) -> None:
    """Add an event that the machine has caused to these accounts, in the open transaction."""
    rows = [_row(event, user_id, by=MACHINE, details=details) for user_id in user_ids]
    if rows:
        db.session.execute(insert(_EVENTS), rows)


def _row(event: str, user_id: str, *, ip_address: str | None = "", **more: Any) -> dict[str, Any]:
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
