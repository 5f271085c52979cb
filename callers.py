"""Who calls, and what that caller sees: it is asked here and nowhere else."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

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
    scopes: Collection[str] = ()  # of the service key

    @property
    def is_key(self) -> bool:
        return self.id.startswith(KEY)

    @property
    def session_id(self) -> str:
        return str(self.claims["sid"])

    @property
    def accounts(self) -> Reach:
        """Whose accounts the caller may see and change."""
        return BUT_ADMINS if self.is_key else self._reach(self.user.role, STUDENTS)

    @property
    def learners(self) -> Reach:
        """Whose learning records and private profiles the caller may see."""
        return BUT_ADMINS if self.is_key else self._reach(self.user.role, EVERYBODY)

    @property
    def with_factor(self) -> Reach:
        """Whose it could see with a second factor."""
        return BUT_ADMINS if self.is_key else self._reach(self.user.granted_role, EVERYBODY)

    @property
    def recruits(self) -> Reach:
        """Whom the caller may put into groups and take out, where it may do so at all."""
        of_key = BUT_ADMINS if Scope.GROUPS_STAFF in self.scopes else STUDENTS
        return of_key if self.is_key else EVERYBODY

    @property
    def appoints(self) -> Collection[str]:
        """The roles that the caller may give and take, where it may do so at all."""
        if not self.is_key:
            return EVERYBODY.roles
        # Where instructors make links for students, who becomes one is not a key's to choose.
        trusted = settings.instructor_rights != "records"
        return STUDENTS.roles if trusted else BUT_ADMINS.roles

    @property
    def member(self) -> str | None:
        """The id of the user in whose groups the caller sees; None sees all, and external ids."""
        return None if self.is_key or self.user.role == Role.ADMIN else self.id

    def _reach(self, role: str, by_role: Reach) -> Reach:
        """Return whom the user reaches; `by_role` is for instructors who need no group for it."""
        if role != Role.INSTRUCTOR:
            return EVERYBODY if role == Role.ADMIN else NOBODY
        in_groups = settings.instructor_rights == "groups"
        return STUDENTS._replace(teacher=self.id) if in_groups else by_role
