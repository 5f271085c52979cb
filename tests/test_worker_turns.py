"""A whole worker in this process: nothing that a client, a view or a lock does keeps a turn."""

import json
import os
import random
import socket
import threading
from contextlib import ExitStack, contextmanager, suppress
from errno import EMFILE
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse
from types import SimpleNamespace

import pytest
from gunicorn.config import Config
from helpers import PASSWORD, picture, race, soon

import database
from config import Settings
from config.providers import ProviderSettings
from core import turns
from extensions import components, db
from web import clients, worker

PATIENCE = 40  # seconds; only a hang takes so long
SETTINGS = SimpleNamespace(settings=Settings(public_url="https://accounts.example.org"))
LARGE = bytes(3_000_000)


class Views:
    """An application whose paths wait, fail and compute."""

    def __init__(self):
        self.extensions = {"accounts": SETTINGS}  # of which errors take their headers
        self.inside, self.most, self.threads = 0, 0, set()
        self.waits, self.over = threading.Semaphore(0), threading.Event()

    def __call__(self, environ, start_response):
        self.inside += 1
        self.most = max(self.most, self.inside)
        self.threads.add(threading.get_ident())
        view = getattr(self, environ["PATH_INFO"].strip("/"))
        try:
            body = view(environ)
        finally:
            self.inside -= 1
        start_response("200 OK", [("Content-Length", str(len(body)))])
        return [body]

    def fine(self, _environ):
        return b"fine"

    def large(self, _environ):
        return LARGE

    def fails(self, _environ):
        raise ValueError

    def waits_and_fails(self, _environ):
        self.inside -= 1
        try:
            with turns.waiting():
                raise ValueError
        finally:
            self.inside += 1

    def reads(self, environ):
        self.inside -= 1  # while it waits for the client, others work
        try:
            return environ["wsgi.input"].read()
        finally:
            self.inside += 1

    def waits_long(self, _environ):
        self.inside -= 1
        try:
            with turns.waiting():
                self.waits.release()
                assert self.over.wait(PATIENCE)
        finally:
            self.inside += 1
        return b"fine"

    def computes_long(self, _environ):
        self.waits.release()
        assert self.over.wait(2 * PATIENCE)
        return b"fine"


class Log:
    """gunicorn's log, which says nothing here."""

    def __getattr__(self, name):
        return lambda *_args, **_more: None


class InThread(worker.TurnsWorker):
    def init_signals(self):
        """Only the main thread of a process can."""


@pytest.fixture
def running(monkeypatch):
    """Return what runs a worker; a turn that is kept would stop it for good."""
    monkeypatch.setattr(turns, "LONG", PATIENCE)
    monkeypatch.setattr(clients, "SILENCE", 2)
    monkeypatch.setattr(clients, "LINGER", 0.1)

    @contextmanager
    def run(views=None, listener=None, **settings):
        cfg = Config()
        usual = {"threads": 24, "keepalive": 60, "errorlog": "/dev/null"}
        for name, value in (usual | settings).items():
            cfg.set(name, value)
        views = views or Views()
        listener = listener or socket.create_server(("127.0.0.1", 0), backlog=2048)
        app = SimpleNamespace(wsgi=lambda: views)
        made = InThread(1, os.getppid(), [listener], app, 30, cfg, Log())
        thread = threading.Thread(target=made.init_process)
        thread.start()
        soon(lambda: made.booted)
        try:
            place = {"listener": listener, "address": listener.getsockname()}
            yield SimpleNamespace(views=views, worker=made, thread=thread, **place)
        finally:
            if isinstance(views, Views):
                views.over.set()
            made.alive = False
            thread.join(PATIENCE)
            made.tmp.close()
            listener.close()

    return run


def ask(service, path, body=None):
    """Return the status and the body of an answer, on a connection of its own."""
    connection = HTTPConnection(*service.address, timeout=PATIENCE)
    try:
        connection.request("GET" if body is None else "POST", path, body)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


