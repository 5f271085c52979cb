"""Profile, public record and settings: what users see and set, and what others see of them."""

import re

import pytest
from endpoints import API, UNKNOWN_ID
from helpers import failure, on_both, race, set_user, statements_of, stored, success
from sqlalchemy import select

from core.addresses import search_key
from core.roles import Role
from database import reading
from models import User, UserSession

PROFILE = {
    *("id", "username", "email", "firstName", "lastName", "avatar", "role", "joinDate"),
    *("lastLogin", "isActive", "bio", "location", "website", "emailVerified"),
    *("hasPassword", "provider", "mayChangeAccount", "customFields"),
}
PRIVATE = {"email", "lastLogin", "isActive", "emailVerified", "hasPassword", "provider"}
PUBLIC = PROFILE - PRIVATE - {"mayChangeAccount"}
DEFAULTS = {"theme": "system", "language": "en", "timezone": "UTC"}
DEFAULTS |= {"emailNotifications": True, "pushNotifications": True}
DEFAULTS |= {"privacy": {"profileVisible": True, "progressVisible": False}}


@pytest.fixture
def put(client, auth):
    """Put a profile or settings of the user."""
    return lambda name, **body: client.put(f"/api/users/{name}", json=body, headers=auth.headers)


@pytest.fixture
def view(client, make_user, log_in):
    """Look at a user's public record, as somebody with this role."""
    viewers = {role: log_in(make_user(f"viewer-{role}", role=role)).headers for role in Role}

    def view(user, role=Role.STUDENT):
        return client.get(f"/api/users/{user.id}", headers=viewers[role])

    return view


def test_new_user_has_a_whole_profile(client, auth):
    response = client.get("/api/users/profile", headers=auth.headers)
    profile = success(response)
    assert profile.keys() == PROFILE
    assert "message" not in response.get_json()
    expected = {"id": auth.user.id, "username": "student", "email": "student@example.org"}
    expected |= {"firstName": "First", "lastName": "Last", "role": "student", "isActive": True}
    expected |= {"emailVerified": False, "bio": "", "location": "", "website": ""}
    assert expected.items() <= profile.items()
    for moment in ("joinDate", "lastLogin"):
        assert len(profile[moment]) == len("2026-11-20T09:31:00Z")
        assert profile[moment].endswith("Z")


def test_update_changes_what_is_sent_and_leaves_the_rest(client, auth, put):
    first = success(put("profile", bio="Line one\nline two", website="https://me.example/x?y#z"))
    assert first["bio"] == "Line one\nline two"
    second = success(put("profile", firstName=" Ada ", location="Lisbon"))
    assert second == {**first, "firstName": "Ada", "location": "Lisbon"}
    assert success(client.get("/api/users/profile", headers=auth.headers)) == second
    assert success(put("profile")) == second


def test_empty_text_clears_what_is_optional(put):
    success(put("profile", bio="x", location="y", website="https://z.example"))
    cleared = success(put("profile", bio="", location=" ", website=""))
    assert (cleared["bio"], cleared["location"], cleared["website"]) == ("", "", "")


def test_update_cannot_smuggle_in_what_is_not_the_users_to_set(app, auth, put):
    before = stored(app, auth.user)
    for name in ("email", "username", "role", "isActive", "avatar", "id"):
        assert failure(put("profile", **{name: "admin"}), 400, "invalid_request").keys() == {name}
    assert stored(app, auth.user) == before


@on_both
def test_both_names_changed_at_once_are_found_together(app, auth):
    def rename(number):
        body = {"firstName": f"First{number}"} if number % 2 else {"lastName": f"Last{number}"}
        client = app.test_client()
        return client.put("/api/users/profile", json=body, headers=auth.headers).status_code

    assert set(race(rename)) == {200}
    user = stored(app, auth.user)
    assert user.search_key == search_key("student", user.email, user.first_name, user.last_name)


def test_public_record_shows_what_everybody_may_see(client, auth, view):
    changes = {"bio": "Hello", "location": "Lisbon", "website": "https://me.example"}
    profile = success(client.put("/api/users/profile", json=changes, headers=auth.headers))
    response = view(auth.user)
    record = success(response)
    assert record.keys() == PUBLIC
    assert record == {name: profile[name] for name in PUBLIC}
    assert "message" not in response.get_json()


def test_private_profile_is_for_the_user_and_the_staff(client, auth, put, view):
    success(put("settings", privacy={"profileVisible": False}))
    assert failure(view(auth.user, Role.STUDENT), 403, "profile_private") == {}
    for role in (Role.INSTRUCTOR, Role.ADMIN):
        assert success(view(auth.user, role))["username"] == "student"
    own = success(client.get(f"/api/users/{auth.user.id}", headers=auth.headers))
    assert own.keys() == PUBLIC | {"progress"}


def test_ids_are_found_whatever_their_case(client, auth):
    upper = auth.user.id.upper()
    found = success(client.get(f"/api/users/{upper}", headers=auth.headers))
    assert found["id"] == auth.user.id != upper
    unknown = client.get(f"/api/users/{UNKNOWN_ID}", headers=auth.headers)
    failure(unknown, 404, "user_not_found")
    failure(client.get("/api/users/nobody", headers=auth.headers), 404, "not_found")


