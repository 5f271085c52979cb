"""A user's whole way through the service, with every part of it real."""

from contextlib import closing

import pytest
from helpers import NEW_PASSWORD, token_in
from real_service import link_in, read_answer

MEGABYTE = 1024 * 1024


def pieces(body):
    for start in range(0, len(body), 65536):
        yield body[start : start + 65536]


def test_a_user_walks_from_registration_to_the_new_password(service, mail_server):
    user = service.register("walker")
    address = user["email"]

    mail = mail_server.wait_for(address, "Confirm your e-mail address")
    assert link_in(mail).startswith(f"{service.url}/verify-email#token=")
    body = {"token": token_in(mail), "password": user["password"]}
    assert service.call("POST", "/api/auth/verify-email", body).status == 200
    assert service.call("POST", "/auth/verify-email", body).code == "invalid_token"

    first = service.log_in(user, email=address.upper()).data
    answer = service.call("GET", "/api/auth/verify", token=first["accessToken"])
    assert answer.data["user"] == first["user"]
    assert 0 < answer.data["expiresIn"] <= first["expiresIn"] == 900

    spent = {"refreshToken": first["refreshToken"]}
    second = service.call("POST", "/api/auth/refresh", spent).data
    assert second["refreshToken"] != first["refreshToken"]
    again = service.call("POST", "/auth/refresh", spent).data
    assert again["refreshToken"] == second["refreshToken"]

    other = service.log_in(user).data
    sessions = service.call("GET", "/api/auth/sessions", token=again["accessToken"]).data
    assert sorted(each["current"] for each in sessions["sessions"]) == [False, True]

    assert service.call("POST", "/auth/logout", token=second["accessToken"]).status == 200
    for worker in service.workers():
        with service.answered_by(worker):
            for tokens in (first, second, again):
                answer = service.call("GET", "/api/auth/verify", token=tokens["accessToken"])
                assert (answer.status, answer.code) == (401, "token_revoked")
            answer = service.call("GET", "/auth/verify", token=other["accessToken"])
            assert answer.status == 200
    body = {"refreshToken": second["refreshToken"]}
    assert service.call("POST", "/api/auth/refresh", body).code == "token_revoked"

    assert service.call("POST", "/api/auth/forgot-password", {"email": address}).status == 200
    mail = mail_server.wait_for(address, "Choose a new password")
    assert link_in(mail).startswith(f"{service.url}/reset-password#token=")
    body = {"token": token_in(mail), "newPassword": NEW_PASSWORD}
    assert service.call("POST", "/api/auth/reset-password", body).status == 200
    assert service.call("POST", "/api/auth/reset-password", body).code == "invalid_token"
    for worker in service.workers():
        with service.answered_by(worker):
            answer = service.call("GET", "/api/auth/sessions", token=other["accessToken"])
            assert answer.code == "token_revoked"
    mail_server.wait_for(address, "Your password was changed")

    assert service.log_in(user).code == "invalid_credentials"
    assert service.log_in(user, password=NEW_PASSWORD).data["user"] == first["user"]


@pytest.mark.parametrize("service", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("path", "megabytes", "chunked", "keep", "expected"),
    [
        ("auth/login", 10, False, True, (413, "too_large")),
        ("auth/logout", 5, True, False, (401, "token_missing")),
        ("nowhere", 5, True, True, (404, "not_found")),
    ],
)
def test_client_can_read_why_its_big_body_is_refused(
    service, path, megabytes, chunked, keep, expected
):
    # Sent whole before the client looks for an answer, as most clients do.
    body = b"a" * megabytes * MEGABYTE
    headers = {"Content-Type": "application/json"}
    if not keep:
        headers["Connection"] = "close"
    with closing(service.connect()) as connection:
        connection.request("POST", f"/api/{path}", pieces(body) if chunked else body, headers)
        answer = read_answer(connection)
        assert (answer.status, answer.code) == expected
        # The connection is closed, and http.client opens another, or it is good for more.
        connection.request("GET", "/healthz")
        assert read_answer(connection).status == 200
