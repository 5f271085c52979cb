"""Postgres that is stopped, crashes, freezes and comes back under a running service."""

import time
from itertools import count

import pytest
from clients import Client, meanwhile, newcomer
from helpers import soon
from real_service import registration

# Seconds that an answer may take while Postgres cannot be reached, and while it is silent. Two and
# five are promised; the rest is for a machine that is busy with the tests.
UNREACHABLE, SILENT = 2.5, 5.5
# Seconds after the end of an outage until no call fails any more.
RECOVERY = 5.0


class Traffic:
    """Mixed requests, each of whose answers is right, or says soon that it cannot be given."""

    def __init__(self, service):
        self._service = service
        self._numbers = count()
        self._latest = {}
        self.right = 0
        self.unavailable = 0
        self.longest = 0.0
        self.bound = UNREACHABLE

    def acts(self, threads):
        """Return what so many threads of each kind do again and again."""
        kinds = [self._verify, self._read_profile, self._write_profile, self._forget_password]
        kinds += [self._log_in, self._move_on, self._register]
        return [
            self._act(kind, newcomer(self._service, f"{kind.__name__.strip('_')}-{number}"))
            for kind in kinds
            for number in range(threads)
        ]

    def _act(self, kind, client):
        def act():
            start = time.monotonic()
            answer = kind(client)
            seconds = time.monotonic() - start
            self.longest = max(self.longest, seconds)
            if answer.status in (200, 201):
                self.right += 1
                self._latest[kind.__name__] = start
            else:
                assert (answer.status, answer.code) == (503, "unavailable"), kind.__name__
                assert int(answer.headers["Retry-After"]) > 0
                self.unavailable += 1
                time.sleep(0.02)
            assert seconds < self.bound, f"{kind.__name__}: {answer.status}"

        return act

    def _verify(self, client):
        return client.call("GET", "/api/auth/verify")

    def _read_profile(self, client):
        return client.call("GET", "/api/users/profile")

    def _write_profile(self, client):
        return client.call("PUT", "/api/users/profile", {"bio": str(next(self._numbers))})

    def _log_in(self, client):
        return client.log_in()

    def _move_on(self, client):
        return client.move_on()

    def _register(self, client):
        body = registration(f"user{next(self._numbers)}")
        return client.call("POST", "/api/auth/register", body)

    def _forget_password(self, client):
        body = {"email": client.user["email"]}
        return client.call("POST", "/api/auth/forgot-password", body)

    def wait_until_well(self):
        """Return when for half a second all kinds were answered and none was refused."""
        start = time.monotonic()
        while True:
            since, refused = time.monotonic(), self.unavailable
            time.sleep(0.5)
            all_answered = all(latest > since for latest in self._latest.values())
            if all_answered and self.unavailable == refused:
                print(f"well after {time.monotonic() - start - 0.5:.1f} s: {self.report()}")
                return
            assert time.monotonic() - start < RECOVERY, "calls still fail"

    def wait_until_refused(self, number=1):
        wanted = self.unavailable + number
        soon(lambda: self.unavailable >= wanted)

    def report(self):
        return f"{self.right} right, {self.unavailable} times 503, longest {self.longest:.2f} s"


def test_lost_connections_and_a_restart_of_postgres_are_an_answer_or_a_503(own_postgres, run):
    traffic = Traffic(run(own_postgres.url))
    with meanwhile(traffic.acts(threads=1)):
        traffic.wait_until_well()
        for _ in range(3):
            own_postgres.end_connections()
        traffic.wait_until_well()
        own_postgres.stop()
        traffic.wait_until_refused(20)
        own_postgres.start()
        traffic.wait_until_well()


@pytest.mark.faults
def test_crashed_and_frozen_postgres_are_a_503_until_it_is_back(own_postgres, run):
    traffic = Traffic(run(own_postgres.url))
    # More than the pool has connections, so that some wait for others who wait for Postgres.
    with meanwhile(traffic.acts(threads=4)):
        traffic.wait_until_well()
        for _ in range(10):
            own_postgres.end_connections()
            time.sleep(0.2)
        traffic.wait_until_well()
        for _ in range(2):
            own_postgres.crash()
            time.sleep(3)
            own_postgres.start()
            traffic.wait_until_well()
        traffic.bound = SILENT
        for seconds in (3, 10):
            own_postgres.freeze()
            time.sleep(seconds)
            own_postgres.thaw()
            traffic.wait_until_well()


@pytest.mark.faults
def test_promoted_standby_takes_over_with_every_session(own_postgres, standby, run):
    hosts = [own_postgres.url.query["host"], standby.url.query["host"]]
    query = {"host": hosts, "target_session_attrs": "read-write"}
    traffic = Traffic(run(own_postgres.url.set(query=query)))
    with meanwhile(traffic.acts(threads=2)):
        traffic.wait_until_well()
        own_postgres.crash()
        traffic.wait_until_refused(20)
        standby.promote()
        traffic.wait_until_well()  # a refresh token that was lost would have been a 401


@pytest.mark.faults
def test_the_service_starts_without_postgres_and_serves_when_it_is_there(own_postgres, run):
    service = run(own_postgres.url)
    somebody = newcomer(service, "somebody")
    service.stop()
    own_postgres.stop()
    service.start(until="/healthz")
    somebody.hang_up()
    for _ in range(3):
        assert service.call("GET", "/healthz").status == 200
        assert service.call("GET", "/readyz").code == "unavailable"
        assert somebody.log_in().code == "unavailable"
    own_postgres.start()
    soon(lambda: service.call("GET", "/readyz").status == 200, RECOVERY)
    for worker in service.workers():
        with service.answered_by(worker):
            assert Client(service, somebody.user).log_in().status == 200
