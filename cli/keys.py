"""`flask keys`: service keys."""

from datetime import timedelta

import click

import schemas
from cli.base import Commands, load, written
from core import clock
from core.scopes import Scope
from database import transaction
from models import ServiceKey
from services import service_keys

_scope = click.Choice([scope.value for scope in Scope])
keys = Commands("keys", help="Manage service keys.")


@keys.command("create")
@click.option("--name", required=True, help="The service that gets the key.")
@click.option("--scope", "scopes", type=_scope, multiple=True, required=True, help="Repeatable.")
@click.option("--days", type=click.IntRange(1, 3650), help="Days until it expires.  [default: 365]")
@click.option("--no-expiry", is_flag=True, help="It is valid until it is revoked.")
def create_key(name: str, scopes: tuple[Scope, ...], days: int | None, no_expiry: bool) -> None:
    """Create a service key and print it, for the only time."""
    if days and no_expiry:
        raise click.UsageError("Give --days or --no-expiry, not both.")
    if Scope.GROUPS_STAFF in scopes and Scope.GROUPS_WRITE not in scopes:
        raise click.UsageError("groups:staff adds to groups:write. Give both.")
    name = load(schemas.ServiceKeyName(), name=name)["name"]
    expires_at = None if no_expiry else clock.utcnow() + timedelta(days=days or 365)
    with transaction():
        key = service_keys.create(name, scopes, expires_at=expires_at)
    click.echo(key)


@keys.command("list")
def list_keys() -> None:
    """List service keys, newest first: id, name, scopes, created, expires, last used."""
    for key in service_keys.list_all():
        times = (written(key[name]) for name in ("created_at", "expires_at", "last_used_at"))
        click.echo("\t".join((key["id"], key["name"], " ".join(key["scopes"]), *times)))


@keys.command("revoke")
@click.argument("name", help="As it was given to the key.")
def revoke_key(name: str) -> None:
    """Revoke the service key NAME, immediately and permanently."""
    with transaction():
        service_keys.revoke(ServiceKey.name == name)
    click.echo(f"{name} is revoked.")
