"""Accounts, as admins, teachers and service keys manage them, each within their reach."""

import functools
from typing import Any

from flask import Blueprint

import errors
import schemas
from core import clock
from core.roles import BUT_ADMINS, NOBODY, Role
from core.scopes import Scope
from database import transaction
from models import UserRow
from services import (
    administration,
    changes,
    custom_fields,
    events,
    export,
    groups,
    history,
    login,
    passkeys,
    recovery,
    second_factor,
    users,
)
from web.api import endpoint
from web.bearer import caller
from web.limits import By, Limit
from web.responses import Reply

bp = Blueprint("admin", __name__, url_prefix="/api/users")
admin = functools.partial(endpoint, bp, role=Role.ADMIN)

NEW_ACCOUNTS = Limit(10_000, "hour", "accounts made by an admin or key", By.CALLER)
ACCESS_LINKS = Limit(
    1000, "hour", "access links made by an admin or teacher", By.CALLER, each="ids"
)


@admin(
    "GET",
    "",
    scopes=(Scope.USERS_READ,),
    for_teachers=True,
    query=schemas.AccountQuery,
    response=schemas.Accounts,
    errors=(errors.NotFound,),
)
def list_users(query: dict[str, Any]) -> dict[str, object]:
    """List accounts page by page, newest first, by `joinDate`.

    Service keys do not see those of admins, and teachers see those of students only. `groupId` is
    one of the groups that `GET /api/groups` shows to the caller.
    """
    if "group_id" in query:
        groups.require(query["group_id"], member=caller().member)
    by_number = not caller().member
    reach = NOBODY if "external_id" in query and not by_number else caller().accounts
    how: Any = {"by_number": by_number, "reach": reach, "reader": _reader()}
    found, total = administration.list_accounts(**query, **how)
    return {**query, "users": [_shown(user) for user in found], "total": total}


def _shown(user: UserRow) -> dict[str, object]:
    """Return an account as the caller may see it: teachers without its `externalId`."""
    shown = custom_fields.with_seen(user, _reader())
    if caller().member:
        shown["external_id"] = None
    return {**shown, "hindrances": login.lasting(user)}


def _reader() -> str:
    return "teachers" if caller().member else "user"


@admin(
    "GET",
    "/changes",
    scopes=(Scope.USERS_READ,),
    query=schemas.ChangesQuery,
    response=schemas.ChangeList,
    errors=(errors.CursorExpired,),
)
def list_changes(query: dict[str, Any]) -> dict[str, object]:
    """List accounts that are new, changed or deleted, oldest change first.

    Call again with the last `next` as `after` until a page has fewer changes than `limit`, and
    later go on from there. Without `after` it begins with all accounts. An account stands at its
    latest change only: of its username, e-mail address, name, role, activation, `externalId` or
    custom fields, or whether the address is confirmed. The ids of deleted accounts stay for 90
    days. Service keys do not see the accounts of admins.
    """
    return changes.since(query["after"], query["limit"], caller().accounts)


@admin(
    "GET",
    "/<uuid:user_id>/account",
    scopes=(Scope.USERS_READ,),
    for_teachers=True,
    response=schemas.AccountState,
    errors=(errors.UserNotFound,),
)
def get_account(user_id: str) -> dict[str, object]:
    """Read one account, and why its user cannot log in."""
    user = users.get_within(user_id, caller().accounts)
    state = login.state(user)
    state["groups"] = groups.of_user(user_id, member=caller().member)
    return {**_shown(user), **state, "passkeys": passkeys.count(user_id)}


@endpoint(
    bp,
    "GET",
    "/<uuid:user_id>/activity",
    role=Role.STUDENT,
    query=schemas.ActivityQuery,
    response=schemas.Activity,
    errors=(errors.UserNotFound, errors.RoleNeedsFactor),
)
def list_events(user_id: str, query: dict[str, Any]) -> dict[str, object]:
    """List what was done to an account, newest first, 200 events a page.

    For the user, and for admins, who also see which admin, teacher or service key it was, and the
    groups. Send `next` as `after` for the next page; it is null at the end.
    """
    viewer = caller().user
    if is_admin := viewer.role == Role.ADMIN:
        users.get_within(user_id)
    elif viewer.id != user_id:
        raise errors.RoleNeedsFactor if viewer.granted_role == Role.ADMIN else errors.Forbidden
    return history.page(for_admins=is_admin, user_id=user_id, **query)


