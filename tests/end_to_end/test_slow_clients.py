"""Clients that keep the service waiting, and those that send what is not HTTP."""

import json
import socket
import time
from contextlib import ExitStack, contextmanager, suppress

import pytest
from helpers import soon
from real_service import PATIENCE, deployed
from sqlalchemy import URL

from config import ROOT
from web.headers import DEFAULTS

BODY = b"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: 60000\r\n\r\n"
LOGIN = b"POST /api/auth/login HTTP/1.1\r\n" + BODY
CHUNKED = LOGIN.replace(b"Content-Length: 60000", b"Transfer-Encoding: chunked")
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
DOWNLOAD = b"GET /docs/assets/swagger-ui-bundle.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
IMPATIENT = {"GUNICORN_CMD_ARGS": f"-c {ROOT / 'tests' / 'impatient.conf.py'}"}


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
def connected(service, sent=b""):
    """Open a connection that takes little of an answer at once, and send something."""
    with socket.socket() as connection:
        connection.settimeout(PATIENCE)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
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


@pytest.mark.parametrize(
    "sent", [b"", b"GET /hea", LOGIN + b"{"], ids=["nothing", "half a line", "half a body"]
)
def test_silent_client_is_given_up_on(service, sent):
    with connected(service, sent) as connection:
        answer = everything(connection)
    assert not answer or error_in(answer) == (400, "invalid_request")


def test_client_that_sends_a_byte_now_and_then_is_given_up_on(service):
    with connected(service, LOGIN) as connection:
        connection.settimeout(0.5)  # between two bytes
        answer = None
        while answer is None:
            with suppress(TimeoutError):
                answer = everything(connection)
            with suppress(OSError):
                connection.send(b"x")
    assert error_in(answer) == (400, "invalid_request")


def test_client_that_reads_nothing_is_given_up_on(service):
    # Sending works as long as the service reads, and fails once it has closed the connection.
    with connected(service, DOWNLOAD * 4) as connection, pytest.raises(ConnectionError):
        connection.sendall(bytes(100_000_000))


def test_connections_that_clients_leave_open_do_not_stop_a_worker(service):
    # gunicorn itself waits two seconds for each, in a thread: longer than a call waits.
    with ExitStack() as crowd:
        for _ in range(200):
            left_open = crowd.enter_context(connected(service, b"GET /healthz HTTP/1.0\r\n\r\n"))
            assert b" 200 " in everything(left_open)
        for _ in range(10):
            assert service.call("GET", "/healthz").status == 200


def test_connections_that_clients_leave_open_hold_no_thread(folder, mail_server):
    # This service waits for silent clients longer than a call waits for its answer.
    settings = {**IMPATIENT, "SILENCE": "600", "WEB_CONCURRENCY": "1"}
    url, log = URL.create("sqlite", database=str(folder / "slow.db")), folder / "open.log"
    last = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with deployed(url, mail_server.port, log, **settings) as service, ExitStack() as crowd:
        for _ in range(4):  # as many as it has threads
            assert b" 200 " in everything(crowd.enter_context(connected(service, last)))
        assert service.call("GET", "/healthz").status == 200


def test_answer_is_whole_for_a_client_that_sends_two_bytes_too_many(service):
    head = LOGIN.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    # The service reads blocks of this size, so it reads the request and leaves the two bytes.
    length = 8192 - len(head)
    login = b'{"email": "nobody", "password": "wrong"}'.ljust(length)
    request = head.replace(b"60000", b"%05d" % length) + login
    for _ in range(20):
        with connected(service, request + b"\r\n") as connection:
            assert error_in(everything(connection)) == (401, "invalid_credentials")


