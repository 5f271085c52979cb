"""The pages that links open: a password is chosen, with a code too, or an address is confirmed."""

import re
from types import SimpleNamespace

import pytest
from helpers import NEW_PASSWORD, PASSWORD, set_user, success, token_in
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

DEAD = "This link is not valid any more."
CALLS = {"reset-password": "forgot-password", "verify-email": "resend-verification"}


@pytest.fixture
def newcomer(make_user):
    return make_user("newcomer")


@pytest.fixture
def ask(client, newcomer, outbox):
    """Have a link for this page mailed to the newcomer; return its token."""

    def ask(path):
        success(client.post(f"/api/auth/{CALLS[path]}", json={"email": newcomer.email}))
        return next(token_in(mail) for mail in outbox.deliver() if "#token=" in str(mail))

    return ask


@pytest.fixture
def open_link(page, base_url, ask):
    """Open a page by a link, by default a living one; return its token."""

    def open_link(path="reset-password", token=None):
        token = token or ask(path)
        page.goto(f"{base_url}/{path}#token={token}")
        return token

    return open_link


@pytest.fixture
def api(page):
    """The calls that the page sends, and what comes next in place of answers; None: nothing."""
    it = SimpleNamespace(calls=[], instead=[])

    def answer(route):
        it.calls.append((route.request.url.rpartition("/")[2], route.request.post_data_json))
        reply = it.instead.pop(0) if it.instead else "its own"
        if reply == "its own":
            return route.continue_()
        return route.fulfill(**reply) if reply else route.abort()

    page.route("**/api/**", answer)
    return it


def error(status, code, **more):
    return {"status": status, "json": {"success": False, "error": {"code": code, **more}}}


def confirm(page):
    page.locator("#link-password").fill(PASSWORD)
    page.get_by_role("button", name="Confirm my e-mail address").click()


def expect_section(page, heading, text=""):
    """Expect the one section with this heading, which has the focus."""
    expect(page.get_by_role("heading", name=heading, exact=True)).to_be_focused()
    expect(page.locator("main > section:visible")).to_have_count(1)
    expect(page.locator("main > section:visible")).to_contain_text(text)
    expect(page).to_have_title(f"{heading} · 127.0.0.1")


@pytest.mark.asvs("6.2.6", "6.2.7")
def test_password_is_chosen_by_keyboard_and_a_weak_one_is_refused_beside_its_field(
    page, open_link, api
):
    token = open_link()
    expect_section(page, "Choose a password", "Account: newcomer")
    expect(page.get_by_text(re.compile("12 letters|Without a code"))).to_have_count(2)
    expect(
        page.get_by_text(re.compile("12 letters|Without a code")).filter(visible=True)
    ).to_have_count(0)
    for_password_managers = page.locator("form input[autocomplete=username][readonly]")
    expect(for_password_managers).to_have_value("newcomer")
    field = page.locator("#link-newPassword")
    page.keyboard.press("Tab")
    page.keyboard.type("short")
    page.keyboard.press("Enter")
    expect(field).to_be_focused()
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).to_have_accessible_description(
        re.compile(r"At least 8 .*Use 8 or more characters\.")
    )
    expect(page.locator("#choose-password [role=alert]")).to_be_empty()  # one message
    field.fill(NEW_PASSWORD)
    page.keyboard.press("Tab")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("header")).to_contain_text("newcomer")
    assert api.calls[:2] == [("check-link", {"token": token}), ("refresh", {})]
    sent = ("reset-password", {"token": token, "newPassword": NEW_PASSWORD})
    assert api.calls.index(sent) == 3  # after the weak one


@pytest.mark.asvs("6.2.6", "6.2.7")
def test_a_password_can_be_looked_at(page, base_url):
    page.goto(f"{base_url}/reset-password")
    for type_ in ("password", "text", "password"):
        expect(page.locator("#link-newPassword")).to_have_attribute("type", type_)
        page.locator("#choose-password").get_by_label("Show password").click()


