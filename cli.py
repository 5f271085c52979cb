"""Commands for operators and schedulers, besides `flask run` and `flask db`.

Exit codes: 0 for success, 1 if the service refuses (a taken username, a weak password, the last
admin) or cannot do it, 2 if the command line or a field is malformed. Passwords are never taken
from the command line, where other users of the machine could read them.
"""

import itertools
import json
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import click
from flask import Flask
from flask.cli import AppGroup, with_appcontext
from marshmallow import Schema, ValidationError

import admin_schemas
import errors
import export_schemas
import schemas
from core import audit, clock, passwords
from core.roles import Role
from core.scopes import Scope
from core.signing_keys import MISSING
from database import is_unavailable, transaction
from extensions import settings, tokens
from models import ServiceKey, UserRow
from services import (
    accounts,
    administration,
    email_change,
    export,
    outbox,
    pruning,
    recovery,
    samples,
    service_keys,
    sessions,
)
from services.letters import MailKind
from web import limits

# Accounts that `flask users list` reads per query.
_PAGE = 500


@contextmanager
def _plain_errors() -> Iterator[None]:
    """Turn errors of the service into one sentence instead of a traceback."""
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


users = AppGroup("users", help="Manage accounts.")

_role = click.Choice([role.value for role in Role])  # click would use the names of the members
_account = click.argument("account", metavar="ACCOUNT")
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
@click.option("--link", is_flag=True, help="Print a link to choose a password instead.")
@_plain_errors()
def create_user(role: str, invite: bool, link: bool, **typed: str | None) -> None:
    """Create an account and prompt for missing options.

    The password is prompted for twice; if the input is not a terminal, it is the next line of the
    standard input. The e-mail address counts as verified, unless --invite lets the user prove it.
    """
    sent = {schemas.camel_case(name): value for name, value in typed.items() if value is not None}
    if invite or link:
        if invite and link:
            raise click.UsageError("Give --invite or --link, not both.")
        person, now = _load(schemas.Person(), **sent), clock.utcnow()
        more = {"verified_at": now} if link else {"mail": MailKind.INVITATION}
        with transaction():
            user = accounts.add(**person, role=role, **more)
        audit.log("account_created", user.id)
        if link:
            click.echo(recovery.access_link(user, now=now).link)
        else:
            click.echo(f"{user.email} gets an invitation.")
        return
    if sys.stdin.isatty():
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    body = _load(schemas.Register(), password=password, **sent)
    password = body.pop("password")
    names = [value for name, value in body.items() if name != "language"]
    password_hash = accounts.hash_new_password(password, names, field="password")
    with transaction():
        user = accounts.add(
            password_hash=password_hash, role=role, verified_at=clock.utcnow(), **body
        )
    audit.log("registered", user.id)
    click.echo(f"{user.id} {user.username} was created with the role {user.role}.")


def _load(schema: Schema, **body: str) -> Any:
    try:
        return schema.load(body)
    except ValidationError as error:
        lines = [f"{name}: {' '.join(found)}" for name, found in error.messages_dict.items()]
        raise click.UsageError("\n".join(lines)) from None


@users.command("access-link")
@_account
@_replace_password
@_plain_errors()
def make_access_link(account: str, replace_password: bool) -> None:
    """Print a link with which the user of ACCOUNT chooses a password, also for an admin."""
    user_id, now = administration.find(account).id, clock.utcnow()
    with transaction():
        made = recovery.make_link(
            user_id, except_admins=False, replace_password=replace_password, now=now
        )
    if replace_password:
        audit.log("password_removed", user_id)
    audit.log("access_link_made", user_id)
    click.echo(made.link)


