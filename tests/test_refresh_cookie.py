"""The refresh token in a cookie, where a client asks for it with X-Refresh-Cookie."""

import pytest
from authenticator import set_up
from forgeries import claims_of
from helpers import PASSWORD, bearer, failure, login, refresh, rows, success, verify, words

import errors
from models import Counter
from services import sessions

KEPT = {"X-Refresh-Cookie": "1"}
FOR_NOW = {"X-Refresh-Cookie": "session"}
NAME = "__Host-refresh"  # the usual PUBLIC_URL of the tests is https
MONTH = 30 * 24 * 3600


def log_in(client, user, headers=KEPT, **changes):
    body = {"email": user.email, "password": PASSWORD, **changes}
    return client.post("/api/auth/login", json=body, headers=headers)


def renew(client, headers=KEPT, body=None, path="/api/auth/refresh"):
    return client.post(path, json=body or {}, headers=headers)


def log_out(client, access, headers=KEPT):
    return client.post("/api/auth/logout", headers={**bearer(access), **headers})


def cookie_of(response):
    """Return the value of the one cookie that is set, and its attributes."""
    (line,) = response.headers.getlist("Set-Cookie")
    value, *attributes = line.split("; ")
    found = dict(each.partition("=")[::2] for each in attributes)
    found.pop("Expires", None)  # Max-Age counts (RFC 6265bis, section 5.7)
    return value.partition("=")[::2], found


def is_cleared(response):
    (name, value), attributes = cookie_of(response)
    return (name, value, attributes["Max-Age"]) == (NAME, "", "0")


@pytest.fixture
def user(make_user):
    return make_user()


@pytest.fixture
def access(client, user):
    """The access token of a login whose refresh token is in the client's cookie."""
    return success(log_in(client, user))["accessToken"]


STRICT = {"HttpOnly": "", "SameSite": "Strict", "Path": "/"}


@pytest.mark.asvs("3.3.1", "3.3.2", "3.3.3", "3.3.4")
@pytest.mark.parametrize(
    ("public_url", "name", "attributes"),
    [
        ("https://school.test", NAME, STRICT | {"Secure": ""}),
        ("HTTPS://School.test/accounts", NAME, STRICT | {"Secure": ""}),
        ("http://school.test", "refresh", STRICT),
    ],
)
def test_login_and_refresh_put_the_token_into_a_cookie(
    make_app, user, public_url, name, attributes
):
    # Behind a proxy, the scheme of the request says nothing.
    for base_url in ("http://localhost", "https://localhost"):
        client = make_app(public_url=public_url).test_client()
        for headers, lives in ((KEPT, [MONTH, MONTH - 1]), (FOR_NOW, [None])):
            for answer in (
                log_in(client, user, headers),
                client.post("/auth/refresh", json={}, headers=headers, base_url=base_url),
            ):
                data = success(answer)
                assert data["refreshToken"] == ""
                success(verify(client, data["accessToken"]))
                (sent, token), found = cookie_of(answer)
                assert len(answer.headers["Set-Cookie"]) < 1000
                assert (sent, claims_of(token)["type"]) == (name, "refresh")
                life = found.pop("Max-Age", None)
                assert (life and int(life)) in lives
                assert found == attributes
                assert "Expires" not in answer.headers["Set-Cookie"] or life


def test_cookie_lives_as_long_as_the_session(make_app, user, clock):
    client = make_app(session_days=10, session_idle_days=7).test_client()
    for passed, left in ((0, 7), (2, 7), (5, 3)):
        clock.move(days=passed)
        answer = renew(client) if passed else log_in(client, user)
        life = int(cookie_of(answer)[1]["Max-Age"])
        assert life == pytest.approx(left * 24 * 3600, abs=2)


def test_each_refresh_rotates_the_cookie(client, access):
    tokens = [client.get_cookie(NAME).value]
    for path in ("/api/auth/refresh", "/auth/refresh"):
        success(renew(client, path=path))
        tokens.append(client.get_cookie(NAME).value)
    assert len({*tokens}) == 3
    # The first token was spent before the last one.
    client.set_cookie(NAME, tokens[0])
    answer = renew(client)
    failure(answer, 401, "token_revoked")
    assert is_cleared(answer)
    failure(verify(client, access), 401, "token_revoked")


@pytest.mark.asvs("7.4.1", "7.4.2")
def test_logout_clears_the_cookie_if_asked_to(client, user):
    access = success(log_in(client, user))["accessToken"]
    assert "Set-Cookie" not in log_out(client, access, headers={}).headers
    access = success(log_in(client, user))["accessToken"]
    answer = log_out(client, access)
    assert success(answer) == {}
    assert is_cleared(answer)
    assert client.get_cookie(NAME) is None
    refused = client.post("/api/auth/logout", headers=KEPT)
    failure(refused, 401, "token_missing")
    assert "Set-Cookie" not in refused.headers
    failure(renew(client), 401, "token_missing")


