"""Wrong passwords and codes, as they are counted against an account, and how that is cleared."""

import math
from datetime import datetime
from typing import TypeAlias

from sqlalchemy import ColumnElement, and_, delete, or_, select

from core import clock
from counting import digest
from database import change, reading
from errors import ApiError
from extensions import db, settings
from models import Counter, User, UserRow

Person: TypeAlias = User | UserRow

# What is counted: from one client IP in 15 minutes, and from all in an hour. At these numbers calls
# are refused.
WRONG, ANYWHERE = "wrong passwords for an account", "wrong passwords from all client IPs"
MOST = {WRONG: 10, ANYWHERE: 100}


class WrongGuess(Exception):
    """A password or a code was wrong: the call stays counted, and ends with this refusal.

    Every other error says that nothing was guessed, and the count is taken back.
    """

    def __init__(self, refusal: ApiError) -> None:
        super().__init__(refusal)
        self.refusal = refusal


def names(user: Person) -> tuple[str, str]:
    """Return what may be typed at a login, each of which is counted by itself."""
    return user.email, user.username.lower()


def unlock(user: Person) -> None:
    """Clear, in the open transaction, all that is counted for an account from all client IPs."""
    keys = select(Counter.key).where(_of_account(user)).order_by(Counter.key.desc())
    found = db.session.scalars(keys.with_for_update()).all()
    change(delete(Counter).where(Counter.key.in_(found)))


def locked_until(user: Person) -> datetime | None:
    """Return when the last limit that refuses logins to an account ends; None if none does."""
    if not settings.ratelimit_enabled:
        return None
    query = select(Counter.__table__).where(_of_account(user), Counter.expires_at > clock.utcnow())
    with reading() as connection:
        found = connection.execute(query).all()
    full = (end for key, hits, end in found if hits >= MOST.get(key.split("/")[1], math.inf))
    return max(full, default=None)


def _of_account(user: Person) -> ColumnElement[bool]:
    accounts = map(digest, names(user))  # "0" follows "/" in the order of characters
    return or_(*(and_(Counter.key >= f"{each}/", Counter.key < f"{each}0") for each in accounts))
