"""Management of accounts, by admins and by service keys; keys cannot reach those of admins."""

from typing import Any

from flask import Blueprint

import errors
import schemas
from core import audit
from core.roles import Role
from core.scopes import Scope
from database import transaction
from models import UserRow
from services import administration
from web import bearer
from web.api import endpoint

bp = Blueprint("admin", __name__)


@endpoint(
    bp,
    "GET",
    "",
    role=Role.ADMIN,
    scope=Scope.USERS_READ,
    query=schemas.AccountQuery,
    response=schemas.Accounts,
)
def list_users(query: dict[str, Any]) -> dict[str, object]:
    """List accounts page by page, newest first. Service keys do not see accounts of admins."""
    users, total = administration.list_accounts(**query, except_admins=bearer.is_key())
    return {**query, "users": users, "total": total}


@endpoint(
    bp,
    "PATCH",
    "/<user:user_id>",
    role=Role.ADMIN,
    scope=Scope.USERS_WRITE,
    body=schemas.AccountChanges,
    response=schemas.Account,
    message="The account is changed.",
    errors=(errors.UserNotFound, errors.LastAdmin),
)
def alter_user(user_id: str, body: dict[str, Any]) -> UserRow:
    """Change the role of an account or whether it is active.

    A new role or a deactivation ends all sessions of the account. A service key can neither
    change an admin nor give that role.
    """
    with transaction():
        before, after = administration.alter(user_id, **body, except_admins=bearer.is_key())
    administration.log_changes(before, after, by=bearer.caller_id())
    return after


@endpoint(
    bp,
    "DELETE",
    "/<user:user_id>",
    role=Role.ADMIN,
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
