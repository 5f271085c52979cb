"""Commands for operators and schedulers, besides `flask run` and `flask db`.

They exit with 0 for success, 1 if the service refuses or cannot do it, 2 for malformed input.
Passwords are not taken from the command line, where other users of the machine could read them.
"""

import functools
import itertools
import json
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import click
from flask import Flask
from flask.cli import AppGroup, with_appcontext
from marshmallow import Schema, ValidationError

import errors
import schemas
from core import audit, clock, passwords
from core.roles import EVERYBODY, Role
from core.scopes import Scope
from database import is_unavailable, transaction
from extensions import settings
from models import ServiceKey, UserRow
from services import (
    accounts,
    administration,
    email_change,
    export,
    login,
    pruning,
    recovery,
    samples,
    second_factor,
    service_keys,
    sessions,
)
from services.letters import MailKind
from services.users import find as find_user
from web import limits

# Accounts that `flask users list` reads per query.
_PAGE = 500


@contextmanager
def _plain_errors() -> Iterator[None]:
    try:
        yield
    except errors.ApiError as error:
        reasons = [reason for found in (error.fields or {}).values() for reason in found]
        raise click.ClickException(" ".join(reasons) or str(error)) from None
    except UnicodeError:
        # Invalid bytes arrive as lone surrogates, or cannot be decoded.
        raise click.UsageError("The input is not valid UTF-8.") from None
    except Exception as error:
        if is_unavailable(error):
            raise click.ClickException("The database cannot be reached or used.") from None
        raise


class _Commands(AppGroup):
    @_plain_errors()
    def invoke(self, ctx: click.Context) -> Any:
        return super().invoke(ctx)


def _account(command: Callable[..., None]) -> Callable[..., None]:
    """Pass the row of ACCOUNT to the command: an id, a username or an e-mail address."""

    @click.argument("account")
    @functools.wraps(command)
    def find(account: str, **options: Any) -> None:
        command(find_user(account), **options)

    return find


users = _Commands("users", help="Manage accounts.")

# click would use the names of the members.
_role = click.Choice([role.value for role in Role])
_scope = click.Choice([scope.value for scope in Scope])
_replace_password = click.option(
    "--replace-password",
    is_flag=True,
    help="Make the present password useless at once and end all sessions.",
)


@users.command("create")
@click.option("--username", prompt=True)
@click.option("--email", prompt=True)
@click.option("--first-name", prompt=True)
@click.option("--last-name", prompt=True)
@click.option("--role", type=_role, default=Role.STUDENT.value, show_default=True)
@click.option("--language", help="Of its e-mails.  [default: DEFAULT_LANGUAGE]")
@click.option("--invite", is_flag=True, help="Send an invitation instead of setting a password.")
@click.option("--link", is_flag=True, help="Print a link and a code to choose one.")
def create_user(role: str, invite: bool, link: bool, **typed: str | None) -> None:
    """Create an account and prompt for missing options.

    The password is prompted for twice; if the input is not a terminal, it is the next line of the
    standard input. The e-mail address counts as verified, unless --invite lets the user prove it.
    """
    if invite and link:
        raise click.UsageError("Give --invite or --link, not both.")
    sent = {schemas.camel_case(name): value for name, value in typed.items() if value is not None}
    by_password = not (invite or link)
    if by_password and sys.stdin.isatty():
        sent["password"] = click.prompt("Password", hide_input=True, confirmation_prompt=True)
    elif by_password:
        sent["password"] = sys.stdin.readline().rstrip("\r\n")
    person = _load(schemas.Register() if by_password else schemas.Person(), **sent)
    if by_password:
        password = person.pop("password")
        person["password_hash"] = accounts.hash_new_password(password, person, field="password")
    now = clock.utcnow()
    proof = {"mail": MailKind.INVITATION} if invite else {"email_verified_at": now}
    with transaction():
        user = accounts.add(**person, role=role, **proof)
    audit.log("registered" if by_password else "account_created", user.id)
    if link:
        limits.unlock(user)
        _hand_over(recovery.hand_over(user, now=now))
    elif invite:
        click.echo(f"{user.email} gets an invitation.")
    else:
        click.echo(f"{user.id} {user.username} was created with the role {user.role}.")


def _hand_over(made: recovery.Handout) -> None:
    click.echo(made.link)
    if made.code:
        click.echo(made.code)


