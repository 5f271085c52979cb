"""House rules about what we ship: who imports whom, what is pinned, how it is run."""

import ast
import functools
import json
import os
import re
import resource
import runpy
import signal
import sys
from graphlib import TopologicalSorter
from importlib import metadata
from types import SimpleNamespace

import pytest
from gunicorn.config import Config
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from real_service import Service, finish, free_port, production, python
from sqlalchemy import URL

from config import ROOT, Settings

# From the top down; a module may import what stands below it.
LAYERS = [
    {"wsgi", "gunicorn.conf", "healthcheck"},
    {"app"},
    {"blueprints", "cli", "embedded"},
    {"services", "web"},
    {"callers", "counting"},
    {"models"},
    {"database"},
    {"database_check"},
    {"extensions"},
    {"config", "schemas", "errors"},
    {"fields"},
    {"core"},
]
# What stands below a package and is still not for it: commands work without HTTP.
NOT_FOR = {"cli": {"web"}}
# Imports that wait until they are needed. Alembic costs 230 ms and 10 MB, and only a change of
# the schema needs it. Many processes never see a passkey; core/passkeys.py says what that saves.
LATE_IMPORTS = {("database/schema.py", "alembic"), ("core/passkeys.py", "fido2")}
# Files that import types from above, for mypy only: what one application holds has them all.
TYPES_FROM_ABOVE = {"extensions.py"}
# Requirements that our code does not import, and what needs them.
NOT_IMPORTED = {
    "psycopg": "SQLAlchemy imports it when the URL says postgresql",
    "flask-swagger-ui": "only its files are served",
    "tzdata": "only its list of names is read, and ZoneInfo finds it by itself",
}
# The pins are made for it; newer ones need no more.
OLDEST_PYTHON = {"python_version": "3.11", "python_full_version": "3.11.0"}


def shipped():
    """Yield every Python file that runs in production, relative to the project."""
    for path in sorted(ROOT.rglob("*.py")):
        inside = path.relative_to(ROOT)
        others = ("tests", "bench", "examples")
        if inside.parts[0] not in others and not inside.parts[0].startswith("."):
            yield inside


@functools.cache
def imports(path):
    """Return what a file imports, by its full name, and whether that stands inside a function."""

    def walk(node, late):
        if str(path) in TYPES_FROM_ABOVE and getattr(node, "test", None):
            assert ast.unparse(node.test) == "TYPE_CHECKING"
            return
        late = late or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, late
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            for alias in node.names:
                yield f"{node.module}.{alias.name}", late
        for child in ast.iter_child_nodes(node):
            yield from walk(child, late)

    return list(walk(ast.parse((ROOT / path).read_text()), False))


def layer(module):
    """Return how far down a module of ours stands; None for the libraries'."""
    found = [number for number, names in enumerate(LAYERS) if module in names]
    return found[0] if found else None


def package(path):
    return path.parts[0].removesuffix(".py")


def test_every_module_has_its_place():
    places = set().union(*LAYERS)
    assert {package(path) for path in shipped()} - {"migrations"} == places


def test_imports_point_one_way():
    for path in shipped():
        own = package(path)
        if own == "migrations":
            continue
        for module, _ in imports(path):
            target = module.split(".")[0]
            below = layer(target)
            assert target not in NOT_FOR.get(own, ()), f"{path} must not import {module}"
            if below is not None and target != own:
                assert below > (layer(own) or 0), f"{path} must not import {module}"


def test_each_module_can_be_imported_first():
    """In a ring of imports, it depends on the first one which names are there."""
    modules = {".".join(each.with_suffix("").parts): each for each in shipped()}
    modules = {name.removesuffix(".__init__"): path for name, path in modules.items()}
    graph = {
        name: {each if each in modules else each.rpartition(".")[0] for each, _ in imports(path)}
        for name, path in modules.items()
    }
    assert graph["services.signed"] >= {"models", "database", "core.clock"}
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the ring


def test_imports_stand_at_the_top():
    late = {
        (str(path), module.split(".")[0])
        for path in shipped()
        for module, is_late in imports(path)
        if is_late
    }
    assert late == LATE_IMPORTS


def pinned(name):
    """Return the lines of a requirements file: the direct ones, and what those bring along."""
    direct, brought = (ROOT / name).read_text().split("# What these bring along.")
    return tuple(
        [line.split(" #")[0].strip() for line in part.splitlines() if line and line[0] not in "#-"]
        for part in (direct, brought)
    )


def names(lines):
    return {canonicalize_name(Requirement(line).name) for line in lines}


@pytest.mark.parametrize("file", ["requirements.txt", "requirements-dev.txt"])
def test_requirements_are_pinned_and_each_direct_one_has_a_reason(file):
    direct, brought = pinned(file)
    assert all(re.fullmatch(r"[\w.-]+(\[\w+\])?==[\w.]+", line) for line in direct + brought)
    text = (ROOT / file).read_text()
    assert all(re.search(rf"^{re.escape(line)} +# \S", text, re.M) for line in direct)


@pytest.mark.parametrize(
    "files", [["requirements.txt"], ["requirements.txt", "requirements-dev.txt"]]
)
def test_requirements_name_all_that_gets_installed_and_no_more(files):
    parts = [pinned(file) for file in files]
    needed = {}
    waiting = [Requirement(line) for direct, _ in parts for line in direct]
    while waiting:
        wanted = waiting.pop()
        name, extras = canonicalize_name(wanted.name), {"", *wanted.extras}
        if needed.get(name, set()) >= extras:
            continue
        needed[name] = needed.get(name, set()) | extras
        for below in map(Requirement, metadata.requires(name) or []):
            marker = below.marker
            if marker is None or any(marker.evaluate(OLDEST_PYTHON | {"extra": e}) for e in extras):
                waiting.append(below)
    assert set(needed) == set().union(*(names(direct + brought) for direct, brought in parts))


