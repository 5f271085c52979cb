"""Counters in Redis instead of the database, and what happens when it is away."""

import shutil
import signal
import subprocess
import time
from contextlib import contextmanager

import pytest
from helpers import PASSWORD, failure, race, success
from real_service import PATIENCE, free_port
from redis import Redis
from redis.exceptions import ConnectionError
from sqlalchemy import select

from database import reading
from models import Counter
from services import counters

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


def guess(client, password="wrong", email="student@example.org"):
    return client.post("/api/auth/login", json={"email": email, "password": password})


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
    with one.app_context(), reading() as connection:
        assert connection.execute(select(Counter)).all() == []
    assert len(redis.stored()) == 4
    assert not any("student" in key or "127.0.0.1" in key for key in redis.stored())


def test_the_right_password_clears_in_redis_too(make_app, make_user, redis):
    make_user()
    client = make_app(ratelimit_enabled=True, ratelimit_storage_uri=redis.uri).test_client()
    for _ in range(3):
        for _ in range(9):
            failure(guess(client), 401, "invalid_credentials")
        success(guess(client, PASSWORD))


@pytest.fixture
def at_its_own(make_app, make_user, redis, monkeypatch):
    """A client of a service whose Redis can go away, and is asked again soon."""
    monkeypatch.setattr(counters, "REDIS_PAUSE", 0.5)
    make_user()
    return make_app(ratelimit_enabled=True, ratelimit_storage_uri=redis.uri).test_client()


def counts_by_itself(client):
    """Assert that right passwords pass and that wrong ones are counted, also many at once."""
    assert {each.status_code for each in race(lambda _: guess(client, PASSWORD), 8)} == {200}
    for _ in range(10):
        failure(guess(client), 401, "invalid_credentials")
    failure(guess(client, PASSWORD), 429, "too_many_requests")


def test_without_redis_each_process_counts_until_it_is_back(at_its_own, redis):
    redis.stop()
    counts_by_itself(at_its_own)
    redis.start()
    time.sleep(0.6)
    success(guess(at_its_own, PASSWORD))
    assert redis.stored()


@pytest.mark.parametrize("fault", ["silence", "no writes"])
def test_a_redis_that_is_silent_or_takes_no_writes_is_none(at_its_own, redis, monkeypatch, fault):
    monkeypatch.setattr(counters, "REDIS_PAUSE", 60)
    with redis.silent() if fault == "silence" else redis.full():
        counts_by_itself(at_its_own)


def test_a_password_is_reset_without_redis(at_its_own, redis, outbox):
    success(at_its_own.post("/api/auth/forgot-password", json={"email": "student@example.org"}))
    body = {"token": outbox.deliver_token(), "newPassword": "Another-Mug-Green-43"}
    redis.stop()
    success(at_its_own.post("/api/auth/reset-password", json=body))


def test_nothing_is_taken_back_twice_in_redis(make_app, redis):
    app = make_app(ratelimit_enabled=True, ratelimit_storage_uri=redis.uri)
    storage = app.extensions["limits"][0].storage
    assert storage.incr("key", 60) == 1
    for _ in range(3):
        storage.incr("key", 60, -1)
    assert storage.incr("key", 60) == 1
    storage.clear("key")
    assert storage.get("key") == 0
    assert storage.get_expiry("key")
    assert storage.check()
    storage.incr("LIMITS:key", 60)
    storage.reset()
