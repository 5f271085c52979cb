"""Registration and login."""

import json
from datetime import UTC, datetime

import pytest
from helpers import (
    PASSWORD,
    SHUTTING_OUT,
    Log,
    alter,
    change_password,
    connections_held,
    failure,
    login,
    on_both,
    race,
    register,
    rows,
    set_user,
    stored,
    success,
)
from werkzeug.security import generate_password_hash

from core.passwords import MAX_LENGTH, Hasher
from models import User

ADA = {"email": "Ada@Example.org", "firstName": " Ada ", "lastName": "L"}


def register_ada(client, username="Ada.L-1", **changes):
    return register(client, username, **{**ADA, **changes})


def test_registered_user_can_log_in(app, client, outbox):
    response = register_ada(client)
    data = success(response, 201)
    assert data.keys() == {"userId", "username", "email"}
    assert (data["username"], data["email"]) == ("Ada.L-1", "ada@example.org")
    user = stored(app, id=data["userId"])
    assert user.password_hash.startswith("$2b$04$")
    assert (user.first_name, user.role, user.is_active) == ("Ada", "student", True)
    assert outbox.waiting() == [("email_verification", "ada@example.org")]

    data = success(login(client, "ADA@example.ORG", PASSWORD))
    names = {"username": "Ada.L-1", "email": "ada@example.org"}
    assert data["user"] == {"id": user.id, **names, "role": "student"}
    assert data["expiresIn"] == 900
    assert stored(app, id=user.id).last_login_at is not None


@pytest.mark.parametrize(
    ("changes", "code", "fields"),
    [
        ({"email": "other@example.org", "username": "ada.l-1"}, "username_taken", {"username"}),
        ({"username": "other", "email": "ADA@EXAMPLE.ORG"}, "email_taken", {"email"}),
        ({"username": "ADA.L-1"}, "username_taken", {"username", "email"}),
    ],
)
@on_both
def test_taken_name_or_address_is_refused(client, changes, code, fields):
    success(register_ada(client), 201)
    assert failure(register_ada(client, **changes), 409, code).keys() == fields


@on_both
def test_a_username_of_an_account_that_was_never_used_is_said_to_be_that(client, make_user):
    """So that somebody who mistyped the address at the first sign-up learns who it was."""

    def reasons(username, **changes):
        return register_ada(client, username, **changes).json["error"]["reasons"]

    success(register_ada(client), 201)
    other = {"email": "other@example.org"}
    both = {"username": ["taken", "unconfirmed"], "email": ["taken"]}
    assert reasons("ADA.L-1", **other) == {"username": both["username"]}
    assert reasons("ada.l-1") == both
    assert reasons("new") == {"email": ["taken"]}
    success(login(client, "Ada.L-1", PASSWORD))
    make_user("confirmed", email_verified_at=datetime(2026, 1, 1, tzinfo=UTC))
    make_user("invited", password_hash="!")
    for username in ("ada.l-1", "confirmed", "invited"):
        assert reasons(username, **other) == {"username": ["taken"]}, username


@on_both
def test_address_is_one_in_all_its_forms(client):
    success(register_ada(client, email="ada@Bücher.example"), 201)
    other = register_ada(client, username="other", email="ADA@xn--bcher-kva.example")
    failure(other, 409, "email_taken")
    success(login(client, "ada@bücher.EXAMPLE", PASSWORD))


@pytest.mark.parametrize("free", ["username", "email"])
@on_both
def test_race_for_one_name_has_one_winner(app, outbox, free):
    def act(number):
        own = {"username": f"racer{number}", "email": f"racer{number}@example.org"}[free]
        return register_ada(app.test_client(), **{free: own}).status_code

    answers = race(act)
    assert sorted(answers) == [201] + [409] * (len(answers) - 1)
    assert len(rows(app, User)) == len(outbox.waiting()) == 1


@pytest.mark.parametrize("password", ["short", "P@ssw0rd!", "ada.l-1-2024"])
def test_guessable_password_is_refused_with_the_reason(client, password):
    (reason,) = failure(register_ada(client, password=password), 400, "weak_password")["password"]
    assert reason.startswith("This password ")


def test_the_name_of_the_site_is_no_password(make_app):
    client = make_app(site_name="Riverside School").test_client()
    refused = register_ada(client, password="riverside school 2026")
    assert refused.json["error"]["reasons"] == {"password": ["personal"]}
    success(register_ada(client, password="seven green lamps"), 201)


@pytest.mark.asvs("6.2.1")
def test_shortest_password_is_a_setting(make_app):
    client = make_app(password_min_length=20).test_client()
    failure(register_ada(client, password=PASSWORD), 400, "weak_password")


