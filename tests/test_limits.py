"""How often is too often: for a client IP, for an account, and for the mails to one."""

import re
import sqlite3
from datetime import timedelta
from http import HTTPStatus

import pytest
from endpoints import API, UNKNOWN_ID
from helpers import (
    PASSWORD,
    Log,
    bearer,
    connections_held,
    failure,
    login,
    race,
    registration,
    rows,
    statements_of,
    success,
)
from sqlalchemy import delete, update
from sqlalchemy.exc import OperationalError, TimeoutError

import errors
from core.passwords import Hasher, HasherBusy
from database import WriteQueueFull, transaction
from models import Counter, User
from services import pruning
from web.limits import GUESSES, locked_until

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


def hit(limited, endpoint, **options):
    """Call an endpoint with a body that has the right shape."""
    (found,) = (each for each in API if str(each) == endpoint)
    return found.open(limited.test_client(), **options)


def change(client, headers, password, new="password1"):
    """Ask for a new password, by default one that is too easy to guess."""
    body = {"currentPassword": password, "newPassword": new}
    return client.put("/api/users/password", json=body, headers=headers)


def delete_account(client, headers, password):
    body = {"password": password, "confirmation": "DELETE_MY_ACCOUNT"}
    return client.delete("/api/users/account", json=body, headers=headers)


def counters(app):
    return rows(app, Counter)


def count_up(app, part_of_key, to):
    """Set the counters of a limit, as if so many calls had come."""
    with app.app_context(), transaction() as session:
        counted = update(Counter).where(Counter.key.contains(part_of_key))
        assert session.execute(counted.values(hits=to)).rowcount == 1


def test_what_is_limited_is_what_we_promise(limited):
    guesses = ["10 per 15 minutes", "100 per hour"]
    confirmed = [*guesses, "60 per hour"]
    with limited.app_context():
        found = {name: [limit.rate for limit in limits] for name, limits in LIMITED.items()}
    assert found == {
        "POST /api/auth/register": ["100 per hour", "1000 per hour", "10 per hour"],
        "POST /api/auth/login": [*guesses, "60 per minute"],
        "POST /api/auth/reset-password": ["60 per minute"],
        "POST /api/auth/forgot-password": ["60 per hour", "3 per hour"],
        "POST /api/auth/resend-verification": ["60 per hour", "3 per hour"],
        "POST /api/users": ["1000 per hour", "3 per hour"],
        "POST /api/users/<uuid:user_id>/access-link": ["200 per hour", "3 per hour", "3 per hour"],
        "GET /api/users/export": ["10 per hour"],
        "PUT /api/users/password": [*confirmed, "20 per hour"],
        "POST /api/users/email": [*confirmed, "5 per hour", "3 per hour", "10 per hour"],
        "POST /api/users/email/confirm": ["20 per hour"],
        "PUT /api/users/username": ["5 per day"],
        "DELETE /api/users/account": confirmed,
    }


@pytest.mark.parametrize(
    ("endpoint", "allowed", "window"),
    [("POST /api/auth/login", 60, 60), ("POST /api/auth/reset-password", 60, 60)],
)
def test_calls_from_one_client_ip_have_a_limit(limited, endpoint, allowed, window, clock):
    def call(**options):
        return hit(limited, endpoint, **options)

    statuses = set()
    for number in range(allowed):
        # A new account each time, or the guesses at one would be counted first.
        options = {"json": {"email": f"user{number}@example.org", "password": "wrong"}}
        statuses.add(call(**(options if "login" in endpoint else {})).status_code)
    assert HTTPStatus.TOO_MANY_REQUESTS not in statuses
    for _ in range(3):
        assert refused(call(), window)
    assert call(environ_overrides=OTHER_IP).status_code != 429
    clock.move(seconds=window + 1)
    assert call().status_code != 429


@pytest.fixture
def register(client, monkeypatch):
    """Register an account; return the status."""
    monkeypatch.setattr(Hasher, "hash", lambda *_: "none")

    def register(name, environ_overrides=None, **changes):
        options = {"json": registration(name, **changes), "environ_overrides": environ_overrides}
        return client.post("/api/auth/register", **options).status_code

    return register


