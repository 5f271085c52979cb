"""`python -m bench`: measures the service beside other ways to do the same. See README.md.

The stacks take turns in short rounds, so that a drift of the machine hits all alike.
"""

import argparse
import os
import platform
import signal
import statistics
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

import bcrypt

from bench.data import Data, TutorialData
from bench.databases import KINDS, databases
from bench.servers import OPERATIONS, Failed, Round, Server, Stack, pace, require_wrk, started

_CONF = ("-c", "bench/stacks/gunicorn_conf.py")
BARE = Stack("bare Flask", (*_CONF, "bench.stacks.bare:app"))
THIN = Stack("thin floor", (*_CONF, "bench.stacks.thin:app"))
TUTORIAL = Stack("tutorial stack", (*_CONF, "bench.stacks.tutorial:app"))
SYNC = Stack("tutorial stack, sync workers", (*TUTORIAL.arguments, "-k", "sync", "--threads", "1"))
SERVICE = Stack("this service, quiet", settings={"LOG_LEVEL": "WARNING"})
AS_IT_SHIPS = Stack("this service, as it ships")
# The first of them is what the others are compared with.
COMPARED = {
    "verify": (THIN, BARE, TUTORIAL, SERVICE, AS_IT_SHIPS),
    "profile": (THIN, SERVICE, AS_IT_SHIPS),
    "refresh": (TUTORIAL, SERVICE),
}
MEASURES = ("start", *COMPARED, "login", "register", "mixed")
STARTS = 3
# Rounds in which every request is a hash are longer, so there are fewer.
HASHING_ROUNDS = 2
# A connection stays with the worker that accepted it. Where one worker got so many that it did
# more than this share of the work, the round is tried again, so many times in all.
BALANCED = 0.65
TRIES = 3

# The rounds of each operation, by stack. The first stack is what the others are compared with.
Notes = dict[str, dict[str, list[Round]]]


def main(arguments: list[str] | None = None) -> None:
    """Measure what the command line asks for, and print the tables."""
    options = _options(arguments)
    require_wrk()
    # Without it, the servers would outlive a run that is ended from outside.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    print(
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {cores()} cores, Python "
        f"{platform.python_version()}, {options.rounds} rounds of {options.seconds} s."
    )
    for kind in options.database:
        print(f"\n## {kind}\n", flush=True)
        try:
            (growth if options.growth else comparison)(kind, options)
        except Failed as failure:
            sys.exit(f"FAILED on {kind}: {failure}")


def comparison(kind: str, options: argparse.Namespace) -> None:
    """Measure the stacks on one kind of database, and print what was found."""
    notes: Notes = defaultdict(lambda: defaultdict(list))
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
        for operation in ("login", "register"):
            if operation in options.measures:
                hashing(notes, operation, server(SERVICE), options)
        if "mixed" in options.measures:
            mixed(notes, [server(SYNC), server(SERVICE)], options)
    print_table(notes)


def growth(kind: str, options: argparse.Namespace) -> None:
    """Measure the service on a database of each size, in turns, and print what was found."""
    notes: Notes = defaultdict(lambda: defaultdict(list))
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
            if operation in options.measures or operation == "progress":
                compare(notes, operation, servers, options)
    print_table(notes)


def start(server: Server, seconds: int) -> None:
    """Measure cold starts, and the memory after a run of all operations at once."""
    say("start, memory")
    times = []
    for _ in range(STARTS - 1):
        with started(server) as seconds_each:
            times += seconds_each
    with started(server) as seconds_each:
        times += seconds_each
        server.check_guard()
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
        for server in turns(servers, options.rounds):
            notes[operation][server.title].append(one_round(server, operation, options.seconds))


def turns(servers: Sequence[Server], rounds: int) -> Iterator[Server]:
    """Yield every server once a round; each comes first in turn."""
    for turn in range(rounds):
        first = turn % len(servers)
        yield from [*servers[first:], *servers[:first]]


