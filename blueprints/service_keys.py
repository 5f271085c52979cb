"""The service keys, for admins. There is no call that creates one: see `flask keys create`."""

import functools

from flask import Blueprint

import errors
import schemas
from core.roles import Role
from database import transaction
from models import ServiceKey
from services import service_keys
from web.api import endpoint

bp = Blueprint("keys", __name__, url_prefix="/api/service-keys")
admin = functools.partial(endpoint, bp, role=Role.ADMIN)


@admin("GET", "", response=schemas.ServiceKeys)
def list_keys() -> dict[str, object]:
    """List the service keys, newest first."""
    return {"keys": service_keys.list_all()}


@admin("DELETE", "/<uuid:key_id>", message="The service key is revoked.", errors=(errors.NotFound,))
def revoke_key(key_id: str) -> None:
    """Revoke a service key, immediately and permanently."""
    with transaction():
        service_keys.revoke(ServiceKey.id == key_id)
