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
        **{"change": change, "open": open, "answer": answer, "entered": entered},
        **{"tokens": tokens, "left": left, "base_url": base_url},
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


def test_a_browser_that_has_forgotten_whose_device_it_is_asks(page, wiki, make_user):
    make_user("emma")
    wiki.open()
    sign_in(page, own=True)
    assert wiki.entered() == "emma"
    page.goto(wiki.base_url + "/account")
    page.evaluate("localStorage.clear()")
    wiki.open()
    press(page, f"Go on as {NAME}")
    assert wiki.entered() == "emma"


def test_cancel_goes_to_the_application_and_the_next_user_stays_here(page, wiki, make_user):
    make_user("emma")
    wiki.open()
    press(page, "Cancel")
    assert wiki.answer()["error"] == "access_denied"
    page.goto(f"{wiki.base_url}/account")
    expect_dropped(page)
    sign_in(page)
    expect(page.locator("#learning h1")).to_be_visible()
    expect(going(page)).to_be_hidden()
    wiki.open()
    press(page, "Cancel")
    assert wiki.answer()["error"] == "access_denied"


def test_the_request_waits_for_a_sign_up(page, wiki):
    wiki.open()
    page.get_by_role("link", name="Create an account").click()
    expect(page.locator("#sign-up[aria-busy=false]")).to_be_visible()
    expect(going(page)).to_contain_text("School wiki")
    fields = {"firstName": "Mia", "lastName": "Stone", "username": "mia"}
    for name, text in {**fields, "email": "mia@example.org", "password": PASSWORD}.items():
        page.locator(f"#sign-up [name={name}]").fill(text)
    page.locator("#sign-up [name=password]").press("Enter")
    assert wiki.entered() == "mia"


def test_the_request_waits_for_a_provider_and_a_second_factor(
    page, wiki, make_user, log_in, client, clock, provider
):
    user = make_user("pupil", identity=f"{provider.issuer} subject-1")
    phone = authenticator.set_up(client, log_in(user), user, clock)
    wiki.open()
    page.get_by_role("button", name="Continue with School").filter(visible=True).click()
    page.get_by_role("button", name="continue").click()
    page.locator("#sign-in [name=secondFactor]").fill(phone.code())
    page.locator("#sign-in [name=secondFactor]").press("Enter")
    assert wiki.entered() == "pupil"


def test_the_request_waits_for_a_new_password(page, wiki, client, admin, make_user):
    """In the language of the account, for which the page is loaded anew."""
    mia = make_user("mia", language="de")
    url, body = f"/api/users/{mia.id}/access-link", {"deliver": "link"}
    code = success(client.post(url, json=body, headers=admin.headers))["code"]
    wiki.open()
    page.get_by_role("link", name="I have a code").click()
    page.locator("#link-account").fill("mia")
    page.locator("#link-code").fill(code)
    page.locator("#link-newPassword").fill(NEW_PASSWORD)
    page.locator("#link-newPassword").press("Enter")
    assert wiki.entered() == "mia"


def test_who_manages_others_is_not_led_to_the_administration(page, wiki, make_user):
    make_user("emma", role="admin")
    wiki.open()
    sign_in(page)
    assert wiki.entered() == "emma"


def test_a_role_that_waits_for_its_factor_is_led_to_it(
    page, wiki, make_user, log_in, client, clock
):
    wiki.change(REQUIRE_SECOND_FACTOR="admin", APPLICATION_WIKI_ROLE="admin")
    user = make_user("emma", role="admin")
    wiki.open()
    sign_in(page, own=True)
    expect(page.get_by_role("heading", name="Security")).to_be_visible()
    expect(going(page)).to_contain_text("Your role needs a second factor.")
    press(page, ONWARD)
    expect(page.get_by_role("heading", name="Security")).to_be_visible()
    authenticator.set_up(client, log_in(user), user, clock)
    page.reload()
    sign_in(page, own=True)
    assert wiki.answer()


