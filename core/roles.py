"""The roles of accounts. Each role may do everything that the roles before it may do."""

from enum import StrEnum


class Role(StrEnum):
    STUDENT = "student"
    INSTRUCTOR = "instructor"
    ADMIN = "admin"

    def includes(self, least: "Role") -> bool:
        """Whether this role may do what requires at least the given role."""
        order = list(Role)
        return order.index(self) >= order.index(least)


# Whose accounts a caller may reach: an admin, a service key, a teacher.
EVERYBODY = frozenset(Role)
BUT_ADMINS = EVERYBODY - {Role.ADMIN}
STUDENTS = frozenset({Role.STUDENT})
