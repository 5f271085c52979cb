"""Clients that keep the service waiting, and those that send what is not HTTP."""

import json
import socket
import time
from contextlib import ExitStack, contextmanager, suppress
from runpy import run_path
from types import SimpleNamespace

import pytest
from gunicorn.http import errors as unread
from real_service import deployed, registration
from sqlalchemy import URL

from config import ROOT, Settings
from web import worker
from web.headers import DEFAULTS

# As in impatient.conf.py, in seconds. What a test adds to them is for a busy machine.
SILENCE, LONGEST = 1.5, 4
BODY = b"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: 60\r\n\r\n"
LOGIN = b"POST /api/auth/login HTTP/1.1\r\n" + BODY
IMPATIENT = {"GUNICORN_CMD_ARGS": f"-c {ROOT / 'tests' / 'impatient.conf.py'}"}
CHUNKED = LOGIN.replace(b"Content-Length: 60", b"Transfer-Encoding: chunked")
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
DOWNLOAD = b"GET /docs/assets/swagger-ui-bundle.js HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(scope="module")
def service(folder, mail_server):
    """A service that does not wait long. The database does not matter here."""
    url = URL.create("sqlite", database=str(folder / "slow.db"))
    log = folder / "slow.log"
    with deployed(url, mail_server.port, log, **IMPATIENT) as service:
        yield service


@pytest.fixture(autouse=True)
def _no_traceback(service):
    yield
    assert "Traceback" not in service.log()


@contextmanager
def connected(service, sent=b"", buffer=0):
    """Open a connection and send something. `buffer` is what its system takes of an answer."""
    with socket.socket() as connection:
        connection.settimeout(20)
        if buffer:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        connection.connect(("127.0.0.1", service.port))
        with suppress(ConnectionError):  # it may be closed before all is sent
            connection.sendall(sent)
        yield connection


def everything(connection):
    """Return what comes until the service closes the connection."""
    return b"".join(iter(lambda: connection.recv(65536), b""))


def error_in(answer):
    """Return the status and the code of an error, which is all that came."""
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["error"]["code"]


def one_answer(connection):
    """Return one answer that is JSON, and leave the connection open."""
    answer = b""
    while not answer.endswith(b"}"):
        piece = connection.recv(65536)
        assert piece, answer
        answer += piece
    return answer


@pytest.fixture(scope="module")
def login(service):
    user = registration("hasty")
    assert service.call("POST", "/api/auth/register", user).status == 201
    return {"email": user["email"], "password": user["password"]}


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"GET /hea", id="half a request line"),
        pytest.param(b"GET /healthz HTTP/1.1\r\nHost: loc", id="half a header"),
        pytest.param(LOGIN + b"{", id="half a body"),
        pytest.param(CHUNKED + b"ff\r\n{", id="half a chunk"),
    ],
)
def test_a_silent_client_is_given_up_on(service, sent):
    started = time.monotonic()
    with connected(service, sent) as connection:
        answer = everything(connection)
    # Twice would mean that it was waited for again before the response.
    assert SILENCE <= time.monotonic() - started < 2 * SILENCE
    assert not answer or error_in(answer) == (400, "invalid_request")


@pytest.mark.parametrize("sent", [b"GET /", LOGIN.replace(b"60", b"60000"), CHUNKED + b"fff\r\n"])
def test_a_client_that_sends_a_byte_now_and_then_is_given_up_on(service, sent):
    started = time.monotonic()
    with connected(service, sent) as connection:
        connection.settimeout(SILENCE / 3)
        answer = None
        while answer is None:
            with suppress(TimeoutError):
                answer = everything(connection)
            with suppress(OSError):
                connection.send(b"x")
    assert LONGEST - SILENCE < time.monotonic() - started < LONGEST + SILENCE + 2
    assert not answer or error_in(answer) == (400, "invalid_request")


