"""Codes that are typed in place of a link, and usernames that are typed in place of an address."""

import re
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from endpoints import UNKNOWN_ID
from helpers import (
    SECRET,
    bearer,
    failure,
    login,
    on_both,
    on_postgres,
    stored,
    success,
    words,
)
from sqlalchemy import inspect, text

from core import codes
from database import reading
from extensions import db

CODE = re.compile("-".join(3 * ["[0-9A-HJKMNP-TV-Z]{4}"]))
NEW_PASSWORD = "Purple-Lamp-Steel-77"


@pytest.fixture
def admin(make_user, log_in):
    return log_in(make_user("headmaster", role="admin")).headers


@pytest.fixture
def hand_over(client, admin):
    """Make a link and a code for an account."""

    def hand_over(user, **body):
        url = f"/api/users/{user.id}/access-link"
        return success(client.post(url, json={"deliver": "link", **body}, headers=admin))

    return hand_over


@pytest.fixture
def choose(client):
    def choose(account, code, password=NEW_PASSWORD, **options):
        body = {"account": account, "code": code, "newPassword": password}
        return client.post("/api/auth/reset-password", json=body, **options)

    return choose


@pytest.fixture
def pupil(client, admin):
    """An account without a password and a mailbox, just made, with its first code."""
    person = {"firstName": "First", "lastName": "Last", "deliver": "link"}
    body = {"username": "Pupil", "email": "pupil@school.invalid", **person}
    made = success(client.post("/api/users", json=body, headers=admin), 201)
    return SimpleNamespace(id=made["user"]["id"], email=body["email"], **made)


def log_in_as(client, name, password):
    return client.post("/api/auth/login", json={"email": name, "password": password})


def test_code_is_the_one_of_the_contract():
    made_from = ("!x", "pupil@example.org", 1)
    access = codes.Access("01234567-89ab-7cde-8f01-23456789abcd", *made_from)
    secret = "test vector one; 32 bytes or more!"
    assert codes.make_access_code(secret, access, 490_000) == "FJKF-HTN3-P7BE"


def test_new_account_comes_with_a_link_a_code_and_a_picture(client, pupil, choose):
    assert CODE.fullmatch(pupil.code)
    assert pupil.qrCode.startswith('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ')
    assert pupil.qrCode.count("<path") == 2  # white, and the dots on it
    success(choose("pupil", pupil.code))
    success(log_in_as(client, "pupil", NEW_PASSWORD))


@pytest.mark.parametrize("name", ["PUPIL", " pupil ", "Pupil@School.invalid"])
@pytest.mark.parametrize(
    "typed", [str.lower, lambda code: code.replace("-", " ").replace("0", "O")]
)
def test_code_is_read_as_it_was_meant(pupil, choose, name, typed):
    success(choose(name, typed(pupil.code)))


def test_code_works_once(pupil, choose):
    success(choose("pupil", pupil.code))
    failure(choose("pupil", pupil.code), 400, "invalid_token")


@pytest.mark.parametrize(
    ("account", "code"),
    [
        ("pupil", "0000-0000-0000"),
        ("pupil", "Pupil"),
        ("pupil", "ABCD-EFGH-JKM\u00e9"),
        ("student", None),
        ("nobody", None),
        ("nobody@example.org", None),
        ("no name\0", None),
    ],
)
@on_postgres  # which takes no NUL in a text
def test_wrong_codes_and_accounts_get_the_same_answer(make_user, pupil, choose, account, code):
    make_user()
    response = choose(account, code or pupil.code)
    failure(response, 400, "invalid_token")
    message = "The account or the code is wrong, or the code is no longer valid. Ask for a new one."
    assert response.get_json()["message"] == message


def test_code_of_an_account_without_a_password_lives_as_long_as_an_invitation(pupil, choose, clock):
    clock.move(days=6, hours=23)
    failure(choose("pupil", pupil.code, "pupil"), 400, "weak_password")
    clock.move(hours=3)
    failure(choose("pupil", pupil.code), 400, "invalid_token")


@pytest.mark.parametrize(
    "change",
    [{"isActive": False}, {"role": "instructor"}, {"role": "admin"}, "link", "password", "address"],
    ids=str,
)
def test_code_dies_with_what_it_is_bound_to(client, run, admin, pupil, hand_over, choose, change):
    if change == "link":
        assert hand_over(pupil)["code"] != pupil.code
    elif change == "password":
        success(choose("pupil", hand_over(pupil)["code"]))
    elif change == "address":
        assert run("users", "set-email", "pupil", "other@school.invalid")[1] == 0
    else:
        url = f"/api/users/{pupil.id}"
        success(client.patch(url, json=change, headers=admin))
        success(client.patch(url, json={"isActive": True, "role": "student"}, headers=admin))
    failure(choose("pupil", pupil.code), 400, "invalid_token")


