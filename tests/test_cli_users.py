"""`flask users …`: accounts, for the operator of the service."""

import functools
import re
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from endpoints import UNKNOWN_ID
from helpers import PASSWORD, Log, choose, crowd, login, on_both, rows, stored, success

import errors
from cli import users as users_commands
from database import transaction
from models import User
from services import administration

NAMED = {"--username": "Ada.L-1", "--email": "Ada@Example.org"}
NAMED |= {"--first-name": "Augusta", "--last-name": "King-Noel"}
GIVEN = [text for option in NAMED.items() for text in option]


@pytest.fixture
def run(run):
    """Run `flask users …`."""
    return functools.partial(run, "users")


def create(run, *more, password=PASSWORD, **changes):
    given = NAMED | {f"--{name.replace('_', '-')}": value for name, value in changes.items()}
    options = [text for option in given.items() for text in option]
    return run("create", *options, *more, typed=f"{password}\n")


# users create


def test_create_makes_an_account_that_is_ready(app, client, run, outbox):
    output, code = create(run, "--role", "instructor", **{"first-name": " Augusta "})
    assert code == 0, output
    user = stored(app, username="Ada.L-1")
    assert output == f"{user.id} Ada.L-1 was created with the role instructor.\n"
    assert (user.email, user.role, user.is_active) == ("ada@example.org", "instructor", True)
    assert (user.first_name, user.last_name) == ("Augusta", "King-Noel")
    assert user.email_verified_at is not None
    assert outbox.waiting() == []
    assert success(login(client, "ADA@example.org"))["user"]["role"] == "instructor"


def test_create_asks_for_what_is_not_given_and_takes_the_password_as_it_is(app, client, run):
    password = "  Blåbærsyltetøy på loftet  "
    # The password is the next line of the input, whatever ends it.
    typed = f"newcomer\nme@example.org\nFirst\nLast\n{password}\r\nand more\n"
    output, code = run("create", typed=typed)
    assert code == 0, output
    assert password not in output
    for prompt in ("Username", "Email", "First name", "Last name"):
        assert f"{prompt}: " in output
    user = stored(app, username="newcomer")
    assert output.endswith(f"{user.id} newcomer was created with the role student.\n")
    assert (user.email, user.first_name, user.last_name) == ("me@example.org", "First", "Last")
    success(login(client, "me@example.org", password))


def test_create_asks_again_for_a_wrong_answer_before_the_next_one(app, run):
    answers = ["-", "newcomer", "nobody", "me@example.org", "a\x1bb", "First", "Last", PASSWORD]
    output, code = run("create", typed="\n".join(answers))
    assert code == 0, output
    asked = re.findall(r"^(Error: \w+|[A-Z][a-z ]+): ", output, re.M)
    assert asked == [
        *("Username", "Error: username", "Username", "Email", "Error: email", "Email"),
        *("First name", "Error: firstName", "First name", "Last name"),
    ]
    assert stored(app, username="newcomer").email == "me@example.org"


def test_create_asks_a_person_twice_for_a_password_that_nobody_sees(client, run, monkeypatch):
    terminal = SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr(users_commands, "sys", terminal)
    typed = [*("boss", "boss@example.org", "First", "Last"), PASSWORD, f"{PASSWORD}x"]
    output, code = run("create", typed="\n".join([*typed, PASSWORD, PASSWORD]))
    assert code == 0, output
    assert "Username: boss" in output
    assert output.count("Password: ") == output.count("Repeat for confirmation: ") == 2
    assert PASSWORD not in output
    success(login(client, "boss@example.org"))


def test_create_names_each_wrong_field(app, run):
    wrong = {"username": "-", "email": "-", "first_name": "a\x1bb", "last_name": ""}
    output, code = create(run, password="ab" * 64 + "c", language="no tag", **wrong)
    assert code == 2
    named = {"username", "email", "firstName", "lastName", "password", "language"}
    assert {*re.findall(r"^(?:Error: )?(\w+): \w.*\.$", output, re.M)} == named
    assert "abab" not in output
    assert stored(app) is None


@on_both
def test_create_says_what_is_taken(app, run):
    assert create(run)[1] == 0
    sentences = f"{errors.UsernameTaken.message} {errors.EmailTaken.message}"
    assert create(run) == (f"Error: {sentences}\n", 1)
    assert create(run, username="other") == (f"Error: {errors.EmailTaken.message}\n", 1)
    assert stored(app).username == "Ada.L-1"


@pytest.mark.parametrize("password", ["", "ada.l-1-2026"])
def test_create_refuses_a_weak_password_with_the_reason(app, run, password):
    output, code = create(run, password=password)
    assert code == 1
    assert re.fullmatch(r"Error: This password .+\.\n", output)
    assert not password or password not in output
    assert stored(app) is None


