"""Sends load with wrk, and reads what it has seen."""

import json
import os
import shutil
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bench.registry import BENCH
from bench.servers import Running

CONNECTIONS = 16
# Seconds; a login waits for those before it.
TIMEOUT = 60


@dataclass(frozen=True)
class Load:
    """What wrk saw: answers per second, and milliseconds until half and 99 % of them came."""

    good: int
    connections: int
    rate: float
    median: float
    p99: float
    # Seconds of CPU that wrk itself took for each second.
    own_cpu: float

    @property
    def requests(self) -> int:
        """All requests, also those that were on their way when wrk ended; they cost CPU too."""
        return self.good + self.connections


def require_wrk() -> None:
    """End the program with a clear message if there is no wrk."""
    if shutil.which("wrk") is None:
        sys.exit(
            "The benchmarks send their load with wrk, and it is not there.\n"
            "On Debian and Ubuntu: apt-get install wrk"
        )


class Driver:
    """wrk, as it drives one operation of one subject."""

    def __init__(
        self,
        running: Running,
        operation: str,
        inputs: list[str],
        folder: Path,
        *,
        seconds: int,
        connections: int = CONNECTIONS,
        slow: bool = False,
    ) -> None:
        self._running = running
        self._operation = operation
        self._connections = connections
        self._seconds = seconds
        self._slow = slow
        call = running.subject.calls[operation]
        file = folder / f"{running.subject.key}-{operation}.inputs"
        file.write_text("\n".join(inputs) + "\n")
        given = {
            "send": call.send,
            "method": call.method,
            "path": call.path,
            "type": call.type,
            "before": call.before,
            "after": call.after,
            "status": call.status,
            "pattern": call.pattern,
            "inputs": file,
            "moments": "yes" if slow else "no",
        }
        self._process = subprocess.Popen(
            [
                "wrk",
                "-t1",
                f"-c{connections}",
                f"-d{seconds}s",
                f"--timeout={TIMEOUT}s",
                f"--script={BENCH / 'wrk' / 'drive.lua'}",
                f"http://127.0.0.1:{running.port}",
                "--",
                *(f"{name}={value}" for name, value in given.items()),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def finish(self) -> Load:
        """Wait for its end. Raises Failed if any answer was not as it should be."""
        assert self._process.stdout is not None
        with self._process.stdout as stdout:
            output = stdout.read()
        _, status, usage = os.wait4(self._process.pid, 0)
        self._process.returncode = status
        lines = dict(
            line.split(" ", 1)
            for line in output.splitlines()
            if line.startswith(("RESULT ", "MOMENTS ", "COMPLAINT "))
        )
        if status or "RESULT" not in lines:
            raise self._running.failed(f"{self._operation}: wrk failed\n{output}")
        seen = json.loads(lines["RESULT"])
        if seen["bad"] or seen["lost"] or not seen["good"]:
            wrong = f"{seen['bad']} wrong answers, {seen['lost']} lost, {seen['good']} good"
            raise self._running.failed(f"{self._operation}: {wrong}\n{lines['COMPLAINT']}")
        moments = [float(moment) / 1e6 for moment in lines["MOMENTS"].split()]
        rate = pace(moments) if self._slow else seen["good"] / seen["seconds"]
        return Load(
            good=seen["good"],
            connections=self._connections,
            rate=rate,
            median=seen["median"],
            p99=seen["p99"],
            own_cpu=(usage.ru_utime + usage.ru_stime) / seen["seconds"],
        )


def pace(moments: list[float]) -> float:
    """Return events per second, as the slope of their count over time.

    Where few come in a round, those that are half done at its ends would falsify their number.
    """
    if len(moments) < 3:
        return 0.0
    return statistics.linear_regression(moments, range(len(moments))).slope
