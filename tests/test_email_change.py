"""A new e-mail address, proven by a code; a new username."""

import re
from datetime import timedelta
from types import SimpleNamespace

import pytest
from helpers import (
    NEW_PASSWORD,
    PASSWORD,
    assert_ended,
    change_password,
    choose,
    execute,
    failure,
    forgot,
    login,
    on_both,
    race,
    register,
    rows,
    set_user,
    stored,
    success,
    verify,
)
from sqlalchemy import delete, update

from core.clock import parse_rfc3339
from extensions import components
from models import Event, OutboxMail, PendingEmail, User

OLD = "student@example.org"
NEW = "new@example.org"
NOTHING = {"pendingEmail": "", "pendingUntil": None}


@pytest.fixture
def user(make_user, clock):
    return make_user(email_verified_at=clock.utcnow())


@pytest.fixture
def auth(user, log_in):
    """Its address is verified, other than that of the usual user."""
    return SimpleNamespace(user=user, **vars(log_in(user)))


@pytest.fixture
def ask(app, auth):
    def ask(new=NEW, password=PASSWORD, headers=None, app=app):
        body = {"newEmail": new, "password": password}
        headers = headers or auth.headers
        return app.test_client().post("/api/users/email", json=body, headers=headers)

    return ask


@pytest.fixture
def confirm(app, auth):
    def confirm(code, headers=None, app=app):
        body, headers = {"code": code}, headers or auth.headers
        return app.test_client().post("/api/users/email/confirm", json=body, headers=headers)

    return confirm


@pytest.fixture
def ask_code(ask, outbox):
    """Ask for another address; return the code that it was sent."""

    def ask_code(new=NEW, headers=None):
        success(ask(new, headers=headers))
        (mail,) = (mail for mail in outbox.deliver() if mail["To"] == new)
        return code_in(mail)

    return ask_code


@pytest.fixture
def state(client, auth):
    return lambda: success(client.get("/api/users/email", headers=auth.headers))


@pytest.fixture
def rename(app, auth):
    def rename(username, app=app):
        body = {"username": username, "password": PASSWORD}
        return app.test_client().put("/api/users/username", json=body, headers=auth.headers)

    return rename


def code_in(mail):
    (code,) = re.findall("^[0-9A-Z]{4}-[0-9A-Z]{4}$", mail.get_body(("plain",)).get_content(), re.M)
    return code


def wrong(code):
    return code[:-1] + ("0" if code[-1] != "0" else "2")


def kinds(mails):
    return [(str(mail["Subject"]), str(mail["To"])) for mail in mails]


# The change


def test_address_changes_with_the_code_that_was_sent_to_it(
    app, client, auth, log_in, ask, confirm, state, outbox, clock, admin
):
    other = log_in(auth.user)
    data = success(ask("New@Example.org"))
    left = parse_rfc3339(data["pendingUntil"]) - clock.utcnow()
    assert timedelta(hours=23, minutes=59) < left <= timedelta(hours=24)
    assert data == {"pendingEmail": NEW, "pendingUntil": data["pendingUntil"]}
    assert state() == {"email": OLD, "emailVerified": True, **data}
    assert outbox.waiting() == [("email_change_code", NEW)]
    success(verify(client, other))
    success(login(client, OLD))
    failure(login(client, NEW), 401, "invalid_credentials")

    code = code_in(*outbox.deliver())
    assert code.replace("-", "") not in str(rows(app, PendingEmail)).replace("-", "").upper()
    assert success(confirm(code)) == {"email": NEW}
    assert state() == {"email": NEW, "emailVerified": True, **NOTHING}
    assert_ended(client, other)
    profile = success(client.get("/api/users/profile", headers=auth.headers))
    assert (profile["email"], profile["emailVerified"]) == (NEW, True)
    failure(login(client, OLD), 401, "invalid_credentials")
    success(login(client, NEW))
    for search, total in ((NEW, 1), (OLD, 0)):
        found = client.get(f"/api/users?search={search}", headers=admin.headers)
        assert success(found)["total"] == total
    (notice,) = outbox.deliver()
    assert kinds([notice]) == [("Your e-mail address was changed", OLD)]
    assert "#token=" not in notice.as_string()
    assert rows(app, PendingEmail) == []


