"""Certificates that their holders share, and what strangers see of them."""

import html
import re

import pytest
from helpers import bearer, execute, failure, on_both, race, rows, set_user, success
from sqlalchemy import update

from core.clock import rfc3339
from models import Certificate

BODY = {"courseId": "python", "courseName": "Python for beginners"}
PATH = "/api/users/certificates/c-1"
# Crockford's base32 has none of I, L, O and U.
URL = r"https://school\.test/certificates/([0-9A-HJKMNP-TV-Z]{16})"
NO_CODES = ["0" * 16, "x", "0" * 15, "0" * 17, "U" * 16, "%00", "%0A", "%FF", "a%2Fb", "a/b", "é"]


@pytest.fixture
def deliver(client, auth, make_key):
    """Deliver a certificate of the user; return it."""
    headers = bearer(make_key("learning:write"))

    def deliver(status=200, user=None, **fields):
        path = f"/api/users/{(user or auth.user).id}/certificates/c-1"
        return success(client.put(path, json=BODY | fields, headers=headers), status)

    deliver.path, deliver.headers = f"/api/users/{auth.user.id}/certificates/c-1", headers
    return deliver


@pytest.fixture
def share(client, auth):
    """Share the certificate, or end that; return it."""

    def share(shared=True):
        answer = client.put(PATH, json={"shared": shared}, headers=auth.headers)
        return success(answer)

    return share


@pytest.fixture
def shared_code(deliver, share):
    deliver(201)
    return code_of(share())


def code_of(certificate):
    return re.fullmatch(URL, certificate["verifyUrl"])[1]


def ask(client, code):
    return client.get(f"/api/certificates/{code}")


def show(client, code, language="en"):
    answer = client.get(f"/certificates/{code}", headers={"Accept-Language": language})
    assert answer.mimetype == "text/html"
    assert answer.headers["X-Robots-Tag"] == "noindex"
    assert "require-trusted-types-for" in answer.headers["Content-Security-Policy"]
    return answer


def is_unknown(client, code):
    """Assert that code and page lead to nothing."""
    answer = ask(client, code)
    assert failure(answer, 404, "not_found") == {}
    assert answer.headers["X-Robots-Tag"] == "noindex"
    page = show(client, code)
    assert (page.status_code, "No certificate found" in page.text) == (404, True)
    return answer.get_json(), page.data


# Sharing


def test_a_certificate_is_private_until_its_owner_shares_it(client, auth, deliver, share, make_key):
    private = {"shared": False, "verifyUrl": "", "revokedAt": None}
    made = deliver(201)
    assert made.items() >= private.items()
    shared = share()
    assert code_of(shared)
    assert shared == made | {"shared": True, "verifyUrl": shared["verifyUrl"]}
    for path, headers in (
        ("certificates", auth.headers),
        ("export", auth.headers),
        (f"{auth.user.id}/certificates", bearer(make_key("learning:read"))),
    ):
        (found,) = success(client.get(f"/api/users/{path}", headers=headers))["certificates"]
        assert found.items() >= shared.items()
    assert share(False) == made


def test_sharing_again_keeps_the_code_and_unsharing_ends_it(client, shared_code, share):
    assert code_of(share()) == shared_code
    share(False)
    is_unknown(client, shared_code)
    assert code_of(share()) != shared_code
    is_unknown(client, shared_code)


@on_both
def test_sharing_at_once_makes_one_code(app, auth, deliver):
    deliver(201)

    def act(_):
        answer = app.test_client().put(PATH, json={"shared": True}, headers=auth.headers)
        return code_of(success(answer))

    assert len({*race(act)}) == 1


def test_only_the_owner_can_share(app, client, auth, deliver, make_user, log_in):
    deliver(201)
    for role in ("student", "admin"):
        headers = log_in(make_user(f"other-{role}", role=role)).headers
        failure(client.put(PATH, json={"shared": True}, headers=headers), 404, "not_found")
    (row,) = rows(app, Certificate)
    assert row.share_code is None
    answer = client.put(f"{PATH}2", json={"shared": True}, headers=auth.headers)
    failure(answer, 404, "not_found")
    for wrong in ("a%2Fb", "a%20b", "a" * 65):
        answer = client.put(PATH.replace("c-1", wrong), json={"shared": True}, headers=auth.headers)
        assert failure(answer, 400, "invalid_request").keys() == {"certificateId"}


# Checking


def test_anybody_with_the_code_sees_this_and_nothing_else(client, auth, deliver, share):
    link = "https://courses.example.org/1"
    made = deliver(201, credentialUrl=link)
    answer = ask(client, code_of(share()))
    assert answer.headers["X-Robots-Tag"] == "noindex"
    told = {"status": "valid", "holder": "First Last", "courseName": BODY["courseName"]}
    told |= {"issuedAt": made["issuedAt"], "expiresAt": None, "credentialUrl": link}
    assert success(answer) == told


def test_a_code_is_read_as_it_is_typed(app, client, deliver):
    deliver(201)
    execute(app, update(Certificate).values(share_code="0123456789ABCDEF"))
    written = "0123456789abcdef O1-23-4567-89AB-CDEF oI23456789abcdef 0l23456789ABCDEF"
    for typed in written.split():
        success(ask(client, typed))
        assert show(client, typed).status_code == 200


@on_both
def test_what_is_no_code_is_answered_like_an_unknown_one(client, shared_code):
    expected = is_unknown(client, "Z" * 16)
    for code in NO_CODES:
        message, _ = is_unknown(client, code)
        assert (code, message) == (code, expected[0])


