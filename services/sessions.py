"""Sessions: opened by a login, rotated by each refresh, ended by deleting their row.

Access tokens are checked against the denylist, so ending a session also puts its id there until
its last access token has expired. For rotation and reuse of refresh tokens see RFC 9700 (OAuth 2.0
Security BCP), section 4.14.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Row, bindparam, case, delete, exists, insert, select, update

import errors
from core import audit, ids
from core.tokens import Purpose, TokenExpired, TokenInvalid
from database import DriverSelect, change, one_statement, reading, transaction
from extensions import db, settings, tokens
from models import DeniedSession, User, UserRow, UserSession, UTCDateTime

MAX_SESSIONS = 50

# The only query of the guard: the active user, unless the session has ended.
_BEARER = DriverSelect(
    select(User.__table__).where(
        User.id == bindparam("user_id"),
        User.is_active,
        ~exists().where(DeniedSession.session_id == bindparam("session_id")),
    )
)

_SESSIONS = UserSession.__table__
_THIS = (_SESSIONS.c.id == bindparam("of_session"), _SESSIONS.c.user_id == bindparam("of_user"))
_USERS = User.__table__
_ACTIVE_USER = select(_USERS.c.role).where(_USERS.c.id == _SESSIONS.c.user_id, _USERS.c.is_active)
# An older access token may expire later, if ACCESS_TOKEN_MINUTES was lowered since.
_LATER = case(
    (_SESSIONS.c.access_expires_at > bindparam("latest"), _SESSIONS.c.access_expires_at),
    else_=bindparam("latest", type_=UTCDateTime),
)
# Of parallel calls with one token, this conditional UPDATE lets one rotate it.
_ROTATE = (
    update(_SESSIONS)
    .where(*_THIS, _SESSIONS.c.refresh_token_id == bindparam("sent"), _ACTIVE_USER.exists())
    .where(_SESSIONS.c.last_used_at > bindparam("idle_since"))
    .values(
        refresh_token_id=bindparam("next"),
        previous_token_id=bindparam("sent"),
        last_used_at=bindparam("now"),
        access_expires_at=_LATER,
    )
    .returning(*_SESSIONS.c, _ACTIVE_USER.scalar_subquery().label("role"))
)
_LOCK = (
    select(_SESSIONS, _USERS.c.role)
    .join(_USERS)
    .where(*_THIS, _USERS.c.is_active)
    .with_for_update(of=_SESSIONS)
)
# Run this once in a transaction: on Postgres, a second UPDATE of the row also locks the user's row.
# Deleting an account locks the two in the opposite order, so both could wait forever (a deadlock).
_EXTEND = update(_SESSIONS).where(*_THIS).values(access_expires_at=_LATER)


@dataclass(frozen=True)
class TokenPair:
    """A session's current tokens; `expires_in` is the access token's life in seconds."""

    access_token: str
    refresh_token: str
    expires_in: int


def load_user(user_id: str, session_id: str) -> UserRow | None:
    """Return the active user of an access token, or None if there is none or the session ended."""
    return _BEARER.one_or_none(user_id, session_id)


def open_session(user: UserRow, *, user_agent: str, ip_address: str, now: datetime) -> TokenPair:
    """Open a session and return its first tokens; end the oldest ones beyond MAX_SESSIONS.

    The caller must have locked the user's row, or parallel logins could exceed the limit.
    """
    session = UserSession(
        id=ids.new_row_id(),
        user_id=user.id,
        created_at=now,
        last_used_at=now,
        expires_at=now + timedelta(days=settings.session_days),
        refresh_token_id=ids.new_token_id(),
        user_agent=user_agent,
        ip_address=ip_address,
    )
    session.access_expires_at = _access_expiry(now, _end_of(session))
    db.session.add(session)
    # Machines' clocks differ, so the new session may look like the oldest; it is never ended here.
    others = (UserSession.user_id == user.id, UserSession.id != session.id)
    newest = (
        select(UserSession.id)
        .where(*others)
        .order_by(UserSession.created_at.desc(), UserSession.id.desc())
        .limit(MAX_SESSIONS - 1)
    )
    _end(*others, UserSession.id.not_in(newest))
    return _pair(session, user.role, now=now)


def rotate(token: str, *, now: datetime) -> TokenPair:
    """Exchange a refresh token for a new pair of tokens; the one sent becomes invalid.

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
    parameters = {
        "of_session": claims["sid"],
        "of_user": claims["sub"],
        "sent": claims["jti"],
        "next": ids.new_token_id(),
        "now": now,
        "idle_since": now - settings.session_idle,
        "latest": _access_expiry(now, now + settings.session_idle),
    }
    with one_statement() as connection:
        session = connection.execute(_ROTATE, parameters).one_or_none()
    if session is not None:
        return _pair(session, session.role, now=now)
    with transaction():
        pair = _handle_reuse(claims, now=now)
    if pair is None:
        audit.log("refresh_token_reused", claims["sub"])
        raise errors.TokenRevoked
    return pair


