"""Commands for schedulers and operators."""

import socket
from datetime import timedelta

import pytest
from alembic.config import Config
from helpers import SECRET
from real_service import MailServer, finish, free_port, production, python
from sqlalchemy import URL, func, insert, make_url, select, update

import database
from app import create_app
from config import Settings
from core import clock
from core.smtp import parse_mail_url
from database import reading, transaction
from models import DeniedSession, OutboxMail, UserSession


@pytest.fixture
def run(app):
    """Run `flask …` within this process; return what it printed and its exit code."""
    database.enable_migrations(app)
    runner = app.test_cli_runner()

    def run(*arguments):
        result = runner.invoke(args=arguments)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.output
        return result.output, result.exit_code

    return run


def count(app, table):
    with app.app_context(), reading() as connection:
        return connection.scalar(select(func.count()).select_from(table))


def register(client, username):
    body = {
        "username": username,
        "email": f"{username}@example.org",
        "password": "Tr4vel-Mug-Blue-42",
        "firstName": "First",
        "lastName": "Last",
    }
    assert client.post("/api/auth/register", json=body).status_code == 201


def test_mail_send_tries_all_mails_also_those_not_yet_due(app, client, outbox, run):
    register(client, "first")
    register(client, "second")
    with app.app_context(), transaction() as session:
        session.execute(
            update(OutboxMail)
            .where(OutboxMail.address == "second@example.org")
            .values(due_at=clock.utcnow() + timedelta(hours=1))
        )
    assert outbox.deliver()[0]["To"] == "first@example.org"
    register(client, "third")
    assert run("mail", "send") == ("2 sent, 0 failed, 0 dropped\n", 0)
    assert {mail["To"] for mail in outbox.delivered[1:]} == {
        "second@example.org",
        "third@example.org",
    }
    assert outbox.waiting() == []
    assert run("mail", "send") == ("0 sent, 0 failed, 0 dropped\n", 0)


def test_mail_send_drops_mails_to_nobody(client, outbox, run):
    client.post("/api/auth/forgot-password", json={"email": "nobody@example.org"})
    assert run("mail", "send") == ("0 sent, 0 failed, 1 dropped\n", 0)
    assert outbox.delivered == outbox.waiting() == []


def test_mail_send_fails_when_the_server_is_down(make_app):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    app = make_app(mail_url=parse_mail_url(f"smtp://127.0.0.1:{port}"))
    for number in range(3):
        register(app.test_client(), f"user{number}")
    result = app.test_cli_runner().invoke(args=["mail", "send"])
    assert result.exit_code == 1
    assert "0 sent, 1 failed, 0 dropped\n" in result.output
    assert "Error: The mail server cannot be reached." in result.output
    assert count(app, OutboxMail) == 3


def test_prune_removes_what_is_spent_and_nothing_else(app, client, auth, clock, run, log_in):
    client.post("/api/auth/logout", headers=auth.headers)
    clock.move(minutes=14)
    log_in(auth.user)
    register(client, "other")
    spent = "sessions: {} removed\ndenylist: {} removed\ncounters: 0 removed\noutbox: {} removed\n"
    assert run("prune") == (spent.format(0, 0, 0), 0)
    assert (count(app, UserSession), count(app, DeniedSession), count(app, OutboxMail)) == (1, 1, 1)

    clock.move(minutes=2)
    assert run("prune") == (spent.format(0, 1, 0), 0)
    clock.move(days=2)
    assert run("prune") == (spent.format(0, 0, 1), 0)
    assert (count(app, UserSession), count(app, DeniedSession), count(app, OutboxMail)) == (1, 0, 0)
    clock.move(days=28)
    assert run("prune") == (spent.format(1, 0, 0), 0)
    assert count(app, UserSession) == 0


def test_prune_takes_more_than_one_batch(app, run):
    moment = clock.utcnow()
    rows = [{"session_id": f"{number}", "expires_at": moment} for number in range(2500)]
    with app.app_context(), transaction() as session:
        session.execute(insert(DeniedSession), rows)
    output, status = run("prune")
    assert "denylist: 2500 removed\n" in output
    assert status == 0


def test_db_commands_tell_that_the_schema_is_current(run, monkeypatch):
    printed = []  # past click, to the standard output of the moment when Alembic was imported
    monkeypatch.setattr(Config, "print_stdout", lambda _self, line, *_more: printed.append(line))
    assert run("db", "upgrade")[1] == 0
    assert run("db", "current")[1] == 0
    assert printed == [f"{database.SCHEMA_REVISION} (head)"]
    assert run("db", "check")[1] == 0


def test_mail_send_works_as_a_scheduler_calls_it(database_url: URL, make_app):
    mail_server = MailServer()
    app = make_app()
    register(app.test_client(), "scheduled")
    env = production(database_url, mail_server.port, free_port())
    mail_server.start()
    try:
        ((status, output),) = finish([python("-m", "flask", "mail", "send", env=env)])
        assert (status, "1 sent, 0 failed, 0 dropped" in output) == (0, True), output
        mail_server.wait_for("scheduled@example.org", "Confirm your e-mail address")
    finally:
        mail_server.stop()
    assert count(app, OutboxMail) == 0


@pytest.mark.parametrize("command", [["mail", "send"], ["prune"]])
def test_command_says_plainly_that_the_database_is_away(command):
    url = make_url("postgresql+psycopg://user:secret@127.0.0.1:1/none")
    app = create_app(Settings(database_url=url, secret_key=SECRET))
    result = app.test_cli_runner().invoke(args=command)
    assert result.exit_code == 1
    assert result.output == "Error: The database cannot be reached or used.\n"
