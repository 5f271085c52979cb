"""The files for Docker, Compose, systemd and nginx, as far as they can be tested without these."""

import configparser
import http.client
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import psutil
import pytest
import yaml
from helpers import soon
from real_service import MEMORY, PATIENCE, finish, free_port, read_answer, start_nginx

import errors
from config import ROOT, Settings, load

UNIT = ROOT / "deploy/accounts.service"
NGINX = (ROOT / "deploy/nginx.conf").read_text()
COMPOSE = ROOT / "compose.yaml"
SETTINGS = {name.upper() for name in Settings.__dataclass_fields__}
DOCKERFILE = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text())
# The name and the text of each instruction of the last stage, which becomes the image.
IMAGE = re.findall(r"^([A-Z]+) (.+)", DOCKERFILE.split("\nFROM ")[-1], re.M)
COPIES = [text.split() for name, text in IMAGE if name == "COPY" and "--from" not in text]
SOURCES = {source.rstrip("/") for source, _ in COPIES}
ONCE = dict(IMAGE)
USER = ONCE["USER"]
ENVIRONMENT = dict(pair.split("=", 1) for pair in ONCE["ENV"].split())


def as_user(number):
    """Return what to put before a command so that it runs as this user, if root runs the tests."""
    # The user may read what only root can, because Python may be in root's home folder.
    rights = [f"--{kind}-caps=-all,+dac_read_search" for kind in ("inh", "ambient")]
    return ["setpriv", f"--reuid={number}", *rights] if os.geteuid() == 0 else []


def start(instruction, folder, prefix=(), **environ):
    """Start CMD, or the command in HEALTHCHECK, as in the image."""
    command = json.loads("[" + ONCE[instruction].partition("[")[2])
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    outputs = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    env = {**ENVIRONMENT, "PATH": path, **environ}
    return subprocess.Popen([*prefix, *command], cwd=folder, env=env, **outputs)


