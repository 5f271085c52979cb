"""Health checks."""

from flask import Blueprint

import errors
from database import schema
from web.api import endpoint

bp = Blueprint("health", __name__)


@endpoint(bp, "GET", "/healthz", message="The process is running.")
def healthz() -> None:
    """Succeed while the process is running; for a supervisor that restarts it."""


@endpoint(bp, "GET", "/readyz", message="The service is ready.", errors=(errors.Unavailable,))
def readyz() -> None:
    """Succeed if the database is reachable and its schema new enough; for a load balancer."""
    if not schema.is_ready():
        raise errors.Unavailable("The database's schema is not current. Run: flask db upgrade")
