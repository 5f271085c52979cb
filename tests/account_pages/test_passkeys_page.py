"""Passkeys in Chromium, with an authenticator of its DevTools, at `localhost`: an IP has none."""

import re
from contextlib import contextmanager
from dataclasses import replace

import pytest
from authenticator import set_up
from axe_playwright_python.sync_playwright import Axe
from flask import Flask
from helpers import PASSWORD, set_user, soon
from playwright.sync_api import expect
from real_service import serving

from core.clock import utcnow
from extensions import components

pytestmark = pytest.mark.browser


@contextmanager
def at_localhost(app):
    with serving(app) as url:
        parts = components(app)
        url = url.replace("127.0.0.1", "localhost")
        parts.settings = replace(parts.settings, public_url=url)
        yield url


@pytest.fixture
def base_url(app):
    with at_localhost(app) as url:
        yield url


class Device:
    """The authenticator of a page. It answers by itself; `idle`, nobody touches it."""

    def __init__(self, page):
        self._session = page.context.new_cdp_session(page)
        self.send("enable")
        options = {"protocol": "ctap2", "transport": "internal", "hasResidentKey": True}
        options |= {"hasUserVerification": True, "isUserVerified": True}
        self._id = self.send("addVirtualAuthenticator", options=options)["authenticatorId"]
        self.idle(True)

    def send(self, what, **more):
        return self._session.send(f"WebAuthn.{what}", more)

    def set(self, what, **more):
        return self.send(what, authenticatorId=self._id, **more)

    def idle(self, is_idle):
        self.set("setAutomaticPresenceSimulation", enabled=not is_idle)

    @property
    def passkeys(self):
        return self.set("getCredentials")["credentials"]


@pytest.fixture
def device(page):
    return Device(page)


@pytest.fixture
def card(page):
    return page.locator("#security-passkeys")


@pytest.fixture
def security(page, sign_in, card, device):
    """Sign in as a user, and open the form that adds a passkey."""

    def security(user):
        sign_in(page, user, "account#security")
        card.get_by_text("Add a passkey").click()

    return security


def add(card, device, password=PASSWORD):
    device.idle(False)
    card.get_by_label("Current password").first.fill(password)
    card.get_by_role("button", name="Create the passkey").click()


# Nobody chooses what the browser proposes; as in a browser, it proposes for one call at a time.
NOTHING_CHOSEN = """
  const get = navigator.credentials.get.bind(navigator.credentials);
  let isProposing = false;
  navigator.credentials.get = async (options) => {
    if (isProposing) throw new Error("a request is pending");
    if (options.mediation !== "conditional") return get(options);
    isProposing = true;
    return new Promise((_, refuse) => options.signal.addEventListener("abort", () => {
      isProposing = false;
      refuse(options.signal.reason);
    }));
  };
"""


def leave(page, device):
    device.idle(True)
    page.add_init_script(NOTHING_CHOSEN)  # the page starts anew, and the button alone signs in
    page.locator("#sign-out").click()
    expect(page.locator("#passkey-go")).to_be_visible()


def use(page, device):
    device.idle(False)
    page.get_by_role("button", name="Sign in with a passkey").click()


def test_passkey_is_made_used_renamed_and_removed(page, make_user, security, card, device):
    user = make_user()
    security(user)
    card.get_by_label("Name", exact=True).first.fill("My phone")
    add(card, device, "wrong-one-here")
    error = page.locator("#passkey-add-password-error")
    expect(error).not_to_be_empty()
    (made,) = device.passkeys
    assert made["isResidentCredential"]
    assert made["rpId"] == "localhost"
    device.idle(True)  # the same one waits for the right password
    card.get_by_label("Current password").first.fill(PASSWORD)
    card.get_by_label("Current password").first.press("Enter")
    expect(card.get_by_role("status").first).to_have_text(re.compile("Your passkey is ready"))
    expect(card.get_by_role("listitem")).to_contain_text("My phone")
    expect(card.get_by_role("listitem")).to_contain_text("not used yet")
    ends = page.get_by_text("A new password removes all passkeys.")
    expect(ends.filter(visible=True)).to_have_count(1)
    leave(page, device)
    use(page, device)
    page.get_by_role("link", name="Security").click()
    expect(card.get_by_role("listitem")).to_contain_text("last used")
    card.get_by_role("button", name="Rename").click()
    dialog = page.get_by_role("dialog", name="Rename")
    expect(dialog.get_by_label("Name")).to_have_value("My phone")
    dialog.get_by_label("Name").fill("The old phone")
    dialog.get_by_label("Name").press("Enter")
    expect(card.get_by_role("listitem")).to_contain_text("The old phone")
    card.get_by_role("button", name="Remove").click()
    dialog = page.get_by_role("dialog", name="Remove")
    expect(dialog).to_contain_text("The old phone")
    dialog.get_by_label("Current password").fill(PASSWORD)
    dialog.get_by_role("button", name="Remove").click()
    expect(card.get_by_role("listitem")).to_have_count(0)
    assert device.passkeys == []  # the browser was told, and offers it no more