def test_inactive_user_is_not_to_be_seen_by_anybody(make_user, view):
    user = make_user("sleeper", is_active=False)
    for role in Role:
        failure(view(user, role), 404, "user_not_found")


@pytest.mark.asvs("8.2.3")
def test_no_answer_tells_what_is_not_for_its_reader(app, client, make_user, log_in, put, auth):
    """Every GET, as each role: no hash, no token, and no stranger's address but for admins."""
    viewers = {role: make_user(f"viewer-{role}", role=role) for role in Role}
    headers = {role: log_in(user).headers for role, user in viewers.items()}
    success(put("settings", privacy={"progressVisible": True}))
    with app.app_context(), reading() as connection:
        secrets = {*connection.scalars(select(User.password_hash))}
        secrets |= {*connection.scalars(select(UserSession.refresh_token_id))}
    secrets |= {auth.access, auth.refresh, "password", "digest", "searchKey", "search_key"}
    reads = [each for each in API if each.method == "GET" and each.operation.role]
    assert len(reads) >= 8
    for endpoint in reads:
        for role, viewer in viewers.items():
            path = endpoint.path.replace(UNKNOWN_ID, auth.user.id)
            response = client.get(path, headers=headers[role])
            for secret in secrets:
                assert secret not in response.text, (endpoint, role)
            allowed = {viewer.email}
            of_accounts = {"admin.list_users", "admin.list_changes", "admin.get_account"}
            of_accounts |= {"admin.export_user"}
            if endpoint.name in of_accounts and role is Role.ADMIN:
                allowed |= {user.email for user in (*viewers.values(), auth.user)}
            assert {*re.findall(r"[\w.+-]+@[\w.-]+", response.text)} <= allowed, endpoint
            if endpoint.name == "users.get_user":
                assert "@" not in response.text


def test_settings_begin_with_the_defaults_and_are_merged(client, auth, put):
    response = client.get("/api/users/settings", headers=auth.headers)
    assert success(response) == DEFAULTS
    assert "message" not in response.get_json()
    first = {"theme": "dark", "emailNotifications": False}
    assert success(put("settings", **first)) == DEFAULTS | first
    changed = success(put("settings", privacy={"progressVisible": True}, pushNotifications=False))
    privacy = {"profileVisible": True, "progressVisible": True}
    assert changed == DEFAULTS | first | {"pushNotifications": False, "privacy": privacy}
    assert success(put("settings")) == success(put("settings", privacy={})) == changed
    assert success(client.get("/users/settings", headers=auth.headers)) == changed


@on_both
def test_settings_changed_at_once_are_all_kept(app, auth, put, client):
    expected = {"theme": "dark", "language": "pt-BR", "timezone": "Asia/Kathmandu"}
    expected |= {"emailNotifications": False, "pushNotifications": False}
    privacy = {"profileVisible": False, "progressVisible": True}
    changes = [{name: value} for name, value in expected.items()]
    changes += [{"privacy": {name: value}} for name, value in privacy.items()]

    def change(number):
        own = app.test_client()
        body = changes[number]
        return own.put("/api/users/settings", json=body, headers=auth.headers).status_code

    assert set(race(change, len(changes))) == {200}
    found = success(client.get("/api/users/settings", headers=auth.headers))
    assert found == expected | {"privacy": privacy}


def test_nothing_changes_where_one_setting_is_refused(client, auth, put):
    for body in ({"timezone": "../../etc/passwd"}, {"privacy": []}, {"role": "admin"}):
        fields = failure(put("settings", theme="dark", **body), 400, "invalid_request")
        assert fields.keys() == body.keys()
    assert success(client.get("/api/users/settings", headers=auth.headers)) == DEFAULTS


def test_user_without_an_account_any_more_changes_nothing(app, auth, monkeypatch):
    """The account goes between the check of the token and the change."""
    late = lambda _most: set_user(app, auth.user, is_active=False) or {"bio": "x"}  # noqa: E731
    monkeypatch.setattr("web.api.bodies.json_object", late)
    response = app.test_client().put("/api/users/profile", json={}, headers=auth.headers)
    failure(response, 401, "token_revoked")
    assert response.headers["WWW-Authenticate"].startswith('Bearer error="invalid_token"')
    assert stored(app, auth.user).bio == ""


@pytest.mark.parametrize(
    ("values", "status", "code"),
    [({"role": "student"}, 403, "forbidden"), ({"is_active": False}, 401, "token_revoked")],
)
def test_body_that_came_late_is_not_acted_on_with_rights_that_are_gone(
    app, client, make_user, log_in, monkeypatch, values, status, code
):
    """An admin sends the headers, is thrown out, and then sends the body."""
    rogue = make_user("rogue", role="admin")
    headers = log_in(rogue).headers

    def arrive_late(_most):
        set_user(app, rogue, **values)
        return {"role": "admin", "isActive": True}

    monkeypatch.setattr("web.api.STALE_AFTER", -1.0)  # all bodies are late
    monkeypatch.setattr("web.api.bodies.json_object", arrive_late)
    response = client.patch(f"/api/users/{rogue.id}", json={}, headers=headers)
    failure(response, status, code)
    user = stored(app, rogue)
    assert {name: getattr(user, name) for name in values} == values


def test_body_in_time_costs_no_second_look_at_the_token(app, put):
    with statements_of(app) as statements:
        success(put("profile"))
    assert len([each for each in statements if "denylist" in each]) == 1
