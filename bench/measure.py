"""Runs the subjects on one kind of database, in alternation, and notes what it sees."""

import os
import statistics
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import bcrypt
from sqlalchemy import URL

from bench import data, supply
from bench.databases import Databases
from bench.load import Driver, Load, pace
from bench.registry import SUBJECTS, Subject
from bench.servers import Running
from bench.supply import Supply

COST = 12
READS = ("verify", "profile", "progress")
HASHING = ("login", "register")
# Rounds in which every request is a hash are longer, so there are fewer.
HASHING_ROUNDS = 2
# Refresh tokens in circulation during a round: each is used again after all others.
CHAINS = 200
# Connections stay with the worker that accepted them. Where one worker has got so much more of
# them that it does this share of the work, the round is tried again, so many times in all.
BALANCED = 0.65
TRIES = 5
# The load is mixed of so many callers that log in, and so many that read.
LOGINS_AT_ONCE = 16
READS_AT_ONCE = 4
STARTS = 3
# Of the run before the memory is measured: long enough for a few hashes beside all else.
MIXED_SECONDS = 6
# Of a database of any size, so many users call.
CALLERS = 10_000


@dataclass(frozen=True)
class Round:
    """One operation on one subject for some seconds. Times are milliseconds."""

    rate: float
    median: float
    p99: float
    # CPU of the subject's processes for each request, and of the database's server.
    cpu: float
    database_cpu: float = 0.0
    # Cores that wrk took from the subject.
    wrk: float = 0.0