def test_unverified_address_becomes_a_verified_one_and_the_old_one_gets_no_notice(
    app, auth, ask_code, confirm, state, outbox
):
    set_user(app, auth.user, email_verified_at=None)
    success(confirm(ask_code()))
    assert state() == {"email": NEW, "emailVerified": True, **NOTHING}
    assert outbox.waiting() == []


def test_wrong_password_reveals_and_changes_nothing(ask, state, make_user, make_app, outbox):
    make_user("other")
    app = make_app(registration_domains=("school.example",))
    for new in (NEW, "other@example.org", OLD):
        found = failure(ask(new, "wrong", app=app), 400, "wrong_password")
        assert found.keys() == {"password"}
    assert state()["pendingEmail"] == ""
    assert outbox.waiting() == []


@pytest.mark.parametrize("taken", ["Other@example.org", OLD])
def test_taken_address_is_refused_also_the_own_one(ask, state, make_user, outbox, taken):
    make_user("other")
    assert failure(ask(taken), 409, "email_taken").keys() == {"newEmail"}
    assert state()["pendingEmail"] == ""
    assert outbox.waiting() == []


def test_new_address_obeys_the_list_of_domains(make_app, ask):
    app = make_app(registration_domains=("school.example",))
    for new in (NEW, "a@b@school.example"):
        assert failure(ask(new, app=app), 400, "invalid_request").keys() == {"newEmail"}
    success(ask("me@school.example", app=app))


@on_both
def test_later_request_replaces_the_earlier_one(app, ask, ask_code, confirm, outbox):
    success(ask("unsent@example.org"))
    first = ask_code("first@example.org")
    second = ask_code("second@example.org")
    failure(confirm(first), 400, "wrong_code")
    assert success(confirm(second)) == {"email": "second@example.org"}
    told = [str(mail["To"]) for mail in outbox.delivered]
    assert told == ["first@example.org", "second@example.org"]


def test_dropped_change_cannot_be_confirmed(client, auth, ask_code, confirm, state):
    code = ask_code()
    for _ in range(2):
        assert success(client.delete("/api/users/email", headers=auth.headers)) == {}
    assert state() == {"email": OLD, "emailVerified": True, **NOTHING}
    failure(confirm(code), 400, "invalid_token")


@pytest.mark.parametrize("way", ["change", "reset"])
def test_new_password_allows_no_address_that_the_old_one_asked_for(
    client, auth, ask_code, confirm, outbox, log_in, way
):
    code = ask_code()
    if way == "change":
        success(change_password(client, auth))
    else:
        success(forgot(client, OLD))
        success(choose(client, outbox.deliver_token()))
    auth.user.password = NEW_PASSWORD
    failure(confirm(code, log_in(auth.user).headers), 400, "invalid_token")


def test_change_ends_after_a_day(client, ask_code, confirm, log_in, auth, clock):
    code = ask_code()
    clock.move(hours=24)
    headers = log_in(auth.user).headers
    pending = success(client.get("/api/users/email", headers=headers))
    assert pending == {"email": OLD, "emailVerified": True, **NOTHING}
    failure(confirm(code, headers), 400, "invalid_token")


@on_both
def test_fifth_try_may_be_right_and_the_sixth_never_is(ask_code, confirm, state):
    code = ask_code()
    for _ in range(5):
        assert failure(confirm(wrong(code)), 400, "wrong_code").keys() == {"code"}
    failure(confirm(code), 400, "invalid_token")
    assert (state()["email"], state()["pendingEmail"]) == (OLD, "")
    code = ask_code()
    for _ in range(4):
        failure(confirm(wrong(code)), 400, "wrong_code")
    success(confirm(code.lower().replace("-", " ")))


@pytest.mark.asvs("6.6.3")
@on_both
def test_parallel_wrong_codes_are_all_counted(app, ask_code, confirm):
    code = ask_code()
    statuses = race(lambda n: confirm(wrong(code)).get_json()["error"]["code"])
    assert statuses.count("wrong_code") == 5
    assert statuses.count("invalid_token") == len(statuses) - 5
    failure(confirm(code), 400, "invalid_token")


