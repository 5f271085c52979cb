"""`flask users`: accounts, one at a time."""

import functools
import json
import secrets
import sys
from typing import Any

import click

import schemas
from cli import transfer, unused
from cli.base import Commands, account, each_account, load, written
from core import clock, passwords
from core.roles import Role
from database import transaction
from extensions import settings
from models import UserRow
from services import (
    accounts,
    administration,
    custom_fields,
    email_change,
    events,
    export,
    login,
    passkeys,
    providers,
    recovery,
    samples,
    second_factor,
    sessions,
)
from services.users import lock_within

# Accounts that `flask users list` reads per query.
_PAGE = 500
_PROMPTED = "Prompted for if it is missing."

users = Commands("users", help="Manage accounts.")
users.add_command(transfer.import_users)
users.add_command(transfer.dump_users)
users.add_command(unused.unused_users)

# click would use the names of the members.
_role = click.Choice([role.value for role in Role])
_replace_password = click.option(
    "--replace-password",
    is_flag=True,
    help="Make the present password useless at once and end all sessions.",
)


@users.command("create")
@click.option("--username", help=_PROMPTED)
@click.option("--email", help=_PROMPTED)
@click.option("--first-name", help=_PROMPTED)
@click.option("--last-name", help=_PROMPTED)
@click.option("--role", type=_role, default=Role.STUDENT.value, show_default=True)
@click.option("--language", help="Of its e-mails.  [default: DEFAULT_LANGUAGE]")
@click.option("--invite", is_flag=True, help="Send an invitation instead of setting a password.")
@click.option("--link", is_flag=True, help="Print a link and a code to choose one.")
def create_user(role: str, invite: bool, link: bool, **typed: str | None) -> None:
    """Create an account.

    The password is prompted for twice; if the input is not a terminal, it is the next line of the
    standard input. The e-mail address counts as verified, unless --invite lets the user prove it.
    """
    if invite and link:
        raise click.UsageError("Give --invite or --link, not both.")
    for name in ("username", "email", "first_name", "last_name"):
        if typed[name] is None:
            label = name.replace("_", " ").capitalize()
            typed[name] = click.prompt(label, value_proc=functools.partial(_check, name))
    deliver = "mail" if invite else "link" if link else "none"
    by_password = deliver == "none"
    if by_password and sys.stdin.isatty():
        typed["password"] = click.prompt("Password", hide_input=True, confirmation_prompt=True)
    elif by_password:
        typed["password"] = sys.stdin.readline().rstrip("\r\n")
    person = load(schemas.Register() if by_password else schemas.Person(), **typed)
    if by_password:
        password = person.pop("password")
        person["password_hash"] = accounts.hash_new_password(password, person, field="password")
    with transaction():
        user, made = administration.make_account(
            **person, role=role, deliver=deliver, email_verified=not invite
        )
    if made:
        _hand_over(made)
    elif invite:
        click.echo(f"{user.email} gets an invitation.")
    else:
        click.echo(f"{user.id} {user.username} was created with the role {user.role}.")


def _check(name: str, answer: str) -> Any:
    """Return the stored form of an answer. Raises UsageError, after which click asks again."""
    return load(schemas.Person(only=[name]), **{name: answer})[name]


def _hand_over(made: recovery.Handout) -> None:
    click.echo(made.link)
    if made.code:
        click.echo(made.code)


@users.command("access-link")
@each_account
@_replace_password
def make_access_link(user: UserRow, replace_password: bool) -> None:
    """Print a link with which the user of ACCOUNT chooses a password, also for an admin, and a code
    to be typed in its place, for all others.

    With -, print a line for each account instead: username, link and code, separated by tabs.
    """
    with transaction():
        user = lock_within(user.id)
        made = recovery.make_link(user, replace_password=replace_password, now=clock.utcnow())
    if click.get_current_context().params["account"] == "-":
        click.echo("\t".join((user.username, made.link, made.code)))
    else:
        _hand_over(made)


@users.command("set-email")
@account
@click.argument("address", help="The new one.")
@_replace_password
def set_email(user: UserRow, address: str, replace_password: bool) -> None:
    """Change the e-mail address of ACCOUNT to ADDRESS, confirmed, and end all its sessions."""
    email, now = load(schemas.Address(), email=address)["email"], clock.utcnow()
    with transaction():
        email_change.set_email(user.id, email, replace_password=replace_password, now=now)
    click.echo(f"{user.username} has the e-mail address {email}.")


@users.command("list")
@click.option("--search", default="", help="Part of a username, an e-mail address or a name.")
@click.option("--role", type=_role, help="Only accounts with this role.")
@click.option("--active/--inactive", default=None, help="Only active or only inactive accounts.")
def list_users(search: str, role: str | None, active: bool | None) -> None:
    """List accounts, newest first: id, username, e-mail address, role, state, last login, whether
    the address is verified, and whether there is a password."""
    query = load(schemas.AccountQuery(only=["search"]), search=search)
    columns: dict[str, Any] = {"role": role, "is_active": active, "page": 1, "per_page": _PAGE}
    user: UserRow | None = None
    while found := administration.list_accounts(**query, **columns, below=user)[0]:
        for user in found:
            state = "active" if user.is_active else "inactive"
            verified = "verified" if user.email_verified_at else "not verified"
            password = "password" if passwords.is_usable(user.password_hash) else "no password"
            line = (user.id, user.username, user.email, user.role, state)
            click.echo("\t".join((*line, written(user.last_login_at), verified, password)))


