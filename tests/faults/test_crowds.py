"""Many clients at once: nothing is refused, nothing is lost, and nobody shuts the others out."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from clients import Client, admin, meanwhile, newcomer
from real_service import Answer, Service, registration
from sqlalchemy import URL

LOGINS = 40
CLIENTS = 32
# The fields of the one account that all share, each changed by one client alone.
SHARED = {
    "/api/users/settings": {
        "theme": ["light", "dark", "system"],
        "language": ["en", "de", "pt-BR"],
        "timezone": ["UTC", "Europe/Berlin", "Asia/Tokyo"],
        "emailNotifications": [True, False],
        "pushNotifications": [True, False],
    },
    "/api/users/profile": {
        "firstName": ["Ada", "Grace", "Mary"],
        "lastName": ["Lovelace", "Hopper", "Somerville"],
        "bio": ["One", "Two", ""],
        "location": ["Here", "There", ""],
        "website": ["https://example.org", "http://example.com/a", ""],
    },
}


def test_reads_are_answered_while_more_log_in_than_there_are_connections(
    run: Callable[..., Service], tmp_path: Path
) -> None:
    url = URL.create("sqlite", database=str(tmp_path / "service.db"))
    service = run(url, BCRYPT_ROUNDS="10")
    clients = [Client(service, registration(f"user{number}")) for number in range(LOGINS)]
    reader = newcomer(service, "reader")
    reads: list[float] = []

    def read() -> None:
        assert reader.call("GET", "/api/auth/verify").status == 200
        assert reader.call("GET", "/healthz").status == 200
        reads.append(time.monotonic())

    with ThreadPoolExecutor(LOGINS) as threads, meanwhile([read]):
        assert {done.status for done in threads.map(Client.register, clients)} == {201}
        del reads[:]
        start = time.monotonic()
        logins = list(threads.map(Client.log_in, clients))
        end = time.monotonic()
    assert {login.status for login in logins} == {200}
    between = [moment for moment in reads if start < moment < end]
    print(f"{LOGINS} logins in {end - start:.1f} s, with {len(between)} reads between them")
    assert len(between) >= 5


class Visitor:
    """One of many who does all that users do, and remembers what was acknowledged."""

    def __init__(self, load: "Load", number: int, field: tuple[str, str] | None) -> None:
        self._load = load
        self._own = newcomer(load.service, f"visitor{number}")
        self._shared = Client(load.service)
        self._shared.access = load.shared.access
        self._course_system = Client(load.service)
        self._course_system.access = load.operator.access
        self._field = field
        self._rounds = count()
        self._spent = self._own.refresh
        self._bio = ""
        self._value: Any = None
        self.recorded = 0
        self.registered = 0

    def act(self) -> None:
        turn = next(self._rounds)
        for _ in range(2):
            self._ask(self._own, 200, "GET", "/api/auth/verify")
        self._change_profiles(turn)
        self._deliver_a_lesson(turn)
        self._ask(self._shared, 200, "GET", "/api/users/progress")
        self._move_on()
        if turn % 4 == 0:
            self._register_and_leave()

    def _ask(self, client: Client, status: int, method: str, path: str, body: Any = None) -> Answer:
        return self._load.expect(status, lambda: client.call(method, path, body))

    def _change_profiles(self, turn: int) -> None:
        self._bio = f"Round {turn}"
        self._ask(self._own, 200, "PUT", "/api/users/profile", {"bio": self._bio})
        profile = self._ask(self._own, 200, "GET", "/api/users/profile").data
        assert profile["bio"] == self._bio
        if self._field:
            path, name = self._field
            values = SHARED[path][name]
            self._value = values[turn % len(values)]
            self._ask(self._shared, 200, "PUT", path, {name: self._value})

    def _deliver_a_lesson(self, turn: int) -> None:
        lesson = f"{self._load.lessons}/{self._own.id}.{turn}"
        self._ask(self._course_system, 201, "PUT", lesson, {"minutes": 1})
        self._ask(self._course_system, 200, "PUT", lesson, {"minutes": 1})
        self.recorded += 1

    def _move_on(self) -> None:
        self._spent = self._own.refresh
        self._load.expect(200, self._own.move_on)
        assert self._own.refresh != self._spent

    def _register_and_leave(self) -> None:
        somebody = Client(self._load.service, registration(f"user{next(self._load.numbers)}"))
        self._load.expect(201, somebody.register)
        self.registered += 1
        self._load.expect(200, somebody.log_in)
        self._ask(somebody, 200, "POST", "/api/auth/logout")
        self._ask(somebody, 401, "GET", "/api/auth/verify")

    def expect_nothing_lost(self) -> None:
        profile = self._own.call("GET", "/api/users/profile").data
        assert profile["bio"] == self._bio
        if self._field and self._value is not None:
            path, name = self._field
            assert self._shared.call("GET", path).data[name] == self._value
        # The token spent last gets its successor again; had the session moved on by more steps
        # than were acknowledged, it would be an old one, and end the session.
        last, self._own.refresh = self._own.refresh, self._spent
        assert self._own.move_on().status == 200
        assert self._own.refresh == last


class Load:
    """A crowd of visitors at work, and what all of them together must have left behind."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.operator = admin(service)
        self.shared = newcomer(service, "shared")
        self.numbers = count()
        course = f"/api/users/{self.shared.id}/courses/piano"
        body = {"name": "Piano", "lessons": 10_000}
        assert self.operator.call("PUT", course, body).status == 201
        self.lessons = f"{course}/lessons"
        fields: list[Any] = [(path, name) for path, names in SHARED.items() for name in names]
        fields += [None] * (CLIENTS - len(fields))
        self._visitors = [Visitor(self, number, field) for number, field in enumerate(fields)]
        self._times: list[float] = []

    def expect(self, status: int, ask: Callable[[], Answer]) -> Answer:
        start = time.monotonic()
        answer = ask()
        self._times.append(time.monotonic() - start)
        assert answer.status == status, answer.content
        return answer

    def run(self, seconds: float) -> None:
        start = time.monotonic()
        with meanwhile([visitor.act for visitor in self._visitors]):
            time.sleep(seconds)
        times = sorted(self._times)
        rate = len(times) / (time.monotonic() - start)
        middle, late = times[len(times) // 2], times[len(times) * 99 // 100]
        print(
            f"{len(times)} requests, {rate:.0f} a second; half took less than {middle:.3f} s,"
            f" 99 % less than {late:.2f} s, the slowest {times[-1]:.2f} s"
        )

    def expect_nothing_lost(self) -> None:
        for visitor in self._visitors:
            visitor.expect_nothing_lost()
        progress = self.shared.call("GET", "/api/users/progress").data
        recorded = sum(visitor.recorded for visitor in self._visitors)
        assert progress["completedLessons"] == recorded
        accounts = self.operator.call("GET", "/api/users?perPage=1").data["total"]
        registered = sum(visitor.registered for visitor in self._visitors)
        assert accounts == registered + len(self._visitors) + 2
        assert "Traceback" not in self.service.log()
        print(f"{registered} registered, {recorded} lessons")


def expect_nothing_lost_in(seconds: float, service: Service) -> None:
    load = Load(service)
    load.run(seconds)
    load.expect_nothing_lost()


def test_four_processes_on_one_file_lose_nothing_and_refuse_nothing(
    run: Callable[..., Service], tmp_path: Path
) -> None:
    url = URL.create("sqlite", database=str(tmp_path / "service.db"))
    expect_nothing_lost_in(3, run(url, WEB_CONCURRENCY="4"))


@pytest.mark.faults
def test_a_minute_of_load_loses_nothing_and_is_refused_nothing(
    new_database: URL, run: Callable[..., Service]
) -> None:
    expect_nothing_lost_in(60, run(new_database, WEB_CONCURRENCY="4"))