def test_browser_proposes_passkeys_for_the_username(page, make_user, security, card, device):
    security(make_user())
    add(card, device)
    expect(card.get_by_role("listitem").locator("strong")).to_have_text("Passkey")
    name = page.locator("#sign-in [name=email]")
    assert name.get_attribute("autocomplete") == "username webauthn"
    assert name.get_attribute("spellcheck") == "false"
    # This authenticator chooses what a person would, as soon as the page waits for that.
    with page.expect_response("**/api/auth/login") as answer:
        page.locator("#sign-out").click()
    assert answer.value.status == 200
    expect(page.locator("#sign-out")).to_be_visible()


def test_button_works_after_the_way_back(page, base_url, make_user, security, card, device):
    security(make_user())
    add(card, device)
    expect(card.get_by_role("listitem")).to_have_count(1)
    leave(page, device)
    page.goto(f"{base_url}/reset-password")
    page.go_back()
    expect(page.locator("#passkey-go")).to_be_visible()
    use(page, device)
    expect(page.locator("#sign-out")).to_be_visible()


def test_no_dialog_opens_by_itself(page, base_url, device):
    page.add_init_script(
        "const get = navigator.credentials.get.bind(navigator.credentials);"
        "window.asked = [];"
        "navigator.credentials.get = (o) => { asked.push(o.mediation); return get(o); };"
    )
    page.goto(f"{base_url}/account")
    expect(page.locator("#passkey-go")).to_be_visible()
    soon(lambda: page.evaluate("asked.length > 0"))
    assert page.evaluate("asked") == ["conditional"]


def test_second_factor_is_asked_for_when_a_passkey_is_added(
    app, page, make_user, sign_in, card, device, clock, log_in
):
    boss = make_user("boss", role="admin")
    phone = set_up(app.test_client(), log_in(boss), boss, clock)
    sign_in(page, boss, "account#security")
    form = page.locator("#sign-in form")
    form.get_by_label("Code").fill(phone.code())
    form.get_by_label("Code").press("Enter")
    card.get_by_text("Add a passkey").click()
    card.get_by_label("Code").first.fill(phone.wrong())
    add(card, device)
    expect(card.get_by_label("Code").first).to_have_attribute("aria-invalid", "true")
    clock.move(seconds=30)
    card.get_by_label("Code").first.fill(phone.code())
    card.get_by_label("Code").first.press("Enter")
    expect(card.get_by_role("listitem")).to_have_count(1)
    assert len(device.passkeys) == 1
    leave(page, device)
    page.goto(page.url.replace("/account", "/admin"))
    expect(page.locator("#passkey-go")).to_be_visible()
    use(page, device)
    expect(page.locator("#people")).to_be_visible()


def test_what_the_browser_or_the_service_refuses_is_said(page, make_user, security, card, device):
    user = make_user()
    security(user)
    device.set("setUserVerified", isUserVerified=False)
    add(card, device)
    expect(card.get_by_role("alert").first).to_have_text(re.compile("No passkey was used"))
    device.set("setUserVerified", isUserVerified=True)
    add(card, device)
    expect(card.get_by_role("listitem")).to_have_count(1)
    add(card, device)
    expect(card.get_by_role("alert").first).to_have_text(
        re.compile("has a passkey of your account")
    )
    leave(page, device)
    alert = page.locator("#sign-in form [role=alert]")
    for bits in ("isBogusSignature", "isBadUV", "isBadUP"):
        device.set("setResponseOverrideBits", **{bits: True})
        use(page, device)
        expect(alert).to_have_text(re.compile("does not sign in here"))
        device.idle(True)
        device.set("setResponseOverrideBits", **{bits: False})
    (made,) = device.passkeys
    flip = {"credentialId": made["credentialId"], "backupState": not made["backupState"]}
    device.set("setCredentialProperties", **flip)
    use(page, device)
    expect(page.locator("#sign-out")).to_be_visible()


def test_two_users_of_a_device_keep_their_passkeys(page, make_user, security, card, device):
    for name in ("anna", "berta"):
        security(make_user(name))
        add(card, device)
        expect(card.get_by_role("listitem")).to_have_count(1)
        leave(page, device)
    assert {each["userName"] for each in device.passkeys} == {"anna", "berta"}


