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


def test_a_reset_link_leads_to_the_new_password(page, base_url, fake_api):
    open_link(page, base_url, "reset-password", fake_api)
    page.get_by_label("New password").fill(PASSPHRASE)
    page.get_by_role("button", name="Save the password").click()

    expect(page.get_by_role("heading", name="Your new password is saved")).to_be_focused()
    expect(page.get_by_text("Log in with it now")).to_be_visible()
    expect(page.get_by_label("New password")).to_be_hidden()
    expect(page).to_have_title("Your new password is saved")
    assert fake_api.password == PASSPHRASE
    assert fake_api.requests == [
        ("check-link", {"token": "T.1-x_y"}),
        ("reset-password", {"token": "T.1-x_y", "newPassword": PASSPHRASE}),
    ]


@pytest.mark.parametrize("path", ["reset-password", "verify-email", "undo-email-change"])
def test_the_token_leaves_the_address_and_the_history(page, base_url, fake_api, path):
    page.goto(f"{base_url}/docs")
    open_link(page, base_url, path, fake_api)
    expect(page.locator("#act")).to_be_visible()
    assert page.url == f"{base_url}/{path}"
    page.go_back()
    page.go_forward()
    expect(page.locator("main > section:visible")).to_have_count(1)
    assert page.url == f"{base_url}/{path}"


@pytest.mark.parametrize("path", ["reset-password", "verify-email", "undo-email-change"])
def test_no_request_carries_the_token_in_its_address_or_referrer(
    page, base_url, site_app, fake_api, path
):
    asked = []
    site_app.before_request(lambda: asked.append(f"{request.full_path} {request.referrer}"))
    open_link(page, base_url, path, fake_api)
    if path == "reset-password":
        page.get_by_label("New password").fill(PASSPHRASE)
    page.get_by_role("button").click()
    expect(page.locator("#done")).to_be_visible()
    assert len(asked) >= 5
    assert all(line.endswith("? None") for line in asked), asked


def test_a_weak_password_is_refused_beside_its_field(page, base_url, fake_api):
    open_link(page, base_url, "reset-password", fake_api)
    field = page.get_by_label("New password")
    field.fill("short")
    page.get_by_role("button", name="Save the password").click()

    reason = "Use 8 or more characters."
    expect(field).to_be_focused()
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).to_have_accessible_description(re.compile(f"At least 8 .*{re.escape(reason)}"))
    # One mistake, one message.
    expect(page.get_by_role("alert")).to_be_empty()

    field.fill(PASSPHRASE)
    field.press("Enter")
    expect(page.locator("#done")).to_be_visible()
    assert fake_api.password == PASSPHRASE


def test_no_text_of_an_answer_is_shown(page, base_url, fake_api):
    hostile = "<img src=x onerror=alert(1)>"
    open_link(page, base_url, "reset-password", fake_api)
    page.get_by_label("New password").fill(PASSPHRASE)
    fake_api.instead = bad("weak_password", hostile, newPassword=[hostile])
    page.get_by_role("button").click()
    expect(page.locator("#new-password-error")).to_have_text("This is not valid.")
    assert page.locator("img").count() == 1


def test_a_password_can_be_looked_at(page, base_url, fake_api):
    open_link(page, base_url, "reset-password", fake_api)
    field = page.get_by_label("New password")
    expect(field).to_have_attribute("type", "password")
    expect(field).to_have_attribute("autocomplete", "new-password")
    page.get_by_label("Show password").check()
    expect(field).to_have_attribute("type", "text")
    page.get_by_label("Show password").uncheck()
    expect(field).to_have_attribute("type", "password")