def _handle_reuse(claims: Mapping[str, Any], *, now: datetime) -> TokenPair | None:
    """Handle a refresh token that is not the current one; None if that ended the session.

    The previous token gets the same successor again for a short time, because browser tabs refresh
    in parallel and phones lose responses. Raises TokenRevoked if the session had already ended, and
    TokenExpired if it was idle for too long, so that a user who returns late is no case of reuse.
    """
    this = {"of_session": claims["sid"], "of_user": claims["sub"]}
    session = db.session.execute(_LOCK, this).one_or_none()
    if session is None:
        raise errors.TokenRevoked
    if _end_of(session) <= now:
        raise errors.TokenExpired
    grace = timedelta(seconds=settings.refresh_grace_seconds)
    if session.previous_token_id == claims["jti"] and now - session.last_used_at <= grace:
        change(_EXTEND, **this, latest=_access_expiry(now, _end_of(session)))
        return _pair(session, session.role, now=now)
    _end(UserSession.id == claims["sid"], UserSession.user_id == claims["sub"])
    return None


def is_open(session_id: str, user_id: str) -> bool:
    """Return whether this session of the user is open, as the current transaction sees it."""
    this = (UserSession.id == session_id, UserSession.user_id == user_id)
    return db.session.scalar(select(UserSession.id).where(*this)) is not None


def end(session_id: str, user_id: str) -> bool:
    """End one session of a user; return False if there is no such session."""
    this = (UserSession.id == session_id, UserSession.user_id == user_id)
    return ids.is_row_id(session_id) and _end(*this) > 0


def end_all(user_id: str, *, keep: str | None = None) -> None:
    """End all sessions of a user except the one to `keep`."""
    # Parallel calls would lock the sessions in different orders (a deadlock), and a parallel login
    # must either be seen here or fail afterwards.
    db.session.execute(select(User.id).where(User.id == user_id).with_for_update(key_share=True))
    _end(UserSession.user_id == user_id, UserSession.id != (keep or ""))


def list_open(user_id: str, *, current: str, now: datetime) -> list[dict[str, object]]:
    """Return a user's open sessions, last used first; the one with the id `current` is marked."""
    query = (
        select(UserSession.__table__)
        .where(UserSession.user_id == user_id, UserSession.expires_at > now)
        .where(UserSession.last_used_at > now - settings.session_idle)
        .order_by(UserSession.last_used_at.desc(), UserSession.id.desc())
    )
    with reading() as connection:
        rows = connection.execute(query).mappings().all()
    return [{**row, "current": row["id"] == current} for row in rows]


def _end(*which: ColumnElement[bool]) -> int:
    """Delete sessions and put them on the denylist; return how many."""
    ended = db.session.execute(
        delete(UserSession)
        .where(*which)
        .returning(UserSession.id, UserSession.access_expires_at)
        .execution_options(synchronize_session=False)
    ).all()
    if ended:
        denied = [{"session_id": id_, "expires_at": expires_at} for id_, expires_at in ended]
        db.session.execute(insert(DeniedSession), denied)
    return len(ended)


def _end_of(session: UserSession | Row[Any]) -> datetime:
    """Return when a session ends unless it is refreshed before."""
    return min(session.expires_at, session.last_used_at + settings.session_idle)


def _access_expiry(now: datetime, session_end: datetime) -> datetime:
    return min(now + timedelta(minutes=settings.access_token_minutes), session_end)


def _pair(session: UserSession | Row[Any], role: str, *, now: datetime) -> TokenPair:
    # The refresh token is made of the row only: the same row gives the same token.
    access_expires_at = _access_expiry(now, _end_of(session))
    return TokenPair(
        access_token=tokens.encode(
            Purpose.ACCESS,
            session.user_id,
            issued_at=now,
            expires_at=access_expires_at,
            sid=session.id,
            role=role,
        ),
        refresh_token=tokens.encode(
            Purpose.REFRESH,
            session.user_id,
            issued_at=session.last_used_at,
            expires_at=session.expires_at,
            token_id=session.refresh_token_id,
            sid=session.id,
        ),
        expires_in=int(access_expires_at.timestamp()) - int(now.timestamp()),
    )
