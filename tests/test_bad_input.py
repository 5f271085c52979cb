"""Whatever a client sends, the answer is one of the contract's, and never a 500."""

import io
import json

import pytest
from endpoints import API, ENDPOINTS, UNKNOWN_ID, WITH_BODY
from helpers import failure, on_both_slowly, rows, success

from models import Event
from web.bodies import MAX_BODY
from web.openapi import possible_errors

# All bodies are read by the same code: it is tested with an endpoint that needs a token, and one
# that needs none.
TWO = [each for each in WITH_BODY if each.rule in ("/api/auth/login", "/api/users/profile")]
each_of_two = pytest.mark.parametrize("endpoint", TWO, ids=str)
every_endpoint = pytest.mark.parametrize("endpoint", API, ids=str)
NOT_AN_OBJECT = {
    "empty": b"",
    "not JSON": b"email=me@example.org",
    "two": b"{}{}",
    "list of an object": b"[{}]",
    "string": b'"text"',
    "null": b"null",
    "deep lists": b'{"a":' + b"[" * 20_000 + b"]" * 20_000 + b"}",
    "deep objects": b'{"a":' * 10_000 + b"7" + b"}" * 10_000,
    "NaN": b'{"email": NaN}',
    "Infinity": b'{"email": -Infinity}',
    "byte order mark": b'\xef\xbb\xbf{"email": "a"}',
    "broken UTF-8": b'{"email": "\xff"}',
    "lone surrogate": rb'{"email": "\ud800"}',
    "NUL in a text": b'{"email": "\x00"}',
}
OTHER_TYPES = [
    None,
    *("", "text/plain", "text/json", "application/x-www-form-urlencoded"),
    *("multipart/form-data; boundary=x", "application/json-patch+json", "application/jsonx"),
    *("application", "json", "\u00e4\u0000"),
]
CONTROLS = ["\x00", "a\x00b", "a\x01b", "a\x1bb", "a\x7fb", "a\x85b", "\x00" * 64]

UNKNOWN_PATHS = [
    *("/nothing", "/api", "/api/", "/auth/", "/API/auth/login", "/api/auth/login/"),
    *("/api//auth/login", "/api/api/auth/login", "/auth/auth/login", "/api/auth/login%00"),
    *("/%00", "/api/auth/%zz", "/api/auth/%ff%fe", "/api/auth/%0d%0aSet-Cookie:%20a=b"),
    *("/api/auth/login;a=b", "/api/auth/x/../login", "/\u00e4/\U0001f600", "/" + "x/" * 2000),
    *("/.env", "/static/", "/static/nothing.js", "/static/../app.py", "/static/%2e%2e/app.py"),
    *("/static//etc/passwd", "/docs/assets/..%2f..%2fapp.py", "/docs/assets/nothing"),
    *("/openapi.json/", "/healthz/"),
]


class Broken(io.BytesIO):
    error = OSError("Invalid chunk size")

    def read(self, *_):
        raise self.error

    readline = readinto = readall = read1 = read


class Untouched(Broken):
    error = AssertionError("the body was read")


def stream(client, endpoint, body, length="", content_type="application/json", headers=None):
    """Send a body and say that it has some length, or in chunks, as gunicorn hands them on."""
    headers, environ = headers or {}, {"CONTENT_LENGTH": length}
    if not length:
        headers = headers | {"Transfer-Encoding": "chunked"}
        environ["wsgi.input_terminated"] = True
    return client.open(
        endpoint.path,
        method=endpoint.method,
        input_stream=io.BytesIO(body) if isinstance(body, bytes) else body,
        content_type=content_type,
        headers=headers,
        environ_overrides=environ,
    )


@pytest.fixture
def send(client, admin):
    """Send a body to an endpoint, with a token where it needs one."""

    def send(endpoint, body, content_type="application/json", **headers):
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return client.open(
            endpoint.path,
            method=endpoint.method,
            data=raw,
            content_type=content_type,
            headers={**headers, **(admin.headers if endpoint.operation.role else {})},
        )

    return send


