"""Headers of every answer, CORS, and what is believed of the proxies in front."""

import itertools
import re
import sqlite3
from unittest.mock import Mock

import pytest
from endpoints import UNKNOWN_ID
from helpers import Log, failure, picture, picture_form, success
from sqlalchemy.exc import OperationalError

from web import client

APP = "https://app.example.org"
PREFLIGHT = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x"}


def test_no_session_can_be_opened(app):
    assert app.secret_key is None  # so Flask neither signs a cookie nor believes one


def test_sane_request_id_is_kept(client):
    for sent in ("a", "Root=1-67891233-abcdef", "a.b_c:d/e+f@g", "x" * 128):
        response = client.get("/nothing", headers={"X-Request-ID": sent})
        assert response.headers["X-Request-ID"] == sent


@pytest.mark.asvs("1.2.1", "1.2.3")
@pytest.mark.parametrize(
    "sent", ["", "a b", "a\x00b", "a\n", "a\r\nSet-Cookie: a=b", "a\u00e4", 'a"b', "x" * 129]
)
def test_any_other_request_id_is_replaced(client, sent):
    made = set()
    for _ in range(2):
        response = client.get("/healthz", environ_overrides={"HTTP_X_REQUEST_ID": sent})
        made.add(response.headers["X-Request-ID"])
        assert "Set-Cookie" not in response.headers
    assert len(made) == 2
    assert all(re.fullmatch(r"[0-9a-f]{32}", found) for found in made)


# Of each prefix one endpoint with and without a token, and what is none.
BOTH_FORMS = [
    *("/auth/login", "/auth/login/", "/users", "/users/", "/users?role=none", "/users/nothing"),
    *(f"/users/{UNKNOWN_ID}/courses/a%2Fb", "/service-keys", "/service-keys/a"),
    *("/learning/lessons", "/groups", "/activity"),
]


@pytest.mark.parametrize("path", BOTH_FORMS)
def test_api_answers_the_same_without_its_prefix(client, admin, path):
    log = Log()
    for method in ("GET", "POST", "OPTIONS"):
        for headers in ({}, admin.headers):
            options = {"method": method, "data": b"{", "headers": headers}
            short, full = (client.open(prefix + path, **options) for prefix in ("", "/api"))
            assert (short.status, short.data) == (full.status, full.data)
            for answer in (short, full):
                del answer.headers["X-Request-ID"]
            assert short.headers == full.headers
            # The log shows the path that was sent.
            lines = [line for line in log.lines() if "accounts.access" in line]
            assert [" path=/api/" in line for line in lines] == [False, True]


def avatar(client, headers):
    response = client.post("/api/users/avatar", data=picture_form(picture()), headers=headers)
    return success(response)["avatar"].removeprefix("https://school.test")


def avatar_again(client, auth):
    return client.get(avatar(client, auth.headers), headers={"If-None-Match": "*"})


# How each kind of answer comes about, with its status.
ANSWERS = {
    "success": (200, lambda client, auth: client.get("/api/auth/verify", headers=auth.headers)),
    "picture": (200, lambda client, auth: client.get(avatar(client, auth.headers))),
    "same picture": (304, avatar_again),
}
PATHS = {
    "no token": (401, "/api/auth/verify"),
    "nothing": (404, "/nothing"),
    "no file": (404, "/static/nothing.css"),
    "fault": (500, "/api/fails"),
    "home": (302, "/"),
    "page": (200, "/reset-password"),
    "docs": (200, "/docs"),
    "document": (200, "/openapi.json"),
    "style": (200, "/static/pages.css"),
    "library": (200, "/docs/assets/swagger-ui.css"),
}
ANSWERS |= {
    kind: (status, lambda client, _, path=path: client.get(path))
    for kind, (status, path) in PATHS.items()
}
FOREVER = "public, max-age=31536000, immutable"
MAY_BE_KEPT = {"style": "no-cache", "library": FOREVER, "picture": FOREVER, "same picture": FOREVER}