def test_a_hundred_registrations_an_hour_from_one_client_ip_and_failures_do_not_count(
    limited, register, clock
):
    assert register("taken") == 201
    count_up(limited, "/registrations/", to=96)
    for number in range(4):
        assert register("taken") == 409
        assert register(f"weak{number}", password="password1") == 400
        assert register(f"user{number}") == 201
    assert register("late") == 429
    assert register("late", environ_overrides=OTHER_IP) == 201
    clock.move(minutes=61)
    assert register("later") == 201


def test_tries_to_register_have_a_limit_too(limited, register):
    assert register("taken") == 201
    count_up(limited, "/calls of register/", to=998)
    assert [register(name) for name in ("taken", "x", "taken", "taken")] == [409, 400, 409, 429]


def test_a_school_can_have_other_limits_by_client_ip(make_app):
    settings = {"logins_per_minute": 3, "registrations_per_hour": 1}
    client = make_app(ratelimit_enabled=True, **settings).test_client()
    statuses = [login(client, f"user{number}@example.org").status_code for number in range(4)]
    assert statuses == [401, 401, 401, 429]
    bodies = [registration("one"), registration("two")]
    found = [client.post("/api/auth/register", json=body).status_code for body in bodies]
    assert found == [201, 429]


def test_registering_a_stranger_again_and_again_has_a_limit(limited, register):
    for number in range(10):
        ip = {"REMOTE_ADDR": f"198.51.100.{number}"}
        assert register(f"user{number}", email="victim@example.org", environ_overrides=ip) == 201
        with limited.app_context(), transaction() as session:
            session.execute(delete(User))
    assert register("last", email="victim@example.org") == 429


def test_changes_of_a_password_have_a_limit(client, make_user, log_in_with):
    make_user()
    headers = bearer(success(log_in_with(PASSWORD))["accessToken"])
    body = {"currentPassword": PASSWORD, "newPassword": PASSWORD}

    def change(**changes):
        return client.put("/api/users/password", json={**body, **changes}, headers=headers)

    for _ in range(20):
        failure(change(newPassword="password1"), 400, "weak_password")
        success(change())
    assert refused(change(), 3600)


def test_a_call_of_the_wrong_shape_is_not_counted(client, log_in_with):
    for body in ({}, {"email": "a@example.org"}, {"email": 1, "password": 2}, []):
        for _ in range(20):
            failure(client.post("/api/auth/login", json=body), 400, "invalid_request")
    failure(log_in_with("wrong"), 401, "invalid_credentials")


@pytest.mark.parametrize("known", [True, False])
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


@pytest.mark.parametrize("known", [True, False])
def test_a_hundred_wrong_passwords_from_everywhere_lock_the_account(
    make_user, log_in_with, known, clock
):
    if known:
        make_user()
    for number in range(100):
        ip = {"REMOTE_ADDR": f"198.51.100.{number % 20}"}
        response = log_in_with("wrong", environ_overrides=ip)
        failure(response, 401, "invalid_credentials")
        if number % 20 == 19:
            clock.move(minutes=8)  # begins new windows for the client IPs
    for number in range(3):
        ip = {"REMOTE_ADDR": f"203.0.113.{number}"}
        assert refused(log_in_with(PASSWORD, environ_overrides=ip), 20 * 60)
    for _ in range(12):
        assert refused(log_in_with(PASSWORD), 20 * 60)
    # Refused calls did not count for their client IP either.
    clock.move(minutes=20)
    for _ in range(10):
        failure(log_in_with("wrong"), 401, "invalid_credentials")


def test_the_right_password_clears_the_count_of_its_client_ip(make_user, log_in_with):
    make_user()
    for _ in range(3):
        for _ in range(9):
            failure(log_in_with("wrong"), 401, "invalid_credentials")
        success(log_in_with(PASSWORD))


def test_a_reset_password_clears_it_too(client, make_user, log_in_with, outbox):
    make_user()
    for options in ({}, {"environ_overrides": OTHER_IP}):
        for _ in range(10):
            failure(log_in_with("wrong", **options), 401, "invalid_credentials")
    assert refused(log_in_with(PASSWORD), 15 * 60)
    success(client.post("/api/auth/forgot-password", json={"email": "student@example.org"}))
    body = {"token": outbox.deliver_token(), "newPassword": "Another-Mug-Green-43"}
    success(client.post("/api/auth/reset-password", json=body))
    success(log_in_with("Another-Mug-Green-43"))
    # Other clients that guessed at it still have to wait.
    assert refused(log_in_with("wrong", environ_overrides=OTHER_IP), 15 * 60)


