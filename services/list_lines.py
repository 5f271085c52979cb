"""The lines of a list of people: their texts are checked here, and those of one person joined."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, cast

from marshmallow import ValidationError

import errors
import schemas
from core.people_columns import is_class
from core.reasons import Word
from core.roles import Reach, Role
from services import custom_fields

# What says who somebody is, besides the names.
MARKS = ("external_id", "email", "username")
# How spreadsheets write a long number that they have rounded.
_ROUNDED = re.compile(r"\d[.,]?\d*E\+\d+", re.IGNORECASE)
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
    stays: bool = False  # in the other groups, whatever the options say
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

    @cached_property
    def marks(self) -> list[tuple[str, str]]:
        """What says who this is, besides the names."""
        person = {**self.person, "username": self.person.get("username", "").lower()}
        return [(name, person[name]) for name in MARKS if person.get(name)]

    def told(self) -> tuple[object, ...]:
        """Return what the response says, in the order of its fields."""
        who = self.user_id, self.first_name, self.last_name, self.username, self.email
        what = self.groups, self.changes, self.differs
        return self.line, self.status, *who, *what, self.code, self.reasons, self.holder_id

    def role(self, options: Options) -> str:
        return str(self.user.role if self.user else self.person.get("role", options.role))

    def refuse(self, error: type[errors.ApiError] | errors.ApiError) -> None:
        self.status, self.code = "refused", error.code
        self.reasons = error.reasons if isinstance(error, errors.ApiError) else None

    def refuse_fields(self, word: Word, *names: str) -> None:
        self.refuse(errors.InvalidRequest)
        self.reasons = {name: [word] for name in names}


def read(found: Iterable[tuple[int, Mapping[str, Any]]]) -> list[Line]:
    """Return a line for each person, in the order of the list."""
    return _joined([_read(number, cells) for number, cells in found])


def _read(number: int, cells: Mapping[str, Any]) -> Line:
    given = {name: cell for name, cell in cells.items() if cell not in ("", None)}
    if isinstance(role := given.get("role"), str):
        given["role"] = _ROLES.get(role.lower(), role.lower())
    try:
        person = _form(frozenset(given)).load(given)
    except ValidationError as error:
        # The rest still says who is meant.
        line = Line(number, _filled(cast("dict[str, Any]", error.valid_data)))
        line.refuse(errors.InvalidRequest(fields=error.messages_dict))
        return line
    said = person.pop("custom_fields", {})
    group = person.pop("group_id", ""), person.pop("group", "")
    line = Line(number, _filled(person), [group] if any(group) else [])
    if is_class(line.last_name):
        line.refuse_fields("invalid", "lastName")
    if _ROUNDED.fullmatch(line.person.get("external_id", "")):
        line.refuse_fields("invalid", "externalId")
    try:
        said = _filled(custom_fields.accepted(said))
        line.person |= {"custom_fields": said} if said else {}
    except errors.InvalidRequest as error:
        line.refuse(error)
    return line


@lru_cache(100)
def _form(names: frozenset[str]) -> schemas.PersonInList:
    """Return the shape of lines with these cells: fields without one take as long as the others."""
    form = schemas.PersonInList()
    return schemas.PersonInList(
        only=[n for n, each in form.fields.items() if each.data_key in names]
    )


def _filled(person: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in person.items() if value not in ("", None)}


def _joined(lines: Sequence[Line]) -> list[Line]:
    """Return the lines without those that say only in which other groups somebody is."""
    first: dict[tuple[str, str], Line] = {}
    unclear = {mark for line in lines if line.is_refused for mark in line.marks}
    found = []
    for line in lines:
        line.stays = not unclear.isdisjoint(line.marks)
        key = next(iter(line.marks), None)
        same = first.setdefault(key, line) if key and not line.is_refused else line
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
        line.refuse_fields("taken", "line")