def _load(schema: Schema, **body: str) -> Any:
    try:
        return schema.load(body)
    except ValidationError as error:
        lines = [f"{name}: {' '.join(found)}" for name, found in error.messages_dict.items()]
        raise click.UsageError("\n".join(lines)) from None


@users.command("access-link")
@_account
@_replace_password
def make_access_link(user: UserRow, replace_password: bool) -> None:
    """Print a link with which the user of ACCOUNT chooses a password, also for an admin, and a code
    to be typed in its place, for all others."""
    with transaction():
        made = recovery.make_link(
            user.id, EVERYBODY, replace_password=replace_password, now=clock.utcnow()
        )
    if replace_password:
        audit.log("password_removed", user.id)
    audit.log("access_link_made", user.id)
    limits.unlock(user)
    _hand_over(made)


@users.command("set-email")
@_account
@click.argument("address")
@_replace_password
def set_email(user: UserRow, address: str, replace_password: bool) -> None:
    """Change the e-mail address of ACCOUNT to ADDRESS, confirmed, and end all its sessions."""
    email = _load(schemas.Address(), email=address)["email"]
    with transaction():
        email_change.set_email(
            user.id, email, replace_password=replace_password, now=clock.utcnow()
        )
    if replace_password:
        audit.log("password_removed", user.id)
    audit.log("email_changed", user.id)
    click.echo(f"{user.username} has the e-mail address {email}.")


@users.command("list")
@click.option("--search", default="", help="Part of a username, an e-mail address or a name.")
@click.option("--role", type=_role)
@click.option("--active/--inactive", default=None, help="Only active or only inactive accounts.")
def list_users(search: str, role: str | None, active: bool | None) -> None:
    """List accounts, newest first: id, username, e-mail address, role, state, last login."""
    query = _load(schemas.AccountQuery(only=["search"]), search=search)
    for page in itertools.count(1):
        found, total = administration.list_accounts(
            **query, role=role, is_active=active, page=page, per_page=_PAGE
        )
        for user in found:
            state = "active" if user.is_active else "inactive"
            line = (user.id, user.username, user.email, user.role, state)
            click.echo("\t".join((*line, _time(user.last_login_at))))
        if page * _PAGE >= total:
            break


@users.command("show")
@_account
def show_user(user: UserRow) -> None:
    """Print ACCOUNT (id, username or e-mail address), and why its user cannot log in."""
    now = clock.utcnow()
    why_not = [str(hindrance) for hindrance in login.hindrances(user)]
    if until := limits.locked_until(user):
        why_not.append(f"too many failed logins, until {_time(until)}")
    lines = {
        "id": user.id,
        "username": user.username,
        "e-mail address": user.email,
        "e-mail address verified": bool(user.email_verified_at),
        "name": f"{user.first_name} {user.last_name}",
        "role": user.role,
        "active": user.is_active,
        "password": passwords.is_usable(user.password_hash),
        "second factor": _factor(user),
        "language": user.language,
        "time zone": user.timezone,
        "joined": _time(user.created_at),
        "last login": _time(user.last_login_at),
        "open sessions": len(sessions.list_open(user.id, current="", now=now)),
        "pending e-mail address": bool(email_change.pending(user.id, now=now)["pending_email"]),
        "can log in": f"no: {', '.join(why_not)}" if why_not else "yes",
    }
    for name, value in lines.items():
        yes_or_no = "yes" if value else "no"
        click.echo(f"{name}: {yes_or_no if isinstance(value, bool) else value}")


def _factor(user: UserRow) -> str:
    factor = second_factor.status(user)
    locked = "; after 20 wrong ones no code of the app works" if factor["locked"] else ""
    left = f"yes, {factor['recovery_codes_left']} recovery codes left{locked}"
    return left if factor["enabled"] else "no"


def _time(moment: datetime | None) -> str:
    return clock.rfc3339(moment) if moment else "never"


@users.command("set-role")
@_account
@click.argument("role", type=_role)
def set_role(user: UserRow, role: str) -> None:
    """Change the role of ACCOUNT (id, username or e-mail address) and end its sessions."""
    _alter(user, f"has the role {role}", role=role)


@users.command("activate")
@_account
def activate_user(user: UserRow) -> None:
    """Let ACCOUNT (id, username or e-mail address) log in again."""
    _alter(user, "is active", is_active=True)


@users.command("deactivate")
@_account
def deactivate_user(user: UserRow) -> None:
    """Block logins of ACCOUNT (id, username or e-mail address) and end its sessions."""
    _alter(user, "is inactive", is_active=False)