@admin(
    "GET",
    "/<uuid:user_id>/export",
    writes=True,
    response=schemas.Export,
    errors=(errors.UserNotFound,),
    limits=(Limit(60, "hour", "exports of others' data", By.CALLER),),
)
def export_user(user_id: str) -> Reply:
    """Read everything that is stored about a user, as `GET /api/users/export` gives it to them."""
    data, more = export.collect(users.get_within(user_id), now=clock.utcnow())
    with transaction():
        users.lock_within(user_id, key_share=True)
        events.tell("data_exported", user_id)
    return Reply(data, headers=export.AS_FILE, more=more)


@admin(
    "POST",
    "",
    scopes=(Scope.USERS_WRITE,),
    body=schemas.NewAccount,
    response=schemas.NewAccountMade,
    status=201,
    message="The account is ready.",
    errors=errors.TAKEN,
    limits=(NEW_ACCOUNTS,),
)
def create_user(body: dict[str, Any]) -> dict[str, object]:
    """Create an account without a password for somebody else.

    With `deliver: "mail"`, its user gets an invitation by e-mail (an address gets at most three an
    hour; beyond them the response is the same). With `"link"`, the response has a
    link to hand over, once, with which the user chooses a password, and a code to be typed in its
    place. With `"none"`, there is neither. `emailVerified: true` means that you know that the
    e-mail address is the user's. There are no links for admins, and a service key can neither get a
    link nor create an admin.
    """
    if body["deliver"] == "link" and (caller().is_key or body["role"] == Role.ADMIN):
        raise errors.Forbidden
    _refuse_role(body["role"])
    with transaction():
        user, made = administration.make_account(**body)
    return {"user": _shown(user), **(_handed(made) if made else {})}


def _refuse_role(role: str) -> None:
    """Raise Forbidden if the caller may not give or take this role."""
    if role not in caller().appoints:
        raise errors.Forbidden


def _handed(made: recovery.Handout) -> dict[str, object]:
    return {**made._asdict(), "qr_code": made.qr_code}


@admin(
    "POST",
    "/<uuid:user_id>/access-link",
    for_teachers=True,
    body=schemas.AccessLinkRequest,
    response=schemas.AccessLink,
    message="The access link is ready.",
    errors=(errors.UserNotFound,),
    limits=(ACCESS_LINKS,),
)
def make_access_link(user_id: str, body: dict[str, Any]) -> dict[str, object]:
    """Give another way in to a user who has none.

    With `deliver: "mail"`, the user gets an invitation, or a reset mail if the account has a
    password; a sixth mail to one account in an hour is refused with 429. With `"link"`, the
    response has a link to hand over, and a code to be typed in its place; for an account without a
    password they replace all earlier ones. With `replacePassword: true`, the present password stops
    working at once, all sessions end, and the account is one without a password: use it when
    somebody else knows the password. For admins, use `flask users access-link`.
    """
    replace = body["replace_password"]
    with transaction():
        user = users.lock_within(user_id, caller().accounts.but_admins)
        if body["deliver"] == "mail":
            recovery.send_way_in(user, replace_password=replace)
            return {}
        made = recovery.make_link(user, replace_password=replace, now=clock.utcnow())
    return _handed(made)


