"""A file of SQLite that cannot grow, as on a full disk."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import psutil
import pytest
from clients import CONFIRM, RESET, Client, newcomer, wait_for_mails
from helpers import meanwhile
from real_service import registration
from sqlalchemy import URL


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


@pytest.mark.skipif(not hasattr(psutil, "RLIMIT_FSIZE"), reason="Linux alone limits others' files")
def test_writes_that_fail_are_refused_whole_and_work_again(run, mail_server, tmp_path):
    service = run(URL.create("sqlite", database=str(tmp_path / "service.db")))
    new = Client(service, registration("new"))
    names = ("reader", "refresher", "forgetter", "writer")
    reader, refresher, forgetter, writer = old = [newcomer(service, name) for name in names]
    mails = {(client.user["email"], CONFIRM) for client in old}
    wait_for_mails(mail_server, mails)
    acts = [
        new.register,
        refresher.move_on,
        forgetter.forget_password,
        partial(writer.call, "PUT", "/api/users/profile", {"bio": "New"}),
    ]

    def read():
        assert reader.call("GET", "/api/users/profile").status == 200
        assert service.call("GET", "/readyz").status == 200

    def write():
        with ThreadPoolExecutor(len(acts)) as threads:
            return [done.result() for done in [threads.submit(act) for act in acts]]

    with meanwhile([read]):
        with no_file_may_grow(service):
            for _ in range(3):
                for answer in write():
                    assert (answer.status, answer.code) == (503, "unavailable")
                    assert int(answer.headers["Retry-After"]) > 0
            assert writer.call("GET", "/api/users/profile").data["bio"] == ""
        assert [answer.status for answer in write()] == [201, 200, 200, 200]
    assert writer.call("GET", "/api/users/profile").data["bio"] == "New"
    assert refresher.move_on().status == new.log_in().status == 200
    mails |= {(new.user["email"], CONFIRM), (forgetter.user["email"], RESET)}
    wait_for_mails(mail_server, mails)
    assert len(mail_server.mails) == len(mails)
    # Ours stand behind a bar. Python's logging adds one of its own where the log cannot grow.
    assert "| Traceback" not in service.log()
