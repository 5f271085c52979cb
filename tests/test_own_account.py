"""The change of a password and the deletion of an account, by their owner."""

import functools

import pytest
from helpers import (
    NEW_PASSWORD,
    assert_ended,
    change_password,
    connections_held,
    delete_account,
    failure,
    login,
    on_both,
    race,
    refresh,
    set_user,
    success,
    verify,
)
from test_two_users import traces

from core.passwords import Hasher
from database import transaction
from models import Course
from services import sessions


@pytest.fixture
def change(client, auth):
    return functools.partial(change_password, client, auth)


@pytest.fixture
def remove(client, auth):
    return functools.partial(delete_account, client, auth)


@pytest.fixture
def rename(client, auth):
    def rename():
        body = {"username": "renamed", "password": auth.user.password}
        return client.put("/api/users/username", json=body, headers=auth.headers)

    return rename


@pytest.mark.asvs("6.2.2", "6.2.3")
def test_new_password_is_the_one_that_counts(client, auth, change, outbox):
    assert success(change()) == {}
    failure(login(client, auth.user), 401, "invalid_credentials")
    success(login(client, auth.user, NEW_PASSWORD))
    assert outbox.waiting() == [("password_changed", auth.user.email)]
    (notice,) = outbox.deliver()
    assert notice["Subject"] == "Your password was changed"


@pytest.mark.asvs("7.4.3")
def test_change_ends_all_sessions_but_the_current_one(client, auth, change, log_in):
    other = log_in(auth.user)
    success(change())
    assert_ended(client, other)
    success(verify(client, auth))
    success(refresh(client, auth))


@pytest.mark.asvs("6.2.2", "6.2.3")
def test_wrong_current_password_is_a_400_and_changes_nothing(client, auth, change, outbox):
    fields = failure(change(current="not this one"), 400, "wrong_password")
    assert fields.keys() == {"currentPassword"}
    failure(change(current="x" * 1024), 400, "wrong_password")
    failure(change(current=""), 400, "wrong_password")
    assert failure(change(current="x" * 1025), 400, "invalid_request").keys() == {"currentPassword"}
    success(login(client, auth.user))
    assert outbox.waiting() == []


@pytest.mark.asvs("6.2.4", "6.2.5")
def test_new_password_is_judged_as_at_registration(client, auth, change):
    for weak in ("short", "password1", "student-2026"):
        assert failure(change(new=weak), 400, "weak_password").keys() == {"newPassword"}
    success(login(client, auth.user))


@on_both
def test_of_changes_at_once_one_wins(app, client, auth, change):
    def attempt(number):
        new = f"{NEW_PASSWORD} and window {number}"
        response = change_password(app.test_client(), auth, new=new)
        return response.status_code, response.get_json().get("error", {}).get("code")

    answers = race(attempt)
    assert answers.count((200, None)) == 1
    assert {answer for answer in answers if answer[0] != 200} == {(400, "wrong_password")}
    winner = answers.index((200, None))
    success(login(client, auth.user, f"{NEW_PASSWORD} and window {winner}"))


@pytest.mark.parametrize("act", ["change", "remove", "rename"])
def test_session_that_ends_during_the_hash_changes_nothing(
    app, client, auth, log_in, during_the_hash, act, request
):
    """Somebody holds a stolen session and the password; the owner ends all other sessions."""
    owner = log_in(auth.user)
    during_the_hash(
        lambda: success(app.test_client().delete("/auth/sessions", headers=owner.headers))
    )
    failure(request.getfixturevalue(act)(), 401, "token_revoked")
    success(login(client, auth.user))


@pytest.mark.parametrize("values", [{"is_active": False}, {"password_version": 7}])
def test_change_begun_before_the_account_changed_comes_too_late(
    app, auth, change, during_the_hash, values
):
    def alter():
        set_user(app, auth.user, **values)
        with app.app_context(), transaction():
            sessions.end_all(auth.user.id)

    during_the_hash(alter)
    failure(change(), 401, "token_revoked")


def test_no_connection_is_held_while_a_password_is_hashed(app, auth, change, remove, monkeypatch):
    held = connections_held(app, monkeypatch, Hasher, "hash", "verify")
    success(change())
    success(remove(password=NEW_PASSWORD))
    assert held == [0, 0, 0]


def test_deletion_takes_the_password_and_the_literal_confirmation(client, auth, remove):
    fields = failure(remove(password="wrong"), 400, "wrong_password")
    assert fields.keys() == {"password"}
    for wrong in ("delete_my_account", "", "DELETE_MY_ACCOUNT!"):
        fields = failure(remove(confirmation=wrong), 400, "invalid_request")
        assert fields.keys() == {"confirmation"}
    response = client.delete("/api/users/account", json={}, headers=auth.headers)
    missing = failure(response, 400, "invalid_request")
    assert missing.keys() == {"password", "confirmation"}
    success(verify(client, auth))
    assert success(remove()) == {}


@pytest.mark.asvs("6.3.7")
def test_notice_of_a_changed_password_outlives_the_account(change, remove, outbox, auth):
    success(change())
    success(remove(password=NEW_PASSWORD))
    kinds = ("password_changed", "account_deleted")
    assert outbox.waiting() == [(kind, auth.user.email) for kind in kinds]


@on_both
def test_of_deletions_at_once_one_wins(app, auth):
    def attempt(_number):
        return delete_account(app.test_client(), auth).status_code

    assert sorted(race(attempt)) == [200] + [401] * 15


@on_both
def test_what_others_do_with_an_account_while_it_goes_is_no_server_error(
    app, make_user, log_in, auth
):
    teacher = log_in(make_user("teacher", role="instructor")).headers
    base = f"/api/users/{auth.user.id}"
    with app.app_context(), transaction() as session:
        session.add(Course(user_id=auth.user.id, id="c", name="C", lessons=5))

    def act(number):
        client = app.test_client()
        if number == 0:
            return delete_account(client, auth)
        if number % 4 == 1:
            body = {"minutes": number}
            return client.put(f"{base}/courses/c/lessons/{number}", json=body, headers=teacher)
        if number % 4 == 2:
            return client.put("/api/users/profile", json={"bio": "x"}, headers=auth.headers)
        if number % 4 == 3:
            return refresh(client, auth)
        return client.delete("/api/users/avatar", headers=auth.headers)

    statuses = [response.status_code for response in race(act)]
    assert statuses[0] == 200
    assert set(statuses) <= {200, 201, 401, 404}
    assert traces(app, auth.user) == {"outbox.address", "deletions.id"}
