"""How often is too often: for a client IP, for an account, and for the mails to one."""

import inspect
import re
import sqlite3
from datetime import timedelta

import pytest
from endpoints import API, UNKNOWN_ID
from helpers import (
    NEW_PASSWORD,
    PASSWORD,
    Log,
    bearer,
    change_password,
    choose,
    connections_held,
    delete_account,
    execute,
    failure,
    forgot,
    login,
    on_both,
    on_both_slowly,
    race,
    refresh,
    register,
    registration,
    rows,
    set_user,
    statements_of,
    success,
    verify,
)
from sqlalchemy import delete, event, update
from sqlalchemy.exc import OperationalError, TimeoutError

from core.passwords import Hasher, HasherBusy
from counting import locked_until
from database import WriteQueueFull, transaction
from errors import InvalidCredentials, TooManyRequests, WrongAccessCode, WrongCode, WrongPassword
from extensions import db
from models import Counter, Event, User, UserSession
from web.limits import GUESSES, By

LIMITED = {
    str(endpoint): endpoint.operation.limits for endpoint in API if endpoint.operation.limits
}
OTHER_IP = {"REMOTE_ADDR": "198.51.100.9"}


@pytest.fixture
def limited(make_app):
    """The application with its limits on."""
    return make_app(ratelimit_enabled=True)


@pytest.fixture
def client(limited):
    return limited.test_client()


@pytest.fixture
def log_in_with(client):
    """Try a password for an address; return the response."""

    def log_in_with(password, email="student@example.org", **options):
        body = {"email": email, "password": password}
        return client.post("/api/auth/login", json=body, **options)

    return log_in_with


def refused(response, seconds):
    """Assert a 429 that says to wait for about so long."""
    failure(response, 429, "too_many_requests")
    # The window began with the first call, and a busy machine takes a while for many.
    assert seconds / 2 <= int(response.headers["Retry-After"]) <= seconds
    return True


def fails_with(error):
    def fail(*_):
        raise error

    return fail


def counters(app):
    return rows(app, Counter)


def count_up(app, part_of_key, to):
    """Set the counters of a limit, as if so many calls had come."""
    with app.app_context(), transaction() as session:
        counted = update(Counter).where(Counter.key.contains(part_of_key))
        assert session.execute(counted.values(hits=to)).rowcount == 1


