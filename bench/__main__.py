"""`python -m bench`: measures the service beside other ways to do the same. See README.md.

The stacks take turns in short rounds, so that a drift of the machine hits all alike.
"""

import argparse
import os
import shutil
import signal
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import chain

import bcrypt

from bench.data import Data, TutorialData
from bench.databases import KINDS, databases
from bench.servers import CONNECTIONS, OPERATIONS, Failed, Round, Server, Stack, pace, started

_CONF = ("-c", "bench/stacks/gunicorn_conf.py")
BARE = Stack("bare Flask", (*_CONF, "bench.stacks.thin:bare"))
THIN = Stack("thin floor", (*_CONF, "bench.stacks.thin:app"))
TUTORIAL = Stack("tutorial stack", (*_CONF, "bench.stacks.tutorial:app"))
SYNC = Stack("tutorial stack, sync workers", (*TUTORIAL.arguments, "-k", "sync", "--threads", "1"))
SERVICE = Stack("this service, quiet", settings={"LOG_LEVEL": "WARNING"})
ES256 = Stack("this service, ES256", settings={**SERVICE.settings, "TOKEN_ALGORITHM": "ES256"})
AS_IT_SHIPS = Stack("this service, as it ships")
# The first of them is what the others are compared with.
COMPARED = {
    "verify": (THIN, BARE, TUTORIAL, SERVICE, AS_IT_SHIPS),
    "profile": (THIN, SERVICE, AS_IT_SHIPS),
    "refresh": (TUTORIAL, SERVICE),
}
MEASURES = ("start", *OPERATIONS, "es256", "mixed")
# Rounds in which every request is a hash are longer, so there are fewer.
HASHING_ROUNDS = 2
# The rounds of each operation, by stack. The first stack is what the others are compared with.
Notes = dict[str, dict[str, list[Round]]]


def main(arguments: list[str] | None = None) -> None:
    """Measure what the command line asks for, and print the tables."""
    options = _options(arguments)
    if shutil.which("wrk") is None:
        sys.exit("The load is sent by wrk, which is missing. Debian, Ubuntu: apt-get install wrk")
    # Without it, the servers would outlive a run that is ended from outside.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    print(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {os.cpu_count()} cores.")
    for kind in options.database:
        print(f"\n## {kind}\n", flush=True)
        notes: Notes = defaultdict(lambda: defaultdict(list))
        try:
            (growth if options.growth else comparison)(kind, notes, options)
        except Failed as failure:
            sys.exit(f"FAILED on {kind}: {failure}")
        print_table(notes)


def comparison(kind: str, notes: Notes, options: argparse.Namespace) -> None:
    """Measure the stacks on one kind of database."""
    with databases(kind) as (folder, make):
        say(f"{kind}: filling {options.users} users")
        ours = Data(make("ours"), options.users, cost=options.cost)
        theirs = TutorialData(make("theirs"), options.users, cost=options.cost)

        def server(stack: Stack) -> Server:
            data = theirs if stack in (TUTORIAL, SYNC) else ours
            return Server(stack, data, folder, cost=options.cost)

        if "start" in options.measures:
            start(server(AS_IT_SHIPS), options.hashing_seconds)
        for operation, stacks in COMPARED.items():
            if operation in options.measures:
                compare(notes, operation, [server(stack) for stack in stacks], options)
        if "es256" in options.measures:
            signed = Server(ES256, ours.with_es256(), folder, cost=options.cost)
            also: Notes = defaultdict(lambda: defaultdict(list))
            compare(also, "verify", [server(SERVICE), signed], options)
            notes["verify, HS256 and ES256"] = also["verify"]
        for operation in ("login", "register"):
            if operation in options.measures:
                hashing(notes, operation, server(SERVICE), options)
        if "mixed" in options.measures:
            mixed(notes, [server(SYNC), server(SERVICE)], options)


def growth(kind: str, notes: Notes, options: argparse.Namespace) -> None:
    """Measure the service on a database of each size, in turns."""
    servers = []
    with databases(kind) as (folder, make):
        for size in options.sizes:
            say(f"{kind}: filling {size}")
            users, spent = map(int, size.split("+"))
            # So cheap a hash leaves the time to the database, which is what grows.
            data = Data(make(size), users, cost=4, spent=spent, tokens=10_000)
            stack = Stack(f"{users:,} users, {spent:,} spent", settings=SERVICE.settings)
            servers.append(Server(stack, data, folder, cost=4))
        for operation in OPERATIONS:
            if operation in options.measures:
                compare(notes, operation, servers, options)


def start(server: Server, seconds: int) -> None:
    """Measure cold starts, and the memory after a run of all operations at once."""
    say("start, memory")
    times = []
    for _ in range(2):
        with started(server) as taken:
            times += taken
    with started(server) as taken:
        times += taken
        loads = [(server.begin(operation, seconds, 4), operation) for operation in OPERATIONS]
        for wrk, operation in loads:
            server.finish(wrk, operation)
        server.settle()
        memory = server.memory()
    print(f"First answer after {statistics.median(times):.2f} s.")
    print(f"Memory of two workers after all operations: {memory:.0f} MiB (PSS).\n", flush=True)


