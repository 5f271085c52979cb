"""A user's whole way through the service, with every part of it real."""

import json
import socket

import pytest
from real_service import link_in, read_answer, registration

NEW_PASSWORD = "seven green lamps by the door"
MEGABYTE = 1024 * 1024


# A big body, sent whole before the client looks for an answer, as most clients do.
SENDING = [
    pytest.param(
        chunked, keep, id=f"{'chunked' if chunked else 'whole'}-{'keep' if keep else 'close'}"
    )
    for chunked in (False, True)
    for keep in (True, False)
]


def pieces(body):
    for start in range(0, len(body), 65536):
        yield body[start : start + 65536]


def test_a_user_walks_from_registration_to_the_new_password(service, mail_server):
    user = registration("walker")
    address = user["email"]
    answer = service.call("POST", "/api/auth/register", user)
    assert answer.status == 201
    user_id = answer.data["userId"]

    link = link_in(mail_server.wait_for(address, "Confirm your e-mail address"))
    assert link.startswith(f"{service.url}/verify-email#token=")
    body = {"token": link.partition("#token=")[2]}
    assert service.call("POST", "/api/auth/verify-email", body).status == 200
    assert service.call("POST", "/auth/verify-email", body).code == "invalid_token"

    login = {"email": address.upper(), "password": user["password"]}
    first = service.call("POST", "/auth/login", login).data
    assert first["user"]["id"] == user_id
    answer = service.call("GET", "/api/auth/verify", token=first["accessToken"])
    assert answer.data["user"] == first["user"]
    assert 0 < answer.data["expiresIn"] <= first["expiresIn"] == 900

    spent = {"refreshToken": first["refreshToken"]}
    second = service.call("POST", "/api/auth/refresh", spent).data
    assert second["refreshToken"] != first["refreshToken"]
    again = service.call("POST", "/auth/refresh", spent).data
    assert again["refreshToken"] == second["refreshToken"]

    other = service.call("POST", "/api/auth/login", login).data
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
    link = link_in(mail_server.wait_for(address, "Choose a new password"))
    assert link.startswith(f"{service.url}/reset-password#token=")
    body = {"token": link.partition("#token=")[2], "newPassword": NEW_PASSWORD}
    assert service.call("POST", "/api/auth/reset-password", body).status == 200
    assert service.call("POST", "/api/auth/reset-password", body).code == "invalid_token"
    for worker in service.workers():
        with service.answered_by(worker):
            answer = service.call("GET", "/api/auth/sessions", token=other["accessToken"])
            assert answer.code == "token_revoked"
    mail_server.wait_for(address, "Your password was changed")

    answer = service.call("POST", "/api/auth/login", login)
    assert (answer.status, answer.code) == (401, "invalid_credentials")
    login["password"] = NEW_PASSWORD
    answer = service.call("POST", "/api/auth/login", login)
    assert answer.data["user"]["id"] == user_id


on_one_database = pytest.mark.parametrize("service", ["sqlite"], indirect=True)


@on_one_database
@pytest.mark.parametrize(("chunked", "keep"), SENDING)
@pytest.mark.parametrize(
    ("path", "size", "expected"),
    [
        ("/api/auth/login", 10 * MEGABYTE, (413, "too_large")),
        ("/api/auth/logout", 5 * MEGABYTE, (401, "token_missing")),
        ("/api/nowhere", 5 * MEGABYTE, (404, "not_found")),
    ],
)
def test_a_client_can_read_why_its_big_body_is_refused(
    service, path, size, expected, chunked, keep
):
    body = b'{"email": "' + b"a" * size + b'"}'
    headers = {"Content-Type": "application/json"}
    if not keep:
        headers["Connection"] = "close"
    connection = service.connect()
    try:
        connection.request("POST", path, pieces(body) if chunked else body, headers)
        answer = read_answer(connection)
        assert (answer.status, answer.code) == expected
        # The connection is closed, and http.client opens another, or it is good for more.
        connection.request("GET", "/healthz")
        assert read_answer(connection).status == 200
    finally:
        connection.close()


@on_one_database
def test_a_body_without_end_is_cut_off(service):
    connection = service.connect()

    def endless():
        while True:
            yield b" " * MEGABYTE

    try:
        with pytest.raises(ConnectionError):
            connection.request("POST", "/api/auth/login", endless())
    finally:
        connection.close()
    assert service.call("GET", "/readyz").status == 200


def raw(service, message):
    """Send bytes as they are; return all that comes back until the connection is closed."""
    with socket.create_connection(("127.0.0.1", service.port), timeout=20) as connection:
        connection.sendall(message)
        return b"".join(iter(lambda: connection.recv(4096), b""))


@on_one_database
def test_a_message_of_two_lengths_is_refused(service):
    # A proxy that goes by the other length would take the rest for the answer to somebody else.
    hidden = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    head = b"POST /api/auth/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    for lengths in (
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        b"Content-Length: 5\r\nContent-Length: 50\r\n",
    ):
        answer = raw(service, head + lengths + b"\r\n0\r\n\r\n" + hidden)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert answer.count(b"HTTP/1.1 ") == 1


@on_one_database
def test_what_is_no_http_is_refused_and_not_logged(service):
    end = b"Host: localhost\r\nConnection: close\r\n\r\n"
    for message in (
        b"GET /api/auth/verify?token=hush\r\n\r\n",
        b"GET /api/auth/verify?token=hush\x01 HTTP/1.1\r\n" + end,
        b"GET /api/auth/verify?token=hush hush HTTP/1.1\r\n" + end,
        b"GET /api/auth/verify HTTP/1.1\r\nAuthorization Bearer hush\r\n" + end,
        b"GET /api/auth/verify HTTP/1.1\r\nhush : hush\r\n" + end,
    ):
        assert raw(service, message).startswith(b"HTTP/1.1 400 ")
    log = service.log()
    assert log.count("accounts.errors not a request kind=") >= 5
    assert "hush" not in log


@on_one_database
@pytest.mark.parametrize(
    "body",
    [
        *(b"zz\r\nabc\r\n0\r\n\r\n", b"2\r\n{}\r\n0\r\nno trailer\r\n\r\n", b"2\r\n{}xx0\r\n\r\n"),
        b"2;" + b"x" * 9000 + b"\r\n{}\r\n0\r\n\r\n",
    ],
    ids=["no size", "no trailer", "no end", "long extension"],
)
def test_broken_chunks_are_a_bad_request(service, body):
    head = (
        b"POST /api/auth/login HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    answer = raw(service, head + body)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "invalid_request"