@users.command("set-email")
@_account
@click.argument("address")
@_replace_password
@_plain_errors()
def set_email(account: str, address: str, replace_password: bool) -> None:
    """Change the e-mail address of ACCOUNT to ADDRESS, confirmed, and end all its sessions."""
    email = _load(schemas.Address(), email=address)["email"]
    user = administration.find(account)
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
@_plain_errors()
def list_users(search: str, role: str | None, active: bool | None) -> None:
    """List accounts, newest first: id, username, e-mail address, role, state, last login."""
    query = _load(admin_schemas.AccountQuery(only=["search"]), search=search)
    for page in itertools.count(1):
        found, total = administration.list_accounts(
            **query, role=role, is_active=active, page=page, per_page=_PAGE
        )
        for user in found:
            last_login = clock.rfc3339(user.last_login_at) if user.last_login_at else "never"
            state = "active" if user.is_active else "inactive"
            line = (user.id, user.username, user.email, user.role, state, last_login)
            click.echo("\t".join(line))
        if page * _PAGE >= total:
            break


@users.command("show")
@_account
@_plain_errors()
def show_user(account: str) -> None:
    """Print ACCOUNT (id, username or e-mail address), and why its user cannot log in."""
    user, now = administration.find(account), clock.utcnow()
    why_not: list[str] = [*accounts.hindrances(user)]
    lines = {
        "id": user.id,
        "username": user.username,
        "e-mail address": user.email,
        "e-mail address verified": _yes_or_no(user.email_verified_at),
        "name": f"{user.first_name} {user.last_name}",
        "role": user.role,
        "active": _yes_or_no(user.is_active),
        "password": _yes_or_no(passwords.is_usable(user.password_hash)),
        "language": user.language,
        "time zone": user.timezone,
        "joined": clock.rfc3339(user.created_at),
        "last login": clock.rfc3339(user.last_login_at) if user.last_login_at else "never",
        "open sessions": len(sessions.list_open(user.id, current="", now=now)),
        "pending e-mail address": _yes_or_no(
            email_change.pending(user.id, now=now)["pending_email"]
        ),
        "can log in": f"no: {', '.join(why_not)}" if why_not else "yes",
    }
    for name, value in lines.items():
        click.echo(f"{name}: {value}")


def _yes_or_no(value: object) -> str:
    return "yes" if value else "no"


@users.command("set-role")
@_account
@click.argument("role", type=_role)
def set_role(account: str, role: str) -> None:
    """Change the role of ACCOUNT (id, username or e-mail address) and end its sessions."""
    user = _alter(account, role=role)
    click.echo(f"{user.username} has the role {user.role}.")


@users.command("activate")
@_account
def activate_user(account: str) -> None:
    """Let ACCOUNT (id, username or e-mail address) log in again."""
    click.echo(f"{_alter(account, is_active=True).username} is active.")


@users.command("deactivate")
@_account
def deactivate_user(account: str) -> None:
    """Block logins of ACCOUNT (id, username or e-mail address) and end its sessions."""
    click.echo(f"{_alter(account, is_active=False).username} is inactive.")


@users.command("unlock")
@_account
@_plain_errors()
def unlock_user(account: str) -> None:
    """Clear the failed logins that were counted against ACCOUNT, from everywhere."""
    user = administration.find(account)
    limits.unlock(user.email)
    audit.log("account_unlocked", user.id)
    click.echo(f"{user.username} can try again.")


@users.command("delete")
@_account
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@_plain_errors()
def delete_user(account: str, yes: bool) -> None:
    """Permanently delete ACCOUNT (id, username or e-mail address) with all its data."""
    user = administration.find(account)
    if not yes:
        click.confirm(f"Delete {user.username} ({user.email}) for good?", abort=True)
    with transaction():
        administration.delete(user.id)
    audit.log("account_deleted", user.id)
    click.echo(f"{user.username} is deleted.")


@users.command("export")
@_account
@_plain_errors()
def export_user(account: str) -> None:
    """Print everything that is stored about ACCOUNT as JSON."""
    user = administration.find(account)
    data = export.collect(user, session_id="", now=clock.utcnow())
    audit.log("data_exported", user.id)
    click.echo(json.dumps(export_schemas.Export().dump(data), indent=2))


