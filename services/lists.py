"""Lists of people: what one does, and doing that.

What a list would do is found out by reads alone. To do it, some hundred accounts at a time are
locked and compared once more, each time in a transaction of its own: others write in between.
"""

import re
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Connection, select

import errors
from core import turns
from core.addresses import fold, has_mailbox
from core.ids import parse_uuid
from core.people_files import People
from core.reasons import REQUIRED
from core.roles import Role
from database import reading, transaction
from extensions import db
from models import Group, Membership, User, UserRow
from schemas import camel_case
from services import accounts, administration, custom_fields, groups, outbox, sets
from services.list_judge import Judge, is_untouched, may_readdress
from services.list_lines import MARKS, Line, Options, read

T = TypeVar("T")
BATCH = 250
# Seconds between two batches: SQLite lets others try every 100 ms, and its lock is not fair.
PAUSE = 0.1
# Ids of groups that lists make are made with this one, of version 5; others are of version 7.
_OURS = uuid.UUID("6f1c2c5e-5d0a-4b57-9d3e-0f6a1b7c8d90")
_MEMBERS = Membership.__table__.c


@dataclass
class ListedGroup:
    """A group that a list names."""

    id: str
    name: str
    is_new: bool
    is_renamed: bool
    people: int = 0


class Done(NamedTuple):
    """What a list does, or would do."""

    lines: list[Line]
    groups: Collection[ListedGroup]
    missing: Sequence[UserRow]
    left_out: Sequence[str]


def check(found: People, options: Options) -> Done:
    """Return what a list would do. Raises InvalidRequest, NotFound and TooManyMissing."""
    if options.groups == "only" and not (options.group_id or _has(found, "group", "groupId")):
        raise errors.InvalidRequest(fields={"groups": [REQUIRED]})
    if options.missing != "keep" and not _has(found, "externalId"):
        raise errors.InvalidRequest(fields={"missing": [REQUIRED]})
    lines = read(found.lines)
    with reading() as connection:
        Judge(lines, options, connection).judge(found.columns)
        named = _resolve(lines, options, connection)
        _compare(lines, options, connection)
        missing = _missing(lines, found, options, connection) if options.missing != "keep" else ()
    return Done(lines, named.values(), missing, found.left_out)


def apply(found: People, options: Options) -> Done:
    """Do what `check` says; return what was done. Raises what it raises, and Unavailable.

    Commits by itself, some lines at a time. After an error, the same list does the rest.
    """
    done = check(found, options)
    to_save = {each.id: each.name for each in done.groups if each.is_new or each.is_renamed}
    if to_save:
        with transaction():
            groups.save_all(to_save)
    to_do = [line for line in done.lines if line.status in ("new", "changed")]
    _in_batches(to_do, lambda some: _write(some, options))
    if options.missing == "deactivate":
        off: Any = {"is_active": False, "reach": options.reach}
        _in_batches(
            [row.id for row in done.missing], lambda ids: administration.activate(ids, **off)
        )
    return done


def _in_batches(everything: Sequence[T], act: Callable[[Sequence[T]], object]) -> None:
    for start in range(0, len(everything), BATCH):
        with transaction():
            act(everything[start : start + BATCH])
        with turns.waiting():
            time.sleep(PAUSE)


def _has(found: People, *columns: str) -> bool:
    """Return whether a line has something in one of these columns."""
    return any(cells.get(name) for _, cells in found.lines for name in columns)


