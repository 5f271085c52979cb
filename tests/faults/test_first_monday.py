"""The first Monday after a migration: classes come at once, with hashes of other software."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle

import bcrypt
import pytest
from django.contrib.auth import hashers as django
from helpers import meanwhile, soon
from real_service import database_on, finish, python

pytestmark = pytest.mark.faults

TYPED, ANOTHER = "What-Ada-typed-42", "What-nobody-guesses-42"
STRANGERS = 70  # more than may wait, in either queue
# How many come at once, the cost of our own hashes, and what made theirs: so dear that strangers
# send more than one process hashes.
FORMS = {
    "bcrypt": (60, 10, lambda raw: bcrypt.hashpw(raw.encode(), bcrypt.gensalt(10, b"2a")).decode()),
    "bcrypt of a higher cost": (
        *(30, 8),
        lambda raw: bcrypt.hashpw(raw.encode(), bcrypt.gensalt(10)).decode(),
    ),
    "PBKDF2": (30, 8, lambda raw: django.PBKDF2PasswordHasher().encode(raw, "salt", 200_000)),
    "scrypt": (30, 8, lambda raw: django.ScryptPasswordHasher().encode(raw, "salt")),
}


@pytest.mark.parametrize("form", FORMS)
def test_everybody_is_let_in_while_strangers_guess_at_others(run, postgres_url, tmp_path, form):
    count, cost, hash_of = FORMS[form]
    # On SQLite the one writer, whose disk others use too, could be what is waited for.
    settings = {"BCRYPT_ROUNDS": str(cost), "WEB_CONCURRENCY": "1", "LOGINS_PER_MINUTE": "100"}
    service = run(database_on(postgres_url), **settings)
    pupils = [f"pupil-{number}@example.org" for number in range(count)]
    others = [f"other-{number}@example.org" for number in range(9)]
    names, stored = {"firstName": "A", "lastName": "B"}, (hash_of(TYPED), hash_of(ANOTHER))
    accounts = [{**names, "email": each, "passwordHash": stored[0]} for each in pupils]
    accounts += [{**names, "email": each, "passwordHash": stored[1]} for each in others]
    lines = "".join(f"{json.dumps(account)}\n" for account in accounts)
    (tmp_path / "people.jsonl").write_text(lines)
    command = python("-m", "flask", "users", "import", f"{tmp_path}/people.jsonl", env=service.env)
    assert finish([command])[0][0] == 0
    flooded, statuses, guessed = cycle(others), [], set()

    def guess():
        user = {"email": next(flooded), "password": TYPED}
        status = service.log_in(user).status  # each from another client IP
        statuses.append(status)
        if status == 401:
            guessed.add(user["email"])
        else:
            threading.Event().wait(2)  # or these clients would need all of the CPU

    def log_in(email):
        answer = service.log_in({"email": email, "password": TYPED})
        return answer.status == 200 or answer.content

    with ThreadPoolExecutor(count) as threads, meanwhile([guess] * STRANGERS):
        soon(lambda: guessed == {*others} and 503 in statuses)
        logins = [threads.submit(log_in, email) for email in pupils]
        for _ in range(5):
            assert service.call("GET", "/healthz").status == 200
        assert not all(login.done() for login in logins)
        assert [login.result() for login in logins] == [True] * count
    assert set(statuses) <= {401, 429, 503}
    with ThreadPoolExecutor(count) as threads:
        # With our own hashes, which do not wait.
        assert [*threads.map(log_in, pupils)] == [True] * count
