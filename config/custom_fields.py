"""The fields of accounts that an installation adds: what CUSTOM_FIELDS and FIELD_… say."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import orjson

from config import types
from config.tables import read, setting

# A number in a field, either side of 0: exact in every language.
LARGEST = 10**15 - 1
# Who sees a field: each sees what those before see.
READERS = ("user", "teachers", "everybody")
# Characters of all texts together, and bytes of JSON in an access token.
MOST_TEXT, MOST_IN_TOKEN = 2000, 500


@dataclass(frozen=True, kw_only=True, repr=False)
class CustomField:
    """The settings of one field: `FIELD_BIRTH_YEAR_TYPE` is the `type` of `birthYear`."""

    name: str
    type: str = setting(types.one_of("text", "number", "boolean", "date", "choice"), "text")
    """What the field `grade` of `CUSTOM_FIELDS` holds; a number is whole, a date a day."""
    length: int = setting(types.whole(1, 200), 100)
    """Longest text, in characters; those of all fields together are 2,000 at most."""
    choices: tuple[str, ...] = setting(types.choices, ())
    """The values of a choice, comma separated: at most 50 of 64 characters."""
    written_by: str = setting(types.one_of("office", "user"), "office")
    """`office`: admins, service keys with `users:write`, imports. `user`: and the user."""
    seen_by: str = setting(types.one_of(*READERS), "user")
    """`user`: the office and the user. `teachers`: and instructors whose reach it is. `everybody`:
    who sees the profile.
    """
    label: str = setting(types.name, "")
    """What pages call it. Unset: its name."""
    at_sign_up: str = setting(types.one_of("no", "yes", "required"), "no")
    """Whether the form for registration has it; only with `WRITTEN_BY=user`. `required`: nobody
    registers without an answer.
    """
    in_token: bool = setting(types.switch, False)
    """1: access tokens carry it; only with `WRITTEN_BY=office`, and 500 bytes of JSON at most."""

    @property
    def title(self) -> str:
        return self.label or self.name

    @property
    def required(self) -> bool:
        """Whether nobody registers without it."""
        return self.at_sign_up == "required"

    @property
    def longest(self) -> object:
        """A value that takes as many bytes of JSON as any."""
        values = {"text": "\U0001f600" * self.length, "date": "2026-11-20", "boolean": False}
        if self.type == "choice":
            return max(self.choices, key=lambda each: len(orjson.dumps(each)), default="")
        return values.get(self.type, -LARGEST)


def prefix_of(name: str) -> str:
    """Return how the variables of a field begin."""
    return "FIELD_" + re.sub("([A-Z])", r"_\1", name).upper() + "_"


def read_all(
    names: Iterable[str], given: Mapping[str, str], problems: list[str]
) -> tuple[CustomField, ...]:
    """Return the fields with these names; add what is wrong to the problems."""
    found = tuple(
        CustomField(name=name, **read(CustomField, prefix_of(name), given, problems))
        for name in names
    )
    problems += [
        f"{prefix_of(each.name)}{text}." for each in found for text in _contradictions(each)
    ]
    if sum(each.length for each in found if each.type == "text") > MOST_TEXT:
        problems.append(f"CUSTOM_FIELDS has texts of more than {MOST_TEXT} characters together.")
    size = len(orjson.dumps({each.name: each.longest for each in found if each.in_token}))
    if size > MOST_IN_TOKEN:
        problems.append(
            f"CUSTOM_FIELDS can put {size} bytes into access tokens; {MOST_IN_TOKEN} are the most."
        )
    return found


def _contradictions(field: CustomField) -> list[str]:
    is_users = field.written_by == "user"
    rules = {
        "CHOICES is missing; a choice needs them": field.type == "choice" and not field.choices,
        "CHOICES needs TYPE=choice": field.type != "choice" and bool(field.choices),
        # An application would take for a right what a user has written.
        "IN_TOKEN needs WRITTEN_BY=office": field.in_token and is_users,
        "AT_SIGN_UP needs WRITTEN_BY=user": field.at_sign_up != "no" and not is_users,
    }
    return [text for text, is_broken in rules.items() if is_broken]
