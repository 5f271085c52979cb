"""What a school decides: the rights of students, new profiles, time zones, its own numbers."""

import pytest
from helpers import (
    PASSWORD,
    bearer,
    delete_account,
    execute,
    failure,
    on_both,
    on_postgres,
    register,
    rows,
    set_user,
    success,
    while_changing,
)
from sqlalchemy import insert

from core import clock
from models import PendingEmail, User

PERSON = {"username": "new", "email": "new@b.org", "firstName": "A", "lastName": "B"}
SURE = {"password": PASSWORD}


@pytest.fixture
def strict(make_app):
    return make_app(student_rights="profile", require_second_factor="instructor").test_client()


def test_students_without_the_right_keep_names_addresses_and_accounts(
    app, client, strict, auth, outbox
):
    def put(path, body, method="PUT", of=strict):
        return of.open(f"/api/users/{path}", method=method, json=body, headers=auth.headers)

    waits = {"id": "x", "new_email": "n@b.org", "expires_at": clock.utcnow(), "tries": 0}
    execute(app, insert(PendingEmail).values(user_id=auth.user.id, **waits))
    before = rows(app, User), rows(app, PendingEmail)
    for call in (
        lambda: put("profile", {"firstName": "Other"}),
        lambda: put("profile", {"lastName": "Other", "bio": "A bio"}),
        lambda: put("email", {"newEmail": "a@b.org", **SURE}, "POST"),
        lambda: put("email/confirm", {"code": "0000-0000"}, "POST"),
        lambda: put("username", {"username": "other", **SURE}),
        lambda: delete_account(strict, auth),
    ):
        failure(call(), 403, "forbidden")
    assert (rows(app, User), rows(app, PendingEmail)) == before
    same = {"firstName": "First", "lastName": "Last", "bio": "A bio"}
    assert success(put("profile", same))["mayChangeAccount"] is False
    assert success(put("profile", {"bio": "A bio"}, of=client))["mayChangeAccount"] is True
    success(put("settings", {"theme": "dark"}))
    success(put("profile", {"firstName": "Other"}, of=client))
    set_user(app, auth.user, role="instructor")  # which is not in effect without a factor
    assert success(put("profile", {"firstName": "Third"}))["mayChangeAccount"] is True
    success(delete_account(strict, auth))


def test_new_accounts_have_the_profile_and_the_time_zone_of_the_school(make_app, make_key, outbox):
    app = make_app(profiles="private", default_timezone="Europe/Berlin")
    client, key = app.test_client(), bearer(make_key("users:write"))
    success(register(client, "registered"), 201)
    success(register(client, "elsewhere", timezone="Asia/Tokyo"), 201)
    success(client.post("/api/users", json=PERSON, headers=key), 201)
    line = '{"email": "i@b.org", "firstName": "A", "lastName": "B"%s}\n'
    lines = line % "" + line.replace("i@", "j@") % ', "profileVisible": true, "timezone": "UTC"'
    app.test_cli_runner().invoke(args=["users", "import", "-"], input=lines)
    assert {(row.username, row.timezone, row.profile_visible) for row in rows(app, User)} == {
        *((name, "Europe/Berlin", False) for name in ("registered", "new", "i-user")),
        *(("elsewhere", "Asia/Tokyo", False), ("j-user", "UTC", True)),
    }


@on_both
def test_an_external_id_is_unique_found_and_cleared(client, admin, make_key, run):
    key = bearer(make_key("users:write", "users:read"))

    def patch(user, external_id):
        url, body = f"/api/users/{user['id']}", {"externalId": external_id}
        return client.patch(url, json=body, headers=key)

    def found(external_id):
        url = f"/api/users?externalId={external_id}"
        return [user["username"] for user in success(client.get(url, headers=key))["users"]]

    body = {**PERSON, "externalId": " S-1 "}
    first = success(client.post("/api/users", json=body, headers=key), 201)["user"]
    assert (first["externalId"], found("S-1"), found("s-1")) == ("S-1", ["new"], [])
    both = client.post("/api/users", json={**body, "username": "two"}, headers=key)
    assert failure(both, 409, "email_taken").keys() == {"email", "externalId"}
    body |= {"username": "two", "email": "two@b.org"}
    taken = client.post("/api/users", json=body, headers=key)
    assert failure(taken, 409, "external_id_taken").keys() == {"externalId"}
    second = success(client.post("/api/users", json={**body, "externalId": ""}, headers=key), 201)
    assert failure(patch(second["user"], "S-1"), 409, "external_id_taken").keys() == {"externalId"}
    success(patch(first, "S-1"))
    assert success(patch(first, ""))["externalId"] == ""
    assert success(patch(second["user"], "S-1"))["externalId"] == "S-1"
    failure(patch(first, "x" * 65), 400, "invalid_request")
    assert success(patch(first, "S-2"))["externalId"] == "S-2"
    numbered = '{"email": "%s@b.org", "firstName": "A", "lastName": "B", "externalId": "%s"}\n'
    lines = "".join(numbered % pair for pair in (("ada", "S-2"), ("ben", ""), ("cyd", "")))
    assert "made: 2\n" in run("users", "import", "-", typed=lines)[0]
    lines = "".join(numbered % pair for pair in (("eva", "S-3"), ("fay", "S-3")))
    assert "refused: 1" in run("users", "import", "-", typed=lines)[0]


@on_postgres
def test_an_external_id_that_is_given_meanwhile_is_taken(app, client, admin, make_user):
    one, two = make_user("one"), make_user("two")

    def patch():
        url = f"/api/users/{one.id}"
        return client.patch(url, json={"externalId": "S-1"}, headers=admin.headers)

    answer = while_changing(app, two, {"external_id": "S-1"}, patch)
    assert failure(answer, 409, "external_id_taken").keys() == {"externalId"}


@on_both
def test_lists_are_sorted_by_name_and_by_the_last_login(app, client, admin, make_user):
    names = [("Li", "Zoe"), ("Lia", "Adam"), ("Ängel", "B"), ("angel", "A"), ("De Vries", "An")]
    names.append(("De", "Zoe"))
    for number, (last, first) in enumerate(names):
        times = {"last_login_at": clock.utcnow()} if number % 2 else {}
        make_user(f"user{number}", first_name=first, last_name=last, **times)

    def listed(sort):
        url = f"/api/users?role=student&sort={sort}&perPage=4"
        pages = [success(client.get(f"{url}&page={n}", headers=admin.headers)) for n in (1, 2)]
        return [int(user["username"][4:]) for page in pages for user in page["users"]]

    assert listed("name") == [3, 2, 5, 4, 0, 1]
    assert listed("-lastLogin") == [5, 3, 1, 4, 2, 0]
    assert listed("-joinDate") == [5, 4, 3, 2, 1, 0]
    failure(client.get("/api/users?sort=id", headers=admin.headers), 400, "invalid_request")
