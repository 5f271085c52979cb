"""Who may call what: the row of the caller's account decides, before anything else is looked at."""

import re
from datetime import timedelta

import pytest
from endpoints import ENDPOINTS, GUARDED, UNKNOWN_ID
from helpers import bearer, failure, set_user, success

from core import clock, ids
from core.scopes import Scope
from core.tokens import Purpose
from extensions import components

# Nobody, and the roles; each may do what those before may, too.
CALLERS = [None, "student", "instructor", "admin"]

# Not taken from the declarations, on purpose: so a slip of the pen is seen there. A * is any id.
# Each endpoint has the lowest caller that may call it, and the scopes with which a key may, or -.
CALLS = """
    POST /api/auth/register nobody -
    POST /api/auth/login nobody -
    POST /api/auth/refresh nobody -
    POST /api/auth/forgot-password nobody -
    POST /api/auth/check-link nobody -
    POST /api/auth/reset-password nobody -
    POST /api/auth/verify-email nobody -
    POST /api/auth/resend-verification nobody -
    GET /api/auth/options nobody -
    POST /api/auth/providers/*/start nobody -
    POST /api/auth/applications/check nobody -
    POST /api/auth/applications/codes student -
    GET /api/auth/providers/*/callback nobody -
    GET /api/certificates/* nobody -
    GET /healthz nobody -
    GET /readyz nobody -
    GET /api/auth/verify student -
    POST /api/auth/logout student -
    GET /api/auth/sessions student -
    DELETE /api/auth/sessions student -
    DELETE /api/auth/sessions/* student -
    GET /api/users/profile student -
    PUT /api/users/profile student -
    GET /api/users/* student users:read
    GET /api/activity admin -
    GET /api/users/*/export admin -
    GET /api/users/*/activity student -
    POST /api/users/avatar student -
    DELETE /api/users/avatar student -
    GET /api/users/settings student -
    PUT /api/users/settings student -
    GET /api/users/progress student -
    GET /api/users/progress/days student -
    GET /api/users/courses student -
    GET /api/users/courses/* student -
    GET /api/users/certificates student -
    PUT /api/users/certificates/* student -
    GET /api/users/export student -
    PUT /api/users/password student -
    GET /api/users/email student -
    POST /api/users/email student -
    DELETE /api/users/email student -
    POST /api/users/email/confirm student -
    PUT /api/users/username student -
    DELETE /api/users/account student -
    GET /api/groups student users:read
    POST /api/auth/passkeys/options nobody -
    GET /api/auth/passkeys student -
    POST /api/auth/passkeys student -
    PUT /api/auth/passkeys/* student -
    DELETE /api/auth/passkeys/* student -
    GET /api/auth/second-factor student -
    POST /api/auth/second-factor student -
    DELETE /api/auth/second-factor student -
    POST /api/auth/second-factor/confirm student -
    POST /api/auth/second-factor/recovery-codes student -
    POST /api/learning/courses instructor learning:write
    POST /api/learning/lessons instructor learning:write
    POST /api/learning/achievements instructor learning:write
    POST /api/learning/certificates instructor learning:write
    PUT /api/users/*/courses/* instructor learning:write
    DELETE /api/users/*/courses/* instructor learning:write
    PUT /api/users/*/courses/*/lessons/* instructor learning:write
    DELETE /api/users/*/courses/*/lessons/* instructor learning:write
    PUT /api/users/*/achievements/* instructor learning:write
    DELETE /api/users/*/achievements/* instructor learning:write
    PUT /api/users/*/certificates/* instructor learning:write
    DELETE /api/users/*/certificates/* instructor learning:write
    GET /api/users/*/courses instructor learning:read
    GET /api/users/*/courses/* instructor learning:read
    GET /api/users/*/progress instructor learning:read
    GET /api/users/*/progress/days instructor learning:read
    GET /api/users/*/certificates instructor learning:read
    GET /api/groups/*/days instructor learning:read
    GET /api/users admin users:read
    GET /api/users/changes admin users:read
    POST /api/users admin users:write
    POST /api/users/*/access-link admin -
    GET /api/users/*/account admin users:read
    PATCH /api/users/* admin users:write
    PATCH /api/users admin users:write
    POST /api/users/lists admin users:read,users:write
    POST /api/users/removals admin -
    POST /api/users/access-links admin -
    DELETE /api/users/*/failed-logins admin -
    DELETE /api/users/*/second-factor admin -
    DELETE /api/users/* admin users:write
    PUT /api/groups/* admin groups:write
    DELETE /api/groups/* admin -
    POST /api/groups/*/members admin groups:write
    PUT /api/groups/*/members/* admin groups:write
    DELETE /api/groups/*/members/* admin groups:write
    GET /api/learning/courses admin learning:read
    GET /api/learning/lessons admin learning:read
    GET /api/learning/achievements admin learning:read
    GET /api/learning/certificates admin learning:read
    GET /api/learning/memberships admin learning:read,users:read
    GET /api/service-keys admin -
    DELETE /api/service-keys/* admin -
    GET /metrics admin metrics:read
"""
ROWS = [row.split() for row in CALLS.strip().splitlines()]
LEAST = {f"{method} {path}": None if who == "nobody" else who for method, path, who, _ in ROWS}
SCOPES = {
    f"{method} {path}": scopes.split(",") for method, path, _, scopes in ROWS if scopes != "-"
}
# And for instructors where INSTRUCTOR_RIGHTS says so.
HELPING = {"GET /api/users", "GET /api/users/*/account", "POST /api/users/*/access-link"}
HELPING |= {"POST /api/users/access-links"}
# Below "admin", these are for the user with the id in the path only.
OWN = {"GET /api/users/*/activity"}


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
        times = {"issued_at": now, "expires_at": now + timedelta(minutes=15)}
        said = {"sid": ids.new_row_id(), "role": claimed}
        return bearer(components(app).tokens.encode(Purpose.ACCESS, user.id, **times, **said))

    return headers_of


