"""Is the process alive, and can it do its work?"""

from flask import Blueprint

import errors
from database import schema_is_current
from web.api import endpoint

bp = Blueprint("health", __name__)


@endpoint(bp, "GET", "/healthz", message="The process answers.")
def healthz() -> None:
    """Answer as long as the process does; for a supervisor that restarts it."""


@endpoint(bp, "GET", "/readyz", message="Ready to serve.", errors=(errors.Unavailable,))
def readyz() -> None:
    """Answer when the database does and its schema is current; for a load balancer."""
    if not schema_is_current():
        raise errors.Unavailable("The database's schema is not current. Run: flask db upgrade")
