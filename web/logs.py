"""Logs: events as text or JSON, with the id of the request that caused each one.

Nothing that a client sends can start a new line: values are quoted, and the lines of a traceback
are indented and begin with a bar.
"""

import logging
import os
import random
import re
import time
import traceback
from functools import lru_cache
from wsgiref.types import WSGIEnvironment

import orjson
from flask import has_request_context, request

from config import Settings
from web import client

# What HTTP names (RFC 9110, RFC 5789); clients can send any word.
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_access = logging.getLogger("accounts.access")
_DATABASES = ("sqlalchemy", "psycopg", "sqlite3")
_VALID_ID = re.compile(r"[A-Za-z0-9._:=+/@-]{1,128}")
_PLAIN = re.compile(r"[!#-<>-\[\]-~]+")


def request_id(environ: WSGIEnvironment) -> str:
    """Return the X-Request-ID of a request, which a new one replaces if it is not valid."""
    found: str = environ.get("HTTP_X_REQUEST_ID", "")
    if not _VALID_ID.fullmatch(found):
        # Not a secret.
        found = environ["HTTP_X_REQUEST_ID"] = f"{random.getrandbits(128):032x}"
    return found


@lru_cache(maxsize=1)
def _rfc3339(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(second))


def _fields(record: logging.LogRecord) -> dict[str, object]:
    fields: dict[str, object] = getattr(record, "fields", {})
    outside = "request" in fields or not has_request_context()
    return fields if outside else fields | _caller(request.environ)


def _caller(environ: WSGIEnvironment) -> dict[str, object]:
    return {"address": client.ip_address(environ) or "-", "request": request_id(environ)}


class TextFormatter(logging.Formatter):
    """`2026-11-20T09:31:00Z INFO accounts.access request method=GET path=/healthz …`"""

    def format(self, record: logging.LogRecord) -> str:
        message, *more = record.getMessage().splitlines() or [""]
        if record.exc_info and record.exc_info[1]:
            more += _trace(record.exc_info[1]).splitlines()
        parts = (_rfc3339(int(record.created)), record.levelname, record.name, _printable(message))
        line = " ".join(parts)
        for name, value in _fields(record).items():
            line += f" {name}={_quoted(value)}"
        return "\n  | ".join([line, *map(_printable, more)])


class JsonFormatter(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": _rfc3339(int(record.created)),
            "level": record.levelname,
            "logger": record.name,
            "message": _printable(record.getMessage(), keep="\n"),
        }
        for name, value in _fields(record).items():
            # JSON allows characters that some readers and terminals obey, such as U+2028 and CSI.
            line[name] = _printable(value) if isinstance(value, str) else value
        if record.exc_info and record.exc_info[1]:
            line["traceback"] = _printable(_trace(record.exc_info[1]), keep="\n")
        return orjson.dumps(line, default=str).decode()


def _trace(error: BaseException) -> str:
    """Return a traceback with SQL in place of a database's messages, which repeat refused rows."""
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    before = f"{_trace(cause)}\nThat led to:\n" if cause else ""
    frames = "".join(traceback.format_tb(error.__traceback__))
    of_database = type(error).__module__.partition(".")[0] in _DATABASES
    message = getattr(error, "statement", None) or "" if of_database else error
    return f"{before}Traceback (most recent call last):\n{frames}{type(error).__name__}: {message}"


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


FORMATTERS = {"text": TextFormatter, "json": JsonFormatter}  # by LOG_FORMAT


class StandardError(logging.Handler):
    """Writes each line with one system call and no lock, for which threads would wait too long."""

    def handle(self, record: logging.LogRecord) -> bool:
        if passed := bool(self.filter(record)):
            self.emit(record)
        return passed

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self.write(f"{self.format(record)}\n".encode())
        except Exception:
            self.handleError(record)

    def write(self, line: bytes) -> None:
        os.write(2, line)  # a pipe keeps up to 4 KB together


def configure(settings: Settings) -> None:
    """Send the logs of this process to standard error, in the format and level of the settings."""
    handler = StandardError()
    handler.set_name("accounts")
    handler.setFormatter(FORMATTERS[settings.log_format]())
    root = logging.getLogger()
    # A second application in the same process replaces the handler.
    root.handlers = [old for old in root.handlers if old.get_name() != "accounts"] + [handler]
    root.setLevel(settings.log_level)
    # werkzeug would log the query of each request, Pillow the metadata of a picture, and our pool,
    # which SQLAlchemy names by its module, each time that it is emptied.
    for name in ("werkzeug", "PIL", "alembic.runtime.plugins", "database"):
        logging.getLogger(name).setLevel(logging.WARNING)


def log_request(environ: WSGIEnvironment, path: str, status: str, seconds: float) -> None:
    """Log a request, from WSGI's dict, because each access to Flask's `request` takes 1 µs."""
    if _access.isEnabledFor(logging.INFO):
        rule = getattr(environ.get("werkzeug.request"), "url_rule", None)
        fields = {
            # One word for all others: a program that counts lines by it keeps a number for each.
            "method": method if (method := environ["REQUEST_METHOD"]) in _METHODS else "-",
            # Without the query, which may hold a secret. Cut, so that the line stays whole.
            "path": path[:300].encode("latin-1").decode(errors="replace"),
            "route": rule.rule if rule else "-",
            "status": int(status[:3]),
            "ms": round(seconds * 1000, 1),
            "user": environ.get("accounts.user_id") or "-",
            **_caller(environ),
        }
        # `Logger.info` would also look up the calling line, for 10 µs.
        name, level, extra = _access.name, logging.INFO, {"fields": fields}
        record = _access.makeRecord(name, level, "", 0, "request", (), None, extra=extra)
        _access.handle(record)
