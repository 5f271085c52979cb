"""An import of thousands of lines, one in a hundred bad, that is killed half-way."""

import json
import re

import pytest
from helpers import soon
from real_service import free_port, migrate, production, python
from sqlalchemy import create_engine, text

PATIENCE = 600
HASH = "$2b$12$" + "abcdefghijklmnopqrstuO" + "ABCDEFGHIJKLMNOPQRSTUVWXYZ01234"


def account(number):
    names = {"firstName": "Zoë", "lastName": f"Number {number}", "passwordHash": HASH}
    names |= {"username": f"user-{number}"} if number % 2 else {}
    bad = {"website": "javascript:alert(1)"} if number % 100 == 7 else {}
    return {"email": f"user{number}@school{number % 50}.example", **names, **bad}


@pytest.mark.parametrize(
    ("new_database", "lines"), [("sqlite", 100_000), ("postgres", 5_000)], indirect=["new_database"]
)
def test_an_import_that_is_killed_half_way_is_run_again(new_database, lines, tmp_path):
    migrate(new_database)
    env = production(new_database, free_port(), free_port())
    file = tmp_path / "accounts.jsonl"
    file.write_text("".join(f"{json.dumps(account(number))}\n" for number in range(lines)))
    engine = create_engine(new_database)

    def made():
        with engine.connect() as connection:
            return connection.scalar(text("SELECT count(*) FROM users"))

    first = python("-m", "flask", "users", "import", str(file), env=env)
    soon(lambda: made() >= lines // 3, PATIENCE)
    first.kill()
    first.communicate()
    before = made()
    assert lines // 3 <= before < lines * 0.99
    second = python("-m", "flask", "users", "import", str(file), env=env)
    output, _ = second.communicate(timeout=PATIENCE)
    assert second.returncode == 1, output[-1000:]
    counts = {name: int(count) for name, count in re.findall(r"^(\w+): (\d+)$", output, re.M)}
    bad = lines // 100
    assert counts == {"made": lines - bad - before, "present": before, "refused": bad}
    refused = [int(number) for number in re.findall(r"^line (\d+): website: ", output, re.M)]
    assert refused == [*range(8, lines, 100)]
    assert made() == lines - bad
    assert "javascript" not in output
    engine.dispose()
