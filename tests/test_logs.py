"""One line for each event, nothing in it that could mislead its reader, and no secret."""

import json
import logging
import re
import threading

import pytest
from endpoints import API
from helpers import UNREACHABLE, Log, bearer, choose, failure, forgot, login, on_both, success

from database import transaction
from models import User

both_formats = pytest.mark.parametrize("log_format", ["text", "json"])

LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ (?P<level>[A-Z]+) (?P<logger>\S+) (?P<rest>.+)")


@pytest.mark.asvs("16.2.1", "16.2.2", "16.2.3", "16.2.4")
def test_request_is_one_line_without_its_query(client, auth):
    log = Log()
    response = client.get("/api/auth/verify?token=in-the-query", headers=auth.headers)
    (line,) = log.lines()
    found = LINE.fullmatch(line)
    assert (found["level"], found["logger"]) == ("INFO", "accounts.access")
    fields = dict(part.split("=", 1) for part in found["rest"].split()[1:])
    assert float(fields.pop("ms")) >= 0
    told = {"method": "GET", "path": "/api/auth/verify", "route": "/api/auth/verify"}
    told |= {"status": "200", "user": auth.user.id, "address": "127.0.0.1"}
    assert fields == told | {"request": response.headers["X-Request-ID"]}


def test_no_line_waits_for_a_lock(app):
    log, root = Log(), logging.getLogger()
    (handler,) = (h for h in root.handlers if h.get_name() == "accounts")
    handler.acquire()
    try:
        thread = threading.Thread(target=root.warning, args=("",), daemon=True)
        thread.start()
        thread.join(10)
    finally:
        handler.release()
    assert not thread.is_alive()
    assert " WARNING root " in log.text()


def test_line_of_a_request_fits_into_one_write_to_a_pipe(make_app):
    # POSIX keeps 4,096 bytes whole (PIPE_BUF). A longer line could be cut by that of another
    # process, and the rest of a path would look like a line of ours.
    for log_format in ("text", "json"):
        client, log = make_app(log_format=log_format).test_client(), Log()
        for char in ("x", "\x01", "\u20ac", '"'):
            client.get("/" + char * 8000, headers={"X-Request-ID": "x" * 128})
        assert max(len(line.encode()) for line in log.lines()) < 4000


@pytest.mark.asvs("16.2.1", "16.2.2", "16.2.3", "16.2.4")
def test_request_is_one_json_object_without_its_query(make_app):
    client = make_app(log_format="json").test_client()
    log = Log()
    response = client.post("/api/auth/login?token=in-the-query", json={})
    (line,) = log.records()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", line.pop("time"))
    assert line.pop("ms") >= 0
    told = {"level": "INFO", "logger": "accounts.access", "message": "request", "method": "POST"}
    told |= {"path": "/api/auth/login", "status": 400, "user": "-", "address": "127.0.0.1"}
    told |= {"route": "/api/auth/login"}
    assert line == told | {"request": response.headers["X-Request-ID"]}


HOSTILE_PATHS = [
    "/a\r\n2026-11-20T09:31:00Z INFO accounts.security login user=admin",
    *("/a\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029b", "/\x1b[31mred\x1b[0m\x9b2J\x07", "/\x00"),
    *("/\u00e4\u65e5\U0001f600", "/\u202eevil\u202c\ufeff\u200b", '/a" status=200 b="', "/a\\"),
    *("/a b=c", "/="),
]


@pytest.mark.asvs("16.4.1")
def test_path_cannot_make_a_second_line_or_field(make_app):
    client = make_app().test_client()
    for path, line in lines_of(client):
        assert LINE.fullmatch(line)["logger"] == "accounts.access"
        unquoted = re.sub(r'"(?:[^"\\]|\\.)*"', "quoted", line)
        names = ["method", "path", "route", "status", "ms", "user", "address", "request"]
        assert re.findall(r" (\w+)=", unquoted) == names, path
    client = make_app(log_format="json").test_client()
    for path, line in lines_of(client):
        record = json.loads(line)
        assert record["path"] == path or not path.isprintable()
        assert (record["status"], record["route"]) == (404, "-")


def lines_of(client):
    log = Log()
    for path in HOSTILE_PATHS:
        client.get("/", environ_overrides={"PATH_INFO": path.encode().decode("latin-1")})
        (line,) = log.text().splitlines()  # Python's idea of a line is the widest
        assert line.isprintable()
        yield path, line


@both_formats
def test_other_values_of_a_request_cannot_either(make_app, log_format):
    client = make_app(log_format=log_format, trusted_proxies=1).test_client()
    log = Log()
    names = ["X_FORWARDED_FOR", "X_REQUEST_ID", "USER_AGENT", "REFERER", "ORIGIN", "AUTHORIZATION"]
    for name in ["REQUEST_METHOD", "QUERY_STRING", *(f"HTTP_{name}" for name in names)]:
        client.get("/healthz", environ_overrides={name: 'a b="\x1b[31m\n2026 INFO x\u00e4\u0085'})
        assert len(log.lines()) == 1


