"""The history of an account: what was done to it, by whom and from where.

The log says the same and more. This is what users and admins see, and it holds nothing else: no
name, address, code or token.
"""

from collections.abc import Iterable
from datetime import timedelta
from functools import partial

from sqlalchemy import func, insert, select

from core import audit, clock, ids
from database import afterwards
from extensions import components, db
from models import Event

# How many events of a kind that a user has caused to the own account are kept in a day: with more,
# a thief of a session could fill the table, or push a trace out of sight.
MOST, DAY = 20, timedelta(days=1)
MACHINE = audit.MACHINE.id
_EVENTS = Event.__table__


def tell(event: str, user_id: str | None = None, **details: str | None) -> bool:
    """Say in the open transaction what it does to an account.

    The commit puts it into the log; and into the history of the account, if it is kept. Return
    whether it is.
    """
    kept, who = audit.EVENTS[event].kept, components().actor()
    by = "" if who.id == user_id else who.id
    given = {name: value for name, value in details.items() if value}
    is_in_history = False
    if user_id and kept is not None and (by or _is_news(event, user_id, who.network)):
        is_in_history = True
        ip_address = "" if by else who.network if event == "login" else who.ip_address
        stays = {name: given[name] for name in kept if name in given}
        add(event, [user_id], by=by, ip_address=ip_address, **stays)
    if by not in ("", MACHINE):
        given["by"] = by
    afterwards(partial(audit.log, event, user_id, **given))
    return is_in_history


def tell_each(event: str, user_ids: Iterable[str], **details: str) -> None:
    """Say of many accounts what `tell` says of one."""
    tell_all(event, [(user_id, details) for user_id in user_ids])


def tell_all(event: str, facts: Iterable[tuple[str, dict[str, str]]]) -> None:
    """Say of accounts, by their ids, what `tell` says of one, each with its own details."""
    who, others = components().actor(), []
    for user_id, details in facts:
        if user_id == who.id:
            tell(event, user_id, **details)
        else:
            others.append((user_id, details))
    if audit.EVENTS[event].kept is not None:
        _add(event, others, by=who.id)
    more = {} if who.id == MACHINE else {"by": who.id}
    for user_id, details in others:
        afterwards(partial(audit.log, event, user_id, **details, **more))


def _is_news(event: str, user_id: str, network: str) -> bool:
    """Return whether what a user has done to the own account is kept: not too many of a kind in a
    day, and of logins the first from there.

    Asked when the user's row is locked, so parallel calls are counted one after the other.
    """
    columns = _EVENTS.c
    own = select(_EVENTS).where(columns.user_id == user_id, columns.type == event, columns.by == "")
    of_today = own.where(columns.created_at > clock.utcnow() - DAY).limit(MOST).subquery()
    is_news = select(func.count()).select_from(of_today).scalar_subquery() < MOST
    if event == "login":
        is_news &= ~own.where(columns.ip_address == network).exists()
    return bool(db.session.scalar(select(is_news)))


def add(
    event: str, user_ids: Iterable[str], *, by: str = MACHINE, ip_address: str = "", **details: str
) -> None:
    """Add an event to the history of these accounts, in the open transaction."""
    _add(event, [(user_id, details) for user_id in user_ids], by=by, ip_address=ip_address)


def _add(
    event: str, facts: Iterable[tuple[str, dict[str, str]]], *, by: str, ip_address: str = ""
) -> None:
    same = {"type": event, "by": by, "ip_address": ip_address, "created_at": clock.utcnow()}
    rows = [
        {"id": ids.new_row_id(), "user_id": user_id, "details": details, **same}
        for user_id, details in facts
    ]
    if rows:
        db.session.execute(insert(_EVENTS), rows)