@pytest.fixture
def image():
    """A folder with what the Dockerfile copies; other users cannot read pytest's own folders."""
    with tempfile.TemporaryDirectory(prefix="accounts-image-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        for source, target in COPIES:
            subprocess.run(["cp", "-r", *ROOT.glob(source), folder / target], check=True)
        # As in a clone that was made under `umask 077`.
        subprocess.run(["chmod", "-R", "go=", *folder.glob("*")], check=True)
        yield folder


def test_image_installs_the_pinned_python_and_libraries(tmp_path):
    version = (ROOT / ".python-version").read_text().strip()
    assert len(re.findall(rf"^FROM python:{version}-slim-\w+", DOCKERFILE, re.M)) == 2
    (step,) = re.findall(r"^RUN /opt/venv/bin/(pip install .+)", DOCKERFILE, re.M)
    shutil.copy(ROOT / "requirements.txt", tmp_path)
    # All of them are installed here. pip fails if it would have to download one.
    command = [sys.executable, "-m", *step.split(), "--no-index", "--dry-run"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=PATIENCE)


def test_image_starts_as_its_own_user_and_becomes_healthy(image):
    assert f"useradd --uid {USER} " in DOCKERFILE
    assert int(USER) > 0
    prefix = as_user(USER)
    user_id = int(USER) if prefix else os.geteuid()
    step = ONCE["RUN"].replace("-o accounts -g accounts", f"-o {user_id} -g {os.getgid()}")
    subprocess.run(["sh", "-euc", step.replace("/app", str(image))], cwd=image, check=True)
    closed = [path for path in image.rglob("*") if not path.stat().st_mode & 0o004]
    assert closed == [image / "instance"]
    port = str(free_port())
    environ = {"PORT": port, "GUNICORN_CMD_ARGS": f"--bind=127.0.0.1:{port}"}

    def is_healthy():
        ((status, _),) = finish([start("HEALTHCHECK", image, prefix, **environ)])
        return status == 0

    service = start("CMD", image, prefix, **environ)
    try:
        soon(is_healthy)
        running = psutil.Process(service.pid)
        for process in (running, *running.children()):
            assert "gunicorn" in " ".join(process.cmdline())
            assert process.uids().effective == user_id
        service.send_signal(signal.SIGTERM)
        assert service.wait(PATIENCE) == 0
    finally:
        service.kill()  # if it is still there; then its workers end too
        print(service.communicate()[0])
    assert not is_healthy()
    assert (image / "instance/accounts.db").stat().st_uid == user_id


def test_image_holds_the_program_and_no_secrets():
    folders = {path.parent.name for path in ROOT.glob("[a-z]*/*.py")}
    imported = folders - {"tests", "bench", "examples"}
    assert {"*.py", "migrations", "static", "templates", *imported} == SOURCES
    ignored, *allowed = re.findall(r"^[^#\s].*", (ROOT / ".dockerignore").read_text(), re.M)
    assert ignored == "*"
    assert {line.strip("!") for line in allowed} == {*SOURCES, "requirements.txt", "**/__pycache__"}
    # Every other setting comes from outside.
    assert SETTINGS & ENVIRONMENT.keys() == {"PORT"}
    assert ENVIRONMENT["PORT"] == ONCE["EXPOSE"]
    assert MEMORY.items() <= ENVIRONMENT.items()


def test_compose_migrates_postgres_18_and_then_serves():
    services = yaml.safe_load(COMPOSE.read_text())["services"]
    for name in ("accounts", "migrate"):
        assert services[name]["build"] == "."
        environ = services[name]["environment"]
        assert environ.keys() <= SETTINGS
        assert environ["DATABASE_URL"].endswith("@postgres/accounts")
    assert services["migrate"]["command"] == ["flask", "db", "upgrade"]
    before = services["accounts"]["depends_on"] | services["migrate"]["depends_on"]
    assert before["migrate"] == {"condition": "service_completed_successfully"}
    assert before["postgres"] == {"condition": "service_healthy"}
    assert services["postgres"]["image"].startswith("postgres:18-")
    # No port is reachable from other machines.
    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert [port.split(":")[0] for port in ports] == ["127.0.0.1"] * 2


def test_compose_says_how_to_make_secrets_that_only_their_owner_can_read(tmp_path):
    (steps,) = re.findall(r"^#   touch.*?^#   done$", COMPOSE.read_text(), re.M | re.S)
    subprocess.run(["sh", "-euc", steps.replace("#   ", "")], cwd=tmp_path, check=True, timeout=60)
    secrets = dict(line.split("=", 1) for line in (tmp_path / ".env").read_text().splitlines())
    assert secrets.keys() == {"SECRET_KEY", "POSTGRES_PASSWORD"}
    assert load({"SECRET_KEY": secrets["SECRET_KEY"]})
    assert (tmp_path / ".env").stat().st_mode & 0o777 == 0o600


@pytest.fixture
def unit():
    """The sections of the unit."""
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read(UNIT)
    return unit


def test_unit_runs_the_service_with_few_rights(unit):
    service = unit["Service"]
    assert service["User"] not in ("", "root")
    python = "/opt/accounts/.venv/bin/python"
    assert service["ExecStart"] == f"{python} -m config {python} -m gunicorn"
    assert all(f"{name}={value}" in service["Environment"] for name, value in MEMORY.items())
    limits = {"NoNewPrivileges": "yes", "ProtectSystem": "strict", "CapabilityBoundingSet": ""}
    assert limits.items() <= dict(service).items()
    assert int(service["TimeoutStopSec"]) > 25  # gunicorn's graceful_timeout


def test_command_runs_flask_as_the_unit_runs_the_service(unit, tmp_path):
    fake, service = tmp_path / "systemd-run", unit["Service"]
    fake.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\ncat\nexit 3\n')
    fake.chmod(0o755)
    command = [ROOT / "deploy/accounts", "users", "list", "--search", "a b"]
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(command, input="typed\n", env=environ, stdout=subprocess.PIPE, text=True)
    assert done.returncode == 3
    *options, python, m, flask, users, what, search, text, typed = done.stdout.splitlines()
    assert {"--pty", "--pipe", f"--uid={service['User']}"} <= {*options}
    for name in ("WorkingDirectory", "EnvironmentFile", "UMask"):
        assert f"--property={name}={service[name]}" in options
    assert [python, m, "gunicorn"] == service["ExecStart"].split()[-3:]
    assert [flask, users, what, search, text, typed] == ["flask", *command[1:], "typed"]


@pytest.mark.skipif(not shutil.which("promtool"), reason="needs promtool")
def test_prometheus_knows_each_line_of_the_examples(tmp_path):
    for name in ("prometheus.yml", "alerts.yml"):
        shutil.copy(ROOT / "deploy" / name, tmp_path)
    (tmp_path / "accounts.key").touch()
    # It checks the rules that the configuration names too.
    subprocess.run(["promtool", "check", "config", "prometheus.yml"], cwd=tmp_path, check=True)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
def test_systemd_knows_each_line_of_the_unit(tmp_path):
    path = tmp_path / UNIT.name
    # Replace the program, since the service is not installed.
    path.write_text(UNIT.read_text().replace("/opt/accounts/.venv/bin/python", "/bin/true"))
    command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", path]
    assert UNIT.name.encode() not in subprocess.check_output(command, stderr=subprocess.STDOUT)


def test_nginx_example_buffers_and_sets_the_header_that_the_service_trusts():
    assert "proxy_request_buffering on;" in NGINX
    assert "proxy_buffering on;" in NGINX
    assert "proxy_set_header Host $http_host;" in NGINX
    assert "proxy_set_header X-Forwarded-For $remote_addr;" in NGINX
    assert "proxy_set_header X-Forwarded-Proto $scheme;" in NGINX
    (megabytes,) = re.findall(r"client_max_body_size (\d+)m;", NGINX)
    assert int(megabytes) * 2**20 > Settings().max_avatar_bytes + 64 * 1024


def test_nginx_example_has_the_words_of_the_service():
    bodies = re.findall(r"^    (\d+) '(.+)';$", NGINX, re.M)
    assert len(bodies) == 3
    for error in (errors.TooLarge, errors.TooManyRequests, errors.Unavailable):
        content = {"success": False, "message": error.message, "error": {"code": error.code}}
        assert json.loads(dict(bodies)[str(error.status)]) == content


def test_nginx_example_takes_ciphers_with_forward_secrecy():
    (ciphers,) = re.findall(r"^    ssl_ciphers (.+);", NGINX, re.M)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers(ciphers)
    kinds = {(each["aead"], each["kea"]) for each in context.get_ciphers()}
    assert kinds == {(True, "kx-any"), (True, "kx-ecdhe")}


@pytest.mark.skipif(not shutil.which("nginx"), reason="needs nginx")
def test_errors_of_nginx_are_json_for_allowed_origins_and_its_log_has_no_query(tmp_path):
    port, service = free_port(), free_port()
    # In place of the service: it answers one path, and ends all other connections.
    hsts = "Strict-Transport-Security"
    ready = f'location /readyz {{ add_header {hsts} max-age=31536000; return 200 "{{}}"; }}'
    behind = f"server {{ listen 127.0.0.1:{service}; {ready} location / {{ return 444; }} }}"
    nginx = start_nginx(tmp_path, NGINX + behind, port, service)

    def ask(origin, length, path="/api/auth/login?code=a-secret"):
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
            headers = {"Origin": origin, "Content-Length": str(length)}
            connection.request("POST", path, headers=headers)
            answer = read_answer(connection)
        assert answer.headers.get_all(hsts) == ["max-age=31536000"]
        return answer

    try:
        for length, status, code in ((0, 503, "unavailable"), (7_000_000, 413, "too_large")):
            answer = ask("https://app.example.org", length)
            assert (answer.status, answer.code) == (status, code)
            assert answer.headers["Access-Control-Allow-Origin"] == "https://app.example.org"
            assert answer.headers["Access-Control-Allow-Credentials"] == "true"
            assert answer.headers["Retry-After"] == ("5" if status == 503 else None)
        assert [
            name for name in ask("https://evil.example.org", 0).headers if "Allow" in name
        ] == []
        assert ask("https://app.example.org", 0, "/readyz").status == 200
        logged = (tmp_path / "access.log").read_text()
        assert '"POST /api/auth/login HTTP/1.1" 503' in logged
        assert "a-secret" not in logged
    finally:
        nginx.terminate()
        nginx.wait(PATIENCE)