@pytest.mark.parametrize(
    "email",
    ["", " ", "@", "a" * 1024, "\u0000", "\u202e\U0001f600@\u00e4.example", "a@b", "a\n@b.de"],
)
def test_no_text_in_place_of_an_address_evades_the_count(log_in_with, email):
    statuses = [log_in_with("wrong", email).status_code for _ in range(11)]
    assert statuses == [401] * 10 + [429]


def test_no_count_goes_below_zero(limited, register, monkeypatch, clock):
    """A registration that fails after the end of its window is taken back in the next one."""
    assert register("taken") == 201

    def slow(*_):
        clock.move(minutes=61)
        return "none"

    with monkeypatch.context() as late:
        late.setattr(Hasher, "hash", slow)
        for _ in range(3):
            assert register("taken") == 409
    assert all(row.hits >= 0 for row in counters(limited))


def test_right_passwords_do_not_count(limited, make_user, log_in_with):
    make_user()
    for _ in range(12):
        success(log_in_with(PASSWORD))
    assert {row.hits for row in counters(limited) if "/wrong passwords" in row.key} == {0}


def test_a_right_password_that_does_not_open_the_account_counts_for_right(
    make_app, make_user, limited
):
    make_user("sleeper", is_active=False)
    make_user("stranger")
    client = make_app(ratelimit_enabled=True, require_verified_email=True).test_client()
    for _ in range(12):
        for name, code in (("sleeper", "account_inactive"), ("stranger", "email_unverified")):
            failure(login(client, f"{name}@example.org"), 403, code)


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [
        (ZeroDivisionError, 500, "internal_error"),
        (HasherBusy, 503, "unavailable"),
        (errors.Unavailable, 503, "unavailable"),
    ],
)
def test_a_fault_is_neither_a_wrong_password_nor_a_right_one(
    make_user, log_in_with, monkeypatch, fault, status, code
):
    def fail(_):
        raise fault

    make_user()
    for _ in range(9):
        failure(log_in_with("wrong"), 401, "invalid_credentials")
    with monkeypatch.context() as broken:
        broken.setattr(Hasher, "_turn", fail)
        for _ in range(3):
            failure(log_in_with(PASSWORD), status, code)
    failure(log_in_with("wrong"), 401, "invalid_credentials")
    assert refused(log_in_with(PASSWORD), 15 * 60)


def test_what_comes_after_a_right_password_clears_no_count(client, make_user, log_in_with):
    """A refusal that nobody thought of must not let anybody guess for ever."""
    make_user()
    make_user("other")
    headers = bearer(success(log_in_with(PASSWORD))["accessToken"])

    for _ in range(9):
        failure(change(client, headers, "wrong"), 400, "wrong_password")
    for _ in range(2):
        failure(change(client, headers, PASSWORD), 400, "weak_password")
        body = {"newEmail": "other@example.org", "password": PASSWORD}
        taken = client.post("/api/users/email", json=body, headers=headers)
        failure(taken, 409, "email_taken")
    failure(change(client, headers, "wrong"), 400, "wrong_password")
    assert refused(change(client, headers, PASSWORD), 15 * 60)


def test_right_current_passwords_have_a_limit_whatever_comes_of_them(
    limited, client, make_user, log_in_with
):
    make_user()
    headers = bearer(success(log_in_with(PASSWORD))["accessToken"])

    failure(change(client, headers, PASSWORD), 400, "weak_password")
    failure(change(client, headers, "wrong"), 400, "wrong_password")  # which is counted elsewhere
    count_up(limited, "/right current passwords/", to=59)
    failure(change(client, headers, PASSWORD), 400, "weak_password")
    assert refused(change(client, headers, PASSWORD), 3600)
    assert refused(delete_account(client, headers, PASSWORD), 3600)
    success(log_in_with(PASSWORD))


def test_parallel_guesses_do_not_slip_through(make_user, log_in_with, limited):
    make_user()
    statuses = [response.status_code for response in race(lambda _: log_in_with("wrong"), 30)]
    assert sorted(statuses) == [401] * 10 + [429] * 20
    # Only those that passed are counted.
    assert {row.hits for row in counters(limited)} == {10}


