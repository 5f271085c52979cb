"""The roles of accounts. Each role may do everything that the roles before it may do."""

from enum import StrEnum
from typing import NamedTuple


class Role(StrEnum):
    STUDENT = "student"
    INSTRUCTOR = "instructor"
    ADMIN = "admin"

    def includes(self, least: "Role") -> bool:
        """Whether this role may do what requires at least the given role."""
        order = list(Role)
        return order.index(self) >= order.index(least)


class Reach(NamedTuple):
    """Whose accounts a caller may reach; `services.users` asks the database."""

    roles: frozenset[Role]
    # The id of the user in one of whose groups the others have to be.
    teacher: str | None = None

    @property
    def but_admins(self) -> "Reach":
        return self._replace(roles=self.roles - {Role.ADMIN})


# The reach of an admin, a service key, a teacher, a student.
EVERYBODY = Reach(frozenset(Role))
BUT_ADMINS = Reach(EVERYBODY.roles - {Role.ADMIN})
STUDENTS = Reach(frozenset({Role.STUDENT}))
NOBODY = Reach(frozenset())