@pytest.mark.asvs("3.4.3", "3.4.4", "3.4.5", "3.4.6", "14.2.2", "14.2.3", "14.3.1")
def test_the_token_leaves_the_address_and_gets_into_no_request(
    page, base_url, app, open_link, monkeypatch
):
    asked, inner = [], app.wsgi_app

    def note(environ, start_response):
        names = ("PATH_INFO", "QUERY_STRING", "HTTP_REFERER")
        asked.append(" ".join(environ.get(name, "") for name in names))
        return inner(environ, start_response)

    monkeypatch.setattr(app, "wsgi_app", note)
    token = open_link()
    page.locator("#link-newPassword").fill(NEW_PASSWORD)
    assert page.url == f"{base_url}/reset-password"
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#learning h1")).to_be_visible()
    assert len(asked) >= 5
    assert [line for line in asked if token in line or "http" in line] == []
    page.go_back()
    assert page.url == f"{base_url}/reset-password"


def test_a_used_link_leads_to_the_sign_in_a_code_or_a_new_link(page, client, open_link, outbox):
    token = open_link()
    page.locator("#link-newPassword").fill(NEW_PASSWORD)
    success(client.post("/api/auth/reset-password", json={"token": token, "newPassword": PASSWORD}))
    outbox.deliver()
    page.get_by_role("button", name="Save").click()  # it died while the password was typed
    expect_section(page, "Get a new link", DEAD)
    page.goto("about:blank")
    open_link(token=token)
    expect_section(page, "Get a new link", DEAD)
    section = page.locator("#forgot-password")
    expect(section).to_contain_text("Have you already chosen a password with it? Then sign in")
    to_sign_in = section.get_by_role("link", name="Sign in")
    expect(to_sign_in).to_have_attribute("href", "account#sign-in")
    section.get_by_role("link", name="I have a code").click()
    expect_section(page, "Choose a password", "With a code: enter it here")
    expect(page.get_by_text("Account:")).to_be_hidden()
    page.get_by_role("link", name="Get a link by e-mail").click()
    section.get_by_label("Username or e-mail address").fill("newcomer")
    section.get_by_role("button", name="Send a new link").click()
    expect_section(page, "Check your e-mail", "we have sent one to its e-mail address")
    assert [kind for kind, _ in outbox.waiting()] == ["password_reset"]


def test_a_link_of_another_page_or_of_the_wrong_form_is_not_valid(page, open_link, ask):
    for path, other in (("reset-password", "verify-email"), ("verify-email", "reset-password")):
        token = ask(other)
        for wrong in (token, "x" * 5000):
            page.goto("about:blank")
            open_link(path, wrong)
            expect_section(page, "Get a new link", DEAD)
        open_link(other, token)  # nothing has used it up
        expect(page.get_by_text("Account: newcomer")).to_be_visible()


@pytest.mark.asvs("1.1.1", "1.1.2", "3.2.2")
def test_no_text_of_an_answer_is_shown(page, open_link, api):
    hostile = "<img src=x onerror=alert(1)>"
    open_link()
    page.locator("#link-newPassword").fill(NEW_PASSWORD)
    api.instead.append(error(400, "weak_password", reasons={"newPassword": [hostile]}))
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#link-newPassword-error")).to_have_text("This is not valid. Check it.")
    assert page.locator("img").count() == 1