def test_every_endpoint_is_for_somebody():
    assert sorted(map(name_of, ENDPOINTS)) == sorted(LEAST)
    assert {name_of(each) for each in ENDPOINTS if each.operation.for_teachers} == HELPING


@pytest.mark.asvs("6.1.3", "8.1.1", "8.2.1", "8.2.2")
@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=str)
def test_endpoint_is_for_its_callers_and_nobody_else(endpoint, client, make_user, headers_of):
    # It is called with nothing in it: a caller that gets past the guard is told so, or served.
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


@pytest.mark.parametrize("endpoint", GUARDED, ids=str)
def test_endpoint_is_for_the_keys_of_its_scopes_and_no_others(endpoint, client, make_key):
    needed = SCOPES.get(name_of(endpoint), [])
    assert [*endpoint.operation.scopes] == needed
    others = [set(Scope) - {each} for each in needed or [None]]
    for scopes in ({*needed}, *({scope} for scope in Scope), *others):
        if not scopes:
            continue
        key = make_key(*scopes)
        response = client.open(endpoint.path, method=endpoint.method, headers=bearer(key))
        if needed and scopes == {*needed}:
            assert response.status_code not in (401, 403), (scopes, endpoint.path, response.text)
            assert response.status_code < 500, (scopes, endpoint.path, response.text)
        else:
            assert failure(response, 403, "forbidden") == {}
            assert "WWW-Authenticate" not in response.headers


@pytest.mark.asvs("8.3.2")
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


@pytest.mark.asvs("8.3.1")
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


@pytest.mark.asvs("8.1.1", "8.2.1")
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
        key = [{"serviceKey": SCOPES[name]}] if name in SCOPES else []
        assert operation["security"] == [{"bearer": wanted}, *key], name