def test_card_is_for_everybody(browser, base_url, make_user, device, sign_in):
    context = browser.new_context(bypass_csp=True, viewport={"width": 320, "height": 640})
    page = context.new_page()
    page.set_default_timeout(10_000)
    own, card = Device(page), page.locator("#security-passkeys")
    sign_in(page, make_user(), "account#security")
    card.get_by_text("Add a passkey").click()
    add(card, own)
    expect(card.get_by_role("listitem")).to_have_count(1)
    add(card, own)
    expect(card.get_by_role("alert").first).to_contain_text("has a passkey of your account")
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    assert [each["id"] for each in found if each["impact"] in ("serious", "critical")] == []
    heading = card.get_by_role("heading", name="Passkeys")
    expect(heading).to_be_visible()
    expect(card.get_by_role("list").get_by_role("button")).to_have_text(["Rename", "Remove"])
    context.close()


@pytest.mark.parametrize("setting", ["none", "staff"])
def test_who_can_have_none_reads_nothing_of_them(
    app, page, base_url, make_user, sign_in, device, setting
):
    parts = components(app)
    parts.settings = replace(parts.settings, passkeys=setting)
    sign_in(page, make_user(), "account#security")
    expect(page.locator("#security-happened")).to_be_visible()
    expect(page.get_by_text(re.compile("passkey", re.I)).filter(visible=True)).to_have_count(0)
    # The sign-in does not know yet who comes.
    assert page.locator("#passkey-go").count() == (setting == "staff")


def test_support_sees_how_many_and_removes_them(
    app, page, make_user, security, card, device, sign_in
):
    user, boss = make_user("pupil"), make_user("boss", role="admin")
    security(user)
    add(card, device)
    expect(card.get_by_role("listitem")).to_have_count(1)
    leave(page, device)
    sign_in(page, boss, f"admin#people/{user.id}/access")
    facts, menu = page.locator("#person-access dl"), page.locator("#person-menu summary")
    expect(facts).to_contain_text(re.compile(r"Passkeys\s*1"))
    menu.click()
    expect(page.get_by_role("button", name="Remove the second factor")).to_be_hidden()
    page.get_by_role("button", name="Remove all passkeys").click()
    dialog = page.get_by_role("dialog", name="Remove all passkeys")
    expect(dialog).to_contain_text("All passkeys are removed.")
    dialog.get_by_role("button", name="Remove all passkeys").click()
    expect(page.locator("#people-news")).to_contain_text("neither a second factor nor passkeys")
    expect(facts.get_by_role("term").filter(has_text="Passkeys")).to_have_count(0)
    set_user(app, user, second_factor_at=utcnow())
    page.reload()
    menu.click()
    page.get_by_role("button", name="Remove the second factor").click()
    expect(page.get_by_role("button", name="Remove all passkeys")).to_be_hidden()
    dialog = page.get_by_role("dialog", name="Remove the second factor")
    dialog.get_by_role("button", name="Remove the second factor").click()
    expect(page.locator("[data-opens=act-factor]")).to_be_hidden()


@pytest.fixture
def elsewhere(make_app):
    """A page of another origin: its URL, and the service's."""
    front_end = Flask("front_end")
    html = '<!doctype html><title>Courses</title><link rel="icon" href="data:,"><button>Go'
    front_end.add_url_rule("/", "page", lambda: html)
    with serving(front_end) as url:
        url = url.replace("127.0.0.1", "localhost")
        with at_localhost(make_app(cors_origins=(url,))) as service:
            yield [url, service]


def test_front_end_elsewhere_makes_a_passkey_and_signs_in(elsewhere, browser, make_user):
    users = [make_user(name).email for name in ("anna", "berta", "carla")]
    context = browser.new_context()
    page = context.new_page()
    Device(page).idle(False)
    page.goto(elsewhere[0])
    page.evaluate(
        """([url, [anna, berta, carla], password]) => {
          async function act() {
            const { createClient } = await import(`${url}/client.js`);
            const client = createClient({ url, storage: "memory" });
            await client.signIn({ email: anna, password });
            await client.passkeys.add({ password });
            await client.signOut();
            const { username } = await client.passkeys.signIn();
            await client.signIn({ email: berta, password });
            const { code } = await client.passkeys.add({ password: "wrong" }).catch((e) => e);
            await client.signIn({ email: carla, password });
            const { lastUsedAt } = await client.passkeys.add({ password }); // not berta's
            return `${username} ${code} ${lastUsedAt}`;
          }
          const tell = (text) => (document.title = text);
          document.querySelector("button").onclick = () => act().then(tell, tell);
        }""",
        [elsewhere[1], users, PASSWORD],
    )
    page.get_by_role("button").click()
    expect(page).to_have_title("anna wrong_password null")
    context.close()
