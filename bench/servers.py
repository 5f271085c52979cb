"""Starts the stacks under gunicorn, loads them with wrk, and reads what they used."""

import http.client
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from bench.data import Data
from bench.databases import environment
from config import ROOT

BENCH = ROOT / "bench"
# Seconds; only a hang takes so long. A login waits for those before it.
PATIENCE = 60
MEBIBYTE = 1024 * 1024


class Failed(Exception):
    """A stack does not start, or its answers are not what they should be."""


@dataclass(frozen=True)
class Operation:
    """One kind of request; drive.lua says what `send` and Lua's `pattern` are."""

    send: str
    method: str
    path: str
    pattern: str
    status: int = 200


OPERATIONS = {
    "verify": Operation("token", "GET", "/api/auth/verify", '"username":"user%d+"'),
    "profile": Operation("token", "GET", "/api/users/profile", '"firstName":"First"'),
    "progress": Operation("token", "GET", "/api/users/progress", '"completedLessons":30'),
    "refresh": Operation("refresh", "POST", "/api/auth/refresh", '"refreshToken":"([^"]+)"'),
    "login": Operation("body", "POST", "/api/auth/login", '"accessToken":"[^"]+"'),
    "register": Operation("once", "POST", "/api/auth/register", '"userId":"[^"]+"', 201),
}


@dataclass(frozen=True)
class Stack:
    """Something that is measured: what gunicorn gets beside its address, and settings."""

    title: str
    arguments: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Load:
    """What wrk saw: answers per second, and milliseconds until half and 99 % of them came."""

    requests: int
    rate: float
    median: float
    p99: float
    # Answers per second without those half done at the ends; only few answers need it.
    pace: float


class Server:
    """A stack and its processes, on a port of its own."""

    def __init__(self, stack: Stack, data: Data, folder: Path, *, cost: int) -> None:
        self.title = stack.title
        self.data = data
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = int(free.getsockname()[1])
        self._command = [sys.executable, "-m", "gunicorn", "-b", f"127.0.0.1:{self.port}"]
        self._command += stack.arguments
        self._environment = environment(data.url, BCRYPT_ROUNDS=str(cost), **stack.settings)
        self._folder = folder
        self._log = folder / f"{self.port}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        """Start it; return the seconds until it gave its first answer, a right one to verify."""
        begin = time.monotonic()
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=ROOT,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        while True:
            try:
                status = self._verify(self.data.lines("verify")[0])
            except OSError:
                status = 0
            seconds = time.monotonic() - begin
            if status == 200:
                break
            if status or self._process.poll() is not None or seconds > PATIENCE:
                raise self.failed(f"does not start, status {status}")
            time.sleep(0.005)
        while len(self._processes()) < 3:  # gunicorn and its two workers
            time.sleep(0.01)
        return seconds

    def stop(self) -> None:
        """End it and all of its processes."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(PATIENCE)
        finally:
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
            self._process = None

    def check_guard(self) -> None:
        """Raise Failed unless a token with a wrong signature is refused."""
        head, claims, signature = self.data.lines("verify")[0].split(".")
        # Flask-JWT-Extended's own response is a 422.
        if self._verify(f"{head}.{claims}.{signature[::-1]}") not in (401, 422):
            raise self.failed("a wrong token was accepted")

    def failed(self, why: str) -> Failed:
        """Return what is wrong, with the end of its log."""
        return Failed(f"{self.title}: {why}\n{self._log.read_text(errors='replace')[-2000:]}")

    def _verify(self, token: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            headers = {"Authorization": f"Bearer {token}"}
            connection.request("GET", OPERATIONS["verify"].path, headers=headers)
            return connection.getresponse().status
        finally:
            connection.close()

    def _processes(self) -> list[psutil.Process]:
        assert self._process is not None
        master = psutil.Process(self._process.pid)
        return [master, *master.children(recursive=True)]

    def cpu_seconds(self) -> dict[int, float]:
        """Return the CPU time that each of its processes has used."""
        times = {process.pid: process.cpu_times() for process in self._processes()}
        return {pid: time.user + time.system for pid, time in times.items()}

    def memory(self) -> float:
        """Return the memory of all of its processes, in MiB: proportional set size (PSS)."""
        return sum(p.memory_full_info().pss for p in self._processes()) / MEBIBYTE

    def settle(self) -> None:
        """Wait until it rests: it may still work on requests whose sender has gone."""
        deadline = time.monotonic() + PATIENCE
        before = sum(self.cpu_seconds().values())
        while time.monotonic() < deadline:
            time.sleep(0.15)
            after = sum(self.cpu_seconds().values())
            if after - before < 0.02:
                return
            before = after
        raise self.failed("does not come to rest")

    def load(self, operation: str, seconds: int, connections: int = 16) -> Load:
        """Send one operation for so long. Raises Failed if any response was wrong."""
        return self.finish(self.begin(operation, seconds, connections), operation)

    def begin(
        self, operation: str, seconds: int, connections: int = 16
    ) -> "subprocess.Popen[str]":
        """Start wrk: each connection sends its next request when it has its response."""
        inputs = self._folder / f"{self.port}-{operation}.inputs"
        inputs.write_text("\n".join(self.data.lines(operation, seconds)) + "\n")
        given = {**vars(OPERATIONS[operation]), "inputs": inputs}
        return subprocess.Popen(
            [
                *("wrk", "-t1", f"-c{connections}", f"-d{seconds}s", f"--timeout={PATIENCE}s"),
                f"--script={BENCH / 'drive.lua'}",
                f"http://127.0.0.1:{self.port}",
                "--",
                *(f"{name}={value}" for name, value in given.items()),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def finish(self, wrk: "subprocess.Popen[str]", operation: str) -> Load:
        """Wait for the end of a load. Raises Failed if any response was wrong."""
        output, _ = wrk.communicate()
        found = dict(line.split(" ", 1) for line in output.splitlines() if line[:1].isupper())
        if wrk.returncode or "RESULT" not in found:
            raise self.failed(f"{operation}: wrk failed\n{output}")
        seen = json.loads(found["RESULT"])
        if seen["bad"] or seen["lost"] or not seen["good"]:
            wrong = f"{seen['bad']} wrong answers, {seen['lost']} lost, {seen['good']} good"
            raise self.failed(f"{operation}: {wrong}\n{found['COMPLAINT']}")
        return Load(
            requests=seen["good"],
            rate=seen["good"] / seen["seconds"],
            median=seen["median"],
            p99=seen["p99"],
            pace=pace([float(moment) / 1e6 for moment in found["MOMENTS"].split()]),
        )


def require_wrk() -> None:
    """End the program with a clear message if there is no wrk."""
    if shutil.which("wrk") is None:
        sys.exit("The load is sent by wrk, which is missing. Debian, Ubuntu: apt-get install wrk")


def pace(moments: list[float]) -> float:
    """Return events per second, as the slope of their count over time.

    A plain count would be wrong by the events that are half done at both ends.
    """
    if len(moments) < 3:
        return 0.0
    return statistics.linear_regression(moments, range(len(moments))).slope
