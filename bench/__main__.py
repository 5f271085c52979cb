"""`python -m bench`: measures the service beside other ways to do the same. See README.md."""

import argparse
import platform
import signal
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from bench import report
from bench.databases import databases
from bench.load import require_wrk
from bench.measure import COST, Bench, Notes, cores
from bench.registry import BENCH, OTHERS, SUBJECTS, USUAL
from bench.servers import Failed

OPERATIONS = ("start", "verify", "profile", "refresh", "progress", "login", "register", "mixed")
# Growth changes what the database does, so each operation is measured that asks it something.
GROWING = ["verify", "profile", "progress", "refresh", "login", "register"]


def main() -> None:
    """Measure what the command line asks for, and print the tables."""
    options = _parser().parse_args()
    require_wrk()
    # Without it, the subjects would outlive a run that is ended from outside.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    if not options.subjects:
        options.subjects = list(SUBJECTS) if options.others else USUAL
    if any(SUBJECTS[key].module for key in options.subjects):
        install_others()
    print(
        f"Measured on {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {cores()} cores, "
        f"Python {platform.python_version()}, {options.users} users, "
        f"{options.rounds} rounds of {options.seconds} s."
    )
    for kind in ("sqlite", "postgres") if options.database == "both" else (options.database,):
        try:
            notes = measure(kind, options)
        except Failed as failure:
            sys.exit(f"FAILED on {kind}: {failure}")
        if options.growth:
            print(f"\n## {kind}\n\n{report.growth_table(notes)}", flush=True)
        else:
            print_all(notes)


def install_others() -> None:
    """Install what the optional subjects need, in an environment of their own."""
    requirements = BENCH / "requirements-others.txt"
    if not OTHERS.exists():
        subprocess.run([sys.executable, "-m", "venv", str(OTHERS.parent.parent)], check=True)
    pip = [str(OTHERS), "-m", "pip", "--disable-pip-version-check", "-q", "install"]
    subprocess.run([*pip, "-r", str(requirements)], check=True)


def measure(kind: str, options: argparse.Namespace) -> Notes:
    """Measure on one kind of database. Raises Failed."""
    subjects = [SUBJECTS[key] for key in options.subjects]
    # Not below the project: Postgres runs as another user than root, who must get there.
    with (
        tempfile.TemporaryDirectory(prefix="accounts-bench-", ignore_cleanup_errors=True) as name,
        databases(kind, Path(name)) as made,
    ):
        bench = Bench(
            made,
            Path(name),
            users=options.users,
            rounds=options.rounds,
            seconds=options.seconds,
            hashing_seconds=options.hashing_seconds,
            cost=4 if options.growth else COST,
        )
        if options.growth:
            bench.prepare_sizes([tuple(map(int, size.split("+"))) for size in options.sizes])
            bench.run([operation for operation in GROWING if operation in options.operations])
            return bench.notes
        bench.prepare(subjects)
        if "start" in options.operations:
            bench.start_and_remember()
        bench.run([operation for operation in options.operations if operation != "start"])
        return bench.notes


def print_all(notes: Notes) -> None:
    """Print what was measured on one kind of database."""
    print(f"\n## {notes.kind}\n")
    parts = [report.main_table(notes), report.tree_table(notes), report.targets(notes)]
    print("\n\n".join(part for part in parts if part))
    print(f"\n{report.own_cpu(notes)}", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--database", choices=["sqlite", "postgres", "both"], default="both")
    parser.add_argument("--rounds", type=int, default=3, help="of each operation (%(default)s)")
    parser.add_argument("--seconds", type=int, default=2, help="of a round (%(default)s)")
    parser.add_argument(
        "--hashing-seconds", type=int, default=6, help="of one full of logins (%(default)s)"
    )
    parser.add_argument("--users", type=int, default=10_000, help="in the database (%(default)s)")
    parser.add_argument(
        "--subjects",
        nargs="+",
        choices=list(SUBJECTS),
        metavar="SUBJECT",
        help=f"of {', '.join(SUBJECTS)}; {', '.join(USUAL)}",
    )
    parser.add_argument(
        "--growth",
        action="store_true",
        help="the service alone, at --sizes, with hashes of cost 4 to show the work besides",
    )
    parser.add_argument(
        "--sizes",
        nargs="+",
        default=["1000+0", "100000+0", "1000000+0", "1000000+1000000"],
        metavar="USERS+SPENT",
        help="users, and spent rows in each of sessions and denylist",
    )
    parser.add_argument(
        "--others",
        action="store_true",
        help="also Django and fastapi-users, installed into bench/.venv-others",
    )
    parser.add_argument(
        "--operations",
        nargs="+",
        choices=OPERATIONS,
        default=OPERATIONS,
        metavar="OPERATION",
        help=f"of {', '.join(OPERATIONS)}; all",
    )
    return parser


if __name__ == "__main__":
    main()
