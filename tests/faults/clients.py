"""Clients of the running service, many at once, and what they wait for."""

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPException
from typing import Any

from real_service import Answer, MailServer, Service, finish, python, read_answer, registration

# What a client sees when the process that it talks to is killed. Nothing was promised then.
LOST = (OSError, EOFError, HTTPException)
# Seconds. A mail that a killed worker had in its hand is free again after half a minute.
PATIENCE = 60
CONFIRM = "Confirm your e-mail address"
RESET = "Choose a new password"


class Client:
    """Somebody who keeps a connection, and the tokens of a login."""

    def __init__(self, service: Service, user: dict[str, str] | None = None) -> None:
        self._connection = service.connect()
        self.user = user or {}
        self.id = ""
        self.access = ""
        self.refresh = ""

    def call(self, method: str, path: str, body: Any = None) -> Answer:
        """Ask on the connection; one that broke is opened anew by the next call."""
        headers = {"Authorization": f"Bearer {self.access}"} if self.access else {}
        if body is not None:
            headers["Content-Type"] = "application/json"
        payload = None if body is None else json.dumps(body).encode()
        try:
            self._connection.request(method, path, payload, headers)
            return read_answer(self._connection)
        except BaseException:
            self.hang_up()
            raise

    def hang_up(self) -> None:
        """Give the connection up; the next call opens another."""
        self._connection.close()

    def __del__(self) -> None:
        self.hang_up()

    def register(self) -> Answer:
        return self.call("POST", "/api/auth/register", self.user)

    def log_in(self) -> Answer:
        body = {"email": self.user["email"], "password": self.user["password"]}
        answer = self.call("POST", "/api/auth/login", body)
        if answer.status == 200:
            self.id = answer.data["user"]["id"]
            self._keep(answer)
        return answer

    def move_on(self) -> Answer:
        """Refresh, and keep the new tokens if there are any."""
        answer = self.call("POST", "/api/auth/refresh", {"refreshToken": self.refresh})
        if answer.status == 200:
            self._keep(answer)
        return answer

    def _keep(self, answer: Answer) -> None:
        self.access = answer.data["accessToken"]
        self.refresh = answer.data["refreshToken"]


def newcomer(service: Service, name: str) -> Client:
    """Return somebody who has just registered and logged in."""
    client = Client(service, registration(name))
    assert client.register().status == 201
    assert client.log_in().status == 200
    return client


def admin(service: Service) -> Client:
    """Return the operator, who may do what the course system does as well."""
    user = registration("operator")
    command = ["-m", "flask", "users", "create", "--role", "admin"]
    for option in ("username", "email"):
        command += [f"--{option}", user[option]]
    command += ["--first-name", user["firstName"], "--last-name", user["lastName"]]
    process = python(*command, env=service.env)
    assert process.stdin
    process.stdin.write(user["password"] + "\n")
    ((status, output),) = finish([process])
    assert status == 0, output
    client = Client(service, user)
    assert client.log_in().status == 200
    return client


@contextmanager
def meanwhile(acts: Iterable[Callable[[], None]]) -> Iterator[None]:
    """Do each of these again and again in a thread of its own; at the end raise what one raised."""
    over = threading.Event()

    def again(act: Callable[[], None]) -> None:
        while not over.is_set():
            act()

    work = list(acts)
    with ThreadPoolExecutor(len(work)) as threads:
        running = [threads.submit(again, act) for act in work]
        try:
            yield
        finally:
            over.set()
    for done in running:
        done.result()


def soon(condition: Callable[[], object], patience: float = PATIENCE) -> None:
    """Wait for something that others do."""
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.05)


def wait_for_mails(
    mail_server: MailServer, expected: set[tuple[str, str]], *, but: int = 0
) -> None:
    """Return when all of these mails, (address, subject), are there, but for so many."""
    known: set[tuple[str, str]] = set()
    seen = 0
    deadline = time.monotonic() + PATIENCE
    while len(expected - known) > but:
        assert time.monotonic() < deadline, f"no mails: {sorted(expected - known)[:20]}"
        time.sleep(0.1)
        new = mail_server.mails[seen:]
        seen += len(new)
        known |= {(str(mail["To"]), str(mail["Subject"])) for mail in new}
