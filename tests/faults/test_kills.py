"""Processes that are killed while many clients write: what was acknowledged is kept."""

import os
import signal

import pytest
from clients import Writers, wait_for_mails
from helpers import meanwhile, soon

pytestmark = pytest.mark.faults


def test_killed_workers_and_a_killed_service_lose_no_write_and_no_mail(
    new_database, run, mail_server
):
    service = run(new_database)
    writers = Writers(service)
    with meanwhile(writers.acts()):
        for _ in range(3):
            writers.wait_for_more(30)
            os.kill(service.workers()[0], signal.SIGKILL)
        writers.wait_for_more(30)
        service.kill()
    service.start()
    writers.expect_all_that_was_acknowledged()
    service.end_leases()
    wait_for_mails(mail_server, writers.mails())


def test_what_was_acknowledged_outlives_a_crash_of_postgres(own_postgres, run, mail_server):
    service = run(own_postgres.url)
    writers = Writers(service)
    with meanwhile(writers.acts()):
        writers.wait_for_more(100)
        own_postgres.crash()
    own_postgres.start()
    soon(lambda: service.call("GET", "/readyz").status == 200)
    writers.wrong = [answer for answer in writers.wrong if answer.status != 503]
    writers.expect_all_that_was_acknowledged()
    service.end_leases()
    wait_for_mails(mail_server, writers.mails())