@admin(
    "PATCH",
    "/<uuid:user_id>",
    scopes=(Scope.USERS_WRITE,),
    body=schemas.AccountChanges,
    response=schemas.Account,
    message="The account is changed.",
    errors=(errors.UserNotFound, *errors.TAKEN, errors.LastAdmin, errors.TooManyRequests),
)
def alter_user(user_id: str, body: dict[str, Any]) -> dict[str, object]:
    """Change an account: role, activation, names, language, time zone, e-mail address.

    A new role or a deactivation ends all sessions of the account and, for good, all links to choose
    a password; a new role ends its memberships too. A new `email` (not for admins; from service
    keys only for students who have neither a password nor a provider and never logged in) holds at
    once, ends all sessions and is not verified. `emailVerified: true` means that you know that the
    address is the user's; it cannot be taken back. The user is told of a new username, and at a
    verified address that another one replaces. A service key can neither change an admin nor give
    that role.
    """
    email_if = administration.UNTOUCHED if caller().is_key else ()
    _refuse_role(body.get("role", Role.STUDENT))
    with transaction():
        reach = caller().accounts
        before, after = administration.alter(user_id, **body, email_if=email_if, reach=reach)
        if after.role != before.role:
            _refuse_role(before.role)
    return _shown(after)


@admin(
    "PATCH",
    "",
    scopes=(Scope.USERS_WRITE,),
    body=schemas.Activation,
    of_many=True,
    response=schemas.AccountsChanged,
    message="The accounts are changed.",
)
def activate_users(body: dict[str, Any]) -> dict[str, object]:
    """Activate or deactivate up to 1,000 accounts, as `alterUser` does one.

    The whole call takes effect, or nothing of it. Of the last admins, one is refused.
    """
    with transaction():
        ids, is_active = body["ids"], body["is_active"]
        return administration.activate(ids, is_active=is_active, reach=caller().accounts)


@admin(
    "POST",
    "/removals",
    body=schemas.AccountIds,
    of_many=True,
    response=schemas.AccountsRemoved,
    message="The unused accounts are deleted.",
)
def remove_unused_users(body: dict[str, Any]) -> dict[str, object]:
    """Delete those of up to 1,000 accounts that nobody has used, as `deleteUser` does one.

    So a wrong list is taken back. Who has signed in, has learning records or is an admin is refused
    as `account_used`.
    """
    with transaction():
        return administration.remove_unused(body["ids"])


@admin(
    "POST",
    "/access-links",
    for_teachers=True,
    body=schemas.AccessLinksRequest,
    of_many=True,
    response=schemas.AccessLinks,
    message="The access links are ready.",
    limits=(ACCESS_LINKS,),
)
def make_access_links(body: dict[str, Any]) -> dict[str, object]:
    """Make links and codes to hand over for up to 100 users, as `makeAccessLink` does for one.

    Each of them counts towards its limit.
    """
    ids, replace = body["ids"], body["replace_password"]
    with transaction():
        reach, now = caller().accounts.but_admins, clock.utcnow()
        made, refused = recovery.make_links(ids, reach, replace_password=replace, now=now)
    links = [{"user_id": user_id, **_handed(each)} for user_id, each in made.items()]
    return {"links": links, "refused": refused}


@admin(
    "DELETE",
    "/<uuid:user_id>/failed-logins",
    message="Nothing is counted against the account any more.",
    errors=(errors.UserNotFound,),
)
def unlock_user(user_id: str) -> None:
    """Clear what limits have counted against an account, so that its user can log in again.

    The wrong codes of a second factor too, but not those of an admin.
    """
    with transaction():
        second_factor.unlock(user_id, BUT_ADMINS)


@admin(
    "DELETE",
    "/<uuid:user_id>/second-factor",
    message="The account has no second factor any more.",
    errors=(errors.UserNotFound, errors.NotFound),
)
def reset_second_factor(user_id: str) -> None:
    """Remove the second factor and all passkeys of a user who has lost them; not for admins.

    All sessions of the account end, and a notice is sent by e-mail. Make sure first who asks: with
    the password, anybody can log in then.
    """
    with transaction():
        second_factor.reset(user_id, BUT_ADMINS)


@admin(
    "DELETE",
    "/<uuid:user_id>",
    scopes=(Scope.USERS_WRITE,),
    message="The account is deleted.",
    errors=(errors.UserNotFound, errors.LastAdmin),
)
def delete_user(user_id: str) -> None:
    """Delete an account with everything stored about it, and notify its e-mail address.

    A service key cannot delete an admin.
    """
    with transaction():
        administration.delete(user_id, reach=caller().accounts)
