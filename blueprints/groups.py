"""Groups: who is in them decides which teacher reaches which student (INSTRUCTOR_RIGHTS)."""

import functools
from datetime import date

from flask import Blueprint

import schemas
from core import clock
from core.roles import Role
from core.scopes import Scope
from database import transaction
from errors import NotFound, UserNotFound
from services import groups
from web.api import endpoint
from web.bearer import caller
from web.responses import Reply

bp = Blueprint("groups", __name__, url_prefix="/api/groups")
admin = functools.partial(endpoint, bp, role=Role.ADMIN)
_MEMBER = "/<uuid:group_id>/members/<uuid:user_id>"


@endpoint(bp, "GET", "", role=Role.STUDENT, scopes=(Scope.USERS_READ,), response=schemas.GroupList)
def list_groups() -> dict[str, object]:
    """List groups by name: all for admins and service keys, for others those that they are in.

    `members` counts deactivated accounts too.
    """
    return {"groups": groups.list_groups(member=caller().member)}


@admin(
    "PUT",
    "/<uuid:group_id>",
    scopes=(Scope.GROUPS_WRITE,),
    body=schemas.GroupChanges,
    response=schemas.Group,
    creates=True,
    message="The group is saved.",
    errors=(NotFound,),
)
def save_group(group_id: str, body: dict[str, str]) -> Reply:
    """Make or rename the group with this id, a UUID that you choose. Names need not be unique."""
    with transaction():
        group, is_new = groups.save(group_id, **body)
    return Reply(group, 201 if is_new else 200)


@admin("DELETE", "/<uuid:group_id>", message="The group is removed.", errors=(NotFound,))
def delete_group(group_id: str) -> None:
    """Remove a group. The accounts in it stay."""
    with transaction():
        groups.remove(group_id)


@admin(
    "PUT",
    _MEMBER,
    scopes=(Scope.GROUPS_WRITE,),
    response=schemas.MembershipChange,
    message="The user is in the group.",
    errors=(NotFound, UserNotFound),
)
def add_member(group_id: str, user_id: str) -> dict[str, bool]:
    """Put a user into a group; service keys put in students, with `groups:staff` instructors too.

    Where `INSTRUCTOR_RIGHTS` is `groups`, instructors in it reach its students. A new role ends
    all memberships of an account.
    """
    with transaction():
        return {"changed": groups.join(group_id, user_id, caller().recruits)}


@admin(
    "DELETE",
    _MEMBER,
    scopes=(Scope.GROUPS_WRITE,),
    response=schemas.MembershipChange,
    message="The user is not in the group.",
    errors=(UserNotFound,),
)
def remove_member(group_id: str, user_id: str) -> dict[str, bool]:
    """Take a user out of a group; service keys those whom they may put in."""
    with transaction():
        return {"changed": groups.leave(group_id, user_id, caller().recruits)}


@admin(
    "POST",
    "/<uuid:group_id>/members",
    scopes=(Scope.GROUPS_WRITE,),
    body=schemas.MemberChanges,
    of_many=True,
    response=schemas.MembersChanged,
    message="The group is changed.",
    errors=(NotFound,),
)
def change_members(group_id: str, body: dict[str, list[str]]) -> dict[str, object]:
    """Put up to 1,000 users into a group, or take them out, as the calls for one do.

    The whole call takes effect, or nothing of it. Swap `added` and `removed` to take it back.
    """
    with transaction():
        return groups.change_members(group_id, **body, reach=caller().recruits)


@endpoint(
    bp,
    "GET",
    "/<uuid:group_id>/days",
    role=Role.INSTRUCTOR,
    scopes=(Scope.LEARNING_READ,),
    query=schemas.GroupDaysQuery,
    response=schemas.GroupDays,
    errors=(NotFound,),
)
def list_group_days(group_id: str, query: dict[str, date]) -> dict[str, object]:
    """List the days on which the active students of a group completed lessons, by date.

    Each day is one of the student's own time zone. At most 31 days, by default the 8 to today in
    UTC; with only one of `from` and `to` the 8 from or to it. Instructors read the groups that they
    are in. A group with more than 1,000 active students is refused.
    """
    groups.require(group_id, member=caller().member)
    return groups.list_days(group_id, query, now=clock.utcnow())
