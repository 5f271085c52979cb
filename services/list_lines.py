"""The lines of a list of people: their texts are checked here, and those of one person joined."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from marshmallow import ValidationError

import errors
import schemas
from core.people_columns import is_class
from core.reasons import Reason
from core.roles import Reach, Role

_FORM = schemas.PersonInList()
_IS_CLASS = Reason("invalid", "This is a class and no name.")
_TWICE = Reason("taken", "Another line means the same person.")
# What lists call the roles that they may give, besides our own words.
_ROLES = {"teacher": Role.INSTRUCTOR.value, "pupil": Role.STUDENT.value}


class Options(NamedTuple):
    """What is to be done with a list, and what its caller may do."""

    reach: Reach
    recruits: Reach
    gives: Collection[str]  # the roles of new accounts
    readdresses: Collection[str]  # the roles of accounts that get another address
    role: str
    groups: str
    deliver: str
    missing: str
    all: bool
    language: str | None = None
    group_id: str | None = None


@dataclass
class Line:
    """A person of a list, and what becomes of them."""

    line: int
    person: dict[str, Any]  # what the line says, by the columns of `users`
    named: list[tuple[str, str]] = field(default_factory=list)  # groups: by what, and their names
    status: str = ""
    user: Any = None  # the row of the account, if there is one
    username: str = ""
    email: str = ""
    groups: list[str] = field(default_factory=list)  # their ids
    changes: list[str] = field(default_factory=list)
    differs: list[str] = field(default_factory=list)
    code: str | None = None
    reasons: Mapping[str, object] | None = None
    holder_id: str | None = None

    @property
    def is_refused(self) -> bool:
        return self.status == "refused"

    @property
    def user_id(self) -> str | None:
        return self.user and str(self.user.id)

    @property
    def first_name(self) -> str:
        return str(self.person.get("first_name") or getattr(self.user, "first_name", ""))

    @property
    def last_name(self) -> str:
        return str(self.person.get("last_name") or getattr(self.user, "last_name", ""))

    def role(self, options: Options) -> str:
        return str(self.user.role if self.user else self.person.get("role", options.role))

    def refuse(self, error: errors.ApiError | type[errors.ApiError]) -> None:
        self.status, self.code = "refused", error.code
        self.reasons = error.reasons if isinstance(error, errors.ApiError) else None

    def refuse_field(self, name: str, reason: Reason) -> None:
        self.refuse(errors.InvalidRequest(fields={name: [reason]}))


def read(found: Iterable[tuple[int, Mapping[str, Any]]]) -> list[Line]:
    """Return a line for each person, in the order of the list."""
    return _joined([_read(number, cells) for number, cells in found])


def _read(number: int, cells: Mapping[str, Any]) -> Line:
    given = {name: cell for name, cell in cells.items() if cell not in ("", None)}
    if isinstance(role := given.get("role"), str):
        given["role"] = _ROLES.get(role.lower(), role.lower())
    try:
        person = _FORM.load(given)
    except ValidationError as error:
        names = {"first_name": given.get("firstName", ""), "last_name": given.get("lastName", "")}
        line = Line(number, names)
        line.refuse(errors.InvalidRequest(fields=error.messages_dict))
        return line
    group = person.pop("group_id", ""), person.pop("group", "")
    line = Line(number, person, [group] if any(group) else [])
    if is_class(line.last_name):
        line.refuse_field("lastName", _IS_CLASS)
    return line


def _joined(lines: Sequence[Line]) -> list[Line]:
    """Return the lines without those that say only in which other groups somebody is."""
    first: dict[tuple[str, str], Line] = {}
    found = []
    for line in lines:
        name = next((n for n in ("external_id", "email", "username") if n in line.person), "")
        text = line.person[name] if name else ""
        key = name, text.lower() if name == "username" else text
        same = first.setdefault(key, line) if name and not line.is_refused else line
        if same is line or same.person != line.person:
            found.append(line)
            if same is not line:
                refuse_twice(same, line)
        else:
            same.named += [each for each in line.named if each not in same.named]
    return found


def refuse_twice(*lines: Line) -> None:
    """Refuse lines that mean the same person."""
    for line in lines:
        line.refuse_field("line", _TWICE)