REGISTER, LOGIN = "POST /api/auth/register", "POST /api/auth/login"
CHANGE, RENAME = "PUT /api/users/password", "PUT /api/users/username"
EMAIL, CONFIRM = "POST /api/users/email", "POST /api/users/email/confirm"
CREATE, LINK = "POST /api/users", "POST /api/users/<uuid:user_id>/access-link"
EXPORT, VERIFY = "GET /api/users/<uuid:user_id>/export", "/api/auth/verify-email"
SIGN_IN = "POST /api/auth/applications/codes"
BOTH = By.CALLER | By.NEW_EMAIL
FORGOT, RESEND = "POST /api/auth/forgot-password", "POST /api/auth/resend-verification"
NEWCOMER = registration()
NEW_ACCOUNT = {name: value for name, value in NEWCOMER.items() if name != "password"}
NOBODY = {"email": "nobody@example.org"}
WRONG = {**NOBODY, "password": "wrong"}
NO_TOKEN = {"token": "x", "newPassword": PASSWORD}
RIGHT = {"currentPassword": PASSWORD, "newPassword": PASSWORD}
NEW_ADDRESS = {"newEmail": "new@example.org", "password": PASSWORD}
TAKEN_ADDRESS = {**NEW_ADDRESS, "newEmail": "student@example.org"}
WRONGLY_ASKED = {**NEW_ADDRESS, "password": "wrong"}
TO_NOBODY = {"account": "nobody", "deliver": "link"}
NEW_NAME = {"username": "renamed", "password": PASSWORD}
TAKEN, WEAK = {"username": "student"}, {"newPassword": "password1"}
SECONDS = {"minute": 60, "15 minutes": 900, "hour": 3600, "day": 86_400}
NO_PEOPLE = {"people": [{}]}
# By limit: whose calls are counted together, an endpoint, the body of a call that counts, and what
# makes it one that does not. An account is named in the path, by its id.
STORIES = {
    "calls of register": (By.IP, REGISTER, {**NEWCOMER, **TAKEN}, {"username": "x"}),
    "wrong passwords for an account": (By.ACCOUNT | By.IP, LOGIN, WRONG, {"password": 7}),
    "wrong passwords from all client IPs": (By.ACCOUNT, LOGIN, WRONG, {"password": 7}),
    "logins": (By.IP, LOGIN, WRONG, {"password": 7}),
    "password resets": (By.IP, "POST /api/auth/reset-password", NO_TOKEN, {"token": 7}),
    "requests for reset mails": (By.IP, FORGOT, NOBODY, {"email": 7}),
    "requests for verification mails": (By.IP, RESEND, NOBODY, {"email": 7}),
    "accounts made by an admin or key": (By.CALLER, CREATE, {**NEW_ACCOUNT, **TAKEN}, {"role": 7}),
    "lists of people": (By.CALLER, "POST /api/users/lists", NO_PEOPLE, {"people": 7}),
    "access links made by an admin or teacher": (By.CALLER, LINK, TO_NOBODY, {"deliver": 7}),
    "exports of a user's data": (By.CALLER, "GET /api/users/export", {}, {}),
    "exports of others' data": (By.CALLER, EXPORT, {"account": "student"}, {}),
    "checks of certificates": (By.IP, "GET /api/certificates/<id:code>", {}, {}),
    "calls with a current password": (By.SESSION, CHANGE, {**RIGHT, **WEAK}, {"newPassword": 7}),
    "requests to change the e-mail address": (By.CALLER, EMAIL, TAKEN_ADDRESS, {"password": 7}),
    "codes from a user to an address": (BOTH, EMAIL, WRONGLY_ASKED, {"password": 7}),
    "codes to an e-mail address": (By.NEW_EMAIL, EMAIL, NEW_ADDRESS, {"password": 7}),
    "codes that a user tries": (By.CALLER, CONFIRM, {"code": "x"}, {"code": 7}),
    "sign-ins to applications": (By.CALLER, SIGN_IN, {"request": "x"}, {"request": 7}),
    "changes of a username": (By.CALLER, RENAME, {**NEW_NAME, **TAKEN}, {"username": 7}),
}


def test_every_limit_has_a_story():
    names = {limit.name for limits in LIMITED.values() for limit in limits}
    assert names - STORIES.keys() == {"returns from a provider"}  # test_providers has it


@pytest.fixture
def call(app, limited, make_user, make_key, log_in):
    """Call an endpoint as one of two users of its kind, with a fresh token of one session each."""
    ids = {"student": make_user().id, "nobody": UNKNOWN_ID, None: ""}
    keys = [make_key("users:read", "users:write") for _ in range(2)]
    users = {
        role: [make_user(f"{role}{number}", role=role) for number in range(2)]
        for role in ("student", "admin")
    }
    opened = {}

    def call(endpoint, body, caller=0, **options):
        operation = next(each.operation for each in API if str(each) == endpoint)
        if operation.scopes:
            options["headers"] = bearer(keys[caller])
        elif operation.role:
            user = users[operation.role][caller]
            token = opened.get(user.id) or log_in(user).refresh
            tokens = success(refresh(limited.test_client(), token))
            opened[user.id] = tokens["refreshToken"]
            options["headers"] = bearer(tokens["accessToken"])
        execute(app, delete(User).where(User.username == NEWCOMER["username"]))
        body = dict(body)
        method, _, rule = endpoint.partition(" ")
        path = rule.replace("<uuid:user_id>", ids[body.pop("account", None)])
        return limited.test_client().open(path, method=method, json=body, **options)

    return call