@pytest.mark.parametrize("way", [[], ["--invite"], ["--link"]])
def test_create_takes_the_language_of_the_mails(app, run, way):
    assert create(run, "--language", "pt-br", *way)[1] == 0
    assert stored(app).language == "pt-BR"


def test_create_at_the_end_of_the_input_makes_nothing(app, run):
    assert run("create", typed="newcomer\n")[1] == 1
    assert run("create", *GIVEN)[1] == 1
    assert stored(app) is None


# users list


def names_in(output):
    return [line.split("\t")[1] for line in output.splitlines()]


@pytest.mark.asvs("6.3.2")
def test_list_tells_what_an_operator_needs(run, make_user, clock):
    assert run("list") == ("", 0)
    at, time = datetime(2026, 11, 20, 9, 31, tzinfo=UTC), "2026-11-20T09:31:00Z"
    first = make_user("Ada", last_login_at=at)
    clock.move(seconds=1)
    of_second = {"role": "admin", "is_active": False, "email_verified_at": at}
    second = make_user("boss", password_hash="!x", **of_second)
    of_second = ["inactive", "never", "verified", "no password"]
    of_first = ["active", time, "not verified", "password"]
    lines = [
        [second.id, "boss", "boss@example.org", "admin", *of_second],
        [first.id, "Ada", "ada@example.org", "student", *of_first],
    ]
    assert run("list") == ("".join("\t".join(line) + "\n" for line in lines), 0)


@on_both
def test_list_filters(run, make_user, clock):
    roles = {"learner": "student", "dropout": "student", "teacher": "instructor"}
    for name, role in roles.items():
        clock.move(seconds=1)
        make_user(name, role=role, is_active=name != "dropout")
    for options, found in (
        ("--role student", ["dropout", "learner"]),
        ("--active", ["teacher", "learner"]),
        ("--search EARN", ["learner"]),
        ("--search t --role student --inactive", ["dropout"]),
    ):
        assert names_in(run("list", *options.split())[0]) == found


@pytest.mark.parametrize(("number", "queries"), [(5, 3), (6, 3)])
def test_list_is_whole_however_long_and_ends_after_its_last_page(
    app, run, monkeypatch, number, queries
):
    pages, list_accounts = [], administration.list_accounts

    def note(**query):
        pages.append(found := list_accounts(**query))
        # By the number of a page, somebody would be skipped now.
        with app.app_context(), transaction():
            for user in found[0][:1]:
                administration.delete(user.id)
        return found

    monkeypatch.setattr(administration, "list_accounts", note)
    monkeypatch.setattr(users_commands, "_PAGE", 2)
    crowd(app, number)
    output, code = run("list")
    assert code == 0
    assert names_in(output) == [f"user{count}" for count in range(number, 0, -1)]
    assert len(pages) == queries + 1  # the last one is empty


# users show


def test_show_tells_everything_about_a_login(run, client, make_user, log_in, clock):
    joined = datetime(2026, 11, 20, 9, 31, tzinfo=UTC)
    user = make_user("Ada", language="de", created_at=joined)
    shown = {"id": user.id, "username": "Ada", "e-mail address": "ada@example.org"}
    shown |= {"e-mail address verified": "no", "name": "First Last", "role": "student"}
    shown |= {"active": "yes", "password": "yes", "second factor": "no", "passkeys": "0"}
    shown |= {"language": "de", "time zone": "UTC", "joined": "2026-11-20T09:31:00Z"}
    shown |= {"last login": "never", "open sessions": "0", "pending e-mail address": "no"}
    shown["can log in"] = "yes"
    assert run("show", "ADA") == ("".join(f"{name}: {shown[name]}\n" for name in shown), 0)
    session = log_in(user)
    body = {"newEmail": "new@example.org", "password": PASSWORD}
    success(client.post("/api/users/email", json=body, headers=session.headers))
    output, _ = run("show", user.id)
    assert "last login: 20" in output
    assert output.endswith("open sessions: 1\npending e-mail address: yes\ncan log in: yes\n")


def test_show_gives_each_reason_why_a_user_cannot_log_in(make_app, make_user):
    make_user("ada", is_active=False, password_hash="!marker")
    make_user("bob", password_hash="md5:x", email_verified_at=datetime.now(UTC))
    for strict, unverified in [(False, ""), (True, "email_unverified, ")]:
        runner = make_app(require_verified_email=strict).test_cli_runner()
        output = runner.invoke(args=["users", "show", "ada"]).output
        assert output.endswith(f"can log in: no: inactive, {unverified}no_password\n")
        output = runner.invoke(args=["users", "show", "bob"]).output
        assert output.endswith("can log in: no: unknown_hash\n")