@pytest.mark.parametrize(
    ("path", "call"),
    [
        ("reset-password", "forgot-password"),
        ("verify-email", "resend-verification"),
    ],
)
def test_a_dead_link_offers_a_new_one_before_anything_is_typed(
    page, base_url, fake_api, path, call
):
    open_link(page, base_url, path)
    expect(page.get_by_role("heading", name="Get a new link")).to_be_focused()
    expect(page.get_by_text("This link is not valid any more.")).to_be_visible()
    page.get_by_role("textbox", name="E-mail address").fill("lee@example.org")
    page.get_by_role("button", name="Send a new link").click()
    expect(page.get_by_role("heading", name="Check your e-mail")).to_be_focused()
    expect(page.get_by_text("If there is an account that needs a link")).to_be_visible()
    assert fake_api.requests[-1] == (call, {"email": "lee@example.org"})


def test_a_dead_link_of_an_undo_says_so_before_the_button(page, base_url):
    open_link(page, base_url, "undo-email-change")
    expect(page.get_by_role("heading", name="The change was not undone")).to_be_focused()
    expect(page.get_by_text("This link is not valid any more.")).to_be_visible()


def test_a_link_of_another_page_is_not_valid(page, base_url, fake_api):
    fake_api.make_link("verify-email")
    open_link(page, base_url, "reset-password")
    expect(page.get_by_text("This link is not valid any more.")).to_be_visible()
    assert "T.1-x_y" in fake_api.live_tokens


def test_a_token_of_the_wrong_form_is_not_valid(page, base_url, fake_api):
    fake_api.instead = bad("invalid_request", "Some fields are not valid.", token=["too_long"])
    open_link(page, base_url, "reset-password", fake_api)
    expect(page.get_by_text("This link is not valid any more.")).to_be_visible()


def test_a_page_says_for_whom_the_link_is_and_tells_the_password_manager(page, base_url, fake_api):
    open_link(page, base_url, "reset-password", fake_api)
    expect(page.get_by_text("Account: newcomer")).to_be_visible()
    name = page.locator("#act form input[autocomplete=username][readonly]")
    expect(name).to_have_value("newcomer")
    assert not name.is_editable()

    fake_api.username = ""
    open_link(page, base_url, "verify-email", fake_api)
    expect(page.get_by_text("Account: newcomer@example.org")).to_be_visible()


@pytest.mark.parametrize("fragment", ["", "#", "#token=", "#other=1"])
def test_a_page_without_a_token_offers_a_new_link(page, base_url, fragment):
    page.goto(f"{base_url}/verify-email{fragment}")
    expect(page.get_by_role("heading", name="Get a new link")).to_be_visible()
    expect(page.get_by_text("This page needs the link in our e-mail.")).to_be_visible()


def test_a_link_pasted_into_the_open_page_works(page, base_url, fake_api):
    page.goto(f"{base_url}/verify-email")
    open_link(page, base_url, "verify-email", fake_api)
    page.get_by_role("button", name="Confirm my e-mail address").click()
    expect(page.locator("#done")).to_be_visible()
    assert page.url == f"{base_url}/verify-email"


def test_an_address_is_confirmed_only_by_the_button(page, base_url, fake_api):
    open_link(page, base_url, "verify-email", fake_api)
    page.wait_for_load_state("networkidle")
    assert fake_api.requests == [("check-link", {"token": "T.1-x_y"})]

    page.get_by_role("button", name="Confirm my e-mail address").click()
    expect(page.get_by_role("heading", name="Your e-mail address is confirmed")).to_be_focused()
    assert fake_api.verified
    assert fake_api.requests[1:] == [("verify-email", {"token": "T.1-x_y"})]


def test_an_address_is_restored_only_by_the_button(page, base_url, fake_api):
    open_link(page, base_url, "undo-email-change", fake_api)
    page.wait_for_load_state("networkidle")
    assert fake_api.requests == [("check-link", {"token": "T.1-x_y"})]

    fake_api.instead = bad("email_taken", "Your account was deactivated.", 409)
    page.get_by_role("button", name="Undo the change").click()
    expect(page.get_by_role("alert")).to_contain_text("Contact the operators")
    fake_api.instead = None
    page.get_by_role("button", name="Undo the change").click()
    expect(page.get_by_role("heading", name="The change has been undone")).to_be_focused()
    assert fake_api.requests[-1] == ("undo-email-change", {"token": "T.1-x_y"})