@on_both
def test_the_status_says_expired_and_above_all_revoked(client, deliver, share, clock):
    soon = rfc3339(clock.utcnow().replace(year=2099))
    deliver(201, expiresAt=soon)
    code = code_of(share())

    def status():
        return success(ask(client, code))["status"]

    assert status() == "valid"
    clock.move(days=40_000)
    assert status() == "expired"
    assert deliver(expiresAt=soon, revokedAt="2026-01-01T00:00:00Z")["revokedAt"]
    assert status() == "revoked"
    assert deliver(expiresAt=soon)["revokedAt"], "a repeated delivery does no harm"
    assert status() == "revoked"
    assert deliver(expiresAt=soon, revokedAt=None)["revokedAt"] is None
    assert status() == "expired"


def test_a_revocation_is_not_in_the_future(client, deliver, clock):
    body = {**BODY, "revokedAt": rfc3339(clock.utcnow().replace(year=2099))}
    answer = client.put(deliver.path, json=body, headers=deliver.headers)
    assert failure(answer, 400, "invalid_request").keys() == {"revokedAt"}


@on_both
def test_the_holder_is_who_the_user_was_at_the_first_delivery(app, client, auth, deliver, share):
    deliver(201)
    code = code_of(share())
    set_user(app, auth.user, first_name="Another")
    assert code_of(deliver(courseName="New")) == code
    found = success(ask(client, code))
    assert (found["holder"], found["courseName"]) == ("First Last", "New")
    success(client.delete(deliver.path, headers=deliver.headers))
    is_unknown(client, code)
    assert deliver(201)["shared"] is False
    assert success(ask(client, code_of(share())))["holder"] == "Another Last"
    is_unknown(client, code)


def test_certificates_of_a_deactivated_holder_stay_and_go_with_the_account(
    app, client, auth, shared_code, admin
):
    set_user(app, auth.user, is_active=False)
    assert success(ask(client, shared_code))["status"] == "valid"
    success(client.delete(f"/api/users/{auth.user.id}", headers=admin.headers))
    is_unknown(client, shared_code)


# The page


def test_the_page_says_the_same_in_the_readers_language(client, deliver, share):
    times = {"issuedAt": "2020-03-01T23:59:59Z", "expiresAt": "2021-05-02T00:00:00Z"}
    deliver(201, **times)
    certificate = share()
    code = code_of(certificate)
    for language, words in (
        ("en", ["it has expired", "1 March 2020", "2 May 2021"]),
        ("de-AT", ["abgelaufen", "1. März 2020", "2. Mai 2021"]),
        ("fr", ["il a expiré", "1er mars 2020", "2 mai 2021"]),
        ("es", ["ha caducado", "1 de marzo de 2020", "2 de mayo de 2021"]),
    ):
        page = show(client, code, language)
        assert page.status_code == 200
        assert page.headers["Content-Language"] == language[:2]
        assert "Accept-Language" in page.headers["Vary"]
        text = html.unescape(page.text)
        for word in (*words, "First Last", BODY["courseName"], certificate["verifyUrl"]):
            assert word in text
        assert "<script" not in text
    deliver(**times, revokedAt="2021-01-01T00:00:00Z")
    assert "widerrufen" in show(client, code, "de").text
    deliver(issuedAt=times["issuedAt"], revokedAt=None)
    page = show(client, code)
    assert "is valid" in page.text
    assert "Valid until" not in page.text


def test_names_cannot_become_markup_or_turn_the_text_around_them(
    client, deliver, share, make_user, log_in
):
    user = make_user("mallory", first_name="<script>alert(1)</script>", last_name="שירה")
    link = "https://example.org/?a='onclick=&b=1"
    deliver(201, user=user, courseName='"><img src=x>', credentialUrl=link)
    answer = client.put(PATH, json={"shared": True}, headers=log_in(user).headers)
    page = show(client, code_of(success(answer))).text
    assert "<script" not in page
    assert page.count("<img") == 2  # the logo and the QR code
    assert "<bdi>&lt;script&gt;alert(1)&lt;/script&gt; שירה</bdi>" in page
    assert link in map(html.unescape, re.findall('href="([^"]*)"', page))


def test_files_of_the_page_are_found_below_any_prefix(client, shared_code):
    for path in (shared_code, "no%2Fcode"):
        found = re.findall(r'(?:href|src)="\.\./(static/[^"]*)"', show(client, path).text)
        names = {"icon.svg", "pages.css", "narrow.css", "certificate.css"}
        assert {each.rpartition("/")[2] for each in found} == names
        for each in found:
            answer = client.get(f"/{each}", buffered=True)  # leaves no file open
            assert answer.status_code == 200


def test_code_and_page_share_a_limit_for_each_client_ip(make_app, shared_code):
    client = make_app(ratelimit_enabled=True).test_client()
    for _ in range(30):
        assert ask(client, shared_code).status_code == 200
        assert show(client, shared_code).status_code == 200
    answer = ask(client, shared_code)
    failure(answer, 429, "too_many_requests")
    assert answer.headers["X-Robots-Tag"] == "noindex"
    page = show(client, shared_code, "de")
    assert (page.status_code, "Zu viele Versuche" in page.text) == (429, True)
    assert 0 < int(page.headers["Retry-After"]) <= 60
    other = {"REMOTE_ADDR": "198.51.100.9"}
    path = f"/certificates/{shared_code}"
    assert client.get(path, environ_overrides=other).status_code == 200
