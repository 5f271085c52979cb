"""Logs: one line an event, as text or JSON, with the id of the request that caused it.

Nothing that a client sends can end a line or begin another: values are quoted, and the lines of
a traceback are indented behind a bar.
"""

import logging
import random
import re
import sys
import time
import traceback
from typing import Any, cast

import orjson
from flask import Flask, Response, g, has_request_context, request

from config import Settings
from core import clock
from web import client

_access = logging.getLogger("accounts.access")
_DATABASES = ("sqlalchemy", "psycopg", "sqlite3")
_SANE_ID = re.compile(r"[A-Za-z0-9._:=+/@-]{1,128}")
# Where in the WSGI environment it is kept.
_ID = "accounts.request_id"
_PLAIN = re.compile(r"[!#-<>-\[\]-~]+")


def request_id(environ: dict[str, Any] | None = None) -> str:
    """Return the id of a request, of this one by default: its X-Request-ID when that is sane."""
    environ = request.environ if environ is None else environ
    found = environ.get(_ID)
    if found is None:
        sent = environ.get("HTTP_X_REQUEST_ID", "")
        found = environ[_ID] = sent if _SANE_ID.fullmatch(sent) else new_request_id()
    return cast("str", found)


def new_request_id() -> str:
    """Return an id for a request that brings none. It guards nothing, so any number will do."""
    return f"{random.getrandbits(128):032x}"


def _fields(record: logging.LogRecord) -> dict[str, object]:
    fields = dict(getattr(record, "fields", {}))
    if has_request_context():
        fields |= {"address": client.address() or "-", "request": request_id()}
    return fields


class TextFormatter(logging.Formatter):
    """`2026-11-20T09:31:00Z INFO accounts.access GET status=200 …`"""

    def format(self, record: logging.LogRecord) -> str:
        message, *more = record.getMessage().splitlines() or [""]
        if record.exc_info and record.exc_info[1]:
            more += _trace(record.exc_info[1]).splitlines()
        parts = [clock.rfc3339(clock.utcnow()), record.levelname, record.name, _printable(message)]
        parts += [f"{name}={_quoted(value)}" for name, value in _fields(record).items()]
        return "\n  | ".join([" ".join(parts), *map(_printable, more)])


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": clock.rfc3339(clock.utcnow()),
            "level": record.levelname,
            "logger": record.name,
            "message": _printable(record.getMessage(), keep="\n"),
            **_fields(record),
        }
        if record.exc_info and record.exc_info[1]:
            line["traceback"] = _printable(_trace(record.exc_info[1]), keep="\n")
        return orjson.dumps(line, default=str).decode()


def _trace(error: BaseException) -> str:
    """Return a traceback without the words of a database: they repeat the row that it refused."""
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    before = f"{_trace(cause)}\nThat led to:\n" if cause else ""
    frames = "".join(traceback.format_tb(error.__traceback__))
    words = "" if type(error).__module__.partition(".")[0] in _DATABASES else f": {error}"
    heading = "Traceback (most recent call last):"
    return f"{before}{heading}\n{frames}{type(error).__name__}{words}"


def _printable(text: str, keep: str = "") -> str:
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in keep else char.encode("unicode_escape").decode()
        for char in text
    )


def _quoted(value: object) -> str:
    text = str(value)
    return text if _PLAIN.fullmatch(text) else orjson.dumps(_printable(text)).decode()


def formatter(log_format: str) -> logging.Formatter:
    """Return the formatter that LOG_FORMAT names."""
    return JsonFormatter() if log_format == "json" else TextFormatter()


def _tidy(record: logging.LogRecord) -> bool:
    """Keep `flask run` from logging requests itself, with their query strings, and in colours."""
    message = record.getMessage()
    record.msg, record.args = re.sub("\x1b\\[[0-9]+m", "", message), ()
    return " - - [" not in message


def init_app(app: Flask, settings: Settings) -> None:
    """Send all logs to standard error, and a line there for each request."""
    configure(settings)
    app.before_request(_start)
    app.after_request(_finish)


def configure(settings: Settings) -> None:
    """Send the logs of this process to standard error, as the settings say."""
    handler = logging.StreamHandler(sys.stderr)
    handler.set_name("accounts")
    handler.setFormatter(formatter(settings.log_format))
    root = logging.getLogger()
    # An application made later in the same process replaces the handler, and adds no second one.
    root.handlers = [old for old in root.handlers if old.get_name() != "accounts"] + [handler]
    root.setLevel(settings.log_level)
    logging.getLogger("werkzeug").addFilter(_tidy)
    logging.getLogger("PIL").setLevel(logging.WARNING)  # else a line for each part of a picture
    logging.getLogger("alembic.runtime.plugins").setLevel(logging.WARNING)  # a line for each


def _start() -> None:
    g.started = time.perf_counter()


def _finish(response: Response) -> Response:
    if not _access.isEnabledFor(logging.INFO):
        return response
    fields = {
        "method": request.method,
        "path": request.path,  # without the query, where a client may have put anything
        "status": response.status_code,
        "ms": round((time.perf_counter() - g.get("started", time.perf_counter())) * 1000, 1),
        "user": g.get("user_id", "-"),
    }
    _access.info("request", extra={"fields": fields})
    return response