@pytest.mark.parametrize("things", STORIES)
def test_call_after_the_last_one_is_refused(limited, call, clock, things):
    together, endpoint, counted, uncounted = STORIES[things]
    (limit,) = (limit for limit in LIMITED[endpoint] if limit.name == things)
    window = SECONDS[limit.window]

    def is_refused(body=counted, **options):
        return call(endpoint, body, **options).status_code == 429

    with limited.app_context():
        last = limit.allowed
    assert not is_refused()
    count_up(limited, f"/{things}/", to=last - 1)
    if uncounted:
        assert not is_refused({**counted, **uncounted})
    assert not is_refused()
    assert refused(call(endpoint, counted), window)
    # Others are not refused.
    assert is_refused(environ_overrides=OTHER_IP) is (By.IP not in together)
    for field, by in (("email", By.ACCOUNT), ("newEmail", By.NEW_EMAIL)):
        if field in counted:
            other = {**counted, field: "other@example.org"}
            assert is_refused(other) is (by not in together)
    if together & (By.CALLER | By.SESSION | By.NEW_EMAIL):
        assert is_refused(caller=1) is (together == By.NEW_EMAIL)
    clock.move(seconds=window + 1)
    assert not is_refused()


@on_both_slowly
def test_own_names_are_changed_twenty_times_a_day(
    limited, client, make_user, make_key, log_in, clock
):
    user, key = make_user(role="admin"), bearer(make_key("users:write"))

    def change(path="profile", call=client.put, **fields):
        return call(f"/api/users/{path}", json=fields, headers=log_in(user).headers)

    for number in range(19):
        success(change(firstName=f"Name {number}"))
    success(change(firstName="Name 18", bio="As it was."))
    success(change(user.id, client.patch, lastName="Last one"))
    assert refused(change(firstName="Other", bio="Another."), 86_400)
    assert refused(change(user.id, client.patch, firstName="Other", username="other"), 86_400)
    assert len(rows(limited, Event, type="names_changed")) == 20
    saved = success(change(website="https://school.example"))
    assert (saved["bio"], saved["username"]) == ("As it was.", user.username)
    pupil = f"/api/users/{make_user('pupil').id}"
    for number in range(21):  # others change them as often as they must
        success(client.patch(pupil, json={"firstName": f"Name {number}"}, headers=key))
    clock.move(hours=24, seconds=1)
    success(change(firstName="Other"))


def test_a_school_can_have_other_limits_by_client_ip(make_app):
    settings = {"logins_per_minute": 3, "registrations_per_hour": 1}
    client = make_app(ratelimit_enabled=True, **settings).test_client()
    statuses = [login(client, f"user{number}@example.org").status_code for number in range(4)]
    assert statuses == [401, 401, 401, 429]
    success(register(client, "one"), 201)
    refused(register(client, "two"), 3600)


@pytest.mark.asvs("6.3.1")
@pytest.mark.parametrize("known", [True, False])
@on_both
def test_ten_wrong_passwords_from_one_client_ip_lock_the_account_for_that_ip(
    make_user, log_in_with, known, clock
):
    if known:
        make_user()
    spellings = ["student@example.org", "Student@Example.ORG", " student@example.org "]
    for number in range(10):
        failure(log_in_with("wrong", spellings[number % 3]), 401, "invalid_credentials")
        clock.move(seconds=1)
    for password in ("wrong", PASSWORD):
        assert refused(log_in_with(password), 15 * 60 - 10)
    # Nobody else is locked out: another account there, this one elsewhere.
    failure(log_in_with("wrong", "other@example.org"), 401, "invalid_credentials")
    elsewhere = log_in_with(PASSWORD, environ_overrides=OTHER_IP)
    assert elsewhere.status_code == (200 if known else 401)
    # What was refused does not make it longer.
    clock.move(seconds=15 * 60 - 9)
    assert log_in_with(PASSWORD).status_code == (200 if known else 401)


