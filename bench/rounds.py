"""Measures stacks in rounds, in which they take turns, so that a drift hits all alike."""

import os
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from bench.servers import Server

# A connection stays with the worker that accepted it. Where one worker got so many that it did
# more than this share of the work, the round is tried again, so many times in all.
BALANCED = 0.65
TRIES = 3


@dataclass(frozen=True)
class Round:
    """One operation on one stack. Milliseconds; CPU of the stack's processes per request."""

    rate: float
    median: float
    p99: float
    cpu: float = 0.0


@dataclass
class Notes:
    """All that was measured on one kind of database."""

    # By operation, then by stack: the first stack is what the others are compared with.
    rounds: dict[str, dict[str, list[Round]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    starts: list[float] = field(default_factory=list)
    memory: float = 0.0

    def ratios(self, operation: str, title: str, value: Callable[[Round], float]) -> list[float]:
        """Return the ratios to the first stack, of rounds that stood side by side."""
        first, measured = next(iter(self.rounds[operation].values())), self.rounds[operation]
        return [value(ours) / value(theirs) for ours, theirs in zip(measured[title], first)]


def say(text: str) -> None:
    """Tell the person who waits what goes on; only tables are on the standard output."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def started(servers: Sequence[Server]) -> Iterator[None]:
    """Keep the servers running."""
    try:
        for server in servers:
            server.start()
        yield
    finally:
        for server in servers:
            server.stop()


def turns(servers: Sequence[Server], rounds: int) -> Iterator[Server]:
    """Yield every server once a round; each comes first in turn."""
    for turn in range(rounds):
        say(f"  round {turn + 1} of {rounds}")
        first = turn % len(servers)
        yield from [*servers[first:], *servers[:first]]


def compare(
    notes: Notes, operation: str, servers: Sequence[Server], rounds: int, seconds: int
) -> None:
    """Measure an operation on all servers."""
    say(f"{operation}: {', '.join(server.title for server in servers)}")
    for server in servers:
        notes.rounds[operation][server.title] = []  # in this order
    with started(servers):
        if rounds > 1:  # a single round is only a trial
            for server in servers:
                server.load(operation, 1)
                server.settle()
        for server in turns(servers, rounds):
            notes.rounds[operation][server.title].append(one_round(server, operation, seconds))


def one_round(server: Server, operation: str, seconds: int, *, few: bool = False) -> Round:
    """Measure one round; `few` answers need a rate that does not count those at the ends."""
    tries: list[tuple[float, Round]] = []
    while len(tries) < TRIES:
        before = server.cpu_seconds()
        load = server.load(operation, seconds)
        server.settle()
        # A worker that was replaced meanwhile counts from its start.
        used = [cpu - before.get(pid, 0.0) for pid, cpu in server.cpu_seconds().items()]
        cpu = sum(used) / load.requests * 1000
        round_ = Round(load.pace if few else load.rate, load.median, load.p99, cpu)
        tries.append((max(used) / sum(used), round_))
        if tries[-1][0] <= BALANCED:
            break
    return min(tries, key=lambda found: found[0])[1]


def table(notes: Notes) -> str:
    """Return what was measured of each operation on each stack."""
    rows = []
    for operation, measured in notes.rounds.items():
        for title, rounds in measured.items():
            row = [operation, title]
            row += [number(statistics.median(r.rate for r in rounds))]
            row += [number(statistics.median(r.median for r in rounds))]
            row += [number(statistics.median(r.p99 for r in rounds))]
            row += [number(statistics.median(r.cpu for r in rounds))]
            if title == next(iter(measured)):
                row += ["", ""]
            else:
                row += [spread(notes.ratios(operation, title, lambda r: r.rate))]
                row += [spread(notes.ratios(operation, title, lambda r: r.cpu))]
            rows.append(row)
    head = ["operation", "stack", "requests/s", "median ms", "p99 ms", "CPU ms"]
    return markdown([*head, "rate ÷ first", "CPU ÷ first"], rows)


def spread(ratios: Sequence[float]) -> str:
    """Return the median of ratios, and between what they lie."""
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"


def number(value: float) -> str:
    """Return three figures that count; nothing for what was not measured."""
    return f"{value:.3g}" if 0 < value < 100 else f"{value:.0f}" if value else ""


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table whose columns are numbers but for the first two."""
    lines = [head, ["---" if n < 2 else "---:" for n in range(len(head))], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cores() -> int:
    """Return how many cores the stacks may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