@users.command("show")
@account
def show_user(user: UserRow) -> None:
    """Print ACCOUNT, and why its user cannot log in."""
    now = clock.utcnow()
    state = login.state(user)
    why_not = ", ".join(state["hindrances"])
    if until := state["locked_until"]:
        why_not += f" until {written(until)}"
    fields = custom_fields.seen(user.custom_fields)
    lines = {
        "id": user.id,
        "username": user.username,
        "e-mail address": user.email,
        "e-mail address verified": bool(user.email_verified_at),
        "name": f"{user.first_name} {user.last_name}",
        "role": user.role,
        "active": user.is_active,
        "password": _password(user),
        "second factor": _factor(user),
        "passkeys": passkeys.count(user.id),
        "language": user.language,
        "time zone": user.timezone,
        "joined": written(user.created_at),
        "last login": written(user.last_login_at),
        **{f"fields.{name}": value for name, value in fields.items() if value is not None},
        "open sessions": len(sessions.list_open(user.id, current="", now=now)),
        "pending e-mail address": bool(email_change.pending(user.id, now=now)["pending_email"]),
        "can log in": f"no: {why_not}" if why_not else "yes",
    }
    for name, value in lines.items():
        yes_or_no = "yes" if value else "no"
        click.echo(f"{name}: {yes_or_no if isinstance(value, bool) else value}")


def _password(user: UserRow) -> str | bool:
    if user.identity and not passwords.is_usable(user.password_hash):
        return f"no, signs in with {providers.label_of(user.identity)}"
    return passwords.is_usable(user.password_hash)


def _factor(user: UserRow) -> str:
    factor = second_factor.status(user)
    left = f"{factor['recovery_codes_left']} recovery codes left"
    state = left if factor["opens"] else "but no key opens it"
    return f"yes, {state}" if factor["enabled"] else "no"


@users.command("set-role")
@account
@click.argument("role", type=_role, help="The new one.")
def set_role(user: UserRow, role: str) -> None:
    """Change the role of ACCOUNT and end its sessions."""
    _alter(user, f"has the role {role}", role=role)


@users.command("activate")
@each_account
def activate_user(user: UserRow) -> None:
    """Let ACCOUNT log in again."""
    _alter(user, "is active", is_active=True)


@users.command("deactivate")
@each_account
def deactivate_user(user: UserRow) -> None:
    """Block logins of ACCOUNT and end its sessions."""
    _alter(user, "is inactive", is_active=False)


def _alter(user: UserRow, done: str, **changes: Any) -> None:
    with transaction():
        administration.alter(user.id, **changes)
    click.echo(f"{user.username} {done}.")


@users.command("unlock")
@account
def unlock_user(user: UserRow) -> None:
    """Clear the failed logins and wrong codes that were counted against ACCOUNT."""
    with transaction():
        second_factor.unlock(user.id)
    click.echo(f"{user.username} can try again.")


@users.command("reset-second-factor")
@account
def reset_second_factor(user: UserRow) -> None:
    """Remove the second factor and the passkeys of ACCOUNT, also of an admin, and end all its
    sessions."""
    with transaction():
        second_factor.reset(user.id)
    click.echo(f"{user.username} has no second factor any more.")


@users.command("delete")
@each_account
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def delete_user(user: UserRow, yes: bool) -> None:
    """Permanently delete ACCOUNT with all its data."""
    if not yes:
        click.confirm(f"Delete {user.username} ({user.email}) for good?", abort=True)
    with transaction():
        administration.delete(user.id)
    click.echo(f"{user.username} is deleted.")


@users.command("empty-field")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def empty_field(name: str, yes: bool) -> None:
    """Remove the values of the custom field NAME from all accounts, for good."""
    if name not in {field.name for field in settings.custom_fields}:
        raise click.UsageError("CUSTOM_FIELDS has no such field. Put it there for this command.")
    if not yes:
        click.confirm(f"Remove all values of {name} for good?", abort=True)
    click.echo(f"{administration.empty_field(name)} accounts had a value.")


@users.command("export")
@account
def export_user(user: UserRow) -> None:
    """Print everything that is stored about ACCOUNT as JSON."""
    data, more = export.collect(user, now=clock.utcnow())
    with transaction():
        lock_within(user.id)
        events.tell("data_exported", user.id)
    shape = schemas.Export()
    text = json.dumps(shape.dump(data), indent=2)
    for page in more:
        click.echo(text.removesuffix("\n  ]\n}"), nl=False)
        text = "," + json.dumps(shape.dump(page), indent=2).removeprefix('{\n  "events": [')
    click.echo(text)


@users.command("fake")
@click.argument("number", metavar="N", type=click.IntRange(1, 10_000), help="1 to 10,000.")
def fake_users(number: int) -> None:
    """Add N sample students with learning records to the embedded database."""
    if not settings.embedded:
        raise click.ClickException("This needs the embedded database, but DATABASE_URL is set.")
    # A well-known password would let strangers in.
    password = secrets.token_urlsafe(12)
    click.echo(f"Password of the new accounts: {password}")  # first, in case this is interrupted
    emails = samples.add(number, password)
    click.echo(f"Log in as {emails[0]} to {emails[-1]}")
