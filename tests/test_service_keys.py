"""Service keys: what other services send instead of a person's token. See test_roles.py for which
key may call what."""

import re
from datetime import timedelta

import pytest
from endpoints import UNKNOWN_ID
from helpers import Log, bearer, failure, on_both, race, rows, statements_of, stored, success
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from core.clock import rfc3339
from core.scopes import Scope
from extensions import db
from models import ServiceKey, User

COURSE = {"name": "Python for beginners", "lessons": 12}
KEY = re.compile(r"acsk_[A-Za-z0-9_-]{43}")


@pytest.fixture
def json_log(make_app):
    make_app(log_format="json")
    return Log()


def deliver(client, key, user_id):
    url = f"/api/users/{user_id}/courses/python-101"
    return client.put(url, json=COURSE, headers=bearer(key))


def list_users(client, key, **query):
    return client.get("/api/users", query_string=query, headers=bearer(key))


# flask keys


def test_created_key_is_printed_alone_and_works(app, client, run, make_user, clock):
    printed, code = run("keys", "create", "--name", " Courses ", "--scope", "learning:write")
    assert code == 0
    # The log goes to standard error, which the runner shows too.
    (key,) = (line for line in printed.splitlines() if " INFO " not in line)
    assert KEY.fullmatch(key)
    assert printed.count(key[5:25]) == 1
    success(deliver(client, key, make_user().id), 201)
    (row,) = rows(app, ServiceKey)
    assert (row.name, row.scopes) == ("Courses", "learning:write")
    assert abs(row.expires_at - row.created_at - timedelta(days=365)) < timedelta(seconds=10)


def test_life_of_a_key_is_what_was_asked_for(app, run):
    scopes = ["--scope", "users:write", "--scope", "users:read", "--scope", "users:read"]
    for options, days in (
        (["--days", "3650"], 3650),
        (["--days", "1"], 1),
        (["--no-expiry"], None),
    ):
        assert run("keys", "create", "--name", options[-1], *scopes, *options)[1] == 0
        (row,) = rows(app, ServiceKey, name=options[-1])
        assert row.scopes == "users:read users:write"
        life = row.expires_at and round((row.expires_at - row.created_at) / timedelta(days=1))
        assert life == days


@pytest.mark.parametrize(
    "options",
    [
        *("--name x", "--scope users:read", "--name x --scope users:delete"),
        *("--name x --scope users:read --days 0", "--name x --scope users:read --days 3651"),
        "--name x --scope users:read --days 1 --no-expiry",
        "--name x --scope groups:staff --scope users:write",
        *(f"--name {'n' * 65} --scope users:read", "--name a\x00b --scope users:read"),
    ],
)
def test_wrong_options_create_nothing(app, run, options):
    printed, code = run("keys", "create", *options.split(" "))
    assert code == 2
    assert "acsk_" not in printed
    assert rows(app, ServiceKey) == []


@on_both
def test_name_is_given_once(app, run, make_key):
    make_key("users:read", name="Courses")
    printed, code = run("keys", "create", "--name", "Courses", "--scope", "users:read")
    assert (code, printed) == (1, "Error: There is a service key with this name already.\n")
    assert len(rows(app, ServiceKey)) == 1
    both = "--scope", "groups:staff", "--scope", "groups:write"
    assert run("keys", "create", "--name", "courses", *both)[1] == 0


@on_both
def test_keys_are_listed_newest_first(app, client, run, make_key, make_user, clock):
    key = make_key("learning:write", "users:read", name="Courses")
    clock.move(seconds=1)
    make_key("users:read", name="Reports", expires_at=clock.utcnow())
    deliver(client, key, make_user().id)
    (oldest,), (newest,) = (rows(app, ServiceKey, name=name) for name in ("Courses", "Reports"))
    times = rfc3339(newest.created_at), rfc3339(newest.expires_at), "never"
    first = (newest.id, "Reports", "users:read", *times)
    times = rfc3339(oldest.created_at), "never", rfc3339(oldest.last_used_at)
    second = (oldest.id, "Courses", "learning:write users:read", *times)
    assert run("keys", "list")[0] == "\t".join(first) + "\n" + "\t".join(second) + "\n"


@on_both
def test_revoked_key_is_gone_at_once(app, client, run, make_key, make_user):
    key, other = make_key("learning:write", name="Courses"), make_key("learning:write")
    user = make_user()
    success(deliver(client, key, user.id), 201)
    assert run("keys", "revoke", "Courses")[1] == 0
    failure(deliver(client, key, user.id), 401, "token_invalid")
    success(deliver(client, other, user.id))
    printed, code = run("keys", "revoke", "Courses")
    assert (code, printed) == (1, "Error: There is no such service key.\n")


# Keys over HTTP


