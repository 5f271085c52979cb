"""Backup, restore and move, by the commands in the docs, on a running service."""

import re
import subprocess
import sys
from functools import partial
from pathlib import Path

from helpers import meanwhile
from real_service import (
    PATIENCE,
    Service,
    database_on,
    deployed,
    empty_database,
    environment,
    free_port,
    migrate,
    production,
)

from bench.data import Data
from config import ROOT

OTHER_KIND = {"sqlite": "postgres", "postgresql": "sqlite"}


def commands(file, heading):
    """Return the blocks of commands below a heading."""
    section = (ROOT / file).read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^ *```sh\n(.*?)^ *```", section, re.M | re.S)


def shell(script, env, folder=ROOT, typed="", patience=PATIENCE):
    """Run commands in a folder; return what they print."""
    done = subprocess.run(
        ["sh", "-euc", script],
        cwd=folder,
        env=env | {"PATH": f"{Path(sys.executable).parent}:{env['PATH']}"},
        input=typed,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=patience,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_restored_backup_of_a_killed_service_has_nothing_newer(tree, tmp_path):
    back_up, restore, *_ = commands("docs/operations.md", "Backup")
    env, database_file = environment(BCRYPT_ROUNDS="4"), tree / "instance/accounts.db"
    service = Service(env, free_port(), tmp_path / "log", tree)
    service.start()
    try:
        early = service.register("early")
        shell(back_up, env, tree)
        late = service.register("late")
        service.kill()
        assert database_file.with_name("accounts.db-wal").stat().st_size > 0
        shell(restore, env, tree)
        service.start()
        assert service.log_in(early).status == 200
        assert service.log_in(late).status == 401
        assert database_file.stat().st_mode & 0o777 == 0o600
    finally:
        service.kill()


def test_restored_dump_of_postgres_has_nothing_newer(
    postgres_url, postgres_path, mail_server, tmp_path
):
    *_, dump, restore = commands("docs/operations.md", "Backup")
    url, restored = database_on(postgres_url), database_on(postgres_url)
    with deployed(url, mail_server.port, tmp_path / "log") as service:
        early = service.register("early")
        granted = 'psql "$DATABASE_URL" -c "CREATE ROLE reports; GRANT SELECT ON users TO reports"'
        elsewhere = 'psql "$DATABASE_URL" -c "DROP OWNED BY reports; DROP ROLE reports"'
        dump = "\n".join((granted, dump, elsewhere))
        shell(dump, service.env | {"PATH": postgres_path}, tmp_path)
        late = service.register("late")
    assert (tmp_path / "accounts.dump").stat().st_mode & 0o777 == 0o600
    env = production(restored, mail_server.port, free_port())
    shell(restore, env | {"PATH": postgres_path}, tmp_path)
    with deployed(restored, mail_server.port, tmp_path / "log") as service:
        assert service.log_in(early).status == 200
        assert service.log_in(late).status == 401


def test_large_database_is_copied_while_it_is_used(request, new_database, mail_server, tmp_path):
    (copy,) = commands("docs/moving.md", "From SQLite to Postgres")
    folder = tmp_path / "target"
    folder.mkdir()
    target = empty_database(request, folder, OTHER_KIND[new_database.get_backend_name()])
    migrate(new_database)
    Data(new_database, 20_000)
    with deployed(new_database, mail_server.port, tmp_path / "log") as service:
        users = [service.register(f"early-{number}") for number in range(4)]

        def use(user):
            answer = service.log_in(user)
            assert answer.status == 200
            token = answer.data["accessToken"]
            body = {"bio": "Busy", "location": token[-20:]}
            assert service.call("PUT", "/api/users/profile", body, token=token).status == 200
            assert service.call("GET", "/api/users/profile", token=token).status == 200

        with meanwhile([partial(use, user) for user in users]):
            typed = target.render_as_string(hide_password=False)
            output = shell(copy, service.env, typed=typed, patience=10 * PATIENCE)
    copied = dict(re.findall(r"^(\w+): (\d+) copied$", output, re.M))
    assert (copied["users"], copied["lessons"]) == ("20004", "30000")
    with deployed(target, mail_server.port, tmp_path / "log") as service:
        assert [service.log_in(user).status for user in users] == [200] * 4
