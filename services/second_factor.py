"""The second factor: set up, judged wherever a current password is, removed.

A try is counted before its code is judged, by a statement of its own, so that parallel guesses are
all counted. What was right is spent in the transaction of the act that it allows.
"""

import logging
import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Row, delete, or_, select, update

import errors
from core import audit, clock
from core import second_factor as codes
from core.reasons import REQUIRED
from core.roles import EVERYBODY, Role
from database import change, change_one, harmless, one_statement, reading, transaction
from extensions import db, settings
from models import ALL_UNUSED, SecondFactor, User, UserRow
from services import accounts, outbox, sessions, users
from services.letters import MailKind

# How long a new factor waits for its first code.
LIFE = timedelta(minutes=15)
# Wrong codes in a row until the user is told, and until six digits are always wrong.
WARN_AT, LOCK_AT = 5, 20
BATCH = 500
_NO_FACTOR = "This account has no second factor."
_NONE_WAITS = "No second factor waits for its first code. Start again."
_FACTORS = SecondFactor.__table__
_log = logging.getLogger("accounts.second_factor")


class Proof(NamedTuple):
    """A code that was right. It has a time step, or the number of a recovery code."""

    user: UserRow
    factor: Row[Any]
    seed: bytes
    step: int | None
    number: int | None


def status(user: UserRow) -> dict[str, object]:
    """Return whether a user has a factor, since when, and what is left of it."""
    unused, failures = 0, 0
    if user.second_factor_at:
        query = select(*_FACTORS.c["unused", "failures"]).filter_by(user_id=user.id)
        with reading() as connection:
            unused, failures = connection.execute(query).one_or_none() or (0, 0)
    return {
        "enabled": user.second_factor_at is not None,
        "since": user.second_factor_at,
        "recovery_codes_left": unused.bit_count(),
        "locked": failures >= LOCK_AT,
    }


def begin(user: UserRow, *, session_id: str, now: datetime) -> bytes:
    """Store a new factor that waits for its first code, instead of an earlier one that waits;
    return its seed.

    Raises SecondFactorExists; and WrongPassword or TokenRevoked if the account or the session has
    changed meanwhile.
    """
    if user.second_factor_at:
        raise errors.SecondFactorExists
    # The lock and the account's version keep a factor out that is confirmed meanwhile.
    if not users.lock(user.id, *accounts.unchanged(user, session_id), key_share=True):
        raise accounts.changed_meanwhile(user, session_id)
    change(delete(SecondFactor).where(SecondFactor.user_id == user.id))
    seed = secrets.token_bytes(codes.SEED)
    sealed = codes.seal(settings.secret_key, seed, user.id)
    db.session.add(SecondFactor(user_id=user.id, sealed=sealed, created_at=now))
    return seed


def try_first_code(user: UserRow, typed: str, *, now: datetime) -> Proof:
    """Return the proof that an app has the key of the factor that waits. Commits by itself.

    Raises InvalidToken if none waits, and WrongCode.
    """
    waits = (_FACTORS.c.confirmed_at.is_(None), _FACTORS.c.created_at > now - LIFE)
    proof = _try(user, typed, *waits)
    if proof is None:
        raise errors.InvalidToken(_NONE_WAITS)
    return proof


def confirm(user: UserRow, proof: Proof, *, session_id: str, now: datetime) -> list[str]:
    """Turn the factor on, end the other sessions and notify the user; return the recovery codes.

    Raises InvalidToken if the account or the session has changed meanwhile, and WrongCode if the
    factor has.
    """
    _change(user, proof, session_id, second_factor_at=now)
    this = SecondFactor.user_id == user.id
    change(update(SecondFactor).where(this).values(confirmed_at=now))
    sessions.end_all(user.id, keep=session_id)
    notify(user, "added")
    return codes.recovery_codes(proof.seed, proof.factor.generation)


