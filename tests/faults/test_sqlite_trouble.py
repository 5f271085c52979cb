"""An SQLite file that another program locks, and a disk that is full or takes no writes."""

import errno
import os
import shutil
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest
from clients import CONFIRM, RESET, Client, meanwhile, newcomer, soon, wait_for_mails
from real_service import Answer, MailServer, Service, registration
from sqlalchemy import URL

SMALL = "4m"


def file_in(folder: Path) -> URL:
    return URL.create("sqlite", database=str(folder / "service.db"))


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of the writers, as a backup that is too thorough does."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


def expect_unavailable(answer: Answer) -> None:
    assert (answer.status, answer.code) == (503, "unavailable")
    assert int(answer.headers["Retry-After"]) > 0


class Household:
    """Somebody for each kind of write, who tries it until it is done, and expects it whole."""

    def __init__(self, service: Service, mail_server: MailServer) -> None:
        self._mail_server = mail_server
        self._registering = [Client(service, registration(f"user{number}")) for number in range(3)]
        self._refreshing, self._forgetting, self.reading = (
            newcomer(service, name) for name in ("refreshing", "forgetting", "reading")
        )
        self._done: list[bool] = []

    def write(self) -> list[Answer]:
        """Try all of it once; return the answers."""
        body = {"email": self._forgetting.user["email"]}
        spent = self._refreshing.refresh
        answers = [
            *(client.register() for client in self._registering),
            self._refreshing.move_on(),
            self._forgetting.call("POST", "/api/auth/forgot-password", body),
            self._forgetting.call("PUT", "/api/users/profile", {"bio": "Something"}),
            self._forgetting.call("PUT", "/api/users/settings", {"theme": "dark"}),
        ]
        assert (self._refreshing.refresh != spent) == (answers[3].status == 200)
        return answers

    def read(self) -> None:
        assert self.reading.call("GET", "/api/auth/verify").status == 200
        assert self.reading.call("GET", "/api/users/profile").status == 200

    def expect_all_done(self, answers: list[Answer]) -> None:
        """After trouble: what was refused was not done at all, and is done now."""
        assert [answer.status for answer in answers] == [201, 201, 201, 200, 200, 200, 200]
        assert self._refreshing.move_on().status == 200
        for client in self._registering:
            assert client.log_in().status == 200
        expected = {(client.user["email"], CONFIRM) for client in self._registering}
        wait_for_mails(self._mail_server, expected | {(self._forgetting.user["email"], RESET)})
        subjects = [str(mail["Subject"]) for mail in self._mail_server.mails]
        # A mail that was refused with its cause did not go out either.
        assert (subjects.count(CONFIRM), subjects.count(RESET)) == (3 + 3, 1)
