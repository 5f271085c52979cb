"""The second factor: set up, judged wherever a current password is, removed.

A try is counted before its code is judged, by a statement of its own, so that parallel guesses are
all counted. What was right is spent in the transaction of the act that it allows.
"""

import logging
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Row, case, delete, literal, select, update

import counting
import errors
from callers import Caller
from core import audit, clock, totp
from core.reasons import REQUIRED
from core.roles import EVERYBODY, Reach
from database import change, change_one, harmless, one_statement, read_all, read_one, transaction
from database.columns import UTCDateTime
from extensions import db, settings
from models import ALL_UNUSED, SecondFactor, User, UserRow
from services import accounts, events, outbox, sessions, users
from services.letters import MailKind

# How long a new factor waits for its first code.
LIFE = timedelta(minutes=15)
# Wrong codes in a window until the user is told, and until six digits are refused.
WARN_AT, LOCK_AT, WINDOW = 5, 20, timedelta(hours=24)
BATCH = 500
_NO_FACTOR = "This account has no second factor."
_NONE_WAITS = "No second factor waits for its first code. Start again."
_LOCKED = "Too many wrong codes. Use a recovery code, or try again later."
_FACTORS = SecondFactor.__table__
_log = logging.getLogger("accounts.second_factor")


class Proof(NamedTuple):
    """A code that was right. It has a time step, or the number of a recovery code."""

    user: UserRow
    factor: Row[Any]
    seed: bytes
    step: int | None = None
    number: int | None = None


def status(user: UserRow) -> dict[str, Any]:
    """Return whether a user has a factor, since when, how many recovery codes are left, until when
    no six digits are taken, if so, and whether a key opens it.
    """
    columns = _FACTORS.c["unused", "wrong_codes", "window_ends_at", "sealed"]
    this = select(*columns).where(_FACTORS.c.user_id == user.id)
    found = read_one(this) if user.second_factor_at else None
    unused, wrong_codes, until, sealed = found or (0, 0, None, None)
    is_locked = wrong_codes >= LOCK_AT and until and until > clock.utcnow()
    return {
        "enabled": user.second_factor_at is not None,
        "since": user.second_factor_at,
        "recovery_codes_left": unused.bit_count(),
        "locked_until": until if is_locked else None,
        "opens": sealed and totp.unseal(settings.secret_keys, sealed, user.id) is not None,
    }


def begin(caller: Caller) -> bytes:
    """Store a new factor that waits for its first code, instead of an earlier one that waits;
    return its seed.

    Raises SecondFactorExists, and what `accounts.lock_caller` does.
    """
    user = caller.user
    if user.second_factor_at:
        raise errors.SecondFactorExists
    # The account's version keeps a factor out that is confirmed meanwhile.
    accounts.lock_caller(caller)
    change(delete(SecondFactor).where(SecondFactor.user_id == user.id))
    seed = secrets.token_bytes(totp.SEED)
    sealed = totp.seal(settings.secret_key, seed, user.id)
    db.session.add(SecondFactor(user_id=user.id, sealed=sealed, created_at=clock.utcnow()))
    return seed


def try_first_code(user: UserRow, typed: str) -> Proof:
    """Return the proof that an app has the key of the factor that waits. Commits by itself.

    Raises InvalidToken if none waits, and WrongGuess.
    """
    now = clock.utcnow()
    factor = _count(user, _FACTORS.c.confirmed_at.is_(None), _FACTORS.c.created_at > now - LIFE)
    if factor is None:
        raise errors.InvalidToken(_NONE_WAITS)
    seed = _open(factor)
    step = totp.step_of(typed, seed, now.timestamp(), after=factor.last_step) if seed else None
    if not seed or step is None:
        raise _wrong(user, "code")
    return _right(Proof(user, factor, seed, step=step))


def confirm(caller: Caller, proof: Proof) -> list[str]:
    """Turn the factor on, end the other sessions and notify the user; return the recovery codes.

    Raises InvalidToken if the account has changed meanwhile, TokenRevoked if the session has ended,
    and WrongGuess if the factor has changed.
    """
    accounts.lock_caller(caller, lambda: errors.InvalidToken(_NONE_WAITS))
    spend(proof)
    user, now = caller.user, clock.utcnow()
    _raise_version(user.id, second_factor_at=now)
    # Mistakes before this are no guesses at the factor.
    values = {"confirmed_at": now, "wrong_codes": 0, "window_ends_at": None}
    change(update(SecondFactor).where(SecondFactor.user_id == user.id).values(**values))
    sessions.end_all(user.id, keep=caller.session_id)
    # They were added with the password alone, and would do without the code.
    accounts.drop_passkeys(user.id)
    tell(user, "second_factor_added", "added")
    return totp.recovery_codes(proof.seed, proof.factor.generation)


