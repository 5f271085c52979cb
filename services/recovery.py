"""Access links and codes, what a link does (choose a password, verify an address), and passwords
that are removed.

Resets follow the OWASP Forgot Password Cheat Sheet.
"""

from collections.abc import Collection
from contextlib import suppress
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Any, NamedTuple

from sqlalchemy import case, func, update

import counting
import errors
from core import audit, codes, passwords, qr_codes
from core.addresses import has_mailbox
from core.roles import BUT_ADMINS, Reach, Role
from extensions import db, settings
from models import User, UserRow
from services import accounts, events, links, outbox, second_factor, sets, users
from services.letters import MailKind
from services.links import Action
from services.sets import Refused

# Somebody who has, or just had, a password gets one more way in, and should use it at once; a class
# that gets its ways in on paper, on the same day.
SECOND_WAY_IN, ON_PAPER = timedelta(hours=1), timedelta(days=1)


# What takes as long as an account.
_NOBODY = codes.Access("0" * 36, "x" * 75, "x" * 24, 1)


class Handout(NamedTuple):
    """A link to hand over, and a code that can be typed in its place; none for an admin."""

    link: str
    expires_at: datetime
    code: str

    @property
    def qr_code(self) -> str:
        """The link as a QR code: an SVG document."""
        return qr_codes.svg(self.link)


class Means(Enum):
    """By what somebody chooses a password."""

    MAIL = auto()  # the token of a link that came by e-mail, so it proves the address
    LINK = auto()  # that of a link that was handed over
    CODE = auto()  # the code that came with it


class Found(NamedTuple):
    """The account that a token or a code is for."""

    user: UserRow
    means: Means
    expires_at: datetime | None = None  # of a token


def hand_over(
    *people: UserRow, replace_password: bool = False, now: datetime
) -> dict[str, Handout]:
    """Hand over a new way in to each of these users, whose rows are locked, and clear what is
    counted against them; return them by id.

    For an account without a password, all earlier links stop working, also those in queued e-mails.
    For one that had a password, a notice is queued if the e-mail address is verified.
    """
    told = [user for user in people if _is_told(user)]
    outbox.queue_notices(MailKind.ACCESS_LINK_MADE, *told)
    rows = {user.id: user for user in people}
    if replace_password:
        rows |= remove_passwords(*people)  # in the order of the people
    rows |= _renew(*(user for user in rows.values() if not users.has_way_in(user)))
    events.tell_each("access_link_made", rows, deliver="link")
    counting.unlock(*rows.values())
    return {user_id: _handout(user, now) for user_id, user in rows.items()}


def _renew(*people: UserRow) -> dict[str, UserRow]:
    """End all links and codes of accounts without a way in, also those in queued e-mails, which
    would be made for the new marker and work; return their rows.
    """
    outbox.withdraw(*(name for user in people for name in (user.email, user.username_key)))
    return _replace_markers(*people)


def _handout(user: User | UserRow, now: datetime) -> Handout:
    action, bound = Action.CHOOSE_PASSWORD, links.bound_to(Action.CHOOSE_PASSWORD, user)
    made = links.make(action, user.id, bound, expires_at=now + _life(user), by_mail=False)
    code = codes.make_access_code(settings.secret_key, _access(user), _hour(now))
    return Handout(*made, code="" if user.role == Role.ADMIN else code)


def _life(user: User | UserRow) -> timedelta:
    if passwords.is_brief(user.password_hash):
        return SECOND_WAY_IN
    if not users.has_way_in(user):
        return timedelta(days=settings.invitation_days)
    return SECOND_WAY_IN if user.role != Role.STUDENT or user.email_verified_at else ON_PAPER


def _access(user: User | UserRow) -> codes.Access:
    return codes.Access(user.id, user.password_hash, user.email, user.password_version)


def _hour(moment: datetime) -> int:
    return int(moment.timestamp()) // 3600


def send_way_in(user: UserRow, *, replace_password: bool) -> None:
    """Queue an e-mail with which a user, whose row is locked, chooses a password: an invitation, or
    a reset mail where there is a way in. Raises UserNotFound for an inactive user, and
    TooManyRequests.
    """
    users.require_active(user)
    if replace_password:
        user = remove_passwords(user)[user.id]
    kind = MailKind.PASSWORD_RESET if users.has_way_in(user) else MailKind.INVITATION
    outbox.queue_by_staff(kind, user)
    if has_mailbox(user.email):
        events.tell("access_link_made", user.id, deliver="mail")


def make_link(user: UserRow, *, replace_password: bool, now: datetime) -> Handout:
    """Hand over a new way in to a user whose row is locked. Raises UserNotFound for an inactive
    one.
    """
    users.require_active(user)
    return hand_over(user, replace_password=replace_password, now=now)[user.id]


def make_links(
    user_ids: Collection[str], reach: Reach, *, replace_password: bool, now: datetime
) -> tuple[dict[str, Handout], Refused]:
    """Hand over a new way in to each of these users; return them by id, and why others are
    refused.
    """
    found, refused = sets.lock_all(user_ids, reach)
    active = [user for user in found.values() if user.is_active]
    made = hand_over(*active, replace_password=replace_password, now=now)
    return made, refused | dict.fromkeys(found.keys() - made, errors.UserNotFound)