def check_for_browsers(response, kept="no-store", origin="same-origin"):
    """Assert what keeps a browser from doing more with an answer than it is meant for."""
    headers = response.headers
    assert re.fullmatch(r"[0-9a-f]{32}", headers["X-Request-ID"])
    assert "Set-Cookie" not in headers
    rules = dict(rule.split(" ", 1) for rule in headers["Content-Security-Policy"].split("; "))
    assert rules["default-src"] == "'none'"  # and so object-src
    assert rules["base-uri"] == rules["form-action"] == rules["frame-ancestors"] == "'none'"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Strict-Transport-Security"] == "max-age=31536000"
    assert headers["Cross-Origin-Resource-Policy"] == origin
    assert sorted(headers["Cache-Control"].split(", ")) == sorted(kept.split(", "))
    if response.mimetype == "text/html" and response.status_code == 200:
        assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
        assert headers["X-Frame-Options"] == "DENY"


@pytest.mark.asvs("3.2.1", "3.4.3", "3.4.4", "3.4.5", "3.4.6", "3.4.8", "3.5.8")
@pytest.mark.asvs("14.2.2", "14.2.3", "14.3.2", "14.3.3")
@pytest.mark.parametrize("kind", ANSWERS)
def test_no_answer_can_be_framed_sniffed_run_or_kept_beyond_its_purpose(failing_app, auth, kind):
    status, ask = ANSWERS[kind]
    with ask(failing_app(cors_origins=(APP,)).test_client(), auth) as response:
        assert response.status_code == status
        # Pages of other origins may show pictures, and nothing else.
        origin = "cross-origin" if "picture" in kind and status < 400 else "same-origin"
        check_for_browsers(response, MAY_BE_KEPT.get(kind, "no-store"), origin)
        assert "Origin" in response.vary
        assert cors(response) == set()


def test_strict_transport_security_only_where_the_service_is_reached_by_https(make_app):
    for public_url, sent in (("HTTPS://school.test", True), ("http://school.test", False)):
        client = make_app(public_url=public_url).test_client()
        for path in ("/healthz", "/docs"):
            # What a client says of its scheme changes nothing.
            response = client.get(path, headers={"X-Forwarded-Proto": "https"})
            assert ("Strict-Transport-Security" in response.headers) == sent


def cors(response):
    return {name for name in response.headers.keys() if name.startswith("Access-Control-")}  # noqa: SIM118


def test_allowed_origin_reads_answers_and_errors(failing_app, make_user):
    client = failing_app(cors_origins=(APP, "http://localhost:3000")).test_client()
    user = make_user()
    body = {"email": user.email, "password": user.password}
    # Browsers compare the answer letter by letter with what they sent.
    for origin in (APP, "HTTP://LocalHost:3000"):
        headers = {"Origin": origin}
        answers = [
            client.post("/auth/login", json=body, headers=headers),
            client.get("/api/auth/verify", headers=headers),
            client.get("/api/nothing", headers=headers),
            client.post("/api/auth/login", data=b"x" * 70_000, headers=headers),
            client.get("/api/fails", headers=headers),
        ]
        assert [answer.status_code for answer in answers] == [200, 401, 404, 413, 500]
        for answer in answers:
            assert answer.headers["Access-Control-Allow-Origin"] == origin
            exposed = answer.headers["Access-Control-Expose-Headers"].split(", ")
            assert {"X-Request-ID", "Retry-After"} <= {*exposed}
            assert answer.headers["Access-Control-Allow-Credentials"] == "true"
            assert "Origin" in answer.vary


OTHER_ORIGINS = [
    *("https://evil.example.org", "null", "", "*", "https://app.example.org.evil.example"),
    *("http://app.example.org", "https://app.example.org:8443", "https://app.example.org/"),
    *("https://app.example.org, https://evil.example.org", "app.example.org", "\u00e4"),
]


@pytest.mark.asvs("3.4.2")
def test_other_origin_reads_nothing(make_app):
    for allowed in ((APP,), ()):
        client = make_app(cors_origins=allowed).test_client()
        for origin, method in itertools.product(OTHER_ORIGINS, ("GET", "OPTIONS")):
            headers = {"Origin": origin, **PREFLIGHT}
            response = client.open("/api/auth/login", method=method, headers=headers)
            assert cors(response) == set(), origin
            # A shared cache must not hand this answer to the allowed origin, nor the other way.
            assert ("Origin" in response.vary) == bool(allowed)


