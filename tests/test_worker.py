"""The time limits of a connection, and errors that no application can answer."""

import socket
from types import SimpleNamespace

import pytest
from gunicorn.http import errors as unread

from config import Settings
from web import worker


@pytest.fixture
def now(monkeypatch):
    """A clock that stands still: `now.seconds`."""
    now = SimpleNamespace(seconds=1000.0)
    monkeypatch.setattr(worker, "time", SimpleNamespace(monotonic=lambda: now.seconds))
    return now


@pytest.fixture
def client():
    """The client's end of a connection; the other end is `client.service`."""
    ours, client = socket.socketpair()
    service = worker.ClientSocket(ours)
    with service, client:
        yield SimpleNamespace(sendall=client.sendall, recv=client.recv, service=service)


def test_each_request_of_a_connection_may_take_120_seconds_with_10_of_silence(
    now, client, monkeypatch
):
    monkeypatch.setattr(worker.ThreadWorker, "handle", lambda *_: True)
    conn = SimpleNamespace(sock=client.service)
    for _ in range(2):
        worker.BoundedWorker.__new__(worker.BoundedWorker).handle(conn)
        conn.sock.setblocking(True)
        assert conn.sock.gettimeout() == 10
        now.seconds += 119
        client.sendall(b"x")
        assert conn.sock.recv(1) == b"x"
    client.sendall(b"x")
    now.seconds += 1
    with pytest.raises(ConnectionResetError):
        conn.sock.recv(1)
    # An answer may take as long as a silence longer.
    now.seconds += 9
    conn.sock.sendall(b"done")
    conn.sock.flush()
    assert client.recv(9) == b"done"
    now.seconds += 1
    conn.sock.sendall(b"done")
    with pytest.raises(ConnectionResetError):
        conn.sock.flush()


def test_silent_client_is_given_up_on_and_its_late_rest_is_not_read(now, client, monkeypatch):
    monkeypatch.setattr(worker, "SILENCE", 0.02)
    client.service.setblocking(True)
    client.service.until = now.seconds + 10
    with pytest.raises(ConnectionResetError):
        client.service.sendall(bytes(10_000_000))
    with pytest.raises(ConnectionResetError):
        client.service.recv(9)
    client.sendall(b"too late")
    with pytest.raises(ConnectionResetError):
        client.service.recv(9)


def test_errors_outside_of_the_application_are_internal_errors(caplog):
    caplog.set_level("ERROR")  # the last application of a test may have set another
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