def test_route_table_is_read():
    assert [bool(each.operation.role) for each in TWO] == [False, True]
    assert {str(endpoint) for endpoint in API} >= {
        *("POST /api/auth/register", "POST /api/auth/login", "POST /api/auth/refresh"),
        "DELETE /api/auth/sessions/<uuid:session_id>",
    }
    assert {e.path for e in ENDPOINTS if e not in API} == {"/healthz", "/readyz", "/metrics"}


@pytest.mark.asvs("1.1.1", "1.1.2")
@each_of_two
def test_body_that_is_no_json_object_is_refused(endpoint, send):
    for what, raw in NOT_AN_OBJECT.items():
        response = send(endpoint, raw)
        assert failure(response, 400, "invalid_request") == {}, what
        assert response.get_json()["message"].startswith("The body "), what
    failure(send(endpoint, b"", content_type=None), 400, "invalid_request")


@pytest.mark.asvs("3.5.1", "3.5.2", "3.5.3")
@each_of_two
def test_body_of_another_type_is_refused(endpoint, send):
    for content_type in OTHER_TYPES:
        failure(send(endpoint, endpoint.example, content_type), 415, "unsupported_media_type")
    failure(send(endpoint, b"", "text/plain"), 415, "unsupported_media_type")
    for coding, status in {"gzip": 415, "identity": 400}.items():
        response = send(endpoint, {"surprise": 1}, **{"Content-Encoding": coding})
        assert response.status_code == status
    # Its parameters and its case do not matter.
    for content_type in ("application/json; charset=utf-8", "Application/JSON"):
        response = send(endpoint, {"surprise": 1}, content_type)
        assert "surprise" in failure(response, 400, "invalid_request")


@pytest.mark.asvs("1.3.3")
@on_both_slowly  # Postgres takes no NUL in a text
@pytest.mark.parametrize("endpoint", WITH_BODY, ids=str)
def test_control_characters_never_get_through(endpoint, send):
    declared = {error.code for error in possible_errors(endpoint.operation) if error.status < 500}
    for name in endpoint.texts:
        for text in CONTROLS:
            response = send(endpoint, {**endpoint.example, name: text})
            code = response.get_json()["error"]["code"]
            assert code in declared, (text, response.text)
            failure(response, response.status_code, code)


@each_of_two
def test_body_of_64_kib_is_read_and_a_byte_more_is_too_large(endpoint, client, send, admin):
    fine = b'{"surprise": 1}'
    fits = fine + b" " * (MAX_BODY - len(fine))
    assert (MAX_BODY, len(fits)) == (65536, 65536)

    def send_chunked(body):
        return stream(client, endpoint, body, headers=admin.headers)

    for response in (send(endpoint, fits), send_chunked(fine), send_chunked(fits)):
        assert "surprise" in failure(response, 400, "invalid_request")
    for body in (fits + b" ", b"[" * 200_000):
        failure(send(endpoint, body), 413, "too_large")
        failure(send_chunked(body), 413, "too_large")
    assert failure(send_chunked(b""), 400, "invalid_request") == {}


@each_of_two
def test_body_that_breaks_off_is_refused(endpoint, client, admin):
    whole = json.dumps(endpoint.example).encode()  # and yet it is not all that was announced
    for body, length in ((Broken(), ""), (Broken(), "100"), (whole, "1000")):
        response = stream(client, endpoint, body, length, headers=admin.headers)
        failure(response, 400, "invalid_request")


@each_of_two
def test_announced_length_is_believed_when_it_is_too_much_or_odd(endpoint, client, admin):
    response = stream(client, endpoint, Untouched(), "9" * 20, headers=admin.headers)
    failure(response, 413, "too_large")
    for length in ("-1", "abc", "1e3", "\u0663"):
        response = stream(client, endpoint, b"", length, headers=admin.headers)
        failure(response, 400, "invalid_request")