@on_both
def test_the_right_password_clears_the_count_of_its_client_ip(limited, make_user, log_in_with):
    make_user()
    for _ in range(2):
        for _ in range(9):
            failure(log_in_with("wrong"), 401, "invalid_credentials")
        success(log_in_with(PASSWORD))
    hits = {row.key.split("/")[1]: row.hits for row in counters(limited)}
    assert hits == {"wrong passwords from all client IPs": 18, "logins": 20}


@on_both
def test_a_guess_is_taken_back_only_from_the_window_that_counted_it(
    limited, make_user, log_in_with, clock, during_the_hash
):
    def begin_a_window():
        clock.move(minutes=61)
        failure(log_in_with("wrong"), 401, "invalid_credentials")

    make_user(is_active=False)
    during_the_hash(begin_a_window)
    failure(log_in_with(PASSWORD), 403, "account_inactive")
    assert [row.hits for row in counters(limited) if "/wrong passwords" in row.key] == [1, 1]


def test_a_right_password_is_no_wrong_one_if_the_account_changes_meanwhile(
    limited, client, make_user, log_in_with, during_the_hash
):
    user = make_user()
    token = success(log_in_with(PASSWORD))["accessToken"]
    during_the_hash(lambda: set_user(limited, user, password_version=9))
    failure(change_password(client, token), 400, "wrong_password")
    assert {row.hits for row in counters(limited) if "/wrong passwords" in row.key} == {0}


def test_a_reset_password_clears_it_too(client, make_user, log_in_with, outbox):
    make_user()
    for options in ({}, {"environ_overrides": OTHER_IP}):
        for _ in range(10):
            failure(log_in_with("wrong", **options), 401, "invalid_credentials")
    assert refused(log_in_with(PASSWORD), 15 * 60)
    success(forgot(client, "student@example.org"))
    success(choose(client, outbox.deliver_token()))
    success(log_in_with(NEW_PASSWORD))
    # Other clients that guessed at it still have to wait.
    assert refused(log_in_with("wrong", environ_overrides=OTHER_IP), 15 * 60)


def test_a_right_password_that_does_not_open_the_account_counts_for_right(
    make_app, make_user, limited
):
    make_user("sleeper", is_active=False)
    make_user("stranger")
    client = make_app(ratelimit_enabled=True, require_verified_email=True).test_client()
    for _ in range(12):
        for name, code in (("sleeper", "account_inactive"), ("stranger", "email_unverified")):
            failure(login(client, f"{name}@example.org"), 403, code)


@pytest.mark.parametrize(("fault", "status"), [(ZeroDivisionError, 500), (HasherBusy, 503)])
def test_a_fault_is_neither_a_wrong_password_nor_a_right_one(
    make_user, log_in_with, monkeypatch, fault, status
):
    make_user()
    for _ in range(9):
        failure(log_in_with("wrong"), 401, "invalid_credentials")
    with monkeypatch.context() as broken:
        broken.setattr(Hasher, "verify", fails_with(fault))
        for _ in range(3):
            assert log_in_with(PASSWORD).status_code == status
    failure(log_in_with("wrong"), 401, "invalid_credentials")
    assert refused(log_in_with(PASSWORD), 15 * 60)


def test_what_comes_after_a_right_password_clears_no_count(client, make_user, log_in_with):
    """A refusal that nobody thought of must not let anybody guess for ever."""
    make_user()
    make_user("other")
    token = success(log_in_with(PASSWORD))["accessToken"]
    for _ in range(9):
        failure(change_password(client, token, "wrong"), 400, "wrong_password")
    for _ in range(2):
        failure(change_password(client, token, new="password1"), 400, "weak_password")
        body = {"newEmail": "other@example.org", "password": PASSWORD}
        taken = client.post("/api/users/email", json=body, headers=bearer(token))
        failure(taken, 409, "email_taken")
    failure(change_password(client, token, "wrong"), 400, "wrong_password")
    assert refused(change_password(client, token), 15 * 60)