def replace_recovery_codes(caller: Caller, proof: Proof | None) -> list[str]:
    """Return ten new recovery codes; the old ones stop working. Notifies the user.

    Raises NotFound without a factor.
    """
    if proof is None:
        raise errors.NotFound(_NO_FACTOR)
    user_id, generation = caller.user.id, proof.factor.generation + 1
    _raise_version(user_id)
    this = SecondFactor.user_id == user_id
    change(update(SecondFactor).where(this).values(generation=generation, unused=ALL_UNUSED))
    tell(caller.user, "recovery_codes_replaced", "codes_replaced")
    return totp.recovery_codes(proof.seed, generation)


def remove(caller: Caller) -> None:
    """Remove a user's own factor, end the other sessions and notify the user.

    Raises NotFound without one.
    """
    if caller.user.second_factor_at is None:
        raise errors.NotFound(_NO_FACTOR)
    drop(caller.user.id)
    sessions.end_all(caller.user.id, keep=caller.session_id)
    tell(caller.user, "second_factor_removed", "removed")


def reset(user_id: str, reach: Reach = EVERYBODY) -> None:
    """Remove the factor and all passkeys of a user who has lost them, end all sessions and notify
    the user.

    Raises UserNotFound, Forbidden for one out of reach, and NotFound without any of them.
    """
    user = users.lock_within(user_id, reach)
    sessions.end_all(user_id)
    had_passkeys = accounts.drop_passkeys(user_id)
    if not had_passkeys and user.second_factor_at is None:
        raise errors.NotFound(_NO_FACTOR)
    drop(user_id)
    tell(user, "second_factor_reset", "reset")


def drop(user_id: str) -> None:
    """Remove the factor of an account whose row is locked, and raise the account's version."""
    _raise_version(user_id, second_factor_at=None)
    change(delete(SecondFactor).where(SecondFactor.user_id == user_id))


def _raise_version(user_id: str, **values: object) -> None:
    users.update(user_id, password_version=User.password_version + 1, **values)


def unlock(user_id: str, reach: Reach = EVERYBODY) -> None:
    """Clear what is counted against an account; if it is within reach, let six digits be judged
    again too, whatever was typed before. Raises UserNotFound.
    """
    user = users.lock_within(user_id)
    this = update(SecondFactor).where(SecondFactor.user_id == user_id)
    if users.is_within(reach, user, db.session):
        change(this.values(wrong_codes=0, window_ends_at=None))
    events.tell("account_unlocked", user_id)
    counting.unlock(user)


def tell(user: UserRow, event: str, notice: str, *, left: int | str = "") -> None:
    """Tell of an event in the open transaction, and notify the user of it by e-mail."""
    events.tell(event, user.id)
    _notify(user, notice, left=left)


def _notify(user: UserRow, event: str, *, left: int | str = "") -> None:
    """Queue a notice about the factor or a passkey; its template has a sentence for each event, one
    of them with how many recovery codes are left.
    """
    facts = {"event": event, "left": left}
    outbox.queue(MailKind.SECOND_FACTOR, user.email, language=user.language, **facts)


def prove(user: UserRow, raw_password: str, typed: str, *, field: str = "password") -> Proof | None:
    """Check the current password of a signed-in user at `field`, then do what `check_code` does.

    Raises WrongGuess for a wrong password too.
    """
    accounts.confirm_password(user, raw_password, field=field)
    return check_code(user, typed)


def check_code(user: UserRow, typed: str) -> Proof | None:
    """Judge what was typed beside a password that was right; return the proof, which the
    transaction of the act must `spend`.

    Return None for an account without a factor, where nothing is asked for. Raises
    SecondFactorRequired and WrongGuess; and TooManyRequests for six digits after 20 wrong codes in
    24 hours. A recovery code is always judged, since it cannot be guessed.
    """
    if user.second_factor_at is None:
        return None
    if not typed:
        raise errors.SecondFactorRequired(fields={"secondFactor": [REQUIRED]})
    factor = _count(user, _FACTORS.c.confirmed_at.is_not(None))
    if factor is None:  # it was removed meanwhile, so the act would fail too
        raise counting.WrongGuess(errors.WrongCode.at("secondFactor", "wrong"))
    now, is_locked = clock.utcnow(), factor.wrong_codes > LOCK_AT
    if is_locked and totp.has_form_of_digits(typed):
        audit.log("limit_reached", user.id, limit=f"{LOCK_AT} per day: wrong codes")
        raise counting.too_many(factor.window_ends_at, _LOCKED)
    if seed := _open(factor):
        step = totp.step_of(typed, seed, now.timestamp(), after=factor.last_step)
        number = totp.recovery_code_of(typed, seed, factor.generation)
        if step is not None or (number is not None and factor.unused >> number & 1):
            return _right(Proof(user, factor, seed, step, number))
    if factor.wrong_codes == LOCK_AT:
        audit.log("second_factor_locked", user.id)
    if factor.wrong_codes == WARN_AT:
        with harmless(_log, "a notice could not be queued"), transaction():
            _notify(user, "guessed")  # somebody knows the password
    raise _wrong(user)