def test_a_wrong_code_is_named_at_its_field_and_keeps_what_was_typed(
    page, base_url, newcomer, client, admin
):
    url, body = f"/api/users/{newcomer.id}/access-link", {"deliver": "link"}
    right = success(client.post(url, json=body, headers=admin.headers))["code"]
    page.goto(f"{base_url}/reset-password")
    account, code, password = (
        page.locator(f"#link-{name}") for name in ("account", "code", "newPassword")
    )
    account.fill("newcomer")
    wrong = right[:-1].replace("-", " ").lower()
    code.fill(wrong)
    password.fill(NEW_PASSWORD)
    password.press("Enter")
    expect(code).to_be_focused()
    expect(code).to_have_attribute("aria-invalid", "true")
    expect(code).to_have_accessible_description(re.compile("the account or the code is wrong"))
    expect(page.locator(".error:visible").filter(has_text=re.compile("."))).to_have_count(1)
    expect(code).to_have_value(wrong)
    expect(password).to_have_value(NEW_PASSWORD)
    code.fill(right.replace("-", "").lower())
    password.fill("short")
    expect(code).to_have_value(right)  # as on the sheet
    password.press("Enter")
    expect(password).to_have_attribute("aria-invalid", "true")
    expect(password).to_have_accessible_description(re.compile("Use 8 or more characters"))
    expect(password).to_be_focused()
    expect(code).not_to_have_attribute("aria-invalid", "true")
    password.fill(NEW_PASSWORD)
    password.press("Enter")
    expect(page.locator("header")).to_contain_text("newcomer")
    page.go_back()
    for field in (account, code, password):
        expect(field).to_have_value("")


def test_a_phone_does_not_correct_what_is_typed(page, base_url):
    page.goto(f"{base_url}/reset-password")
    for name, found in {
        "account": ("username", "none", "email"),
        "code": ("one-time-code", "characters", ""),
        "newPassword": ("new-password", "none", ""),
    }.items():
        field = page.locator(f"#link-{name}")
        said = [field.get_attribute(each) for each in ("autocorrect", "spellcheck")]
        said += field.evaluate("it => [it.autocomplete, it.autocapitalize, it.inputMode]")
        assert said == ["off", "false", *found]


def test_address_is_confirmed_only_by_the_button_and_once(page, open_link, api):
    token = open_link("verify-email")
    expect_section(page, "Confirm your e-mail address", "Account: newcomer@example.org")
    page.wait_for_load_state("networkidle")
    assert api.calls == [("check-link", {"token": token}), ("refresh", {})]
    section = page.locator("#verify-email")
    field = section.get_by_label("Password", exact=True)
    button = page.get_by_role("button", name="Confirm my e-mail address")
    button.click()
    expect(field).to_have_accessible_description("Fill in this field.")
    field.fill("wrong")
    button.click()
    expect(field).to_have_accessible_description("This password is wrong. Enter it again.")
    expect(section.get_by_role("link", name="Forgot your password?")).to_have_attribute(
        "href", "account#forgot-password"
    )
    field.fill(PASSWORD)
    held = []
    page.route("**/verify-email", lambda route: held.append(route))
    with page.expect_request("**/api/auth/verify-email"):
        for _ in range(3):
            button.press("Enter")
    expect(button).to_have_attribute("aria-disabled", "true")
    expect(button).to_be_focused()
    expect(page.locator("#verify-email").get_by_role("status")).to_have_text("One moment…")
    held[0].continue_()
    expect(page.locator("header")).to_contain_text("newcomer")
    bodies = [route.request.post_data_json for route in held]
    assert bodies == [{"token": token, "password": PASSWORD}]
    assert ("login", {"email": "newcomer@example.org", "password": PASSWORD}) in api.calls


@pytest.mark.parametrize("who", ["newcomer", "stranger", "no password"])
def test_who_is_signed_in_or_has_no_password_is_asked_for_none(
    page, app, make_user, newcomer, sign_in, open_link, who
):
    if who == "no password":
        set_user(app, newcomer, password_hash="!none")
    else:
        sign_in(page, make_user("stranger") if who == "stranger" else newcomer, "account")
        expect(page.locator("header")).to_contain_text(who)
    open_link("verify-email")
    if who == "stranger":
        with page.expect_event("load"):  # the page starts anew, and drops what was typed before
            page.get_by_role("button", name="Sign out and go on as newcomer@example.org").click()
    password = page.locator("#verify-email").get_by_label("Password", exact=True)
    expect(password).to_be_visible(visible=who == "stranger")
    if who == "stranger":
        password.fill(PASSWORD)
    page.get_by_role("button", name="Confirm my e-mail address").click()
    if who == "stranger":
        expect(page.locator("header")).to_contain_text("newcomer")
    else:
        expect_section(page, "Your e-mail address is confirmed", "You can sign in now.")
        way = page.get_by_role("link", name="My account")
        expect(way).to_have_attribute("href", "account")