@pytest.mark.parametrize(
    ("email", "password"),
    [
        *(("student@example.org", wrong) for wrong in ("wrong", "", "with\x00nul")),
        *((wrong, PASSWORD) for wrong in ("nobody@example.org", "student@example.org\x00")),
    ],
)
def test_wrong_credentials_all_get_the_same_answer(client, make_user, email, password):
    make_user()
    response = client.post("/api/auth/login", json={"email": email, "password": password})
    assert failure(response, 401, "invalid_credentials") == {}
    message = "The e-mail address, the username or the password is wrong. Check them."
    assert response.get_json()["message"] == message
    assert "WWW-Authenticate" not in response.headers


def test_log_says_why_a_login_failed_and_not_what_was_typed(make_app, make_user):
    client, log = make_app(log_format="json").test_client(), Log()
    foreign = "pbkdf2_sha256$870000$salt$digest"
    expected = [("unknown_account", "-")]
    for name, stored_hash, reason in [
        ("known", None, "wrong_password"),
        ("invited", "!marker", "no_password"),
        ("moved", foreign, "wrong_password"),
    ]:
        user = make_user(name, **({"password_hash": stored_hash} if stored_hash else {}))
        expected.append((reason, user.id))
    for name in ("nobody", "known", "invited", "moved"):
        failure(login(client, f"{name}@example.org", "typed"), 401, "invalid_credentials")
    text = log.text()
    lines = [json.loads(line) for line in text.splitlines()]
    failed = [line for line in lines if line["message"] == "login_failed"]
    assert [(line["reason"], line["user"]) for line in failed] == expected
    (warning,) = (line for line in lines if line["level"] == "WARNING")
    assert user.id in warning["message"]
    assert "typed" not in text
    assert foreign not in text


def test_login_work_is_the_same_for_known_and_unknown_accounts(app, client, make_user, monkeypatch):
    make_user()
    make_user("invited", password_hash="!marker")
    asked = []
    verify = Hasher.verify
    watch = lambda self, raw, *more: asked.append(more[0]) or verify(self, raw, *more)  # noqa: E731
    monkeypatch.setattr(Hasher, "verify", watch)
    for email in ("student@example.org", "invited@example.org", "nobody@example.org", "no address"):
        login(client, email, "wrong")
    assert [bool(stored) for stored in asked] == [True, True, False, False]


def test_inactive_account_is_told_only_after_the_right_password(client, make_user):
    user = make_user(is_active=False)
    failure(login(client, user, "wrong"), 401, "invalid_credentials")
    failure(login(client, user), 403, "account_inactive")


@on_both
def test_login_renews_a_hash_of_another_cost(app, make_app, make_user):
    user, stranger = make_user(), make_user("stranger")
    client = make_app(bcrypt_rounds=5).test_client()
    success(login(client, user))
    assert stored(app, id=stranger.id).last_login_at is None
    assert stored(app, id=stranger.id).password_hash == stranger.password_hash
    assert stored(app, id=user.id).password_hash.startswith("$2b$05$")
    success(login(client, user))


@pytest.mark.parametrize("password", ["short", "\ufb01" + "a" * 99, "a" * 129], ids=len)
def test_login_replaces_a_hash_of_other_software_where_ours_can_hold_the_password(
    app, client, make_user, password
):
    foreign = generate_password_hash(password, "pbkdf2:sha256:10")
    user = make_user(password_hash=foreign)
    failure(login(client, user, "wrong"), 401, "invalid_credentials")
    assert stored(app, user).password_hash == foreign
    session = success(login(client, user, password))["accessToken"]
    kept = stored(app, user).password_hash == foreign
    assert kept == (len(password) > MAX_LENGTH)
    success(login(client, user, password))
    set_user(app, user, password_hash=foreign)
    failure(change_password(client, session, "wrong"), 400, "wrong_password")
    success(change_password(client, session, password))


@pytest.mark.parametrize("changes", SHUTTING_OUT, ids=str)
def test_login_is_refused_when_an_admin_changed_the_account_during_the_hash(
    app, client, make_user, during_the_hash, changes
):
    user = make_user()
    during_the_hash(lambda: alter(app, user, *changes))
    failure(login(client, user), 401, "invalid_credentials")


def test_no_connection_is_held_while_a_password_is_hashed(app, client, make_user, monkeypatch):
    user = make_user()
    held = connections_held(app, monkeypatch, Hasher, "hash", "verify")
    success(login(client, user))
    success(register_ada(client), 201)
    assert held == [0, 0]
