"""The tables, in GitHub's Markdown."""

import statistics
from collections.abc import Callable, Iterable, Sequence

from bench.measure import HASHING, Notes, Round, cores

SERVICE = "this service"
# What a million users and spent rows may cost, as a multiple of a thousand users.
MOST_GROWTH = 1.1
# What an operation is compared with: the first of these that was measured.
REFERENCES = {
    "verify": ("thin floor",),
    "profile": ("thin floor",),
    "refresh": ("Django + simplejwt", "tutorial stack"),
    "login": ("bare bcrypt",),
    "register": ("bare bcrypt",),
}


def middle(rounds: Sequence[Round], value: Callable[[Round], float]) -> float:
    """Return the median of a value over the rounds."""
    return statistics.median(value(round_) for round_ in rounds)


def ratio(ours: Sequence[Round], theirs: Sequence[Round], value: Callable[[Round], float]) -> float:
    """Return the median ratio of rounds that stood side by side, so that both had one weather."""
    pairs = zip(ours, theirs, strict=True)
    return statistics.median(value(one) / value(other) for one, other in pairs if value(other))


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table whose columns are numbers but for those at the left."""
    lines = [head, ["---" if n < 2 else "---:" for n in range(len(head))], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main_table(notes: Notes) -> str:
    """Return what was measured of each operation on each subject."""
    head = ["operation", "subject", "requests/s", "median ms", "p99 ms", "CPU ms"]
    postgres = notes.kind == "postgres"
    head += ["Postgres CPU ms"] if postgres else []
    head += ["rate ÷", "CPU ÷", "compared with"]
    rows = []
    for operation, subjects in notes.rounds.items():
        against = reference(notes, operation)
        for title, rounds in subjects.items():
            row = [operation, title, number(middle(rounds, lambda r: r.rate))]
            row += [number(middle(rounds, lambda r: r.median))]
            row += [number(middle(rounds, lambda r: r.p99))]
            row += [number(middle(rounds, lambda r: r.cpu))]
            row += [number(middle(rounds, lambda r: r.database_cpu))] if postgres else []
            if against and title != against:
                other = subjects[against]
                row += [
                    f"{ratio(rounds, other, lambda r: r.rate):.2f}",
                    f"{ratio(rounds, other, lambda r: r.cpu):.2f}",
                    against,
                ]
            else:
                row += ["", "", ""]
            rows.append(row)
    return markdown(head, rows)


def tree_table(notes: Notes) -> str:
    """Return memory and cold start of each subject."""
    head = ["subject", "database", "memory MiB (PSS)", "first answer s"]
    rows = [
        [title, notes.kind, f"{memory:.0f}", f"{statistics.median(notes.starts[title]):.2f}"]
        for title, memory in notes.memory.items()
    ]
    return markdown(head, rows) if rows else ""


def reference(notes: Notes, operation: str) -> str | None:
    """Return what the subjects are compared with in an operation."""
    measured = notes.rounds[operation]
    return next((title for title in REFERENCES.get(operation, ()) if title in measured), None)


def number(value: float) -> str:
    """Return three figures that count; nothing for what was not measured."""
    if not value:
        return ""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def growth_table(notes: Notes) -> str:
    """Return what each operation costs at each size, also as a multiple of the smallest."""
    postgres = notes.kind == "postgres"
    head = ["operation", "size", "requests/s", "median ms", "p99 ms", "CPU ms"]
    head += ["Postgres CPU ms"] if postgres else []
    head += ["time ÷ first", "CPU ÷ first"]
    rows = []
    for operation, sizes in notes.rounds.items():
        smallest = next(iter(sizes.values()))
        for title, rounds in sizes.items():
            row = [operation, title, number(middle(rounds, lambda r: r.rate))]
            row += [number(middle(rounds, lambda r: r.median))]
            row += [number(middle(rounds, lambda r: r.p99))]
            row += [number(middle(rounds, lambda r: r.cpu))]
            row += [number(middle(rounds, lambda r: r.database_cpu))] if postgres else []
            row += [grown(ratio(smallest, rounds, lambda r: r.rate))]
            row += [grown(ratio(rounds, smallest, lambda r: r.cpu + r.database_cpu))]
            rows.append(row)
    return markdown(head, rows)


def grown(times: float) -> str:
    """Return how many times more it is, in bold where it is more than it shall be."""
    return f"**{times:.2f}**" if times > MOST_GROWTH else f"{times:.2f}"


def own_cpu(notes: Notes) -> str:
    """Return how much of the processor the load itself took, from the subjects."""
    found = [
        round_.wrk
        for subjects in notes.rounds.values()
        for rounds in subjects.values()
        for round_ in rounds
        if round_.wrk
    ]
    if not found:
        return ""
    return f"wrk itself took {min(found):.2f} to {max(found):.2f} of {cores()} cores."


def targets(notes: Notes) -> str:
    """Return what the service is to reach, and whether it does."""
    rows: list[list[str]] = []

    def row(what: str, value: float, wanted: str, reached: bool) -> None:
        rows.append([what, notes.kind, f"{value:.2f}", wanted, "yes" if reached else "**no**"])

    for operation in ("verify", "profile"):
        if found := _against(notes, operation, "thin floor"):
            row(f"{operation}: rate ÷ thin floor", found, "≥ 0.85", found >= 0.85)
            found = _thrift(notes, operation, "thin floor")
            row(f"{operation}: CPU of thin floor ÷ ours", found, "≥ 0.85", found >= 0.85)
    django = "Django + simplejwt"
    if found := _against(notes, "refresh", django):
        row(f"refresh: rate ÷ {django}", found, "≥ 3", found >= 3)
        found = _thrift(notes, "refresh", django)
        row(f"refresh: CPU of {django} ÷ ours", found, "≥ 3", found >= 3)
    for operation in HASHING:
        if found := _against(notes, operation, "bare bcrypt"):
            row(f"{operation}: rate ÷ bare bcrypt, all cores", found, "≥ 0.95", found >= 0.95)
            found = _thrift(notes, operation, "bare bcrypt")
            row(f"{operation}: CPU of bare bcrypt ÷ ours", found, "≥ 0.95", found >= 0.95)
            hash_time = statistics.median(notes.hash_times)
            rate = middle(notes.rounds[operation][SERVICE], lambda r: r.rate)
            found = rate / (cores() * 1000 / hash_time)
            what = f"{operation}: rate ÷ (cores / one hash alone, {hash_time:.0f} ms)"
            row(what, found, "≥ 0.95", found >= 0.95)
    busy = notes.rounds["verify during logins"].get(SERVICE)
    if busy:
        idle = notes.rounds["verify, no logins"][SERVICE]
        found = ratio(busy, idle, lambda r: r.median)
        row("verify during logins: median ÷ without", found, "≤ 3", found <= 3)
        found = middle(busy, lambda r: r.p99) / statistics.median(notes.hash_times)
        row("verify during logins: p99 ÷ one hash", found, "≤ 1", found <= 1)
    if SERVICE in notes.memory:
        found = notes.memory[SERVICE]
        row("memory after a mixed run, MiB", found, "≤ 170", found <= 170)
        found = statistics.median(notes.starts[SERVICE])
        row("first answer, s", found, "≤ 1.2", found <= 1.2)
    return markdown(["target", "database", "measured", "wanted", "reached"], rows) if rows else ""


def _against(notes: Notes, operation: str, other: str) -> float | None:
    measured = notes.rounds[operation]
    if SERVICE not in measured or other not in measured:
        return None
    return ratio(measured[SERVICE], measured[other], lambda r: r.rate)


def _thrift(notes: Notes, operation: str, other: str) -> float:
    """Return how many requests of ours cost the CPU of one of theirs, the database's included."""
    measured = notes.rounds[operation]
    return ratio(measured[other], measured[SERVICE], lambda r: r.cpu + r.database_cpu)
