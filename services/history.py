"""What the history of an account tells: its events, and whether a login is from somewhere new."""

from datetime import timedelta
from ipaddress import ip_address
from typing import Any

from sqlalchemy import or_, select

from core import audit, clock
from core.scopes import KEY
from database import read_all
from extensions import components, db
from models import Event, User, UserSession
from services.events import DAY, MACHINE

# How long a password is new that was chosen with a link or code, of which another mail tells.
CHOSEN = timedelta(minutes=10)
_EVENTS = Event.__table__


def page(
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
    ordered = select(_EVENTS).where(*wanted).order_by(_EVENTS.c.id.desc())
    # Joined after the page is cut, so that the index by id gives it, however long the table is.
    cut = ordered.limit(limit + 1).subquery()
    query = select(cut, User.username).join(User, User.id == cut.c.user_id)
    rows = read_all(query.order_by(cut.c.id.desc()))
    following = rows[limit - 1].id if len(rows) > limit else None
    shown = [{**row._asdict(), **_who(row.by, for_admins)} for row in rows[:limit]]
    return {"events": shown, "next": following}


def _who(by: str, for_admins: bool) -> dict[str, str]:
    if by in ("", MACHINE):
        return {"by": by or "user", "by_id": ""}
    kind = "service" if by.startswith(KEY) else "staff"
    return {"by": kind, "by_id": by if for_admins else ""}


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