def test_a_guess_is_counted_before_the_hash_and_holds_no_connection_then(
    limited, make_user, log_in_with, monkeypatch
):
    make_user()
    seen = []
    original = Hasher.verify

    def verify(*arguments):
        seen.append([row.hits for row in counters(limited) if "/wrong passwords" in row.key])
        return original(*arguments)

    monkeypatch.setattr(Hasher, "verify", verify)
    held = connections_held(limited, monkeypatch, Hasher, "verify")
    failure(log_in_with("wrong"), 401, "invalid_credentials")
    assert seen == [[1, 1]]
    assert held == [0]


def test_wrong_current_passwords_count_like_failed_logins(client, make_user, log_in_with, clock):
    make_user()
    headers = bearer(success(log_in_with(PASSWORD))["accessToken"])
    for _ in range(5):
        failure(change(client, headers, "wrong"), 400, "wrong_password")
        failure(delete_account(client, headers, "wrong"), 400, "wrong_password")
    assert refused(change(client, headers, PASSWORD), 15 * 60)
    assert refused(delete_account(client, headers, PASSWORD), 15 * 60)
    assert refused(log_in_with(PASSWORD), 15 * 60)
    success(client.get("/api/users/profile", headers=headers))
    clock.move(minutes=15, seconds=1)
    headers = bearer(success(log_in_with(PASSWORD))["accessToken"])
    success(change(client, headers, PASSWORD, new="Another-Mug-Green-43"))


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/api/auth/forgot-password", "password_reset"),
        ("/api/auth/resend-verification", "email_verification"),
    ],
)
def test_three_mails_of_a_kind_an_hour(client, make_user, outbox, clock, path, kind):
    make_user()

    def ask(email="student@example.org", **options):
        response = client.post(path, json={"email": email}, **options)
        return response.status_code, response.get_json(), dict(response.headers).keys()

    first = ask()
    assert first[0] == 200
    for number in range(6):
        assert ask("Student@Example.org", environ_overrides=OTHER_IP) == first
        assert ask(f"nobody{number // 5}@example.org") == first
    addresses = [address for found, address in outbox.waiting() if found == kind]
    assert addresses.count("student@example.org") == 3
    assert addresses.count("nobody0@example.org") == 3
    clock.move(minutes=61)
    assert ask() == first
    assert [address for _, address in outbox.waiting()].count("student@example.org") == 4


@pytest.mark.parametrize("path", ["/api/auth/forgot-password", "/api/auth/resend-verification"])
def test_requests_for_mails_have_a_limit_by_client_ip(client, make_user, outbox, clock, path):
    """For known and unknown addresses alike, also when an address gets no more mails."""
    make_user()

    def ask(email="student@example.org", **options):
        return client.post(path, json={"email": email}, **options)

    for number in range(20):
        success(ask())
        success(ask("nobody@example.org"))
        success(ask(f"nobody{number}@example.org"))
    waiting = outbox.waiting()
    for email in ("student@example.org", "nobody@example.org", "nobody99@example.org"):
        assert refused(ask(email), 3600)
    assert outbox.waiting() == waiting
    success(ask("nobody99@example.org", environ_overrides=OTHER_IP))
    clock.move(minutes=61)
    success(ask())


def test_the_mail_of_a_registration_is_not_one_that_was_asked_for(client, outbox):
    success(client.post("/api/auth/register", json=registration()), 201)
    for _ in range(4):
        body = {"email": "newcomer@example.org"}
        success(client.post("/api/auth/resend-verification", json=body))
    assert len(outbox.waiting()) == 4


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("192.0.2.1", "192.0.2.2", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("fe80::1%eth0", "fe80::1%eth1", True),
        ("", "unix:", True),
    ],
)
def test_one_client_is_an_ipv4_address_or_64_bits_of_ipv6(log_in_with, one, other, same):
    for _ in range(10):
        log_in_with("wrong", environ_overrides={"REMOTE_ADDR": one})
    response = log_in_with("wrong", environ_overrides={"REMOTE_ADDR": other})
    assert response.status_code == (429 if same else 401)


