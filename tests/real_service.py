"""The service as it runs in production: its own processes, a real database, a real mail server."""

import base64
import http.client
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any
from uuid import uuid4

import psutil
from aiosmtpd.controller import Controller
from helpers import SECRET, bearer, soon
from helpers import registration as registration
from sqlalchemy import URL, create_engine, make_url, text
from werkzeug.serving import make_server

from app import create_app
from config import ROOT, Settings
from core.totp import STEP, hotp
from database import schema
from extensions import db

# What a deployment says to glibc about memory.
MEMORY = dict(re.findall(r"(MALLOC_\w+)=(\d+)", (ROOT / "Procfile").read_text()))
# Seconds; only a hang takes so long.
PATIENCE = 40


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def empty_database(request, folder, kind=""):
    """Make a database with nothing in it, of the kind that the fixture's parameter names."""
    if (kind or request.param) == "sqlite":
        return URL.create("sqlite", database=str(folder / "service.db"))
    return database_on(request.getfixturevalue("postgres_url"))


def database_on(server):
    """Make an empty database on this Postgres server."""
    name = f"test_{uuid4().hex}"  # never dropped, since the whole server is thrown away
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f'CREATE DATABASE "{name}"'))
    engine.dispose()
    return server.set(database=name)


def environment(**settings):
    """Return an environment that has these settings and no others, whatever ours has."""
    # Set to nothing, so that a `.env` file cannot fill them in.
    unset = dict.fromkeys((name.upper() for name in Settings.__dataclass_fields__), "")
    ours = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    return {**ours, **MEMORY, "LANG": "C.UTF-8", **unset, "WEB_CONCURRENCY": "2", **settings}


def production(url, mail_port, port):
    """Return the environment of a deployment, with the database's URL as hosts give it."""
    name = url.get_backend_name()
    given = url.set(drivername="postgres" if name == "postgresql" else name)
    return environment(
        DATABASE_URL=given.render_as_string(hide_password=False),
        SECRET_KEY=SECRET,
        PUBLIC_URL=f"http://127.0.0.1:{port}",
        MAIL_URL=f"smtp://127.0.0.1:{mail_port}",
        BCRYPT_ROUNDS="4",
        RATELIMIT_ENABLED="0",
    )


def python(*arguments, env, cwd=ROOT):
    """Start Python; both of its outputs come back as one."""
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=cwd,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(processes):
    """Wait for processes to end by themselves; return the exit code and output of each."""
    waiting, ended = list(processes), []
    try:
        for process in waiting:
            output, _ = process.communicate(timeout=PATIENCE)
            ended.append((process.returncode, output))
    finally:
        for process in waiting:
            if process.poll() is None:
                process.kill()
                process.communicate()
    return ended


@dataclass
class Answer:
    status: int
    headers: http.client.HTTPMessage
    content: Any

    @property
    def data(self):
        """The data of a success."""
        assert self.content["success"] is True, self.content
        return self.content["data"]

    @property
    def code(self):
        """The code of an error."""
        assert self.content["success"] is False, self.content
        return str(self.content["error"]["code"])


