"""Who may call what: the row of the caller's account decides, before anything else is looked at."""

import re
from datetime import timedelta

import pytest
from endpoints import ENDPOINTS, GUARDED, UNKNOWN_ID
from helpers import bearer, failure, on_one_database, rows, success
from sqlalchemy import update

from core import clock, ids
from core.scopes import Scope
from core.tokens import Purpose
from database import transaction
from extensions import components
from models import Course, User

# Nobody, and the roles; each may do what those before may, too.
CALLERS = [None, "student", "instructor", "admin"]

# Not taken from the declarations, on purpose: so a slip of the pen is seen there. A * is any id.
# A new endpoint belongs in one of the four.
LEAST_CALLER = {
    None: """
        POST /api/auth/register
        POST /api/auth/login
        POST /api/auth/refresh
        POST /api/auth/forgot-password
        POST /api/auth/check-link
        POST /api/auth/reset-password
        POST /api/auth/verify-email
        POST /api/auth/resend-verification
        POST /api/auth/undo-email-change
        GET /api/auth/options
        GET /healthz
        GET /readyz
    """,
    "student": """
        GET /api/auth/verify
        POST /api/auth/logout
        GET /api/auth/sessions
        DELETE /api/auth/sessions
        DELETE /api/auth/sessions/*
        GET /api/users/profile
        PUT /api/users/profile
        GET /api/users/*
        POST /api/users/avatar
        DELETE /api/users/avatar
        GET /api/users/settings
        PUT /api/users/settings
        GET /api/users/progress
        GET /api/users/progress/days
        GET /api/users/courses
        GET /api/users/courses/*
        GET /api/users/certificates
        GET /api/users/export
        PUT /api/users/password
        GET /api/users/email
        POST /api/users/email
        DELETE /api/users/email
        POST /api/users/email/confirm
        PUT /api/users/username
        DELETE /api/users/account
    """,
    "instructor": """
        PUT /api/users/*/courses/*
        DELETE /api/users/*/courses/*
        PUT /api/users/*/courses/*/lessons/*
        DELETE /api/users/*/courses/*/lessons/*
        PUT /api/users/*/achievements/*
        DELETE /api/users/*/achievements/*
        PUT /api/users/*/certificates/*
        DELETE /api/users/*/certificates/*
        GET /api/users/*/courses
        GET /api/users/*/courses/*
        GET /api/users/*/progress
        GET /api/users/*/progress/days
        GET /api/users/*/certificates
    """,
    "admin": """
        GET /api/users
        POST /api/users
        POST /api/users/*/access-link
        GET /api/users/*/account
        PATCH /api/users/*
        DELETE /api/users/*/failed-logins
        DELETE /api/users/*
        GET /api/service-keys
        DELETE /api/service-keys/*
    """,
}
LEAST = {
    line.strip(): least
    for least, lines in LEAST_CALLER.items()
    for line in lines.strip().splitlines()
}

# What a service key may call. All other endpoints are closed to keys.
SCOPES = {
    "learning:read": """
        GET /api/users/*/courses
        GET /api/users/*/courses/*
        GET /api/users/*/progress
        GET /api/users/*/progress/days
        GET /api/users/*/certificates
    """,
    "learning:write": """
        PUT /api/users/*/courses/*
        DELETE /api/users/*/courses/*
        PUT /api/users/*/courses/*/lessons/*
        DELETE /api/users/*/courses/*/lessons/*
        PUT /api/users/*/achievements/*
        DELETE /api/users/*/achievements/*
        PUT /api/users/*/certificates/*
        DELETE /api/users/*/certificates/*
    """,
    "users:read": """
        GET /api/users
        GET /api/users/*
        GET /api/users/*/account
    """,
    "users:write": """
        POST /api/users
        PATCH /api/users/*
        DELETE /api/users/*
    """,
}
SCOPE_OF = {
    line.strip(): scope for scope, lines in SCOPES.items() for line in lines.strip().splitlines()
}


def name_of(endpoint):
    return re.sub("<[^>]+>", "*", str(endpoint))


def callers_of(endpoint):
    return CALLERS[CALLERS.index(LEAST[name_of(endpoint)]) :]


