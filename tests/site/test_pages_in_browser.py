"""The built-in pages in Chromium, from the opened link to the last word on the page.

The `page` fixture asserts at the end of each story that nothing broke: no console message, no
violation of the Content-Security-Policy, no request to another host.
"""

import re

import pytest
from fake_api import bad
from flask import request
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

PASSPHRASE = "seven green lamps"


def open_link(page, base_url, path, fake_api=None):
    """Open a page with a token, which lives if the API is given."""
    if fake_api:
        fake_api.make_link(path.rpartition("/")[2])
    page.goto(f"{base_url}/{path}#token=T.1-x_y")


def expect_step(page, heading, text=""):
    """Expect the step with this heading, which has the focus."""
    expect(page.get_by_role("heading", name=heading)).to_be_focused()
    expect(page.locator("main > section:visible")).to_contain_text(text)
    expect(page).to_have_title(re.compile(heading))


@pytest.mark.asvs("6.2.6", "6.2.7")
def test_password_is_chosen_by_keyboard_and_a_weak_one_is_refused_beside_its_field(
    page, base_url, fake_api
):
    open_link(page, base_url, "reset-password", fake_api)
    expect(page.get_by_text("Account: newcomer")).to_be_visible()
    for_password_managers = page.locator("#act form input[autocomplete=username][readonly]")
    expect(for_password_managers).to_have_value("newcomer")
    assert not for_password_managers.is_editable()
    field = page.get_by_label("New password")
    page.keyboard.press("Tab")
    page.keyboard.type("short")
    page.keyboard.press("Enter")
    expect(field).to_be_focused()
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).to_have_accessible_description(
        re.compile(r"At least 8 .*Use 8 or more characters\.")
    )
    # One mistake, one message.
    expect(page.get_by_role("alert")).to_be_empty()

    field.fill("")
    page.keyboard.type(PASSPHRASE)
    page.keyboard.press("Tab")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.keyboard.press("Tab")
    expect(page.get_by_role("button")).to_be_focused()
    page.keyboard.press("Enter")
    expect_step(page, "Your new password is saved", "Sign in with it now")
    assert fake_api.password == PASSPHRASE
    assert fake_api.requests[0] == ("check-link", {"token": "T.1-x_y"})
    assert fake_api.requests[-1] == (
        "reset-password",
        {"token": "T.1-x_y", "newPassword": PASSPHRASE},
    )


@pytest.mark.asvs("6.2.6", "6.2.7")
def test_a_password_can_be_looked_at(page, base_url, fake_api):
    open_link(page, base_url, "reset-password", fake_api)
    field = page.get_by_label("New password")
    expect(field).to_have_attribute("type", "password")
    expect(field).to_have_attribute("autocomplete", "new-password")
    page.get_by_label("Show password").check()
    expect(field).to_have_attribute("type", "text")
    page.get_by_label("Show password").uncheck()
    expect(field).to_have_attribute("type", "password")


def test_address_is_confirmed_only_by_the_button_and_once(page, base_url, fake_api):
    path, button = "verify-email", "Confirm my e-mail address"
    done = "Your e-mail address is confirmed"
    fake_api.username = ""
    open_link(page, base_url, path, fake_api)
    expect(page.get_by_text("newcomer@example.org")).to_be_visible()
    page.wait_for_load_state("networkidle")
    assert fake_api.requests == [("check-link", {"token": "T.1-x_y"})]

    held = []
    page.route("**/api/**", lambda route: held.append(route))
    button = page.get_by_role("button", name=button)
    for _ in range(3):
        button.press("Enter")
    expect(button).to_have_attribute("aria-disabled", "true")
    expect(button).to_be_focused()
    expect(page.get_by_role("status")).to_have_text("One moment…")
    held[0].continue_()
    expect_step(page, done)
    assert len(held) == 1
    assert fake_api.requests[1:] == [(path, {"token": "T.1-x_y"})]


@pytest.mark.asvs("3.4.3", "3.4.4", "3.4.5", "3.4.6")
def test_the_token_leaves_the_address_and_gets_into_no_request(page, base_url, site_app, fake_api):
    asked = []
    site_app.before_request(lambda: asked.append(f"{request.full_path} {request.referrer}"))
    open_link(page, base_url, "reset-password", fake_api)
    page.get_by_label("New password").fill(PASSPHRASE)
    assert page.url == f"{base_url}/reset-password"
    page.get_by_role("button").click()
    expect(page.locator("#done")).to_be_visible()
    assert len(asked) >= 5
    assert all(line.endswith("? None") for line in asked), asked
    page.goto(f"{base_url}/docs")
    page.go_back()
    expect(page.locator("main > section:visible")).to_have_count(1)
    assert page.url == f"{base_url}/reset-password"


@pytest.mark.parametrize(
    ("path", "call"),
    [("reset-password", "forgot-password"), ("verify-email", "resend-verification")],
)
def test_a_dead_link_offers_a_new_one_before_anything_is_typed(
    page, base_url, fake_api, path, call
):
    open_link(page, base_url, path)
    expect_step(page, "Get a new link", "This link is not valid any more.")
    names = {"reset-password": "Username or e-mail address", "verify-email": "E-mail address"}
    field = page.get_by_role("textbox", name=names[path], exact=True)
    field.fill("lee@example")
    fake_api.instead = bad("invalid_request", "Some fields are not valid.", email=["invalid"])
    page.get_by_role("button", name="Send a new link").click()
    expect(field).to_be_focused()
    expect(field).to_have_accessible_description("This is not a valid e-mail address.")
    fake_api.instead = None
    field.fill("lee@example.org")
    page.get_by_role("button", name="Send a new link").click()
    expect_step(page, "Check your e-mail", "we have sent one to its e-mail address")
    assert fake_api.requests[-1] == (call, {"email": "lee@example.org"})


