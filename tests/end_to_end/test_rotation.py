"""Two machines get another key or algorithm, one after the other, while clients call on."""

import itertools
import os
import signal
from contextlib import ExitStack
from functools import partial

import jwt
import psutil
import pytest
from helpers import meanwhile, soon
from real_service import Service, empty_database, free_port, migrate, production

OLD = "the first secret is also long enough to sign tokens"
NEW = "the next secret is also long enough to sign tokens"
START = "TOKEN_ALGORITHM=HS256", f"SECRET_KEY={OLD}"
ES256 = "TOKEN_ALGORITHM=ES256", f"SECRET_KEY={OLD}"
ROTATION = (
    (*ES256, f"SECRET_KEY_FALLBACKS={NEW}"),
    (ES256[0], f"SECRET_KEY={NEW}", f"SECRET_KEY_FALLBACKS={OLD}"),
    (ES256[0], f"SECRET_KEY={NEW}"),
)
END = START[0], f"SECRET_KEY={NEW}"


class Visitor:
    """Somebody who calls the machines by turns, and refreshes when a token has expired."""

    def __init__(self, machines, name):
        self._machines = itertools.cycle(machines)
        user = next(self._machines).register(name)
        self.tokens = next(self._machines).log_in(user).data
        self.expired = self.refreshed = 0

    def call_on(self, keys):
        """Refresh once, and use the token a few times; `keys`: another service verifies it too."""
        self.refresh()
        for _ in range(4):
            token = self.tokens["accessToken"]
            answer = next(self._machines).call("GET", "/api/auth/verify", token=token)
            if answer.status == 401 and answer.code == "token_expired":
                self.expired += 1
                self.refresh()
                continue
            assert answer.status == 200, answer
            for other_service in keys:
                key = other_service.get_signing_key_from_jwt(token)
                jwt.decode(token, key, algorithms=["ES256"], audience="accounts:access")

    def refresh(self):
        body = {"refreshToken": self.tokens["refreshToken"]}
        self.tokens = next(self._machines).call("POST", "/api/auth/refresh", body).data
        self.refreshed += 1


@pytest.fixture(params=["postgres"])
def machines(request, tmp_path, tree):
    url = empty_database(request, tmp_path)
    migrate(url)
    (tree / ".env").write_text("\n".join(START))
    ports = [free_port(), free_port()]
    env = production(url, free_port(), ports[0]) | {"WEB_CONCURRENCY": "1"}
    for line in ROTATION[0]:
        del env[line.partition("=")[0]]
    both = [Service(env, port, tmp_path / f"{port}.log", tree) for port in ports]
    with ExitStack() as stack:
        for machine in both:
            stack.callback(machine.stop)
            machine.start()
        yield both


def test_key_and_algorithm_change_while_clients_call_on(machines, tree):
    visitors = [Visitor(machines, f"visitor{number}") for number in range(3)]
    masters = [psutil.Process(machine.workers(1)[0]).ppid() for machine in machines]
    keys = []

    def reload_with(lines):
        (tree / ".env").write_text("\n".join(lines))
        for machine, master in zip(machines, masters, strict=True):
            done = ended(machine)
            os.kill(master, signal.SIGHUP)
            soon(lambda: ended(machine) > done)  # noqa: B023
            assert machine.call("GET", "/healthz").status == 200
        before = [visitor.refreshed for visitor in visitors]
        # By then no token from before is in use, which the last step of the rotation requires.
        soon(lambda: all(map(moved_on, visitors, before)))

    def ended(machine):
        return machine.log().count("Worker exiting")

    def moved_on(visitor, before):
        return visitor.refreshed > before + 1

    def expired():
        return sum(visitor.expired for visitor in visitors)

    with meanwhile([partial(visitor.call_on, keys) for visitor in visitors]):
        reload_with(ES256)
        switched = expired()
        url = f"{machines[0].url}/.well-known/jwks.json"
        for step in ROTATION:
            # Another service fetches the list anew before the next step, as if time had passed.
            keys[:] = [jwt.PyJWKClient(url)]
            reload_with(step)
        rotated = expired()
        keys.clear()
        reload_with(END)
    assert rotated == switched
    assert 0 < switched < expired()