def test_admin_lists_and_revokes_keys(app, client, admin, make_key, clock):
    moment = clock.utcnow() + timedelta(days=1)
    key = make_key("users:read", "learning:write", name="Courses", expires_at=moment)
    (row,) = rows(app, ServiceKey)
    response = client.get("/api/service-keys", headers=admin.headers)
    assert "message" not in response.get_json()
    shown = {"id": row.id, "name": "Courses", "scopes": ["learning:write", "users:read"]}
    shown |= {"createdAt": rfc3339(row.created_at), "expiresAt": rfc3339(moment)}
    shown["lastUsedAt"] = None
    assert success(response) == {"keys": [shown]}
    unknown = client.delete(f"/api/service-keys/{UNKNOWN_ID}", headers=admin.headers)
    failure(unknown, 404, "not_found")
    assert success(client.delete(f"/api/service-keys/{row.id}", headers=admin.headers)) == {}
    failure(list_users(client, key), 401, "token_invalid")
    assert success(client.get("/api/service-keys", headers=admin.headers)) == {"keys": []}


# The guard


def test_what_is_no_key_is_refused(client, make_key):
    key = make_key("users:read")
    parts = (key[:-1], f"{key}A", f"acsk_{key[5:].swapcase()}", f"{key}=", f"{key} {key}")
    for other in ("acsk_", "acsk_" + "x" * 43, "acsk_\u00e4", f"ACSK{key[4:]}", *parts):
        response = list_users(client, other)
        failure(response, 401, "token_invalid")
        assert 'error="invalid_token"' in response.headers["WWW-Authenticate"]
    success(client.get("/api/users", headers={"Authorization": f"bEARER {key}"}))


def test_key_works_until_it_expires(client, make_key, clock):
    key = make_key("users:read", expires_at=clock.utcnow() + timedelta(days=1))
    clock.move(hours=23)
    success(list_users(client, key))
    clock.move(hours=1)
    response = list_users(client, key)
    failure(response, 401, "token_expired")
    assert response.headers["WWW-Authenticate"].startswith('Bearer error="invalid_token"')


def test_key_is_checked_by_one_query(app, client, make_key):
    key = make_key("users:read")
    success(list_users(client, key))
    with statements_of(app) as sent:
        failure(client.get("/api/users/profile", headers=bearer(key)), 403, "forbidden")
    assert len(sent) == 1, sent


@on_both
def test_use_is_written_once_an_hour(app, client, make_key, clock):
    key, written = make_key("users:read"), []

    def count(connection, cursor, statement, *_more):
        if statement.startswith("UPDATE service_keys"):
            written.append(cursor.rowcount)

    with app.app_context():
        engine = db.engine
    event.listen(engine, "after_cursor_execute", count)
    race(lambda _: success(list_users(app.test_client(), key)))
    event.remove(engine, "after_cursor_execute", count)
    assert sum(written) == 1
    (row,) = rows(app, ServiceKey)
    first = row.last_used_at
    assert clock.utcnow() - first < timedelta(minutes=1)
    clock.move(minutes=59)
    success(list_users(client, key))
    assert rows(app, ServiceKey)[0].last_used_at == first
    clock.move(minutes=2)
    success(list_users(client, key))
    assert rows(app, ServiceKey)[0].last_used_at > first + timedelta(hours=1)


@pytest.mark.parametrize("unavailable", [True, False])
@on_both
def test_key_reads_while_its_use_cannot_be_written(client, make_key, monkeypatch, unavailable):
    key = make_key("users:read")

    def refuse():
        with db.engine.connect() as connection:
            error = connection.dialect.loaded_dbapi.OperationalError("the disk is full")
        # A mistake in our own statement is not hidden.
        raise OperationalError("UPDATE", {}, error) if unavailable else ZeroDivisionError

    monkeypatch.setattr("services.service_keys.one_statement", refuse)
    assert list_users(client, key).status_code == (200 if unavailable else 500)


# What a key may see and change


def test_key_sees_private_profiles_with_their_progress(client, make_key, make_user):
    user = make_user(profile_visible=False, progress_visible=False)
    key = make_key("users:read")
    shown = success(client.get(f"/api/users/{user.id}", headers=bearer(key)))
    assert shown["progress"]["totalCourses"] == 0
    assert "email" not in shown


@pytest.mark.parametrize("is_active", [True, False])
def test_key_never_touches_an_admin(app, client, make_user, make_key, is_active):
    other = make_user("other", role="admin", is_active=is_active)
    headers, url = bearer(make_key(*Scope)), f"/api/users/{other.id}"
    before = rows(app, User)
    for method, path, body in (
        ("PATCH", "", {"isActive": not is_active}),
        ("PATCH", "", {}),
        ("DELETE", "", None),
        ("PUT", "/courses/python-101", COURSE),
        ("DELETE", "/courses/python-101", None),
        *([("GET", "", None)] if is_active else []),
    ):
        response = client.open(f"{url}{path}", method=method, json=body, headers=headers)
        assert failure(response, 403, "forbidden") == {}
    assert rows(app, User) == before


