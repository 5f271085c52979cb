"""Sessions: opened by a login, rotated by each refresh, ended by deleting their row.

Access tokens are checked against the denylist, so ending a session also puts its id there. For
rotation and reuse of refresh tokens see RFC 9700 (OAuth 2.0 Security BCP), section 4.14.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, cast

from sqlalchemy import ColumnElement, Row, bindparam, delete, exists, literal, select, update

import errors
from core import audit, clock, ids
from core.tokens import Purpose, TokenExpired, TokenInvalid
from database import change, insert_into, read_all, read_one, read_value, transaction, writing
from database.columns import UTCDateTime
from database.driver import DriverStatement
from extensions import db, settings, tokens
from models import DENIED_FOR, DeniedSession, User, UserRow, UserSession
from services import custom_fields, users

MAX_SESSIONS = 50

# The only query of the guard: the active user, unless the session has ended.
_BEARER = DriverStatement(
    select(User.__table__, User.role.label("granted_role")).where(
        User.id == bindparam("user_id"),
        User.is_active,
        ~exists().where(DeniedSession.session_id == bindparam("session_id")),
    )
)

_SESSIONS = UserSession.__table__
_USERS = User.__table__
_ACTIVE_USER = select(_USERS.c.role).where(_USERS.c.id == _SESSIONS.c.user_id, _USERS.c.is_active)
# What a pair of tokens is made of, and what tells a repeated refresh from a stolen token.
_TOKEN_FACTS = (
    *_SESSIONS.c["id", "user_id", "created_at", "last_used_at", "expires_at"],
    *_SESSIONS.c["refresh_token_id", "previous_token_id"],
    *(
        _ACTIVE_USER.with_only_columns(column).scalar_subquery().label(column.key)
        for column in _USERS.c["role", "second_factor_at", "username", "email", "custom_fields"]
    ),
)


class TokenPair(NamedTuple):
    """A session's current tokens; the lives of the access token and the session in seconds."""

    access_token: str
    refresh_token: str
    expires_in: int
    session_expires_in: int


def load_user(user_id: str, session_id: str) -> UserRow | None:
    """Return the active user of an access token, or None if there is none or the session ended."""
    row = _BEARER.one_or_none(user_id=user_id, session_id=session_id)
    if row and (role := users.role_in_effect(row)) != row.role:
        row = row._replace(role=role)
    return cast("UserRow | None", row)


def login_time(session_id: str, user_id: str, *, now: datetime) -> datetime | None:
    """Return when a session began, or None if it has ended, also by its age or idleness."""
    this = UserSession.id == session_id, UserSession.user_id == user_id
    query = select(UserSession.created_at).where(*this, UserSession.expires_at > now)
    return cast("datetime | None", read_value(query))


def open_session(user: UserRow, *, now: datetime, **client: str) -> TokenPair:
    """Open a session and return its first tokens; end the oldest ones beyond MAX_SESSIONS.

    `client` is its `user_agent` and `ip_address`. The caller must have locked the user's row, or
    parallel logins could exceed the limit.
    """
    session = UserSession(
        id=ids.new_row_id(),
        user_id=user.id,
        created_at=now,
        last_used_at=now,
        expires_at=_end_of(now, now),
        refresh_token_id=ids.new_token_id(),
        **client,
    )
    db.session.add(session)
    # Machines' clocks differ, so the new session may look like the oldest; it is never ended here.
    others = (UserSession.user_id == user.id, UserSession.id != session.id)
    newest_first = UserSession.created_at.desc(), UserSession.id.desc()
    newest = select(UserSession.id).where(*others).order_by(*newest_first).limit(MAX_SESSIONS - 1)
    _end(*others, UserSession.id.not_in(newest))
    return _pair(session, users.role_in_effect(user), user.custom_fields, now=now)


# Of parallel calls with one token, this conditional UPDATE lets one rotate it.
_ROTATE = DriverStatement(
    update(_SESSIONS)
    .where(_SESSIONS.c.id == bindparam("sid"), _SESSIONS.c.user_id == bindparam("sub"))
    .where(_SESSIONS.c.refresh_token_id == bindparam("jti"))
    .where(_SESSIONS.c.expires_at > bindparam("now"), _ACTIVE_USER.exists())
    .values(refresh_token_id=bindparam("next"), previous_token_id=bindparam("jti"))
    .values(last_used_at=bindparam("now"), expires_at=bindparam("end"))
    .returning(*_TOKEN_FACTS)
)