def one_round(server: Server, operation: str, seconds: int) -> Round:
    """Measure one round, with its CPU."""
    tries: list[tuple[float, Round]] = []
    while len(tries) < TRIES:
        before = server.cpu()
        round_ = server.load(operation, seconds)
        server.settle()
        # A worker that was replaced meanwhile counts from its start.
        used = [cpu - before.get(pid, 0.0) for pid, cpu in server.cpu().items()]
        cpu = sum(used) / round_.answers * 1000
        tries.append((max(used) / sum(used), round_._replace(cpu=cpu)))
        if tries[-1][0] <= BALANCED:
            break
    return min(tries, key=lambda found: found[0])[1]


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
    salt = bcrypt.gensalt(cost)
    moments: list[float] = []
    times: list[float] = []
    end = time.monotonic() + seconds
    cpu = time.process_time()

    def work() -> None:
        while time.monotonic() < end:
            begin = time.monotonic()
            bcrypt.hashpw(b"password", salt)
            moments.append(time.monotonic())
            times.append((moments[-1] - begin) * 1000)

    threads = [threading.Thread(target=work) for _ in range(cores())]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    cpu = (time.process_time() - cpu) / len(times) * 1000
    return Round(len(times), pace(sorted(moments)), statistics.median(times), max(times), cpu)


def mixed(notes: Notes, servers: Sequence[Server], options: argparse.Namespace) -> None:
    """Measure verify on 4 connections: alone, then while 16 others log in."""
    say(f"reads during logins: {', '.join(server.title for server in servers)}")
    slower: dict[str, list[float]] = defaultdict(list)
    with started(*servers):
        for server in turns(servers, min(options.rounds, HASHING_ROUNDS)):
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
        print(f"Median of verify during logins ÷ alone, {title}: {spread(ratios)}.")
    print()


def print_table(notes: Notes) -> None:
    """Print the medians of each operation on each stack, and ratios of rounds side by side."""
    rows = []
    for operation, measured in notes.items():
        first, *_ = measured.values()
        for title, rounds in measured.items():
            row = [number(statistics.median(values)) for values in zip(*rounds, strict=True)]
            ratios = ["", ""]
            if rounds is not first:
                pairs = list(zip(rounds, first, strict=True))
                ratios[0] = spread([ours.rate / other.rate for ours, other in pairs if other.rate])
                ratios[1] = spread([ours.cpu / other.cpu for ours, other in pairs if other.cpu])
            rows.append([operation, title, *row[1:], *ratios])
    head = ["operation", "stack", "requests/s", "median ms", "p99 ms", "CPU ms"]
    print(markdown([*head, "rate ÷ first", "CPU ÷ first"], rows), flush=True)


def spread(ratios: Sequence[float]) -> str:
    """Return the median of ratios, and between what they lie."""
    if not ratios:
        return ""
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"


def number(value: float) -> str:
    """Return three figures that count; nothing for what was not measured."""
    return f"{value:.3g}" if 0 < value < 100 else f"{value:.0f}" if value else ""


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table whose columns are numbers but for the first two."""
    lines = [head, ["---" if n < 2 else "---:" for n in range(len(head))], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def say(text: str) -> None:
    """Tell the person who waits what goes on; only tables are on the standard output."""
    print(text, file=sys.stderr, flush=True)


def cores() -> int:
    """Return how many cores the stacks may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)

    def whole(name: str, default: int, text: str) -> None:
        parser.add_argument(name, type=int, default=default, help=f"{text} ({default})")

    parser.add_argument("--database", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--measures", nargs="+", choices=MEASURES, default=MEASURES)
    whole("--rounds", 5, "of each operation")
    whole("--seconds", 2, "of a round")
    whole("--hashing-seconds", 6, "of a round of logins")
    whole("--users", 10_000, "in the database")
    whole("--cost", 12, "of bcrypt")
    parser.add_argument("--growth", action="store_true", help="the service alone, at --sizes")
    sizes = ["1000+0", "1000000+1000000"]
    text = "users, and unused rows in each of sessions and denylist"
    parser.add_argument("--sizes", nargs="+", default=sizes, metavar="USERS+SPENT", help=text)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