def test_key_makes_no_admin(app, client, make_user, make_key):
    user, headers = make_user(), bearer(make_key(*Scope))
    for user_id in (user.id, UNKNOWN_ID):
        url = f"/api/users/{user_id}"
        response = client.patch(url, json={"role": "admin"}, headers=headers)
        failure(response, 403, "forbidden")
    assert stored(app, user).role == "student"
    url = f"/api/users/{user.id}"
    changed = client.patch(url, json={"role": "instructor"}, headers=headers)
    assert success(changed)["role"] == "instructor"


@on_both
def test_admins_are_not_in_the_lists_of_a_key(client, admin, make_user, make_key):
    make_user()
    key = make_key("users:read")

    def names(**query):
        data = success(list_users(client, key, **query))
        assert data["total"] == len(data["users"])
        return [user["username"] for user in data["users"]]

    assert names() == ["student"]
    assert names(role="admin") == names(search="head") == names(email=admin.email) == []
    assert names(role="student") == ["student"]
    listed = success(client.get("/api/users?role=admin", headers=admin.headers))
    assert listed["total"] == 1


# The look-up


@on_both
def test_accounts_are_looked_up_by_their_whole_address_and_username(client, admin, make_user):
    make_user("Ada.L")
    make_user("ada.l2", email="ada.l@example.org.example")
    for query, found in [
        ({"email": "ada.l@example.org"}, ["Ada.L"]),
        ({"email": " ADA.L@Example.ORG "}, ["Ada.L"]),
        ({"username": "aDA.l"}, ["Ada.L"]),
        ({"username": "ada"}, []),
        ({"username": "ada.l", "email": "ada.l@example.org.example"}, []),
        ({"username": "ada.l2", "role": "student", "isActive": "true"}, ["ada.l2"]),
    ]:
        data = success(client.get("/api/users", query_string=query, headers=admin.headers))
        assert [user["username"] for user in data["users"]] == found, query
    for name, value in [("email", "ada.l"), ("username", "a b")]:
        response = client.get("/api/users", query_string={name: value}, headers=admin.headers)
        assert failure(response, 400, "invalid_request").keys() == {name}


# What is written down


def test_log_and_events_name_the_key(app, json_log, client, admin, make_key, make_user, clock):
    end = clock.utcnow() + timedelta(minutes=5)
    user, key = make_user(), make_key(*Scope, name="Courses", expires_at=end)
    (row,) = rows(app, ServiceKey)
    name, url, headers = f"key:{row.id}", f"/api/users/{user.id}", bearer(key)
    json_log.text()
    success(client.patch(url, json={"role": "instructor"}, headers=headers))
    changed, request = json_log.records()
    assert (changed["message"], changed["user"], changed["by"]) == ("role_changed", user.id, name)
    assert (request["message"], request["user"]) == ("request", name)
    success(client.delete(url, headers=headers))
    failure(client.get("/api/users/profile", headers=headers), 403, "forbidden")
    failure(client.delete(f"/api/users/{admin.id}", headers=headers), 403, "forbidden")
    clock.move(minutes=5)
    failure(list_users(client, key), 401, "token_expired")
    success(client.delete(f"/api/service-keys/{row.id}", headers=admin.headers))
    failure(list_users(client, key), 401, "token_invalid")
    kept = ("message", "user", "by", "reason")
    assert [tuple(map(line.get, kept)) for line in json_log.events()] == [
        ("account_deleted", user.id, name, None),
        ("service_key_refused", name, None, "forbidden"),
        ("service_key_refused", name, None, "forbidden"),
        ("service_key_refused", name, None, "token_expired"),
        ("service_key_revoked", name, admin.id, None),
        ("service_key_refused", "-", None, "token_invalid"),
    ]


def test_refusal_of_a_user_is_no_event_of_a_key(client, auth, json_log):
    failure(client.get("/api/users", headers=auth.headers), 403, "forbidden")
    failure(client.get("/api/users"), 401, "token_missing")
    assert json_log.events() == []


def test_command_logs_creation_and_revocation(app, json_log, run):
    run("keys", "create", "--name", "Courses", "--scope", "users:read")
    (row,) = rows(app, ServiceKey)
    run("keys", "revoke", "Courses")
    found = [(line["message"], line["user"]) for line in json_log.events()]
    name = f"key:{row.id}"
    assert found == [("service_key_created", name), ("service_key_revoked", name)]
