"""The benchmarks are started by hand. These tests show that they still run, on a tiny scale."""

import shutil
import subprocess
import sys

import pytest

from config import ROOT

SMALL = ["--users", "100", "--rounds", "1", "--seconds", "1", "--cost", "4"]
FEW = ["--logins", "2", "--mails", "2", "--cost", "4", "--pause", "0"]


@pytest.mark.parametrize(
    ("module", "arguments", "printed"),
    [
        ("bench", [*SMALL, "--measures", "refresh"], "| refresh | this service, quiet |"),
        ("bench.plans", ["--users", "1000"], "SEARCH users USING INDEX"),
        ("bench.sizes", ["--users", "100", "--calls", "9"], "| WAL of a refresh | "),
        pytest.param("bench.copies", ["--users", "40"], "its memory", marks=pytest.mark.slow),
        ("bench.cost", ["--calls", "8", "--rounds", "1"], "no log line: "),
        pytest.param("bench.threads", ["--rounds", "1"], "÷ thin, 64", marks=pytest.mark.slow),
        ("bench.timing", FEW, "right after it"),
    ],
)
def test_benchmark_runs(module, arguments, printed):
    if module in ("bench", "bench.threads") and not shutil.which("wrk"):
        pytest.skip("wrk is not installed")
    if module not in ("bench.plans", "bench.sizes"):
        arguments = [*arguments, "--database", "sqlite"]
    command = [sys.executable, "-W", "ignore", "-m", module, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert printed in done.stdout