def _resolve(
    lines: Sequence[Line], options: Options, connection: Connection
) -> dict[str, ListedGroup]:
    """Find the groups of lines that are not refused; return them by id. Raises NotFound."""
    rows: Any = connection.execute(select(Group.id, Group.name))
    there = {group.id: group.name for group in rows}
    if options.group_id and options.group_id not in there:
        raise errors.NotFound("There is no such group.")
    named = defaultdict(list)
    for group_id, name in there.items():
        named[_key(name)].append(group_id)
    found: dict[str, ListedGroup] = {}
    given: dict[str, str] = {}
    for line in lines:
        if line.is_refused:
            continue
        wanted = [*line.named, *([(options.group_id, "")] if options.group_id else [])]
        if any(not by and len(named[_key(name)]) > 1 for by, name in wanted):
            line.refuse_fields("invalid", "group")
        elif wanted and line.role(options) not in options.recruits.roles:
            line.refuse(errors.Forbidden)
        for by, name in () if line.is_refused else wanted:
            group_id = _by_id(by) if by else _by_name(name, named, there)
            if group_id not in line.groups:
                line.groups.append(group_id)
                found.setdefault(group_id, _listed(group_id, there, by)).people += 1
            if name and (by or found[group_id].is_new) and group_id not in given:
                given[group_id] = name
    for group_id, name in given.items():
        found[group_id].is_renamed = there.get(group_id, name) != name
        found[group_id].name = name
    return found


@lru_cache(1000)
def _key(name: str) -> str:
    return re.sub(r"(?<=\d) (?=[a-z]\b)", "", fold(name))  # 5 d is 5d


def _by_id(text: str) -> str:
    return parse_uuid(text) or str(uuid.uuid5(_OURS, text))


def _by_name(name: str, named: dict[str, list[str]], there: Collection[str]) -> str:
    if not named[_key(name)]:
        # A group that was made of this name may have another one by now.
        tries = (str(uuid.uuid5(_OURS, f"{_key(name)}{number or ''}")) for number in count())
        named[_key(name)].append(next(each for each in tries if each not in there))
    return named[_key(name)][0]


def _listed(group_id: str, there: Mapping[str, str], by: str) -> ListedGroup:
    return ListedGroup(group_id, there.get(group_id, by), group_id not in there, False)


def _compare(lines: Sequence[Line], options: Options, connection: Connection) -> None:
    """Say what the lines change."""
    known = [line for line in lines if line.user and not line.is_refused]
    there = _memberships(known, connection)
    for line in known:
        values = _new_values(line, options)
        line.email = values.get("email", line.email)
        line.changes = [camel_case(name) for name in values]
        if any(_moves(line, options, there[line.user.id])):
            line.changes.append("groups")
        line.status = "changed" if line.changes else "same"
        for name in ("email", "username"):
            if line.person.get(name, "").lower() not in ("", getattr(line, name).lower()):
                line.differs.append(name)


def _memberships(lines: Sequence[Line], connection: Any) -> dict[str, set[str]]:
    """Return the groups of the people of these lines, by their ids."""
    found = defaultdict(set)
    these = _MEMBERS.user_id.in_([line.user.id for line in lines])
    for user_id, group_id in connection.execute(
        select(_MEMBERS.user_id, _MEMBERS.group_id).where(these)
    ):
        found[user_id].add(group_id)
    return found


def _moves(line: Line, options: Options, there: set[str]) -> tuple[set[str], set[str]]:
    """Return the groups that somebody joins and leaves: of these those of lists, not those that
    people have made. Who is in no group by the list stays.
    """
    is_only = options.groups == "only" and line.groups and not line.stays
    leaves = there - {*line.groups} if is_only else set()
    return {*line.groups} - there, {each for each in leaves if uuid.UUID(each).version == 5}


def _new_values(line: Line, options: Options) -> dict[str, Any]:
    """Return the columns of an account that get another value."""
    columns = ["first_name", "last_name", "external_id", "language"]
    columns += ["email"] if may_readdress(line.user, options) else []
    values = {name: line.person[name] for name in columns if line.person.get(name)}
    if said := line.person.get("custom_fields"):
        values["custom_fields"] = custom_fields.merged(line.user.custom_fields, said)
    if options.missing == "deactivate" and line.user.role == Role.STUDENT:
        values["is_active"] = True
    # As written in Python: there, True equals 1, which it does not in JSON.
    before = {name: repr(getattr(line.user, name)) for name in values}
    return {name: value for name, value in values.items() if repr(value) != before[name]}


