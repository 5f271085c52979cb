"""Clients that keep the service waiting, and those that send what is no request at all."""

import io
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from gunicorn.http import errors as unread
from PIL import Image
from real_service import MailServer, Service, deployed, read_answer, registration
from sqlalchemy import URL

from config import ROOT, THREADS, Settings
from web import worker
from web.headers import DEFAULTS

WORKERS = 2
# As in impatient.conf.py; in seconds.
PATIENCE = 0.7
# The workers do not share them evenly; if one gets them all, it has four for each thread.
AT_ONCE = 3 * THREADS
TURNS = 4
BODY = b"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: 60\r\n\r\n"
LOGIN = b"POST /api/auth/login HTTP/1.1\r\n" + BODY
IMPATIENT = {"GUNICORN_CMD_ARGS": f"-c {ROOT / 'tests' / 'impatient.conf.py'}"}
DOWNLOAD = b"GET /docs/assets/swagger-ui-bundle.js HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(scope="module")
def service(folder: Path, mail_server: MailServer) -> Iterator[Service]:
    """A service that does not wait long. The database does not matter here."""
    url = URL.create("sqlite", database=str(folder / "slow.db"))
    log = folder / "slow.log"
    with deployed(url, mail_server.port, log, **IMPATIENT) as service:
        yield service


@pytest.fixture(autouse=True)
def _no_traceback(service: Service) -> Iterator[None]:
    yield
    assert "Traceback" not in service.log()


@contextmanager
def connected(service: Service, sent: bytes = b"", buffer: int = 0) -> Iterator[socket.socket]:
    """Open a connection and send something. `buffer` is what its system takes of an answer."""
    with socket.socket() as connection:
        connection.settimeout(20)
        if buffer:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        connection.connect(("127.0.0.1", service.port))
        with suppress(ConnectionError):  # it may be closed before all is sent
            connection.sendall(sent)
        yield connection


def everything(connection: socket.socket) -> bytes:
    """Return what comes until the service closes the connection."""
    return b"".join(iter(lambda: connection.recv(65536), b""))


def one_answer(connection: socket.socket) -> bytes:
    """Return one answer that is JSON, and leave the connection open."""
    answer = b""
    while not answer.endswith(b"}"):
        piece = connection.recv(65536)
        assert piece, answer
        answer += piece
    return answer


@contextmanager
def dripping(connections: list[socket.socket]) -> Iterator[None]:
    """Send a byte on each connection again and again."""
    done = threading.Event()

    def drip() -> None:
        while not done.wait(PATIENCE / 4):
            for connection in connections:
                with suppress(OSError):
                    connection.send(b"x")

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@pytest.fixture(scope="module")
def login(service: Service) -> dict[str, str]:
    user = registration("hasty")
    assert service.call("POST", "/api/auth/register", user).status == 201
    return {"email": user["email"], "password": user["password"]}


@pytest.mark.parametrize(
    ("sent", "drips"),
    [
        pytest.param(b"", False, id="nothing"),
        pytest.param(b"GET /hea", False, id="half a request line"),
        pytest.param(b"GET /healthz HTTP/1.1\r\nHost: loc", False, id="half a header"),
        pytest.param(LOGIN + b"{", False, id="half a body"),
        pytest.param(b"GET /", True, id="a request line in drips"),
        pytest.param(LOGIN.replace(b"60", b"60000"), True, id="a body in drips"),
        # The system takes up to 4 MB of them.
        pytest.param(DOWNLOAD * 4, False, id="a download that nobody takes"),
        pytest.param(b"GET /healthz HTTP/1.0\r\n\r\n", False, id="a connection left open"),
        pytest.param(b"no request\r\n\r\n", False, id="an error left open"),
        pytest.param(b"GET /healthz HTTP/1.0\r\n\r\n" + bytes(100_000), False, id="too much"),
    ],
)
def test_a_crowd_of_slow_clients_does_not_shut_out_the_others(
    service: Service, login: dict[str, str], sent: bytes, drips: bool
) -> None:
    with ExitStack() as crowd:
        connections = [
            crowd.enter_context(connected(service, sent, buffer=4096)) for _ in range(AT_ONCE)
        ]
        if drips:
            crowd.enter_context(dripping(connections))
        started = time.monotonic()
        for _ in range(WORKERS):
            assert service.call("GET", "/healthz").status == 200
            assert service.call("POST", "/api/auth/login", login).status == 200
        took = time.monotonic() - started
    assert took < TURNS * PATIENCE + 2


def test_a_silent_connection_is_closed(service: Service) -> None:
    started = time.monotonic()
    with connected(service) as connection:
        assert everything(connection) == b""
    # The worker looks once a second.
    assert PATIENCE <= time.monotonic() - started < PATIENCE + 3