@pytest.mark.parametrize(
    ("command", "events"),
    [
        (f"create {' '.join(GIVEN)}", "registered"),
        (f"create {' '.join(GIVEN)} --invite", "account_created"),
        ("activate sleeper", "account_activated"),
        ("activate student", ""),
        ("export student", "data_exported"),
        ("show student", ""),
        ("list", ""),
    ],
)
def test_each_command_that_changes_something_logs_what_it_did(make_app, make_user, command, events):
    users = {make_user().id, make_user("sleeper", is_active=False).id}
    app = make_app(log_format="json")
    log = Log()
    done = app.test_cli_runner().invoke(args=["users", *command.split()], input=f"{PASSWORD}\n")
    assert done.exit_code == 0, done.output
    logged = log.events()
    assert [line["message"] for line in logged] == events.split()
    assert {line["user"] for line in logged} <= users | {row.id for row in rows(app, User)}
    assert not any("by" in line for line in logged)


# users set-role, activate, deactivate, delete


@on_both
def test_account_is_found_by_id_name_and_address(run, make_user):
    user = make_user("Ada.L-1", email="ada@xn--bcher-kva.example")
    make_user("other")
    for account in (user.id, user.username, user.email, "ada@Bücher.example"):
        for written in (account, account.swapcase()):
            assert run("show", written)[0].startswith(f"id: {user.id}\n"), written
    for account in (UNKNOWN_ID, "nobody", "nobody@example.org", "ad", "ada@example", "", "%"):
        assert run("deactivate", account) == ("Error: There is no such user.\n", 1)


def test_accounts_are_read_from_the_input_line_by_line(app, client, run, make_user):
    for name in ("ada", "ben", "boss"):
        make_user(name, role="admin" if name == "boss" else "student")
    # With a mark at the beginning, as some programs write it, and with accounts that stand twice.
    typed = "\ufeff\nADA\r\nnobody\n  boss\nAda@Example.org\nben@Example.org\nBen\nADA"
    refused = f"nobody: {errors.UserNotFound.message}\nboss: {errors.LastAdmin.message}\n"
    result = app.test_cli_runner().invoke(args=["users", "deactivate", "-"], input=typed)
    assert result.stdout == "ada is inactive.\nben is inactive.\n"
    assert (result.stderr, result.exit_code) == (refused, 1)
    assert stored(app, is_active=True).username == "boss"
    assert run("activate", "-", typed="ada\nben\n") == ("ada is active.\nben is active.\n", 0)

    lines = run("access-link", "-", typed="\ufeffada\nboss\nboss")[0].splitlines()
    (ada, link, code), (boss, _, none) = (line.split("\t") for line in lines)
    assert (ada, boss, none) == ("ada", "boss", "")
    assert re.fullmatch("(-?[0-9A-Z]{4}){3}", code)
    success(choose(client, link.partition("#token=")[2]))

    output, status = run("delete", "-", typed=typed)
    assert (status, "add --yes" in output, len(rows(app, User))) == (2, True, 3)
    deleted = f"ada is deleted.\n{refused}ben is deleted.\n"
    assert run("delete", "-", "--yes", typed=typed) == (deleted, 1)
    assert stored(app).username == "boss"


def test_delete_asks_first(app, run, make_user, outbox):
    user = make_user("Ada")
    question = "Delete Ada (ada@example.org) for good? [y/N]: "
    for typed in ("\n", "no\n", ""):
        output, code = run("delete", "ada", typed=typed)
        assert (question in output, "Aborted!" in output, code) == (True, True, 1)
    assert stored(app, id=user.id)
    assert run("delete", "ada", typed="y\n") == (f"{question}y\nAda is deleted.\n", 0)
    assert stored(app) is None
    assert outbox.waiting() == [("account_deleted", "ada@example.org")]


@pytest.mark.parametrize("command", ["list --search", "deactivate"])
@on_both
def test_bytes_that_are_no_text_are_told(run, command):
    # As Python hands on what is not UTF-8.
    output, code = run(*command.split(), "a\udcff")
    assert (code, output.splitlines()[-1]) == (2, "Error: The input is not valid UTF-8.")


def test_deleted_while_the_question_is_open_is_told(app, run, make_user, monkeypatch):
    make_user("ada")
    monkeypatch.setattr("click.confirm", lambda *_, **__: run("delete", "ada", "--yes"))
    assert run("delete", "ada") == ("Error: There is no such user.\n", 1)


def test_password_is_no_option(app, run):
    """Other users of the machine could read it there."""
    output, code = run("create", *GIVEN, "--password", PASSWORD[::-1])
    assert (code, output.startswith("Usage: ")) == (2, True)
    assert stored(app) is None
