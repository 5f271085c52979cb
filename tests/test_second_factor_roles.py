"""Where REQUIRE_SECOND_FACTOR demands a factor, a role without one is not in effect."""

import jwt
import pytest
from authenticator import URL, enter, set_up
from helpers import bearer, failure, refresh, statements_of, success, verify

COURSE = {"name": "Python for beginners", "lessons": 12}


@pytest.fixture
def demand(make_app):
    """Return a client of a service that demands a second factor of a role."""
    return lambda role: make_app(require_second_factor=role).test_client()


def roles_of(client, session):
    """Return the user's role wherever the own account shows it."""
    headers = bearer(session["accessToken"])
    profile = {"firstName": "Other"}
    return {
        session["user"]["role"],
        jwt.decode(session["accessToken"], options={"verify_signature": False})["role"],
        verify(client, session["accessToken"]).get_json()["data"]["user"]["role"],
        success(client.get("/api/users/profile", headers=headers))["role"],
        success(client.put("/api/users/profile", json=profile, headers=headers))["role"],
        success(client.get("/api/users/export", headers=headers))["account"]["role"],
    }


def refreshed_role(client, session):
    token = success(refresh(client, session["refreshToken"]))["accessToken"]
    return jwt.decode(token, options={"verify_signature": False})["role"]


def rename(client, user, session, code=""):
    body = {"username": user.username, "password": user.password, "secondFactor": code}
    headers = bearer(session["accessToken"])
    return success(client.put("/api/users/username", json=body, headers=headers))["role"]


@pytest.mark.parametrize(
    ("demanded", "role", "held"),
    [
        *(("admin", "admin", "student"), ("admin", "instructor", "instructor")),
        *(("instructor", "admin", "student"), ("instructor", "instructor", "student")),
        *(("instructor", "student", "student"), ("", "admin", "admin")),
    ],
)
def test_role_takes_effect_with_the_factor(demand, make_user, clock, demanded, role, held):
    client, user = demand(demanded), make_user(role=role)
    session = success(enter(client, user))
    assert roles_of(client, session) == {held}
    assert refreshed_role(client, session) == held
    assert rename(client, user, session) == held
    headers = bearer(session["accessToken"])
    assert success(client.get(URL, headers=headers))["required"] is (held != role)
    app = set_up(client, session["accessToken"], user, clock)
    # The session that set it up has the role at once, the tokens from the next refresh on.
    assert success(client.get("/api/users/profile", headers=headers))["role"] == role
    session = success(enter(client, user, app.code()))
    assert roles_of(client, session) == {role}
    assert refreshed_role(client, session) == role


@pytest.mark.parametrize("query", ["", "?perPage=none"])
def test_refusal_says_that_a_factor_is_what_is_missing(demand, make_user, clock, query):
    client, admin, teacher = demand("admin"), make_user("admin", role="admin"), make_user("teacher")
    session = success(enter(client, admin))
    headers = bearer(session["accessToken"])
    response = client.get(f"/api/users{query}", headers=headers)
    assert failure(response, 403, "second_factor_required") == {}
    assert "/api/auth/second-factor" in response.get_json()["message"]
    url = f"/api/users/{teacher.id}/courses/python-101"
    failure(client.put(url, json=COURSE, headers=headers), 403, "second_factor_required")
    set_up(client, session["accessToken"], admin, clock)
    success(client.get("/api/users", headers=headers))


def test_call_beyond_the_granted_role_stays_forbidden(demand, make_user):
    client = demand("instructor")
    headers = bearer(success(enter(client, make_user(role="instructor")))["accessToken"])
    failure(client.get("/api/users", headers=headers), 403, "forbidden")
    failure(client.get("/api/service-keys", headers=headers), 403, "forbidden")


def test_role_that_is_not_in_effect_sees_what_a_student_sees(demand, make_user):
    client, hidden = demand("instructor"), make_user("hidden", profile_visible=False)
    shown = make_user("shown", progress_visible=False)
    for role, code in [("instructor", "second_factor_required"), ("student", "profile_private")]:
        headers = bearer(success(enter(client, make_user(role, role=role)))["accessToken"])
        failure(client.get(f"/api/users/{hidden.id}", headers=headers), 403, code)
        data = success(client.get(f"/api/users/{shown.id}", headers=headers))
        assert "progress" not in data


def test_account_has_its_granted_role_for_others(demand, make_user, make_key, clock):
    client, admin = demand("admin"), make_user("admin", role="admin")
    other = make_user("other", role="admin")
    student = bearer(success(enter(client, make_user()))["accessToken"])
    assert success(client.get(f"/api/users/{admin.id}", headers=student))["role"] == "admin"
    key = bearer(make_key("users:read", "users:write"))
    assert success(client.get("/api/users?role=admin", headers=key))["total"] == 0
    failure(client.get(f"/api/users/{admin.id}/account", headers=key), 403, "forbidden")
    failure(client.delete(f"/api/users/{admin.id}", headers=key), 403, "forbidden")
    # Another admin, with a factor, sees it too, and may not reset what admins have.
    session = success(enter(client, other))
    set_up(client, session["accessToken"], other, clock)
    headers = bearer(session["accessToken"])
    found = success(client.get("/api/users?role=admin", headers=headers))["users"]
    assert {user["id"] for user in found} == {admin.id, other.id}
    url = f"/api/users/{admin.id}/second-factor"
    failure(client.delete(url, headers=headers), 403, "forbidden")


def test_last_admin_stays_the_last_one_without_a_factor(demand, make_user):
    client, admin = demand("admin"), make_user(role="admin")
    headers = bearer(success(enter(client, admin))["accessToken"])
    body = {"password": admin.password, "confirmation": "DELETE_MY_ACCOUNT"}
    response = client.delete("/api/users/account", json=body, headers=headers)
    failure(response, 409, "last_admin")


def test_guard_still_asks_the_database_once(make_app, make_user):
    app = make_app(require_second_factor="admin")
    client = app.test_client()
    token = success(enter(client, make_user(role="admin")))["accessToken"]
    with statements_of(app) as sent:
        success(verify(client, token))
        success(client.get("/api/users/profile", headers=bearer(token)))
    assert len(sent) == 2