def compare(
    notes: Notes, operation: str, servers: Sequence[Server], options: argparse.Namespace
) -> None:
    """Measure an operation on all servers."""
    say(f"{operation}: {', '.join(server.title for server in servers)}")
    for server in servers:
        notes[operation][server.title] = []  # in this order
    with started(*servers):
        if options.rounds > 1:  # a single round is only a trial
            for server in servers:
                server.load(operation, 1)
                server.settle()
        for server in in_turns(servers, options.rounds):
            notes[operation][server.title].append(one_round(server, operation, options.seconds))


def in_turns(servers: Sequence[Server], rounds: int) -> Iterator[Server]:
    """Yield every server once a round; each comes first in turn."""
    for first in range(rounds):
        yield from (servers[(first + n) % len(servers)] for n in range(len(servers)))


def one_round(server: Server, operation: str, seconds: int) -> Round:
    """Measure one round, with its CPU, also that of requests on their way at its end."""
    cpu = server.cpu()
    found = server.load(operation, seconds)
    server.settle()
    return found._replace(cpu=(server.cpu() - cpu) / (found.answers + CONNECTIONS) * 1000)


def hashing(notes: Notes, operation: str, server: Server, options: argparse.Namespace) -> None:
    """Measure an operation that hashes a password, beside hashes alone."""
    say(f"{operation}: bare bcrypt, {server.title}")
    measured = notes[operation]
    with started(server):
        for _ in range(min(options.rounds, HASHING_ROUNDS)):
            measured["bare bcrypt"].append(hashes(options.hashing_seconds, options.cost))
            measured[server.title].append(one_round(server, operation, options.hashing_seconds))


def hashes(seconds: int, cost: int) -> Round:
    """Hash as fast as this machine can, in a thread for each core."""
    salt, end, cpu = bcrypt.gensalt(cost), time.monotonic() + seconds, time.process_time()

    def work(_core: int) -> list[float]:
        moments = []
        while time.monotonic() < end:
            bcrypt.hashpw(b"password", salt)
            moments.append(time.monotonic())
        return moments

    with ThreadPoolExecutor() as pool:
        moments = sorted(chain.from_iterable(pool.map(work, range(os.cpu_count() or 1))))
    cpu = (time.process_time() - cpu) / len(moments) * 1000
    return Round(len(moments), pace(moments), 0.0, 0.0, cpu)


def mixed(notes: Notes, servers: Sequence[Server], options: argparse.Namespace) -> None:
    """Measure verify on 4 connections: alone, then while 16 others log in."""
    say(f"reads during logins: {', '.join(server.title for server in servers)}")
    slower: dict[str, list[float]] = defaultdict(list)
    with started(*servers):
        for server in in_turns(servers, min(options.rounds, HASHING_ROUNDS)):
            alone = server.load("verify", options.seconds, 4)
            wrk = server.begin("login", options.hashing_seconds + 2, 16)
            time.sleep(1)  # until all of them hash or wait
            busy = server.load("verify", options.hashing_seconds, 4)
            notes["verify, no logins"][server.title].append(alone)
            notes["verify during logins"][server.title].append(busy)
            notes["logins during verify"][server.title].append(server.finish(wrk, "login"))
            slower[server.title].append(busy.median / alone.median)
            server.settle()
    for title, ratios in slower.items():
        print(f"Median of verify during logins ÷ alone, {title}: {spread(ratios)}.\n")


def print_table(notes: Notes) -> None:
    """Print the medians of each operation, and ratios to the first stack, round by round."""
    print("| operation | stack | requests/s | median ms | p99 ms | CPU ms | rate ÷ | CPU ÷ |")
    print("| --- | --- |" + " ---: |" * 6)
    for operation, measured in notes.items():
        first, *_ = measured.values()
        for title, rounds in measured.items():
            medians = map(statistics.median, zip(*rounds, strict=True))
            row = [f"{value:.4g}" if value else "" for value in medians]
            ratios = ["", ""]
            if rounds is not first:
                pairs = list(zip(rounds, first, strict=True))
                ratios[0] = spread([ours.rate / other.rate for ours, other in pairs if other.rate])
                ratios[1] = spread([ours.cpu / other.cpu for ours, other in pairs if other.cpu])
            print(f"| {' | '.join([operation, title, *row[1:], *ratios])} |", flush=True)


def spread(ratios: Sequence[float]) -> str:
    """Return the median of ratios, and between what they lie."""
    if not ratios:
        return ""
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"


def say(text: str) -> None:
    """Tell what goes on; only tables are on the standard output."""
    print(text, file=sys.stderr, flush=True)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--database", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--measures", nargs="+", choices=MEASURES, default=MEASURES)
    parser.add_argument("--rounds", type=int, default=5, help="of each operation (5)")
    parser.add_argument("--seconds", type=int, default=2, help="of a round (2)")
    parser.add_argument("--hashing-seconds", type=int, default=6, help="of one of logins (6)")
    parser.add_argument("--users", type=int, default=10_000, help="in the database (10000)")
    parser.add_argument("--cost", type=int, default=12, help="of bcrypt (12)")
    parser.add_argument("--growth", action="store_true", help="the service alone, at --sizes")
    sizes = ["1000+0", "1000000+1000000"]
    parser.add_argument("--sizes", nargs="+", default=sizes, metavar="USERS+SPENT")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
