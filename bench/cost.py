"""`python -m bench.cost`: microseconds of CPU of one verify in process, without gunicorn.

Each way of logging runs in processes of its own, in turns, and calls the application by WSGI
alone; what it costs beyond `no log line` is the price of the line of a request.
"""

import argparse
import cProfile
import json
import pstats
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from typing import Any

from werkzeug.test import EnvironBuilder

from app import create_app
from bench.data import Data
from bench.databases import KINDS, databases, environment
from config import ROOT

QUIET, TEXT = {"LOG_LEVEL": "WARNING"}, {"LOG_LEVEL": "INFO", "LOG_FORMAT": "text"}
LOGS = {"no log line": QUIET, "text": TEXT, "json": {**TEXT, "LOG_FORMAT": "json"}}
# Where the code of each part of the work lies; what fits none is Flask, Werkzeug and our own.
PARTS = {
    "log line": ("/logging/", "/json/", "web/logs.py"),
    "token": ("/jwt/", "flask_jwt_extended", "hmac.py", "base64.py", "tokens.py", "bearer.py"),
    "database": ("sqlalchemy", "psycopg", "/database/", "sessions.py"),
    "body of the response": ("marshmallow", "schemas.py", "answers.py"),
}


def main(arguments: list[str] | None = None) -> None:
    """Print what a verify costs, on each database."""
    parser = argparse.ArgumentParser(prog="python -m bench.cost", description=__doc__)
    parser.add_argument("--database", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--calls", type=int, default=2000, help="of each kind (2000)")
    parser.add_argument("--rounds", type=int, default=5, help="of each way of logging (5)")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        print(json.dumps(child(sys.stdin.read().split())))
        return
    for kind in options.database:
        with databases(kind) as (_, make):
            compare(Data(make("cost"), 1000), options)


def compare(data: Data, options: argparse.Namespace) -> None:
    """Print the cost with each way of logging, and its parts."""
    command = [sys.executable, "-m", "bench.cost", "--child"]
    run: dict[str, Any] = {"cwd": ROOT, "stdout": -1, "stderr": subprocess.DEVNULL, "check": True}
    run["input"] = "\n".join(map(data.access_token, range(options.calls))).encode()
    found: dict[str, list[Any]] = {logs: [] for logs in LOGS}
    for _ in range(options.rounds):
        for logs, settings in LOGS.items():
            done = subprocess.run(command, env=environment(data.url, **settings), **run)
            found[logs].append(json.loads(done.stdout))
    print(f"\n{data.url.get_backend_name()}: µs of one verify, a token not seen before, its parts")
    for logs, rounds in found.items():
        known, new, parts = zip(*rounds, strict=True)
        pairs = zip(known, found["no log line"], strict=True)
        more = statistics.median(cost - quiet for cost, (quiet, _, _) in pairs)
        print(f"{logs}: {statistics.median(known):.0f} ({more:+.0f}),", end=" ")
        print(f"{statistics.median(new):.0f}, {parts[0]}", flush=True)


def child(tokens: list[str]) -> tuple[float, float, dict[str, int]]:
    """Return the microseconds of a call with a known token, with a new one, and their parts."""
    app = create_app()
    known = tokens[:1] * len(tokens)
    spend(app, known[:200])
    # The quickest of four parts, since other programs only ever add.
    old, new = (min(spend(app, each[n::4]) for n in range(4)) for each in (known, tokens))
    profile = cProfile.Profile()
    profile.runcall(spend, app, known)
    parts: dict[str, float] = defaultdict(float)
    stats: Any = pstats.Stats(profile)
    for (file, _, _), (_, _, own, _, callers) in stats.stats.items():
        # What is written in C has no file, and belongs to its callers.
        shares = [(caller[0], times[2]) for caller, times in callers.items()]
        for path, seconds in shares if file == "~" else [(file, own)]:
            fits = (name for name, places in PARTS.items() if any(p in path for p in places))
            parts[next(fits, "Flask, Werkzeug, dispatch")] += seconds
    whole = sum(parts.values())
    return old, new, {name: round(old * part / whole) for name, part in parts.items()}


def spend(app: Any, tokens: list[str]) -> float:
    """Call verify with each token; return the microseconds of CPU for each."""
    statuses: set[str] = set()
    environ = EnvironBuilder("/api/auth/verify").get_environ()
    environs = [{**environ, "HTTP_AUTHORIZATION": f"Bearer {token}"} for token in tokens]
    begin = time.process_time()
    for environ in environs:
        b"".join(app(environ, lambda status, *_: statuses.add(status)))
    taken = time.process_time() - begin
    assert statuses == {"200 OK"}, statuses
    return taken / len(tokens) * 1e6


if __name__ == "__main__":
    main()