def test_a_stalled_body_is_a_bad_request_and_its_rest_is_no_request(service: Service) -> None:
    with connected(service, LOGIN + b"{") as connection:
        answer = one_answer(connection)
        rest = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
        with suppress(ConnectionError):
            connection.sendall(rest * 2)
            everything(connection)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "invalid_request"
    assert "smuggled" not in service.log()


@pytest.mark.parametrize("chunked", [False, True])
def test_a_stalled_body_ends_the_connection(service: Service, chunked: bool) -> None:
    sent = LOGIN + b"{"
    if chunked:
        sent = LOGIN.replace(b"Content-Length: 60", b"Transfer-Encoding: chunked") + b"ff\r\n{"
    with connected(service, sent) as connection:
        assert everything(connection).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("hangs_up", [True, False])
@pytest.mark.parametrize("shape", ["JSON", "multipart"])
def test_what_is_cut_off_is_not_acted_on_however_whole_it_looks(
    service: Service, login: dict[str, str], hangs_up: bool, shape: str
) -> None:
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


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(LOGIN + b"{", id="a stalled body"),
        pytest.param(
            LOGIN.replace(b"Content-Length: 60", b"Transfer-Encoding: chunked") + b"no size\r\n",
            id="a broken chunk",
        ),
        pytest.param(
            LOGIN.replace(b"60", b"20000000") + bytes(17_000_000), id="more than is thrown away"
        ),
    ],
)
def test_the_answer_says_that_the_connection_closes(service: Service, sent: bytes) -> None:
    with connected(service) as connection:
        with suppress(ConnectionError):
            connection.sendall(sent)
        head = everything(connection).partition(b"\r\n\r\n")[0]
    assert head.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 413 "))
    assert b"Connection: close" in head


def test_nobody_keeps_a_service_that_is_told_to_stop(
    tmp_path: Path, mail_server: MailServer
) -> None:
    url = URL.create("sqlite", database=str(tmp_path / "service.db"))
    log = tmp_path / "service.log"
    with ExitStack() as crowd, deployed(url, mail_server.port, log, **IMPATIENT) as service:
        for sent in (b"", b"GET /hea", LOGIN + b"{"):
            crowd.enter_context(connected(service, sent))
        steady = crowd.enter_context(connected(service, LOGIN.replace(b"60", b"60000")))
        crowd.enter_context(dripping([steady]))
        time.sleep(0.3)  # until they have been met
        started = time.monotonic()
        service.stop()
        assert time.monotonic() - started < 6
    assert "Traceback" not in log.read_text()


def test_a_slow_but_steady_upload_is_taken(service: Service, login: dict[str, str]) -> None:
    token = service.call("POST", "/api/auth/login", login).data["accessToken"]
    file = io.BytesIO()
    Image.frombytes("RGB", (260, 260), os.urandom(3 * 260 * 260)).save(file, "PNG")
    body = (
        b'--b\r\nContent-Disposition: form-data; name="avatar"; filename="me"\r\n\r\n'
        + file.getvalue()
        + b"\r\n--b--\r\n"
    )
    assert len(body) > 200_000

    def slowly() -> Iterator[bytes]:
        for start in range(0, len(body), 10_000):
            yield body[start : start + 10_000]
            time.sleep(0.1)

    connection = service.connect()
    try:
        headers = {
            "Authorization": f"Bearer {token}",
            "Content-Type": "multipart/form-data; boundary=b",
            "Content-Length": str(len(body)),
        }
        connection.request("POST", "/api/users/avatar", slowly(), headers)
        assert read_answer(connection).status == 200
    finally:
        connection.close()


def test_each_request_of_a_connection_has_its_own_time(service: Service) -> None:
    with connected(service) as connection:
        for pause in (0.1, 1.6):
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: ")
            time.sleep(0.6 * PATIENCE)
            connection.sendall(b"localhost\r\n\r\n")
            assert one_answer(connection).startswith(b"HTTP/1.1 200 ")
            time.sleep(pause * PATIENCE)
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert one_answer(connection).startswith(b"HTTP/1.1 200 ")


def test_a_download_arrives_whole(service: Service) -> None:
    sent = DOWNLOAD.replace(b"localhost", b"localhost\r\nConnection: close")
    with connected(service, sent, buffer=65536) as connection:
        time.sleep(PATIENCE / 2)
        head, _, content = everything(connection).partition(b"\r\n\r\n")
    assert f"Content-Length: {len(content)}\r\n".encode() in head
    assert len(content) > 1_000_000


