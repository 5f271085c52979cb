"""Who calls, and what that caller sees: it is asked here and nowhere else."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from core.roles import BUT_ADMINS, EVERYBODY, NOBODY, STUDENTS, Reach, Role
from core.scopes import KEY, Scope
from extensions import settings
from models import UserRow


@dataclass(frozen=True)
class Caller:
    """A user with a session, or a service key; the guard makes it once for each request."""

    id: str  # the user's, or `key:` and the key's
    user: UserRow  # as the guard read it; there is none of a service key
    claims: Mapping[str, Any]  # of the access token
    # Whose accounts the caller may see and change, and whose learning records and private profiles.
    accounts: Reach
    learners: Reach
    # Whose records it could see with a second factor.
    with_factor: Reach
    # Whom it may put into groups and take out, where it may do so at all.
    recruits: Reach
    # The id of the user in whose groups the caller sees; None sees all groups, and external ids.
    member: str | None

    @property
    def is_key(self) -> bool:
        return self.id.startswith(KEY)

    @property
    def session_id(self) -> str:
        return str(self.claims["sid"])


def of_key(row: Any) -> Caller:
    nobody, reach = cast("UserRow", None), BUT_ADMINS
    recruits = reach if Scope.GROUPS_STAFF in row.scopes.split() else STUDENTS
    return Caller(f"{KEY}{row.id}", nobody, {}, reach, reach, reach, recruits, None)


def of_user(row: UserRow, claims: Mapping[str, Any]) -> Caller:
    member = None if row.role == Role.ADMIN else row.id
    accounts, learners = _reach(row.id, row.role, STUDENTS), _reach(row.id, row.role, EVERYBODY)
    with_factor = _reach(row.id, row.granted_role, EVERYBODY)
    return Caller(row.id, row, claims, accounts, learners, with_factor, EVERYBODY, member)


def _reach(user_id: str, role: str, by_role: Reach) -> Reach:
    """Return whom a user reaches; `by_role` is for instructors who need no group for it."""
    if role != Role.INSTRUCTOR:
        return EVERYBODY if role == Role.ADMIN else NOBODY
    in_groups = settings.instructor_rights == "groups"
    return STUDENTS._replace(teacher=user_id) if in_groups else by_role