@pytest.mark.asvs("16.2.1", "16.2.2", "16.2.3", "16.2.4", "16.3.1")
def test_security_events_are_one_line_each(make_app, make_user, outbox):
    client, user = make_app(log_format="json").test_client(), make_user()
    log = Log()
    headers = [bearer(success(login(client, user))["accessToken"]) for _ in range(2)]
    success(client.get("/api/auth/sessions", headers=headers[0]))
    assert [(line["message"], line["user"]) for line in log.events()] == [("login", user.id)] * 2
    response = client.delete("/api/auth/sessions", headers=headers[0])
    (line,) = log.events()
    told = {"message": "other_sessions_ended", "user": user.id, "address": "127.0.0.1"}
    assert line.items() >= {**told, "request": response.headers["X-Request-ID"]}.items()
    success(forgot(client, user.email))
    success(choose(client, outbox.deliver_token()))
    messages = [line["message"] for line in log.events()]
    assert messages == ["password_reset", "email_verified"]


@pytest.mark.asvs("13.4.2", "13.4.3", "13.4.4", "13.4.5", "16.3.4", "16.5.1", "16.5.2", "16.5.3")
def test_unexpected_error_is_told_to_the_log_and_to_nobody_else(failing_app):
    client, log = failing_app().test_client(), Log()
    response = client.get("/api/fails?token=in-the-query")
    assert failure(response, 500, "internal_error") == {}
    assert "detail" not in response.text
    assert "RuntimeError" not in response.text

    lines = log.lines()
    heads = [line for line in lines if LINE.fullmatch(line)]
    loggers = [LINE.fullmatch(line)["logger"] for line in heads]
    assert loggers == ["accounts.errors", "accounts.access"]
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
@on_both
def test_row_that_the_database_refuses_is_not_logged(make_app, log_format):
    app = make_app(new=True, log_format=log_format)
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


def test_unexpected_error_is_one_json_object(failing_app):
    client, log = failing_app(log_format="json").test_client(), Log()
    response = client.get("/api/fails")
    error, access = log.records()
    assert (error["level"], error["logger"]) == ("ERROR", "accounts.errors")
    assert error["request"] == access["request"] == response.headers["X-Request-ID"]
    assert error["traceback"].startswith("Traceback (most recent call last):\n")
    assert "RuntimeError: a secret detail" in error["traceback"]
    assert access["status"] == 500


# One of each shape: a read, writes, and a refresh, which is a single statement.
ASKING = ["auth.verify", "auth.login", "auth.register", "auth.refresh", "auth.forgot_password"]


@pytest.mark.asvs("16.5.1", "16.5.2", "16.5.3")
@pytest.mark.parametrize("endpoint", [each for each in API if each.name in ASKING], ids=str)
def test_database_that_is_away_is_503(make_app, auth, endpoint):
    client, log = make_app(database_url=UNREACHABLE).test_client(), Log()
    body = endpoint.example if endpoint.operation.body else {}
    if "refreshToken" in body:
        body["refreshToken"] = auth.refresh
    headers = auth.headers if endpoint.operation.role else {}
    response = client.open(endpoint.path, method=endpoint.method, json=body, headers=headers)
    failure(response, 503, "unavailable")
    assert int(response.headers["Retry-After"]) > 0
    assert "WWW-Authenticate" not in response.headers
    text = log.text()
    assert text.count(" ERROR accounts.errors ") == 1
    assert "secret" not in text
    assert "Traceback" not in text


def test_process_answers_while_the_database_is_away(make_app):
    client = make_app(database_url=UNREACHABLE).test_client()
    success(client.get("/healthz"))
    for path in ("/docs", "/openapi.json"):
        assert client.get(path).status_code == 200
    failure(client.get("/api/auth/verify"), 401, "token_missing")
    failure(client.post("/api/auth/login", json={}), 400, "invalid_request")
    failure(client.get("/readyz"), 503, "unavailable")


def test_log_level_is_the_lowest_that_is_logged(failing_app):
    both = ["accounts.errors", "accounts.access"]
    for log_level, wanted in (("CRITICAL", []), ("ERROR", both[:1]), ("INFO", both)):
        client, log = failing_app(log_level=log_level, log_format="json").test_client(), Log()
        client.get("/api/fails")
        assert [line["logger"] for line in log.records()] == wanted


@pytest.mark.asvs("16.2.1", "16.2.2", "16.2.3", "16.2.4")
def test_second_application_in_a_process_adds_no_second_line(make_app):
    make_app()
    client = make_app().test_client()
    log = Log()
    client.get("/healthz")
    assert len(log.lines()) == 1