def replace_recovery_codes(user: UserRow, proof: Proof | None, *, session_id: str) -> list[str]:
    """Return ten new recovery codes; the old ones stop working. Notifies the user.

    Raises NotFound without a factor; WrongPassword or TokenRevoked if the account or the session
    has changed meanwhile; and WrongCode if another call has used the code.
    """
    proof = _change(user, proof, session_id)
    generation = proof.factor.generation + 1
    this = SecondFactor.user_id == user.id
    change(update(SecondFactor).where(this).values(generation=generation, unused=ALL_UNUSED))
    notify(user, "codes_replaced")
    return codes.recovery_codes(proof.seed, generation)


def remove(user: UserRow, proof: Proof | None, *, session_id: str) -> None:
    """Remove a user's own factor, end the other sessions and notify the user.

    Raises what `replace_recovery_codes` does.
    """
    _change(user, proof, session_id, second_factor_at=None)
    change(delete(SecondFactor).where(SecondFactor.user_id == user.id))
    sessions.end_all(user.id, keep=session_id)
    notify(user, "removed")


def reset(user_id: str, reach: frozenset[Role] = EVERYBODY) -> None:
    """Remove the factor of a user who has lost it, end all sessions and notify the user.

    Raises UserNotFound, Forbidden for a role out of reach, and NotFound without a factor.
    """
    user = users.require(users.lock(user_id), reach)
    if user.second_factor_at is None:
        raise errors.NotFound(_NO_FACTOR)
    drop(user_id)
    sessions.end_all(user_id)
    notify(user, "reset")


def drop(user_id: str) -> None:
    """Remove the factor of an account whose row is locked, and raise the account's version."""
    users.update(user_id, second_factor_at=None, password_version=User.password_version + 1)
    change(delete(SecondFactor).where(SecondFactor.user_id == user_id))


def notify(user: UserRow, event: str) -> None:
    """Queue a notice about the factor; its template has a sentence for each event."""
    outbox.queue(MailKind.SECOND_FACTOR, user.email, language=user.language, about=event)


def confirmed(
    user: UserRow, raw_password: str, typed: str, *, field: str = "password"
) -> AbstractContextManager[Proof | None]:
    """Check the current password of a signed-in user at `field`, then do what `judged` does.

    Raises WrongPassword too.
    """
    accounts.confirm_password(user, raw_password, field=field)
    return judged(user, typed)


@contextmanager
def judged(user: UserRow, typed: str) -> Iterator[Proof | None]:
    """Judge what was typed beside a password that was right; lend the proof, to be spent in the
    transaction of the act.

    Lends None for an account without a factor, where nothing is asked for. If the act fails for
    another reason, the try is taken back. Raises SecondFactorRequired and WrongCode.
    """
    if user.second_factor_at is None:
        yield None
        return
    if not typed:
        raise errors.SecondFactorRequired(fields={"secondFactor": [REQUIRED]})
    proof = _try(user, typed, _FACTORS.c.confirmed_at.is_not(None))
    if proof is None:  # it was removed meanwhile, so the act would fail too
        raise errors.WrongCode.at("secondFactor", "wrong")
    try:
        yield proof
    except errors.WrongCode:
        raise
    except Exception as error:
        if isinstance(error, errors.ApiError):
            error.right_password = None  # neither a wrong guess nor a right one
        failures = _FACTORS.c.failures
        with harmless(_log, "a try could not be taken back"), one_statement() as connection:
            this = update(_FACTORS).where(*_same(proof.factor), failures > 0)
            connection.execute(this.values(failures=failures - 1))
        raise
    if proof.number is not None:
        audit.log("recovery_code_used", user.id)


def spend(proof: Proof | None) -> None:
    """Use up a code in the transaction of the act that it allows; of parallel calls one does it.

    To be called when the user's row is locked. Raises WrongCode.
    """
    if proof is None:
        return
    this, unused = update(SecondFactor).where(*_same(proof.factor)), SecondFactor.unused
    if proof.step is not None:
        this = this.where(SecondFactor.last_step < proof.step).values(last_step=proof.step)
    else:
        bit = 1 << (proof.number or 0)
        this = this.where(SecondFactor.generation == proof.factor.generation)
        this = this.where(unused.bitwise_and(bit) != 0).values(unused=unused - bit)
    left = change_one(this.values(failures=0).returning(unused))
    if left is None:
        raise _wrong(proof.user, proof.factor)
    if proof.number is not None:
        notify(proof.user, f"code_used {left.unused.bit_count()}")