@pytest.mark.parametrize("fragment", ["", "#token=", "#other=1"])
def test_a_page_without_a_token_waits_for_the_link(page, base_url, open_link, fragment):
    page.goto(f"{base_url}/verify-email{fragment}")
    expect_section(page, "Get a new link", "This page needs the link in our e-mail.")
    assert page.evaluate("history.length") == 2  # the way back does not lead here again
    open_link("verify-email")  # pasted into the open page
    expect(page.get_by_text("needs the link")).to_be_hidden()
    confirm(page)
    expect(page.locator("header")).to_contain_text("newcomer")


FAILURES = [
    (error(429, "too_many_requests"), "Too many attempts."),
    ({"status": 502, "body": "<h1>Bad gateway</h1>"}, "temporarily unavailable."),
    (error(400, "brand_new"), "Something went wrong on our side."),
    ({"status": 200, "body": "null"}, "temporarily unavailable."),
    (None, "The service did not respond."),
]


def test_a_failed_call_is_explained_and_can_be_repeated(page, open_link, api):
    api.instead.append(FAILURES[0][0])  # the page asks for whom the link is
    open_link("verify-email")
    expect(page.locator("#trouble [role=alert]")).to_contain_text("Too many attempts.")
    button = page.get_by_role("button", name="Confirm my e-mail address")
    expect(button).to_be_hidden()
    page.get_by_role("button", name="Try again").click()
    page.locator("#link-password").fill(PASSWORD)
    for failure, sentence in FAILURES:
        expect(button).to_be_visible()
        api.instead.append(failure)
        button.click()
        expect(page.locator("#verify-email [role=alert]")).to_contain_text(sentence)
    button.click()
    expect(page.locator("header")).to_contain_text("newcomer")


def test_without_account_pages_the_pages_of_links_stay(page, base_url, open_link, change_settings):
    change_settings(account_pages=False)
    open_link("verify-email")
    confirm(page)
    expect_section(page, "Your e-mail address is confirmed", "You can close this page.")
    change_settings(app_url=f"{base_url}/app")
    open_link()
    page.locator("#link-newPassword").fill(NEW_PASSWORD)
    page.get_by_role("button", name="Save").click()
    way = page.locator("#done").get_by_role("link")
    expect(way).to_have_attribute("href", f"{base_url}/app")
    expect(page.get_by_text("You can close this page.")).to_have_count(0)
    expect(page.locator("main [href^=account]")).to_have_count(0)


def test_the_language_that_is_shown_holds_on_the_pages_of_links(page, base_url):
    page.goto(f"{base_url}/account?language=es")
    page.get_by_role("link", name="Tengo un código").click()
    expect(page.get_by_role("heading", name="Elegir una contraseña")).to_be_visible()
    ways = page.locator("main [href^=account]").evaluate_all("all => all.map((it) => it.search)")
    assert {*ways} == {"?language=es"}


def test_the_pages_work_below_a_path_prefix(page, base_url, app, monkeypatch, change_settings, ask):
    inner, token = app.wsgi_app, ask("verify-email")

    def below_accounts(environ, start_response):
        assert environ["PATH_INFO"].startswith("/accounts/"), environ["PATH_INFO"]
        environ["PATH_INFO"] = environ["PATH_INFO"].removeprefix("/accounts")
        return inner(environ, start_response)

    change_settings(public_url=f"{base_url}/accounts")
    monkeypatch.setattr(app, "wsgi_app", below_accounts)
    page.goto(f"{base_url}/accounts/")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.goto(f"{base_url}/accounts/verify-email#token={token}")
    confirm(page)
    expect(page.locator("header")).to_contain_text("newcomer")
