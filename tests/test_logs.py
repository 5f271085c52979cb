"""One line for each event, nothing in it that could mislead its reader, and no secret."""

import json
import logging
import re
import threading
import time
from datetime import timedelta

import pytest
from endpoints import API, UNKNOWN_ID
from helpers import PASSWORD, Log, bearer, failure, on_one_database, registration, success
from sqlalchemy import make_url

from core import clock
from database import transaction
from models import User
from services import links
from services.links import Action

both_formats = pytest.mark.parametrize("log_format", ["text", "json"])

LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ (?P<level>[A-Z]+) (?P<logger>\S+) (?P<rest>.+)")
CLOSED = make_url("postgresql+psycopg://someone:pass-of-the-database@127.0.0.1:1/accounts")


@pytest.fixture
def failing(make_app):
    """A client and the log of an application with views that fail unexpectedly."""

    def make(**settings):
        app = make_app(**settings)

        def fail():
            raise RuntimeError("a secret detail\n2026-11-20T09:31:00Z INFO accounts.security login")

        app.add_url_rule("/api/fails", view_func=fail)
        return app.test_client(), Log()

    return make


@on_one_database
def test_request_is_one_line_without_its_query(client, auth):
    log = Log()
    response = client.get("/api/auth/verify?token=in-the-query", headers=auth.headers)
    (line,) = log.lines()
    found = LINE.fullmatch(line)
    assert (found["level"], found["logger"]) == ("INFO", "accounts.access")
    fields = dict(part.split("=", 1) for part in found["rest"].split()[1:])
    assert float(fields.pop("ms")) >= 0
    assert fields == {
        "method": "GET",
        "path": "/api/auth/verify",
        "status": "200",
        "user": auth.user.id,
        "address": "127.0.0.1",
        "request": response.headers["X-Request-ID"],
    }


def test_no_line_waits_for_a_lock(app):
    log, root = Log(), logging.getLogger()
    (handler,) = (h for h in root.handlers if h.get_name() == "accounts")
    handler.acquire()
    try:
        thread = threading.Thread(target=root.warning, args=("written",), daemon=True)
        thread.start()
        thread.join(10)
    finally:
        handler.release()
    assert not thread.is_alive()
    assert "written" in log.text()


@on_one_database
def test_line_of_a_request_fits_into_one_write_to_a_pipe(make_app):
    # POSIX keeps 4,096 bytes whole (PIPE_BUF). A longer line could be cut by that of another
    # process, and the rest of a path would look like a line of ours.
    for log_format in ("text", "json"):
        client, log = make_app(log_format=log_format).test_client(), Log()
        for char in ("x", "\x01", "\u20ac", '"'):
            client.get("/" + char * 8000, headers={"X-Request-ID": "x" * 128})
        assert max(len(line.encode()) for line in log.lines()) < 4000


@on_one_database
def test_request_is_one_json_object_without_its_query(make_app):
    client = make_app(log_format="json").test_client()
    log = Log()
    response = client.post("/api/auth/login?token=in-the-query", json={})
    (line,) = log.records()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", line.pop("time"))
    assert line.pop("ms") >= 0
    assert line == {
        "level": "INFO",
        "logger": "accounts.access",
        "message": "request",
        "method": "POST",
        "path": "/api/auth/login",
        "status": 400,
        "user": "-",
        "address": "127.0.0.1",
        "request": response.headers["X-Request-ID"],
    }


@on_one_database
@pytest.mark.parametrize("path", ["/healthz", "/nothing", "/docs", "/openapi.json", "/", "/readyz"])
def test_every_request_is_logged_once(client, path):
    log = Log()
    for method in ("GET", "POST", "HEAD", "OPTIONS"):
        client.open(path, method=method)
        (line,) = log.lines()
        assert f" method={method} path={path} " in line


HOSTILE_PATHS = [
    "/a\n2026-11-20T09:31:00Z INFO accounts.security login user=admin",
    *("/a\r\nb", "/a\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029b", "/\x1b[31mred\x1b[0m\x9b2J\x07"),
    *("/\x00", "/\u00e4\u65e5\U0001f600", "/\u202eevil\u202c\ufeff\u200b", '/a" status=200 b="'),
    *("/a\\", "/a b=c", "/="),
]


