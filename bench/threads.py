"""`python -m bench.threads`: how the threads and processes of the service share their work.

The service as it ships takes turns with a thin hand-written stack under gunicorn's own threads, in
rounds of seconds; each row has the lowest, the median and the highest of the rounds. See README.md.
"""

import argparse
import copy
import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from http.client import HTTPConnection
from pathlib import Path

from bench.data import Data
from bench.databases import KINDS, databases
from bench.far import far
from bench.servers import Round, Server, Stack, started

THREADS = ("-k", "gthread", "--threads", "16", "--keep-alive", "95")
# With an empty module in place of our gunicorn.conf.py, which loads the whole service.
THIN = Stack("thin", ("-c", "python:bench.stacks", *THREADS, "bench.stacks.thin:app"))
SERVICE = Stack("service")
READS = ("verify", "profile")
WRONG_LOGINS, SILENT = 96, 1000


def main(arguments: list[str] | None = None) -> None:
    """Print the table, for each database."""
    parser = argparse.ArgumentParser(prog="python -m bench.threads", description=__doc__)
    parser.add_argument("--database", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--rounds", type=int, default=5, help="of each row (5)")
    parser.add_argument("--seconds", type=int, default=1, help="of a round (1)")
    parser.add_argument("--no-fsync", action="store_true", help="the thin stack's, on SQLite")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    print("| database | measured | min | median | max | CPU µs | spread |")
    print("| --- | --- | ---: | ---: | ---: | ---: | --- |")
    for kind in options.database:
        with databases(kind) as (folder, make):
            Table(kind, Data(make("threads"), 10_000, cost=12), folder, options).print()


class Table:
    """The rows of one database."""

    def __init__(self, kind: str, data: Data, folder: Path, options: argparse.Namespace) -> None:
        self._kind, self._data, self._folder = kind, data, folder
        self._rounds, self._seconds = options.rounds, options.seconds
        sync = {"THIN_FSYNC": "0" if options.no_fsync else "1"}
        self._thin = THIN._replace(settings=sync)

    def print(self) -> None:
        """Measure all rows, and print each as soon as it is known."""
        ours, thin = self._server(SERVICE), self._server(self._thin)
        with started(ours, thin):
            for server in (ours, thin):
                server.load("verify", 1)
                server.settle()
            for connections in (16, 64):
                for operation in READS:
                    self._compare(operation, ours, thin, connections)
            self._compare("refresh", ours, thin, 16)
            for operation in READS:
                self._compare(f"{operation}, all to one process", ours, thin, 16)
        one, few = self._server(SERVICE, 1), self._server(SERVICE, 1)
        with started(one, few):
            self._compare("verify, one process, ÷ 1 connection", one, few, 16, than=1)
            self._silence(few)
        if self._kind == "postgres":
            self._far()
        with started(ours):
            self._logins(ours)
        self._start()

    def _far(self) -> None:
        """Print the ratio where the database is 2 ms away."""
        near = self._data
        with far(near.url, 0.002) as url:
            self._data = copy.copy(near)
            self._data.url = url
            ours, thin = self._server(SERVICE), self._server(self._thin)
            with started(ours, thin):
                self._compare("verify, 2 ms to the server", ours, thin, 16)
        self._data = near

    def _server(self, stack: Stack, workers: int = 2) -> Server:
        return Server(stack, self._data, self._folder, cost=12, workers=workers)

    def _row(self, what: str, figures: Sequence[float], cpu: str = "", spread: str = "") -> None:
        values = (min(figures), statistics.median(figures), max(figures))
        shown = " | ".join(f"{value:.3g}" for value in values)
        print(f"| {self._kind} | {what} | {shown} | {cpu} | {spread} |", flush=True)

    def _compare(
        self, what: str, ours: Server, other: Server, connections: int, *, than: int = 0
    ) -> None:
        """Print the ratio of rates, with `than` connections for the other one, and p99 ÷ median."""
        operation, _, way = what.partition(", ")
        loads = ((ours, connections), (other, than or connections))
        found: tuple[list[Round], list[Round]] = ([], [])
        spreads = []
        for number in range(self._rounds):
            for which in (number % 2, 1 - number % 2):
                server, count = loads[which]
                with _only_one_listens(server) if way.startswith("all") else nullcontext():
                    before = server.cpu()
                    wrk = server.begin(operation, self._seconds, count)
                    time.sleep(0.7)
                if server is ours:
                    spreads.append(_spread(server))
                seen = server.finish(wrk, operation)
                server.settle()
                micros = (server.cpu() - before) / seen.answers * 1e6
                found[which].append(seen._replace(cpu=micros))
        mine, others = found
        ratios = [one.rate / two.rate for one, two in zip(mine, others, strict=True)]
        cpu = " ÷ ".join(
            f"{statistics.median(each.cpu for each in rounds):.0f}" for rounds in found
        )
        title = what if than else f"{what}, ÷ thin"
        self._row(f"{title}, {connections} connections", ratios, cpu, " ".join(spreads))
        self._row(f"{what}: requests a second", [each.rate for each in mine])
        self._row(f"{what}: p99 ÷ median", [each.p99 / each.median for each in mine])

    def _logins(self, server: Server) -> None:
        """Print how long reads take beside wrong logins, and how many logins are answered."""
        token, times, answered = self._data.lines("verify")[0], [], []
        body = json.dumps({"email": "user0000001@example.org", "password": "a wrong password"})
        begin = time.monotonic()
        end = begin + 10

        def log_in(_number: int) -> None:
            while time.monotonic() < end:
                if _call(server, "POST", "/api/auth/login", body=body) == 401:
                    answered.append(time.monotonic())

        with ThreadPoolExecutor(WRONG_LOGINS) as clients:
            for number in range(WRONG_LOGINS):
                clients.submit(log_in, number)
            time.sleep(2)
            while (now := time.monotonic()) < end:
                assert _call(server, "GET", "/api/auth/verify", token=token) == 200
                times.append((time.monotonic() - now) * 1000)
                time.sleep(0.005)
            hashed = sum(begin + 2 < moment < end for moment in answered) / (end - begin - 2)
        self._row(f"read beside {WRONG_LOGINS} wrong logins, ms", times)
        self._row("logins a second beside the reads", [hashed])

    def _silence(self, server: Server) -> None:
        """Print how long others wait while many connections of a process say nothing."""
        good = self._data.lines("login")[0]
        crowd = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(SILENT)]
        for what, call in (
            ("/healthz", lambda: _call(server, "GET", "/healthz")),
            ("login", lambda: _call(server, "POST", "/api/auth/login", body=good)),
        ):
            self._row(f"{what} beside {SILENT} silent connections, ms", list(_timed(call, 5)))
        for each in crowd:
            each.close()

    def _start(self) -> None:
        """Print the first answers, and the memory after a thousand requests."""
        for stack in (SERVICE, self._thin):
            firsts, memory = [], []
            for _ in range(self._rounds):
                server = self._server(stack)
                with started(server) as taken:
                    firsts += taken
                    connection = HTTPConnection("127.0.0.1", server.port)
                    for token in self._data.lines("verify")[:500]:
                        for operation in READS:
                            path = {"verify": "/api/auth/verify", "profile": "/api/users/profile"}
                            headers = {"Authorization": f"Bearer {token}"}
                            connection.request("GET", path[operation], headers=headers)
                            connection.getresponse().read()
                    connection.close()
                    memory.append(server.memory())
            self._row(f"first answer, s, {stack.title}", firsts)
            self._row(f"memory of 2 processes, MiB (PSS), {stack.title}", memory)


