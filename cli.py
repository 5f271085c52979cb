"""Commands beside `flask run` and `flask db`: what a scheduler or an operator calls.

They end with 0, with 1 when what was asked for is refused (a name that is taken, a weak password,
the last admin) or cannot be done, or with 2 when the command line or a field is not right in its
form. No password stands on a command line, where others can read it.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
from flask import Flask
from flask.cli import AppGroup, with_appcontext
from marshmallow import Schema, ValidationError

import errors
import schemas
from core import clock
from core.events import record
from core.roles import Role
from database import is_unavailable, transaction
from models import UserRow
from services import accounts, administration, outbox, pruning

# Accounts that `flask users list` reads at a time.
_PAGE = 500


@contextmanager
def _plainly() -> Iterator[None]:
    """Say in a sentence, instead of a traceback, what cannot be done."""
    try:
        yield
    except errors.ApiError as error:
        reasons = [reason for found in (error.fields or {}).values() for reason in found]
        raise click.ClickException(" ".join(reasons) or str(error)) from None
    except UnicodeError:
        # Bytes that are no text come as lone surrogates, or not at all.
        raise click.UsageError("What was typed in is not valid UTF-8.") from None
    except Exception as error:
        if is_unavailable(error):
            raise click.ClickException("The database cannot be reached or used.") from None
        raise


users = AppGroup("users", help="Accounts, for the operator of the service.")

_role = click.Choice([role.value for role in Role])  # of the members, it would take the names
_account = click.argument("account", metavar="ACCOUNT")


@users.command("create")
@click.option("--username", prompt=True)
@click.option("--email", prompt=True)
@click.option("--first-name", prompt=True)
@click.option("--last-name", prompt=True)
@click.option("--role", type=_role, default=Role.STUDENT.value, show_default=True)
def create_user(role: str, **typed: str) -> None:
    """Create an account; ask for what is not given.

    The password is asked for, twice; where no person is at the terminal, it is the next line of
    the standard input. The address counts as verified, since you vouch for it.
    """
    with _plainly():
        password = _ask_password()
        body = _checked(
            schemas.Register(),
            username=typed["username"],
            email=typed["email"],
            password=password,
            firstName=typed["first_name"],
            lastName=typed["last_name"],
        )
        password = body.pop("password")
        password_hash = accounts.hash_new_password(password, body.values(), field="password")
        with transaction():
            user = accounts.add(
                password_hash=password_hash, role=role, verified_at=clock.utcnow(), **body
            )
        record("registered", user.id)
    click.echo(f"{user.id} {user.username} is there, with the role {user.role}.")


def _ask_password() -> str:
    if sys.stdin.isatty():
        return str(click.prompt("Password", hide_input=True, confirmation_prompt=True))
    return sys.stdin.readline().rstrip("\r\n")


def _checked(schema: Schema, **body: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = schema.load(body)
    except ValidationError as error:
        lines = [
            f"{name}: {' '.join(reasons)}" for name, reasons in sorted(error.messages_dict.items())
        ]
        raise click.UsageError("\n".join(lines)) from None
    return found


@users.command("list")
@click.option("--search", default="", help="Part of a username, an address or a name.")
@click.option("--role", type=_role)
@click.option("--active/--inactive", default=None, help="Only those that are, or are not.")
def list_users(search: str, role: str | None, active: bool | None) -> None:
    """List accounts, newest first: id, username, address, role, active or not, last login."""
    query = _checked(schemas.AccountQuery(only=["search"]), search=search)
    page, more = 1, True
    while more:
        with _plainly():
            found, total = administration.list_accounts(
                **query, role=role, is_active=active, page=page, per_page=_PAGE
            )
        for user in found:
            click.echo(_line(user))
        more = page * _PAGE < total
        page += 1


def _line(user: UserRow) -> str:
    last_login = clock.rfc3339(user.last_login_at) if user.last_login_at else "never"
    state = "active" if user.is_active else "inactive"
    return "\t".join((user.id, user.username, user.email, user.role, state, last_login))


@users.command("set-role")
@_account
@click.argument("role", type=_role)
def set_role(account: str, role: str) -> None:
    """Change the role of ACCOUNT (an id, username or address); its sessions end."""
    user = _alter(account, role=role)
    click.echo(f"{user.username} has the role {user.role}.")


@users.command("activate")
@_account
def activate_user(account: str) -> None:
    """Let ACCOUNT (an id, username or address) log in again."""
    click.echo(f"{_alter(account, is_active=True).username} is active.")


@users.command("deactivate")
@_account
def deactivate_user(account: str) -> None:
    """Keep ACCOUNT (an id, username or address) out; its sessions end, its data stays."""
    click.echo(f"{_alter(account, is_active=False).username} is inactive.")


@users.command("delete")
@_account
@click.option("--yes", is_flag=True, help="Do not ask whether this is meant.")
def delete_user(account: str, yes: bool) -> None:
    """Delete ACCOUNT (an id, username or address) and all that is stored of it, for good."""
    with _plainly():
        user = administration.find(account)
    if not yes:
        click.confirm(f"Delete {user.username} ({user.email}) for good?", abort=True)
    with _plainly():
        with transaction():
            if not administration.remove(user.id):
                raise errors.UserNotFound
        record("account_deleted", user.id)
    click.echo(f"{user.username} is deleted.")


def _alter(account: str, **changes: Any) -> UserRow:
    with _plainly():
        user = administration.find(account)
        with transaction():
            before, after = administration.alter(user.id, **changes)
        administration.record_changes(before, after)
    return after


mail = AppGroup("mail", help="Mails that wait in the outbox.")


@mail.command("send")
def send_mail() -> None:
    """Try every mail in the outbox once, due or not."""
    with _plainly():
        tally = outbox.send_all()
    click.echo(f"{tally.sent} sent, {tally.failed} failed, {tally.dropped} dropped")
    if tally.server_down:
        raise click.ClickException("The mail server cannot be reached.")


@click.command("prune")
@with_appcontext
def prune() -> None:
    """Remove expired rows. The service does so by itself; this is for doing it now."""
    with _plainly():
        removed = pruning.prune(clock.utcnow())
    for table, number in removed.items():
        click.echo(f"{table}: {number} removed")


def init_app(app: Flask) -> None:
    """Register the commands."""
    app.cli.add_command(users)
    app.cli.add_command(mail)
    app.cli.add_command(prune)