def test_code_of_another_user_is_wrong(make_user, log_in, ask_code, confirm):
    other = log_in(make_user("other")).headers
    code = ask_code()
    ask_code(headers=other)
    failure(confirm(code, other), 400, "wrong_code")


def test_code_made_with_an_older_key_is_accepted(make_app, ask_code, confirm):
    code = ask_code()
    secret = components(make_app()).settings.secret_key
    new = "another key for the tests, just as long"
    success(confirm(code, app=make_app(secret_key=new, secret_key_fallbacks=(secret,))))


def test_links_for_the_old_address_die_with_it(app, client, ask_code, confirm, outbox, clock):
    success(forgot(client, OLD))
    token = outbox.deliver_token()
    success(forgot(client, OLD))
    success(client.post("/api/auth/resend-verification", json={"email": OLD}))
    later = clock.utcnow() + timedelta(hours=1)
    execute(app, update(OutboxMail).values(due_at=later))  # they wait until after the change
    success(confirm(ask_code()))
    assert outbox.waiting() == [("email_changed", OLD)]
    failure(choose(client, token), 400, "invalid_token")


def test_waiting_notices_still_go_to_the_old_address(ask_code, confirm, rename, outbox):
    code = ask_code()
    success(rename("renamed"))
    success(confirm(code))
    assert outbox.waiting() == [("username_changed", OLD), ("email_changed", OLD)]


# What happens meanwhile


def test_session_that_ends_during_the_hash_asks_for_nothing(
    app, client, auth, ask, during_the_hash
):
    during_the_hash(lambda: client.post("/api/auth/logout", headers=auth.headers))
    failure(ask(), 401, "token_revoked")
    assert rows(app, PendingEmail) == []


@pytest.fixture
def while_compared(monkeypatch):
    """Let something happen while a code is compared, which turns out right."""

    def while_compared(act):
        def compare(*_):
            act()
            return True

        monkeypatch.setattr("core.codes.is_email_code", compare)

    return while_compared


def test_session_that_ends_while_the_code_is_compared_changes_no_address(
    app, client, auth, ask_code, confirm, outbox, while_compared
):
    code = ask_code()
    while_compared(lambda: client.post("/api/auth/logout", headers=auth.headers))
    failure(confirm(code), 401, "token_revoked")
    assert (stored(app, auth.user).email, outbox.waiting()) == (OLD, [])


def test_account_that_changes_while_the_code_is_compared_keeps_its_address(
    app, auth, ask_code, confirm, outbox, while_compared
):
    code = ask_code()
    version = {"password_version": User.password_version + 1}
    while_compared(lambda: set_user(app, auth.user, email="moved@example.org", **version))
    failure(confirm(code), 400, "invalid_token")
    assert (stored(app, auth.user).email, outbox.waiting()) == ("moved@example.org", [])


def test_address_whose_code_was_not_seen_is_never_confirmed(
    app, auth, ask, ask_code, confirm, while_compared
):
    code = ask_code("seen@example.org")
    while_compared(lambda: success(ask("unseen@example.org")))
    failure(confirm(code), 400, "invalid_token")
    assert stored(app, auth.user).email == OLD
    assert rows(app, PendingEmail)[0].new_email == "unseen@example.org"


@on_both
def test_address_that_is_taken_meanwhile_stays_with_its_account(
    app, client, auth, ask_code, confirm, outbox
):
    code = ask_code()
    success(register(client, email=NEW), 201)
    waiting = outbox.waiting()
    assert failure(confirm(code), 409, "email_taken").keys() == {"code"}
    assert stored(app, auth.user).email == OLD
    assert outbox.waiting() == waiting
    success(verify(client, auth))


@on_both
def test_of_many_uses_of_one_code_one_wins(app, client, auth, ask_code, confirm, outbox):
    code = ask_code()
    statuses = race(lambda _: confirm(code).status_code)
    assert statuses.count(200) == 1
    assert set(statuses) == {200, 400}
    assert outbox.waiting() == [("email_changed", OLD)]
    success(verify(client, auth))


