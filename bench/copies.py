"""`python -m bench.copies`: what a copy of all lessons takes, by pages over HTTP and as a file."""

import argparse
import http.client
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from app import create_app
from bench.__main__ import AS_IT_SHIPS
from bench.data import LESSONS, Data, row_id
from bench.databases import KINDS, databases, environment
from bench.servers import Server, started
from config import ROOT, load
from core.scopes import Scope
from database import transaction
from services import service_keys

URL = "/api/learning/lessons"
TRIES = 31


def main(arguments: list[str] | None = None) -> None:
    """Print a table for each database that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m bench.copies", description=__doc__)
    parser.add_argument("--database", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--users", type=int, default=53_334, help="with 30 lessons (%(default)s)")
    options = parser.parse_args(arguments)
    for kind in options.database:
        with databases(kind) as (folder, make):
            data = Data(make("copies"), options.users, learners=options.users)
            print(f"\n## {kind}, {options.users * LESSONS} lessons\n\n| | |\n| --- | ---: |")
            with started(server := Server(AS_IT_SHIPS, data, folder, cost=4)):
                over_http(server.port, new_key(data), options.users)
            command(data, folder / "lessons.csv")


def new_key(data: Data) -> str:
    """Return a service key that may read the lessons."""
    app = create_app(load(environment(data.url, LOG_LEVEL="ERROR")))
    with app.app_context(), transaction():
        return service_keys.create("bench", [Scope.LEARNING_READ], expires_at=None)


def over_http(port: int, key: str, users: int) -> None:
    """Time single pages, then all of them."""
    connection = http.client.HTTPConnection("127.0.0.1", port)

    def get(path: str, accept: str) -> tuple[bytes, Mapping[str, str]]:
        connection.request(
            "GET", path, headers={"Authorization": f"Bearer {key}", "Accept": accept}
        )
        response = connection.getresponse()
        body = response.read()
        assert response.status == 200, body
        return body, response.headers

    for limit in (100, 1000):
        for place, user in (
            ("first", 0),
            ("middle", users // 2),
            ("last", users - limit // LESSONS),
        ):
            after = f"{row_id(1, user)}/course/{LESSONS}"
            times = []
            for _ in range(TRIES):
                begin = time.perf_counter()
                get(f"{URL}?limit={limit}&after={after}", "application/json")
                times.append(time.perf_counter() - begin)
            print(f"| {place} page of {limit}, median | {1000 * statistics.median(times):.1f} ms |")
    begin, rows, query = time.monotonic(), 0, ""
    while query is not None:
        page = json.loads(get(f"{URL}?limit=1000{query}", "application/json")[0])["data"]
        rows += len(page["records"])
        query = page["next"] and f"&after={page['next']}"
    print(f"| {rows} by pages of 1,000, JSON | {time.monotonic() - begin:.1f} s |")
    begin, rows, path = time.monotonic(), 0, f"{URL}?limit=10000"
    while path:
        text, headers = get(path, "text/csv")
        rows += text.count(b"\n") - 1
        path = headers.get("Link", "").partition(">")[0].partition("5000")[2]
    print(f"| {rows} by pages of 10,000, CSV | {time.monotonic() - begin:.1f} s |")


def command(data: Data, file: Path) -> None:
    """Time `flask learning export`."""
    call = [sys.executable, "-m", "flask", "learning", "export", "lessons", str(file)]
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(call, cwd=ROOT, env=environment(data.url), check=True, capture_output=True)
    seconds, after = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    with file.open("rb") as lines:
        rows = sum(1 for _ in lines) - 1
    print(f"| {rows} by the command | {seconds:.1f} s |")
    print(f"| its rows for each second of CPU | {rows / cpu:,.0f} |")
    print(f"| its memory, at most | {after.ru_maxrss / 1024:.0f} MiB |", flush=True)


if __name__ == "__main__":
    main()