def rotate(token: str, *, now: datetime) -> tuple[dict[str, str], TokenPair]:
    """Exchange a refresh token for a new pair of tokens; the one sent becomes invalid.

    Return also whose they are, for a client that has just begun and knows nobody.

    Commits by itself, because the end of a session after token reuse must be kept although the
    response is an error. Raises TokenInvalid, TokenExpired, also if the session was idle for too
    long, and TokenRevoked if the session has ended or the token was used before.
    """
    try:
        claims = tokens.decode(Purpose.REFRESH, token)
    except TokenInvalid:
        raise errors.TokenInvalid from None
    except TokenExpired:
        raise errors.TokenExpired from None
    end = _end_of(datetime.fromtimestamp(claims["auth_time"], UTC), now)
    if end <= now:  # SESSION_DAYS was lowered
        raise errors.TokenExpired
    parameters = {"next": ids.new_token_id(), "now": now, "end": end}
    parameters |= {name: claims[name] for name in ("sid", "sub", "jti")}
    with writing():
        session = _ROTATE.one_or_none(**parameters)
    if session is None:
        session = _handle_reuse(claims, now=now)
    role = users.role_in_effect(session)
    user = {"id": session.user_id, "username": session.username, "email": session.email}
    return {**user, "role": role}, _pair(session, role, session.custom_fields, now=now)


def _handle_reuse(claims: Mapping[str, Any], *, now: datetime) -> Row[Any]:
    """Return the session if its previous token is sent again soon, else end it.

    Browser tabs refresh in parallel and phones lose responses. Raises TokenRevoked if the session
    has ended, and TokenExpired if it was idle for too long: a user who returns late is no thief.
    """
    this = (UserSession.id == claims["sid"], UserSession.user_id == claims["sub"])
    session: Row[Any] | None = read_one(select(*_TOKEN_FACTS).where(*this, _ACTIVE_USER.exists()))
    if session is None:
        raise errors.TokenRevoked
    if session.expires_at <= now:
        raise errors.TokenExpired
    grace = timedelta(seconds=settings.refresh_grace_seconds)
    if session.previous_token_id == claims["jti"] and now - session.last_used_at <= grace:
        return session
    # A spent token stays spent, so what was read still holds.
    with transaction():
        ended = _end(*this)
    if ended:
        audit.log("refresh_token_reused", claims["sub"])
    raise errors.TokenRevoked


def is_open(session_id: str, user_id: str) -> ColumnElement[bool]:
    """Return the condition that this session of the user is open."""
    return exists().where(UserSession.id == session_id, UserSession.user_id == user_id)


def end(session_id: str, user_id: str) -> bool:
    """End one session of a user; return False if there is no such session."""
    return _end(UserSession.id == session_id, UserSession.user_id == user_id) > 0


def end_all(*user_ids: str, keep: str | None = None) -> None:
    """End all sessions of users except the one to `keep`."""
    # Without the lock, parallel calls could deadlock, and a parallel login could be missed.
    these = select(User.id).where(User.id.in_(user_ids)).order_by(User.id)
    db.session.execute(these.with_for_update(key_share=True))
    _end(UserSession.user_id.in_(user_ids), UserSession.id != (keep or ""))


def list_open(user_id: str, *, current: str, now: datetime) -> list[dict[str, object]]:
    """Return a user's open sessions, last used first; the one with the id `current` is marked."""
    is_listed = UserSession.user_id == user_id, UserSession.expires_at > now
    last_used_first = UserSession.last_used_at.desc(), UserSession.id.desc()
    found = read_all(select(UserSession.__table__).where(*is_listed).order_by(*last_used_first))
    return [{**row._asdict(), "current": row.id == current} for row in found]


def _end(*which: ColumnElement[bool]) -> int:
    """Put sessions on the denylist, and delete them; return how many."""
    until = literal(clock.utcnow() + DENIED_FOR, UTCDateTime)
    these = select(UserSession.id, until).where(*which)
    insert = insert_into(DeniedSession.__table__).from_select(["session_id", "expires_at"], these)
    # No conflict is to be expected; as an update, it would count too.
    anew = {"expires_at": insert.excluded.expires_at}
    denied = insert.on_conflict_do_update(index_elements=["session_id"], set_=anew)
    return change(delete(UserSession).where(*which)) if change(denied) else 0


def _end_of(login: datetime, now: datetime) -> datetime:
    """Return when a session ends that is used now and not again."""
    idle_days = settings.session_idle_days or settings.session_days
    return min(login + timedelta(days=settings.session_days), now + timedelta(days=idle_days))


def _pair(
    session: UserSession | Row[Any], role: str, fields: Mapping[str, Any], *, now: datetime
) -> TokenPair:
    # The refresh token is made of the row only: the same row gives the same token. It outlives the
    # idle time, or the owner of a stolen one would return too late to end a thief's session.
    refresh_token = tokens.encode(
        Purpose.REFRESH,
        session.user_id,
        issued_at=session.last_used_at,
        expires_at=session.created_at + timedelta(days=settings.session_days),
        token_id=session.refresh_token_id,
        sid=session.id,
        auth_time=int(session.created_at.timestamp()),
    )
    end = min(now + timedelta(minutes=settings.access_token_minutes), session.expires_at)
    facts = {"sid": session.id, "role": role, **custom_fields.in_token(fields)}
    access_token = tokens.encode(
        Purpose.ACCESS, session.user_id, issued_at=now, expires_at=end, **facts
    )
    lives = (int(each.timestamp()) - int(now.timestamp()) for each in (end, session.expires_at))
    return TokenPair(access_token, refresh_token, *lives)
