"""Management of accounts, by admins and by service keys; keys cannot reach those of admins."""

import functools
from contextlib import nullcontext
from typing import Any

from flask import Blueprint

import errors
import schemas
from core import audit, clock, passwords
from core.roles import Role
from core.scopes import Scope
from database import transaction
from models import User, UserRow
from services import accounts, administration, outbox, recovery, users
from services.letters import MailKind
from web import bearer, limits
from web.api import endpoint
from web.limits import RESET_MAILS, SUCCESSES, By, Limit, allowance, mails_to_one

bp = Blueprint("admin", __name__)
admin = functools.partial(endpoint, bp, role=Role.ADMIN)

INVITATIONS = mails_to_one("invitations")
NEW_ACCOUNTS = Limit(1000, "hour", "accounts made by an admin or key", By.CALLER, SUCCESSES)
ACCESS_LINKS = Limit(200, "hour", "access links made by an admin", By.CALLER, SUCCESSES)


@admin("GET", "", scope=Scope.USERS_READ, query=schemas.AccountQuery, response=schemas.Accounts)
def list_users(query: dict[str, Any]) -> dict[str, object]:
    """List accounts page by page, newest first. Service keys do not see accounts of admins."""
    found, total = administration.list_accounts(**query, except_admins=bearer.is_key())
    return {**query, "users": found, "total": total}


@admin(
    "POST",
    "",
    scope=Scope.USERS_WRITE,
    body=schemas.NewAccount,
    response=schemas.NewAccountMade,
    status=201,
    message="The account is ready.",
    errors=(errors.UsernameTaken, errors.EmailTaken),
    limits=(NEW_ACCOUNTS, INVITATIONS),
)
def create_user(body: dict[str, Any]) -> dict[str, object]:
    """Create an account without a password for somebody else.

    With `deliver: "mail"`, its user gets an invitation by e-mail. With `"link"`, the response has a
    link to hand over, once, with which the user chooses a password. `emailVerified: true` means
    that you know that the e-mail address is the user's. There are no links for admins, and a
    service key can neither get a link nor create an admin.
    """
    by_mail, verified = body.pop("deliver") == "mail", body.pop("email_verified")
    is_key, is_admin = bearer.is_key(), body["role"] == Role.ADMIN
    if (is_key and is_admin) or ((is_key or is_admin) and not by_mail):
        raise errors.Forbidden
    now = clock.utcnow()
    counted = allowance(INVITATIONS, body["email"]) if by_mail else nullcontext(False)
    with counted as invite, transaction():
        mail = MailKind.INVITATION if invite else None
        user = accounts.add(**body, email_verified_at=now if verified else None, mail=mail)
    audit.log("account_created", user.id, by=bearer.caller_id())
    if by_mail:
        return {"user": user}
    limits.unlock(user.email)
    return {"user": user, **recovery.access_link(user, now=now)._asdict()}


@admin(
    "POST",
    "/<uuid:user_id>/access-link",
    body=schemas.AccessLinkRequest,
    response=schemas.AccessLink,
    message="The access link is ready.",
    errors=(errors.UserNotFound,),
    limits=(ACCESS_LINKS, INVITATIONS, RESET_MAILS),
)
def make_access_link(user_id: str, body: dict[str, Any]) -> dict[str, object]:
    """Give another way in to a user who has none.

    With `deliver: "mail"`, the user gets an invitation, or a reset mail if the account has a
    password. With `"link"`, the response has a link to hand over; for an account without a password
    it replaces all earlier links. With `replacePassword: true`, the present password stops working
    at once, all sessions end, and the account is one without a password: use it when somebody else
    knows the password. For admins, use `flask users access-link`.
    """
    user = users.get_active(user_id, except_admins=True)
    link, replace = None, body["replace_password"]
    if body["deliver"] == "mail":
        kind, limit = MailKind.INVITATION, INVITATIONS
        if passwords.is_usable(user.password_hash) and not replace:
            kind, limit = MailKind.PASSWORD_RESET, RESET_MAILS
        with allowance(limit, user.email) as allowed, transaction():
            if replace:
                users.require(users.lock(user_id, User.is_active), except_admins=True)
                accounts.remove_password(user_id)
            if allowed:
                outbox.queue(kind, user.email)
    else:
        with transaction():
            link = recovery.make_link(
                user_id, except_admins=True, replace_password=replace, now=clock.utcnow()
            )
        limits.unlock(user.email)
    if replace:
        audit.log("password_removed", user_id, by=bearer.caller_id())
    audit.log("access_link_made", user_id, by=bearer.caller_id(), deliver=body["deliver"])
    return link._asdict() if link else {}


@admin(
    "PATCH",
    "/<uuid:user_id>",
    scope=Scope.USERS_WRITE,
    body=schemas.AccountChanges,
    response=schemas.Account,
    message="The account is changed.",
    errors=(errors.UserNotFound, errors.LastAdmin),
)
def alter_user(user_id: str, body: dict[str, Any]) -> UserRow:
    """Change the role of an account or whether it is active, or vouch for its e-mail address.

    A new role or a deactivation ends all sessions of the account and, for good, all links to choose
    a password. `emailVerified: true` means that you know that the e-mail address is the user's; it
    cannot be taken back. A service key can neither change an admin nor give that role.
    """
    with transaction():
        before, after = administration.alter(user_id, **body, except_admins=bearer.is_key())
    administration.log_changes(before, after, by=bearer.caller_id())
    return after


@admin(
    "DELETE",
    "/<uuid:user_id>/failed-logins",
    message="Nothing is counted against the account any more.",
    errors=(errors.UserNotFound,),
)
def unlock_user(user_id: str) -> None:
    """Clear what limits have counted against an account, so that its user can log in again."""
    limits.unlock(users.find(user_id).email)
    audit.log("account_unlocked", user_id, by=bearer.caller_id())


@admin(
    "DELETE",
    "/<uuid:user_id>",
    scope=Scope.USERS_WRITE,
    message="The account is deleted.",
    errors=(errors.UserNotFound, errors.LastAdmin),
)
def delete_user(user_id: str) -> None:
    """Delete an account with everything stored about it, and notify its e-mail address.

    A service key cannot delete an admin.
    """
    with transaction():
        administration.delete(user_id, except_admins=bearer.is_key())
    audit.log("account_deleted", user_id, by=bearer.caller_id())