@contextmanager
def allowed(caller: Caller, proof: Proof | None) -> Iterator[None]:
    """Run what a confirmed password and this proof allow, as one transaction with the proof's use.

    Raises what `allow` does.
    """
    with transaction():
        allow(caller, proof)
        yield


def allow(caller: Caller, proof: Proof | None) -> None:
    """Use the proof up in the transaction of the act that it allows.

    Raises what `accounts.lock_caller` does, and WrongGuess if another call has used the code.
    """
    accounts.lock_caller(caller)
    spend(proof)


def spend(proof: Proof | None) -> None:
    """Use up a code in the transaction of the act that it allows; of parallel calls one does it.

    To be called when the user's row is locked. Raises WrongGuess.
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
    left = change_one(this.returning(unused))
    if left is None:
        raise _wrong(proof.user, "secondFactor" if proof.factor.confirmed_at else "code")
    if proof.number is not None:
        tell(proof.user, "recovery_code_used", "code_used", left=left.unused.bit_count())


def _count(user: UserRow, *conditions: ColumnElement[bool]) -> Row[Any] | None:
    """Count a try before it is judged; return the factor, or None if there is none under these
    conditions.
    """
    now, columns = clock.utcnow(), _FACTORS.c
    wrong_codes, window_ends_at = columns.wrong_codes, columns.window_ends_at
    is_open, is_full = window_ends_at > now, wrong_codes > LOCK_AT
    end = case((is_open, window_ends_at), else_=literal(now + WINDOW, UTCDateTime))
    hits = case((is_open & is_full, wrong_codes), (is_open, wrong_codes + 1), else_=1)
    this = update(_FACTORS).where(columns.user_id == user.id, *conditions)
    counted = this.values(wrong_codes=hits, window_ends_at=end).returning(_FACTORS)
    with one_statement() as connection:
        return connection.execute(counted).one_or_none()


def _right(proof: Proof) -> Proof:
    """Take back that a right code was counted, unless its window is over."""
    wrong_codes, window_ends_at = _FACTORS.c.wrong_codes, _FACTORS.c.window_ends_at
    this = update(_FACTORS).where(*_same(proof.factor))
    this = this.where(window_ends_at == proof.factor.window_ends_at)
    left = case((wrong_codes > 1, window_ends_at))
    with one_statement() as connection:
        connection.execute(this.values(wrong_codes=wrong_codes - 1, window_ends_at=left))
    return proof


def _open(factor: Row[Any]) -> bytes | None:
    seed = totp.unseal(settings.secret_keys, factor.sealed, factor.user_id)
    if seed is None:
        _log.warning("no key opens the second factor of account %s", factor.user_id)
    return seed


def _wrong(user: UserRow, field: str = "secondFactor") -> counting.WrongGuess:
    audit.log("wrong_code", user.id)
    return counting.WrongGuess(errors.WrongCode.at(field, "wrong"))


def _same(factor: Row[Any]) -> tuple[ColumnElement[bool], ...]:
    columns = _FACTORS.c
    return columns.user_id == factor.user_id, columns.created_at == factor.created_at


def seal_anew(stopping: Callable[[], bool] = lambda: False) -> int:
    """Seal with the newest key what a fallback key has sealed; return how many factors.

    After that, the old key can be dropped.
    """
    newest, done, last = settings.secret_key, 0, ""
    while settings.secret_key_fallbacks and not stopping():
        query = select(_FACTORS).where(_FACTORS.c.user_id > last)
        found = read_all(query.order_by(_FACTORS.c.user_id).limit(BATCH))
        if not found:
            break
        old = [row for row in found if not totp.unseal([newest], row.sealed, row.user_id)]
        with transaction():
            for row in old:
                if seed := _open(row):
                    this = (SecondFactor.user_id == row.user_id, SecondFactor.sealed == row.sealed)
                    values = {"sealed": totp.seal(newest, seed, row.user_id)}
                    done += change(update(SecondFactor).where(*this).values(**values))
        last = found[-1].user_id
    return done
