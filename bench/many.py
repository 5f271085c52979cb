"""`python -m bench.many`: one call for many beside calls for one, and how long others wait."""

import argparse
import http.client
import itertools
import json
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import create_engine, insert, update

from bench.__main__ import AS_IT_SHIPS
from bench.data import Data, row_id
from bench.databases import KINDS, databases
from bench.servers import PATIENCE, Server, started
from models import Group, User

USERS = 1000
# A call, and how many it does something for.
Call = tuple[str, str, Any, int]
GROUPS = [f"{digit * 8}-0000-4000-8000-000000000000" for digit in "ab"]
IDS = [row_id(1, number) for number in range(USERS)]


class Admin:
    """Calls the API with the token of an admin."""

    def __init__(self, port: int, token: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def call(self, method: str, path: str, body: object) -> None:
        self._connection.request(method, f"/api/{path}", json.dumps(body), self._headers)
        response = self._connection.getresponse()
        answer = response.read()
        assert response.status in (200, 201), answer


def main(arguments: list[str] | None = None) -> None:
    """Print a table for each database that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m bench.many", description=__doc__)
    parser.add_argument("--database", nargs="+", choices=KINDS, default=KINDS)
    for kind in parser.parse_args(arguments).database:
        with databases(kind) as (folder, make):
            data = Data(make("many"), USERS + 1)
            add_groups_and_an_admin(data)
            admin = data.access_token(USERS)
            print(
                f"\n## {kind}\n\n| for each of | CPU ms, single | in one call | wait of a writer |"
            )
            print("| --- | ---: | ---: | ---: |")
            with started(server := Server(AS_IT_SHIPS, data, folder, cost=4)):
                for title, single, many, back in rounds():
                    alone, together = (cpu(server, admin, calls) for calls in (single, many))
                    longest = wait(server, admin, back)
                    print(f"| {title} | {alone:.2f} | {together:.3f} | {longest:.0f} ms |")


def add_groups_and_an_admin(data: Data) -> None:
    engine = create_engine(data.url)
    with engine.begin() as connection:
        connection.execute(insert(Group), [{"id": group, "name": "x"} for group in GROUPS])
        head = update(User).where(User.id == row_id(1, USERS))
        connection.execute(head.values(role="admin"))
    engine.dispose()


def rounds() -> Iterator[tuple[str, Sequence[Call], Sequence[Call], Call]]:
    """Yield what is measured: calls for some users one by one, calls for many, and another one for
    many, as the last of these or turned round.
    """
    some, one, other = IDS[:50], *(f"groups/{group}/members" for group in GROUPS)
    singles = [("PUT", f"{one}/{each}", {}, 1) for each in some]
    back = ("POST", other, {"remove": IDS}, USERS)
    yield "members", singles, [("POST", other, {"add": IDS}, USERS)], back

    def lessons(name: str) -> Call:
        records = [{"userId": each, "courseId": "course", "id": name, "minutes": 5} for each in IDS]
        return "POST", "learning/lessons", {"records": records}, USERS

    place = "courses/course/lessons/new"
    singles = [("PUT", f"users/{each}/{place}", {"minutes": 5}, 1) for each in some]
    yield "lessons", singles, [lessons(name) for name in "abcde"], lessons("f")
    singles = [("PATCH", f"users/{each}", {"isActive": False}, 1) for each in some]
    many = [("PATCH", "users", {"ids": IDS[50:], "isActive": False}, USERS - 50)]
    yield "deactivated", singles, many, ("PATCH", "users", {"ids": IDS, "isActive": True}, USERS)
    singles = [("POST", f"users/{each}/access-link", {"deliver": "link"}, 1) for each in some]
    links = ("POST", "users/access-links", {"ids": IDS[:100], "replacePassword": True}, 100)
    yield "links, with their QR codes", singles, [links], links


def cpu(server: Server, token: str, calls: Sequence[Call]) -> float:
    """Return the milliseconds of CPU for each of those whom calls are about."""
    admin = Admin(server.port, token)
    server.settle()
    before = server.cpu()
    for method, path, body, _ in calls:
        admin.call(method, path, body)
    return 1000 * (server.cpu() - before) / sum(about for *_, about in calls)


def wait(server: Server, token: str, call: Call) -> float:
    """Return the longest that another writer waits while this is done, in milliseconds."""
    over, waits = threading.Event(), [0.0]

    def write() -> None:
        other, themes = Admin(server.port, token), itertools.cycle(("dark", "light"))
        while not over.wait(0.01):
            begin = time.monotonic()
            other.call("PUT", "users/settings", {"theme": next(themes)})
            waits.append(1000 * (time.monotonic() - begin))

    writer = threading.Thread(target=write)
    writer.start()
    Admin(server.port, token).call(*call[:3])
    over.set()
    writer.join()
    return max(waits)


if __name__ == "__main__":
    main()
