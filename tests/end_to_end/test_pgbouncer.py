"""The service behind PgBouncer in transaction mode, with the configuration of scaling.md."""

import os
import re
import shutil
import socket
import subprocess
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest
from helpers import meanwhile, race, soon
from real_service import deployed, empty_database, free_port

from config import ROOT

# Debian installs it where the PATH of a user may not lead.
PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
POOL_SIZE = 3
OURS = "FROM pg_stat_activity WHERE application_name = 'accounts' AND datname = current_database()"

pytestmark = pytest.mark.skipif(
    PGBOUNCER is None, reason="PgBouncer is not installed (Debian: apt-get install pgbouncer)"
)


def configuration(database, port, users):
    """Return the configuration in the docs for our server."""
    scaling = (ROOT / "docs/scaling.md").read_text()
    (ini,) = re.findall(r"^```ini\n(\[databases\].*?)^```$", scaling, re.M | re.S)
    server = f"host={database.query['host']} dbname={database.database}"
    ours = {
        "host=db.internal": server,
        "[pgbouncer]": "[pgbouncer]\nunix_socket_dir =",
        "listen_port = 6432": f"listen_port = {port}",
        "/etc/pgbouncer/userlist.txt": str(users),
        "default_pool_size = 20": f"default_pool_size = {POOL_SIZE}",
    }
    for documented, replacement in ours.items():
        assert documented in ini
        ini = ini.replace(documented, replacement)
    return ini


@contextmanager
def pgbouncer(database):
    """Run PgBouncer in front of this database; yield the URL of its entry `accounts`."""
    # For root, both servers run as the user who owns the socket of Postgres.
    user = ["-u", Path(database.query["host"]).owner()] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory(prefix="pgbouncer-") as name:
        os.chmod(name, 0o755)
        ini, users, port = Path(name, "pgbouncer.ini"), Path(name, "users"), free_port()
        users.write_text('"postgres" "secret"\n')
        ini.write_text(configuration(database, port, users))
        bouncer = subprocess.Popen([PGBOUNCER, "-q", *user, ini])

        def listens():
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                return True

        try:
            soon(listens)
            place = {"host": "127.0.0.1", "port": port, "query": {}}
            yield database.set(username="postgres", password="secret", database="accounts", **place)
        finally:
            bouncer.kill()
            bouncer.wait()


@pytest.fixture(scope="module", params=["postgres"])
def pooled(request, mail_server, folder):
    """The service, its PgBouncer's URL, and a connection that goes around PgBouncer."""
    database = empty_database(request, folder)
    around = database.set(drivername="postgresql").render_as_string(hide_password=False)
    log = folder / "pooled.log"
    with (
        pgbouncer(database) as url,
        deployed(url, mail_server.port, log) as service,
        psycopg.connect(around, autocommit=True) as direct,
    ):
        yield SimpleNamespace(service=service, url=url, direct=direct)
    print(log.read_text()[-20_000:])


def test_sixteen_clients_at_once_need_three_connections_to_postgres(pooled):
    service = pooled.service
    # One after the other: so many hashes at once may be refused on a slow machine.
    opened = [service.log_in(service.register(f"user{number}")).data for number in range(16)]

    def call_on(number):
        tokens = opened[number]
        for bio in "abcdefg":  # psycopg would prepare a statement at its sixth time
            token = tokens["accessToken"]
            answer = service.call("PUT", "/api/users/profile", {"bio": bio}, token=token)
            assert (answer.data["username"], answer.data["bio"]) == (f"user{number}", bio)
            body = {"refreshToken": tokens["refreshToken"]}
            tokens = service.call("POST", "/api/auth/refresh", body).data

    race(call_on, 16)
    # PgBouncer keeps open all that it needed at once.
    assert pooled.direct.execute(f"SELECT count(*) {OURS}").fetchone()[0] == POOL_SIZE


def test_postgres_ends_a_wait_for_a_lock_behind_pgbouncer(pooled):
    tokens = pooled.service.log_in(pooled.service.register("patient")).data
    body = {"refreshToken": tokens["refreshToken"]}
    with pooled.direct.transaction():
        pooled.direct.execute("LOCK TABLE sessions IN ACCESS EXCLUSIVE MODE")
        answer = pooled.service.call("POST", "/api/auth/refresh", body)
        assert (answer.status, answer.code) == (503, "unavailable")
    assert "canceling statement due to lock timeout" in pooled.service.log()
    assert pooled.service.call("POST", "/api/auth/refresh", body).status == 200


def test_lost_connections_to_postgres_are_a_503_and_replaced(pooled):
    token = pooled.service.log_in(pooled.service.register("stubborn")).data["accessToken"]
    statuses = set()

    def write():
        answer = pooled.service.call("PUT", "/api/users/profile", {"bio": "New"}, token=token)
        statuses.add(answer.status)

    def are_lost():
        pooled.direct.execute(f"SELECT pg_terminate_backend(pid) {OURS}")
        return statuses == {200, 503}

    with meanwhile([write] * 16):
        soon(are_lost)
    assert statuses == {200, 503}
    for _ in range(16):
        assert pooled.service.call("GET", "/api/auth/verify", token=token).status == 200
