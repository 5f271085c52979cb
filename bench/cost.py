"""`python -m bench.cost`: microseconds of CPU of one verify in process, without gunicorn.

Each way of logging runs in processes of its own, in turns, and calls the application by WSGI
alone; what it costs beyond `no log line` is the price of the line of a request.
"""

import argparse
import cProfile
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

LOGS = {
    "no log line": {"LOG_LEVEL": "WARNING"},
    "text": {"LOG_LEVEL": "INFO", "LOG_FORMAT": "text"},
    "json": {"LOG_LEVEL": "INFO", "LOG_FORMAT": "json"},
}
# Where the code of each part of the work lies; what fits none is Flask, Werkzeug and our own.
PARTS = {
    "log line": ("/logging/", "/json/", "web/logs.py"),
    "token": ("/jwt/", "flask_jwt_extended", "hmac.py", "base64.py", "tokens.py", "bearer.py"),
    "database": ("sqlalchemy", "psycopg", "database.py", "sessions.py"),
    "body of the response": ("marshmallow", "schemas.py", "answers.py"),
}


def main(arguments: list[str] | None = None) -> None:
    """Print what a verify costs, on each database."""
    parser = argparse.ArgumentParser(prog="python -m bench.cost", description=__doc__)
    parser.add_argument("--database", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--calls", type=int, default=2000, help="of each kind (2000)")
    parser.add_argument("--rounds", type=int, default=5, help="of each way of logging (5)")
    parser.add_argument("--child", choices=("measure", "profile"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        child(options.child, sys.stdin.read().split())
        return
    for kind in options.database:
        with databases(kind) as (folder, make):
            data = Data(make("cost"), 1000)
            tokens = "\n".join(data.access_token(number) for number in range(options.calls))

            def run(job: str, logs: str) -> str:
                command = [sys.executable, "-m", "bench.cost", "--child", job]
                env = environment(data.url, **LOGS[logs])
                with open(folder / "log", "wb") as log:
                    return subprocess.run(
                        command,
                        cwd=ROOT,
                        env=env,
                        input=tokens,
                        stdout=-1,
                        stderr=log,
                        text=True,
                        check=True,
                    ).stdout

            found = [
                {logs: [float(each) for each in run("measure", logs).split()] for logs in LOGS}
                for _ in range(options.rounds)
            ]
            print(f"\n{kind}: µs of one verify (beyond no log line)")
            for logs in LOGS:
                known, new = (statistics.median(each[logs][n] for each in found) for n in (0, 1))
                line = statistics.median(each[logs][0] - each["no log line"][0] for each in found)
                print(f"{logs:<12}{known:>6.0f} ({line:+.0f}); a token not seen before {new:.0f}")
            print(f"\n{run('profile', 'text')}", flush=True)


def child(job: str, tokens: list[str]) -> None:
    """Print the microseconds of a call with a known token and with a new one, or by parts."""
    app = create_app()
    known = tokens[:1] * len(tokens)
    spend(app, known[:200])
    if job == "measure":
        print(spend(app, known), spend(app, tokens))
        return
    whole = spend(app, known)
    profile = cProfile.Profile()
    profile.runcall(spend, app, known)
    parts: dict[str, float] = defaultdict(float)
    stats: Any = pstats.Stats(profile)
    for (file, _, _), (_, _, own, _, callers) in stats.stats.items():
        # What is written in C has no file, and belongs to its callers.
        shares = {caller[0]: times[2] for caller, times in callers.items()}
        for path, seconds in shares.items() if file == "~" else [(file, own)]:
            parts[part(path)] += seconds
    for name, seconds in sorted(parts.items(), key=lambda item: -item[1]):
        print(f"{name:<36}{whole * seconds / sum(parts.values()):>6.0f} µs")


def part(path: str) -> str:
    found = (name for name, places in PARTS.items() if any(place in path for place in places))
    return next(found, "Flask, Werkzeug, headers, dispatch")


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