def test_a_refused_e_mail_address_is_named_beside_its_field(page, base_url, fake_api):
    fake_api.instead = bad("invalid_request", "Some fields are not valid.", email=["invalid"])
    page.goto(f"{base_url}/verify-email")
    page.get_by_label("E-mail address").fill("lee@example")
    page.get_by_role("button").click()
    expect(page.get_by_label("E-mail address")).to_be_focused()
    expect(page.get_by_label("E-mail address")).to_have_accessible_description(
        "This is not a valid e-mail address."
    )


@pytest.mark.parametrize(
    ("instead", "sentence"),
    [
        (bad("too_many_requests", "Too many attempts. Wait a minute.", 429), "Too many attempts."),
        (bad("unavailable", "Wait.", 503), "Try again in a moment."),
        (bad("brand_new", "Something new.", 400), "Something went wrong on our side."),
        (("<h1>Bad gateway</h1>", 502), "The service is temporarily unavailable."),
        (
            ("null", 200, {"Content-Type": "application/json"}),
            "The service is temporarily unavailable",
        ),
    ],
    ids=["too many", "unavailable", "an unknown code", "a proxy's page", "nonsense"],
)
def test_a_failed_call_is_explained_and_can_be_repeated(
    page, base_url, fake_api, instead, sentence
):
    fake_api.instead = instead
    open_link(page, base_url, "reset-password", fake_api)
    # The page asks for whom the link is.
    expect(page.get_by_role("alert")).to_contain_text(sentence)
    fake_api.instead = None
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("heading", name="Choose a new password")).to_be_focused()

    page.get_by_label("New password").fill(PASSPHRASE)
    fake_api.instead = instead
    page.get_by_role("button").click()
    expect(page.get_by_role("alert")).to_contain_text(sentence)

    fake_api.instead = None
    page.get_by_role("button").click()
    expect(page.locator("#done")).to_be_visible()


def test_a_lost_connection_is_explained_and_can_be_repeated(page, base_url, fake_api):
    page.route("**/api/**", lambda route: route.abort())
    open_link(page, base_url, "verify-email", fake_api)
    expect(page.get_by_role("alert")).to_contain_text("The service did not respond.")

    page.unroute("**/api/**")
    page.get_by_role("button", name="Try again").click()
    page.get_by_role("button", name="Confirm my e-mail address").click()
    expect(page.locator("#done")).to_be_visible()


def test_a_form_is_sent_once_however_often_the_button_is_pressed(page, base_url, fake_api):
    held = []
    open_link(page, base_url, "verify-email", fake_api)
    button = page.get_by_role("button", name="Confirm my e-mail address")
    expect(button).to_be_visible()
    page.route("**/api/**", lambda route: held.append(route))
    for _ in range(3):
        button.press("Enter")
    expect(button).to_have_attribute("aria-disabled", "true")
    expect(button).to_be_focused()
    expect(page.get_by_role("status")).to_have_text("One moment…")

    held[0].continue_()
    expect(page.locator("#done")).to_be_visible()
    assert len(held) == len(fake_api.requests[1:]) == 1