def test_every_library_that_the_code_imports_is_a_direct_requirement():
    distributions = metadata.packages_distributions()
    found = set()
    for path in shipped():
        for module, _ in imports(path):
            name = module.split(".")[0]
            if name not in sys.stdlib_module_names and layer(name) is None:
                found |= {canonicalize_name(dist) for dist in distributions[name]}
    assert found | set(NOT_IMPORTED) == names(pinned("requirements.txt")[0])
    assert not found & set(NOT_IMPORTED)


def test_the_procfile_migrates_and_then_serves():
    lines = (ROOT / "Procfile").read_text().splitlines()
    found = dict(line.split(": ", 1) for line in lines)
    memory = "MALLOC_ARENA_MAX=2 MALLOC_MMAP_THRESHOLD_=131072"
    assert found == {
        "release": "flask db upgrade",
        "web": f"exec env {memory} python -m config gunicorn",
    }
    assert f"\nMEMORY = {memory}\n" in (ROOT / "Makefile").read_text()


def test_a_hosted_application_gets_all_that_it_must_have():
    app = json.loads((ROOT / "app.json").read_text())
    env = app["env"]
    assert {name.lower() for name in env} <= set(Settings.__dataclass_fields__)
    assert env["SECRET_KEY"]["generator"] == "secret"
    assert env["PUBLIC_URL"]["required"]
    assert env["MAIL_URL"]["required"]
    assert env["TRUSTED_PROXIES"]["value"] == "1"
    assert "heroku-postgresql" in app["addons"]


@pytest.fixture
def environ(tmp_path):
    """A production deployment that needs nothing outside of this machine."""
    url = URL.create("sqlite", database=str(tmp_path / "accounts.db"))
    return production(url, free_port(), free_port())


@pytest.mark.slow
def test_a_refused_start_ends_at_once_and_says_why(environ):
    wrong = {"DATABASE_URL": "mysql://host/name", "SECRET_KEY": "short secret", "MAIL_URL": ""}
    environ |= {**wrong, "BCRYPT_ROUNDS": "lots"}
    commands = ("config", "gunicorn", "flask db upgrade")
    for status, output in finish([python("-m", *each.split(), env=environ) for each in commands]):
        assert status == 1
        named = re.findall(r"^- ([A-Z_]+)", output, re.M)
        assert named == ["DATABASE_URL", "SECRET_KEY", "BCRYPT_ROUNDS", "MAIL_URL"]
        assert not re.search("Traceback|mysql|short secret|lots", output)


@pytest.mark.slow
def test_the_service_ends_well_when_its_terminal_interrupts_it(environ, tmp_path):
    service = Service(environ, free_port(), tmp_path / "log")
    service.start(until="/healthz")
    service.stop(signal.SIGINT)
    assert "Traceback" not in service.log()


def gunicorn_conf(monkeypatch, **environ):
    for name in Settings.__dataclass_fields__:
        monkeypatch.setenv(name.upper(), environ.get(name.upper(), ""))
    return runpy.run_path(str(ROOT / "gunicorn.conf.py"))


def test_gunicorn_knows_each_of_its_settings(monkeypatch):
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


def test_a_worker_may_open_more_files_than_it_has_connections(monkeypatch):
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
        found = gunicorn_conf(monkeypatch)
        allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert allowed == most or allowed > found["worker_connections"] + found["threads"]


def test_gunicorn_is_reachable_from_outside_only_where_a_port_or_a_host_is_set(monkeypatch):
    assert gunicorn_conf(monkeypatch)["bind"] == "127.0.0.1:5000"
    assert gunicorn_conf(monkeypatch, PORT="8000")["bind"] == "0.0.0.0:8000"
    assert gunicorn_conf(monkeypatch, PORT="8000", HOST="::1")["bind"] == "[::1]:8000"
    assert gunicorn_conf(monkeypatch, HOST="localhost")["bind"] == "localhost:5000"


def test_the_first_screen_tells_how_to_register_and_where(monkeypatch, client, capsys):
    monkeypatch.setattr("services.background.start", lambda _app: None)
    server = Config()

    def screen(bind, **environ):
        server.set("bind", bind)
        worker = SimpleNamespace(age=1, cfg=server, app=SimpleNamespace(wsgi=lambda: None))
        gunicorn_conf(monkeypatch, **environ)["post_worker_init"](worker)
        return capsys.readouterr().err

    everywhere, mails = "It listens on all network interfaces", "E-mails are not sent but printed"
    for bind in ("0.0.0.0:8000", "[::]:8000"):
        shown = screen(bind)
        assert "at http://127.0.0.1:8000," in shown
        assert everywhere in shown
        assert mails in shown
    path, body = re.findall(r"curl http://127.0.0.1:8000(\S+) .*-d '(.*?)'", shown, re.S)[0]
    assert client.post(path, json=json.loads(body)).status_code == 201
    shown = screen("[::1]:8000", MAIL_URL="smtp://h:25")
    assert "at http://[::1]:8000," in shown
    assert everywhere not in shown
    assert mails not in shown
    assert "at http://[::1]:8000/account," in shown
    assert "at http://[::1]:8000/admin\n" in shown
    making_an_admin = re.search(r"^    (/\S+) users create --role admin$", shown, re.M)
    assert os.access(making_an_admin[1], os.X_OK)
    shown = screen("[::1]:8000", DOCS="0", ACCOUNT_PAGES="0", REGISTRATION="closed")
    assert not re.search("/docs|/account|/admin|curl", shown.replace(str(ROOT), ""))
    assert "users create --role admin" in shown
    assert screen("unix:/run/accounts") == ""