@on_both
def test_of_two_users_who_prove_one_address_one_gets_it(app, make_user, log_in, ask_code, confirm):
    users = [make_user(f"user{number}") for number in range(8)]
    sessions = [log_in(user).headers for user in users]
    codes = [ask_code(headers=headers) for headers in sessions]
    statuses = race(lambda n: confirm(codes[n], sessions[n]).status_code, 8)
    assert sorted(statuses) == [200] + [409] * 7
    (row,) = rows(app, User, email=NEW)
    assert row.id == users[statuses.index(200)].id


# The username


def test_new_username_shows_everywhere_at_once(client, auth, rename, outbox, admin):
    success(forgot(client, OLD))
    success(forgot(client, "student"))  # which would go to the next one with this name
    data = success(rename("Renamed"))
    assert data == success(client.get("/api/users/profile", headers=auth.headers))
    assert (data["username"], data["email"]) == ("Renamed", OLD)
    public = success(client.get(f"/api/users/{auth.user.id}", headers=admin.headers))
    assert public["username"] == "Renamed"
    for query, total in (("search=renamed", 1), ("username=RENAMED", 1), ("username=student", 0)):
        assert success(client.get(f"/api/users?{query}", headers=admin.headers))["total"] == total
    assert outbox.waiting() == [("password_reset", OLD), ("username_changed", OLD)]
    success(register(client, "student", email="second@example.org"), 201)


@on_both
def test_taken_username_is_refused_in_any_case(client, auth, rename, make_user, outbox):
    make_user("other")
    assert failure(rename("OTHER"), 409, "username_taken").keys() == {"username"}
    assert failure(rename("a b"), 400, "invalid_request").keys() == {"username"}
    assert success(client.get("/api/users/profile", headers=auth.headers))["username"] == "student"
    assert outbox.waiting() == []


def test_other_case_of_the_own_name_is_a_change_and_the_same_name_is_none(rename, outbox):
    assert success(rename(" student "))["username"] == "student"
    assert outbox.waiting() == []
    assert success(rename("STUDENT"))["username"] == "STUDENT"
    assert outbox.waiting() == [("username_changed", OLD)]


# flask users set-email


def test_command_sets_an_address_and_ends_all_sessions(app, client, auth, ask, run, outbox):
    success(ask())
    success(forgot(client, OLD))
    printed, status = run("users", "set-email", "student", "Back@example.org")
    assert status == 0
    assert printed.endswith("student has the e-mail address back@example.org.\n")
    row = stored(app, auth.user)
    assert (row.email, row.search_key.split("\n")[3]) == ("back@example.org",) * 2
    assert row.email_verified_at
    assert_ended(client, auth)
    success(login(client, "back@example.org"))
    assert rows(app, PendingEmail) == []
    assert outbox.waiting() == [("email_change_code", NEW)]
    assert outbox.deliver() == []


def test_command_with_the_address_that_is_there_vouches_for_it_and_ends_nothing(
    app, client, auth, run
):
    set_user(app, auth.user, email_verified_at=None)
    for events in (["email_verified"], []):
        execute(app, delete(Event))
        assert run("users", "set-email", "student", OLD.upper())[1] == 0
        assert stored(app, auth.user).email_verified_at
        success(verify(client, auth.access))
        assert [event.type for event in rows(app, Event)] == events


def test_command_also_ends_the_password_that_a_hijacker_knows(app, client, auth, run, outbox):
    assert run("users", "set-email", "student", NEW, "--replace-password")[1] == 0
    failure(login(client, NEW), 401, "invalid_credentials")
    assert_ended(client, auth)
    success(forgot(client, NEW))
    success(choose(client, outbox.deliver_token()))
    success(login(client, NEW, NEW_PASSWORD))


@on_both
def test_command_refuses_what_is_taken_unknown_or_malformed(app, auth, make_user, run):
    make_user("other")
    printed, status = run("users", "set-email", "student", "other@example.org")
    assert (status, "already exists" in printed) == (1, True)
    assert run("users", "set-email", "nobody", NEW)[1] == 1
    assert run("users", "set-email", "student", "no address")[1] == 2
    assert stored(app, auth.user).email == OLD
