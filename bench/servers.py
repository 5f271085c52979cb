"""Starts the stacks under gunicorn, loads them with wrk, and reads what they used."""

import http.client
import json
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil  # type: ignore[import-untyped]

from bench.data import Data
from bench.databases import environment
from config import ROOT

# Seconds; only a hang takes so long. A login waits for those before it.
PATIENCE = 60
CONNECTIONS = 16


class Failed(Exception):
    """A stack does not start, or its answers are not what they should be."""


class Operation(NamedTuple):
    """One kind of request; drive.lua says what `use` and Lua's `pattern` are."""

    method: str
    path: str
    use: str
    pattern: str
    status: int = 200


OPERATIONS = {
    "verify": Operation("GET", "/api/auth/verify", "again", '"username":"user%d+"'),
    "profile": Operation("GET", "/api/users/profile", "again", '"firstName":"First"'),
    "progress": Operation("GET", "/api/users/progress", "again", '"completedLessons":30'),
    "refresh": Operation("POST", "/api/auth/refresh", "chain", '"refreshToken":"([^"]+)"'),
    "login": Operation("POST", "/api/auth/login", "again", '"accessToken":"[^"]+"'),
    "register": Operation("POST", "/api/auth/register", "once", '"userId":"[^"]+"', 201),
}


class Stack(NamedTuple):
    """Something that is measured: what gunicorn gets beside its address, and settings."""

    title: str
    arguments: tuple[str, ...] = ()
    settings: Mapping[str, str] = {}


class Round(NamedTuple):
    """What a load saw; times in milliseconds. CPU is that of the stack's processes."""

    answers: int
    rate: float
    median: float
    p99: float
    cpu: float = 0.0


class Server:
    """A stack and its processes, on a port of its own."""

    def __init__(
        self, stack: Stack, data: Data, folder: Path, *, cost: int, workers: int = 2
    ) -> None:
        self.title = stack.title
        self._data = data
        self._workers = workers
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = int(free.getsockname()[1])
        command = [sys.executable, "-m", "gunicorn", "-b", f"127.0.0.1:{self.port}"]
        self._command = [*command, "--workers", str(workers), *stack.arguments]
        self._environment = environment(data.url, BCRYPT_ROUNDS=str(cost), **stack.settings)
        self._files = folder / str(self.port)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        """Start it; return the seconds until it gave its first answer, a right one to verify."""
        begin = time.monotonic()
        with open(f"{self._files}.log", "wb") as log:
            self._process = subprocess.Popen(
                self._command, cwd=ROOT, env=self._environment, stdout=log, stderr=log
            )
        token = self._data.lines("verify")[0]
        while (status := self._verify(token)) != 200:
            late = time.monotonic() - begin > PATIENCE
            if status or late or self._process.poll() is not None:
                raise self.failed(f"does not start, status {status}")
            time.sleep(0.005)
        seconds = time.monotonic() - begin
        while len(self._processes()) < 1 + self._workers:
            time.sleep(0.01)
        return seconds

    def stop(self) -> None:
        """End it and all of its processes."""
        if self._process:
            self._process.terminate()
            self._process.wait(PATIENCE)
            self._process = None

    def failed(self, why: str) -> Failed:
        """Return what is wrong, with the end of its log."""
        log = Path(f"{self._files}.log").read_text(errors="replace")
        return Failed(f"{self.title}: {why}\n{log[-2000:]}")

    def _verify(self, token: str) -> int:
        """Return the status of one call, 0 if nobody answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            headers = {"Authorization": f"Bearer {token}"}
            connection.request("GET", OPERATIONS["verify"].path, headers=headers)
            return connection.getresponse().status
        except OSError:
            return 0
        finally:
            connection.close()

    def _processes(self) -> list[psutil.Process]:
        assert self._process is not None
        master = psutil.Process(self._process.pid)
        return [master, *master.children(recursive=True)]

    def workers(self) -> list[int]:
        """Return the ids of its worker processes."""
        return [process.pid for process in self._processes()[1:]]

    def cpu(self) -> float:
        """Return the seconds of CPU that its processes have used."""
        return sum(sum(process.cpu_times()[:2]) for process in self._processes())

    def memory(self) -> float:
        """Return the memory of all of its processes, in MiB: proportional set size (PSS)."""
        return sum(process.memory_full_info().pss for process in self._processes()) / 1024**2

    def settle(self) -> None:
        """Wait until it rests: it may still work on requests whose sender has gone."""
        before = -1.0
        while (after := self.cpu()) - before > 0.02:
            before = after
            time.sleep(0.15)

    def load(self, operation: str, seconds: int, connections: int = CONNECTIONS) -> Round:
        """Send one operation for so many seconds. Raises Failed if any response was wrong."""
        return self.finish(self.begin(operation, seconds, connections), operation)

    def begin(self, operation: str, seconds: int, connections: int) -> "subprocess.Popen[str]":
        """Start wrk: each connection sends its next request when it has its response."""
        inputs = Path(f"{self._files}-{operation}.inputs")
        inputs.write_text("\n".join(self._data.lines(operation, seconds)) + "\n")
        given = {**OPERATIONS[operation]._asdict(), "inputs": inputs}
        wrk = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", f"--timeout={PATIENCE}s"]
        script = f"--script={ROOT / 'bench' / 'drive.lua'}"
        arguments = (f"{name}={value}" for name, value in given.items())
        command = [*wrk, script, f"http://127.0.0.1:{self.port}", "--", *arguments]
        return subprocess.Popen(command, stdout=-1, stderr=subprocess.STDOUT, text=True)

    def finish(self, wrk: "subprocess.Popen[str]", operation: str) -> Round:
        """Wait for the end of a load. Raises Failed if any response was wrong."""
        output, _ = wrk.communicate()
        found = dict(line.split(" ", 1) for line in output.splitlines() if line[:1].isupper())
        if wrk.returncode or "RESULT" not in found:
            raise self.failed(f"{operation}: wrk failed\n{output}")
        seen = json.loads(found["RESULT"])
        if seen["bad"] or seen["lost"]:
            wrong = f"{seen['bad']} wrong answers, {seen['lost']} lost"
            raise self.failed(f"{operation}: {wrong}\n{found['COMPLAINT']}")
        rate = seen["good"] / seen["seconds"]
        if rate < 100 and OPERATIONS[operation].method == "POST":  # a hash each
            rate = pace([float(moment) for moment in found["MOMENTS"].split()])
        return Round(seen["good"], rate, seen["median"], seen["p99"])


@contextmanager
def started(*servers: Server) -> Iterator[list[float]]:
    """Keep the servers running; yield the seconds that each took to start."""
    try:
        yield [server.start() for server in servers]
    finally:
        for server in servers:
            server.stop()


def pace(moments: Sequence[float]) -> float:
    """Return events per second: the slope, since a count misses those half done at the ends."""
    if len(moments) < 3:
        return 0.0
    return statistics.linear_regression(moments, range(len(moments))).slope
