"""The roles of accounts, the least first; each may do all that the ones before it may."""

from enum import StrEnum


class Role(StrEnum):
    """What an account is to the platform; the value is what the database and clients see."""

    STUDENT = "student"
    INSTRUCTOR = "instructor"
    ADMIN = "admin"

    def includes(self, least: "Role") -> bool:
        """Whether this role may do what asks for that one at least."""
        order = list(Role)
        return order.index(self) >= order.index(least)