def _alter(user: UserRow, done: str, **changes: Any) -> None:
    with transaction():
        before, after = administration.alter(user.id, **changes)
    administration.log_changes(before, after)
    click.echo(f"{user.username} {done}.")


@users.command("unlock")
@_account
def unlock_user(user: UserRow) -> None:
    """Clear the failed logins that were counted against ACCOUNT, from everywhere."""
    limits.unlock(user)
    audit.log("account_unlocked", user.id)
    click.echo(f"{user.username} can try again.")


@users.command("reset-second-factor")
@_account
def reset_second_factor(user: UserRow) -> None:
    """Remove the second factor of ACCOUNT, also of an admin, and end all its sessions."""
    with transaction():
        second_factor.reset(user.id)
    audit.log("second_factor_reset", user.id)
    click.echo(f"{user.username} has no second factor any more.")


@users.command("delete")
@_account
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def delete_user(user: UserRow, yes: bool) -> None:
    """Permanently delete ACCOUNT (id, username or e-mail address) with all its data."""
    if not yes:
        click.confirm(f"Delete {user.username} ({user.email}) for good?", abort=True)
    with transaction():
        administration.delete(user.id)
    audit.log("account_deleted", user.id)
    click.echo(f"{user.username} is deleted.")


@users.command("export")
@_account
def export_user(user: UserRow) -> None:
    """Print everything that is stored about ACCOUNT as JSON."""
    data = export.collect(user, session_id="", now=clock.utcnow())
    audit.log("data_exported", user.id)
    click.echo(json.dumps(schemas.Export().dump(data), indent=2))


@users.command("fake")
@click.argument("number", metavar="N", type=click.IntRange(1, 10_000))
def fake_users(number: int) -> None:
    """Add N sample students with learning records to the embedded database."""
    if not settings.embedded:
        raise click.ClickException("This needs the embedded database, but DATABASE_URL is set.")
    # A well-known password would let strangers in.
    password = secrets.token_urlsafe(12)
    click.echo(f"Password of the new accounts: {password}")  # first, in case this is interrupted
    emails = samples.add(number, password)
    click.echo(f"Log in as {emails[0]} to {emails[-1]}")


keys = _Commands("keys", help="Manage service keys.")


@keys.command("create")
@click.option("--name", required=True, help="The service that gets the key.")
@click.option("--scope", "scopes", type=_scope, multiple=True, required=True, help="Repeatable.")
@click.option("--days", type=click.IntRange(1, 3650), help="Days until it expires.  [default: 365]")
@click.option("--no-expiry", is_flag=True, help="It is valid until it is revoked.")
def create_key(name: str, scopes: tuple[Scope, ...], days: int | None, no_expiry: bool) -> None:
    """Create a service key and print it, for the only time."""
    if days and no_expiry:
        raise click.UsageError("Give --days or --no-expiry, not both.")
    name = _load(schemas.ServiceKeyName(), name=name)["name"]
    expires_at = None if no_expiry else clock.utcnow() + timedelta(days=days or 365)
    with transaction():
        id_, key = service_keys.create(name, scopes, expires_at=expires_at)
    audit.log("service_key_created", f"key:{id_}")
    click.echo(key)


@keys.command("list")
def list_keys() -> None:
    """List service keys, newest first: id, name, scopes, created, expires, last used."""
    for key in service_keys.list_all():
        times = (_time(key[name]) for name in ("created_at", "expires_at", "last_used_at"))
        click.echo("\t".join((key["id"], key["name"], " ".join(key["scopes"]), *times)))


@keys.command("revoke")
@click.argument("name")
def revoke_key(name: str) -> None:
    """Revoke the service key NAME, immediately and permanently."""
    with transaction():
        id_ = service_keys.revoke(ServiceKey.name == name)
    audit.log("service_key_revoked", f"key:{id_}")
    click.echo(f"{name} is revoked.")


@click.command("prune")
@with_appcontext
@_plain_errors()
def prune() -> None:
    """Delete expired rows, and seal second factors with the newest SECRET_KEY.

    The running service does this by itself.
    """
    for table, number in pruning.prune(clock.utcnow()).items():
        click.echo(f"{table}: {number} removed")
    click.echo(f"second_factors: {second_factor.seal_anew()} sealed with the newest key")


def init_app(app: Flask) -> None:
    for command in (users, keys, prune):
        app.cli.add_command(command)