def test_an_answer_that_nobody_takes_is_not_kept(service: Service) -> None:
    with connected(service, DOWNLOAD * 4, buffer=4096) as connection:
        time.sleep(PATIENCE * 1.5)
        with pytest.raises(ConnectionResetError):
            everything(connection)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\nX-Long: " + b"x" * 17000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + b"X-Many: x\r\n" * 101 + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\nX-Forged : x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX-Bad: a\x85\x00forged\r\n\r\n", 400),
        (b"forged\x85 / HTTP/1.1\r\n\r\n", 400),
        (b"GET /forged\r\n\r\n", 400),
        (b"GET / FORGED/9\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nExpect: forged\r\n\r\n", 417),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: forged\r\n\r\n", 501),
        (b"POST / HTTP/1.1\r\nContent-Length: forged\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 forged\r\n\r\n", 400),
    ],
    ids=[
        "long line",
        "long header",
        "many headers",
        "space in a name",
        "control character",
        "method",
        "no version",
        "version",
        "expectation",
        "transfer coding",
        "length",
        "TLS",
    ],
)
def test_what_is_no_request_gets_an_error_like_any_other(
    service: Service, sent: bytes, status: int
) -> None:
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


# The socket alone, where a test need not wait for a service.


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[worker.ClientSocket, socket.socket]]:
    """Both ends of a connection: the service's, which waits for 0.2 seconds, and the client's."""
    monkeypatch.setattr(worker, "PATIENCE", 0.2)
    here, there = socket.socketpair()
    with worker.ClientSocket(here) as ours, there:
        ours.setblocking(True)  # as gunicorn does before each request
        yield ours, there


def later(seconds: float, act: Callable[[], object]) -> None:
    threading.Timer(seconds, act).start()


def test_time_in_which_the_application_works_does_not_count(
    pair: tuple[worker.ClientSocket, socket.socket],
) -> None:
    ours, there = pair
    there.sendall(b"the head")
    assert ours.recv(100) == b"the head"
    time.sleep(0.3)
    later(0.1, lambda: there.sendall(b"the body"))
    assert ours.recv(100) == b"the body"


def test_what_comes_too_late_is_never_read(
    pair: tuple[worker.ClientSocket, socket.socket],
) -> None:
    ours, there = pair
    assert ours.recv(100) == b""
    there.sendall(b"late")
    assert ours.recv(100) == b""
    ours.sendall(b"the answer that says so")
    assert there.recv(100) == b"the answer that says so"


def test_a_client_that_takes_nothing_breaks_the_pipe(
    pair: tuple[worker.ClientSocket, socket.socket],
) -> None:
    ours, _there = pair
    started = time.monotonic()
    with pytest.raises(BrokenPipeError):
        ours.sendall(bytes(10_000_000))
    assert time.monotonic() - started < 1


def test_a_file_is_sent_from_where_it_should_be(
    pair: tuple[worker.ClientSocket, socket.socket], tmp_path: Path
) -> None:
    ours, there = pair
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    with path.open("rb") as file:
        assert ours.sendfile(file, 2, 3) == 3
        assert ours.sendfile(file, 7) == 3
        assert ours.sendfile(file, 7, 100) == 3
    assert there.recv(100) == b"234789789"


def test_a_fault_below_the_application_is_an_internal_error(
    pair: tuple[worker.ClientSocket, socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    ours, there = pair
    broken = worker.Worker.__new__(worker.Worker)
    settings = Settings(public_url="https://accounts.example.org")
    broken.wsgi = SimpleNamespace(extensions={"settings": settings})
    broken.handle_error(None, ours, ("127.0.0.1", 4711), RuntimeError("a detail"))
    broken.handle_error(None, ours, "", unread.InvalidResponseHeader("a detail"))
    answers = there.recv(65536).decode()
    assert answers.count("HTTP/1.1 500 ") == answers.count('"internal_error"') == 2
    assert answers.count("Strict-Transport-Security: ") == 2
    assert "a detail" not in answers
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == [
        "a detail",
        "Invalid response header from the application: a detail",
    ]


def test_an_answer_to_a_client_that_has_gone_raises_nothing(
    pair: tuple[worker.ClientSocket, socket.socket],
) -> None:
    ours, there = pair
    there.close()
    broken = worker.Worker.__new__(worker.Worker)
    broken.wsgi = SimpleNamespace(extensions={"settings": Settings()})
    broken.handle_error(None, ours, ("127.0.0.1", 4711), unread.InvalidRequestLine("GET"))


def test_a_certificate_is_refused() -> None:
    with pytest.raises(SystemExit, match="proxy"):
        worker.Worker.check_config(SimpleNamespace(is_ssl=True), None)
