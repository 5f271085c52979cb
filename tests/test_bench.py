"""The benchmarks are started by hand. These tests show that they still run, on a tiny scale."""

import re
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from bench.data import Data
from bench.servers import Failed, Server, Stack, pace
from config import ROOT

wrk = pytest.mark.skipif(not shutil.which("wrk"), reason="wrk is not installed")
SMALL = ["--users", "100", "--rounds", "1", "--seconds", "1", "--cost", "4"]


def run(module, *arguments):
    command = [sys.executable, "-W", "ignore", "-m", module, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@wrk
def test_bench_compares_the_service_with_another_stack():
    output = run("bench", *SMALL, "--database", "sqlite", "--measures", "refresh")
    for title in ("tutorial stack", "this service, quiet"):
        assert re.search(rf"^\| refresh \| {title} \| \d", output, re.M), output


def test_plans_explain_what_the_service_sends():
    output = run("bench.plans", "--users", "1000")
    for title in ("## sqlite", "## postgres"):
        assert title in output
    # The guard's query, as each database explains it.
    assert re.search(r"SEARCH users USING INDEX \w*users\w*", output)
    assert re.search(r"(Index Scan|Bitmap Index Scan).* users", output)


def test_cost_shows_the_price_of_the_log_line_and_the_parts_of_a_verify():
    output = run("bench.cost", "--calls", "8", "--rounds", "1", "--database", "sqlite")
    for logs in ("no log line", "text", "json"):
        assert re.search(rf"^{logs}: \d+ \([+-]\d+\), \d+, .*'database': \d+", output, re.M), output


def test_timing_compares_known_and_unknown_addresses():
    few = ["--logins", "2", "--mails", "2", "--cost", "4", "--pause", "0"]
    output = run("bench.timing", "--database", "sqlite", *few)
    assert len(re.findall(r"(noise|a difference)$", output, re.M)) == 3


class Fake(Data):
    """Lines to send to a server that is not the service."""

    def __init__(self):
        pass

    def lines(self, operation, seconds=1):
        return ["a", "b"]


@wrk
@pytest.mark.parametrize("right", [True, False])
def test_one_wrong_answer_fails_the_run(tmp_path, right, monkeypatch):
    answers = 0

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            nonlocal answers
            answers += 1
            name = "user0000001" if right or answers != 10 else "somebody else"
            body = f'{{"username":"{name}"}}'.encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments):
            pass

    monkeypatch.setattr("bench.servers.environment", lambda *_args, **_settings: {})
    fake = Fake()
    fake.url = None
    server = Server(Stack("fake"), fake, tmp_path, cost=4)
    (tmp_path / f"{server.port}.log").touch()
    with ThreadingHTTPServer(("127.0.0.1", server.port), Handler) as http:
        threading.Thread(target=http.serve_forever).start()
        try:
            if right:
                assert server.load("verify", 1, 2).rate > 10
            else:
                with pytest.raises(Failed, match=r"1 wrong answers.*\n.*somebody else"):
                    server.load("verify", 1, 2)
        finally:
            http.shutdown()


def test_the_pace_does_not_count_the_ends():
    assert pace([0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0]) == pytest.approx(2, rel=0.1)
    assert pace([1.0]) == 0
