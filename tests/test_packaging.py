"""House rules about what we ship: who imports whom, what is pinned, how it is run."""

import ast
import json
import os
import re
import runpy
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from gunicorn.config import Config
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from config import ROOT, Settings

# From the top down; a module may import what stands below it.
LAYERS = [
    {"wsgi", "gunicorn.conf"},
    {"app"},
    {"blueprints", "cli", "embedded"},
    {"services", "web"},
    {"database", "models"},
    {"extensions"},
    {"config", "schemas", "errors"},
    {"fieldtypes"},
    {"core"},
]
# Imports that wait until they are needed. Alembic costs 230 ms and 10 MB, and only a change of
# the schema needs it; langcodes costs 50 ms and 3 MB, and only a change of a language needs it.
# The services load the database's libraries, which gunicorn's master process does not need.
LATE_IMPORTS = {
    ("database.py", "flask_migrate"),
    ("database.py", "alembic"),
    ("core/locales.py", "langcodes"),
    ("gunicorn.conf.py", "services"),
}
# Requirements that our code does not import, and what needs them.
NOT_IMPORTED = {
    "redis": "limits imports it when RATELIMIT_STORAGE_URI says redis",
    "psycopg": "SQLAlchemy imports it when the URL says postgresql",
    "flask-swagger-ui": "only its files are served",
    "tzdata": "only its list of names is read, and ZoneInfo finds it by itself",
}
# The pins are made for it; newer ones need no more.
OLDEST_PYTHON = {"python_version": "3.11", "python_full_version": "3.11.0"}
# pip's options for other places to install from, and the usual place's names.
REGISTRIES = re.compile(r"index-url|find-links|trusted-host|py" + r"pi\b|python" + "hosted", re.I)


def shipped() -> Iterator[Path]:
    """Yield every Python file that runs in production, relative to the project."""
    for path in sorted(ROOT.rglob("*.py")):
        inside = path.relative_to(ROOT)
        if inside.parts[0] not in ("tests", "bench") and not inside.parts[0].startswith("."):
            yield inside


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Yield the modules that a file imports, and whether that stands inside a function."""

    def walk(node: ast.AST, late: bool) -> Iterator[tuple[str, bool]]:
        late = late or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, late
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module or "", late
        for child in ast.iter_child_nodes(node):
            yield from walk(child, late)

    yield from walk(ast.parse((ROOT / path).read_text()), False)


def layer(module: str) -> int | None:
    """Return how far down a module of ours stands; None for the libraries'."""
    found = [number for number, names in enumerate(LAYERS) if module in names]
    return found[0] if found else None


def package(path: Path) -> str:
    return path.parts[0].removesuffix(".py")


def test_every_module_has_its_place() -> None:
    places = set().union(*LAYERS)
    assert {package(path) for path in shipped()} - {"migrations"} == places


def test_imports_point_one_way() -> None:
    for path in shipped():
        own = package(path)
        if own == "migrations":
            continue
        for module, _ in imports(path):
            target = module.split(".")[0]
            below = layer(target)
            if below is not None and target != own:
                assert below > (layer(own) or 0), f"{path} must not import {module}"


def test_imports_stand_at_the_top() -> None:
    late = {
        (str(path), module.split(".")[0])
        for path in shipped()
        for module, is_late in imports(path)
        if is_late
    }
    assert late == LATE_IMPORTS


def pinned(name: str) -> tuple[list[str], list[str]]:
    """Return the lines of a requirements file: the direct ones, and what those bring along."""
    direct, brought = (ROOT / name).read_text().split("# What these bring along.")
    return tuple(  # type: ignore[return-value]
        [line.split(" #")[0].strip() for line in part.splitlines() if line and line[0] not in "#-"]
        for part in (direct, brought)
    )


def names(lines: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(line).name) for line in lines}


@pytest.mark.parametrize("file", ["requirements.txt", "requirements-dev.txt"])
def test_requirements_are_pinned_and_each_direct_one_has_a_reason(file: str) -> None:
    direct, brought = pinned(file)
    assert all(re.fullmatch(r"[\w.-]+(\[\w+\])?==[\w.]+", line) for line in direct + brought)
    text = (ROOT / file).read_text()
    assert all(re.search(rf"^{re.escape(line)} +# \S", text, re.M) for line in direct)


