"""What monitoring reads, in the text format 0.0.4 of Prometheus."""

from flask import Blueprint

from core import clock
from core.roles import Role
from core.scopes import Scope
from database import schema
from services import metrics
from web.api import endpoint
from web.openapi import VERSION

bp = Blueprint("metrics", __name__)


@endpoint(
    bp,
    "GET",
    "/metrics",
    role=Role.ADMIN,
    scopes=(Scope.METRICS_READ,),
    media_type="text/plain; version=0.0.4; charset=utf-8",
)
def get_metrics() -> str:
    """Read what the database knows about the state of the service, for Prometheus.

    Every process and machine answers the same.
    """
    info = f'{{version="{VERSION}",schema="{schema.written_revision()}"}}'
    values = {"info": 1, **metrics.read(clock.utcnow())}
    lines = []
    for name, text in metrics.HELP.items():
        kind = "counter" if name.endswith("_total") else "gauge"
        lines += [f"# HELP accounts_{name} {text}", f"# TYPE accounts_{name} {kind}"]
        lines.append(f"accounts_{name}{info if name == 'info' else ''} {values[name]}")
    return "\n".join([*lines, ""])
