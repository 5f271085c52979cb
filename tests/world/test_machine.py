"""What the machine, the container or the shell can be like in which the service starts."""

import os
import subprocess
import sys

import pytest
from real_service import environment
from sqlalchemy import URL, create_engine, text

import database_check
import healthcheck
from config import ConfigError, Settings, load
from core import cpus

PYTHON = sys.executable


@pytest.mark.parametrize(
    ("own", "files", "quota"),
    [
        ("0::/", {}, None),
        ("0::/", {"cpu.max": "max 100000"}, None),
        ("0::/", {"cpu.max": "50000 100000"}, 0.5),
        ("0::/a/b.service", {"a/b.service/cpu.max": "150000 100000", "a/cpu.max": "max 1"}, 1.5),
        ("0::/a/b", {"a/cpu.max": "20000 100000", "a/b/cpu.max": "150000 100000"}, 0.2),
        ("0::/elsewhere", {"cpu.max": "50000 100000"}, 0.5),
        ("4:cpu,cpuacct:/", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "9"}, None),
        ("4:cpu:/d", {"cpu/d/cpu.cfs_quota_us": "30", "cpu/d/cpu.cfs_period_us": "100"}, 0.3),
        ("1:name=systemd:/", {"cpu.max": "nonsense"}, None),
        (None, {"cpu.max": "1 100000"}, None),  # another system
    ],
)
def test_a_quota_of_processors_is_found(tmp_path, monkeypatch, own, files, quota):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(64))
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{content}\n")
    if own:
        (tmp_path / "own").write_text(f"{own}\n")
    assert cpus.usable(tmp_path, tmp_path / "own") == (quota or 64)


def test_hashes_at_once_follow_the_quota(monkeypatch):
    found = {}
    for usable in (0.5, 3.9, 8):
        monkeypatch.setattr(cpus, "usable", lambda usable=usable: usable)
        found[usable] = Settings(web_concurrency=2).hashes_at_once
    assert found == {0.5: 1, 3.9: 1, 8: 4}


@pytest.mark.parametrize("version", [(3, 31, 1), (3, 34, 1), (3, 35, 0), (3, 50, 4), (4, 0, 0)])
def test_a_sqlite_without_returning_is_refused(version):
    if version >= (3, 35):
        database_check.refuse_old_sqlite(version)
        return
    with pytest.raises(ConfigError, match=r"SQLite 3\.3\d\.1, and 3.35 or newer is needed"):
        database_check.refuse_old_sqlite(version)


@pytest.mark.parametrize(
    ("host", "port", "url"),
    [
        ("", "8000", "http://127.0.0.1:8000"),
        ("0.0.0.0", "80", "http://127.0.0.1:80"),
        (" ", " ", "http://127.0.0.1:5000"),
        ("::", "8000", "http://127.0.0.1:8000"),
        ("0:0::0", "8000", "http://127.0.0.1:8000"),
        ("::1", "8000", "http://[::1]:8000"),
        ("127.0.0.2", "", "http://127.0.0.2:5000"),
        ("10.0.0.1", "8000", "http://10.0.0.1:8000"),
        ("localhost", "8000", "http://localhost:8000"),
    ],
)
def test_the_health_check_asks_where_the_service_listens(host, port, url):
    assert healthcheck.url({"HOST": host, "PORT": port}) == f"{url}/healthz"


@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1", "x86_64-conda-linux-gnu"])
def test_a_host_that_is_not_here_is_refused_where_the_service_starts(host):
    load({"HOST": host})  # of another machine, as in a release phase
    with pytest.raises(ConfigError, match="HOST has no address on this machine"):
        load({"HOST": host}, serving=True)
    assert load({"HOST": "localhost"}, serving=True).host == "localhost"


@pytest.mark.slow
@pytest.mark.parametrize("given", ["", " ", "3"])
def test_gunicorn_reads_a_number_of_workers_that_is_empty(given):
    env = environment(WEB_CONCURRENCY=given, PORT="")
    show = "from gunicorn.config import Workers; print(Workers.default)"
    command = [PYTHON, "-m", "config", PYTHON, "-c", show]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout.strip() == (given.strip() or "2")


@pytest.fixture
def service(tmp_path):
    """Settings of a database in a file."""
    url = URL.create("sqlite", database=str(tmp_path / "service.db"))
    given = {"SECRET_KEY": "x" * 32, "PUBLIC_URL": "https://school.test", "MAIL_URL": "console:"}
    return environment(DATABASE_URL=str(url), **given), url


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_lose_lines_and_nothing_else(service, tmp_path, closed):
    env, url = service
    (tmp_path / "a.jsonl").write_text('{"email":"a@example.org","firstName":"A","lastName":"B"}\n')
    files = [str(tmp_path / name) for name in ("links.csv", "a.jsonl", "courses.csv", "copy.db")]
    script = f"""set -e; flask() {{ "{PYTHON}" -m flask "$@" {closed}; }}
        flask db upgrade; flask users import --links {files[0]} {files[1]}
        flask learning export courses {files[2]}; flask db copy-to sqlite:///{files[3]}
        "{PYTHON}" -m config "{PYTHON}" -c 'import os; os.fstat(2)' {closed}"""
    subprocess.run(["sh", "-c", script], env=env, check=True)
    assert all(map(os.path.exists, files))
    for copy in (url, url.set(database=files[3])):
        engine = create_engine(copy)
        with engine.connect() as connection:
            assert connection.scalar(text("SELECT count(*) FROM users")) == 1
        engine.dispose()


@pytest.mark.slow
def test_letters_that_a_terminal_lacks_are_not_called_wrong_input(service):
    env, _ = service
    flask = [PYTHON, "-m", "flask"]
    given = ["--first-name", "Łukasz", "--last-name", "Ö", "--username", "lukasz", "--invite"]
    subprocess.run([*flask, "db", "upgrade"], env=env, check=True, capture_output=True)
    made = [*flask, "users", "create", "--email", "l@example.org", *given]
    subprocess.run(made, env=env, check=True, capture_output=True)
    env["PYTHONIOENCODING"] = "latin-1"
    show = subprocess.run([*flask, "users", "show", "lukasz"], env=env, capture_output=True)
    assert show.returncode == 1
    line = b"Error: This terminal has no such letters (latin-1). Set LC_ALL=C.UTF-8.\n"
    assert show.stderr.endswith(line), show.stderr


@pytest.mark.slow
def test_a_damaged_embedded_database_is_one_line(tmp_path):
    (tmp_path / "accounts.db").write_text("no database" * 1000)
    script = f"""import app, functools
app.create_app = functools.partial(app.create_app, instance_path={str(tmp_path)!r})
import wsgi"""
    done = subprocess.run([PYTHON, "-c", script], env=environment(), capture_output=True)
    assert done.stderr.endswith(b"AppImportError: file is not a database\n"), done.stderr
