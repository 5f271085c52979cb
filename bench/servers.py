"""A subject that runs: started on a fresh port of this machine, watched, and ended."""

import http.client
import os
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import psutil  # type: ignore[import-untyped]
from sqlalchemy import URL

from bench.registry import Call, Subject
from config import ROOT

# Seconds; only a hang takes so long.
PATIENCE = 60
MEBIBYTE = 1024 * 1024


class Failed(Exception):
    """A subject that does not start, or answers something else than it should."""


@dataclass
class Answer:
    status: int
    body: str


class Running:
    """A subject and its processes."""

    def __init__(self, subject: Subject, url: URL, folder: Path, *, rounds: int) -> None:
        self.subject = subject
        self.url = url
        self.rounds = rounds
        self.port = _free_port()
        self._log = folder / f"{subject.key}-{self.port}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, call: Call, line: str) -> float:
        """Start it; return the seconds until it gave its first answer to this call."""
        begin = time.monotonic()
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                self.subject.command(self.port),
                cwd=ROOT,
                env=self.subject.environment(self.url, self.rounds),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        while True:
            try:
                answer = self.ask(call, line)
            except OSError:
                answer = None
            seconds = time.monotonic() - begin
            if answer is not None and answer.status == call.status:
                break
            if answer is not None or self._process.poll() is not None or seconds > PATIENCE:
                raise self.failed(f"does not start, {answer}")
            time.sleep(0.005)
        while len(self._tree()) < 3:  # gunicorn and its two workers
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

    def failed(self, why: str) -> Failed:
        """Return what is wrong with it, with the end of its log."""
        log = self._log.read_text(errors="replace")[-2000:]
        return Failed(f"{self.subject.title}: {why}\n{log}")

    def ask(self, call: Call, line: str, *, headers: dict[str, str] | None = None) -> Answer:
        """Make one call on a connection of its own."""
        headers = dict(headers or {})
        body = None
        if call.send == "token":
            headers.setdefault("Authorization", f"Bearer {line}")
        else:
            headers["Content-Type"] = call.type
            body = call.before + line + call.after if call.send == "refresh" else line
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(call.method, call.path, body, headers)
            response = connection.getresponse()
            return Answer(response.status, response.read().decode())
        finally:
            connection.close()

    def _tree(self) -> list[psutil.Process]:
        assert self._process is not None
        master = psutil.Process(self._process.pid)
        return [master, *master.children(recursive=True)]

    def cpu_by_process(self) -> dict[int, float]:
        """Return the CPU time that each of its processes has used."""
        times = {process.pid: process.cpu_times() for process in self._tree()}
        return {pid: time.user + time.system for pid, time in times.items()}

    def cpu_seconds(self) -> float:
        """Return the CPU time that all of its processes have used."""
        return sum(self.cpu_by_process().values())

    def memory(self) -> float:
        """Return the memory of all of its processes, in MiB: proportional set size (PSS)."""
        found = sum(process.memory_full_info().pss for process in self._tree())
        return float(found) / MEBIBYTE

    def settle(self) -> None:
        """Wait until it rests: what was sent last may still be worked on, by nobody's order."""
        deadline = time.monotonic() + PATIENCE
        before = self.cpu_seconds()
        while time.monotonic() < deadline:
            time.sleep(0.15)
            after = self.cpu_seconds()
            if after - before < 0.02:
                return
            before = after
        raise self.failed("does not come to rest")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])
