"""What happened to all accounts, for admins."""

from typing import Any

from flask import Blueprint

from core.roles import Role
from schemas import EveryEvent, EveryEventQuery
from services import history
from web.api import endpoint

bp = Blueprint("activity", __name__, url_prefix="/api/activity")


@endpoint(bp, "GET", "", role=Role.ADMIN, query=EveryEventQuery, response=EveryEvent)
def list_activity(query: dict[str, Any]) -> dict[str, object]:
    """List what was done to any account, newest first, 200 events a page.

    `by` is who did it to somebody else. Send `next` as `after` for the next page; it is null at the
    end.
    """
    return history.page(for_admins=True, **query)
