"""Sign in to an application of the operator through /account, and out again."""

import re
from base64 import b64encode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import SimpleNamespace
from urllib.parse import parse_qs, urlencode, urlsplit

import authenticator
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from helpers import NEW_PASSWORD, PASSWORD, success
from playwright.sync_api import expect

import blueprints.site

pytestmark = pytest.mark.browser
DER, PKCS8 = serialization.Encoding.DER, serialization.PrivateFormat.PKCS8
KEY = rsa.generate_private_key(65537, 2048)
KEY = b64encode(KEY.private_bytes(DER, PKCS8, serialization.NoEncryption())).decode()
SECRET = "the-secret-of-the-wiki-0123456789abcdef"
NAME = "First Last (emma)"
ONWARD = "Go on to School wiki"


class Application(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<link rel=icon href=data:,><title>Wiki</title>")

    def log_message(self, *_):
        pass


@pytest.fixture
def origin():
    with ThreadingHTTPServer(("127.0.0.1", 0), Application) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def origins(base_url, origin, provider):
    return [base_url, origin, provider.issuer]


@pytest.fixture(autouse=True)
def wiki(base_url, origin, connect, client, page, provider, monkeypatch):
    """An application: `open` sends the browser here, `entered` says who has come back."""
    monkeypatch.setattr(blueprints.site, "_OF_ALL", (*blueprints.site._OF_ALL, "applications"))
    provider.has_page = True
    callback, left = f"{origin}/callback", f"{origin}/left"

    def change(**environ):
        wiki = {"REDIRECT_URIS": callback, "LOGOUT_URIS": left, "SECRET": SECRET}
        wiki |= {"LABEL": "School wiki"}
        named = {f"APPLICATION_WIKI_{name}": value for name, value in wiki.items()}
        named |= {"APPLICATIONS": "wiki", "APPLICATIONS_KEYS": KEY, "PUBLIC_URL": base_url}
        connect(**named, **environ)

    def open(tab=page, path="authorize", **more):
        asked = {"client_id": "wiki", "redirect_uri": callback, "response_type": "code"}
        asked |= {"scope": "openid", "state": "s-1"} if path == "authorize" else {}
        asked = asked if path == "authorize" else {"client_id": "wiki"}
        tab.goto(f"{base_url}/oauth/{path}?{urlencode({**asked, **more})}")
        return tab

    def answer(tab=page):
        """Return what has come back; it is good for nothing but this browser's user."""
        tab.wait_for_url(f"{callback}?**")
        said = {name: text for name, (text,) in parse_qs(urlsplit(tab.url).query).items()}
        assert (said["state"], said["iss"]) == ("s-1", base_url)
        return said

    def tokens(tab=page):
        body = {"client_id": "wiki", "client_secret": SECRET, "redirect_uri": callback}
        body |= {"grant_type": "authorization_code", "code": answer(tab)["code"]}
        return client.post("/oauth/token", data=body).json

    def entered(tab=page):
        bearer = {"Authorization": f"Bearer {tokens(tab)['access_token']}"}
        return client.get("/oauth/userinfo", headers=bearer).json["preferred_username"]

    change()
    return SimpleNamespace(
        change=change, open=open, answer=answer, entered=entered, tokens=tokens, left=left
    )


def sign_in(page, name="emma", own=False, password=PASSWORD):
    page.locator("#sign-in [name=email]").fill(name)
    page.locator("#sign-in [name=password]").fill(password)
    page.locator("#sign-in [name=ownDevice]").set_checked(own)
    page.locator("#sign-in [name=password]").press("Enter")


def going(page):
    return page.locator("#going")


def press(page, name):
    going(page).get_by_role("button", name=name, exact=True).click()


def expect_dropped(page):
    assert page.evaluate("Object.keys(sessionStorage).filter((name) => / asks$/.test(name))") == []


@pytest.mark.parametrize("own", [True, False])
def test_who_signs_in_goes_on_and_later_requests_are_asked_about_on_a_device_of_others(
    page, wiki, make_user, own
):
    make_user("emma")
    wiki.open()
    expect(going(page)).to_contain_text("Sign in to go on to School wiki.")
    assert "#" not in page.url
    sign_in(page, own=own)
    assert wiki.entered() == "emma"
    wiki.open()
    if not own:
        expect(page.get_by_role("heading")).to_have_text([ONWARD])
        expect(page.locator("header :is(nav, .who)").filter(visible=True)).to_have_count(0)
        press(page, f"Go on as {NAME}")
    assert wiki.entered() == "emma"


def test_somebody_else_signs_out_who_was_there(page, wiki, make_user):
    make_user("emma")
    make_user("mia")
    wiki.open()
    sign_in(page)
    wiki.answer()
    wiki.open()
    press(page, "Sign in as somebody else")
    expect(page.locator("#sign-in")).to_be_visible()
    sign_in(page, "mia")
    assert wiki.entered() == "mia"
