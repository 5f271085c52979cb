"""Accounts in and out: from files of other systems, and into one."""

import functools
import itertools
import secrets
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

from marshmallow import ValidationError
from sqlalchemy import select

import counting
import errors
import schemas
from core import clock, ids, passwords
from core.addresses import has_mailbox, search_key, username_from
from core.roles import Role
from database import analyse, insert_into, patiently, read_all
from extensions import db
from models import User, UserRow
from services import changes, custom_fields, events, outbox, recovery, users
from services.accounts import usual_settings

# Lines of a transaction, and rows of a query.
BATCH = 500
_Rows: TypeAlias = dict[int, UserRow]
_Written: TypeAlias = tuple[_Rows, _Rows, dict[int, str], list[UserRow]]
_FORM = schemas.ImportedAccount()
_OPTIONAL: dict[str, Any] = {
    **{"role": Role.STUDENT.value, "is_active": True, "last_login_at": None},
    "warned_at": None,
    **{"bio": "", "location": "", "website": "", "theme": "system", "external_id": None},
    **{"email_notifications": True, "push_notifications": True, "progress_visible": False},
    "custom_fields": {},
}
# What is unique beside the address, and why a line is refused where another account has it.
_UNIQUE = {
    "id": "id: An account has this id.",
    "username_key": f"username: {errors.UsernameTaken.message}",
    "external_id": f"externalId: {errors.ExternalIdTaken.message}",
}