def test_refused_client_that_still_sends_reads_its_answer(service):
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"
    with connected(service, head) as connection:
        for _ in range(5):
            time.sleep(0.1)
            connection.sendall(b"A" * 5000)
        assert error_in(everything(connection)) == (501, "invalid_request")


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (CHUNKED + b"no size\r\n", (400, "invalid_request")),
        (CHUNKED + b"2\r\n{}xx0\r\n\r\n", (400, "invalid_request")),
        (LOGIN.replace(b"60000", b"20000000") + bytes(17_000_000), (413, "too_large")),
    ],
    ids=["chunk without a size", "too long a chunk", "more than is thrown away"],
)
def test_rest_of_a_refused_body_is_no_request(service, sent, error):
    with connected(service, sent + SMUGGLED * 2) as connection:
        assert error_in(everything(connection)) == error
    assert "smuggled" not in service.log()


@pytest.mark.asvs("4.2.1")
@pytest.mark.parametrize(
    "lengths",
    [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        b"Content-Length: 5\r\nContent-Length: 50\r\n",
    ],
)
def test_message_of_two_lengths_is_refused(service, lengths):
    # A proxy that goes by the other length would take the rest for the answer to somebody else.
    head = LOGIN.replace(b"Content-Length: 60000\r\n", lengths)
    with connected(service, head + b"0\r\n\r\n" + SMUGGLED) as connection:
        assert error_in(everything(connection)) == (400, "invalid_request")
    assert "smuggled" not in service.log()


def test_what_is_cut_off_is_not_acted_on_however_whole_it_looks(service):
    user = service.register("hasty")
    token = service.log_in(user).data["accessToken"]
    whole = json.dumps({"email": user["email"], "password": user["password"]}).encode()
    part = b'Content-Disposition: form-data; name="avatar"; filename="me"\r\n\r\nno picture'
    for path, kind, body in (
        ("auth/login", "application/json", whole),
        ("users/avatar", "multipart/form-data; boundary=b", b"--b\r\n" + part + b"\r\n--b--\r\n"),
        ("auth/logout", "text/plain", b"a body that nobody uses"),
    ):
        head = (
            f"POST /api/{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n"
            f"Authorization: Bearer {token}\r\nContent-Length: {len(body) + 9}\r\n\r\n"
        )
        with connected(service, head.encode() + body) as connection:
            connection.shutdown(socket.SHUT_WR)
            answer = everything(connection)
        assert answer.startswith(b"HTTP/1.1 400 "), path
        assert b"could not be read to its end" in answer
    assert service.call("GET", "/api/auth/verify", token=token).status == 200


def test_slow_clients_do_not_keep_a_service_that_is_told_to_stop(service):
    with ExitStack() as crowd:
        for sent in (b"", b"GET /hea", LOGIN + b"{"):
            crowd.enter_context(connected(service, sent))
        # Connections are accepted in their order, so the service has these by then.
        assert service.call("GET", "/healthz").status == 200
        service.stop()
    # One that is killed at the end of its time does not say so.
    assert service.log().count("Worker exiting") == 2
    service.start()


FORGED = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: forged\r\n\r\n"


@pytest.mark.asvs("3.4.3", "3.4.4", "3.4.5", "3.4.6")
@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\n" + b"X-Many: x\r\n" * 51 + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\nX-Bad: a\x85\x00forged\r\n\r\n", 400),
        (b"GET /forged?token=forged\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX-Forged: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nExpect: forged\r\n\r\n", 417),
        (FORGED, 501),
        (FORGED.replace(b"forged", b"gzip, chunked"), 501),
        (FORGED.replace(b"forged", b"identity, chunked") + b"0\r\n\r\n", 501),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 forged\r\n\r\n", 400),
    ],
    ids=[
        *("long line", "many headers", "control character", "no version", "no host"),
        *("expectation", "transfer coding", "packed body", "two codings", "TLS"),
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
    # The line of the request before may come late.
    this = f"request={headers['X-Request-ID']}"
    soon(lambda: this in service.log()[before:])
    (line,) = (line for line in service.log()[before:].splitlines() if this in line)
    assert f"status={status}" in line
    assert "=127.0.0.1" in line  # the peer, or the address of what could be read
    assert "forged" not in line.lower()