def test_preflight_allows_what_the_api_needs(make_app):
    client = make_app(cors_origins=(APP,)).test_client()
    for path in ("/api/nothing", "/auth/login"):  # the page reads the 404 of the call itself
        response = client.options(path, headers={"Origin": APP, **PREFLIGHT})
        assert (response.status_code, response.data) == (200, b"")
    headers = response.headers
    assert headers["Access-Control-Allow-Origin"] == APP
    methods = {*headers["Access-Control-Allow-Methods"].split(", ")}
    assert methods >= {"GET", "POST", "PUT", "PATCH", "DELETE"}
    allowed = {*headers["Access-Control-Allow-Headers"].lower().split(", ")}
    assert allowed >= {"authorization", "content-type", "x-refresh-cookie"}
    assert "*" not in headers["Access-Control-Allow-Headers"]
    assert int(headers["Access-Control-Max-Age"]) > 0
    assert headers["Access-Control-Allow-Credentials"] == "true"
    # OPTIONS without a question is no preflight.
    headers = client.options("/api/auth/login", headers={"Origin": APP}).headers
    assert "Access-Control-Allow-Methods" not in headers
    assert headers["Access-Control-Allow-Origin"] == APP


@pytest.fixture
def address_of(make_app):
    """Return the client IP that a view sees; the connection's is 192.0.2.1."""

    def address_of(trusted_proxies, forwarded, connection="192.0.2.1"):
        app = make_app(new=True, trusted_proxies=trusted_proxies)
        app.add_url_rule("/address", view_func=client.ip_address)
        headers = {"Forwarded": "for=203.0.113.99", "X-Real-IP": "203.0.113.98"}
        headers |= {} if forwarded is None else {"X-Forwarded-For": forwarded}
        environ = {"REMOTE_ADDR": connection}
        return app.test_client().get("/address", headers=headers, environ_overrides=environ).text

    return address_of


@pytest.mark.asvs("4.1.2", "4.1.3", "15.3.4")
@pytest.mark.parametrize(
    ("trusted_proxies", "forwarded", "address"),
    [
        *((0, "198.51.100.7", "192.0.2.1"), (1, None, "192.0.2.1")),
        (1, "198.51.100.7", "198.51.100.7"),
        # What stands left of the proxy's own entry was sent by the client.
        (1, "203.0.113.5, 198.51.100.7", "198.51.100.7"),
        (2, "198.51.100.7, 10.0.0.1", "198.51.100.7"),
        (2, "203.0.113.5, 198.51.100.7, 10.0.0.1", "198.51.100.7"),
        # Fewer entries than proxies: somebody came around one of them.
        (2, "198.51.100.7", ""),
        (1, "2001:DB8:0:0::7", "2001:db8::7"),
        # What a client sends does not hide what the proxy adds.
        (1, '"a, b",198.51.100.7', "198.51.100.7"),
        (1, "203.0.113.5, ", ""),
        # The zone may be any text.
        (1, "fe80::1%" + "<zone>" * 50, "fe80::1"),
        (1, "::ffff:192.0.2.7", "192.0.2.7"),
    ],
)
def test_client_address_is_what_the_trusted_proxies_say(
    address_of, trusted_proxies, forwarded, address
):
    assert address_of(trusted_proxies, forwarded) == address


def test_what_is_no_address_is_an_unknown_one(address_of):
    for garbage in ("<script>", "a\x00b", "1.2.3.4.5", "1" * 5000, ",,,", "\u00e4"):
        assert address_of(1, garbage) == ""
        assert address_of(2, f"{garbage}, {garbage}") == ""
    for odd in ("", "unix:"):  # a socket in the file system
        assert address_of(0, "198.51.100.7", odd) == ""


def test_a_proxy_that_nobody_has_set_is_a_warning_once(make_app):
    client, log = make_app(new=True, trusted_proxies=0).test_client(), Log()
    client.get("/healthz")
    assert "WARNING" not in log.text()
    for forwarded in ("198.51.100.7", "198.51.100.8"):
        client.get("/healthz", headers={"X-Forwarded-For": forwarded})
    (line,) = (line for line in log.lines() if "WARNING" in line)
    assert "TRUSTED_PROXIES" in line


