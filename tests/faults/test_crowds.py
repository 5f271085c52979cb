"""Many clients at once: nothing is refused, nothing is lost, and nobody shuts the others out."""

from concurrent.futures import ThreadPoolExecutor

from clients import Client, Writers, newcomer
from helpers import meanwhile
from real_service import registration
from sqlalchemy import URL

LOGINS = 40


def test_reads_are_answered_while_more_log_in_than_there_are_connections(run, tmp_path):
    service = run(URL.create("sqlite", database=str(tmp_path / "service.db")), BCRYPT_ROUNDS="10")
    clients = [Client(service, registration(f"user{number}")) for number in range(LOGINS)]
    reader = newcomer(service, "reader")
    with ThreadPoolExecutor(LOGINS) as threads:
        assert {done.status for done in threads.map(Client.register, clients)} == {201}
        logins = [threads.submit(client.log_in) for client in clients]
        for _ in range(5):
            assert reader.call("GET", "/api/auth/verify").status == 200
            assert reader.call("GET", "/healthz").status == 200
        assert not all(login.done() for login in logins)
    assert {login.result().status for login in logins} == {200}


def test_four_processes_on_one_database_lose_nothing_and_refuse_nothing(new_database, run):
    service = run(new_database, WEB_CONCURRENCY="4")
    writers = Writers(service, crowds=4)
    with meanwhile(writers.acts()):
        writers.wait_for_more(50)
    assert writers.lost == 0
    writers.expect_all_that_was_acknowledged()
    assert "Traceback" not in service.log()