@dataclass
class Notes:
    """All that was seen on one kind of database."""

    kind: str
    # By operation, then by the title of the subject; a round of one is next to that of another.
    rounds: dict[str, dict[str, list[Round]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    starts: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    memory: dict[str, float] = field(default_factory=dict)
    # Milliseconds of one hash with nothing else going on.
    hash_times: list[float] = field(default_factory=list)

    def note(self, operation: str, title: str, round_: Round) -> None:
        self.rounds[operation][title].append(round_)


def say(text: str) -> None:
    """Tell the person who waits what goes on; the table alone is on the standard output."""
    print(text, file=sys.stderr, flush=True)


class Bench:
    """The subjects on databases of one kind, each on a copy of the same data."""

    def __init__(
        self,
        made: Databases,
        folder: Path,
        *,
        users: int,
        rounds: int,
        seconds: int,
        hashing_seconds: int = 6,
        cost: int = COST,
    ) -> None:
        self._made = made
        self._folder = folder
        self._users = users
        self._rounds = rounds
        self._seconds = seconds
        self._hashing_seconds = hashing_seconds
        self._cost = cost
        self.notes = Notes(made.kind)
        self._running: dict[str, Running] = {}
        self._supplies: dict[str, Supply] = {}

    def prepare(self, subjects: list[Subject]) -> None:
        """Fill a database, and give each subject a copy."""
        say(f"{self._made.kind}: filling {self._users} users")
        source = self._made.migrated("source")
        data.fill(source, self._users, rounds=self._cost)
        callers = data.callers(source, CALLERS)
        learners = data.callers(source, data.LEARNERS, learners=True)
        for subject in subjects:
            if subject.module:
                url = self._made.empty(subject.key)
                found = supply.of_other(subject, url, self._users, rounds=self._cost)
                self._take_on(subject, url, found)
                continue
            url = self._made.copy(source, subject.key)
            if subject.key == "tutorial":
                salt = bcrypt.gensalt(self._cost)
                data.use_plain_bcrypt(url, bcrypt.hashpw(data.PASSWORD.encode(), salt).decode())
                found = supply.of_tutorial(callers)
            else:
                found = supply.of_service(callers, learners)
            self._take_on(subject, url, found)

    def prepare_sizes(self, sizes: list[tuple[int, int]]) -> None:
        """Give the service databases of several sizes: users, and spent rows beside them."""
        service = SUBJECTS["service"]
        for users, spent in sizes:
            say(f"{self._made.kind}: filling {users} users, {spent} spent rows")
            url = self._made.migrated(f"service-{users}-{spent}")
            # Few users have more sessions, or there would not be enough for all rounds.
            each = min(10, max(1, CALLERS // users))
            data.fill(url, users, rounds=self._cost, sessions_each=each, spent=spent)
            callers = data.callers(url, CALLERS)
            learners = data.callers(url, data.LEARNERS, learners=True)
            title = f"{users:,} users, {spent:,} spent"
            subject = replace(service, key=f"service-{users}-{spent}", title=title)
            self._take_on(subject, url, supply.of_service(callers, learners))

    def _take_on(self, subject: Subject, url: URL, lines: Supply) -> None:
        self._made.tidy(url)
        self._supplies[subject.key] = lines
        self._running[subject.key] = Running(subject, url, self._folder, rounds=self._cost)

    def start_and_remember(self) -> None:
        """Measure cold starts, and memory after a mixed run, with one subject alone at a time."""
        for turn in range(STARTS):
            say(f"{self._made.kind}: start {turn + 1} of {STARTS}")
            for running in self._running.values():
                with self._started(running) as seconds:
                    self.notes.starts[running.subject.title].append(seconds)
                    if turn == STARTS - 1:
                        self._run_all_sorts(running)
                        self.notes.memory[running.subject.title] = running.memory()

    def _run_all_sorts(self, running: Running) -> None:
        drivers = [
            self._driver(running, operation, seconds=MIXED_SECONDS, connections=4)
            for operation in running.subject.calls
        ]
        for driver in drivers:
            driver.finish()
        running.settle()

    def run(self, operations: list[str]) -> None:
        """Measure the operations on all subjects that have them."""
        for operation in operations:
            able = [r for r in self._running.values() if operation in r.subject.calls]
            if operation == "mixed":
                able = [r for r in self._running.values() if "login" in r.subject.calls]
            if able:
                with self._all_started(able):
                    if operation == "mixed":
                        self._mixed(able)
                    elif operation in HASHING and self._cost == COST:
                        self._hashing(operation, able)
                    else:
                        self._usual(operation, able)

    @contextmanager
    def _started(self, running: Running) -> Iterator[float]:
        tokens = self._supplies[running.subject.key].access
        try:
            yield running.start(running.subject.calls["verify"], tokens[0])
        finally:
            running.stop()

    @contextmanager
    def _all_started(self, able: list[Running]) -> Iterator[None]:
        try:
            for running in able:
                key = running.subject.key
                running.start(running.subject.calls["verify"], self._supplies[key].access[0])
                check(running, self._supplies[key])
            yield
        finally:
            for running in able:
                running.stop()

    def _usual(self, operation: str, able: list[Running]) -> None:
        for running in able:  # to warm up: connections, caches, statements
            self._driver(running, operation, seconds=1).finish()
            running.settle()
        for turn in range(self._rounds):
            say(f"{self._made.kind}: {operation}, round {turn + 1} of {self._rounds}")
            for running in _rotated(able, turn):
                self._measure(running, operation, seconds=self._seconds)

    def _hashing(self, operation: str, able: list[Running]) -> None:
        for turn in range(HASHING_ROUNDS):
            say(f"{self._made.kind}: {operation}, round {turn + 1} of {HASHING_ROUNDS}")
            self.notes.hash_times.append(time_of_a_hash())
            self.notes.note(operation, "bare bcrypt", hash_on_all_cores(self._hashing_seconds))
            for running in _rotated(able, turn):
                self._measure(running, operation, seconds=self._hashing_seconds, slow=True)

    def _mixed(self, able: list[Running]) -> None:
        for turn in range(HASHING_ROUNDS):
            say(f"{self._made.kind}: mixed load, round {turn + 1} of {HASHING_ROUNDS}")
            self.notes.hash_times.append(time_of_a_hash())
            for running in _rotated(able, turn):
                title = running.subject.title
                reads = {"operation": "verify", "connections": READS_AT_ONCE}
                idle = self._driver(running, **reads, seconds=self._seconds).finish()
                self.notes.note("verify, no logins", title, _round(idle))
                logins = self._driver(
                    running,
                    "login",
                    seconds=self._hashing_seconds,
                    connections=LOGINS_AT_ONCE,
                    slow=True,
                )
                time.sleep(1)  # until all of them hash or wait
                busy = self._driver(running, **reads, seconds=self._hashing_seconds - 2).finish()
                self.notes.note("verify during logins", title, _round(busy))
                self.notes.note("logins during verify", title, _round(logins.finish()))
                running.settle()

    def _measure(
        self, running: Running, operation: str, *, seconds: int, slow: bool = False
    ) -> None:
        tries: list[tuple[float, Round]] = []
        while len(tries) < TRIES and min(share for share, _ in [(1.0, None), *tries]) > BALANCED:
            before, database_cpu = running.cpu_by_process(), self._made.cpu_seconds()
            load = self._driver(running, operation, seconds=seconds, slow=slow).finish()
            running.settle()
            after = running.cpu_by_process()
            database_cpu = self._made.cpu_seconds() - database_cpu
            if before.keys() != after.keys():
                # A worker has come to its last request and was replaced. That is part of life,
                # but what it had used is gone from the sum.
                continue
            used = [after[process] - before[process] for process in after]
            round_ = _round(load, cpu=sum(used), database_cpu=database_cpu)
            tries.append((max(used) / sum(used), round_))
        best = min(tries, key=lambda found: found[0])[1]
        self.notes.note(operation, running.subject.title, best)

    def _driver(
        self,
        running: Running,
        operation: str,
        *,
        seconds: int,
        connections: int = 16,
        slow: bool = False,
    ) -> Driver:
        numbers = {"refresh": CHAINS, "register": 2000 * seconds}
        lines = self._supplies[running.subject.key].take(operation, numbers.get(operation, 4000))
        return Driver(
            running,
            operation,
            lines,
            self._folder,
            seconds=seconds,
            connections=connections,
            slow=slow,
        )


def _rotated(able: list[Running], turn: int) -> list[Running]:
    """Return the subjects in an order that lets each come first in turn."""
    first = turn % len(able)
    return able[first:] + able[:first]


def _round(load: Load, *, cpu: float = 0.0, database_cpu: float = 0.0) -> Round:
    return Round(
        rate=load.rate,
        median=load.median,
        p99=load.p99,
        cpu=cpu / load.requests * 1000,
        database_cpu=database_cpu / load.requests * 1000,
        wrk=load.own_cpu,
    )


def check(running: Running, lines: Supply) -> None:
    """Look closer at a few answers than the load does. Raises Failed.

    The user in the answer is the token's, and without a right token there is none.
    """
    if not running.subject.guarded:
        return
    for operation in ("verify", "profile"):
        call = running.subject.calls[operation]
        for token, owner in list(zip(lines.access, lines.owners, strict=True))[:3]:
            answer = running.ask(call, token)
            if answer.status != call.status or f'"{owner}' not in answer.body:
                raise running.failed(f"{operation}: {owner} got {answer}")
        token = lines.access[0]
        head, claims, signature = token.split(".")
        for bad in (f"{head}.{claims}.{signature[::-1]}", "no token"):
            answer = running.ask(call, bad)
            # Flask-JWT-Extended's own answer is 422.
            if answer.status not in (401, 422):
                raise running.failed(f"{operation}: a wrong token got {answer}")


def time_of_a_hash() -> float:
    """Return the milliseconds of one hash with nothing else going on."""
    salt = bcrypt.gensalt(COST)
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        bcrypt.hashpw(b"password", salt)
        times.append((time.perf_counter() - begin) * 1000)
    return statistics.median(times)


def hash_on_all_cores(seconds: float) -> Round:
    """Hash as fast as this machine can, in a thread for each core."""
    salt = bcrypt.gensalt(COST)
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

    in_threads(work, cores())
    return Round(
        rate=pace(sorted(moments)),
        median=statistics.median(times),
        p99=max(times),
        cpu=(time.process_time() - cpu) / len(times) * 1000,
    )


def in_threads(work: Callable[[], None], number: int) -> None:
    threads = [threading.Thread(target=work) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def cores() -> int:
    """Return how many cores the subjects may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