RESTRICTED = [each for each in ENDPOINTS if LEAST.get(name_of(each)) in ("instructor", "admin")]
every_restricted_endpoint = pytest.mark.parametrize("endpoint", RESTRICTED, ids=str)
COURSE = {"name": "Python for beginners", "lessons": 12}


@pytest.fixture
def headers_of(app):
    """Return the headers of a new access token of a user, which may claim another role."""

    def headers_of(user, claimed="student"):
        now = clock.utcnow()
        token = components(app).tokens.encode(
            Purpose.ACCESS,
            user.id,
            issued_at=now,
            expires_at=now + timedelta(minutes=15),
            sid=ids.new_row_id(),
            role=claimed,
        )
        return bearer(token)

    return headers_of


def make_role(app, user, role):
    with app.app_context(), transaction() as session:
        session.execute(update(User).where(User.id == user.id).values(role=role))


def put_course(client, user_id, headers):
    return client.put(f"/api/users/{user_id}/courses/python-101", json=COURSE, headers=headers)


def test_every_endpoint_is_for_somebody():
    assert sorted(map(name_of, ENDPOINTS)) == sorted(LEAST)


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=str)
def test_endpoint_is_for_its_callers_and_nobody_else(endpoint, client, make_user, headers_of):
    # It is called with nothing in it: whoever gets past the guard is told so, or served.
    allowed = callers_of(endpoint)
    assert endpoint.operation.role == allowed[0]
    users = {role: make_user(f"the-{role}", role=role) for role in CALLERS if role}
    for caller in CALLERS:
        # The claim in the token must not matter; so it is the wrong one for each of them.
        claimed = "student" if caller == "admin" else "admin"
        headers = headers_of(users[caller], claimed) if caller else {}
        response = client.open(endpoint.path, method=endpoint.method, headers=headers)
        if caller in allowed:
            assert response.status_code not in (401, 403), (caller, endpoint.path, response.text)
            assert response.status_code < 500, (caller, endpoint.path, response.text)
        elif caller is None:
            failure(response, 401, "token_missing")
            assert response.headers["WWW-Authenticate"] == "Bearer"
        else:
            assert failure(response, 403, "forbidden") == {}
            message = "Your role or service key does not allow this."
            assert response.get_json()["message"] == message
            assert "WWW-Authenticate" not in response.headers  # logging in again does not help


@on_one_database
@pytest.mark.parametrize("endpoint", GUARDED, ids=str)
def test_endpoint_is_for_the_keys_of_its_scope_and_no_others(endpoint, client, make_key):
    keys = {scope: make_key(scope) for scope in Scope}
    keys["others"] = make_key(*(set(Scope) - {SCOPE_OF.get(name_of(endpoint))}))
    assert endpoint.operation.scope == SCOPE_OF.get(name_of(endpoint))
    for scope, key in keys.items():
        response = client.open(endpoint.path, method=endpoint.method, headers=bearer(key))
        if scope == SCOPE_OF.get(name_of(endpoint)):
            assert response.status_code not in (401, 403), (scope, endpoint.path, response.text)
            assert response.status_code < 500, (scope, endpoint.path, response.text)
        else:
            assert failure(response, 403, "forbidden") == {}
            assert "WWW-Authenticate" not in response.headers


@on_one_database
@pytest.mark.parametrize("endpoint", GUARDED, ids=str)
def test_unknown_key_opens_nothing(endpoint, client):
    headers = bearer(f"acsk_{'x' * 43}")
    response = client.open(endpoint.path, method=endpoint.method, data=b"{", headers=headers)
    failure(response, 401, "token_invalid")


def test_head_is_guarded_as_get_is(client, make_user, headers_of):
    student, admin = make_user(), make_user("admin", role="admin")
    assert client.head("/api/users").status_code == 401
    assert client.head("/api/users", headers=headers_of(student)).status_code == 403
    assert client.head("/api/users", headers=headers_of(admin)).status_code == 200


@pytest.mark.parametrize(
    ("before", "after"), [("instructor", "student"), ("admin", "student"), ("admin", "instructor")]
)
def test_lost_role_is_lost_at_once(app, client, make_user, log_in, before, after):
    user, learner = make_user("teacher", role=before), make_user("learner")
    headers = log_in(user).headers

    def record():
        return put_course(client, learner.id, headers)

    def list_accounts():
        return client.get("/api/users", headers=headers)

    act = record if after == "student" else list_accounts
    assert act().status_code in (200, 201)
    make_role(app, user, after)
    failure(act(), 403, "forbidden")
    success(client.get("/api/users/profile", headers=headers))
    make_role(app, user, before)
    success(act())


