"""Counters in Redis instead of the database, and what happens when it cannot be used."""

import shutil
import signal
import subprocess
import time
from contextlib import contextmanager

import pytest
from helpers import PASSWORD, failure, login, on_one_database, race, rows, success
from real_service import PATIENCE, free_port
from redis import Redis
from redis.exceptions import ConnectionError

from core.passwords import Hasher
from models import Counter

# The limits do not touch the database then.
pytestmark = on_one_database
REDIS = shutil.which("redis-server")


@pytest.fixture
def redis(tmp_path):
    """A Redis that can be stopped and started, at one address."""
    if REDIS is None:
        pytest.skip("redis-server is not installed (Debian: apt-get install redis-server)")
    server = RedisServer(tmp_path, free_port())
    server.start()
    yield server
    server.stop()


class RedisServer:
    def __init__(self, folder, port):
        self.uri = f"redis://127.0.0.1:{port}/0"
        self._command = [REDIS, "--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder)]
        self._process = None

    def start(self):
        self._process = subprocess.Popen(
            [*self._command, "--save", ""], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return self.stored()
            except ConnectionError:
                assert time.monotonic() < deadline
                time.sleep(0.05)

    def stop(self):
        if self._process:
            self._process.terminate()
            self._process.wait(PATIENCE)
            self._process = None

    @contextmanager
    def silent(self):
        self._process.send_signal(signal.SIGSTOP)
        yield
        self._process.send_signal(signal.SIGCONT)

    @contextmanager
    def full(self):
        with Redis.from_url(self.uri) as client:
            client.config_set("maxmemory", 1)
            yield

    def stored(self):
        with Redis.from_url(self.uri, retry=None) as client:
            return sorted(key.decode() for key in client.scan_iter())


def test_redis_counts_for_all_processes_and_names_nobody(make_app, make_user, redis):
    make_user()
    one, other = (
        make_app(ratelimit_enabled=True, ratelimit_storage_uri=redis.uri) for _ in range(2)
    )
    for app in (one, other):
        for _ in range(5):
            failure(guess(app.test_client()), 401, "invalid_credentials")
    for app in (one, other):
        response = guess(app.test_client(), PASSWORD)
        failure(response, 429, "too_many_requests")
        assert 890 <= int(response.headers["Retry-After"]) <= 900
    assert rows(one, Counter) == []
    assert len(redis.stored()) == 5
    assert not any("student" in key or "127.0.0.1" in key for key in redis.stored())


def test_the_right_password_clears_in_redis_too(make_app, make_user, redis):
    make_user()
    client = make_app(ratelimit_enabled=True, ratelimit_storage_uri=redis.uri).test_client()
    for _ in range(3):
        for _ in range(9):
            failure(guess(client), 401, "invalid_credentials")
        success(guess(client, PASSWORD))


def guess(client, password="wrong"):
    return login(client, "student@example.org", password)


@pytest.fixture
def client(make_app, make_user, redis):
    make_user()
    return make_app(ratelimit_enabled=True, ratelimit_storage_uri=redis.uri).test_client()


def test_no_guess_of_a_race_slips_through_in_redis(client):
    statuses = [response.status_code for response in race(lambda _: guess(client), 30)]
    assert sorted(statuses) == [401] * 10 + [429] * 20


def complaints(caplog):
    found = [each.getMessage() for each in caplog.records if each.name == "accounts.limits"]
    caplog.clear()
    return found


def pass_unlimited(client, caplog, seconds=1, calls=12):
    """Assert that calls pass at once, and that the log says so in one line each."""
    for _ in range(calls):
        start = time.monotonic()
        failure(guess(client), 401, "invalid_credentials")
        assert time.monotonic() - start < seconds
        (line,) = complaints(caplog)
        assert line.startswith("Redis cannot be used, so this call is not limited: ")
    success(guess(client, PASSWORD))
    complaints(caplog)
    success(client.post("/api/auth/forgot-password", json={"email": "student@example.org"}))
    assert len(complaints(caplog)) == 1


def test_without_redis_calls_pass_until_it_is_back(client, redis, caplog):
    redis.stop()
    pass_unlimited(client, caplog)
    redis.start()
    for _ in range(10):
        failure(guess(client), 401, "invalid_credentials")
    failure(guess(client, PASSWORD), 429, "too_many_requests")


def test_the_service_starts_without_redis(make_app, make_user, redis, caplog):
    make_user()
    redis.stop()
    app = make_app(ratelimit_enabled=True, ratelimit_storage_uri=redis.uri)
    pass_unlimited(app.test_client(), caplog)


def test_a_silent_redis_costs_a_call_one_second(client, redis, caplog):
    with redis.silent():
        pass_unlimited(client, caplog, seconds=2, calls=3)


def test_calls_pass_when_redis_takes_no_writes(client, redis, caplog):
    with redis.full():
        pass_unlimited(client, caplog)


def test_a_password_is_reset_without_redis(client, redis, outbox, caplog):
    success(client.post("/api/auth/forgot-password", json={"email": "student@example.org"}))
    body = {"token": outbox.deliver_token(), "newPassword": "Another-Mug-Green-43"}
    redis.stop()
    success(client.post("/api/auth/reset-password", json=body))
    assert complaints(caplog) == ["a count could not be changed: StorageError"]


def test_no_count_goes_below_zero_in_redis(client, redis, monkeypatch):
    """A fault that comes after the end of the window is taken back."""

    def forget_and_fail(*_):
        with Redis.from_url(redis.uri) as server:
            server.flushdb()
        raise ZeroDivisionError

    with monkeypatch.context() as broken:
        broken.setattr(Hasher, "verify", forget_and_fail)
        failure(guess(client), 500, "internal_error")
    assert redis.stored() == []