def test_a_link_of_another_page_or_of_the_wrong_form_is_not_valid(page, base_url, fake_api):
    fake_api.make_link("verify-email")
    open_link(page, base_url, "reset-password")
    expect_step(page, "Get a new link", "This link is not valid any more.")
    assert "T.1-x_y" in fake_api.live_tokens

    fake_api.instead = bad("invalid_request", "Some fields are not valid.", token=["too_long"])
    page.goto("about:blank")
    open_link(page, base_url, "reset-password", fake_api)
    expect_step(page, "Get a new link", "This link is not valid any more.")


@pytest.mark.parametrize("fragment", ["", "#token=", "#other=1"])
def test_a_page_without_a_token_waits_for_the_link(page, base_url, fake_api, fragment):
    page.goto(f"{base_url}/verify-email{fragment}")
    expect(page.get_by_role("heading", name="Get a new link")).to_be_visible()
    expect(page.get_by_text("This page needs the link in our e-mail.")).to_be_visible()
    open_link(page, base_url, "verify-email", fake_api)  # pasted into the open page
    page.get_by_role("button", name="Confirm my e-mail address").click()
    expect(page.locator("#done")).to_be_visible()


ONE_MOMENT = "The service is temporarily unavailable."
FAILURES = [
    (bad("too_many_requests", "Wait a minute.", 429), "Too many attempts."),
    (bad("unavailable", "Wait.", 503), "Try again in a moment."),
    (bad("brand_new", "<img src=x onerror=alert(1)>", 400), "Something went wrong on our side."),
    (("<h1>Bad gateway</h1>", 502), ONE_MOMENT),
    (("null", 200, {"Content-Type": "application/json"}), ONE_MOMENT),
]


def test_a_failed_call_is_explained_and_can_be_repeated(page, base_url, fake_api):
    # The page asks for whom the link is.
    fake_api.instead = FAILURES[0][0]
    open_link(page, base_url, "verify-email", fake_api)
    expect(page.get_by_role("alert")).to_contain_text("Too many attempts.")
    fake_api.instead = None
    page.get_by_role("button", name="Try again").click()

    button = page.get_by_role("button", name="Confirm my e-mail address")
    expect(button).to_be_visible()
    for fake_api.instead, sentence in FAILURES:
        button.click()
        expect(page.get_by_role("alert")).to_contain_text(sentence)
    page.route("**/api/**", lambda route: route.abort())
    button.click()
    expect(page.get_by_role("alert")).to_contain_text("The service did not respond.")
    page.unroute("**/api/**")
    fake_api.instead = None
    button.click()
    expect_step(page, "Your e-mail address is confirmed")


@pytest.mark.asvs("1.1.1", "1.1.2", "3.2.2")
def test_no_text_of_an_answer_is_shown(page, base_url, fake_api):
    hostile = "<img src=x onerror=alert(1)>"
    open_link(page, base_url, "reset-password", fake_api)
    page.get_by_label("New password").fill(PASSPHRASE)
    fake_api.instead = bad("weak_password", hostile, newPassword=[hostile])
    page.get_by_role("button").click()
    expect(page.locator("#new-password-error")).to_have_text("This is not valid.")
    assert page.locator("img").count() == 1


@pytest.mark.parametrize("path", ["reset-password", "reset-password#token=T.1-x_y"])
@pytest.mark.parametrize(("width", "text_size"), [(320, "100%"), (640, "200%")])
@pytest.mark.parametrize("language", ["de", "fr"])  # which have the longest words and texts
def test_a_page_fits_a_small_screen_and_large_text(
    page, base_url, fake_api, path, width, text_size, language
):
    fake_api.make_link("reset-password")
    fake_api.username = "x" * 32
    page.set_extra_http_headers({"Accept-Language": language})
    page.set_viewport_size({"width": width, "height": 480})
    page.goto(f"{base_url}/{path}")
    expect(page.locator("#act")).to_be_visible()
    page.evaluate(f"document.documentElement.style.fontSize = '{text_size}'")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for control in page.locator("main input:visible, main button:visible").all():
        box = control.bounding_box()
        assert 0 <= box["x"] <= box["x"] + box["width"] <= width
    # Phones zoom into a field whose letters are smaller, and stay zoomed.
    sizes = page.locator("input:not([type=checkbox])").evaluate_all(
        "all => all.map(input => parseFloat(getComputedStyle(input).fontSize))"
    )
    assert min(sizes) >= 16


def test_a_page_without_scripts_offers_no_form(browser, base_url):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{base_url}/reset-password#token=T")
    expect(page.locator("form")).to_have_count(3)
    expect(page.locator("form:visible")).to_have_count(0)
    context.close()


def test_the_pages_work_below_a_path_prefix(page, base_url, site_app, fake_api):
    inner = site_app.wsgi_app

    def below_accounts(environ, start_response):
        assert environ["PATH_INFO"].startswith("/accounts/"), environ["PATH_INFO"]
        environ["PATH_INFO"] = environ["PATH_INFO"].removeprefix("/accounts")
        return inner(environ, start_response)

    site_app.wsgi_app = below_accounts
    page.goto(f"{base_url}/accounts/docs")
    expect(page.locator(".opblock")).to_have_count(1)
    page.goto(f"{base_url}/accounts/")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    open_link(page, base_url, "accounts/verify-email", fake_api)
    page.get_by_role("button").click()
    expect(page.locator("#done")).to_be_visible()
