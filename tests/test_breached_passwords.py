"""New passwords are looked up at a service that knows those of breaches, which may misbehave."""

import hashlib
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest
from helpers import (
    NEW_PASSWORD,
    Log,
    change_password,
    choose,
    connections_held,
    failure,
    forgot,
    login,
    on_both,
    register,
    soon,
    success,
)

from config import ConfigError, load
from core import breaches
from core import clock as core_clock
from core.breaches import Breaches

STOLEN = "Stolen-Kettle-Rain-19"


def lines(password, count):
    digest = hashlib.sha1(password.encode()).hexdigest().upper()
    return f"{'0' * 35}:7\r\n{digest[5:].lower()}:{count}\r\n".encode()


def send(request, body, status=200, **headers):
    request.send_response(status)
    for name, value in headers.items():
        request.send_header(name, value)
    request.end_headers()
    request.wfile.write(body)


def knows(request, _over):
    """What a good service does; NEW_PASSWORD is padding."""
    send(request, lines(STOLEN, 3) + lines(NEW_PASSWORD, 0))


@pytest.fixture
def service():
    """A service of the form of Have I Been Pwned's on 127.0.0.1. What it `does` in place of an
    answer ends when the test is `over`.
    """
    known = SimpleNamespace(asked=[], does=knows, over=threading.Event())

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            known.asked.append((self.path, self.headers["Add-Padding"]))
            known.does(self, known.over)

        def log_message(self, *_arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.handle_error = lambda *_: None  # who asked has gone
        known.url = "http://127.0.0.1:{1}".format(*server.server_address)
        threading.Thread(target=server.serve_forever, args=(0.05,)).start()
        yield known
        known.over.set()
        server.shutdown()


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    """A machine with much to do is no trouble of the service."""
    monkeypatch.setattr(breaches, "PATIENCE", 40)


@pytest.fixture
def watchful(make_app, service):
    """An application that asks the service."""
    return make_app(new=True, breached_passwords=service.url)


@pytest.mark.asvs("6.2.12")
@on_both
def test_a_stolen_password_is_refused_wherever_one_is_chosen(
    watchful, service, make_user, log_in, outbox
):
    client, user = watchful.test_client(), make_user(email_verified_at=core_clock.utcnow())
    changed = change_password(client, log_in(user), new=STOLEN)
    success(forgot(client, user.email))
    token = outbox.deliver_token()
    refused = [register(client, password=STOLEN), changed, choose(client, token, STOLEN)]
    for response, field in zip(refused, ("password", "newPassword", "newPassword"), strict=True):
        assert failure(response, 400, "weak_password").keys() == {field}
        assert response.json["error"]["reasons"] == {field: ["breached"]}
    named = [f"--{each}={each[0]}{each}" for each in ("username", "first-name", "last-name")]
    made = watchful.test_cli_runner().invoke(
        args=["users", "create", "--email=a@b.org", *named], input=f"{STOLEN}\n"
    )
    assert (made.exit_code, "stolen" in made.output) == (1, True)
    success(choose(client, token, NEW_PASSWORD))  # the service has it with a count of 0


def test_five_digits_are_all_that_the_service_learns_and_only_of_new_passwords(
    watchful, service, make_user
):
    client, user = watchful.test_client(), make_user()
    success(login(client, user))
    failure(register(client, password="password1"), 400, "weak_password")  # in our own list
    assert service.asked == []
    success(register(client, password="ﬁve Lamps Green"), 201)
    digest = hashlib.sha1(b"five Lamps Green").hexdigest().upper()
    assert service.asked == [(f"/range/{digest[:5]}", "true")]


def drips(request, over):
    while not over.wait(0.05):
        request.wfile.write(b"0")


TROUBLES = {
    "redirect": lambda request, _: send(request, b"", 302, Location="/"),
    "broken": lambda request, _: send(request, b"", 500),
    "another page": lambda request, _: send(request, b"<p>Welcome!</p>"),
    "no ASCII": lambda request, _: send(request, lines(STOLEN, 3) + b"\xff"),
    "no number": lambda request, _: send(request, lines(STOLEN, "9" * 5000)),
    "too large": lambda request, _: send(request, lines(STOLEN, 3) * 10_000),
    "silent": lambda _, over: over.wait(),
    "slow body": lambda *both: (send(both[0], lines(STOLEN, 3)), drips(*both)),
    "slow head": drips,
}


@pytest.mark.slow  # each waits for a second
@pytest.mark.parametrize("trouble", TROUBLES)
def test_no_answer_in_a_second_is_no_hit(watchful, service, trouble, monkeypatch):
    """Without a deadline, this would wait until the end of the test, for ever."""
    monkeypatch.setattr(breaches, "PATIENCE", 0.3)
    log, service.does = Log(), TROUBLES[trouble]
    for number in range(2):
        success(register(watchful.test_client(), f"new{number}", password=STOLEN), 201)
    soon(lambda: len(service.asked) == 2)
    told = [line for line in log.lines() if "accounts.breaches" in line]
    assert len(told) == 1
    assert STOLEN not in str(told)


def test_the_look_up_of_a_name_that_hangs_holds_nobody(monkeypatch, service):
    monkeypatch.setattr(breaches, "PATIENCE", 0.2)

    def hangs(*_arguments):
        service.over.wait()
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", hangs)
    known, before = Breaches("http://range.test"), threading.active_count()
    monkeypatch.setattr(breaches, "IN_A_ROW", 100)
    with ThreadPoolExecutor(12) as threads:
        assert [*threads.map(known.why_breached, [STOLEN] * 12)] == [None] * 12
    assert threading.active_count() - before == breaches.PLACES


def test_four_are_asked_at_once_and_the_others_wait(service):
    places, taken = threading.Semaphore(breaches.PLACES), []

    def slow(request, over):
        taken.append(places.acquire(blocking=False))
        over.wait(0.02)
        knows(request, over)
        places.release()

    service.does, known = slow, Breaches(service.url)
    with ThreadPoolExecutor(12) as threads:
        assert [*threads.map(known.why_breached, [STOLEN] * 12)] == [breaches._BREACHED] * 12
    assert taken == [True] * 12


def test_who_waited_in_vain_says_nothing_of_the_service(service, monkeypatch):
    monkeypatch.setattr(breaches, "PATIENCE", 0.2)
    monkeypatch.setattr(breaches, "PLACES", 1)
    service.does, known = TROUBLES["silent"], Breaches(service.url)
    with ThreadPoolExecutor(6) as threads:
        assert [*threads.map(known.why_breached, [STOLEN] * 6)] == [None] * 6
    monkeypatch.setattr(breaches, "PATIENCE", 40)
    service.does = knows
    service.over.set()
    assert known.why_breached(STOLEN)


def test_after_three_failures_in_a_row_nothing_is_asked_for_a_minute(service, monkeypatch):
    passed, begin = [0], breaches.time.monotonic()
    clock = SimpleNamespace(monotonic=lambda: begin + passed[0])
    monkeypatch.setattr(breaches, "time", clock)
    known = Breaches(service.url)

    def asked(does, times=1):
        before, service.does = len(service.asked), does
        hits = [known.why_breached(STOLEN) for _ in range(times)]
        return len(service.asked) - before, bool(hits[-1])

    assert asked(TROUBLES["broken"], 2) == (2, False)
    assert asked(knows) == (1, True)  # so they were not three in a row
    assert asked(TROUBLES["broken"], 4) == (3, False)
    passed[0] = 59
    assert asked(knows) == (0, False)
    passed[0] = 61
    assert asked(knows) == (1, True)


def test_the_service_is_named_in_the_settings():
    for named in ("hibp", f"{breaches.HIBP}/range/"):
        assert load({"BREACHED_PASSWORDS": named}).breached_passwords == breaches.HIBP
    for wrong in ("hipb", "http://range.example", "https://range.example/?a"):
        with pytest.raises(ConfigError, match="BREACHED_PASSWORDS must be hibp, or an https URL"):
            load({"BREACHED_PASSWORDS": wrong})


@on_both
def test_nothing_is_held_while_the_service_is_asked(watchful, make_user, log_in, monkeypatch):
    held = connections_held(watchful, monkeypatch, Breaches, "why_breached")
    client = watchful.test_client()
    success(register(client), 201)
    success(change_password(client, log_in(make_user())))
    assert held == [0, 0]


def test_a_proxy_is_used(service, monkeypatch):
    monkeypatch.setenv("http_proxy", service.url)
    monkeypatch.delenv("no_proxy", raising=False)
    assert Breaches("http://range.test").why_breached(STOLEN)
    assert service.asked[0][0].startswith("http://range.test/range/")
