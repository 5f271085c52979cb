"""The history of an account: what was done to it, by whom and from where.

The log says the same and more. This is what users and admins see, and it holds nothing else: no
name, address, code or token.
"""

from collections.abc import Iterable
from datetime import timedelta
from functools import partial
from ipaddress import ip_address
from typing import Any

from sqlalchemy import func, insert, or_, select

from core import audit, clock, ids
from core.scopes import KEY
from database import afterwards, read_all
from extensions import components, db
from models import Event, User, UserSession

# How many events of a kind that a user has caused to the own account are kept in a day: with more,
# a thief of a session could fill the table, or push a trace out of sight.
MOST, DAY = 20, timedelta(days=1)
# How long a password is new that was chosen with a link or code, of which another mail tells.
CHOSEN = timedelta(minutes=10)
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


def is_elsewhere(user_id: str) -> bool:
    """Return whether the login that was just kept comes from where none of the others that are kept
    did: never for the only one, nor right after a password was chosen with a link or code. Where a
    session of another day is from is known too: the login that began daily use may be pruned.
    """
    columns, network, now = _EVENTS.c, components().actor().network, clock.utcnow()
    is_new = columns.created_at > now - CHOSEN
    chosen = columns.type.in_(("password_reset", "access_link_used")) & is_new
    these = select(columns.type, columns.ip_address).where(columns.user_id == user_id)
    found = db.session.execute(these.where(or_(columns.type == "login", chosen))).all()
    if not network or any(row.type != "login" for row in found):
        return False
    others = {_region(row.ip_address) for row in found if row.ip_address not in ("", network)}
    before = UserSession.user_id == user_id, UserSession.created_at < now - DAY
    opened = db.session.scalars(select(UserSession.ip_address).where(*before))
    return bool(others) and _region(network) not in others.union(map(_region, filter(None, opened)))


def _region(network: str) -> str:
    """Return the part of the internet from which one provider serves many: /16, in IPv6 /32."""
    if "." in network:
        return network.rsplit(".", 2)[0]
    return ip_address(network.partition("/")[0]).exploded[:9]


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


def history(
    *, for_admins: bool, after: str | None = None, limit: int = 200, **columns: str
) -> dict[str, Any]:
    """Return a page of events with these values: by id, newest first, those `after` an id, and the
    id of the last one if there are more.

    Those `for_admins` say which of others has caused them, and have the groups of a user.
    """
    wanted = [_EVENTS.c[name] == value for name, value in columns.items()]
    if not for_admins:
        wanted.append(_EVENTS.c.type.not_in(audit.OF_GROUPS))
    if after:
        wanted.append(_EVENTS.c.id < after)
    page = select(_EVENTS).where(*wanted).order_by(_EVENTS.c.id.desc())
    # Joined after the page is cut, so that the index by id gives it, however long the table is.
    cut = page.limit(limit + 1).subquery()
    query = select(cut, User.username).join(User, User.id == cut.c.user_id)
    rows = read_all(query.order_by(cut.c.id.desc()))
    found = rows[:limit]
    following = found[-1].id if len(found) < len(rows) else None
    shown = [{**row._asdict(), **_who(row.by, for_admins)} for row in found]
    return {"events": shown, "next": following}


def _who(by: str, for_admins: bool) -> dict[str, str]:
    if by in ("", MACHINE):
        return {"by": by or "user", "by_id": ""}
    kind = "service" if by.startswith(KEY) else "staff"
    return {"by": kind, "by_id": by if for_admins else ""}