@pytest.mark.parametrize("shape", ["head", "body", "chunks"])
def test_a_slow_client_within_both_bounds_is_served(service, login, shape):
    body = json.dumps(login).encode()
    head, slow, expected = {
        "head": (b"", HEALTH, b"HTTP/1.1 200 "),
        "body": (LOGIN.replace(b"60", b"%d" % len(body)), body, b"HTTP/1.1 200 "),
        "chunks": (CHUNKED, b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body), b"HTTP/1.1 200 "),
    }[shape]
    with connected(service, head) as connection:
        for start in range(0, len(slow), 1 + len(slow) // 5):
            time.sleep(SILENCE / 3)
            connection.sendall(slow[start : start + 1 + len(slow) // 5])
        assert one_answer(connection).startswith(expected)


def test_a_client_that_reads_nothing_is_given_up_on(service):
    with connected(service, DOWNLOAD * 4, buffer=4096) as connection:
        time.sleep(SILENCE + 2)
        connection.settimeout(SILENCE)
        assert len(everything(connection)) < 5_000_000


def test_a_client_that_reads_a_little_now_and_then_is_given_up_on(service):
    with connected(service, DOWNLOAD * 4, buffer=4096) as connection:
        ends = time.monotonic() + LONGEST + SILENCE + 1
        while time.monotonic() < ends:
            connection.recv(4096)
            time.sleep(SILENCE / 10)
        assert len(everything(connection)) < 5_000_000


def test_time_in_which_the_client_is_idle_between_two_requests_does_not_count(service):
    with connected(service) as connection:
        for pause in (0, SILENCE + 1, LONGEST + 1):
            time.sleep(pause)
            connection.sendall(HEALTH)
            assert one_answer(connection).startswith(b"HTTP/1.1 200 ")


def test_slow_clients_with_a_thread_each_do_not_slow_down_the_others(service, login):
    # The workers do not share them evenly. One thread of each stays free, even if one gets all.
    threads = run_path(str(ROOT / "gunicorn.conf.py"))["threads"]
    with ExitStack() as crowd:
        for number in range(threads - 1):
            sent = (b"GET /hea", LOGIN + b"{", DOWNLOAD * 4)[number % 3]
            crowd.enter_context(connected(service, sent, buffer=4096))
        started = time.monotonic()
        for _ in range(3):
            assert service.call("GET", "/healthz").status == 200
            assert service.call("POST", "/api/auth/login", login).status == 200
        assert time.monotonic() - started < SILENCE


@pytest.mark.parametrize(
    "sent", [b"GET /healthz HTTP/1.0\r\n\r\n", b"no request\r\n\r\n"], ids=["answer", "error"]
)
def test_connections_that_clients_leave_open_do_not_stop_a_worker(service, sent):
    # gunicorn itself waits two seconds for each of them, one after the other.
    with ExitStack() as crowd:
        for _ in range(20):
            crowd.enter_context(connected(service, sent))
        started = time.monotonic()
        for _ in range(10):
            assert service.call("GET", "/healthz").status == 200
        assert time.monotonic() - started < 2


def test_a_stalled_body_is_a_bad_request_and_its_rest_is_no_request(service):
    with connected(service, LOGIN + b"{") as connection:
        answer = one_answer(connection)
        rest = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
        with suppress(ConnectionError):
            connection.sendall(rest * 2)
            everything(connection)
    assert error_in(answer) == (400, "invalid_request")
    assert "smuggled" not in service.log()


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(CHUNKED + b"no size\r\n", id="a broken chunk"),
        pytest.param(CHUNKED + b"1\r\n{}\r\n0\r\n\r\n", id="a chunk that is too long"),
        pytest.param(
            LOGIN.replace(b"60", b"20000000") + bytes(17_000_000), id="more than is thrown away"
        ),
    ],
)
def test_the_rest_of_a_refused_body_is_no_request(service, sent):
    with connected(service) as connection:
        with suppress(ConnectionError):
            connection.sendall(sent + b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2)
        answers = everything(connection)
    assert answers.count(b"HTTP/1.1 ") == 1
    assert answers.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 413 "))
    assert "smuggled" not in service.log()


@pytest.mark.parametrize("hangs_up", [True, False])
@pytest.mark.parametrize("shape", ["JSON", "multipart"])
def test_what_is_cut_off_is_not_acted_on_however_whole_it_looks(service, login, hangs_up, shape):
    if shape == "JSON":
        path, kind, body = "auth/login", "application/json", json.dumps(login).encode()
        headers = b""
    else:
        token = service.call("POST", "/api/auth/login", login).data["accessToken"]
        path, kind = "users/avatar", "multipart/form-data; boundary=b"
        body = (
            b'--b\r\nContent-Disposition: form-data; name="avatar"; filename="me"\r\n\r\n'
            b"no picture\r\n--b--\r\n"
        )
        headers = f"Authorization: Bearer {token}\r\n".encode()
    head = f"POST /api/{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n".encode()
    length = f"Content-Length: {len(body) + 9}\r\n\r\n".encode()
    with connected(service, head + headers + length + body) as connection:
        if hangs_up:
            connection.shutdown(socket.SHUT_WR)
        answer = everything(connection)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"could not be read to its end" in answer


def test_a_body_that_nobody_uses_must_be_whole_too(service, login):
    token = service.call("POST", "/api/auth/login", login).data["accessToken"]
    head = f"POST /api/auth/logout HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
    with connected(service, head.encode() + b"Content-Length: 9\r\n\r\nhalf") as connection:
        connection.shutdown(socket.SHUT_WR)
        assert everything(connection).startswith(b"HTTP/1.1 400 ")
    assert service.call("GET", "/api/auth/verify", token=token).status == 200
    with connected(service, head.encode() + b"Content-Length: 4\r\n\r\nhalf") as connection:
        connection.shutdown(socket.SHUT_WR)
        assert everything(connection).startswith(b"HTTP/1.1 200 ")


def test_a_request_after_a_refused_body_is_answered(service):
    body = b"x" * 200_000
    refused = LOGIN.replace(b"60", b"%d" % len(body)) + body
    last = HEALTH.replace(b"localhost", b"localhost\r\nConnection: close")
    with connected(service, refused + last) as connection:
        answers = everything(connection)
    assert answers.startswith(b"HTTP/1.1 413 ")
    assert answers.count(b"HTTP/1.1 200 ") == 1


def test_slow_clients_do_not_keep_a_service_that_is_told_to_stop(tmp_path, mail_server):
    url = URL.create("sqlite", database=str(tmp_path / "service.db"))
    log = tmp_path / "service.log"
    with ExitStack() as crowd, deployed(url, mail_server.port, log, **IMPATIENT) as service:
        for sent in (b"", b"GET /hea", LOGIN + b"{", HEALTH):
            crowd.enter_context(connected(service, sent))
        time.sleep(0.3)  # until the service has read them
        started = time.monotonic()
        service.stop()
        assert time.monotonic() - started < LONGEST + 3
    assert "Traceback" not in log.read_text()


def test_a_download_arrives_whole(service):
    sent = DOWNLOAD.replace(b"localhost", b"localhost\r\nConnection: close")
    with connected(service, sent, buffer=65536) as connection:
        time.sleep(SILENCE / 3)
        head, _, content = everything(connection).partition(b"\r\n\r\n")
    assert f"Content-Length: {len(content)}\r\n".encode() in head
    assert len(content) > 1_000_000


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\nX-Long: " + b"x" * 8200 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + b"X-Many: x\r\n" * 51 + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\nX-Forged : x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX-Bad: a\x85\x00forged\r\n\r\n", 400),
        (b"forged\x85 / HTTP/1.1\r\n\r\n", 400),
        (b"GET /forged\r\n\r\n", 400),
        (b"GET /forged HTTP/1.1\r\nX-Forged: x\r\n\r\n", 400),
        (b"GET / FORGED/9\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nExpect: forged\r\n\r\n", 417),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: forged\r\n\r\n", 501),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501),
        (b"POST / HTTP/1.1\r\nContent-Length: forged\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 forged\r\n\r\n", 400),
    ],
    ids=[
        *("long line", "long header", "many headers", "space in a name", "control character"),
        *("method", "no version", "no host", "version", "expectation", "transfer coding"),
        *("packed body", "length", "TLS"),
    ],
)
def test_what_is_no_request_gets_an_error_like_any_other(service, sent, status):
    before = len(service.log())
    with connected(service, sent) as connection:
        head, _, body = everything(connection).decode().partition("\r\n\r\n")
    first, *lines = head.split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    assert first.startswith(f"HTTP/1.1 {status} ")
    content = json.loads(body)
    assert content.keys() == {"success", "message", "error"}
    assert content["error"] == {"code": "invalid_request"}
    assert headers.items() >= DEFAULTS.items()
    assert headers["Content-Type"] == "application/json"
    assert headers["Content-Length"] == str(len(body))
    assert headers["Connection"] == "close"
    assert headers["Date"].endswith("GMT")
    (line,) = service.log()[before:].splitlines()
    assert f"request={headers['X-Request-ID']}" in line
    assert f"status={status}" in line
    assert "peer=127.0.0.1" in line
    assert "forged" not in line.lower()


def test_an_error_outside_of_the_application_is_an_internal_error(caplog):
    broken = worker.BoundedWorker.__new__(worker.BoundedWorker)
    settings = Settings(public_url="https://accounts.example.org")
    broken.wsgi = SimpleNamespace(extensions={"accounts": SimpleNamespace(settings=settings)})
    here, there = socket.socketpair()
    with here, there:
        broken.handle_error(None, here, ("127.0.0.1", 4711), RuntimeError("a detail"))
        # gunicorn knows the request when the application has sent such a header.
        broken.handle_error(object(), here, "", unread.InvalidResponseHeader("a detail"))
        answers = there.recv(65536).decode()
        there.close()
        broken.handle_error(None, here, "", unread.InvalidRequestLine("a client that has gone"))
    assert answers.count("HTTP/1.1 500 ") == answers.count('"internal_error"') == 2
    assert answers.count("Strict-Transport-Security: ") == 2
    assert "a detail" not in answers
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == [
        "a detail",
        "Invalid response header from the application: a detail",
    ]