@on_one_database
@pytest.mark.parametrize("path", HOSTILE_PATHS)
def test_path_cannot_make_a_second_line_or_field(make_app, path):
    client = make_app().test_client()
    log = Log()
    environ = {"PATH_INFO": path.encode().decode("latin-1")}
    client.get("/", environ_overrides=environ)
    (line,) = log.text().splitlines()  # Python's idea of a line is the widest
    assert line.isprintable()
    assert LINE.fullmatch(line)["logger"] == "accounts.access"
    unquoted = re.sub(r'"(?:[^"\\]|\\.)*"', "quoted", line)
    names = re.findall(r" (\w+)=", unquoted)
    assert names == ["method", "path", "status", "ms", "user", "address", "request"]

    client = make_app(log_format="json").test_client()
    log = Log()
    client.get("/", environ_overrides=environ)
    (line,) = log.text().splitlines()
    assert line.isprintable()
    record = json.loads(line)
    assert record["path"] == path or not path.isprintable()
    assert record["status"] == 404


@on_one_database
@both_formats
def test_other_values_of_a_request_cannot_either(make_app, log_format):
    client = make_app(log_format=log_format, trusted_proxies=1).test_client()
    log = Log()
    names = ["X_FORWARDED_FOR", "X_REQUEST_ID", "USER_AGENT", "REFERER", "ORIGIN", "AUTHORIZATION"]
    for name in ["REQUEST_METHOD", "QUERY_STRING", *(f"HTTP_{name}" for name in names)]:
        client.get("/healthz", environ_overrides={name: 'a b="\x1b[31m\n2026 INFO x\u00e4\u0085'})
        assert len(log.lines()) == 1


def test_security_events_are_one_line_each(make_app, make_user, outbox):
    client = make_app(log_format="json").test_client()
    user = make_user()
    log = Log()

    def logged(response, event, user_id, status=200):
        assert response.status_code == status
        (line,) = log.events()
        assert (line["message"], line["user"]) == (event, user_id)
        assert line["address"] == "127.0.0.1"
        assert line["request"] == response.headers["X-Request-ID"]
        return response.get_json().get("data")

    def post(path, headers=None, **body):
        return client.post(f"/api/auth/{path}", json=body, headers=headers)

    def login(email=user.email, password=PASSWORD):
        return post("login", email=email, password=password)

    response = post("register", **registration("other"))
    other = response.get_json()["data"]["userId"]
    logged(response, "registered", other, 201)
    logged(post("verify-email", token=outbox.deliver_token()), "email_verified", other)

    logged(login(password="wrong"), "login_failed", user.id, 401)
    logged(login(email="nobody@example.org"), "login_failed", "-", 401)
    first = logged(login(), "login", user.id)
    second = logged(login(), "login", user.id)

    headers = bearer(second["accessToken"])
    sessions = success(client.get("/api/auth/sessions", headers=headers))["sessions"]
    (elsewhere,) = (session["id"] for session in sessions if not session["current"])
    assert log.events() == []
    response = client.delete(f"/api/auth/sessions/{elsewhere}", headers=headers)
    logged(response, "session_ended", user.id)
    response = client.delete("/api/auth/sessions", headers=headers)
    logged(response, "other_sessions_ended", user.id)
    failure(post("refresh", refreshToken=first["refreshToken"]), 401, "token_revoked")
    log.events()

    spent = second["refreshToken"]
    newer = success(post("refresh", refreshToken=spent))["refreshToken"]
    success(post("refresh", refreshToken=newer))
    assert log.events() == []
    logged(post("refresh", refreshToken=spent), "refresh_token_reused", user.id, 401)

    third = logged(login(), "login", user.id)
    logged(post("logout", headers=bearer(third["accessToken"])), "logout", user.id)

    success(post("forgot-password", email=user.email))
    log.events()
    response = post("reset-password", token=outbox.deliver_token(), newPassword=PASSWORD + "!")
    logged(response, "password_reset", user.id)


@on_one_database
def test_unexpected_error_is_told_to_the_log_and_to_nobody_else(failing):
    client, log = failing()
    response = client.get("/api/fails?token=in-the-query")
    assert failure(response, 500, "internal_error") == {}
    assert "detail" not in response.text
    assert "RuntimeError" not in response.text

    lines = log.lines()
    heads = [line for line in lines if LINE.fullmatch(line)]
    assert [LINE.fullmatch(line)["logger"] for line in heads] == [
        "accounts.errors",
        "accounts.access",
    ]
    error = lines.index(heads[0])
    assert " ERROR accounts.errors " in heads[0]
    assert f"request={response.headers['X-Request-ID']}" in heads[0]
    traceback = lines[error + 1 : lines.index(heads[1])]
    assert all(line.startswith("  | ") for line in traceback)
    assert traceback[0] == "  | Traceback (most recent call last):"
    assert traceback[-2:] == [
        "  | RuntimeError: a secret detail",
        "  | 2026-11-20T09:31:00Z INFO accounts.security login",
    ]
    assert "in-the-query" not in "\n".join(lines)


