"""`python -m bench.plans` prints how the databases find what the hot statements look for.

The statements are not written down here: the service runs, and what it sends is explained. Each
is explained with the values that it was sent with.
"""

import argparse
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import URL, Engine, event

from app import create_app
from bench import data
from bench.databases import databases, service_environment
from config import load
from core import clock
from database import Prepared, reading, transaction
from extensions import db
from services import outbox, pruning
from services.letters import MailKind

ROUNDS = 4
Sent = list[tuple[str, Any]]


def main() -> None:
    """Print the plans of each database that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m bench.plans", description=__doc__)
    parser.add_argument("--database", choices=["sqlite", "postgres", "both"], default="both")
    parser.add_argument("--users", type=int, default=10_000, help="in the database (%(default)s)")
    parser.add_argument("--spent", type=int, default=10_000, help="spent rows (%(default)s)")
    options = parser.parse_args()
    for kind in ("sqlite", "postgres") if options.database == "both" else (options.database,):
        with (
            tempfile.TemporaryDirectory(prefix="accounts-plans-") as folder,
            databases(kind, Path(folder)) as made,
        ):
            url = made.migrated("plans")
            data.fill(url, options.users, rounds=ROUNDS, spent=options.spent)
            made.tidy(url)
            print(f"## {kind}, {options.users} users, {options.spent} spent rows")
            explain_all(url)


def explain_all(url: URL) -> None:
    """Do what users do, and explain each statement that this takes."""
    app = create_app(load(service_environment(url, BCRYPT_ROUNDS=str(ROUNDS))))
    caller, other = data.callers(url, 2, learners=True)
    headers = {"Authorization": f"Bearer {caller.access_token()}"}
    client = app.test_client()
    acts: list[tuple[str, Any]] = [
        ("a token is checked", lambda: get(client, "/api/auth/verify", headers)),
        ("progress", lambda: get(client, "/api/users/progress", headers)),
        ("refresh", lambda: post(client, "refresh", {"refreshToken": other.refresh_token()})),
        (
            "login",
            lambda: post(client, "login", {"email": caller.email, "password": data.PASSWORD}),
        ),
        ("the outbox is looked at, and a mail taken", lambda: deliver(app)),
        ("spent rows are removed", lambda: prune(app)),
    ]
    with app.app_context():
        engine = db.engine
    for name, act in acts:
        with listening(engine) as sent:
            act()
        print(f"\n### {name}")
        for statement, values in dict(sent).items():
            print(f"\n```\n{shorten(statement)}\n")
            print("\n".join(explain(engine, statement, values)))
            print("```")
    with app.app_context():
        engine.dispose()


def get(client: FlaskClient, path: str, headers: dict[str, str]) -> None:
    assert client.get(path, headers=headers).status_code == 200


def post(client: FlaskClient, path: str, body: dict[str, str]) -> None:
    assert client.post(f"/api/auth/{path}", json=body).status_code == 200


def deliver(app: Flask) -> None:
    with app.app_context():
        with transaction():
            outbox.queue(MailKind.PASSWORD_RESET, "nobody@example.org")
        outbox.deliver_due()


def prune(app: Flask) -> None:
    with app.app_context():
        pruning.prune(clock.utcnow())


@contextmanager
def listening(engine: Engine) -> Iterator[Sent]:
    """Note the statements that are sent, with their values."""
    sent: Sent = []

    def note(_1: Any, _2: Any, sql: str, values: Any, _3: Any, many: bool) -> None:
        if re.match(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b", sql):
            sent.append((sql, values[0] if many else values))

    # A prepared query passes SQLAlchemy's events by; so it goes the usual way here.
    def send_again(query: Prepared, **texts: str) -> Any:
        with reading() as connection:
            return connection.execute(query.statement, texts).one_or_none()

    event.listen(engine, "before_cursor_execute", note)
    try:
        with patch.object(Prepared, "one_or_none", send_again):
            yield sent
    finally:
        event.remove(engine, "before_cursor_execute", note)


def explain(engine: Engine, statement: str, values: Any) -> list[str]:
    """Return the lines of a plan. The statement is not carried out."""
    sqlite = engine.dialect.name == "sqlite"
    with engine.connect() as connection:
        word = "EXPLAIN QUERY PLAN" if sqlite else "EXPLAIN"
        rows = connection.exec_driver_sql(f"{word} {statement}", values).all()
        connection.rollback()
    return [str(row[-1]) for row in rows]


def shorten(statement: str) -> str:
    """Return a statement on a line, without the names of the columns that it fetches."""
    line = " ".join(statement.split())
    return re.sub(r"^SELECT (?:users\.\w+(?: AS \w+)?, ){5,}.*? FROM", "SELECT … FROM", line)


if __name__ == "__main__":
    main()