@on_both
def test_parallel_calls_to_two_machines_do_not_slip_through(make_app, make_user, limited, outbox):
    user = make_user()
    clients = [app.test_client() for app in (limited, make_app(ratelimit_enabled=True))]
    statuses = race(lambda n: login(clients[n % 2], user, "wrong").status_code, 30)
    assert sorted(statuses) == [401] * 10 + [429] * 20
    # Only those that passed are counted.
    assert {row.hits for row in counters(limited)} == {10}
    race(lambda n: success(forgot(clients[n % 2], user.email)), 8)
    assert len(outbox.waiting()) == 3


@on_both
def test_a_guess_is_counted_before_the_hash_and_holds_no_connection_then(
    limited, make_user, log_in_with, monkeypatch, during_the_hash
):
    make_user()
    seen = []

    def look():
        seen.append([row.hits for row in counters(limited) if "/wrong passwords" in row.key])

    held = connections_held(limited, monkeypatch, Hasher, "verify")
    during_the_hash(look)
    failure(log_in_with("wrong"), 401, "invalid_credentials")
    assert seen == [[1, 1]]
    assert held == [0]


def test_wrong_current_passwords_count_like_failed_logins(client, make_user, log_in_with, clock):
    make_user()
    token = success(log_in_with(PASSWORD))["accessToken"]
    for _ in range(5):
        failure(change_password(client, token, "wrong"), 400, "wrong_password")
        failure(delete_account(client, token, password="wrong"), 400, "wrong_password")
    assert refused(change_password(client, token), 15 * 60)
    assert refused(delete_account(client, token), 15 * 60)
    assert refused(log_in_with(PASSWORD), 15 * 60)
    success(verify(client, token))
    clock.move(minutes=15, seconds=1)
    token = success(log_in_with(PASSWORD))["accessToken"]
    success(change_password(client, token))


def test_wrong_passwords_for_a_confirmation_count_like_failed_logins(
    client, make_user, log_in_with, outbox
):
    make_user()
    success(client.post(RESEND.split()[1], json={"email": "student@example.org"}))
    body = {"token": outbox.deliver_token(), "password": "wrong"}
    for _ in range(9):
        failure(client.post(VERIFY, json=body), 400, "wrong_password")
    failure(log_in_with("wrong"), 401, "invalid_credentials")
    right = {**body, "password": PASSWORD}
    assert refused(client.post(VERIFY, json=right), 15 * 60)
    success(client.post(VERIFY, json=right, environ_overrides=OTHER_IP))


def test_neither_strangers_nor_a_thief_of_a_session_keep_its_user_from_a_new_password(
    limited, client, make_user, log_in, log_in_with
):
    user = make_user()
    thief, owner = log_in(user), log_in(user)
    failure(change_password(client, thief, "wrong"), 400, "wrong_password")
    count_up(limited, "/calls with a current password/", to=20)
    assert refused(change_password(client, thief), 3600)
    log_in_with("wrong", environ_overrides=OTHER_IP)
    count_up(limited, "/wrong passwords from all client IPs/", to=100)
    assert refused(log_in_with(PASSWORD), 3600)
    success(change_password(client, owner))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("192.0.2.1", "192.0.2.2", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("fe80::1%eth0", "fe80::1%eth1", True),
        # Some proxies add a port.
        ("192.0.2.1:4000", "192.0.2.1:4001", True),
        ("[2001:db8::1]:4000", "2001:db8::1", True),
        ("", "unix:", True),
    ],
)
def test_one_client_is_an_ipv4_address_or_64_bits_of_ipv6(limited, log_in_with, one, other, same):
    log_in_with("wrong", environ_overrides={"REMOTE_ADDR": one})
    count_up(limited, "/wrong passwords for an account/", to=10)
    response = log_in_with("wrong", environ_overrides={"REMOTE_ADDR": other})
    assert response.status_code == (429 if same else 401)


