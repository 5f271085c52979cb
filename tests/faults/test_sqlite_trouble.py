"""An SQLite file that another program locks, and a disk that is full or takes no writes."""

import shutil
import sqlite3
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress

import psutil
import pytest
from clients import CONFIRM, RESET, Client, meanwhile, newcomer, wait_for_mails
from helpers import soon
from real_service import registration
from sqlalchemy import URL


def file_in(folder):
    return URL.create("sqlite", database=str(folder / "service.db"))


@contextmanager
def locked(folder):
    """Hold the lock of the writers, as a shell does that somebody has left open."""
    with closing(sqlite3.connect(folder / "service.db", isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield


class Household:
    """Some who read, and one for each kind of write."""

    def __init__(self, service, mail_server):
        self._mail_server = mail_server
        self._new = [Client(service, registration(f"user{number}")) for number in range(3)]
        names = ("reader", "refresher", "forgetter", "writer", "setter")
        somebody = {name: newcomer(service, name) for name in names}
        self._reader, self._refresher, self._forgetter, self._writer, self._setter = (
            somebody.values()
        )
        self._all = [*somebody.values(), *self._new]
        self._before = {(client.user["email"], CONFIRM) for client in somebody.values()}
        self._was_read = threading.Event()

    def write(self):
        """Try all at once; return the answers."""
        body = {"email": self._forgetter.user["email"]}
        acts = [
            *(client.register for client in self._new),
            self._refresher.move_on,
            lambda: self._forgetter.call("POST", "/api/auth/forgot-password", body),
            lambda: self._writer.call("PUT", "/api/users/profile", {"bio": "New"}),
            lambda: self._setter.call("PUT", "/api/users/settings", {"theme": "dark"}),
        ]
        with ThreadPoolExecutor(len(acts)) as threads:
            return [done.result() for done in [threads.submit(act) for act in acts]]

    def hang_up(self):
        for client in self._all:
            client.hang_up()

    def read(self):
        for path in ("/api/auth/verify", "/api/users/profile", "/api/users/progress"):
            assert self._reader.call("GET", path).status == 200
        self._was_read.set()

    def wait_for_a_read(self):
        self._was_read.clear()
        assert self._was_read.wait(5)

    def expect_refused(self, answers):
        """Each of them was, with a word on when to try again, and nothing is half done."""
        for answer in answers:
            assert (answer.status, answer.code) == (503, "unavailable")
            assert int(answer.headers["Retry-After"]) > 0
        assert self._writer.call("GET", "/api/users/profile").data["bio"] == ""
        assert self._setter.call("GET", "/api/users/settings").data["theme"] == "light"

    def expect_done(self, answers):
        """All was done, and once: also what was refused before."""
        assert [answer.status for answer in answers] == [201, 201, 201, 200, 200, 200, 200]
        assert self._writer.call("GET", "/api/users/profile").data["bio"] == "New"
        assert self._setter.call("GET", "/api/users/settings").data["theme"] == "dark"
        assert self._refresher.move_on().status == 200
        for client in self._new:
            assert client.log_in().status == 200
        mails = {(client.user["email"], CONFIRM) for client in self._new}
        mails |= self._before | {(self._forgetter.user["email"], RESET)}
        wait_for_mails(self._mail_server, mails)
        assert len(self._mail_server.mails) == len(mails)


def test_writers_wait_for_a_short_lock_and_readers_do_not(run, mail_server, tmp_path):
    household = Household(run(file_in(tmp_path)), mail_server)
    with meanwhile([household.read]), ThreadPoolExecutor(1) as aside:
        with locked(tmp_path):
            writing = aside.submit(household.write)
            for _ in range(5):
                household.wait_for_a_read()
            assert not writing.done()
        household.expect_done(writing.result())


@pytest.mark.faults
def test_writers_behind_a_long_lock_are_refused_whole(run, mail_server, tmp_path):
    household = Household(run(file_in(tmp_path)), mail_server)
    with meanwhile([household.read]):
        with locked(tmp_path):
            start = time.monotonic()
            answers = household.write()
            print(f"refused after {time.monotonic() - start:.1f} s")
            household.wait_for_a_read()
        household.expect_refused(answers)
        household.expect_done(household.write())


class SmallDisk:
    """A disk of a few megabytes in memory."""

    def __init__(self, folder):
        self.folder = folder
        self._filler = folder / "filler"

    def mount(self, options):
        """Mount it, or mount it anew; return what is in the way, if anything is."""
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.folder)]
        return subprocess.run(command, capture_output=True, text=True).stderr

    def unmount(self):
        subprocess.run(["umount", "--lazy", str(self.folder)], check=True)

    @contextmanager
    def full(self, _service):
        """Leave no byte free."""
        with suppress(OSError), open(self._filler, "wb", buffering=0) as filler:
            while True:
                filler.write(bytes(4096))
        yield
        self._filler.unlink()