def _timed(call: Callable[[], int], times: int) -> Iterator[float]:
    for _ in range(times):
        begin = time.monotonic()
        assert call() == 200
        yield (time.monotonic() - begin) * 1000


def _call(server: Server, method: str, path: str, *, token: str = "", body: str = "") -> int:
    connection = HTTPConnection("127.0.0.1", server.port, timeout=120)
    try:
        headers = {"Content-Type": "application/json"} if body else {}
        connection.request(
            method, path, body or None, headers | {"Authorization": f"Bearer {token}"}
        )
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


def _spread(server: Server) -> str:
    """Return how many connections each process has, with Linux's `ss`; nothing without it."""
    command = ["ss", "-Htnp", "state", "established", f"( sport = :{server.port} )"]
    try:
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""
    counts = {str(pid): 0 for pid in server.workers()}
    for pid in re.findall(r"pid=(\d+)", output):
        counts[pid] = counts.get(pid, 0) + 1
    return "/".join(map(str, sorted(counts.values(), reverse=True)))


@contextmanager
def _only_one_listens(server: Server) -> Iterator[None]:
    """Stop all processes but one meanwhile, so that it gets all new connections."""
    others = server.workers()[1:]
    for pid in others:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in others:
            os.kill(pid, signal.SIGCONT)


if __name__ == "__main__":
    main()