@pytest.mark.parametrize("email", ["", "\u0000", "a" * 1024])
def test_no_text_in_place_of_an_address_evades_the_count(limited, log_in_with, email):
    failure(log_in_with("wrong", email), 401, "invalid_credentials")
    count_up(limited, "/wrong passwords for an account/", to=10)
    assert refused(log_in_with("wrong", email), 15 * 60)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/api/auth/forgot-password", "password_reset"),
        ("/api/auth/resend-verification", "email_verification"),
    ],
)
@on_both
def test_three_mails_of_a_kind_an_hour(client, make_user, outbox, clock, path, kind):
    make_user()

    def ask(email="student@example.org", **options):
        response = client.post(path, json={"email": email}, **options)
        return response.status_code, response.get_json(), dict(response.headers).keys()

    first = ask()
    assert first[0] == 200
    for _ in range(5):
        assert ask("Student@Example.org", environ_overrides=OTHER_IP) == first
        assert ask("nobody@example.org") == first
    waiting = outbox.waiting()
    for email in ("student@example.org", "nobody@example.org"):
        assert waiting.count((kind, email)) == 3
    if kind == "password_reset":
        assert ask("student") == first  # the username, of the same account
        assert outbox.waiting() == waiting
    clock.move(minutes=61)
    assert ask() == first
    assert outbox.waiting().count((kind, "student@example.org")) == 4


def test_the_mail_of_a_registration_is_one_of_the_three(limited, client, outbox):
    for number in range(2):
        success(register(client), 201)
        success(client.post(RESEND.split()[1], json={"email": "newcomer@example.org"}))
        assert len(outbox.waiting()) == 2 + number
        execute(limited, delete(User))
    success(register(client), 201)  # without a mail
    assert len(outbox.waiting()) == 3


def test_counters_name_nobody(limited, client, log_in_with):
    log_in_with("wrong", environ_overrides={"REMOTE_ADDR": "2001:db8:1:2::1"})
    forgot(client, "student@example.org")
    rows = counters(limited)
    assert len(rows) == 5
    for row in rows:
        assert re.fullmatch(r"([0-9a-f]{32})?/[a-zIP -]+/[0-9a-f]{32}", row.key)


def test_another_secret_counts_anew(make_app, log_in_with):
    for _ in range(10):
        log_in_with("wrong")
    other = make_app(ratelimit_enabled=True, secret_key="another secret " * 3).test_client()
    failure(login(other, "student@example.org", "wrong"), 401, "invalid_credentials")


@on_both
def test_refusing_writes_nothing(limited, log_in_with):
    log_in_with("wrong")
    count_up(limited, "/wrong passwords for an account/", to=10)
    count_up(limited, "/wrong passwords from all client IPs/", to=100)
    before = counters(limited)
    with statements_of(limited) as statements:
        for options in ({}, {"environ_overrides": OTHER_IP}):
            failure(log_in_with("wrong", **options), 429, "too_many_requests")
    # No more reads than there are limits.
    assert 0 < len(statements) <= 2 * len(LIMITED["POST /api/auth/login"])
    assert all(statement.startswith("SELECT") for statement in statements)
    assert counters(limited) == before


def test_a_count_that_cannot_be_taken_back_changes_no_refusal(
    limited, client, make_user, log_in_with, monkeypatch, caplog
):
    make_user()
    token = success(log_in_with(PASSWORD))["accessToken"]
    monkeypatch.setattr("database.change", fails_with(ZeroDivisionError))
    failure(change_password(client, token, new="password1"), 400, "weak_password")
    (found,) = (record for record in caplog.records if record.name == "accounts.limits")
    assert found.exc_info[0] is ZeroDivisionError
    # What an act changes is a part of it.
    failure(log_in_with(PASSWORD), 500, "internal_error")
    assert len(rows(limited, UserSession)) == 1