def renew_links(user_ids: Collection[str], *, now: datetime) -> dict[str, Handout]:
    """Return by id a new way in for each of these accounts that has none.

    There is none for an admin, an inactive user, and one who has a password.
    """
    found, _ = sets.lock_all(user_ids, BUT_ADMINS, key_share=True)
    without = [user for user in found.values() if user.is_active and not users.has_way_in(user)]
    return {user_id: _handout(user, now) for user_id, user in _renew(*without).items()}


def find(action: Action, token: str) -> Found:
    """Return what a token for this action is good for.

    Raises InvalidToken if it is malformed, expired or used, or if what it is bound to has changed.
    """
    user_id, bound, expires_at, by_mail = links.read(action, token)
    user = users.get(User.id == user_id)
    if (
        user is None
        or not user.is_active
        or bound != links.bound_to(action, user)
        or (action is Action.VERIFY_EMAIL and user.email_verified_at)
    ):
        raise errors.InvalidToken
    return Found(user, Means.MAIL if by_mail else Means.LINK, expires_at)


def find_by_code(account: str, typed: str, *, now: datetime) -> Found:
    """Return what the code of an access link is good for.

    Takes the same time for every account, known or not. Raises WrongGuess.
    """
    user = users.get(users.named(account))
    longest = max(SECOND_WAY_IN, timedelta(days=settings.invitation_days))
    # A code lives as long as its link, to the full hour; other machines' clocks may be ahead.
    hours = range(_hour(now - longest), _hour(now) + 2)
    access = _access(user) if user else _NOBODY
    made = codes.hours_of_access_code(typed, settings.secret_keys, access, hours)
    if not (user and user.is_active and user.role != Role.ADMIN):
        made = []
    if not user or not made or max(made) < _hour(now - _life(user)):
        audit.log("access_code_refused", user.id if user else None)
        raise counting.WrongGuess(errors.WrongAccessCode())
    return Found(user, Means.CODE)


def check(token: str) -> dict[str, object]:
    """Return what the token of a link does, for whom and how long. Raises InvalidToken."""
    for action in Action:
        with suppress(errors.InvalidToken):
            user, _, expires_at = find(action, token)
            says = {**user._asdict(), "action": action, "expires_at": expires_at}
            # Somebody else may have registered this address, with an insult as the username.
            return {**says, "username": ""} if action is Action.VERIFY_EMAIL else says
    raise errors.InvalidToken


def replace_password(found: Found, password_hash: str, *, now: datetime) -> None:
    """Set a new password, end all sessions and notify the user.

    A token that came by e-mail verifies the address too, because only its reader has it. If that is
    the first proof of the address, a second factor is removed. Raises InvalidToken, or WrongGuess
    for a code, if what it is bound to has changed since it was read; of parallel calls with one,
    one wins.
    """
    user, by_mail = found.user, found.means is Means.MAIL
    bound = ("password_hash", "password_version", "email")
    unchanged = [getattr(User, name) == getattr(user, name) for name in bound]
    verified_at = func.coalesce(User.email_verified_at, now if by_mail else None)
    changed = accounts.set_password(
        user, password_hash, *unchanged, User.is_active, email_verified_at=verified_at
    )
    if not changed:
        by_code = found.means is Means.CODE
        raise counting.WrongGuess(errors.WrongAccessCode()) if by_code else errors.InvalidToken
    if by_mail and not user.email_verified_at and changed.second_factor_at:
        # Nobody had proved the address: perhaps somebody else registered it.
        second_factor.drop(user.id)
        events.tell("second_factor_removed", user.id)
    events.tell("password_reset" if by_mail else "access_link_used", user.id)
    if changed.email_verified_at and not user.email_verified_at:
        events.tell("email_verified", user.id)


def verify_email(user: UserRow, *, now: datetime) -> None:
    """Mark a user's e-mail address as verified. Raises InvalidToken if it already is, or if the
    account's version has grown since it was read.
    """
    version = User.password_version == user.password_version
    unchanged = (version, User.email == user.email, User.email_verified_at.is_(None))
    if not users.update(user.id, *unchanged, email_verified_at=now):
        raise errors.InvalidToken
    events.tell("email_verified", user.id)


def _is_told(user: UserRow) -> bool:
    """Return whether a link that is handed over is announced, and lives for an hour: the account
    has a way in and a verified address, or had them when its password was removed.
    """
    had_one = users.has_way_in(user) and user.email_verified_at is not None
    return had_one or passwords.is_brief(user.password_hash)


def remove_passwords(*people: UserRow) -> dict[str, UserRow]:
    """Make passwords useless at once, as against somebody who knows them, of accounts whose rows
    are locked; return the whole rows by id.
    """
    user_ids = [user.id for user in people]
    events.tell_each("password_removed", user_ids)
    accounts.end_what_passwords_allowed(*user_ids)
    version = User.password_version + 1
    return _replace_markers(*people, password_version=version, identity=None)


def _replace_markers(*people: UserRow, **values: Any) -> dict[str, UserRow]:
    """Give accounts, whose rows are locked, a new marker in place of a password: links and codes
    that are bound to what was there end. Return the whole rows by id.
    """
    told = [user.id for user in people if _is_told(user)]
    brief, usual = passwords.unusable(brief=True), passwords.unusable()
    marker = case((User.id.in_(told), brief), else_=usual)
    this = update(User.__table__).where(User.id.in_([user.id for user in people]))
    this = this.values(password_hash=marker, **values)
    rows: Any = db.session.execute(this.returning(User.__table__))
    return {row.id: row for row in rows}
