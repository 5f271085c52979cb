"""Every declared endpoint, found in the route table, so that no test can forget a new one."""

import io
import logging
import re
from dataclasses import dataclass

from marshmallow import fields
from sqlalchemy import make_url

from app import create_app
from config import Settings
from schemas import camel_case
from web.api import Operation

UNKNOWN_ID = "0190a6e0-0000-7000-8000-000000000000"


@dataclass(frozen=True)
class Endpoint:
    """A method of a rule; the `path` has some id in it."""

    method: str
    rule: str
    name: str
    path: str
    operation: Operation

    def __str__(self):
        return f"{self.method} {self.rule}"

    @property
    def documented(self):
        """The path as the OpenAPI document writes it."""
        return re.sub(r"<(?:\w+:)?(\w+)>", lambda match: f"{{{camel_case(match[1])}}}", self.rule)

    @property
    def example(self):
        """A body that has the right shape."""
        return {
            field.data_key: field.metadata["examples"][0]
            for field in self.operation.body().fields.values()
            if "examples" in field.metadata  # not what stands in place of another field
        }

    @property
    def required(self):
        return {field.data_key for field in self.operation.body().fields.values() if field.required}

    @property
    def texts(self):
        """The names of the fields that hold text."""
        body = self.operation.body().fields.values()
        return [field.data_key for field in body if isinstance(field, fields.String)]

    def open(self, client, **options):
        """Call it with what it takes, right in its shape: nothing about it is refused unread."""
        if self.operation.body:
            options.setdefault("json", self.example)
        if self.operation.upload:
            options.setdefault("data", {self.operation.upload: (io.BytesIO(b"no picture"), "a")})
        return client.open(self.path, method=self.method, **options)


def _find():
    handlers = logging.getLogger().handlers[:]
    app = create_app(Settings(database_url=make_url("sqlite:////nowhere"), secret_key="x" * 32))
    # The application of a test sets up its own logs; this one is only looked at.
    logging.getLogger().handlers = handlers
    found = []
    for rule in app.url_map.iter_rules():
        operation = getattr(app.view_functions[rule.endpoint], "operation", None)
        if operation:
            (method,) = rule.methods - {"HEAD", "OPTIONS"}
            path = re.sub(r"<[^>]+>", UNKNOWN_ID, rule.rule)
            found.append(Endpoint(method, rule.rule, rule.endpoint, path, operation))
    return found


ENDPOINTS = _find()
API = [endpoint for endpoint in ENDPOINTS if endpoint.rule.startswith("/api/")]
WITH_BODY = [endpoint for endpoint in API if endpoint.operation.body]
WITH_UPLOAD = [endpoint for endpoint in API if endpoint.operation.upload]
GUARDED = [endpoint for endpoint in ENDPOINTS if endpoint.operation.role]
