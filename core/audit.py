"""The audit log: who did what to which account, one line per event.

Each event has the user, the client IP (`address`) and the request id; `by` is the admin or the
service key that acted on another account, a key as `key:` and its id.

The history of an account keeps at most 20 of a kind in 24 hours that the user has caused; the log
has all.
"""

import logging
from typing import NamedTuple


class Event(NamedTuple):
    """When a security event comes, and the details that the history of the account keeps.

    Without `kept`, the event is in the log alone.
    """

    when: str
    kept: tuple[str, ...] | None = None


# All of them, and all that docs/reference.md tells.
EVENTS = {
    "registered": Event("Somebody registered, or a command set the password.", kept=("provider",)),
    "account_created": Event("An account without a password was made for somebody.", kept=()),
    "account_imported": Event("An account came with an import, which logs no line.", kept=()),
    "accounts_imported": Event("`flask users import` has ended, with its counts."),
    "accounts_dumped": Event("`flask users dump` has ended, with its count."),
    "login": Event("A session began. Kept: the first of an IP.", kept=("provider", "passkey")),
    "login_failed": Event(
        "`reason`: `unknown_account`, `no_password`, `wrong_password`, or `passkey_` and what was "
        "wrong with one."
    ),
    "login_refused_inactive": Event("Password or passkey was right; the account is deactivated."),
    "login_refused_unverified": Event("Password or passkey was right, the address not confirmed."),
    "provider_failed": Event("Sign-in at `provider` failed: docs/providers.md has each `reason`."),
    "identity_linked": Event("The account was linked, with its password.", kept=("provider",)),
    "identity_joined": Event("It was linked: nobody could sign in to it.", kept=("provider",)),
    "application_login": Event("The user signed in to an `application` with this service."),
    "application_denied": Event("The user's role may not enter an `application`."),
    "application_refused": Event("A call of an `application` was refused; `reason` is the error."),
    "wrong_password": Event("The current password was wrong, at a change or a deletion."),
    "wrong_code": Event("The password was right, the code of the second factor was not."),
    "limit_reached": Event("A limit, which `limit` names, refused a call."),
    "second_factor_locked": Event("20 codes were wrong within a day: only recovery codes work."),
    "second_factor_added": Event("The user set up a second factor.", kept=()),
    "second_factor_removed": Event("The user removed the second factor.", kept=()),
    "second_factor_reset": Event("Somebody else removed the second factor.", kept=()),
    "recovery_codes_replaced": Event("The user got new recovery codes.", kept=()),
    "recovery_code_used": Event("A recovery code was used in place of a code.", kept=()),
    "passkey_added": Event("The user added a passkey, with the password.", kept=()),
    "passkey_removed": Event("The user removed one; a new password removes all.", kept=()),
    "passkey_refused": Event("A new passkey could not be used; `reason` is what was wrong."),
    "refresh_token_reused": Event("A spent refresh token, perhaps stolen, ended its session."),
    "logout": Event("A user ended the current session."),
    "session_ended": Event("A user ended another session."),
    "other_sessions_ended": Event("A user ended all other sessions."),
    "password_changed": Event("The user changed the password, with the old one.", kept=()),
    "password_reset": Event("A password was chosen with a link that came by mail.", kept=()),
    "password_removed": Event("The password was made useless by somebody else.", kept=()),
    "access_link_made": Event("A link or code to choose a password was made.", kept=("deliver",)),
    "access_link_used": Event("A password was chosen with a link or code handed over.", kept=()),
    "access_code_refused": Event("A code to choose a password, or its account, was wrong."),
    "email_verified": Event("The e-mail address was confirmed, by mail or by hand.", kept=()),
    "email_change_requested": Event("A user asked for another e-mail address."),
    "email_changed": Event("The account has another e-mail address.", kept=()),
    "username_changed": Event("The account has another username.", kept=()),
    "custom_fields_changed": Event("Custom fields have other values.", kept=("fields",)),
    "names_changed": Event("The account has another first or last name.", kept=()),
    "profile_changed": Event("Somebody else changed language, time zone or `externalId`."),
    "role_changed": Event("The account has another role, named in `role`.", kept=("role",)),
    "account_activated": Event("The account can be used again.", kept=()),
    "account_deactivated": Event("The account cannot be used any more.", kept=()),
    "account_unlocked": Event("What limits had counted against the account was cleared.", kept=()),
    "unused_warned": Event("A command warned that nobody uses the account.", kept=()),
    "account_deleted": Event("The account was deleted, with everything about it."),
    "data_exported": Event("All data of the account were exported.", kept=()),
    "group_saved": Event("A `group` was made or renamed."),
    "group_deleted": Event("A `group` was deleted, with all its memberships."),
    "group_joined": Event("A user is in a `group` from now on.", kept=("group",)),
    "group_left": Event("A user left a `group`; a new role ends all.", kept=("group",)),
    "service_key_created": Event("A service key was made."),
    "service_key_revoked": Event("A service key was revoked."),
    "service_key_refused": Event("A call with a key was refused; `reason` is the error's code."),
}
# Admins see these in a history, and nobody else: a group can say what is nobody else's business.
OF_GROUPS = ("group_joined", "group_left")
_log = logging.getLogger("accounts.security")


class Actor(NamedTuple):
    """Who acts: the id of a user, `key:` and that of a service key, `machine`, or "" for somebody
    who is not signed in; and the client IP, whole and as limits count it.
    """

    id: str
    ip_address: str = ""
    network: str = ""


MACHINE = Actor("machine")


def log(event: str, user_id: str | None = None, **more: str | int | None) -> None:
    """Log a security event about an account; `by` is the admin or service key that caused it.

    What was done to an account is told by `services.events` instead, which logs it too. Never pass
    what a client has typed: people type passwords into the field for the e-mail address.
    Raises KeyError if EVENTS does not have the event.
    """
    if event not in EVENTS:
        raise KeyError(event)
    known = {name: value for name, value in more.items() if value not in (None, "")}
    _log.info(event, extra={"fields": {"user": user_id or "-", **known}})