@pytest.mark.parametrize("trusted_proxies", [0, 1, 2])
def test_no_header_makes_another_client(make_app, trusted_proxies):
    client = make_app(ratelimit_enabled=True, trusted_proxies=trusted_proxies).test_client()

    def log_in(number):
        forged = f"203.0.113.{number}"
        proxies = ["198.51.100.7", "10.0.0.1"][:trusted_proxies]
        headers = {
            "X-Forwarded-For": ", ".join([forged, forged, *proxies]),
            "X-Real-IP": forged,
            "Forwarded": f"for={forged}",
            "X-Client-IP": forged,
            "True-Client-IP": forged,
            "CF-Connecting-IP": forged,
        }
        body = {"email": "student@example.org", "password": "wrong"}
        return client.post("/api/auth/login", json=body, headers=headers).status_code

    assert [log_in(number) for number in range(11)] == [401] * 10 + [429]


def test_proxies_may_add_a_port(make_app):
    client = make_app(ratelimit_enabled=True, trusted_proxies=1).test_client()

    def log_in(sent):
        body = {"email": "student@example.org", "password": "wrong"}
        headers = {"X-Forwarded-For": sent}
        return client.post("/api/auth/login", json=body, headers=headers).status_code

    for ip in ("192.0.2.1:%d", "[2001:db8::1]:%d"):
        assert [log_in(ip % port) for port in range(4000, 4011)] == [401] * 10 + [429]
    assert log_in("192.0.2.1") == log_in("2001:db8::1") == 429
    assert log_in("192.0.2.2:4000") == 401


def test_counters_name_nobody_and_leave_when_they_are_over(
    limited, client, log_in_with, make_user, clock, database_url
):
    make_user()
    log_in_with("wrong", environ_overrides={"REMOTE_ADDR": "2001:db8:1:2::1"})
    client.post("/api/auth/forgot-password", json={"email": "student@example.org"})
    rows = counters(limited)
    assert len(rows) == 5
    for row in rows:
        assert re.fullmatch(r"([0-9a-f]{32})?/[a-zIP -]+/[0-9a-f]{32}", row.key)
    with limited.app_context():
        assert pruning.prune(clock.utcnow())["counters"] == 0
        clock.move(minutes=16)
        assert pruning.prune(clock.utcnow())["counters"] == 2
        clock.move(hours=1)
        assert pruning.prune(clock.utcnow())["counters"] == 3


def test_another_secret_counts_anew(make_app, log_in_with):
    for _ in range(10):
        log_in_with("wrong")
    other = make_app(ratelimit_enabled=True, secret_key="another secret " * 3).test_client()
    failure(login(other, "student@example.org", "wrong"), 401, "invalid_credentials")


def test_refusing_writes_nothing(limited, log_in_with):
    for number in range(100):
        ip = {"REMOTE_ADDR": f"198.51.100.{number // 10}"}
        log_in_with("wrong", environ_overrides=ip)
    before = counters(limited)
    with statements_of(limited) as statements:
        for last in (0, 200):  # locked for this client IP, locked for all
            ip = {"REMOTE_ADDR": f"198.51.100.{last}"}
            failure(log_in_with("wrong", environ_overrides=ip), 429, "too_many_requests")
    # No more reads than there are limits.
    assert 0 < len(statements) <= 2 * len(LIMITED["POST /api/auth/login"])
    assert all(statement.startswith("SELECT") for statement in statements)
    assert counters(limited) == before


@pytest.mark.parametrize("path", ["/api/auth/forgot-password", "/api/auth/resend-verification"])
def test_a_mail_that_was_not_queued_is_not_counted(client, make_user, outbox, monkeypatch, path):
    make_user()
    body = {"email": "student@example.org"}
    with monkeypatch.context() as broken:
        broken.setattr("services.outbox.queue", lambda *_: 1 / 0)
        for _ in range(5):
            failure(client.post(path, json=body), 500, "internal_error")
    success(client.post(path, json=body))
    assert len(outbox.waiting()) == 1


def test_a_count_that_cannot_be_changed_changes_no_answer(
    client, make_user, log_in_with, outbox, monkeypatch, caplog
):
    make_user()
    success(client.post("/api/auth/forgot-password", json={"email": "student@example.org"}))
    body = {"token": outbox.deliver_token(), "newPassword": "Another-Mug-Green-43"}
    monkeypatch.setattr("web.limits.change", fails_with(ZeroDivisionError))
    monkeypatch.setattr("web.limits.one_statement", fails_with(ZeroDivisionError))
    success(client.post("/api/auth/reset-password", json=body))
    success(log_in_with("Another-Mug-Green-43"))
    found = [record for record in caplog.records if record.name == "accounts.limits"]
    assert [record.exc_info[0] for record in found] == [ZeroDivisionError] * 2


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


