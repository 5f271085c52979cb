"""Accounts: registration, new passwords, confirmation by a password, and deletion."""

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import and_, or_, select
from sqlalchemy import delete as delete_from

import counting
import errors
from callers import Caller
from core import audit, guessable, passwords
from core.addresses import has_domain, has_mailbox
from core.reasons import UNCONFIRMED, Reason
from core.roles import Role
from database import change, unique
from extensions import breaches, db, hasher, settings
from fields import Email
from models import Passkey, PendingEmail, User, UserRow
from services import changes, events, outbox, sessions, users
from services.letters import MailKind
from services.users import Condition


def hash_new_password(password: str, person: Mapping[str, Any], *, field: str) -> str:
    """Return the hash of a new password; takes the time of one hash, and of one question where
    `BREACHED_PASSWORDS` is set.

    `person` has the user's names and e-mail address, which are easy to guess, as is the name of the
    site. Raises WeakPassword with the reason at `field` (NIST SP 800-63B, section 5.1.1.2).
    """
    personal = [person[name] for name in ("username", "email", "first_name", "last_name")]
    personal.append(settings.site)
    guess = guessable.why_guessable(password, personal, settings.password_min_length)
    if reason := guess or breaches.why_breached(password):
        raise errors.WeakPassword(fields={field: [reason]})
    return hasher.hash(password)


def check_domain(email: str, *, field: str) -> None:
    """Raise InvalidRequest at `field` if e-mail addresses of this domain may not register."""
    if not has_mailbox(email):
        raise errors.InvalidRequest(fields={field: [Email.invalid]})
    domains = settings.registration_domains
    if domains and not has_domain(email, domains):
        reason = f"Use an e-mail address of one of these domains: {', '.join(domains)}."
        raise errors.InvalidRequest(fields={field: [Reason("invalid", reason)]})


def add(
    *, username: str, email: str, mail: MailKind | None = None, provider: str = "", **values: Any
) -> User:
    """Add an account with these columns, and queue an e-mail to its user.

    Without a hash it has no password. Who has a way in, such as a `provider`, has registered.
    Raises UsernameTaken, EmailTaken or ExternalIdTaken; `fields` names all that are taken.
    """
    defaults: dict[str, Any] = {"password_hash": passwords.unusable(), **usual_settings()}
    user = User(username=username, username_key=username.lower(), email=email, **defaults | values)
    # The other account may be deleted by now; then the same request would succeed.
    external_id = values.get("external_id")
    error = lambda: taken(username, email, external_id) or errors.Unavailable()  # noqa: E731
    columns = (User.username_key, User.email, User.identity, User.external_id)
    with unique(error, *columns), db.session.begin_nested():
        db.session.add(user)
    changes.note([user.id])
    is_registered = values.keys() & {"password_hash", "identity"}
    events.tell("registered" if is_registered else "account_created", user.id, provider=provider)
    if mail:
        outbox.queue(mail, email)
    return user


def usual_settings() -> dict[str, Any]:
    """Return the settings of accounts that are made without them."""
    return {
        "language": settings.default_language,
        "timezone": settings.default_timezone,
        "profile_visible": settings.profiles == "visible",
    }


def taken(
    username: str, email: str, external_id: str | None, *, but: str = ""
) -> errors.ApiError | None:
    """Return the error for names that another account has than the one with the id `but`; of a
    username, it says too if nobody has ever used its account or confirmed the address.
    """
    wanted: dict[str, tuple[type[errors.ApiError], Condition]] = {
        "username": (errors.UsernameTaken, User.username_key == username.lower()),
        "email": (errors.EmailTaken, User.email == email),
        "externalId": (errors.ExternalIdTaken, User.external_id == (external_id or "")),
    }
    columns = (User.password_hash, User.email_verified_at, User.last_login_at)
    kinds, fields = [], {}
    for field, (kind, same) in wanted.items():
        holder = db.session.execute(select(*columns).where(same, User.id != but)).first()
        if not holder:
            continue
        kinds.append(kind)
        fields[field] = [Reason("taken", kind.message)]
        stored, *used = holder
        # Of accounts that staff has made strangers learn nothing.
        if field == "username" and passwords.is_usable(stored) and not any(used):
            fields[field].append(UNCONFIRMED)
    return kinds[0](fields=fields) if kinds else None