def _try(user: UserRow, typed: str, *conditions: ColumnElement[bool]) -> Proof | None:
    """Count a try, then judge it; return the proof that the code is right, or None if there is no
    factor under these conditions. Raises WrongCode.
    """
    this = update(_FACTORS).where(_FACTORS.c.user_id == user.id, *conditions)
    counted = this.values(failures=_FACTORS.c.failures + 1).returning(_FACTORS)
    with one_statement() as connection:
        factor = connection.execute(counted).one_or_none()
    if factor is None:
        return None
    now = clock.utcnow()
    if seed := _open(factor):
        step = number = None
        if factor.failures <= LOCK_AT:
            step = codes.step_of(typed, seed, now.timestamp(), after=factor.last_step)
        if factor.confirmed_at:
            number = codes.recovery_code_of(typed, seed, factor.generation)
        if step is not None or (number is not None and factor.unused >> number & 1):
            return Proof(user, factor, seed, step, number)
    if factor.failures == LOCK_AT:
        audit.log("second_factor_locked", user.id)
    if factor.confirmed_at and factor.failures >= WARN_AT:
        with harmless(_log, "a notice could not be queued"), transaction():
            # Somebody knows the password. Once a day is often enough to say so.
            warned_at = SecondFactor.warned_at
            due = or_(warned_at.is_(None), warned_at <= now - timedelta(days=1))
            this = update(SecondFactor).where(SecondFactor.user_id == user.id, due)
            if change(this.values(warned_at=now)):
                notify(user, "guessed")
    raise _wrong(user, factor)


def _open(factor: Row[Any]) -> bytes | None:
    seed = codes.unseal(settings.secret_keys, factor.sealed, factor.user_id)
    if seed is None:
        _log.warning("no key opens the second factor of account %s", factor.user_id)
    return seed


def _wrong(user: UserRow, factor: Row[Any]) -> errors.WrongCode:
    audit.log("wrong_code", user.id)
    return errors.WrongCode.at("secondFactor" if factor.confirmed_at else "code", "wrong")


def _same(factor: Row[Any]) -> tuple[ColumnElement[bool], ...]:
    columns = _FACTORS.c
    return columns.user_id == factor.user_id, columns.created_at == factor.created_at


def _change(user: UserRow, proof: Proof | None, session_id: str, **values: object) -> Proof:
    """Change an account, end what was begun before, and spend the proof; return it."""
    if proof is None:
        raise errors.NotFound(_NO_FACTOR)
    values["password_version"] = User.password_version + 1
    if not users.update(user.id, *accounts.unchanged(user, session_id), **values):
        if not proof.factor.confirmed_at:  # no password was asked for
            raise errors.InvalidToken(_NONE_WAITS)
        raise accounts.changed_meanwhile(user, session_id)
    spend(proof)
    return proof


def seal_anew(stopping: Callable[[], bool] = lambda: False) -> int:
    """Seal with the newest key what a fallback key has sealed; return how many factors.

    After that, the old key can be dropped.
    """
    newest, done, last = settings.secret_key, 0, ""
    while settings.secret_key_fallbacks and not stopping():
        query = select(_FACTORS).where(_FACTORS.c.user_id > last)
        with reading() as connection:
            found = connection.execute(query.order_by(_FACTORS.c.user_id).limit(BATCH)).all()
        if not found:
            break
        old = [row for row in found if not codes.unseal([newest], row.sealed, row.user_id)]
        with transaction():
            for row in old:
                if seed := _open(row):
                    this = (SecondFactor.user_id == row.user_id, SecondFactor.sealed == row.sealed)
                    values = {"sealed": codes.seal(newest, seed, row.user_id)}
                    done += change(update(SecondFactor).where(*this).values(**values))
        last = found[-1].user_id
    return done