@users.command("fake")
@click.argument("number", metavar="N", type=click.IntRange(1, 10_000))
@_plain_errors()
def fake_users(number: int) -> None:
    """Add N sample students with learning records to the embedded database."""
    if not settings.embedded:
        raise click.ClickException("This needs the embedded database, but DATABASE_URL is set.")
    # A well-known password would let strangers in.
    password = secrets.token_urlsafe(12)
    click.echo(f"Password of the new accounts: {password}")  # first, in case this is interrupted
    emails = samples.add(number, password)
    click.echo(f"Log in as {emails[0]} to {emails[-1]}")


@_plain_errors()
def _alter(account: str, **changes: Any) -> UserRow:
    user = administration.find(account)
    with transaction():
        before, after = administration.alter(user.id, **changes)
    administration.log_changes(before, after)
    return after


keys = AppGroup("keys", help="Manage service keys.")


@keys.command("create")
@click.option("--name", required=True, help="The service that gets the key.")
@click.option(
    "--scope",
    "scopes",
    type=click.Choice([scope.value for scope in Scope]),
    multiple=True,
    required=True,
    help="What the key may do; can be repeated.",
)
@click.option("--days", type=click.IntRange(1, 3650), help="Days until it expires.  [default: 365]")
@click.option("--no-expiry", is_flag=True, help="It is valid until it is revoked.")
@_plain_errors()
def create_key(name: str, scopes: tuple[Scope, ...], days: int | None, no_expiry: bool) -> None:
    """Create a service key and print it, for the only time."""
    if days and no_expiry:
        raise click.UsageError("Give --days or --no-expiry, not both.")
    name = _load(admin_schemas.ServiceKeyName(), name=name)["name"]
    expires_at = None if no_expiry else clock.utcnow() + timedelta(days=days or 365)
    with transaction():
        id_, key = service_keys.create(name, scopes, expires_at=expires_at)
    audit.log("service_key_created", f"key:{id_}")
    click.echo(key)


@keys.command("list")
@_plain_errors()
def list_keys() -> None:
    """List service keys, newest first: id, name, scopes, created, expires, last used."""
    for key in service_keys.list_all():
        moments = (key[name] for name in ("created_at", "expires_at", "last_used_at"))
        shown = (clock.rfc3339(moment) if moment else "never" for moment in moments)
        click.echo("\t".join((key["id"], key["name"], " ".join(key["scopes"]), *shown)))


@keys.command("revoke")
@click.argument("name")
@_plain_errors()
def revoke_key(name: str) -> None:
    """Revoke the service key NAME, immediately and permanently."""
    with transaction():
        id_ = service_keys.revoke(ServiceKey.name == name)
    audit.log("service_key_revoked", f"key:{id_}")
    click.echo(f"{name} is revoked.")


mail = AppGroup("mail", help="Send queued e-mails.")


@mail.command("send")
@_plain_errors()
def send_mail() -> None:
    """Try to send every queued e-mail once, due or not."""
    tally = outbox.send_all()
    click.echo(f"{tally.sent} sent, {tally.failed} failed, {tally.dropped} dropped")
    if tally.server_down:
        raise click.ClickException("The mail server cannot be reached.")


@click.command("prune")
@with_appcontext
@_plain_errors()
def prune() -> None:
    """Delete expired rows now. The running service does this by itself."""
    for table, number in pruning.prune(clock.utcnow()).items():
        click.echo(f"{table}: {number} removed")


@click.command("jwks")
@with_appcontext
def jwks() -> None:
    """Print the public keys of access tokens, as /.well-known/jwks.json does."""
    if tokens.jwks is None:
        raise click.ClickException(MISSING)
    click.echo(json.dumps(tokens.jwks))


def init_app(app: Flask) -> None:
    """Register the commands."""
    app.cli.add_command(jwks)
    app.cli.add_command(users)
    app.cli.add_command(keys)
    app.cli.add_command(mail)
    app.cli.add_command(prune)
