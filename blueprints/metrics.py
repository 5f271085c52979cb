"""What monitoring reads, in the text format 0.0.4 of Prometheus."""

from flask import Blueprint

from core import clock
from core.roles import Role
from core.scopes import Scope
from database import schema_revision
from services import metrics
from web.api import endpoint
from web.openapi import VERSION

bp = Blueprint("metrics", __name__)


@endpoint(
    bp,
    "GET",
    "/metrics",
    role=Role.ADMIN,
    scope=Scope.METRICS_READ,
    media_type="text/plain; version=0.0.4; charset=utf-8",
)
def get_metrics() -> str:
    """Read what the database knows about the state of the service, for Prometheus.

    Every process and machine answers the same.
    """
    info = f'{{version="{VERSION}",schema="{schema_revision()}"}}'
    lines = ["# TYPE accounts_info gauge", f"accounts_info{info} 1"]
    for name, value in metrics.read(clock.utcnow()).items():
        kind = "counter" if name.endswith("_total") else "gauge"
        lines += [f"# TYPE accounts_{name} {kind}", f"accounts_{name} {value}"]
    return "\n".join([*lines, ""])
