"""What the load sends to a subject: tokens and bodies, some of which work only once."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count, islice

from sqlalchemy import URL

from bench import data
from bench.registry import Subject
from bench.servers import Failed
from config import ROOT

_labels = count(1)


@dataclass
class Supply:
    """Tokens and bodies for one subject. `owners` are the names in the answers to `access`."""

    access: list[str]
    owners: list[str]
    refresh: list[str]
    logins: list[str]
    learners: list[str] = field(default_factory=list)
    registrations: Iterator[str] = field(
        default_factory=lambda: data.registrations(f"new-{next(_labels)}")
    )

    def take(self, operation: str, number: int) -> list[str]:
        """Return so many lines for an operation. What works only once is never taken twice."""
        if operation == "refresh":
            taken, self.refresh = self.refresh[:number], self.refresh[number:]
            if len(taken) < number:
                raise Failed("there are not enough sessions for so many rounds; use more --users")
            return taken
        if operation == "register":
            return list(islice(self.registrations, number))
        lines = {"login": self.logins, "progress": self.learners}.get(operation, self.access)
        return lines[:number]


def of_service(callers: list[data.Caller], learners: list[data.Caller]) -> Supply:
    """Return what the service takes."""
    return Supply(
        access=[caller.access_token() for caller in callers],
        owners=[caller.username for caller in callers],
        refresh=[caller.refresh_token() for caller in callers],
        logins=[data.login(caller.email) for caller in callers],
        learners=[caller.access_token() for caller in learners],
    )


def of_tutorial(callers: list[data.Caller]) -> Supply:
    """Return what the tutorial stack takes."""
    return Supply(
        access=[caller.tutorial_token("access") for caller in callers],
        owners=[caller.username for caller in callers],
        refresh=[caller.tutorial_token("refresh") for caller in callers],
        logins=[data.login(caller.email) for caller in callers],
    )


def of_other(subject: Subject, url: URL, users: int, *, rounds: int) -> Supply:
    """Return what one of the others takes, once it has made and filled its tables."""
    assert subject.module is not None
    done = subprocess.run(
        [subject.python, "-m", subject.module, str(users), data.PASSWORD],
        cwd=ROOT,
        env=subject.environment(url, rounds),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Failed(f"{subject.title}: cannot be filled\n{done.stderr[-2000:]}")
    return Supply(**json.loads(done.stdout))