def test_a_login_commits_twice(limited, make_user, log_in_with):
    make_user()
    for _ in range(3):
        log_in_with("wrong")
    sent = []

    def trace(connection, *_):
        connection.set_trace_callback(sent.append)

    with limited.app_context():
        pool = db.engine.pool
    event.listen(pool, "checkout", trace)
    success(log_in_with(PASSWORD))
    event.remove(pool, "checkout", trace)
    words = [statement.split()[0] for statement in sent]
    assert [word for word in words if word in ("BEGIN", "COMMIT")] == ["BEGIN", "COMMIT"] * 2
    # Nothing is written outside of the two.
    outside = words[words.index("COMMIT") : words.index("BEGIN", words.index("COMMIT"))]
    outside += words[: words.index("BEGIN")] + words[-words[::-1].index("COMMIT") - 1 :]
    assert {*outside} <= {"PRAGMA", "SELECT", "COMMIT"}
    assert [each.type for each in rows(limited, Event)] == ["login"]


@pytest.mark.parametrize(
    ("fault", "lost"),
    [
        (OperationalError(None, None, sqlite3.OperationalError("gone")), True),
        (OperationalError("UPDATE", None, sqlite3.OperationalError("locked")), False),
        (WriteQueueFull(), False),
        (TimeoutError(), False),
    ],
)
def test_right_passwords_are_taken_back_where_the_database_is_busy_but_not_where_it_is_lost(
    limited, make_user, log_in_with, monkeypatch, fault, lost
):
    """A lost one is not asked again, or the answer would take twice as long."""
    make_user()
    with monkeypatch.context() as away:
        away.setattr("blueprints.auth.transaction", fails_with(fault))
        failure(log_in_with(PASSWORD), 503, "unavailable")
    guesses = {row.hits for row in counters(limited) if "/wrong passwords" in row.key}
    assert guesses == ({1} if lost else {0})


@pytest.mark.parametrize("way", ["command", "call", "link", "link by command"])
def test_an_unlocked_account_can_try_again_from_everywhere(
    limited, client, make_user, log_in_with, admin, run, way
):
    user = make_user()
    for options in ({}, {"environ_overrides": OTHER_IP}):
        for name in ("student@example.org", "student", "other@example.org"):
            log_in_with("wrong", name, **options)
    # As if each had come ten times.
    wrong = Counter.key.contains("/wrong passwords")
    execute(limited, update(Counter).where(wrong).values(hits=10 * Counter.hits))
    shown = limited.test_cli_runner().invoke(args=["users", "show", "student"]).output
    assert "can log in: no: locked until 2" in shown
    if way == "command":
        assert run("users", "unlock", "student") == ("student can try again.\n", 0)
    elif way == "call":
        success(client.delete(f"/api/users/{user.id}/failed-logins", headers=admin.headers))
    elif way == "link":
        path = f"/api/users/{user.id}/access-link"
        success(client.post(path, json={"deliver": "link"}, headers=admin.headers))
    else:
        assert run("users", "access-link", "student")[1] == 0
    for options in ({}, {"environ_overrides": OTHER_IP}):
        success(log_in_with(PASSWORD, **options))
        success(log_in_with(PASSWORD, "student", **options))
        assert refused(log_in_with("wrong", "other@example.org", **options), 15 * 60)
    unknown = client.delete(f"/api/users/{UNKNOWN_ID}/failed-logins", headers=admin.headers)
    failure(unknown, 404, "user_not_found")


@pytest.mark.parametrize("by_command", [True, False])
def test_an_account_that_is_handed_over_begins_without_failed_logins(
    client, log_in_with, admin, run, by_command
):
    for _ in range(10):
        log_in_with("wrong", environ_overrides=OTHER_IP)
    names = {"username": "student", "email": "student@example.org"}
    if by_command:
        options = [f"--{name}={value}" for name, value in names.items()]
        more = ["--first-name=First", "--last-name=Last", "--link"]
        assert run("users", "create", *options, *more)[1] == 0
    else:
        body = {**names, "firstName": "First", "lastName": "Last", "deliver": "link"}
        success(client.post("/api/users", json=body, headers=admin.headers), 201)
    failure(log_in_with("wrong", environ_overrides=OTHER_IP), 401, "invalid_credentials")


