"""Many clients at once: nothing is refused, nothing is lost, and nobody shuts the others out."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from clients import Client, Writers, meanwhile, newcomer
from real_service import registration
from sqlalchemy import URL

LOGINS = 40


def test_reads_are_answered_while_more_log_in_than_there_are_connections(run, tmp_path):
    url = URL.create("sqlite", database=str(tmp_path / "service.db"))
    service = run(url, BCRYPT_ROUNDS="10")
    clients = [Client(service, registration(f"user{number}")) for number in range(LOGINS)]
    reader = newcomer(service, "reader")
    reads = []

    def read():
        assert reader.call("GET", "/api/auth/verify").status == 200
        assert reader.call("GET", "/healthz").status == 200
        reads.append(time.monotonic())

    with ThreadPoolExecutor(LOGINS) as threads, meanwhile([read]):
        assert {done.status for done in threads.map(Client.register, clients)} == {201}
        del reads[:]
        start = time.monotonic()
        logins = list(threads.map(Client.log_in, clients))
        end = time.monotonic()
    assert {login.status for login in logins} == {200}
    between = [moment for moment in reads if start < moment < end]
    print(f"{LOGINS} logins in {end - start:.1f} s, with {len(between)} reads between them")
    assert len(between) >= 5


def expect_nothing_lost_in(seconds, service):
    writers = Writers(service, crowds=4)
    with meanwhile(writers.acts()):
        time.sleep(seconds)
    assert writers.lost == 0
    writers.expect_all_that_was_acknowledged()
    assert "Traceback" not in service.log()


def test_four_processes_on_one_file_lose_nothing_and_refuse_nothing(run, tmp_path):
    url = URL.create("sqlite", database=str(tmp_path / "service.db"))
    expect_nothing_lost_in(3, run(url, WEB_CONCURRENCY="4"))


@pytest.mark.faults
def test_a_minute_of_load_loses_nothing_and_is_refused_nothing(new_database, run):
    expect_nothing_lost_in(60, run(new_database, WEB_CONCURRENCY="4"))
