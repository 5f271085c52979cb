"""Processes that are killed while many clients write: what was acknowledged is kept."""

import os
import signal
import time

import pytest
from clients import Writers, meanwhile, newcomer, wait_for_mails
from helpers import soon
from sqlalchemy import URL

WORKERS = 2


def test_what_was_acknowledged_outlives_the_whole_service(run, mail_server, tmp_path):
    service = run(URL.create("sqlite", database=str(tmp_path / "service.db")))
    writers = Writers(service)
    with meanwhile(writers.acts()):
        writers.wait_for_more(15)
        service.kill()
    service.start()
    newcomer(service, "later")  # whose mail wakes a worker before it would look by itself
    writers.expect_all_that_was_acknowledged()
    # Each worker had one mail in its hand at most, and that waits for the end of its lease.
    wait_for_mails(mail_server, writers.mails(), but=WORKERS)


@pytest.mark.faults
def test_killed_workers_and_a_killed_service_lose_no_write_and_no_mail(
    new_database, run, mail_server
):
    service = run(new_database)
    writers = Writers(service)
    with meanwhile(writers.acts()):
        for _ in range(3):
            writers.wait_for_more(30)
            os.kill(service.workers(WORKERS)[0], signal.SIGKILL)
        writers.wait_for_more(30)
        service.kill()
    service.start()
    writers.expect_all_that_was_acknowledged()
    service.end_leases()
    wait_for_mails(mail_server, writers.mails())


@pytest.mark.faults
def test_what_was_acknowledged_outlives_a_crash_of_postgres(own_postgres, run, mail_server):
    service = run(own_postgres.url)
    writers = Writers(service)
    with meanwhile(writers.acts()):
        writers.wait_for_more(100)
        own_postgres.crash()
        time.sleep(0.5)
    own_postgres.start()
    soon(lambda: service.call("GET", "/readyz").status == 200)
    writers.wrong = [answer for answer in writers.wrong if answer.status != 503]
    writers.expect_all_that_was_acknowledged()
    service.end_leases()
    wait_for_mails(mail_server, writers.mails())