def confirm_password(user: UserRow, raw_password: str, *, field: str) -> None:
    """Raise WrongGuess for a wrong current password at `field`; takes the time of one hash."""
    if not hasher.verify(raw_password, user.password_hash, user.email):
        audit.log("wrong_password", user.id)
        raise counting.WrongGuess(errors.WrongPassword.at(field, "wrong"))


def set_password(
    user: UserRow,
    password_hash: str,
    *conditions: Condition,
    keep: str | None = None,
    **values: Any,
) -> UserRow | None:
    """Change the password, and other columns, and end all sessions except the one to `keep`; notify
    the user of a new password.

    What the old password allowed ends too: the link to a provider, passkeys, and the new e-mail
    address that waits for its code. Return the whole row, or None if a condition does not hold.
    """
    values |= {"password_hash": password_hash, "password_version": User.password_version + 1}
    values["identity"] = None
    row = users.update(user.id, *conditions, **values)
    if row:
        had_passkeys = end_what_passwords_allowed(user.id, keep=keep) > 0
        facts = {"unlinked": user.identity is not None, "had_passkeys": had_passkeys}
        outbox.queue(MailKind.PASSWORD_CHANGED, user.email, language=user.language, **facts)
    return row


def end_what_passwords_allowed(*user_ids: str, keep: str | None = None) -> int:
    """End sessions, waiting e-mail addresses and passkeys; return how many of these."""
    drop_pending_email(*user_ids)
    sessions.end_all(*user_ids, keep=keep)
    return drop_passkeys(*user_ids)


def change_password(caller: Caller, password_hash: str) -> None:
    """Set a new password after a confirmed one."""
    set_password(caller.user, password_hash, keep=caller.session_id)
    events.tell("password_changed", caller.user.id)


def delete(*users: UserRow) -> None:
    """Delete accounts whose rows are locked, with everything stored about them, and notify their
    e-mail addresses.
    """
    user_ids = [user.id for user in users]
    outbox.withdraw_codes(*user_ids)
    outbox.withdraw(*(name for user in users for name in (user.email, user.username_key)))
    change(delete_from(User).where(User.id.in_(user_ids)))
    changes.note(user_ids)
    events.tell_each("account_deleted", user_ids)
    outbox.queue_notices(MailKind.ACCOUNT_DELETED, *users)


def drop_pending_email(*user_ids: str) -> None:
    """Forget the new e-mail addresses that wait for their codes."""
    change(delete_from(PendingEmail).where(PendingEmail.user_id.in_(user_ids)))


def drop_passkeys(*user_ids: str) -> int:
    """Remove all passkeys of accounts whose rows are locked; return how many."""
    return change(delete_from(Passkey).where(Passkey.user_id.in_(user_ids)))


def lock_admins(*targets: str) -> str | None:
    """Lock the rows of all active admins and of these users. If no other admin is left without
    them, return who has to stay one: of several, the one with the highest id.

    If two admins demote each other at once, the second sees what the first has done. Call this
    before any other row is locked; the fixed order prevents deadlocks.
    """
    is_admin = and_(User.role == Role.ADMIN.value, User.is_active)
    these = select(User.id, is_admin).where(or_(is_admin, User.id.in_(targets)))
    locked = db.session.execute(these.order_by(User.id).with_for_update(key_share=True))
    admins = [user_id for user_id, admin in locked if admin]
    return max(admins) if admins and {*targets}.issuperset(admins) else None


def lock_caller(
    caller: Caller, replaced: Callable[[], errors.ApiError] | None = errors.WrongPassword
) -> None:
    """Lock the caller's row, and make sure that what was judged before still counts.

    While a password was hashed, the user may have changed it or ended this session elsewhere, or an
    admin may have changed the role or deactivated the account, to keep an attacker out. Raises
    TokenRevoked if the session has ended, and `replaced()` if the account's version has grown.
    """
    row = users.lock(caller.user.id, key_share=True)
    # Asked in a statement of its own: Postgres shows it what was committed during the wait.
    is_open = db.session.scalar(select(sessions.is_open(caller.session_id, caller.user.id)))
    if not row or not is_open:
        raise errors.TokenRevoked
    if replaced and row.password_version != caller.user.password_version:
        raise replaced()