def test_the_last_limit_that_is_reached_says_when_to_come_again(make_app, make_user):
    make_user()
    client = make_app(ratelimit_enabled=True, logins_per_minute=10).test_client()
    for _ in range(10):
        failure(login(client, "student@example.org", "wrong"), 401, "invalid_credentials")
    assert refused(login(client, "student@example.org"), 15 * 60)


@pytest.mark.parametrize("way", ["command", "call", "link", "link by command"])
def test_an_unlocked_account_can_try_again_from_everywhere(
    client, make_user, log_in_with, log_in, run, way
):
    user, admin = make_user(), make_user("admin", role="admin")
    headers = log_in(admin).headers
    for options in ({}, {"environ_overrides": OTHER_IP}):
        for _ in range(10):
            log_in_with("wrong", **options)
            log_in_with("wrong", "other@example.org", **options)
    assert "can log in: no: too many failed logins, until 2" in run("users", "show", "student")[0]
    if way == "command":
        assert run("users", "unlock", "student") == ("student can try again.\n", 0)
    elif way == "call":
        success(client.delete(f"/api/users/{user.id}/failed-logins", headers=headers))
    elif way == "link":
        path = f"/api/users/{user.id}/access-link"
        success(client.post(path, json={"deliver": "link"}, headers=headers))
    else:
        assert run("users", "access-link", "student")[1] == 0
    for options in ({}, {"environ_overrides": OTHER_IP}):
        success(log_in_with(PASSWORD, **options))
        assert refused(log_in_with("wrong", "other@example.org", **options), 15 * 60)
    unknown = client.delete(f"/api/users/{UNKNOWN_ID}/failed-logins", headers=headers)
    failure(unknown, 404, "user_not_found")


@pytest.mark.parametrize("by_command", [True, False])
def test_an_account_that_is_handed_over_begins_without_failed_logins(
    client, make_user, log_in_with, log_in, run, by_command
):
    headers = log_in(make_user("admin", role="admin")).headers
    for _ in range(10):
        log_in_with("wrong", environ_overrides=OTHER_IP)
    names = {"username": "student", "email": "student@example.org"}
    if by_command:
        options = [f"--{name}={value}" for name, value in names.items()]
        more = ["--first-name=First", "--last-name=Last", "--link"]
        assert run("users", "create", *options, *more)[1] == 0
    else:
        body = {**names, "firstName": "First", "lastName": "Last", "deliver": "link"}
        success(client.post("/api/users", json=body, headers=headers), 201)
    failure(log_in_with("wrong", environ_overrides=OTHER_IP), 401, "invalid_credentials")


def test_the_last_limit_that_refuses_logins_says_when_it_ends(
    limited, make_user, log_in_with, clock
):
    make_user()
    with limited.app_context():
        for _ in range(10):
            assert locked_until("student@example.org") is None
            log_in_with("wrong", environ_overrides=OTHER_IP)
        end = locked_until("student@example.org")
        clock.move(minutes=1)
        for _ in range(10):
            log_in_with("wrong")
        assert locked_until("student@example.org") > end
        count_up(limited, "/wrong passwords from all client IPs/", to=100)
        assert locked_until("student@example.org") > end + timedelta(minutes=30)
        clock.move(minutes=61)
        assert locked_until("student@example.org") is None


def fails_with(error):
    def fail(*_):
        raise error

    return fail


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
    assert "3 per hour" in paths["/api/auth/forgot-password"]["post"]["description"]
    answering = {
        f"{method.upper()} {path}"
        for path, operations in paths.items()
        for method, operation in operations.items()
        if "429" in operation["responses"]
    }
    loud = {
        f"{endpoint.method} {endpoint.documented}"
        for endpoint in API
        if any(not limit.silent for limit in endpoint.operation.limits)
    }
    assert answering == loud


def test_guesses_are_limited_wherever_a_password_is_checked():
    checking = {
        str(endpoint)
        for endpoint in API
        if {"invalid_credentials", "wrong_password"}
        & {error.code for error in endpoint.operation.errors}
    }
    assert checking == {name for name, found in LIMITED.items() if set(GUESSES) <= set(found)}
