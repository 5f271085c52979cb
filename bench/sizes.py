"""`python -m bench.sizes` prints what rows and acts cost Postgres: the table of docs/scaling.md."""

import argparse
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from sqlalchemy import text

from app import create_app
from bench.data import Data, row_id
from bench.databases import databases, environment, run_alone
from config import load
from core.scopes import Scope
from database import reading, transaction
from models import Course, Lesson, User, UserSession
from services import service_keys

WAL = text("SELECT pg_current_wal_insert_lsn() - '0/0'")


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.sizes", description=__doc__)
    parser.add_argument("--users", type=int, default=10_000, help="in the database (%(default)s)")
    parser.add_argument("--calls", type=int, default=1000, help="of each kind (%(default)s)")
    options = parser.parse_args(arguments)
    with databases("postgres") as (_, make):
        data = Data(make("sizes"), options.users)
        # Without the pages that the first change after a checkpoint writes whole.
        run_alone(data.url, "ALTER SYSTEM SET full_page_writes = off")
        run_alone(data.url, "SELECT pg_reload_conf()")
        # Or the index would keep equal times in little room.
        longer = "id = 'lesson-' || id, completed_at = completed_at - 86400 * id::int"
        run_alone(data.url, f"UPDATE lessons SET {longer}")
        run_alone(data.url, "VACUUM FULL")
        app = create_app(load(environment(data.url, BCRYPT_ROUNDS="4", LOG_LEVEL="ERROR")))
        print("| | bytes |\n| --- | ---: |")
        with app.app_context():
            with reading() as connection:
                for model in (User, UserSession, Course, Lesson):
                    name = model.__tablename__
                    size = f"SELECT pg_total_relation_size('{name}') / count(*) FROM {name}"
                    print(
                        f"| a row of `{name}`, with its indexes | {connection.scalar(text(size))} |"
                    )
            with transaction():
                key = service_keys.create("bench", [Scope.LEARNING_WRITE], expires_at=None)
            for name, call in calls(data, app.test_client(), key):
                for number in range(options.calls):
                    if number == options.calls // 3:  # the first ones split full pages
                        before = written()
                    call(number)
                each = (written() - before) / (options.calls - options.calls // 3)
                print(f"| WAL of a {name} | {each:.0f} |", flush=True)


def calls(data: Data, client: Any, key: str) -> Iterator[tuple[str, Callable[[int], None]]]:
    """Yield the acts that write, by name; each takes the number of the call."""

    def send(method: str, path: str, **options: Any) -> None:
        response = client.open(path, method=method, **options)
        assert response.status_code < 300, response.text

    headers = {"Authorization": f"Bearer {key}"}

    def deliver(number: int) -> None:
        path = f"/api/users/{row_id(1, number % 30)}/courses/course/lessons/new{number}"
        send("PUT", path, json={"minutes": 30}, headers=headers)

    logins = data.lines("login")
    tokens = (token for _ in itertools.count() for token in data.lines("refresh"))
    yield "lesson", deliver
    spend = lambda _: send("POST", "/api/auth/refresh", json={"refreshToken": next(tokens)})  # noqa: E731
    yield "refresh", spend
    # Last, because a login may end the oldest of many sessions.
    kind = "application/json"
    yield (
        "login",
        lambda n: send("POST", "/api/auth/login", data=logins[n % 1000], content_type=kind),
    )


def written() -> int:
    """Return how many bytes of WAL Postgres has written."""
    with reading() as connection:
        return int(connection.scalar(WAL))


if __name__ == "__main__":
    main()
