"""Accounts that nobody uses: which they are, a warning, and their deletion 30 days later.

Nothing is kept for ever (GDPR, article 5(1)(e); COPPA Rule, section 312.10). Only a command does
this: a service that deleted by itself would act on a restored database, or without working mail.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy import SQLColumnExpression, and_, func, or_, select

from core import clock
from core.addresses import NO_MAILBOX
from core.roles import Role
from database import patiently, snapshot
from database.columns import UTCDateTime
from extensions import db
from models import Certificate, Lesson, User, UserSession
from services import accounts, events, outbox, users
from services.letters import UNTIL_DELETION, MailKind

Wanted: TypeAlias = sa.ColumnElement[bool]


def listed(days: int, now: datetime, *, with_certificates: bool) -> Wanted:
    """Return the condition for accounts that nobody has used for so many days.

    Never admins, and accounts of another system: it would make them again, empty.
    """
    rules = [_is_unused_since(sa.literal(now - timedelta(days=days), UTCDateTime), now)]
    rules += [User.role != Role.ADMIN.value, User.external_id.is_(None)]
    if not with_certificates:
        is_good = or_(Certificate.expires_at.is_(None), Certificate.expires_at > now)
        held = (Certificate.user_id == User.id, Certificate.revoked_at.is_(None), is_good)
        rules.append(~select(Certificate.id).where(*held).exists())
    return and_(*rules)


def to_warn(now: datetime) -> Wanted:
    """Return the condition for accounts that were not warned since somebody used them, nor by a
    clock that was ahead.
    """
    used_since = ~_is_unused_since(User.warned_at, now)
    return or_(User.warned_at.is_(None), User.warned_at > now, used_since)


def to_delete(now: datetime, *, without_mailbox: bool) -> Wanted:
    """Return the condition for accounts that were warned long enough ago, and not used since."""
    rules = [User.warned_at <= now - UNTIL_DELETION, _is_unused_since(User.warned_at, now)]
    return and_(*rules, *([] if without_mailbox else [~User.email.endswith(NO_MAILBOX)]))


def _is_unused_since(moment: SQLColumnExpression[Any], now: datetime) -> Wanted:
    """Return the condition for accounts that are older than this, without a login or a completed
    lesson since, and without an open session.
    """
    is_open = UserSession.user_id == User.id, UserSession.expires_at > now
    seconds = sa.type_coerce(Lesson.completed_at, sa.BigInteger)
    is_later = Lesson.user_id == User.id, seconds > sa.extract("epoch", moment)
    sessions, lessons = select(UserSession.id).where(*is_open), select(Lesson.id).where(*is_later)
    used_at = func.coalesce(User.last_login_at, User.created_at)
    return and_(User.created_at <= moment, used_at <= moment, ~sessions.exists(), ~lessons.exists())


def find(*wanted: Wanted) -> Sequence[Any]:
    """Return id, username, address and times of these accounts, in the order of their ids."""
    columns = User.id, User.username, User.email, User.last_login_at, User.warned_at
    with snapshot() as connection:
        return connection.execute(select(*columns).where(*wanted).order_by(User.id)).all()


def warn(user_id: str, *wanted: Wanted) -> bool:
    """Note the day, and queue a warning, if the account is still wanted; return whether it is."""

    def act() -> bool:
        row = users.update(user_id, *wanted, warned_at=clock.utcnow())
        if row is None:
            return False
        events.tell("unused_warned", user_id)
        outbox.queue_notices(MailKind.UNUSED_WARNING, row)
        return True

    return patiently(act)


def delete(user_id: str, *wanted: Wanted) -> bool:
    """Delete an account that is still wanted when its row is locked; return whether it is."""

    def act() -> bool:
        row = users.lock(user_id)
        # A statement of its own after the lock: Postgres shows it what was committed meanwhile.
        still = select(User.id).where(User.id == user_id, *wanted)
        if row is None or db.session.scalar(still) is None:
            return False
        accounts.delete(row)
        return True

    return patiently(act)
