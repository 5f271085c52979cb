"""`python -m bench.timing`: does the time of a response tell whether an address has an account?

Asks about known and unknown addresses by turns, and compares the medians. See README.md.
"""

import argparse
import http.client
import json
import random
import statistics
import time
from collections.abc import Callable
from functools import partial

from bench.data import Data, email
from bench.databases import KINDS, databases
from bench.servers import PATIENCE, Server, Stack, started
from core import passwords

ADDRESSES = 10
WARM_UP = 10
CALLS_AFTER = 6
RESAMPLES = 2000
# The cheapest hash of other software: with it, a failed login must not be faster either.
IMPORTED = f"pbkdf2:sha256:1$salt${'0' * 64}"
Times = tuple[list[float], list[float]]


class Client:
    """A connection to the service."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)

    def calls_after(self, email: str) -> float:
        """Ask for a mail; return the seconds that a few cheap calls take right afterwards."""
        self.post("forgot-password", 200, email=email)
        start = time.perf_counter()
        for _ in range(CALLS_AFTER):
            self._connection.request("GET", "/healthz")
            self._connection.getresponse().read()
        return time.perf_counter() - start

    def wrong_password_of_a_name(self, email: str) -> float:
        """Log in with the username that goes with an address; return the seconds."""
        return self.post("login", 401, email=email.partition("@")[0], password="is not it")

    def wrong_code(self, email: str) -> float:
        """Try an access code; return the seconds until the response."""
        body = {"account": email, "code": "0000-0000-0000", "newPassword": "is not it"}
        return self.post("reset-password", 400, **body)

    def post(self, path: str, status: int, **body: str) -> float:
        """Return the seconds until the whole response is there."""
        headers = {"Content-Type": "application/json"}
        start = time.perf_counter()
        self._connection.request("POST", f"/api/auth/{path}", json.dumps(body), headers)
        response = self._connection.getresponse()
        response.read()
        assert response.status == status, f"{path} was answered with {response.status}"
        return time.perf_counter() - start


def measure(ask: Callable[..., float], calls: int, pause: float, first: int = 0) -> Times:
    """Ask for known addresses, from user `first` on, and for unknown ones by turns.

    Chance says which of the two comes first.
    """
    times: Times = ([], [])
    for number in range(-WARM_UP, calls):
        address = email(first + number % ADDRESSES)
        for unknown in random.sample((0, 1), 2):
            taken = ask(email=f"no-{address}" if unknown else address)
            if number >= 0:
                times[unknown].append(taken)
            time.sleep(pause)
    return times


def difference(known: list[float], unknown: list[float]) -> float:
    return (statistics.median(known) - statistics.median(unknown)) * 1e6


def row(name: str, times: Times) -> str:
    """Return a line: both medians, and their difference with its 95 % interval (bootstrap)."""
    drawn = sorted(
        difference(*(random.choices(kind, k=len(kind)) for kind in times)) for _ in range(RESAMPLES)
    )
    low, high = drawn[RESAMPLES // 40], drawn[-RESAMPLES // 40 - 1]
    medians = "".join(f"{statistics.median(kind) * 1e3:>10.3f}" for kind in times)
    verdict = "noise" if low <= 0 <= high else "a difference"
    return (
        f"{name:<24}{medians}{difference(*times):>+12.0f}   {low:+.0f} to {high:+.0f}   {verdict}"
    )


def main(arguments: list[str] | None = None) -> None:
    """Start a service on each database, and print what was measured."""
    parser = argparse.ArgumentParser(prog="python -m bench.timing", description=__doc__)
    parser.add_argument("--database", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--cost", type=int, default=10, help="of bcrypt (10)")
    parser.add_argument("--logins", type=int, default=200, help="of each kind (200)")
    parser.add_argument("--mails", type=int, default=400, help="requests of each kind (400)")
    parser.add_argument("--pause", type=float, default=0.02, help="seconds after a call (0.02)")
    options = parser.parse_args(arguments)
    for kind in options.database:
        with databases(kind) as (folder, make):
            data = Data(make("timing"), 1000, cost=options.cost)
            imported, invited = range(ADDRESSES, 2 * ADDRESSES), range(2 * ADDRESSES, 3 * ADDRESSES)
            data.store_hash(imported, IMPORTED)
            data.store_hash(invited, passwords.unusable())
            stack = Stack("this service", settings={"LOG_LEVEL": "WARNING"})
            server = Server(stack, data, folder, cost=options.cost, workers=1)
            with started(server):
                ask = Client(server.port)
                print(f"\n{kind}, milliseconds; the difference in microseconds")
                print(f"{'':<24}{'known':>10}{'unknown':>10}{'difference':>12}   95 of 100 cases")
                wrong = partial(ask.post, "login", 401, password="is not it")
                for name, first in (
                    ("login, wrong password", 0),
                    ("imported, not faster", imported.start),
                    ("without a password", invited.start),
                ):
                    times = measure(wrong, options.logins, options.pause, first)
                    print(row(name, times), flush=True)
                by_name = measure(ask.wrong_password_of_a_name, options.logins, options.pause)
                print(row("login by username", by_name))
                code = measure(ask.wrong_code, options.mails, options.pause)
                print(row("wrong access code", code))
                forgot = partial(ask.post, "forgot-password", 200)
                print(row("forgot-password", measure(forgot, options.mails, options.pause)))
                after = measure(ask.calls_after, options.mails // 2, options.pause)
                print(row(f"{CALLS_AFTER} calls right after it", after), flush=True)


if __name__ == "__main__":
    main()