@pytest.fixture
def routed(make_app):
    """A service behind a router that speaks https and http with browsers."""
    settings = {"public_url": "https://school.test/id", "app_url": "https://app.example"}
    return make_app(trusted_proxies=1, **settings).test_client()


IN_CLEAR = {"X-Forwarded-Proto": "http", "X-Forwarded-For": "198.51.100.7"}


def test_what_came_in_clear_is_sent_to_https_or_refused(routed, make_app):
    for method in ("get", "head"):
        answer = getattr(routed, method)("/%2Faccount/ä?a=%26&b", headers=IN_CLEAR)
        assert answer.status_code == 308
        assert answer.headers["Location"] == "https://school.test/id/-//account/%C3%A4?a=%26&b"
    refused = routed.delete("/avatars/x", headers=IN_CLEAR)
    failure(refused, 403, "forbidden")
    assert refused.get_json()["message"] == "Use https."
    for path in ("/healthz", "/readyz"):
        assert routed.get(path, headers=IN_CLEAR).status_code == 200
    for proto, status in {"https": 200, "http, https": 200, "https, http": 308}.items():
        answer = routed.get("/account", headers={"X-Forwarded-Proto": proto})
        assert answer.status_code == status
    # Where nobody has set a proxy, the header is a client's.
    in_clear = {"trusted_proxies": 1, "public_url": "http://school.test"}
    for settings in ({"public_url": "https://school.test"}, in_clear):
        client = make_app(**settings).test_client()
        assert client.get("/account", headers=IN_CLEAR).status_code == 200


def test_an_error_of_a_url_that_a_browser_opens_is_a_page(routed, monkeypatch):
    browser = {"Accept": "text/html,*/*;q=0.8", "Accept-Language": "de"}
    for path in ("/login", "/accounts", "/avatars/x", "/RESET-PASSWORD", "/usersx", "/groupsies"):
        page = routed.get(path, headers=browser)
        assert (page.status_code, page.mimetype) == (404, "text/html")
        assert '<html lang="de">' in page.text
        assert 'href="/id/account"' in page.text
        assert 'href="https://app.example"' in page.text
        assert routed.get(path).mimetype == "application/json"
        assert routed.post(path, headers=browser).mimetype == "application/json"
    page = routed.get("/login", headers=browser | {"Host": "x" * 5000})
    assert (page.status_code, page.mimetype) == (400, "text/html")
    for path in ("/api/nowhere", "/users/nowhere"):
        assert routed.get(path, headers=browser).mimetype == "application/json"
    lost = OperationalError(None, None, sqlite3.OperationalError("gone"))
    monkeypatch.setattr("services.certificates.check", Mock(side_effect=lost))
    page = routed.get("/certificates/0000000000000000", headers=browser)
    assert (page.status_code, page.mimetype) == (503, "text/html")
    assert page.headers["Retry-After"]
    assert page.headers["X-Frame-Options"] == "DENY"


@pytest.mark.asvs("3.7.1", "3.7.2", "4.1.2", "4.1.3")
def test_no_path_leads_to_the_host_that_a_client_names(client, auth):
    rules = {rule.rule for rule in client.application.url_map.iter_rules()}
    paths = {re.sub(r"<[^>]+>", "a", rule) for rule in rules}
    assert len(paths) > 40
    # With a slash more, or twice the slash, some frameworks answer with a redirect.
    paths |= {f"{path}/" for path in paths} | {f"/{path}" for path in paths} | {""}
    other = {"Proto": "https", "Port": "1", "Prefix": "/evil", "Host": "evil.example"}
    headers = {f"X-Forwarded-{name}": value for name, value in other.items()}
    headers |= {"Host": "evil.example", "X-Original-URL": "/evil", **auth.headers}
    for path in sorted(paths):
        with client.get(headers=headers, environ_overrides={"PATH_INFO": path}) as response:
            assert "evil" not in str(response.headers), path
            assert b"evil." not in response.data, path
            to = response.headers.get("Location")
            to = to and to.removeprefix("https://school.test").partition("#")[0]
            assert to in (None, "/account", "/admin", "/reset-password"), path
