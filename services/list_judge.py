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
from core.addresses import MAX_USERNAME, NO_MAILBOX, fold, login_name, suggested
from core.roles import Role
from extensions import settings
from models import User, UserRow
from services import sets, users
from services.list_lines import MARKS, Line, Options, refuse_twice

_NAMES = {"first_name": "firstName", "last_name": "lastName"}
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


def _numbered(base: str, number: int) -> str:
    digits = str(number) if number > 1 else ""
    return base[: MAX_USERNAME - len(digits)] + digits


def _folded(person: Line | UserRow) -> tuple[str, str]:
    return fold(person.first_name), fold(person.last_name)


def _may_be_named(line: Line, user: UserRow) -> bool:
    """Return whether a line does not give an account other names."""
    return all(
        fold(line.person.get(name, getattr(user, name))) == fold(getattr(user, name))
        for name in _NAMES
    )


class Judge:
    """Finds the account of each line of a list, or a name for a new one; or refuses the line."""

    def __init__(self, lines: Sequence[Line], options: Options, connection: Connection) -> None:
        self._options, self._connection = options, connection
        self._lines = [line for line in lines if not line.is_refused]
        said: dict[str, set[str]] = {name: set() for name in MARKS}
        for line in self._lines:
            for name, text in line.marks:
                said[name].add(text)
        emails, usernames = said["email"], said["username"]
        self._by_number = self._look_up(User.external_id, said["external_id"])
        self._by_email = self._look_up(User.email, {*emails, *map(_address_of, usernames)})
        self._by_username = self._look_up(User.username_key, usernames)
        # Of new people.
        self._claimed: set[str] = set()
        self._addresses = emails

    def _look_up(
        self, column: InstrumentedAttribute[Any], values: Iterable[str]
    ) -> dict[str, UserRow]:
        """Return the accounts that have one of these values, by it."""
        wanted = [*values]
        found: dict[str, Any] = {}
        query = select(User.id, User.role, *sets.COMPARED)
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
        role = line.person.get("role", user.role)
        if user.external_id != line.person.get("external_id") and not _may_be_named(line, user):
            role = line.role(self._options)  # of a pupil who has the address of a teacher
        line.user, line.username, line.email = user, user.username, user.email
        other = meant.setdefault(user.id, line)
        if other is not line:
            refuse_twice(other, line)
        elif role != user.role:
            line.refuse_fields("invalid", "role")

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
            elif "email" not in line.person and not self._may_make_address(key):
                self._refuse(line, errors.EmailTaken, self._by_email.get(_address_of(key)))
            else:
                self._claim(line, username)
        for line in nameless.pop("", ()):
            line.refuse_fields("required", "username")
        self._make_up(nameless)

    def _complete(self, line: Line, has_both: bool) -> None:
        """Refuse who lacks a name, or cannot be made. Some people have only one name."""
        missing = [name for name in _NAMES if name not in line.person]
        if line.is_refused:
            return
        if len(missing) == 1 and has_both:
            line.person[missing[0]] = "-"
        elif missing:
            line.refuse_fields("required", *(_NAMES[name] for name in missing))
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

    def _may_make_address(self, username: str) -> bool:
        made = _address_of(username)
        return made not in self._by_email and made not in self._addresses

    def _claim(self, line: Line, username: str) -> None:
        line.username, line.email = username, line.person.get("email") or _address_of(username)
        self._claimed.add(username.lower())
        self._addresses.add(line.email)

    def _make_up(self, nameless: dict[str, list[Line]]) -> None:
        """Give people usernames that are free, made of these texts; later ones get a number."""
        start, end = 1, 2
        while nameless:
            names = {
                base: [_numbered(base, number) for number in range(start, end)] for base in nameless
            }
            every = [*chain.from_iterable(names.values())]
            self._by_email |= self._look_up(User.email, map(_address_of, every))
            holders = self._look_up(User.username_key, every)
            left = {base: self._take(nameless[base], names[base], holders) for base in nameless}
            nameless = {base: lines for base, lines in left.items() if lines}
            start, end = end, end * 10

    def _take(
        self, lines: Sequence[Line], names: Sequence[str], holders: dict[str, UserRow]
    ) -> list[Line]:
        """Give free names to lines; return the lines for which there were not enough."""
        bare = defaultdict(list)
        for line in lines:
            if not line.person.keys() & {"external_id", "email"}:
                bare[_folded(line)].append(line)
        for holder in filter(None, map(holders.get, names)):
            # Or a list of names that is sent again would make everybody twice.
            for line in bare.pop(_folded(holder), ()):
                self._refuse(line, errors.UsernameTaken, holder)
        left = [line for line in lines if not line.is_refused]
        taken = holders.keys() | self._claimed
        free = [name for name in names if name not in taken and self._may_make_address(name)]
        for line, name in zip(left, free, strict=False):
            self._claim(line, name)
        return left[len(free) :]
