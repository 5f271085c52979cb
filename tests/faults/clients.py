"""Clients of the running service, many at once, and what they wait for."""

from http.client import HTTPException
from itertools import count

from helpers import soon
from real_service import ask, finish, python, registration

# What a client sees when the process that it talks to is killed. Nothing was promised then.
LOST = (OSError, EOFError, HTTPException)
CONFIRM = "Confirm your e-mail address"
RESET = "Choose a new password"


class Client:
    """Somebody who keeps a connection, and the tokens of a login."""

    def __init__(self, service, user=None):
        self._connection = service.connect()
        self.user = user or {}
        self.id = self.access = self.refresh = ""

    def call(self, method, path, body=None):
        """Ask on the connection; one that broke is opened anew by the next call."""
        try:
            return ask(self._connection, method, path, body, self.access)
        except BaseException:
            self.hang_up()
            raise

    def hang_up(self):
        """Give the connection up; the next call opens another."""
        self._connection.close()

    def __del__(self):
        self.hang_up()

    def register(self):
        return self.call("POST", "/api/auth/register", self.user)

    def forget_password(self):
        return self.call("POST", "/api/auth/forgot-password", {"email": self.user["email"]})

    def log_in(self):
        body = {"email": self.user["email"], "password": self.user["password"]}
        answer = self._keep(self.call("POST", "/api/auth/login", body))
        if answer.status == 200:
            self.id = answer.data["user"]["id"]
        return answer

    def move_on(self):
        """Refresh, and keep the new tokens if there are any."""
        return self._keep(self.call("POST", "/api/auth/refresh", {"refreshToken": self.refresh}))

    def _keep(self, answer):
        if answer.status == 200:
            self.access = answer.data["accessToken"]
            self.refresh = answer.data["refreshToken"]
        return answer


def newcomer(service, name):
    """Return somebody who has just registered and logged in."""
    client = Client(service, registration(name))
    assert client.register().status == 201
    assert client.log_in().status == 200
    return client


def admin(service):
    """Return the operator, who may do what the course system does as well."""
    user = registration("operator")
    command = ["-m", "flask", "users", "create", "--role", "admin"]
    for option in ("username", "email"):
        command += [f"--{option}", user[option]]
    command += ["--first-name", user["firstName"], "--last-name", user["lastName"]]
    process = python(*command, env=service.env)
    process.stdin.write(user["password"] + "\n")
    ((status, output),) = finish([process])
    assert status == 0, output
    client = Client(service, user)
    assert client.log_in().status == 200
    return client


class Writers:
    """Clients that write four kinds of things, and remember what was acknowledged."""

    def __init__(self, service, crowds=1):
        self._service = service
        self._crowds = crowds
        self._numbers = count()
        self._course_system = admin(service)
        self.student = newcomer(service, "student")
        self.sessions = [newcomer(service, f"visitor{number}") for number in range(3 * crowds)]
        self.registered, self.reset_asked, self.recorded, self.refreshed = [], [], [], []
        self.delivered, self.wrong = [], []
        self.lost = 0
        path = f"/api/users/{self.student.id}/courses/piano"
        course = {"name": "Piano", "lessons": 10_000}
        assert self._course_system.call("PUT", path, course).status == 201

    def acts(self):
        kinds = [self._register, self._register, self._record, self._record] * self._crowds
        return [
            *(self._act(kind, Client(self._service)) for kind in kinds),
            *(self._act(self._refresh, session) for session in self.sessions),
        ]

    def _act(self, write, client):
        def act():
            try:
                write(client)
            except LOST:
                self.lost += 1

        return act

    def _promised(self, answer, status):
        if answer.status != status:
            self.wrong.append(answer)
        return answer.status == status

    def _register(self, client):
        client.user = registration(f"user{next(self._numbers)}")
        if self._promised(client.register(), 201):
            self.registered.append(client.user)
            if self._promised(client.forget_password(), 200):
                self.reset_asked.append(client.user["email"])

    def _refresh(self, client):
        # A client that lost the answer asks with the same token again; it gets the same successor.
        if self._promised(client.move_on(), 200):
            self.refreshed.append(client.refresh)

    def _record(self, client):
        client.access = self._course_system.access
        lesson = f"lesson-{next(self._numbers)}"
        self.delivered.append(lesson)
        if self._promised(self.deliver(lesson, client), 201):
            self.recorded.append(lesson)

    def deliver(self, lesson, client):
        path = f"/api/users/{self.student.id}/courses/piano/lessons/{lesson}"
        return client.call("PUT", path, {"minutes": 1})

    def wait_for_more(self, number):
        """Return when so many more of each kind are acknowledged."""
        wanted = [done + number for done in self._done()]
        soon(lambda: all(map(int.__ge__, self._done(), wanted)))

    def _done(self):
        return [*map(len, (self.registered, self.reset_asked, self.recorded, self.refreshed))]

    def expect_all_that_was_acknowledged(self):
        assert [(answer.status, answer.content) for answer in self.wrong] == []
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
            # 200 and not 201: it was there.
            assert self.deliver(lesson, self._course_system).status == 200

    def mails(self):
        confirmations = {(user["email"], CONFIRM) for user in self.registered}
        return confirmations | {(address, RESET) for address in self.reset_asked}


def wait_for_mails(mail_server, expected):
    """Return when all of these mails, (address, subject), are there."""

    def missing():
        return expected - {(mail["To"], mail["Subject"]) for mail in mail_server.mails}

    soon(lambda: not missing())
