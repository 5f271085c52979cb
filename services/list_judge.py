"""Whom the lines of a list mean: accounts, or new people, whose names are made up where they need
it.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy.orm import InstrumentedAttribute

import errors
from core.addresses import NO_MAILBOX, fold, login_name, suggested
from core.reasons import REQUIRED, Reason
from core.roles import Role
from extensions import settings
from models import User, UserRow
from services import users
from services.list_lines import Line, Options, refuse_twice

_OTHER_ROLE = Reason("invalid", "The account has another role.")
_NAMES = {"first_name": "firstName", "last_name": "lastName"}
# What says who somebody is, besides the names.
_MARKS = {"external_id", "email", "username"}
# How many values one statement compares: SQLite takes 32,766.
_AT_ONCE = 10_000


def is_untouched(user: UserRow) -> bool:
    """Return whether nobody ever chose a password for an account or signed in to it."""
    return not (user.last_login_at or users.has_way_in(user))


def may_readdress(user: UserRow, options: Options) -> bool:
    """Return whether a list may change the address of an account."""
    return user.role in options.readdresses and is_untouched(user)


def _may_be(user: UserRow, number: str | None) -> bool:
    """Return whether an account does not have another number than a line."""
    return not number or user.external_id in (None, number)


def _address_of(username: str) -> str:
    # Dots at the end or side by side are for usernames only.
    local = re.sub(r"\.(?=\.|$)", "_", username.lower())
    return f"{local}@no-mail{NO_MAILBOX}"


class Judge:
    """Finds the account of each line of a list, or a name for a new one; or refuses the line."""

    def __init__(self, lines: Sequence[Line], options: Options, connection: Connection) -> None:
        self._options, self._connection = options, connection
        self._lines = [line for line in lines if not line.is_refused]
        people = [line.person for line in self._lines]
        numbers = (person.get("external_id") for person in people)
        usernames = (person.get("username", "").lower() for person in people)
        self._by_number = self._look_up(User.external_id, numbers)
        self._by_email = self._look_up(User.email, (person.get("email") for person in people))
        self._by_username = self._look_up(User.username_key, usernames)
        self._claimed: set[str] = set()  # usernames of new people

    def _look_up(
        self, column: InstrumentedAttribute[Any], values: Iterable[str | None]
    ) -> dict[str, UserRow]:
        """Return the accounts that have one of these values, by it."""
        wanted = [*{*values} - {None, ""}]
        found: dict[str, Any] = {}
        query = select(User.id, User.role, *users.COMPARED)
        for start in range(0, len(wanted), _AT_ONCE):
            these = query.where(column.in_(wanted[start : start + _AT_ONCE]))
            found |= {getattr(row, column.key): row for row in self._connection.execute(these)}
        return found

    def _refuse(
        self, line: Line, error: type[errors.ApiError], holder: UserRow | None = None
    ) -> None:
        line.refuse(error)
        if holder and holder.role in self._options.reach.roles:
            line.holder_id = holder.id

    def judge(self, columns: Collection[str]) -> None:
        """Say of each line whom it means. `columns` are those of the list."""
        meant: dict[str, Line] = {}
        for line in self._lines:
            if user := self._find(line):
                self._recognise(line, user, meant)
        self._share_addresses()
        self._name(
            [line for line in self._lines if not line.user], {*_NAMES.values()} <= {*columns}
        )

    def _find(self, line: Line) -> UserRow | None:
        number, email = line.person.get("external_id"), line.person.get("email")
        if number in self._by_number:
            return self._by_number[number]
        holder = self._by_email.get(email or "")
        # An address that nobody has proved may be that of a stranger's account.
        is_theirs = holder and (holder.email_verified_at or is_untouched(holder))
        if holder and is_theirs and _may_be(holder, number):
            return holder
        holder = self._by_username.get(line.person.get("username", "").lower())
        if not holder or holder.role != Role.STUDENT or not _may_be(holder, number):
            return None
        # A stranger may have chosen the username.
        is_enough = not (number or email) and settings.registration != "open"
        return holder if is_untouched(holder) or is_enough else None

    def _recognise(self, line: Line, user: UserRow, meant: dict[str, Line]) -> None:
        if user.role not in self._options.reach.roles:
            line.refuse(errors.Forbidden)
            return
        line.user, line.username, line.email = user, user.username, user.email
        other = meant.setdefault(user.id, line)
        if other is not line:
            refuse_twice(other, line)
        elif line.person.get("role", user.role) != user.role:
            line.refuse_field("role", _OTHER_ROLE)

    def _share_addresses(self) -> None:
        """Leave out, or refuse, addresses that somebody else has: siblings share their parents'."""
        first: dict[str, Line] = {}
        for line in self._lines:
            email, user = line.person.get("email"), line.user
            stays = user and (user.email == email or not may_readdress(user, self._options))
            if line.is_refused or not email or stays:
                continue
            holder, other = self._by_email.get(email), first.setdefault(email, line)
            if not holder and other is line:
                continue
            number = holder.external_id if holder else other.person.get("external_id")
            if number and "external_id" in line.person:
                del line.person["email"]
                line.differs.append("email")
            else:
                self._refuse(line, errors.EmailTaken, holder)

    def _name(self, lines: Iterable[Line], has_both: bool) -> None:
        """Give new people a username and an address."""
        nameless = defaultdict(list)
        for line in lines:
            self._complete(line, has_both)
            if line.is_refused:
                continue
            line.status, username = "new", line.person.get("username", "")
            key = None if "@" in username else login_name(username)
            if not key:
                nameless[self._suggested(line)].append(line)
            elif key in self._claimed or key in self._by_username:
                self._refuse(line, errors.UsernameTaken, self._by_username.get(key))
            else:
                self._claim(line, username)
        for line in nameless.pop("", ()):
            line.refuse_field("username", REQUIRED)
        self._make_up(nameless)

    def _complete(self, line: Line, has_both: bool) -> None:
        """Refuse who lacks a name, or cannot be made. Some people have only one name."""
        missing = [name for name in _NAMES if name not in line.person]
        if line.is_refused:
            return
        if len(missing) == 1 and has_both:
            line.person[missing[0]] = "-"
        elif missing:
            fields = {_NAMES[name]: [REQUIRED] for name in missing}
            line.refuse(errors.InvalidRequest(fields=fields))
        if line.role(self._options) not in self._options.gives:
            line.refuse(errors.Forbidden)

    def _suggested(self, line: Line) -> str:
        person = line.person
        language = person.get("language") or self._options.language or settings.default_language
        names = [person[name] for name in _NAMES if person[name] != "-"]
        local, number = person.get("email", "").partition("@")[0], person.get("external_id", "")
        return (
            suggested(*names, language=language)
            or suggested(local)
            or suggested(number)
            or (number and suggested("user", number))
        )

    def _claim(self, line: Line, username: str) -> None:
        line.username, line.email = username, line.person.get("email") or _address_of(username)
        self._claimed.add(username.lower())

    def _make_up(self, nameless: dict[str, list[Line]]) -> None:
        """Give people usernames that are free, made of these texts; later ones get a number."""
        start, end = 1, 2
        while nameless:
            names = {
                base: [f"{base}{number if number > 1 else ''}" for number in range(start, end)]
                for base in nameless
            }
            holders = self._holders([*chain.from_iterable(names.values())])
            left = {
                base: self._take(lines, names[base], holders) for base, lines in nameless.items()
            }
            nameless = {base: lines for base, lines in left.items() if lines}
            start, end = end, end * 10

    def _holders(self, names: Sequence[str]) -> dict[str, UserRow]:
        """Return who has these usernames, or the addresses that are made of them."""
        by_email = self._look_up(User.email, map(_address_of, names))
        found = {name: by_email.get(_address_of(name)) for name in names}
        return {n: user for n, user in found.items() if user} | self._look_up(
            User.username_key, names
        )

    def _take(
        self, lines: Sequence[Line], names: Iterable[str], holders: dict[str, UserRow]
    ) -> list[Line]:
        """Give free names to lines; return the lines for which there were not enough."""
        left = [*lines]
        for name in names:
            holder = holders.get(name)
            if holder:
                # Or a list of names that is sent again would make everybody twice.
                for line in [each for each in left if self._may_be_again(each, holder)]:
                    self._refuse(line, errors.UsernameTaken, holder)
                    left.remove(line)
            elif left and name not in self._claimed:
                self._claim(left.pop(0), name)
        return left

    def _may_be_again(self, line: Line, holder: UserRow) -> bool:
        """Return whether a line has nothing but the names of somebody."""
        same = (fold(getattr(holder, name)) == fold(line.person[name]) for name in _NAMES)
        return not line.person.keys() & _MARKS and all(same)
