"""Sign in to an application of the operator through /account, and out again."""

from base64 import b64encode
from types import SimpleNamespace
from urllib.parse import parse_qsl, urlencode, urlsplit

import authenticator
import pytest
from applications import STILL_KNOWN
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from helpers import NEW_PASSWORD, PASSWORD, success
from playwright.sync_api import expect

pytestmark = pytest.mark.browser
FORM = (serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
KEY = b64encode(rsa.generate_private_key(65537, 2048).private_bytes(*FORM)).decode()
WIKI, SECRET = "https://wiki.test", "the-secret-of-the-wiki-0123456789abcdef"
CALLBACK, LEFT = f"{WIKI}/callback", f"{WIKI}/left"
BACK = {"client_id": "wiki", "post_logout_redirect_uri": LEFT, "state": "s-2"}
NAME, ONWARD = "First Last (emma)", "Go on to School wiki"
OVER = "This took too long, and has ended."


@pytest.fixture
def origins(base_url, provider):
    return [base_url, provider.issuer, WIKI]


@pytest.fixture(autouse=True)
def wiki(base_url, connect, client, page, provider):
    """An application: `open` sends the browser here, `entered` says who has come back."""
    page.context.route(f"{WIKI}/**", lambda it: it.fulfill(body="", content_type="text/html"))
    provider.has_page = True

    def change(**environ):
        wiki = {"REDIRECT_URIS": CALLBACK, "LOGOUT_URIS": LEFT, "SECRET": SECRET}
        named = {f"APPLICATION_WIKI_{name}": value for name, value in wiki.items()}
        named |= {"APPLICATIONS": "wiki", "APPLICATIONS_KEYS": KEY, "PUBLIC_URL": base_url}
        connect(APPLICATION_WIKI_LABEL="School wiki", **named, **environ)

    def open(**more):
        asked = {"client_id": "wiki", "redirect_uri": CALLBACK, "response_type": "code"}
        asked |= {"scope": "openid", "state": "s-1", **more}
        page.goto(f"{base_url}/oauth/authorize?{urlencode(asked)}")

    def answer():
        page.wait_for_url(f"{CALLBACK}?**")
        said = dict(parse_qsl(urlsplit(page.url).query))
        assert (said["state"], said["iss"]) == ("s-1", base_url)
        return said

    def tokens():
        body = {"client_id": "wiki", "client_secret": SECRET, "redirect_uri": CALLBACK}
        body |= {"grant_type": "authorization_code", "code": answer()["code"]}
        return client.post("/oauth/token", data=body).json

    def entered():
        bearer = {"Authorization": f"Bearer {tokens()['access_token']}"}
        return client.get("/oauth/userinfo", headers=bearer).json["preferred_username"]

    change()
    made = {"change": change, "open": open, "answer": answer, "tokens": tokens}
    return SimpleNamespace(base=base_url, url=f"{base_url}/account", entered=entered, **made)


@pytest.fixture
def going(page):
    """What says where one is going."""
    return page.locator("#going")


@pytest.fixture
def emma(wiki, make_user, page):
    """Sign Emma in on the way to the application."""

    def emma(own=False):
        wiki.open()
        sign_in(page, own=own)
        return wiki.tokens()["id_token"]

    make_user("emma")
    return emma


def sign_in(page, name="emma", own=False):
    for field, text in {"email": name, "password": PASSWORD}.items():
        page.locator(f"#sign-in [name={field}]").fill(text)
    page.locator("#sign-in [name=ownDevice]").set_checked(own)
    page.locator("#sign-in [name=password]").press("Enter")


def press(page, name):
    page.get_by_role("button", name=name, exact=True).filter(visible=True).click()


def expect_account(page, going):
    """Show the account, and nothing that waits."""
    expect(page.locator("#learning h1")).to_be_visible()
    expect(going.get_by_role("button").filter(visible=True)).to_have_count(0)
    assert page.evaluate("Object.keys(sessionStorage).filter((key) => / asks$/.test(key))") == []


def test_who_signs_in_goes_on_and_is_asked_next_time_on_a_device_of_others(
    page, wiki, going, emma, make_user
):
    emma(own=True)
    wiki.open()
    assert wiki.entered() == "emma"
    page.goto(wiki.url)
    page.evaluate("localStorage.clear()")  # nobody knows any more whose device it is
    wiki.open()
    expect(page.get_by_role("heading")).to_have_text([ONWARD])
    expect(page.locator("header :is(nav, .who)").filter(visible=True)).to_have_count(0)
    press(page, f"Go on as {NAME}")
    assert wiki.entered() == "emma"
    make_user("mia", role="admin", language="de")  # the page is loaded in German, not /admin
    wiki.open()
    press(page, "Sign in as somebody else")
    expect(going).to_contain_text("Sign in to go on to School wiki.")
    assert page.url == wiki.url
    sign_in(page, "mia")
    assert wiki.entered() == "mia"


def test_cancel_goes_to_the_application_and_the_next_user_stays_here(page, wiki, going, emma):
    for _ in range(2):
        wiki.open()
        press(page, "Cancel")
        assert wiki.answer()["error"] == "access_denied"
        page.goto(wiki.url)
        if page.locator("#sign-in").is_visible():
            sign_in(page)
        expect_account(page, going)


def test_the_request_waits_for_a_sign_up(page, wiki):
    wiki.open()
    page.get_by_role("link", name="Create an account").click()
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
    press(page, "Continue with School")
    press(page, "continue")
    page.locator("#sign-in [name=secondFactor]").fill(phone.code())
    page.keyboard.press("Enter")
    assert wiki.entered() == "pupil"


def test_the_request_waits_for_a_new_password(page, wiki, client, admin, make_user):
    url, body = f"/api/users/{make_user('mia').id}/access-link", {"deliver": "link"}
    code = success(client.post(url, json=body, headers=admin.headers))["code"]
    wiki.open()
    page.get_by_role("link", name="I have a code").click()
    for name, text in {"account": "mia", "code": code, "newPassword": NEW_PASSWORD}.items():
        page.locator(f"#link-{name}").fill(text)
    page.keyboard.press("Enter")
    assert wiki.entered() == "mia"


def test_a_role_that_waits_for_its_factor_is_led_to_it(page, wiki, going, make_user):
    wiki.change(REQUIRE_SECOND_FACTOR="admin", APPLICATION_WIKI_ROLE="admin")
    make_user("emma", role="admin")
    wiki.open()
    sign_in(page)
    expect(going).to_contain_text("Your role needs a second factor.")
    press(page, ONWARD)
    expect(going).to_have_attribute("aria-busy", "false")
    expect(page.locator("#security[aria-busy=false]")).to_be_visible()
    card = page.locator("#security-factor")
    card.get_by_text("Set up", exact=True).click()
    page.locator("#security-begin-password").fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(card.get_by_role("heading", name="1. Add the account to an app")).to_be_focused()
    key = card.locator("[data-text=key]").inner_text().replace(" ", "")
    card.get_by_label("Code from the app").fill(authenticator.Authenticator(key).code())
    page.keyboard.press("Enter")
    expect(card.get_by_role("heading", name="Your recovery codes")).to_be_visible()
    press(page, ONWARD)
    assert wiki.entered() == "emma"


@pytest.mark.parametrize(
    ("own", "error"), [(None, "login_required"), (False, "login_required"), (True, None)]
)
def test_prompt_none_shows_nothing(page, wiki, emma, own, error):
    if own is not None:
        emma(own)
    shown = []
    page.expose_function("note", lambda id: shown.append(id))
    page.add_init_script(
        """addEventListener("DOMContentLoaded", () => new MutationObserver(() => {
             const it = document.querySelector("main > :is(section, form):not([hidden])");
             if (it) note(it.id);
           }).observe(document, { subtree: true, attributes: true }));"""
    )
    wiki.open(prompt="none")
    assert wiki.answer().get("error") == error
    assert shown == []


@pytest.mark.parametrize(
    ("asked", "does"),
    [
        *(({"prompt": prompt}, f"Go on as {NAME}") for prompt in ("select_account", "consent")),
        *((each, "Sign out, then sign in again") for each in ({"prompt": "login"}, {"max_age": 9})),
    ],
)
def test_an_own_device_asks_where_the_application_wants_it(page, wiki, emma, clock, asked, does):
    emma(own=True)
    clock.move(minutes=1)
    wiki.open(**asked, login_hint="emma")
    press(page, does)
    if does.startswith("Sign out"):
        expect(page.locator("#sign-in [name=email]")).to_have_value("emma")
        sign_in(page, own=True)
    assert wiki.entered() == "emma"


@pytest.mark.parametrize("kind", ["request", "leave"])
@pytest.mark.parametrize(
    "text", ["https://evil.test/", "//evil.test", "javascript:alert(1)", "", "A" * 70_000], ids=len
)
def test_a_fragment_that_is_not_ours_leads_nowhere(page, wiki, going, emma, kind, text):
    page.goto(f"{wiki.url}#{kind}={text}&url={text}")
    expect(going).to_contain_text(OVER if kind == "request" else "You are signed out.")
    sign_in(page, own=True)
    expect_account(page, going)
    assert page.url == wiki.url


def test_a_text_of_the_other_kind_leads_nowhere(page, wiki, going, emma, client):
    asked = {"client_id": "wiki", "redirect_uri": CALLBACK, "response_type": "code"}
    paths = {"authorize": {**asked, "scope": "openid"}, "logout": BACK}
    request, leave = (
        client.get(f"/oauth/{path}", query_string=sent).headers["Location"].partition("=")[2]
        for path, sent in paths.items()
    )
    for fragment, said in {
        f"leave={request}": "You are signed out.",
        f"request={leave}": OVER,
    }.items():
        page.goto(f"{wiki.url}#{fragment}")
        expect(going).to_contain_text(said)
        page.goto("about:blank")
    emma(own=True)
    page.goto(f"{wiki.url}#leave={request}")
    expect(going).to_contain_text("You are still signed in here.")
    expect_account(page, going)


def test_who_has_signed_in_again_may_try_again(page, wiki, going, make_user):
    make_user("emma")
    page.route("**/applications/codes", lambda it: it.fulfill(status=503, json={}), times=1)
    wiki.open(prompt="login")
    sign_in(page, own=True)
    press(page, f"Go on as {NAME}")
    assert wiki.entered() == "emma"


@pytest.mark.parametrize(("own", "minutes"), [(True, 16), (False, 16), (True, 61)])
def test_an_old_request_is_over_and_sooner_on_a_device_of_others(
    page, wiki, going, emma, clock, own, minutes
):
    """Somebody else may have begun it, and have gone away."""
    page.clock.install()
    wiki.open()
    expect(going).to_contain_text("Sign in to go on to School wiki.")
    page.clock.fast_forward(minutes * 60_000)
    clock.move(minutes=minutes)
    sign_in(page, own=own)
    if own and minutes < 60:
        wiki.answer()
    else:
        expect(going).to_contain_text(OVER)
        expect_account(page, going)


def test_who_reads_another_language_is_told_too_that_a_request_is_over(
    page, wiki, going, make_user, clock
):
    make_user("emma", language="de")
    page.clock.install()
    wiki.open()
    expect(going).to_contain_text("Sign in to go on to School wiki.")
    page.clock.fast_forward(16 * 60_000)
    clock.move(minutes=16)
    sign_in(page)
    expect(going).to_contain_text("Das hat zu lange gedauert und ist abgelaufen.")


def test_who_has_left_a_device_of_others_is_signed_out_before(page, wiki, going, emma, make_user):
    make_user("mia")
    emma()
    page.goto(wiki.url)
    expect(page.locator("#learning[aria-busy=false]")).to_be_visible()
    page.evaluate("localStorage['accounts / used'] -= 960_000")
    wiki.open()
    expect(page.locator("#ended")).to_contain_text(f"15 minutes without use. {STILL_KNOWN}")
    expect(going).not_to_contain_text("emma")
    sign_in(page, "mia")
    assert wiki.entered() == "mia"


def test_the_back_button_leads_to_no_request_that_was_answered(page, wiki, going, emma):
    wiki.open()
    page.get_by_role("link", name="Forgot your password?").click()
    page.get_by_role("link", name="Back to the sign-in").click()
    sign_in(page, own=True)
    wiki.answer()
    page.go_back()
    expect_account(page, going)


def test_another_tab_signs_in_and_out(page, wiki, going, emma):
    """Its user has not come from the application."""
    wiki.open()
    expect(going).to_contain_text("School wiki")
    other = page.context.new_page()
    other.goto(wiki.url)
    sign_in(other)
    expect(going).to_contain_text(f"Go on as {NAME}")
    other.locator("#sign-out").click()
    expect(page.locator("#ended")).to_contain_text(STILL_KNOWN)
    sign_in(page)
    expect_account(page, going)


def test_who_signs_out_at_the_application_is_signed_out_here(page, wiki, going, emma, make_user):
    make_user("mia")
    hint = {"id_token_hint": emma(own=True)}
    leave = f"{wiki.base}/oauth/logout?"
    for each in ({**hint, **BACK}, BACK):  # then nobody is there
        page.goto(leave + urlencode(each))
        page.wait_for_url(f"{LEFT}?state=s-2")
    page.goto(leave)
    expect(going).to_contain_text("You are signed out.")
    sign_in(page, "mia")
    expect(page.locator("#learning h1")).to_be_visible()
    page.goto(leave + urlencode({**hint, **BACK}))
    expect(going).to_contain_text("You are signed in as First Last (mia).")
    press(page, "Stay signed in")
    expect_account(page, going)
    page.goto(leave + urlencode(hint))
    press(page, "Sign out")
    expect(going).to_contain_text("You are signed out.")
    expect(page.locator("#ended")).to_contain_text(STILL_KNOWN)
    assert page.context.cookies() == []


@pytest.mark.parametrize("language", ["en", "de", "fr", "es"])
def test_without_a_request_no_application_is_named_or_loaded(page, client, wiki, language):
    told = {"en": "wiki or a forum", "de": "Wiki oder", "fr": "wiki ou", "es": "wiki o un foro"}
    assert told[language] in client.get(f"/privacy?language={language}").text
    loaded = []
    page.on("request", lambda it: loaded.append(it.url))
    page.goto(f"{wiki.url}?language={language}")
    expect(page.locator("#sign-in[aria-busy=false]")).to_be_visible()
    assert "School wiki" not in page.content()
    assert not [url for url in loaded if "application" in url]