def test_no_code_is_good_for_an_admin(app, run, make_user, choose, clock):
    head = make_user("head", role="admin")
    printed, code = run("users", "access-link", "head")
    assert (code, len(printed.splitlines())) == (0, 1)
    failure(choose("head", code_of(app, head, clock.utcnow())), 400, "invalid_token")


def code_of(app, user, moment):
    row = stored(app, user)
    access = codes.Access(row.id, row.password_hash, row.email, row.password_version)
    return codes.make_access_code(SECRET, access, int(moment.timestamp()) // 3600)


def test_code_of_a_machine_whose_clock_is_ahead_is_taken_in_the_next_hour_and_not_after(
    app, make_user, hand_over, choose, monkeypatch
):
    now, pupil = datetime.now(UTC), make_user("pupil")
    monkeypatch.setattr("core.clock.utcnow", lambda: now)
    assert hand_over(pupil)["code"] == code_of(app, pupil, now)
    late = code_of(app, pupil, now + timedelta(hours=2))
    failure(choose("pupil", late), 400, "invalid_token")
    success(choose("pupil", code_of(app, pupil, now + timedelta(hours=1))))


def test_code_outlives_the_rotation_of_the_key(make_app, pupil):
    rotated = make_app(secret_key="n" * 40, secret_key_fallbacks=(SECRET,))
    body = {"account": "pupil", "code": pupil.code, "newPassword": NEW_PASSWORD}
    success(rotated.test_client().post("/api/auth/reset-password", json=body))


def test_code_says_nothing_about_the_address(app, client, pupil, choose):
    success(choose("pupil", pupil.code))
    assert stored(app, pupil).email_verified_at is None


def test_code_is_in_no_log_and_no_table(app, pupil, choose, caplog):
    failure(choose("nobody", pupil.code), 400, "invalid_token")
    success(choose("pupil", pupil.code))
    code = pupil.code.replace("-", "")
    assert code not in caplog.text.replace("-", "")
    with app.app_context(), reading() as connection:
        for table in inspect(db.engine).get_table_names():
            rows = connection.execute(text(f"SELECT * FROM {table}")).all()
            assert code not in repr(rows).replace("-", "")


def test_account_for_which_nothing_is_delivered_gets_no_mail(client, admin, outbox, make_key):
    body = {"firstName": "First", "lastName": "Last", "deliver": "none"}
    for name, headers in (("one", admin), ("two", bearer(make_key("users:write")))):
        sent = {"username": name, "email": f"{name}@example.org", **body}
        made = success(client.post("/api/users", json=sent, headers=headers), 201)
        assert made.keys() == {"user"}
    assert outbox.waiting() == []


@pytest.mark.parametrize(
    ("body", "reasons"),
    [
        ({}, {"token": ["required"]}),
        ({"account": "pupil"}, {"code": ["required"]}),
        ({"code": "ABCD"}, {"account": ["required"]}),
        ({"token": "x", "account": "pupil", "code": "ABCD"}, {"token": ["invalid"]}),
        ({"token": "x", "code": "ABCD"}, {"token": ["invalid"]}),
    ],
    ids=str,
)
def test_password_is_chosen_by_a_token_or_a_code(client, body, reasons):
    sent = {"newPassword": NEW_PASSWORD, **body}
    response = client.post("/api/auth/reset-password", json=sent)
    failure(response, 400, "invalid_request")
    assert words(response) == reasons


# Login by username


@pytest.mark.parametrize("name", ["student", "STUDENT", " Student "])
def test_username_in_any_case_logs_in(client, make_user, name):
    user = make_user()
    assert success(log_in_as(client, name, user.password))["user"]["id"] == user.id


def test_username_with_a_wrong_password_gets_the_words_of_an_unknown_account(client, make_user):
    make_user()
    tries = [log_in_as(client, name, "wrong") for name in ("student", "nobody", "no\0body")]
    assert len({response.get_json()["message"] for response in tries}) == 1
    for response in tries:
        failure(response, 401, "invalid_credentials")


def test_id_is_no_name(client, make_user):
    user = make_user()
    failure(log_in_as(client, user.id, user.password), 401, "invalid_credentials")
    failure(log_in_as(client, UNKNOWN_ID, user.password), 401, "invalid_credentials")


@pytest.fixture
def limited(make_app):
    return make_app(ratelimit_enabled=True).test_client()


@on_both
def test_wrong_codes_and_passwords_are_counted_together_by_what_was_typed(limited, make_user):
    user = make_user()
    for number in range(10):
        if number % 2:
            failure(log_in_as(limited, "Student", "wrong"), 401, "invalid_credentials")
        else:
            body = {"account": "student ", "code": "wrong", "newPassword": NEW_PASSWORD}
            response = limited.post("/api/auth/reset-password", json=body)
            failure(response, 400, "invalid_token")
    failure(limited.post("/api/auth/reset-password", json=body), 429, "too_many_requests")
    failure(log_in_as(limited, "student", user.password), 429, "too_many_requests")
    # The address is counted apart.
    success(login(limited, user))
