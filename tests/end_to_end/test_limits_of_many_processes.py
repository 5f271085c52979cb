"""Two services with two workers each count in one database, as two machines do."""

from collections import Counter
from contextlib import ExitStack

import pytest
from helpers import race
from real_service import deployed, empty_database


@pytest.fixture(params=["postgres"])
def machines(request, tmp_path, mail_server):
    url = empty_database(request, tmp_path)
    with ExitStack() as running:
        yield [
            running.enter_context(
                deployed(url, mail_server.port, tmp_path / f"{name}.log", RATELIMIT_ENABLED="1")
            )
            for name in ("one", "other")
        ]


def test_limits_hold_across_machines_and_workers(machines, mail_server):
    def post(number, path, body):
        return machines[number % 2].call("POST", f"/api/auth/{path}", body).status

    def statuses(path, body, count):
        return Counter(race(lambda number: post(number, path, body), count))

    users = [machines[0].register(f"user{number}") for number in range(3)]
    wrong = {"email": users[0]["email"], "password": "wrong"}
    assert statuses("login", wrong, 30) == {401: 10, 429: 20}
    right = {**wrong, "password": users[0]["password"]}
    assert statuses("login", right, 2) == {429: 2}

    ask = {"email": users[1]["email"]}
    assert statuses("forgot-password", ask, 8) == {200: 8}
    for _ in range(3):
        mail_server.wait_for(ask["email"], "Choose a new password")
    # Had there been a fourth, it would have gone out before this one.
    later = {"email": users[2]["email"]}
    assert post(0, "forgot-password", later) == post(1, "forgot-password", later) == 200
    mail_server.wait_for(later["email"], "Choose a new password")
    assert (ask["email"], "Choose a new password") not in {
        (mail["To"], mail["Subject"]) for mail in mail_server.mails
    }