def test_without_the_header_no_cookie_is_set_or_read(client, user, access):
    assert words(renew(client, headers={})) == {"refreshToken": ["required"]}
    answer = login(client, user)
    token = success(answer)["refreshToken"]
    assert "Set-Cookie" not in answer.headers
    client.set_cookie(NAME, "nonsense")
    answer = refresh(client, token)
    assert success(answer)["refreshToken"]
    failed = refresh(client, "nonsense")
    failure(failed, 401, "token_invalid")
    assert all("Set-Cookie" not in each.headers for each in (answer, failed))


def test_a_token_in_the_body_is_refused_with_the_header(client, user, access):
    for token in ("", client.get_cookie(NAME).value):
        answer = renew(client, body={"refreshToken": token})
        assert words(answer) == {"refreshToken": ["unknown"]}
        assert "Set-Cookie" not in answer.headers
    success(renew(client))


@pytest.mark.parametrize("value", ["", "0", "true", "Session", "1, 1", "session;", "\u00e4"])
def test_any_other_value_is_refused_before_anything_is_done(make_app, app, user, value):
    client = make_app(ratelimit_enabled=True).test_client()
    access = success(log_in(client, user))["accessToken"]
    counted, wrong = rows(app, Counter), {"X-Refresh-Cookie": value}
    for answer in (
        log_in(client, user, wrong, password="wrong"),
        renew(client, wrong),
        log_out(client, access, wrong),
    ):
        assert words(answer) == {"X-Refresh-Cookie": ["invalid"]}
        assert "Set-Cookie" not in answer.headers
    assert rows(app, Counter) == counted
    success(verify(client, access))


def test_errors_of_a_login_set_no_cookie(client, make_app, make_user, auth, clock):
    set_up(client, auth.access, auth.user, clock)
    user, gone = make_user("reader"), make_user("gone", is_active=False)
    factor, client = log_in(client, auth.user), make_app(require_verified_email=True).test_client()
    for answer, code in (
        (factor, "second_factor_required"),
        (log_in(client, user, password="wrong"), "invalid_credentials"),
        (log_in(client, user), "email_unverified"),
        (log_in(client, gone), "account_inactive"),
    ):
        failure(answer, answer.status_code, code)
        assert "Set-Cookie" not in answer.headers


def test_only_what_is_wrong_with_the_token_clears_the_cookie(client, access, clock, monkeypatch):
    broken = {"data": b"{", "content_type": "application/json"}
    answer = client.post("/api/auth/refresh", headers=KEPT, **broken)
    failure(answer, 400, "invalid_request")
    assert "Set-Cookie" not in answer.headers
    for error, status, code in (
        (errors.Unavailable(), 503, "unavailable"),
        (RuntimeError(), 500, "internal_error"),
    ):
        with monkeypatch.context() as patched:

            def fail(*_, error=error, **__):
                raise error

            patched.setattr(sessions, "rotate", fail)
            answer = renew(client)
        failure(answer, status, code)
        assert "Set-Cookie" not in answer.headers
    clock.move(days=31)
    answer = renew(client)
    failure(answer, 401, "token_expired")
    assert is_cleared(answer)
    assert "WWW-Authenticate" not in answer.headers


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (None, "token_missing"),
        ("", "token_missing"),
        (f"{NAME}=", "token_missing"),
        (NAME, "token_missing"),
        ("refresh={token}", "token_missing"),
        ("__Host-Refresh={token}", "token_missing"),
        (f"x{NAME}={{token}}; =; ;;=a; refresh", "token_missing"),
        # The bytes A0 and 85, which are white space in Latin-1. Any host of the site can set these.
        (f"\udca0{NAME}={{token}}", "token_missing"),
        (f"a=b; \udc85{NAME}={{token}}", "token_missing"),
        (f"\udca0{NAME}=nonsense; {NAME}={{token}}", None),
        (f"{NAME}=nonsense", "token_invalid"),
        (f'{NAME}="{{token}}"', "token_invalid"),
        (f"{NAME}=\u00e4\u20ac", "token_invalid"),
        (f"{NAME}=a.b.c\x00\x7f", "token_invalid"),
        (f"{NAME}={'x' * 100_000}", "token_invalid"),
        (f"{NAME}={'.' * 8000}", "token_invalid"),
        (f"{NAME}=nonsense; {NAME}={{token}}", "token_invalid"),
        # The first one is that of the longest path, which only this host can have set.
        (f"{NAME}={{token}}; {NAME}=nonsense", None),
        (f"other=\u00e4\u00ff;{NAME}={{token}}", None),
        (f"a b; \\; {NAME} = ; {NAME}={{token}}  ", None),
    ],
)
def test_no_cookie_header_is_a_fault(client, user, sent, code):
    (_, token), _ = cookie_of(log_in(client, user))
    environ = {}
    if sent is not None:
        # As gunicorn gives it: bytes as Latin-1.
        raw = sent.replace("{token}", token).encode(errors="surrogateescape")
        environ["HTTP_COOKIE"] = raw.decode("latin-1")
    client = client.application.test_client(use_cookies=False)
    answer = client.post("/auth/refresh", json={}, headers=KEPT, environ_overrides=environ)
    if code:
        failure(answer, 401, code)
        assert is_cleared(answer)
    else:
        success(answer)