@pytest.mark.parametrize(
    "files", [["requirements.txt"], ["requirements.txt", "requirements-dev.txt"]]
)
def test_requirements_name_all_that_gets_installed_and_no_more(files: list[str]) -> None:
    direct = [line for file in files for line in pinned(file)[0]]
    brought = [line for file in files for line in pinned(file)[1]]
    needed: dict[str, set[str]] = {}
    waiting = [Requirement(line) for line in direct]
    while waiting:
        wanted = waiting.pop()
        name, extras = canonicalize_name(wanted.name), {"", *wanted.extras}
        if needed.get(name, set()) >= extras:
            continue
        needed[name] = needed.get(name, set()) | extras
        for raw in metadata.requires(name) or []:
            below = Requirement(raw)
            if below.marker is None or any(
                below.marker.evaluate({**OLDEST_PYTHON, "extra": extra}) for extra in extras
            ):
                waiting.append(below)
    assert set(needed) == names(direct + brought)


def test_every_library_that_the_code_imports_is_a_direct_requirement() -> None:
    distributions = metadata.packages_distributions()
    found = set()
    for path in shipped():
        for module, _ in imports(path):
            name = module.split(".")[0]
            if name not in sys.stdlib_module_names and layer(name) is None:
                found |= {canonicalize_name(dist) for dist in distributions[name]}
    assert found | set(NOT_IMPORTED) == names(pinned("requirements.txt")[0])
    assert not found & set(NOT_IMPORTED)


def test_no_file_says_where_packages_come_from() -> None:
    files = [*ROOT.glob("*"), *ROOT.glob("docs/*"), *ROOT.glob(".ci/*"), *shipped()]
    for path in {ROOT / file for file in files}:
        if path.is_file():
            assert not REGISTRIES.search(path.read_text(errors="ignore")), path


def test_the_license_is_mit() -> None:
    assert (ROOT / "LICENSE").read_text().startswith("MIT License\n\nCopyright (c) 2026 the pro")


def test_the_procfile_migrates_and_then_serves() -> None:
    lines = (ROOT / "Procfile").read_text().splitlines()
    found = dict(line.split(": ", 1) for line in lines)
    memory = "MALLOC_ARENA_MAX=2 MALLOC_MMAP_THRESHOLD_=131072"
    assert found == {
        "release": "flask db upgrade",
        "web": f"python -m config && exec env {memory} gunicorn",
    }
    assert f"\nMEMORY = {memory}\n" in (ROOT / "Makefile").read_text()


def test_a_hosted_application_gets_all_that_it_must_have() -> None:
    app = json.loads((ROOT / "app.json").read_text())
    settings = set(Settings.__dataclass_fields__)
    assert {name.lower() for name in app["env"]} <= settings
    assert app["env"]["SECRET_KEY"]["generator"] == "secret"
    assert app["env"]["PUBLIC_URL"]["required"]
    assert app["env"]["MAIL_URL"]["required"]
    assert app["env"]["TRUSTED_PROXIES"]["value"] == "1"
    assert "heroku-postgresql" in app["addons"]
    assert app["success_url"] == "/docs"
    assert app["formation"]["web"]["quantity"] == 1


def test_the_python_version_is_the_oldest_that_we_support() -> None:
    assert (ROOT / ".python-version").read_text() == "3.11\n"