def test_prompt_none_shows_nothing(page, wiki, make_user):
    make_user("emma")
    shown = []
    page.expose_function("note", lambda id: shown.append(id))
    page.add_init_script(
        """addEventListener("DOMContentLoaded", () => new MutationObserver(() => {
             const [it] = document.querySelectorAll("main > section:not([hidden])");
             if (it) note(it.id);
           }).observe(document, { subtree: true, attributes: true }));"""
    )
    wiki.open(prompt="none")
    assert wiki.answer()["error"] == "login_required"
    assert shown == []
    for own, error in ((False, "login_required"), (True, None)):
        wiki.open()
        sign_in(page, own=own)
        wiki.answer()
        shown.clear()
        wiki.open(prompt="none")
        assert wiki.answer().get("error") == error
        assert shown == []
        page.context.clear_cookies()
        page.goto(f"{wiki.base_url}/account")
        expect(page.locator("#sign-in h1")).to_be_visible()


@pytest.mark.parametrize("prompt", ["login", "select_account", "consent", "max_age"])
def test_an_own_device_asks_where_the_application_wants_it(page, wiki, make_user, clock, prompt):
    make_user("emma")
    wiki.open()
    sign_in(page, own=True)
    wiki.answer()
    clock.move(minutes=1)
    wiki.open(**({"max_age": 30} if prompt == "max_age" else {"prompt": prompt}))
    if prompt in ("login", "max_age"):
        expect(going(page)).to_contain_text(f"You are signed in as {NAME}.")
        press(page, "Sign out, then sign in again")
        sign_in(page, own=True)
    else:
        press(page, f"Go on as {NAME}")
    assert wiki.entered() == "emma"


def test_a_hint_fills_in_the_name(page, wiki, make_user):
    wiki.open(login_hint="emma")
    expect(page.locator("#sign-in [name=email]")).to_have_value("emma")
    expect(page.locator("#sign-in [name=password]")).to_be_focused()


def test_a_request_that_is_over_says_so(page, wiki, make_user, clock):
    make_user("emma")
    wiki.open()
    expect(going(page)).to_contain_text("School wiki")
    clock.move(minutes=61)
    sign_in(page)
    expect(going(page)).to_contain_text("This took too long, and has ended.")
    expect(page.locator("#learning h1")).to_be_visible()
    expect_dropped(page)
    page.reload()
    expect(page.locator("#learning h1")).to_be_visible()
    expect(going(page)).to_be_hidden()


@pytest.mark.parametrize("kind", ["request", "leave"])
@pytest.mark.parametrize("text", ["https://evil.test/", "//evil.test", "javascript:alert(1)", ""])
def test_a_url_in_the_fragment_leads_nowhere(page, wiki, make_user, kind, text):
    make_user("emma")
    page.goto(f"{wiki.base_url}/account#{kind}={text}&url={text}&at=0")
    expect(going(page)).to_contain_text("This took too long, and has ended.")
    sign_in(page, own=True)
    expect(page.locator("#learning h1")).to_be_visible()
    assert page.url.startswith(f"{wiki.base_url}/account")


AGE = """minutes => {
  for (const name of Object.keys(sessionStorage).filter((name) => / asks$/.test(name))) {
    const [at, sent] = sessionStorage[name].split("#");
    sessionStorage[name] = `${at - minutes * 60_000}#${sent}`;
  }
}"""


@pytest.mark.parametrize("own", [True, False])
def test_after_a_quarter_of_an_hour_only_an_own_device_goes_on(page, wiki, make_user, own):
    """Somebody else may have begun it, and sits elsewhere by now."""
    make_user("emma")
    wiki.open()
    expect(going(page)).to_contain_text("School wiki")
    page.evaluate(AGE, 16)
    page.reload()
    sign_in(page, own=own)
    if own:
        assert wiki.entered() == "emma"
    else:
        expect(going(page)).to_contain_text("This took too long, and has ended.")
        expect_dropped(page)


