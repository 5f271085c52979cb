"""The time limits of a connection, and errors that no application can answer."""

import socket
import time
from types import SimpleNamespace

import pytest
from gunicorn.http import errors as unread

from config import Settings
from web import clients, worker


@pytest.fixture
def now(monkeypatch):
    """A clock that stands still: `now.seconds`."""
    now = SimpleNamespace(seconds=1000.0)
    monkeypatch.setattr(clients, "time", SimpleNamespace(monotonic=lambda: now.seconds))
    return now


@pytest.fixture
def client(now):
    """The client's end of a connection; the other end, which may read for 120 s, is
    `client.service`.
    """
    ours, client = socket.socketpair()
    service = clients.Client(ours, "", "")
    service.until = now.seconds + clients.LONGEST
    with client, ours:
        yield SimpleNamespace(sendall=client.sendall, recv=client.recv, service=service)


def test_a_request_may_take_120_seconds_and_its_response_10_more(now, client):
    now.seconds += 119
    client.sendall(b"x")
    assert client.service.recv(1) == b"x"
    client.sendall(b"x")
    now.seconds += 1
    with pytest.raises(ConnectionResetError):
        client.service.recv(1)
    client.service.until = now.seconds
    now.seconds += 9
    client.service.sendall(b"done")
    client.service.flush()
    assert client.recv(9) == b"done"
    now.seconds += 1
    client.service.sendall(b"done")
    with pytest.raises(ConnectionResetError):
        client.service.flush()


def test_silent_client_is_given_up_on_and_its_late_rest_is_not_read(client, monkeypatch):
    monkeypatch.setattr(clients, "SILENCE", 0.02)
    with pytest.raises(ConnectionResetError):
        client.service.sendall(bytes(10_000_000))
    with pytest.raises(ConnectionResetError):
        client.service.recv(9)
    client.sendall(b"too late")
    with pytest.raises(ConnectionResetError):
        client.service.recv(9)


def test_client_hears_the_response_before_the_end_whatever_it_still_sends(now, client):
    client.sendall(bytes(100_000))  # which nobody reads
    client.service.sendall(b"refused")
    client.service.close(lingers=False)
    assert client.recv(9) == b"refused"


def test_errors_outside_of_the_application_are_internal_errors(caplog):
    caplog.set_level("ERROR")  # the last application of a test may have set another
    broken = worker.TurnsWorker.__new__(worker.TurnsWorker)
    settings = Settings(public_url="https://accounts.example.org")
    broken.wsgi = SimpleNamespace(extensions={"accounts": SimpleNamespace(settings=settings)})
    here, there = socket.socketpair()
    with here, there:
        client = clients.Client(here, ("127.0.0.1", 4711), "")
        client.until = time.monotonic() + 1
        broken.handle_error(None, client, client.address, RuntimeError("a detail"))
        # The client has a part of a response, which a second one would seem to be a part of.
        broken.handle_error(object(), client, "", unread.InvalidHeader("a name"))
        client.flush()
        answer = there.recv(65536).decode()
    assert answer.count("HTTP/1.1 500 ") == answer.count('"internal_error"') == 1
    assert answer.count("Strict-Transport-Security: ") == 1
    assert "a detail" not in answer
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == [
        "a detail",
        "Invalid HTTP Header: 'a name'",
    ]