def test_the_keyboard_alone_is_enough(page, base_url, fake_api):
    open_link(page, base_url, "reset-password", fake_api)
    expect(page.locator("#act")).to_be_visible()
    page.keyboard.press("Tab")
    page.keyboard.type(PASSPHRASE)
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    expect(page.get_by_label("New password")).to_have_attribute("type", "text")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.keyboard.press("Tab")
    expect(page.get_by_role("button")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#done")).to_be_visible()
    assert fake_api.password == PASSPHRASE


def test_a_screen_reader_finds_every_part_by_name(page, base_url, fake_api):
    open_link(page, base_url, "reset-password", fake_api)
    expect(page.locator("main")).to_match_aria_snapshot("""
      - main:
        - paragraph: school.test
        - heading "Choose a new password" [level=1]
        - paragraph:
          - text: "Account:"
          - strong: newcomer
        - text: New password
        - paragraph: /At least 8 characters/
        - textbox "New password"
        - checkbox "Show password"
        - text: Show password
        - alert
        - button "Save the password"
        - status
    """)
    page.goto(f"{base_url}/verify-email")
    expect(page.locator("main")).to_match_aria_snapshot("""
      - main:
        - paragraph: school.test
        - heading "Get a new link" [level=1]
        - paragraph: /This page needs the link/
        - paragraph
        - text: E-mail address
        - textbox "E-mail address"
        - alert
        - button "Send a new link"
        - status
    """)


@pytest.mark.parametrize(
    "path", ["reset-password", "reset-password#token=T.1-x_y", "verify-email#token=T.1-x_y"]
)
@pytest.mark.parametrize(("width", "text_size"), [(320, "100%"), (640, "200%")])
@pytest.mark.parametrize("language", ["de", "fr"])  # which have the longest words and texts
def test_a_page_fits_a_small_screen_and_large_text(
    page, base_url, fake_api, path, width, text_size, language
):
    fake_api.make_link(path.partition("#")[0])
    fake_api.username = "x" * 32
    page.set_extra_http_headers({"Accept-Language": language})
    page.set_viewport_size({"width": width, "height": 480})
    page.goto(f"{base_url}/{path}")
    expect(page.locator("#act")).to_be_visible()
    page.evaluate(f"document.documentElement.style.fontSize = '{text_size}'")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for control in page.locator("main input:visible, main button:visible").all():
        box = control.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
    # Phones zoom into a field whose letters are smaller, and stay zoomed.
    sizes = page.locator("input:not([type=checkbox])").evaluate_all(
        "all => all.map(input => parseFloat(getComputedStyle(input).fontSize))"
    )
    assert sizes
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
    page.goto(f"{base_url}/accounts/")
    expect(page.locator(".opblock")).to_have_count(1)
    open_link(page, base_url, "accounts/reset-password", fake_api)
    page.get_by_label("New password").fill(PASSPHRASE)
    page.get_by_role("button").click()
    expect(page.locator("#done")).to_be_visible()


def test_a_page_says_all_in_its_language(page, base_url, fake_api):
    page.set_extra_http_headers({"Accept-Language": "de-AT, de;q=0.9, en;q=0.8"})
    open_link(page, base_url, "reset-password", fake_api)
    expect(page).to_have_title("Neues Passwort wählen")
    expect(page.locator("html")).to_have_attribute("lang", "de")
    field = page.get_by_label("Neues Passwort")
    button = page.get_by_role("button", name="Passwort speichern")
    field.fill("short")
    button.click()
    expect(field).to_be_focused()
    expect(field).to_have_accessible_description(
        re.compile("Mindestens 8 Zeichen.*Verwenden Sie mindestens 8 Zeichen")
    )
    fake_api.instead = bad("too_many_requests", "Too many attempts.", 429)
    button.click()
    expect(page.get_by_role("alert")).to_contain_text("Zu viele Versuche.")
    fake_api.instead = None
    fake_api.live_tokens.clear()
    field.fill(PASSPHRASE)
    button.click()
    expect(page.get_by_role("heading", name="Neuen Link anfordern")).to_be_focused()
    expect(page.get_by_text("Dieser Link ist nicht mehr gültig.")).to_be_visible()
    page.get_by_role("textbox", name="E-Mail-Adresse").fill("lee@example.org")
    page.get_by_role("button", name="Neuen Link senden").click()
    expect(page.get_by_role("heading", name="Schauen Sie in Ihr Postfach")).to_be_focused()
    assert fake_api.mailed == ["lee@example.org"]