@pytest.mark.skipif(not shutil.which("make"), reason="make is not installed")
@pytest.mark.parametrize(
    ("target", "does"),
    [
        ("help", "make run"),
        ("run", "-m gunicorn"),
        ("test", "-m pytest"),
        ("test", "-m mypy"),
        ("test-faults", "-m pytest tests/faults -m ''"),
        ("lint", "ruff format --check"),
        ("format", "ruff format ."),
        ("bench-timing", "-m bench.timing --postgres"),
        ("bench", "-m bench"),
        ("bench-growth", "-m bench --growth"),
        ("bench-others", "-m bench --others"),
        ("clean", "rm -rf .venv"),
    ],
)
def test_make_knows(target: str, does: str) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(
        ["make", "-n", target], cwd=ROOT, env=environ, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert does in done.stdout


def test_continuous_integration_runs_what_everybody_runs() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert script.read_text().splitlines()[-1] == "make test"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A production deployment that needs nothing outside of this machine."""
    unset = dict.fromkeys((name.upper() for name in Settings.__dataclass_fields__), "")
    return {
        **os.environ,
        **unset,
        "DATABASE_URL": f"sqlite:///{tmp_path / 'accounts.db'}",
        "SECRET_KEY": "0123456789abcdef" * 2,
        "PUBLIC_URL": "https://accounts.example.org",
        "MAIL_URL": "console:",
        "WEB_CONCURRENCY": "2",
    }


def test_a_refused_start_ends_at_once_and_says_why(environ: dict[str, str]) -> None:
    environ |= {"SECRET_KEY": "short", "MAIL_URL": "", "BCRYPT_ROUNDS": "99"}
    for command in (["gunicorn"], ["flask", "db", "upgrade"]):
        done = subprocess.run(
            [sys.executable, "-m", *command],
            cwd=ROOT,
            env=environ,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 1
        assert re.findall(r"^- ([A-Z_]+)", done.stderr, re.M) == [
            "SECRET_KEY",
            "BCRYPT_ROUNDS",
            "MAIL_URL",
        ]
        assert "Traceback" not in done.stderr
        assert "short" not in done.stderr


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_the_service_starts_answers_and_ends(environ: dict[str, str], end: signal.Signals) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, "-m", "gunicorn", "--bind", address]
    with subprocess.Popen(
        command, cwd=ROOT, env=environ, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            assert answers(f"http://{address}/healthz", server)
            server.send_signal(end)
            assert server.wait(timeout=40) == 0
        finally:
            if server.poll() is None:
                server.kill()
        assert server.stderr is not None
        assert "Traceback" not in server.stderr.read()


def answers(url: str, server: subprocess.Popen[str]) -> bool:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            time.sleep(0.1)
    return False


def gunicorn_conf(monkeypatch: pytest.MonkeyPatch, **environ: str) -> dict[str, Any]:
    for name in Settings.__dataclass_fields__:
        monkeypatch.setenv(name.upper(), environ.get(name.upper(), ""))
    return runpy.run_path(str(ROOT / "gunicorn.conf.py"))


def test_gunicorn_knows_each_of_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    found = gunicorn_conf(monkeypatch, WEB_CONCURRENCY="3")
    monkeypatch.setenv("WEB_CONCURRENCY", "1")  # which it reads by itself, and not when empty
    server = Config()
    tree = ast.parse((ROOT / "gunicorn.conf.py").read_text())
    assigned = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id.islower() and target.id[0] != "_"
    }
    for name in assigned | {"post_worker_init"}:
        server.set(name, found[name])  # raises for what it does not know or like
    assert server.workers == 3
    # More threads than requests that may wait for the hasher or the database.
    assert server.threads > 8
    assert server.graceful_timeout < 30


def test_a_worker_may_open_more_files_than_it_has_connections(environ: dict[str, str]) -> None:
    script = """
import resource, runpy
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
found = runpy.run_path("gunicorn.conf.py")
allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
assert allowed == hard or allowed > found["worker_connections"] + found["threads"]
"""
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=environ, check=True, timeout=60)


def test_gunicorn_is_reachable_from_outside_only_where_a_port_is_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert gunicorn_conf(monkeypatch)["bind"] == "127.0.0.1:5000"
    assert gunicorn_conf(monkeypatch, PORT="8000")["bind"] == "0.0.0.0:8000"


def test_the_first_screen_tells_how_to_register(
    monkeypatch: pytest.MonkeyPatch, client: FlaskClient
) -> None:
    screen = gunicorn_conf(monkeypatch, PORT="8000")["FIRST_SCREEN"]
    path, body = re.findall(r"curl http://127.0.0.1:8000(\S+) .*-d '(.*?)'", screen, re.S)[0]
    assert client.post(path, json=json.loads(body)).status_code == 201
    assert client.get("/docs").status_code == 200
    assert "Mails are not sent but printed here." in screen
    assert "Mails" not in gunicorn_conf(monkeypatch, MAIL_URL="smtp://h:25")["FIRST_SCREEN"]