@on_both
def test_the_last_limit_that_refuses_logins_says_when_it_ends(
    limited, make_user, log_in_with, clock
):
    user = make_user()
    with limited.app_context():
        for _ in range(10):
            assert locked_until(user) is None
            log_in_with("wrong", environ_overrides=OTHER_IP)
        for name in ("student@example.org", "STUDENT"):  # nobody could log in by either
            end = locked_until(user)
            clock.move(minutes=1)
            for _ in range(10):
                log_in_with("wrong", name)
            assert locked_until(user) > end
        everywhere = Counter.key.contains("/wrong passwords from all client IPs/")
        execute(limited, update(Counter).where(everywhere).values(hits=100))
        assert locked_until(user) > end + timedelta(minutes=30)
        clock.move(minutes=61)
        assert locked_until(user) is None


def test_the_last_limit_that_is_reached_says_when_to_come_again(make_app, make_user):
    make_user()
    client = make_app(ratelimit_enabled=True, logins_per_minute=10).test_client()
    for _ in range(10):
        failure(login(client, "student@example.org", "wrong"), 401, "invalid_credentials")
    assert refused(login(client, "student@example.org"), 15 * 60)


def test_switched_off_nothing_is_counted(app):
    client = app.test_client()
    for _ in range(12):
        failure(login(client, "student@example.org", "wrong"), 401, "invalid_credentials")
    assert counters(app) == []


@pytest.mark.parametrize("known", [True, False])
def test_a_reached_limit_is_logged_with_the_account_and_without_its_address(
    make_app, make_user, known
):
    user_id = make_user().id if known else "-"
    client = make_app(ratelimit_enabled=True, log_format="json").test_client()
    log = Log()
    for _ in range(11):
        login(client, "student@example.org", "wrong")
    (line,) = (line for line in log.events() if line["message"] == "limit_reached")
    assert line["user"] == user_id
    assert line["limit"] == "10 per 15 minutes: wrong passwords for an account"
    assert "student" not in str(line)


def test_the_document_names_the_limits_and_their_answer(client):
    paths = client.get("/openapi.json").get_json()["paths"]
    login = paths["/api/auth/login"]["post"]
    for rate in ("60 per minute", "10 per 15 minutes", "100 per hour"):
        assert rate in login["description"]
    assert login["responses"]["429"]["$ref"] == "#/components/responses/TooManyRequests"
    for endpoint in API:
        answers = paths[endpoint.documented][endpoint.method.lower()]["responses"]
        called = endpoint.operation
        is_limited = bool(called.limits) or TooManyRequests in called.errors
        assert ("429" in answers) == is_limited, endpoint


def test_guesses_are_limited_wherever_a_password_is_checked():
    wrong = {InvalidCredentials, WrongPassword, WrongCode, WrongAccessCode}
    checking = {str(endpoint) for endpoint in API if wrong & {*endpoint.operation.errors}}
    checking.remove("POST /api/users/email/confirm")  # has tries of its own
    assert checking == {name for name, found in LIMITED.items() if GUESSES[0] in found}
    anybody = {str(endpoint) for endpoint in API if endpoint.operation.role is None}
    assert checking & anybody == {name for name, found in LIMITED.items() if GUESSES[1] in found}


def test_every_view_that_gets_a_guess_says_what_a_right_one_allows(app):
    views = [app.view_functions[each.name] for each in API if GUESSES[0] in each.operation.limits]
    sources = [inspect.getsource(inspect.unwrap(view)) for view in views]
    assert [source for source in sources if ", guess.right(" not in source] == []