@both_formats
def test_row_that_the_database_refuses_is_not_logged(make_app, log_format):
    app = make_app(log_format=log_format)
    secrets = {"email": "secret-address@example.org", "password_hash": "secret-hash"}

    def insert():
        with transaction() as session:
            values = {"username": "a", "username_key": "a", "first_name": "F", "last_name": "L"}
            session.add(User(**values, **secrets, role="nobody"))

    app.add_url_rule("/fails", view_func=insert)
    log = Log()
    failure(app.test_client().get("/fails"), 500, "internal_error")
    text = log.text()
    assert re.search("IntegrityError|CheckViolation", text)
    assert "in insert" in text  # where it happened
    assert "secret" not in text.replace("**secrets", "")


@on_one_database
def test_unexpected_error_is_one_json_object(failing):
    client, log = failing(log_format="json")
    response = client.get("/api/fails")
    error, access = log.records()
    assert (error["level"], error["logger"]) == ("ERROR", "accounts.errors")
    assert error["request"] == access["request"] == response.headers["X-Request-ID"]
    assert error["traceback"].startswith("Traceback (most recent call last):\n")
    assert "RuntimeError: a secret detail" in error["traceback"]
    assert access["status"] == 500


@on_one_database
@pytest.mark.parametrize("endpoint", [each for each in API if each.name != "auth.options"], ids=str)
def test_database_that_is_away_is_503(app, make_app, auth, endpoint):
    away = make_app(database_url=CLOSED)
    log = Log()
    actions = {
        "auth.check_link": Action.CHOOSE_PASSWORD,
        "auth.reset_password": Action.CHOOSE_PASSWORD,
        "auth.verify_email": Action.VERIFY_EMAIL,
        "auth.undo_email_change": Action.UNDO,
    }
    body = endpoint.example if endpoint.operation.body else None
    if endpoint.name in actions:
        end = clock.utcnow() + timedelta(minutes=1)
        with app.app_context():
            made = links.make(actions[endpoint.name], auth.user.id, UNKNOWN_ID, expires_at=end)
        body["token"] = made.link.partition("#token=")[2]
    elif endpoint.name == "auth.refresh":
        body["refreshToken"] = auth.refresh
    started = time.monotonic()
    response = away.test_client().open(
        endpoint.path,
        method=endpoint.method,
        json=body,
        headers=auth.headers if endpoint.operation.role else {},
    )
    assert time.monotonic() - started < 2
    failure(response, 503, "unavailable")
    assert int(response.headers["Retry-After"]) > 0
    assert "WWW-Authenticate" not in response.headers
    text = log.text()
    assert text.count(" ERROR accounts.errors ") == 1
    assert "pass-of-the-database" not in text
    assert "Traceback" not in text


def test_process_answers_while_the_database_is_away(app, make_app):
    client = make_app(database_url=CLOSED).test_client()
    success(client.get("/healthz"))
    assert client.get("/docs").status_code == 200
    assert client.get("/openapi.json").status_code == 200
    failure(client.get("/api/auth/verify"), 401, "token_missing")
    failure(client.post("/api/auth/login", json={}), 400, "invalid_request")
    failure(client.get("/nothing"), 404, "not_found")
    response = client.get("/readyz")
    failure(response, 503, "unavailable")
    assert int(response.headers["Retry-After"]) > 0


@on_one_database
@pytest.mark.parametrize(
    ("log_level", "wanted"),
    [
        ("INFO", {"accounts.errors", "accounts.access"}),
        ("WARNING", {"accounts.errors"}),
        ("ERROR", {"accounts.errors"}),
        ("CRITICAL", set()),
    ],
)
def test_log_level_is_the_least_that_is_logged(failing, log_level, wanted):
    client, log = failing(log_level=log_level, log_format="json")
    client.get("/api/fails")
    assert {line["logger"] for line in log.records()} == wanted


@on_one_database
def test_second_application_in_a_process_adds_no_second_line(make_app):
    make_app()
    client = make_app().test_client()
    log = Log()
    client.get("/healthz")
    assert len(log.lines()) == 1
