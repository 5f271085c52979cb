"""Who may call what: the row of the caller's account decides, before anything else is looked at."""

import re
from datetime import timedelta

import pytest
from endpoints import ENDPOINTS, GUARDED, UNKNOWN_ID
from helpers import bearer, failure, on_one_database, set_user, success

from core import clock, ids
from core.scopes import Scope
from core.tokens import Purpose
from extensions import components

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
        GET /api/auth/options
        POST /api/auth/providers/*/start
        GET /api/auth/providers/*/callback
        GET /api/certificates/*
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
        GET /api/users/*/activity
        POST /api/users/avatar
        DELETE /api/users/avatar
        GET /api/users/settings
        PUT /api/users/settings
        GET /api/users/progress
        GET /api/users/progress/days
        GET /api/users/courses
        GET /api/users/courses/*
        GET /api/users/certificates
        PUT /api/users/certificates/*
        GET /api/users/export
        PUT /api/users/password
        GET /api/users/email
        POST /api/users/email
        DELETE /api/users/email
        POST /api/users/email/confirm
        PUT /api/users/username
        DELETE /api/users/account
        GET /api/groups
        GET /api/auth/second-factor
        POST /api/auth/second-factor
        DELETE /api/auth/second-factor
        POST /api/auth/second-factor/confirm
        POST /api/auth/second-factor/recovery-codes
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
        GET /api/groups/*/days
    """,
    "admin": """
        GET /api/users
        GET /api/users/changes
        POST /api/users
        POST /api/users/*/access-link
        GET /api/users/*/account
        PATCH /api/users/*
        DELETE /api/users/*/failed-logins
        DELETE /api/users/*/second-factor
        DELETE /api/users/*
        PUT /api/groups/*
        DELETE /api/groups/*
        PUT /api/groups/*/members/*
        DELETE /api/groups/*/members/*
        GET /api/service-keys
        DELETE /api/service-keys/*
        GET /metrics
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
        GET /api/groups/*/days
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
        GET /api/users/changes
        GET /api/users/*
        GET /api/users/*/account
        GET /api/groups
    """,
    "users:write": """
        POST /api/users
        PATCH /api/users/*
        DELETE /api/users/*
    """,
    "groups:write": """
        PUT /api/groups/*
        PUT /api/groups/*/members/*
        DELETE /api/groups/*/members/*
    """,
    "metrics:read": """
        GET /metrics
    """,
}
# Below "admin", these are for the user with the id in the path only.
OWN = {"GET /api/users/*/activity"}
SCOPE_OF = {
    line.strip(): scope for scope, lines in SCOPES.items() for line in lines.strip().splitlines()
}


def name_of(endpoint):
    return re.sub("<[^>]+>", "*", str(endpoint))


def callers_of(endpoint):
    return CALLERS[CALLERS.index(LEAST[name_of(endpoint)]) :]


# One of each shape: with and without a query, a body and two ids in the path.
SHAPES = [
    *("GET /api/users", "PATCH /api/users/*", "DELETE /api/users/*"),
    *("PUT /api/users/*/courses/*", "DELETE /api/service-keys/*"),
]
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


def test_every_endpoint_is_for_somebody():
    assert sorted(map(name_of, ENDPOINTS)) == sorted(LEAST)


@on_one_database
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
        path = endpoint.path
        # A user's own id makes no difference for those who may not call it.
        if caller and (caller not in allowed or name_of(endpoint) in OWN):
            path = path.replace(UNKNOWN_ID, users[caller].id, 1)
        response = client.open(path, method=endpoint.method, headers=headers)
        if caller in allowed:
            assert response.status_code not in (401, 403), (caller, path, response.text)
            assert response.status_code < 500, (caller, path, response.text)
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


def test_new_role_is_there_at_once_and_a_lost_one_is_lost(app, client, auth, make_user):
    learner = make_user("learner")
    url = f"/api/users/{learner.id}/courses/python-101"
    for role in (*CALLERS[1:], "instructor", "student", "admin"):
        set_user(app, auth.user, role=role)
        deliver = client.put(url, json=COURSE, headers=auth.headers)
        list_accounts = client.get("/api/users", headers=auth.headers)
        assert (deliver.status_code == 403, list_accounts.status_code == 403) == (
            role == "student",
            role != "admin",
        )
        success(client.get("/api/users/profile", headers=auth.headers))


@on_one_database
@pytest.mark.parametrize(
    "endpoint", [each for each in ENDPOINTS if name_of(each) in SHAPES], ids=str
)
def test_token_is_asked_for_before_the_role_and_both_before_path_query_and_body(
    endpoint, client, make_user, log_in, headers_of, clock
):
    # No record can have such an id.
    start, user, record = endpoint.path.partition(UNKNOWN_ID)
    url = f"{start}{user}{record.replace(UNKNOWN_ID, 'a%00b')}?page=none&surprise=1&role=a&role=b"

    def refused(headers, status, code):
        for body, content_type in (
            (b"{", "application/json"),
            (b'{"surprise": 1}', "application/json"),
            (b"x" * 70_000, "application/json"),
            (b"--x", "multipart/form-data; boundary=x"),
        ):
            options = {"method": endpoint.method, "data": body, "content_type": content_type}
            assert failure(client.open(url, headers=headers, **options), status, code) == {}

    student, gone = make_user(), make_user("gone", is_active=False, role="admin")
    expired = headers_of(student, "admin")
    refused(expired, 403, "forbidden")
    ended = log_in(student).headers
    success(client.post("/api/auth/logout", headers=ended))
    refused({}, 401, "token_missing")
    refused({"Authorization": expired["Authorization"] + "x"}, 401, "token_invalid")
    refused(ended, 401, "token_revoked")
    refused(headers_of(gone), 401, "token_revoked")
    clock.move(minutes=15)
    refused(expired, 401, "token_expired")


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