class Service:
    """gunicorn and its workers, with a log that is shown when a test fails."""

    def __init__(self, env, port, log, tree=ROOT):
        self.url = f"http://127.0.0.1:{port}"
        self.port = port
        self.env = env
        self._log = log
        self._tree = tree
        self._process = None

    def start(self, until="/readyz"):
        """Start, and return when the service answers 200 there."""
        command = [sys.executable, "-m", "gunicorn", "-b", f"127.0.0.1:{self.port}"]
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self._tree,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

        def is_well():
            assert self._process.poll() is None, f"it ended:\n{self.log()}"
            with suppress(OSError):
                return self.call("GET", until).status == 200

        soon(is_well)

    def stop(self, how=signal.SIGTERM):
        """End it as a supervisor does: by asking, and by force if that does not help."""
        if self._process is None:
            return
        self._process.send_signal(how)
        try:
            assert self._process.wait(PATIENCE) == 0
        except BaseException:
            self.kill()
            raise
        self._process = None

    def kill(self):
        """End all of its processes at once, as the end of the machine does."""
        if self._process is None:
            return
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process = None

    def log(self):
        return self._log.read_text()

    def end_leases(self):
        """Give the mails that killed processes were sending to the others, as two minutes do."""
        url = make_url(self.env["DATABASE_URL"])
        if url.drivername == "postgres":
            url = url.set(drivername="postgresql+psycopg")
        engine = create_engine(url)
        with engine.begin() as connection:
            connection.execute(text("UPDATE outbox SET due_at = created_at WHERE claimed"))
        engine.dispose()

    def workers(self, count=2):
        """Return the workers' process ids, as soon as there are so many."""
        master = psutil.Process(self._process.pid)

        def alive():
            children = master.children()
            return [child.pid for child in children if child.status() != psutil.STATUS_ZOMBIE]

        soon(lambda: len(alive()) == count)
        return alive()

    @contextmanager
    def answered_by(self, worker):
        """Stop the other workers for a while, so that this one answers."""
        children = psutil.Process(self._process.pid).children()
        others = [child.pid for child in children if child.pid != worker]
        for pid in others:
            os.kill(pid, signal.SIGSTOP)
        # One thread takes the signal, and the others go on until it does.
        soon(lambda: all(map(_is_stopped, others)))
        try:
            yield
        finally:
            for pid in others:
                os.kill(pid, signal.SIGCONT)

    def call(self, method, path, body=None, *, token=None):
        """Ask on a connection of its own."""
        with closing(self.connect()) as connection:
            return ask(connection, method, path, body, token)

    def connect(self):
        return _Crowd("127.0.0.1", self.port, timeout=PATIENCE)

    def register(self, name, **changes):
        """Register; return what was sent."""
        user = registration(name, **changes)
        assert self.call("POST", "/api/auth/register", user).status == 201
        return user

    def log_in(self, user, **changes):
        """Log a registered user in, by default with the right password."""
        body = {"email": user["email"], "password": user["password"], **changes}
        return self.call("POST", "/api/auth/login", body)

    def add_second_factor(self, user):
        """Set up a second factor for a registered user; return the recovery codes."""
        token, url = self.log_in(user).data["accessToken"], "/api/auth/second-factor"
        made = self.call("POST", url, {"password": user["password"]}, token=token).data
        code = hotp(base64.b32decode(made["secret"]), int(time.time()) // STEP)
        answer = self.call("POST", f"{url}/confirm", {"code": code}, token=token)
        return answer.data["recoveryCodes"]


def _is_stopped(pid):
    with suppress(psutil.NoSuchProcess):  # a thread may end before
        states = [psutil.Process(thread.id).status() for thread in psutil.Process(pid).threads()]
        return set(states) == {psutil.STATUS_STOPPED}


class _Crowd(http.client.HTTPConnection):
    """A connection whose requests come from many addresses, if the service trusts this proxy."""

    def request(self, method, url, body=None, headers=None, **more):
        address = f"2001:db8:{random.getrandbits(16):x}:{random.getrandbits(16):x}::1"
        sent = {"X-Forwarded-For": address, **(headers or {})}
        super().request(method, url, body, sent, **more)


def migrate(url):
    """Bring a database up to date: in this process, since a command of its own takes seconds."""
    app = create_app(Settings(database_url=url, secret_key=SECRET))
    with app.app_context():
        schema.upgrade()
        db.engine.dispose()


@contextmanager
def deployed(url, mail_port, log, **more):
    """Run the service as a deployment does: migrate, then serve. `more` joins its environment."""
    port = free_port()
    migrate(url)
    service = Service(production(url, mail_port, port) | more, port, log)
    try:
        service.start()
        yield service
    finally:
        service.stop()


@contextmanager
def serving(app):
    """Serve an application in this process; lend its URL, with no slash at its end."""
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def ask(connection, method, path, body=None, token=None):
    """Send a call of the API on an open connection; return the answer."""
    headers = bearer(token) if token else {}
    if body is not None:
        headers["Content-Type"] = "application/json"
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    return read_answer(connection)


def start_nginx(folder, example, port, service):
    """Start nginx with the example of deploy/, without TLS, and wait until it listens."""
    example = re.sub(r"^ *ssl_.*\n", "", example, flags=re.M).replace("/var/log/nginx", str(folder))
    for there, here in (("443 ssl", port), ("80", free_port()), ("127.0.0.1:5000", service)):
        example = example.replace(f" {there};", f" 127.0.0.1:{here};")
    modules = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    places = "".join(f"{module}_temp_path {folder}/{module};" for module in modules)
    (folder / "nginx.conf").write_text(
        f"daemon off; pid {folder}/pid; events {{}} http {{ access_log off; {places}{example} }}"
    )
    nginx = subprocess.Popen(["nginx", "-e", folder / "nginx.log", "-c", folder / "nginx.conf"])
    soon((folder / "pid").exists)
    return nginx


def read_answer(connection):
    response = connection.getresponse()
    return Answer(response.status, response.headers, json.loads(response.read()))


@dataclass
class MailServer:
    """A mail server with a memory. It can be down, and come back at the same address."""

    port: int = field(default_factory=free_port)
    mails: list[EmailMessage] = field(default_factory=list)
    drops: int = 0  # how many mails it breaks off with
    _arrived: threading.Condition = field(default_factory=threading.Condition)
    _controller: Controller | None = None

    def start(self):
        place = {"hostname": "127.0.0.1", "port": self.port}
        self._controller = Controller(self, **place, ready_timeout=PATIENCE)
        self._controller.start()

    def stop(self):
        if self._controller:
            self._controller.stop()
            self._controller = None

    async def handle_DATA(self, server, session, envelope):
        if self.drops:
            self.drops -= 1
            server.transport.abort()
            return "250 never said"
        mail = message_from_bytes(envelope.content, policy=policy.default)
        with self._arrived:
            self.mails.append(mail)
            self._arrived.notify_all()
        return "250 OK"

    def wait_for(self, address, subject):
        """Take the first such mail out of the memory, when it is there."""
        with self._arrived:
            found = self._arrived.wait_for(lambda: self._find(address, subject), PATIENCE)
            assert found, f"no mail to {address}: {[str(mail['Subject']) for mail in self.mails]}"
            self.mails.remove(found)
        return found

    def _find(self, address, subject):
        for mail in self.mails:
            if mail["To"] == address and mail["Subject"] == subject:
                return mail
        return None


def link_in(mail):
    """Return the link of a mail."""
    (link,) = re.findall(r"https?://\S+#token=\S+", mail.get_body(("plain",)).get_content())
    return link