@dataclass
class Import:
    """One run of an import, which can be killed at any time and run again."""

    refuse: Callable[[int, str], None]  # is told the number of a line, and the reason
    dry_run: bool = False
    allow_admins: bool = False
    without_passwords: bool = False
    # Counts an invitation to each address; returns those that may get one. None: no invitations.
    invite: bool = False
    # Writes down a way in to an account without a password, before it is committed; there is none
    # to an account that is an admin's or not active.
    write_link: Callable[[UserRow, recovery.Handout | None], None] | None = None
    counts: Counter[str] = field(init=False, default_factory=Counter)
    # What accounts have in these columns, as far as a transaction needs it; and of a dry run, which
    # takes its rows back, what they had.
    _taken: dict[str, set[str]] = field(init=False, default_factory=dict)
    _tried: dict[str, set[str]] = field(
        init=False, default_factory=lambda: {name: set() for name in _UNIQUE}
    )
    _looked_up: set[str] = field(init=False, default_factory=set)  # usernames
    # How many of the usernames made from one name were taken.
    _numbers: Counter[str] = field(init=False, default_factory=Counter)
    # The first line with each address. Not every other system keeps addresses unique.
    _lines: dict[str, int] = field(init=False, default_factory=dict)

    def run(self, lines: Iterable[tuple[int, Any]]) -> Iterator[int]:
        """Import accounts; yield after each transaction how many lines are done.

        Raises SQLAlchemy's errors; what was committed before stays.
        """
        lines = iter(lines)
        for done in itertools.count():
            if not (batch := list(itertools.islice(lines, BATCH))):
                return
            # After 1, 2, 4, 8 ... batches.
            self._run(batch, clock.utcnow(), analyses=done.bit_count() == 1)
            yield self.counts.total()

    def _run(self, batch: list[tuple[int, Any]], now: datetime, *, analyses: bool) -> None:
        accounts, refused = {}, {}
        for number, line in batch:
            try:
                accounts[number] = self._account(number, line, now)
            except ValidationError as error:
                # Corrected, it will make an account with this address.
                found: Any = error.valid_data or {}
                self._lines.setdefault(found.get("email"), number)
                reasons = error.messages_dict.items()
                refused[number] = "; ".join(f"{name}: {' '.join(why)}" for name, why in reasons)
        made, present, clashes, linked = patiently(lambda: self._write(accounts, now, analyses))
        if self.dry_run:
            for name, tried in self._tried.items():
                tried.update(filter(None, (getattr(row, name) for row in made.values())))
        for user in linked:
            patiently(functools.partial(_unlock, user))
        for number, reason in sorted((refused | clashes).items()):
            self.refuse(number, reason)
        self.counts.update(made=len(made), present=len(present), refused=len(refused | clashes))

    def _write(
        self, accounts: dict[int, dict[str, Any]], now: datetime, analyses: bool
    ) -> _Written:
        """Write accounts in the open transaction; return who was made, who was present and why
        lines are refused, by line, and who got a link.
        """
        if analyses:
            analyse(User.__table__)
        made, present, clashes = self._insert(accounts)
        if self.dry_run:
            db.session.rollback()
            return made, present, clashes, []
        linked = self._give_ways_in(made, present, now)
        changes.note(row.id for row in made.values())
        events.add("account_imported", (row.id for row in made.values()))
        events.add("access_link_made", (row.id for row in linked), deliver="link")
        return made, present, clashes, linked

    def _account(self, number: int, line: Any, now: datetime) -> dict[str, Any]:
        """Return the columns of an account but those of its names. Raises ValidationError."""
        account: dict[str, Any] = _FORM.load(line)
        if (first := self._lines.setdefault(account["email"], number)) != number:
            raise ValidationError({"email": [f"Line {first} has this address."]})
        if account.get("role") == Role.ADMIN and not self.allow_admins:
            raise ValidationError({"role": ["This needs --allow-admins."]})
        account["custom_fields"] = self._custom_fields(account.pop("custom_fields", {}))
        stored = account.pop("password_hash", "!")
        problem = passwords.problem_of(stored) if passwords.is_usable(stored) else None
        if problem and not self.without_passwords:
            raise ValidationError({"passwordHash": [f"{problem}."]})
        is_taken = passwords.is_usable(stored) and not problem
        account["password_hash"] = stored if is_taken else passwords.unusable()
        account["email_verified_at"] = now if account.pop("email_verified") else None
        usual = {"id": ids.new_row_id(), "created_at": now, **usual_settings()}
        # Or the links and codes of a deleted account with the same id would work again.
        usual["password_version"] = secrets.randbelow(2**30) + 1
        return _OPTIONAL | usual | account

    def _custom_fields(self, sent: dict[str, Any]) -> dict[str, Any]:
        """Return the values of a new account. Raises ValidationError."""
        try:
            return custom_fields.merged({}, custom_fields.accepted(sent))
        except errors.InvalidRequest as error:
            found: Any = error.fields
            wrong = found["customFields"].items()
            told = {f"customFields.{ascii(name)[1:-1]}": why for name, why in wrong}
            raise ValidationError(told) from None

    def _insert(self, waiting: dict[int, dict[str, Any]]) -> tuple[_Rows, _Rows, dict[int, str]]:
        """Insert accounts; return by line the rows that are new, those that were there, and why
        others are refused.
        """
        refused: dict[int, str] = {}
        made: dict[int, UserRow] = {}
        present: dict[int, UserRow] = {}
        insert = insert_into(User.__table__).on_conflict_do_nothing().returning(User.__table__)
        while waiting:
            there = self._look_up(waiting.values())
            new: dict[str, tuple[int, dict[str, Any]]] = {}
            for number, account in waiting.items():
                email = account["email"]
                if email in there:
                    present[number] = there[email]
                    continue
                row = self._with_names(account)
                clashes = [_UNIQUE[name] for name in _UNIQUE if self._is_taken(name, row[name])]
                if clashes:
                    refused[number] = "; ".join(clashes)
                    continue
                for name, taken in self._taken.items():
                    taken.update(filter(None, [row[name]]))  # many have no external id
                new[email] = number, row
            rows: Any = db.session.execute(insert, [row for _, row in new.values()]) if new else ()
            made |= {new.pop(row.email)[0]: row for row in rows}
            # Others took these names after the look-up, and have committed: look again.
            waiting = {number: waiting[number] for number, _ in new.values()}
        return made, present, refused

    def _look_up(self, accounts: Collection[dict[str, Any]]) -> dict[str, Any]:
        """Note which of the names are taken; return by address the accounts that are there."""
        self._taken = {name: set() for name in _UNIQUE}
        emails, row_ids = ([each[name] for each in accounts] for name in ("email", "id"))
        self._looked_up = {
            (each.get("username") or self._next_name(each["email"])).lower() for each in accounts
        }
        numbers = [each["external_id"] for each in accounts if each["external_id"]]
        columns = (User.id, User.username_key, User.external_id)
        for column, values in zip(columns, (row_ids, self._looked_up, numbers), strict=True):
            found: Any = db.session.scalars(select(column).where(column.in_(values)))
            self._taken[column.key].update(found)
        rows = db.session.execute(select(User.__table__).where(User.email.in_(emails)))
        return {row.email: row for row in rows}

    def _is_taken(self, column: str, value: str) -> bool:
        return value in self._taken[column] or value in self._tried[column]

    def _with_names(self, account: dict[str, Any]) -> dict[str, Any]:
        """Return the row of an account, with a free username if it has none."""
        email = account["email"]
        username = account.get("username") or self._made_name(email)
        key = search_key(username, email, account["first_name"], account["last_name"])
        names = {"username": username, "username_key": username.lower(), "search_key": key}
        return account | names

    def _next_name(self, email: str) -> str:
        return username_from(email, 1 + self._numbers[username_from(email)])

    def _made_name(self, email: str) -> str:
        """Return a free username made from an address."""
        while True:
            name = self._next_name(email)
            same = select(User.id).where(User.username_key == name)
            if not self._is_taken("username_key", name) and (
                name in self._looked_up or not db.session.scalar(same)
            ):
                return name
            self._numbers[username_from(email)] += 1

    def _give_ways_in(
        self, made: dict[int, UserRow], present: dict[int, UserRow], now: datetime
    ) -> list[UserRow]:
        """Invite, and write down links; return who got one of those."""
        found = [row for _, row in sorted((made | present).items())]
        without = {row.id: row for row in found if not users.has_way_in(row)}
        links = recovery.renew_links([*without], now=now) if self.write_link else {}
        if self.invite:
            new = [row.email for row in made.values() if row.id in without]
            outbox.queue_invitations([email for email in new if has_mailbox(email)])
        if self.write_link:  # when there is nothing left that could repeat the transaction
            for row in without.values():
                self.write_link(row, links.get(row.id))
        return [row for row in without.values() if row.id in links]


def _unlock(user: UserRow) -> None:
    """Clear what is counted for an account, whose row is locked first: a login counts there too."""
    users.lock(user.id)
    counting.unlock(user)


def dump(*, with_hashes: bool) -> Iterator[list[dict[str, Any]]]:
    """Yield all accounts, some hundred at a time, in the form that an import takes."""
    form, last = schemas.DumpedAccount(many=True), ""
    query = select(User.__table__).order_by(User.id).limit(BATCH)
    while rows := read_all(query.where(User.id > last)):
        last = rows[-1].id
        shown = [custom_fields.with_seen(row) for row in rows]
        for row, line in zip(rows, found := form.dump(shown), strict=True):
            # Another installation could not read what nobody could write here now.
            line["customFields"] = custom_fields.allowed(row.custom_fields, line["customFields"])
            if not (with_hashes and passwords.is_usable(row.password_hash)):
                del line["passwordHash"]
            for name in ("lastLogin", "warnedAt"):
                if line[name] is None:
                    del line[name]
        yield found