def test_new_role_is_there_at_once(app, client, auth, make_user):
    learner = make_user("learner")
    failure(put_course(client, learner.id, auth.headers), 403, "forbidden")
    make_role(app, auth.user, "instructor")
    success(put_course(client, learner.id, auth.headers), 201)
    failure(client.get("/api/users", headers=auth.headers), 403, "forbidden")
    make_role(app, auth.user, "admin")
    success(client.get("/api/users", headers=auth.headers))
    success(client.delete(f"/api/users/{learner.id}", headers=auth.headers))


@every_restricted_endpoint
@on_one_database
def test_role_is_asked_for_before_path_query_and_body(endpoint, client, make_user, headers_of):
    headers = headers_of(make_user(), "admin")
    bodies = [
        (b"{", "application/json"),
        (b"[]", "application/json"),
        (b'{"surprise": 1}', "application/json"),
        (b"x" * 70_000, "application/json"),
        (b"x", "text/plain"),
        (b"--x", "multipart/form-data; boundary=x"),
    ]
    # No record can have such an id.
    start, user, record = endpoint.path.partition(UNKNOWN_ID)
    for odd in {endpoint.path, start + user + record.replace(UNKNOWN_ID, "a%00b")}:
        for query in ("", "?page=none&surprise=1&role=a&role=b"):
            for body, content_type in bodies:
                response = client.open(
                    odd + query,
                    method=endpoint.method,
                    data=body,
                    content_type=content_type,
                    headers=headers,
                )
                assert failure(response, 403, "forbidden") == {}


@every_restricted_endpoint
def test_token_is_asked_for_before_the_role(
    endpoint, app, client, make_user, log_in, headers_of, clock
):
    student, gone = make_user(), make_user("gone", is_active=False, role="admin")
    expired = headers_of(student)
    ended = log_in(student).headers
    success(client.post("/api/auth/logout", headers=ended))
    clock.move(minutes=1)
    wrong = {"Authorization": expired["Authorization"] + "x"}
    refused = [({}, "token_missing"), (wrong, "token_invalid"), (ended, "token_revoked")]
    refused.append((headers_of(gone), "token_revoked"))
    for headers, code in refused:
        response = client.open(endpoint.path, method=endpoint.method, data=b"{", headers=headers)
        failure(response, 401, code)
    clock.move(minutes=14)
    response = client.open(endpoint.path, method=endpoint.method, data=b"{", headers=expired)
    failure(response, 401, "token_expired")


@pytest.mark.parametrize(
    ("role", "endpoint"),
    [(role, each) for each in RESTRICTED for role in CALLERS[1:] if role not in callers_of(each)],
    ids=str,
)
def test_own_id_makes_no_difference(role, endpoint, app, client, make_user, headers_of):
    user = make_user(role=role)
    before = rows(app, User)
    own = endpoint.path.replace(UNKNOWN_ID, user.id, 1)
    body = {"role": "admin"} if endpoint.method == "PATCH" else COURSE
    response = client.open(own, method=endpoint.method, json=body, headers=headers_of(user))
    failure(response, 403, "forbidden")
    assert rows(app, User) == before
    assert rows(app, Course) == []


@on_one_database
def test_document_says_which_roles_may_call(client):
    paths = client.get("/openapi.json").get_json()["paths"]
    told = {
        f"{method.upper()} {re.sub('{[^}]+}', '*', path)}": operation
        for path, operations in paths.items()
        for method, operation in operations.items()
    }
    assert told.keys() == LEAST.keys()
    for name, operation in told.items():
        if LEAST[name] is None:
            assert operation["security"] == [], name
            continue
        allowed = CALLERS[CALLERS.index(LEAST[name]) :]
        # A scheme that names no role takes all of them.
        wanted = [] if LEAST[name] == "student" else allowed
        key = [{"serviceKey": [SCOPE_OF[name]]}] if name in SCOPE_OF else []
        assert operation["security"] == [{"bearer": wanted}, *key], name
