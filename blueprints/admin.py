"""Management of accounts by admins."""

from typing import Any

from flask import Blueprint

import errors
import schemas
from core import audit
from core.roles import Role
from database import transaction
from models import UserRow
from services import accounts, administration
from web import bearer
from web.api import endpoint

bp = Blueprint("admin", __name__)


@endpoint(bp, "GET", "", role=Role.ADMIN, query=schemas.AccountQuery, response=schemas.Accounts)
def list_users(query: dict[str, Any]) -> dict[str, object]:
    """List accounts page by page, newest first."""
    users, total = administration.list_accounts(**query)
    return {**query, "users": users, "total": total}


@endpoint(
    bp,
    "PATCH",
    "/<user:user_id>",
    role=Role.ADMIN,
    body=schemas.AccountChanges,
    response=schemas.Account,
    message="The account is changed.",
    errors=(errors.UserNotFound, errors.LastAdmin),
)
def alter_user(user_id: str, body: dict[str, Any]) -> UserRow:
    """Change the role of an account or whether it is active.

    A new role or a deactivation ends all sessions of the account.
    """
    with transaction():
        before, after = administration.alter(user_id, **body)
    administration.log_changes(before, after, by=bearer.user().id)
    return after


@endpoint(
    bp,
    "DELETE",
    "/<user:user_id>",
    role=Role.ADMIN,
    message="The account is deleted.",
    errors=(errors.UserNotFound, errors.LastAdmin),
)
def delete_user(user_id: str) -> None:
    """Delete an account with everything stored about it, and notify its e-mail address."""
    with transaction():
        if not accounts.delete(user_id):
            raise errors.UserNotFound
    audit.log("account_deleted", user_id, by=bearer.user().id)