def _missing(
    lines: Sequence[Line], found: People, options: Options, connection: Connection
) -> list[UserRow]:
    """Return the active accounts with a number that no line names, not even one that is refused.

    Raises TooManyMissing.
    """
    roles = {Role.STUDENT, Role.INSTRUCTOR} if "role" in found.columns else {options.role}
    wanted = User.is_active, User.external_id.is_not(None), User.role.in_(roles)
    query = select(User.id, User.role, *sets.COMPARED).where(*wanted)
    there: Any = connection.execute(query).all()
    said = {mark for line in lines for mark in line.marks}
    meant = {id_ for line in lines for id_ in (line.user_id, line.holder_id)}
    missing = [row for row in there if row.id not in meant and said.isdisjoint(_marks(row))]
    all_of, gone = Counter(row.role for row in there), Counter(row.role for row in missing)
    # For each role, or a file without its teachers would not be noticed among the pupils.
    is_cut = any(gone[role] * 4 > all_of[role] for role in gone)
    if is_cut and options.missing == "deactivate" and not options.all:
        raise errors.TooManyMissing
    return missing


def _marks(user: UserRow) -> Iterable[tuple[str, str | None]]:
    return zip(MARKS, (user.external_id, user.email, user.username_key), strict=True)


def _write(lines: Sequence[Line], options: Options) -> None:
    """Do in the open transaction what these lines say."""
    _lock([line for line in lines if line.user], options)
    present = groups.lock({group_id for line in lines for group_id in line.groups})
    for line in lines:
        if not line.is_refused and not present.issuperset(line.groups):
            line.refuse(errors.NotFound)
    known = {line.user.id: line for line in lines if line.user and not line.is_refused}
    rows = {user_id: line.user for user_id, line in known.items()}
    values = {user_id: _new_values(line, options) for user_id, line in known.items()}
    administration.update_all(rows, values)
    _add([line for line in lines if line.status == "new"], options)
    _move([line for line in lines if not line.is_refused], options)


def _lock(lines: Sequence[Line], options: Options) -> None:
    """Lock the accounts of lines, and give lines their rows as they are now; refuse lines whose
    account is another one by now.
    """
    before = {line.user.id: line for line in lines}
    rows, refused = sets.lock_all(before, options.reach, *sets.COMPARED, key_share=True)
    for user_id, line in before.items():
        row = rows.get(user_id)
        if row is None:
            line.refuse(refused[user_id])
        elif _identity(row) != _identity(line.user):
            line.refuse(errors.Unavailable)  # for the moment
        line.user = row


def _identity(user: UserRow) -> tuple[object, ...]:
    """Return what says whom a line means."""
    return *_marks(user), user.role, is_untouched(user)


def _add(lines: Sequence[Line], options: Options) -> None:
    """Make the accounts of lines; refuse those whose names somebody has got meanwhile."""
    usual: dict[str, Any] = {"role": options.role, "external_id": None, "custom_fields": {}}
    usual |= {"language": options.language} if options.language else {}
    own = [{"username": line.username, "email": line.email} for line in lines]
    made = sets.add_all(
        [{**usual, **line.person, **names} for line, names in zip(lines, own, strict=True)]
    )
    for line in lines:
        line.user = made.get(line.email)
        if not line.user:
            names = line.username, line.email, line.person.get("external_id")
            line.refuse(accounts.taken(*names) or errors.Unavailable)
    if options.deliver == "mail":
        outbox.queue_invitations([email for email in made if has_mailbox(email)])


def _move(lines: Sequence[Line], options: Options) -> None:
    """Put the people of these lines into their groups, and take them out of others."""
    there = _memberships(lines, db.session)
    joins, leaves = set(), set()
    for line in lines:
        joined, left = _moves(line, options, there[line.user.id])
        joins |= {(group_id, line.user.id) for group_id in joined}
        leaves |= {(group_id, line.user.id) for group_id in left}
    groups.put_in(joins)
    groups.take_out(leaves)