@pytest.fixture
def small_disk(tmp_path):
    if not shutil.which("mount"):
        pytest.skip("there is no mount on this system")
    disk = SmallDisk(tmp_path / "disk")
    disk.folder.mkdir()
    if problem := disk.mount("size=4m"):
        pytest.skip(f"only root may mount a disk that can be full: {problem}")
    yield disk
    disk.unmount()


@contextmanager
def no_file_may_grow(service):
    """Take from the workers the right to write to files, the log included."""
    workers = [psutil.Process(pid) for pid in service.workers()]
    before = [worker.rlimit(psutil.RLIMIT_FSIZE) for worker in workers]
    for worker, (_, hard) in zip(workers, before, strict=True):
        worker.rlimit(psutil.RLIMIT_FSIZE, (0, hard))
    yield
    for worker, limits in zip(workers, before, strict=True):
        worker.rlimit(psutil.RLIMIT_FSIZE, limits)


def expect_refusal_while(trouble, service, mail_server):
    household = Household(service, mail_server)
    with meanwhile([household.read]):
        with trouble(service):
            for _ in range(3):
                household.expect_refused(household.write())
            household.wait_for_a_read()
            assert service.call("GET", "/readyz").status == 200
        household.expect_done(household.write())
    # Ours stand behind a bar. Python's logging adds one of its own where the log cannot grow.
    assert "| Traceback" not in service.log()


@pytest.mark.skipif(not hasattr(psutil, "RLIMIT_FSIZE"), reason="Linux alone limits others' files")
def test_writes_that_fail_are_refused_whole_and_work_again(run, mail_server, tmp_path):
    expect_refusal_while(no_file_may_grow, run(file_in(tmp_path)), mail_server)


@pytest.mark.faults
def test_a_full_disk_refuses_writes_whole_and_serves_again_when_there_is_room(
    small_disk, run, mail_server
):
    expect_refusal_while(small_disk.full, run(file_in(small_disk.folder)), mail_server)


@pytest.mark.faults
def test_a_disk_that_takes_no_writes_is_unavailable_until_it_does(small_disk, run, mail_server):
    service = run(file_in(small_disk.folder))
    household = Household(service, mail_server)
    with closing(sqlite3.connect(small_disk.folder / "service.db")) as connection:
        # A mail that is on its way at the end would wait for its lease, or come twice.
        soon(lambda: not connection.execute("SELECT 1 FROM outbox").fetchone())
    # A disk with open files cannot be protected. What a killed service leaves can still be read.
    service.kill()
    soon(lambda: not small_disk.mount("remount,ro"))
    service.start(until="/healthz")
    household.hang_up()
    for answer in (*household.write(), service.call("GET", "/readyz")):
        assert (answer.status, answer.code) == (503, "unavailable")
    assert not small_disk.mount("remount,rw")
    soon(lambda: service.call("GET", "/readyz").status == 200, 5)
    household.expect_done(household.write())
