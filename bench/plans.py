"""`python -m bench.plans` prints how the databases find what the hot statements look for.

The statements are not written down here: the service runs, the driver notes what it is sent, and
each statement is explained with its values.
"""

import argparse
import re
from typing import Any

import psycopg
from sqlalchemy import Engine, event

from app import create_app
from bench.data import Data
from bench.databases import KINDS, databases, environment
from bench.servers import OPERATIONS
from config import load
from core import clock
from extensions import db
from services.outbox import deliver_due
from services.pruning import prune


def main(arguments: list[str] | None = None) -> None:
    """Print the plans of each database that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m bench.plans", description=__doc__)
    parser.add_argument("--database", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--users", type=int, default=10_000, help="and unused rows (%(default)s)")
    options = parser.parse_args(arguments)
    for kind in options.database:
        with databases(kind) as (_, make):
            print(f"## {kind}, {options.users} users")
            explain_all(Data(make("plans"), options.users, spent=options.users))


def explain_all(data: Data) -> None:
    """Do what users and the background do, and explain each statement that this takes."""
    app = create_app(load(environment(data.url, BCRYPT_ROUNDS="4", LOG_LEVEL="ERROR")))
    with app.app_context():
        engine = db.engine
    sent = noted(engine)
    client = app.test_client()
    for name, call in OPERATIONS.items():
        line = data.lines(name)[0]
        if call.use == "chain":
            line = f'{{"refreshToken": "{line}"}}'
        body = {} if call.method == "GET" else {"data": line, "content_type": "application/json"}
        headers = {"Authorization": f"Bearer {line}"}
        sent.clear()
        response = client.open(call.path, method=call.method, headers=headers, **body)
        assert response.status_code == call.status, response.text
        explain(engine, name, dict(sent))
    for name, act in (("outbox", deliver_due), ("pruning", lambda: prune(clock.utcnow()))):
        sent.clear()
        with app.app_context():
            act()
        explain(engine, name, dict(sent))
    engine.dispose()


def noted(engine: Engine) -> list[tuple[str, Any]]:
    """Return a list to which the driver will add the statements that it is sent."""
    sent: list[tuple[str, Any]] = []

    class Cursor(psycopg.Cursor[Any]):
        def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
            sent.append((query, params))
            return super().execute(query, params, **options)

    def connected(connection: Any, _record: Any) -> None:
        if engine.name == "sqlite":
            connection.set_trace_callback(lambda statement: sent.append((statement, ())))
        else:
            connection.cursor_factory = Cursor

    engine.dispose()  # connections that are open already would note nothing
    event.listen(engine, "connect", connected)
    return sent


def explain(engine: Engine, name: str, sent: dict[str, Any]) -> None:
    """Print the statements and their plans. They are not carried out."""
    print(f"\n### {name}")
    word = "EXPLAIN QUERY PLAN" if engine.name == "sqlite" else "EXPLAIN"
    for statement, values in sent.items():
        if re.match(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b", statement):
            with engine.connect() as connection:
                plan = connection.exec_driver_sql(f"{word} {statement}", values).all()
            print("\n```", re.sub(r"\s+", " ", statement)[:500], sep="\n", end="\n\n")
            print(*(row[-1] for row in plan), "```", sep="\n")


if __name__ == "__main__":
    main()
