"""What is measured: how each subject is started, and how each operation is called on it."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from sqlalchemy import URL

from bench.databases import SECRET, as_given, environment, service_environment
from config import ROOT

BENCH = ROOT / "bench"
OTHERS = BENCH / ".venv-others" / "bin" / "python"
# What the other subjects take over from the service's gunicorn.conf.py.
SAME_SETTINGS = (
    "worker_class",
    "workers",
    "threads",
    "preload_app",
    "timeout",
    "graceful_timeout",
    "keepalive",
    "max_requests",
    "max_requests_jitter",
    "worker_tmp_dir",
    "control_socket_disable",
    "accesslog",
)


@dataclass(frozen=True)
class Call:
    """An operation on one subject; wrk/drive.lua says what `send` may be.

    `pattern` is Lua's. What it captures of a refresh is the next token.
    """

    send: str
    method: str
    path: str
    pattern: str
    status: int = 200
    type: str = "application/json"
    before: str = '{"refreshToken":"'
    after: str = '"}'


READ = {
    "verify": Call("token", "GET", "/api/auth/verify", '"username":"user%d+"'),
    "profile": Call("token", "GET", "/api/users/profile", '"firstName":"First"'),
}
TUTORIAL = {
    **READ,
    "refresh": Call("refresh", "POST", "/api/auth/refresh", '"refreshToken":"([^"]+)"'),
    "login": Call("body", "POST", "/api/auth/login", '"accessToken":"[^"]+"'),
    "register": Call("once", "POST", "/api/auth/register", '"userId":"[^"]+"', status=201),
}
SERVICE = {
    **TUTORIAL,
    "progress": Call("token", "GET", "/api/users/progress", '"totalLessons":30'),
}


DJANGO = {
    "verify": Call("token", "GET", "/verify", '"username":"user%d+"'),
    "profile": Call("token", "GET", "/profile", '"firstName":"First"'),
    "refresh": Call("refresh", "POST", "/refresh", '"refresh":"([^"]+)"', before='{"refresh":"'),
    "login": Call("body", "POST", "/login", '"access":"[^"]+"'),
    "register": Call("once", "POST", "/register", '"username":"new', status=201),
}
_FORM = "application/x-www-form-urlencoded"
FASTAPI = {
    "verify": Call("token", "GET", "/users/me", '"email":"user%d+'),
    "profile": Call("token", "GET", "/users/me", '"first_name":"First"'),
    "login": Call("body", "POST", "/login", '"access_token":"[^"]+"', type=_FORM),
    "register": Call("once", "POST", "/register", '"email":"new', status=201),
}


@dataclass(frozen=True)
class Subject:
    """Something that is measured."""

    key: str
    title: str
    calls: Mapping[str, Call]
    # What gunicorn serves; None for the service, which says so itself.
    application: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    # Whether it looks at the token at all.
    guarded: bool = True
    # For one of the others: its module, which makes and fills tables of its own.
    module: str | None = None
    asynchronous: bool = False

    @property
    def python(self) -> str:
        """The interpreter that has what it needs."""
        return str(OTHERS) if self.module else sys.executable

    def command(self, port: int) -> list[str]:
        """Return the command that starts it, to be run in the project's folder."""
        bind = ["-b", f"127.0.0.1:{port}"]
        if self.application is None:
            return [sys.executable, "-m", "gunicorn", *bind]
        if self.asynchronous:
            options = ["--workers", "2", "--log-level", "warning", "--timeout-keep-alive", "95"]
            server = [self.python, "-m", "uvicorn", "--port", str(port), *options]
            return [*server, "--no-access-log", self.application]
        conf = str(BENCH / "gunicorn_like_ours.py")
        return [self.python, "-m", "gunicorn", "-c", conf, *bind, self.application]

    def environment(self, url: URL, rounds: int) -> dict[str, str]:
        """Return its environment, on a database and with passwords hashed at this cost."""
        settings = {"BCRYPT_ROUNDS": str(rounds), **self.settings}
        if self.application is None:
            return service_environment(url, **settings)
        return environment(
            DATABASE_URL=as_given(url),
            SECRET_KEY=SECRET,
            BENCH_GUNICORN=gunicorn_settings(),
            WEB_CONCURRENCY="2",
            **settings,
        )


@cache
def gunicorn_settings() -> str:
    """Return the settings that all subjects on gunicorn share, as JSON."""
    # In a process of its own, since the file reads the environment.
    program = (
        "import json, runpy, sys; found = runpy.run_path('gunicorn.conf.py');"
        "print(json.dumps({name: found[name] for name in sys.argv[1:]}))"
    )
    command = [sys.executable, "-c", program, *SAME_SETTINGS]
    env = environment(WEB_CONCURRENCY="2")
    done = subprocess.run(command, cwd=ROOT, env=env, check=True, capture_output=True, text=True)
    # gunicorn's own threaded worker, which ours makes stricter: that costs only us.
    return json.dumps({**json.loads(done.stdout), "worker_class": "gthread"})


SUBJECTS = {
    subject.key: subject
    for subject in (
        Subject("bare", "bare Flask", READ, "bench.subjects.bare:app", guarded=False),
        Subject("thin", "thin floor", READ, "bench.subjects.thin:app"),
        Subject("tutorial", "tutorial stack", TUTORIAL, "bench.subjects.tutorial:app"),
        Subject("service", "this service", SERVICE),
        Subject(
            "service-info",
            "this service, LOG_LEVEL=INFO",
            READ,
            settings={"LOG_LEVEL": "INFO"},
        ),
        Subject(
            "django",
            "Django + simplejwt",
            DJANGO,
            "bench.subjects.django_stack:app",
            module="bench.subjects.django_stack",
        ),
        Subject(
            "fastapi",
            "fastapi-users",
            FASTAPI,
            "bench.subjects.fastapi_stack:app",
            module="bench.subjects.fastapi_stack",
            asynchronous=True,
        ),
    )
}
# Those that need nothing but what the service and its tests need.
USUAL = [key for key, subject in SUBJECTS.items() if not subject.module]