@contextmanager
def connected(service, count):
    """Lend connections that have said nothing yet."""
    with ExitStack() as crowd:
        connect = partial(socket.create_connection, service.address, PATIENCE)
        yield [crowd.enter_context(connect()) for _ in range(count)]


def send(service, sent, *, reads=0):
    """Send something, read a little, and hang up."""
    with socket.create_connection(service.address, PATIENCE) as connection, suppress(OSError):
        connection.sendall(sent)
        if reads:
            connection.recv(reads)


def test_no_request_of_any_kind_keeps_the_turn(running):
    head = b"POST /reads HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n"
    refused = b"POST /fine HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{"
    with running() as service:
        kinds = [
            lambda: ask(service, "/fine"),
            lambda: ask(service, "/fails"),
            lambda: ask(service, "/waits_and_fails"),
            lambda: ask(service, "/reads", b"x" * 100_000),
            lambda: ask(service, "/large"),
            lambda: send(service, b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n", reads=1),
            lambda: send(service, b"GET /fine HTTP/1.1\r\nHost: a\r\n\r\n" * 20, reads=1),
            lambda: send(service, head + b"half of it"),
            lambda: send(service, refused),
            lambda: send(service, b"\x16\x03\x01 no HTTP\r\n\r\n", reads=1),
            lambda: send(service, b"GET /fi"),
            lambda: send(service, b""),
        ]

        def client(number):
            for turn in range(40 * len(kinds)):
                with suppress(OSError, HTTPException):
                    kinds[(number + turn) % len(kinds)]()

        race(client, 6)
        assert service.views.most == 1
        assert ask(service, "/fine") == (200, b"fine")
        soon(lambda: not service.worker._clients)
        soon(lambda: service.worker._turns._holder is None)
        assert service.thread.is_alive()


@pytest.mark.slow
def test_ten_thousand_requests_of_every_kind_leave_all_places_free(
    make_app, running, make_user, log_in
):
    away = ProviderSettings(
        name="away", issuer="http://127.0.0.1:1", client_id="id", client_secret="secret"
    )
    app = make_app(oidc_providers=(away,))
    user, tokens, spent = make_user(), log_in(make_user("reader")), log_in(make_user("thief"))
    bearer = f"Authorization: {tokens.headers['Authorization']}\r\n".encode()
    parts = components(app)

    def crashes():
        raise ZeroDivisionError

    app.view_functions["health.healthz"] = crashes

    def request(line, body=b"", more=b"", length=None):
        kind = b"Content-Type: application/json\r\n"
        size = b"Content-Length: %d\r\n" % (len(body) if length is None else length)
        return b"%s HTTP/1.1\r\nHost: a\r\n%s%s%s\r\n%s" % (line, kind, size, more, body)

    def login(email, password):
        return request(
            b"POST /api/auth/login", json.dumps({"email": email, "password": password}).encode()
        )

    def avatar(content):
        body = b'--x\r\nContent-Disposition: form-data; name="avatar"; filename="a"\r\n\r\n'
        body += content + b"\r\n--x--\r\n"
        head = b"POST /api/users/avatar HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n" % len(body)
        return head + b"Content-Type: multipart/form-data; boundary=x\r\n" + bearer + b"\r\n" + body

    verify = request(b"GET /api/auth/verify", more=bearer)
    refresh = json.dumps({"refreshToken": spent.refresh}).encode()
    challenge = json.dumps({"challenge": "x" * 43}).encode()
    kinds = {
        "read": verify,
        "crash": request(b"GET /healthz"),
        "login": login(user.email, PASSWORD),
        "wrong login": login(user.email, "wrong"),
        "unknown": login("nobody@example.org", "wrong"),
        "write": request(b"PUT /api/users/profile", b'{"bio": "new"}', bearer),
        "reuse": request(b"POST /api/auth/refresh", refresh),
        "picture": avatar(picture()),
        "no picture": avatar(b"GIF89a"),
        "provider": request(b"POST /api/auth/providers/away/start", challenge),
        "no JSON": request(b"POST /api/auth/login", b"{"),
        "large": request(b"GET /openapi.json"),
        "pipelined": verify * 5,
        "half a body": request(b"POST /api/auth/login", b"{", length=1000),
        "half a head": b"GET /api",
        "no HTTP": b"\x16\x03\x01\r\n\r\n",
        "nothing": b"",
        "half a chunk": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n9",
    }

    def client(number):
        someone = random.Random(number)
        for _ in range(1250):
            sent, reads = someone.choice([*kinds.values()]), someone.choice([0, 1, 65536])
            if sent in silent and someone.random() < 0.9:
                reads = 0  # or it would wait until the service gives it up
            send(service, sent, reads=reads)

    silent = [kinds[name] for name in ("half a body", "half a head", "nothing", "half a chunk")]
    with running(app) as service:
        gunicorn = service.worker

        def places():
            with app.app_context():
                connections = db.engine.pool.checkedout()
            return {
                "turn": (gunicorn._turns._holder, len(gunicorn._turns._line)),
                "clients": (len(gunicorn._clients), len(gunicorn._ready)),
                "threads": gunicorn._started - len(gunicorn._parked),
                "database": (connections, database._sqlite_writers.locked()),
                "hashers": (parts.hasher._ours._free, parts.hasher._foreign._free),
                "pictures": parts.avatars._places._value,
                "provider": parts.providers["away"]._places._value,
            }

        soon(lambda: gunicorn._is_watching and places()["turn"] == (None, 0))
        before = places()
        race(client, 8)
        soon(lambda: places() == before)
        assert service.thread.is_alive()
        for _ in range(20):
            status, _body = ask(service, "/api/auth/options")
            assert status == 200


def test_others_are_answered_while_some_wait(running):
    with running() as service:
        waiting = [threading.Thread(target=ask, args=(service, "/waits_long")) for _ in range(20)]
        for thread in waiting:
            thread.start()
            assert service.views.waits.acquire(timeout=PATIENCE)
        for _ in range(50):
            assert ask(service, "/fine") == (200, b"fine")
        service.views.over.set()
        for thread in waiting:
            thread.join(PATIENCE)
        assert service.views.most == 1


def test_a_long_computation_does_not_keep_the_others(running, monkeypatch):
    monkeypatch.setattr(turns, "LONG", 0.05)
    with running() as service:
        thread = threading.Thread(target=ask, args=(service, "/computes_long"))
        thread.start()
        assert service.views.waits.acquire(timeout=PATIENCE)
        assert ask(service, "/fine") == (200, b"fine")
        service.views.over.set()
        thread.join(PATIENCE)
        assert ask(service, "/fine") == (200, b"fine")


def test_requests_one_after_the_other_stay_with_one_thread(running):
    with running() as service:
        connections = [HTTPConnection(*service.address, timeout=PATIENCE) for _ in range(8)]
        for _ in range(50):
            for connection in connections:
                connection.request("GET", "/fine")
            for connection in connections:
                assert connection.getresponse().read() == b"fine"
        for connection in connections:
            connection.close()
        assert len(service.views.threads) == 1


def test_silent_connections_take_no_thread_and_end_after_the_silence(running):
    with running() as service, connected(service, 300) as crowd:
        soon(lambda: len(service.worker._clients) == 300)
        assert ask(service, "/fine") == (200, b"fine")
        # They are still there, and the first to speak is answered.
        crowd[0].sendall(b"GET /fine HTTP/1.1\r\nHost: a\r\n\r\n")
        answer = HTTPResponse(crowd[0])
        answer.begin()
        assert answer.read() == b"fine"
        for silent in crowd[1:]:
            assert silent.recv(1) == b""


def test_a_process_leaves_the_next_connection_to_another(running, monkeypatch):
    monkeypatch.setattr(worker, "TICK", 1)
    monkeypatch.setattr(worker, "GRACE", 1)
    with running() as one, running(listener=one.listener) as two:
        clients_of = [one.worker._clients, two.worker._clients]
        with connected(one, 1):
            soon(lambda: any(clients_of))
            with connected(one, 1):
                soon(lambda: all(clients_of))
                assert [*map(len, clients_of)] == [1, 1]


def test_a_full_process_leaves_connections_to_wait(running):
    with running(worker_connections=30) as service:
        with connected(service, 40) as crowd:
            soon(lambda: len(service.worker._clients) >= 30 and not service.worker._listens)
            assert len(service.worker._clients) == 30
            for connection in crowd[:30]:
                connection.close()
            crowd[-1].sendall(b"GET /fine HTTP/1.1\r\nHost: a\r\n\r\n")
            assert crowd[-1].recv(12) == b"HTTP/1.1 200"
        assert ask(service, "/fine") == (200, b"fine")


def test_a_connection_for_which_no_file_is_free_waits(running, monkeypatch):
    faults = [OSError(EMFILE, "Too many open files")]

    class Listener(socket.socket):
        def accept(self):
            if faults:
                raise faults.pop()
            return super().accept()

    original = socket.create_server(("127.0.0.1", 0))
    with running(listener=Listener(fileno=original.detach())) as service:
        assert ask(service, "/fine") == (200, b"fine")
        assert not faults
        assert service.thread.is_alive()


def test_a_client_that_never_stops_asking_lets_others_in_between(running):
    served = []

    class Counting(Views):
        def first(self, _environ):
            self.beside = socket.create_connection(service.address, PATIENCE)
            self.beside.sendall(b"GET /other HTTP/1.1\r\nHost: a\r\n\r\n")
            return b""

        def again(self, _environ):
            served.append("again")
            return b""

        def other(self, _environ):
            served.append("other")
            return b""

    line = "GET /%s HTTP/1.1\r\nHost: a\r\n\r\n"
    with running(Counting()) as service, connected(service, 1) as (client,):
        client.sendall((line % "first" + line % "again" * 20).encode())
        soon(lambda: len(served) == 21)
        service.views.beside.close()
    assert served.index("other") < 5


def test_who_asked_while_all_threads_wait_is_answered_later(running, monkeypatch):
    with running(threads=2) as service, connected(service, 1) as (client,):
        soon(lambda: len(service.worker._clients) == 1)
        waiting = [threading.Thread(target=ask, args=(service, "/waits_long")) for _ in range(2)]
        for thread in waiting:
            thread.start()
            assert service.views.waits.acquire(timeout=PATIENCE)
        client.sendall(b"GET /fine HTTP/1.1\r\nHost: a\r\n\r\n")
        service.views.over.set()
        assert client.recv(12) == b"HTTP/1.1 200"
        for thread in waiting:
            thread.join(PATIENCE)


def test_no_thread_of_the_system_is_free(running, monkeypatch):
    def start(_thread):
        raise RuntimeError("can't start new thread")

    with running() as service:
        service.views.over.set()
        assert ask(service, "/fine") == (200, b"fine")
        with monkeypatch.context() as full:
            full.setattr(threading.Thread, "start", start)
            assert ask(service, "/waits_long") == (200, b"fine")
        assert service.thread.is_alive()


def test_a_fault_of_the_worker_itself_ends_it(running, monkeypatch):
    monkeypatch.setattr(turns, "LONG", 0.05)

    def fails(client, _seconds):
        client.close(lingers=False)
        raise ZeroDivisionError

    with running(graceful_timeout=1) as service:
        assert ask(service, "/fine") == (200, b"fine")
        monkeypatch.setattr(service.worker, "_keep", fails)
        with suppress(OSError, HTTPException), connected(service, 1) as (client,):
            client.sendall(b"GET /fine HTTP/1.1\r\nHost: a\r\n\r\n")
            client.recv(1)
        service.thread.join(PATIENCE)
        assert not service.thread.is_alive()
