"""Counters in Redis instead of the database, and what happens when it is away."""

import shutil
import subprocess
import time

import pytest
from helpers import PASSWORD, failure, success
from real_service import PATIENCE, free_port
from redis import Redis
from redis.exceptions import ConnectionError
from sqlalchemy import select

from database import reading
from models import Counter

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
    assert len(redis.stored()) == 3
    assert not any("student" in key or "127.0.0.1" in key for key in redis.stored())


def test_the_right_password_clears_in_redis_too(make_app, make_user, redis):
    make_user()
    client = make_app(ratelimit_enabled=True, ratelimit_storage_uri=redis.uri).test_client()
    for _ in range(3):
        for _ in range(9):
            failure(guess(client), 401, "invalid_credentials")
        success(guess(client, PASSWORD))


def test_without_redis_each_process_counts_until_it_is_back(make_app, make_user, redis):
    make_user()
    redis.stop()
    app = make_app(ratelimit_enabled=True, ratelimit_storage_uri=redis.uri)
    client = app.test_client()
    started = time.monotonic()
    success(guess(client, PASSWORD))
    for _ in range(10):
        failure(guess(client), 401, "invalid_credentials")
    failure(guess(client, PASSWORD), 429, "too_many_requests")
    assert time.monotonic() - started < 30

    redis.start()
    limiter, _ = app.extensions["limits"]
    deadline = time.monotonic() + 30
    while limiter._storage_dead:
        assert time.monotonic() < deadline
        guess(client, email="other@example.org")
        time.sleep(0.2)
    assert redis.stored()
