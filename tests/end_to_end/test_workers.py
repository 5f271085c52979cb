"""What gunicorn asks of a worker: ours does it as gunicorn's own thread worker does."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import closing, suppress
from http.client import HTTPConnection

import psutil
import pytest
from helpers import soon
from real_service import PATIENCE, environment

from config import ROOT

WORKERS = ("gthread", "web.worker.TurnsWorker")
# Those before the pinned one; the worker stands on what gunicorn documents and on 12 names more.
OTHER_RELEASES = ("26.2.0", "25.3.0")
APP = """
import os, time

def app(environ, start_response):
    if seconds := float(environ["QUERY_STRING"] or 0):
        open("begun", "w").close()
        time.sleep(seconds)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"%d" % os.getpid()]
"""


class UnixConnection(HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.host)


class Gunicorn:
    """A small application under one kind of worker, on a socket in the file system."""

    def __init__(self, folder, worker, *options):
        self.address = str(folder / "listener")
        (folder / "small.py").write_text(APP)
        (folder / "empty.conf.py").write_text("")
        command = [sys.executable, "-m", "gunicorn", "-c", str(folder / "empty.conf.py")]
        command += ["--bind", f"unix:{self.address}", "--pythonpath", f"{folder},{ROOT}"]
        command += ["--worker-class", worker, "--threads", "4", "--no-control-socket", *options]
        self.process = subprocess.Popen(
            [*command, "small:app"], env=environment(WEB_CONCURRENCY="1"), cwd=folder
        )
        soon(self.ask)

    def ask(self, seconds=0):
        """Return the id of the process that answers, None if none does."""
        with suppress(OSError), closing(UnixConnection(self.address)) as connection:
            connection.request("GET", f"/?{seconds}", headers={"Host": "a"})
            return int(connection.getresponse().read())
        return None

    def workers(self):
        with suppress(psutil.NoSuchProcess):
            return {child.pid for child in psutil.Process(self.process.pid).children()}
        return set()


@pytest.fixture(params=WORKERS)
def start(request, tmp_path):
    """Start a small application with options of gunicorn."""
    started = []

    def start(*options):
        started.append(Gunicorn(tmp_path, request.param, *options))
        return started[-1]

    yield start
    for each in started:
        each.process.terminate()
        each.process.wait(PATIENCE)


def test_a_worker_ends_after_its_requests_and_all_are_answered(start):
    service = start("--max-requests", "5")
    assert len({service.ask() for _ in range(16)} - {None}) >= 3
    assert None not in {service.ask() for _ in range(16)}


def test_what_is_under_way_is_answered_before_the_stop(start, tmp_path):
    service = start()
    with closing(UnixConnection(service.address, timeout=PATIENCE)) as connection:
        connection.request("GET", "/?1", headers={"Host": "a"})
        soon((tmp_path / "begun").exists)
        service.process.terminate()
        answer = connection.getresponse()
        assert answer.getheader("Connection") in ("close", "keep-alive")
        assert int(answer.read())
    assert service.process.wait(PATIENCE) == 0


def test_sighup_replaces_the_workers(start):
    service = start("--workers", "2")
    before = service.workers()
    service.process.send_signal(signal.SIGHUP)
    soon(lambda: len(service.workers()) == 2 and not service.workers() & before)
    assert service.ask() in service.workers()


def test_sigttin_adds_a_worker_and_sigttou_takes_one(start):
    service = start()
    service.process.send_signal(signal.SIGTTIN)
    soon(lambda: len(service.workers()) == 2)
    service.process.send_signal(signal.SIGTTOU)
    soon(lambda: len(service.workers()) == 1)
    assert service.ask()


def test_a_worker_without_a_heartbeat_is_replaced_and_one_that_answers_slowly_is_not(start):
    service = start("--timeout", "2")
    assert service.ask(3) in service.workers()
    (stopped,) = service.workers()
    os.kill(stopped, signal.SIGSTOP)
    soon(lambda: stopped not in service.workers())
    assert service.ask() != stopped


def test_statsd_counts_each_request(start):
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as statsd:
        statsd.bind(("127.0.0.1", 0))
        statsd.settimeout(PATIENCE)
        service = start("--statsd-host", f"127.0.0.1:{statsd.getsockname()[1]}")
        service.ask()
        while not statsd.recv(4096).startswith(b"gunicorn.requests:"):
            pass


@pytest.mark.parametrize("release", OTHER_RELEASES)
def test_the_worker_runs_under_other_releases_of_gunicorn(release, tmp_path):
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    found = subprocess.run([*pip, "--target", str(tmp_path), f"gunicorn=={release}"], check=False)
    if found.returncode:
        pytest.skip("the package index cannot be reached")
    tests = [str(ROOT / "tests" / name) for name in ("test_worker.py", "test_worker_turns.py")]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *tests]
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    assert subprocess.run(command, cwd=ROOT, env=env, check=False).returncode == 0