@each_of_two
def test_query_is_no_body(endpoint, client, admin):
    query = "?email=me@example.org&email=x&password=y&%00=%ff&" + "&".join(endpoint.example)
    response = client.open(
        endpoint.path + query, method=endpoint.method, json={"surprise": 1}, headers=admin.headers
    )
    assert failure(response, 400, "invalid_request").keys() == {"surprise", *endpoint.required}


@pytest.mark.asvs("4.1.1")
def test_unknown_path_is_a_404_in_json(client):
    for path in UNKNOWN_PATHS:
        failure(client.get(path), 404, "not_found")
        if not path.startswith(("/static/", "/docs/assets/")):
            failure(client.post(path, data=b"{"), 404, "not_found")
    for path in ("//api/auth/options", "//auth/options", "///healthz"):
        failure(client.get(environ_overrides={"PATH_INFO": path}), 404, "not_found")


@pytest.mark.asvs("3.5.1", "3.5.2", "3.5.3", "13.4.2", "13.4.3", "13.4.4", "13.4.5")
@every_endpoint
def test_other_method_is_a_405_that_names_the_right_ones(endpoint, client):
    same = [other for other in API if other.path == endpoint.path]
    served = {other.method for other in same} | {"OPTIONS"}
    if any(each.method == "GET" and not each.operation.writes for each in same):
        served.add("HEAD")
    for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "TRACE", "FOO"} - served:
        response = client.open(endpoint.path, method=method, data=b"[" * 100)
        failure(response, 405, "method_not_allowed")
        assert set(response.headers["Allow"].split(", ")) == served
    response = client.options(endpoint.path)
    assert (response.status_code, response.data) == (200, b"")
    assert set(response.headers["Allow"].split(", ")) == served


def test_head_is_get_without_a_body(client, auth):
    for path in ("/healthz", "/readyz", "/openapi.json", "/api/auth/verify", "/auth/sessions"):
        response = client.head(path, headers=auth.headers)
        assert (response.status_code, response.data) == (200, b"")
    response = client.head("/api/auth/verify")
    assert (response.status_code, response.data) == (401, b"")
    assert client.head("/nothing").status_code == 404


def test_head_is_refused_where_get_changes_something(app, client, auth):
    before = rows(app, Event)
    response = client.head("/api/users/export", headers=auth.headers)
    assert response.status_code == 405
    assert {*response.headers["Allow"].split(", ")} == {"GET", "OPTIONS"}
    assert rows(app, Event) == before


def test_odd_host_header_is_answered_in_json(client):
    for host in ("", "evil.example", "a b", "[::1", "x:99999", "x:y", "\u00e4\u00ff", "a,b"):
        success(client.get("/healthz", headers={"Host": host}))
        failure(client.get("/nothing", headers={"Host": host}), 404, "not_found")
        failure(client.post("/api/auth/login", headers={"Host": host}), 400, "invalid_request")
    # No name has this length, and werkzeug says so.
    failure(client.get("/healthz", headers={"Host": "x" * 5000}), 400, "invalid_request")


@on_both_slowly  # Postgres takes no NUL in a text
@pytest.mark.parametrize("endpoint", [e for e in API if "<" in e.rule], ids=str)
def test_odd_path_parameter_is_refused(endpoint, client, admin):
    odd = ["%00", "a%00b", "not-a-uuid", "%F0%9F%98%80", "%ff", "%20", "..%5c", "%27--", "%25s"]
    odd += ["x" * 3000, f"%7B{UNKNOWN_ID}%7D", UNKNOWN_ID + "%0a", "%e2%80%ae"]
    if endpoint.name != "groups.save_group":  # which makes what is not there, in either case
        odd.append(UNKNOWN_ID.upper())
    for value in odd:
        response = client.open(
            endpoint.path.replace(UNKNOWN_ID, value),
            method=endpoint.method,
            json=endpoint.example if endpoint.operation.body else None,
            headers=admin.headers,
        )
        assert response.status_code in (400, 404), (value, response.text)
        failure(response, response.status_code, response.get_json()["error"]["code"])
