"""Postgres that is stopped, crashes, freezes and comes back under a running service."""

from collections import Counter
from functools import partial

import pytest
from clients import newcomer
from helpers import meanwhile, soon

pytestmark = pytest.mark.faults


class Traffic:
    """Mixed requests, each of whose answers is right, or says that it cannot be given now."""

    def __init__(self, service):
        self._service = service
        self._right, self._refused = Counter(), set()

    def acts(self, threads):
        """Return what so many threads of each kind do again and again."""
        acts = []
        calls = {
            "verify": ("GET", "/api/auth/verify"),
            "read": ("GET", "/api/users/profile"),
            "write": ("PUT", "/api/users/profile", {"bio": "New"}),
        }
        for kind in (*calls, "forget_password", "log_in", "move_on"):
            for number in range(threads):
                client = newcomer(self._service, f"{kind}-{number}")
                act = partial(client.call, *calls[kind]) if kind in calls else getattr(client, kind)
                acts.append(partial(self._expect_right_or_503, client.user["username"], act))
        self._clients = len(acts)
        return acts

    def _expect_right_or_503(self, name, act):
        answer = act()
        if answer.status == 200:
            self._right[name] += 1
        else:
            assert (answer.status, answer.code) == (503, "unavailable"), name
            assert int(answer.headers["Retry-After"]) > 0
            self._refused.add(name)
            self._right.clear()

    def wait_until_well(self):
        """Return when each client was answered some times and meanwhile none was refused."""
        self._right.clear()
        soon(lambda: sum(count >= 5 for count in self._right.copy().values()) == self._clients)

    def wait_until_refused(self):
        """Return when none of the clients waits for the database any more."""
        self._refused.clear()
        soon(lambda: len(self._refused) == self._clients)


def test_each_outage_of_postgres_is_a_503_until_it_is_back(own_postgres, run):
    traffic = Traffic(run(own_postgres.url))
    # More than the pool has connections, so that some wait for others who wait for Postgres.
    with meanwhile(traffic.acts(threads=4)):
        traffic.wait_until_well()
        for outage, end in (
            (own_postgres.stop, own_postgres.start),
            (own_postgres.crash, own_postgres.start),
            (own_postgres.freeze, own_postgres.thaw),
        ):
            outage()
            traffic.wait_until_refused()
            end()
            traffic.wait_until_well()


def test_promoted_standby_takes_over_with_every_session(own_postgres, standby, run):
    hosts = [own_postgres.url.query["host"], standby.url.query["host"]]
    query = {"host": hosts, "target_session_attrs": "read-write"}
    traffic = Traffic(run(own_postgres.url.set(query=query)))
    with meanwhile(traffic.acts(threads=2)):
        traffic.wait_until_well()
        own_postgres.crash()
        traffic.wait_until_refused()
        standby.promote()
        traffic.wait_until_well()  # a refresh token that was lost would have been a 401
