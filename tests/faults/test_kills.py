"""Processes that are killed while many clients write: what was acknowledged is kept."""

import os
import signal
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from random import choice
from typing import Any

import pytest
from clients import (
    CONFIRM,
    LOST,
    RESET,
    Client,
    admin,
    meanwhile,
    newcomer,
    soon,
    wait_for_mails,
)
from real_service import Answer, MailServer, Service, registration
from sqlalchemy import URL

WORKERS = 2


class Writers:
    """Clients that write four kinds of things, and remember what was acknowledged."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._numbers = count()
        self._course_system = admin(service)
        self.student = newcomer(service, "student")
        self.sessions = [newcomer(service, f"visitor{number}") for number in range(3)]
        self.registered: list[dict[str, str]] = []
        self.reset_asked: list[str] = []
        self.delivered: list[str] = []
        self.recorded: list[str] = []
        self.refreshed: list[str] = []
        self.wrong: list[Answer] = []
        path = f"/api/users/{self.student.id}/courses/piano"
        assert self._course_system.call("PUT", path, {"name": "Piano", "lessons": 9}).status == 201

    def acts(self) -> list[Callable[[], None]]:
        return [
            *(self._act(self._register) for _ in range(2)),
            self._act(self._forget_password),
            *(self._act(self._record) for _ in range(2)),
            *(self._act(self._refresh, session) for session in self.sessions),
        ]

    def _act(
        self, write: Callable[[Client], None], client: Client | None = None
    ) -> Callable[[], None]:
        client = client or Client(self._service)

        def act() -> None:
            try:
                write(client)
            except LOST:
                time.sleep(0.05)

        return act

    def _promised(self, answer: Answer, status: int) -> bool:
        if answer.status != status:
            self.wrong.append(answer)
        return answer.status == status

    def _register(self, client: Client) -> None:
        client.user = registration(f"user{next(self._numbers)}")
        if self._promised(client.register(), 201):
            self.registered.append(client.user)

    def _forget_password(self, client: Client) -> None:
        if not self.registered:
            return
        address = choice(self.registered)["email"]
        answer = client.call("POST", "/api/auth/forgot-password", {"email": address})
        if self._promised(answer, 200):
            self.reset_asked.append(address)
        time.sleep(0.01)  # mails take longer to deliver than to ask for

    def _refresh(self, client: Client) -> None:
        # Who lost the answer asks again with the same token, and gets the same successor.
        if self._promised(client.move_on(), 200):
            self.refreshed.append(client.refresh)

    def _record(self, client: Client) -> None:
        client.access = self._course_system.access
        lesson = f"lesson-{next(self._numbers)}"
        self.delivered.append(lesson)
        if self._promised(self.deliver(lesson, client), 201):
            self.recorded.append(lesson)

    def deliver(self, lesson: str, client: Client | None = None) -> Answer:
        path = f"/api/users/{self.student.id}/courses/piano/lessons/{lesson}"
        return (client or self._course_system).call("PUT", path, {"minutes": 1})

    def wait_for_more(self, number: int) -> None:
        """Return when so many more of each kind are acknowledged."""
        wanted = [done + number for done in self._done()]
        soon(lambda: all(map(int.__ge__, self._done(), wanted)))

    def _done(self) -> list[int]:
        return [
            len(self.registered),
            len(self.reset_asked),
            len(self.recorded),
            len(self.refreshed),
        ]

    def expect_all_that_was_acknowledged(self) -> None:
        assert self.wrong == []
        for client in (*self.sessions, self.student, self._course_system):
            client.hang_up()  # the other end may have been killed
        # Sessions first, before the time is over in which a lost answer is given again.
        for session in self.sessions:
            for _ in range(2):
                last = session.refresh
                assert session.move_on().status == 200
                assert session.refresh != last
        for user in self.registered:
            assert Client(self._service, user).log_in().status == 200
        progress = self.student.call("GET", "/api/users/progress").data
        assert len(self.recorded) <= progress["completedLessons"] <= len(self.delivered)
        for lesson in self.recorded:
            assert self.deliver(lesson).status == 200  # and not 201: it was there
        print("acknowledged:", self._done())

    def mails(self) -> set[tuple[str, str]]:
        confirmations = {(user["email"], CONFIRM) for user in self.registered}
        return confirmations | {(address, RESET) for address in self.reset_asked}


def test_what_was_acknowledged_outlives_the_whole_service(
    run: Callable[..., Service], mail_server: MailServer, tmp_path: Path
) -> None:
    service = run(URL.create("sqlite", database=str(tmp_path / "service.db")))
    writers = Writers(service)
    with meanwhile(writers.acts()):
        writers.wait_for_more(15)
        service.kill()
    service.start()
    newcomer(service, "later")  # whose mail wakes a worker before it would look by itself
    writers.expect_all_that_was_acknowledged()
    # Each worker had one mail in its hand at most, and that waits for the end of its lease.
    wait_for_mails(mail_server, writers.mails(), but=WORKERS)


@pytest.mark.faults
def test_killed_workers_and_a_killed_service_lose_no_write_and_no_mail(
    new_database: URL, run: Callable[..., Service], mail_server: MailServer
) -> None:
    service = run(new_database)
    writers = Writers(service)
    with meanwhile(writers.acts()):
        for _ in range(3):
            writers.wait_for_more(30)
            os.kill(service.workers(WORKERS)[0], signal.SIGKILL)
        writers.wait_for_more(30)
        service.kill()
    service.start()
    writers.expect_all_that_was_acknowledged()
    service.end_leases()
    wait_for_mails(mail_server, writers.mails())


@pytest.mark.faults
def test_what_was_acknowledged_outlives_a_crash_of_postgres(
    own_postgres: Any, run: Callable[..., Service], mail_server: MailServer
) -> None:
    service = run(own_postgres.url)
    writers = Writers(service)
    with meanwhile(writers.acts()):
        writers.wait_for_more(100)
        own_postgres.crash()
        time.sleep(0.5)
    own_postgres.start()
    soon(lambda: service.call("GET", "/readyz").status == 200)
    writers.wrong = [answer for answer in writers.wrong if answer.status != 503]
    writers.expect_all_that_was_acknowledged()
    service.end_leases()
    wait_for_mails(mail_server, writers.mails())
