"""Two services with two workers each use one database, as two machines do."""

import base64
import time
from collections import Counter
from contextlib import ExitStack

import pytest
from helpers import race
from real_service import deployed, empty_database

from core.totp import STEP, hotp


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


def test_one_code_opens_one_session_on_all_machines(machines):
    user = machines[0].register("user")
    token = machines[0].log_in(user).data["accessToken"]
    url, step = "/api/auth/second-factor", int(time.time()) // STEP
    made = machines[0].call("POST", url, {"password": user["password"]}, token=token).data
    key = base64.b32decode(made["secret"])
    body = {"code": hotp(key, step)}
    recovery_codes = machines[1].call("POST", f"{url}/confirm", body, token=token).data
    # That of the next step is accepted already.
    for code in (hotp(key, step + 1), recovery_codes["recoveryCodes"][0]):
        login = {"email": user["email"], "password": user["password"], "secondFactor": code}

        def attempt(number, login=login):
            return machines[number % 2].call("POST", "/api/auth/login", login).status

        assert Counter(race(attempt, 5)) == {200: 1, 400: 4}