def test_who_has_left_a_device_of_others_is_signed_out_before(page, wiki, make_user):
    make_user("emma")
    make_user("mia")
    wiki.open()
    sign_in(page)
    wiki.answer()
    page.goto(f"{wiki.base_url}/account")
    expect(page.locator("#learning[aria-busy=false]")).to_be_visible()
    page.evaluate("localStorage['accounts / used'] -= 960_000")
    page.goto("about:blank")
    wiki.open()
    expect(page.locator("#ended")).to_contain_text("after 15 minutes without use. Applications")
    expect(going(page)).not_to_contain_text("emma")
    sign_in(page, "mia")
    assert wiki.entered() == "mia"


def test_a_request_is_answered_once(page, wiki, make_user):
    """The back button leads to what was before it."""
    make_user("emma")
    wiki.open()
    page.get_by_role("link", name="Forgot your password?").click()
    page.get_by_role("link", name="Back to the sign-in").click()
    sign_in(page, own=True)
    wiki.answer()
    page.go_back()
    expect(page.locator("main > section:not([hidden]) h1")).to_be_visible()
    expect(going(page)).to_be_hidden()
    expect_dropped(page)


def test_another_sign_out_drops_it_and_another_sign_in_is_asked(page, wiki, make_user):
    make_user("emma")
    wiki.open()
    expect(going(page)).to_contain_text("School wiki")
    other = page.context.new_page()
    other.goto(f"{wiki.base_url}/account")
    sign_in(other)
    expect(going(page).get_by_role("button", name=f"Go on as {NAME}")).to_be_visible()
    other.locator("#sign-out").click()
    expect(page.locator("#sign-in h1")).to_be_visible()
    expect(going(page)).to_be_hidden()
    expect_dropped(page)
    expect(page.locator("#ended")).to_contain_text("Applications that you have used may still")


def test_a_sign_out_at_the_application_ends_here(page, wiki, make_user):
    make_user("emma")
    make_user("mia")
    wiki.open()
    sign_in(page, own=True)
    hint = wiki.tokens()["id_token"]
    back = {"post_logout_redirect_uri": wiki.left, "state": "s-2"}

    wiki.open(path="logout", id_token_hint=hint, **back)
    page.wait_for_url(f"{wiki.left}?state=s-2")
    wiki.open(path="logout", **back)  # nobody is there
    page.wait_for_url(f"{wiki.left}?state=s-2")
    wiki.open(path="logout")
    expect(going(page)).to_contain_text("You are signed out.")

    sign_in(page, "mia")
    expect(page.locator("#learning h1")).to_be_visible()
    wiki.open(path="logout", id_token_hint=hint, **back)
    expect(going(page)).to_contain_text("You are signed in as First Last (mia).")
    press(page, "Stay signed in")
    expect(page.locator("#learning h1")).to_be_visible()
    expect(going(page)).to_be_hidden()
    expect_dropped(page)
    wiki.open(path="logout", id_token_hint=hint)
    press(page, "Sign out")
    expect(going(page)).to_contain_text("You are signed out.")
    expect(page.locator("#ended")).to_contain_text("Applications that you have used may still")
    assert page.context.cookies() == []


def test_without_a_request_nothing_of_it_is_loaded(page, wiki, make_user):
    make_user("emma")
    loaded = []
    page.on("request", lambda request: loaded.append(request.url))
    page.goto(f"{wiki.base_url}/account")
    sign_in(page)
    expect(page.locator("#learning h1")).to_be_visible()
    assert not [url for url in loaded if "application" in url]


@pytest.mark.parametrize("language", ["en", "de", "fr", "es"])
def test_privacy_says_what_applications_are_told_and_names_none(client, wiki, language):
    told = {"en": "wiki or a forum", "de": "Wiki oder", "fr": "wiki ou", "es": "wiki o un foro"}
    page = client.get(f"/privacy?language={language}").text
    assert told[language] in page
    assert "School wiki" not in page + client.get(f"/account?language={language}").text
