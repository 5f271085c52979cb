"""The page that chooses a password without a link, and what all pages do around their forms."""

import re
from dataclasses import replace

import pytest
from fake_api import bad
from playwright.sync_api import expect

from extensions import components

pytestmark = pytest.mark.browser

PASSPHRASE = "seven green lamps"


@pytest.fixture
def fill(page, base_url):
    """Open the page without a token, fill in its form and send it."""

    def fill(account="newcomer", code="abcd efgh jkmn", password=PASSPHRASE):
        page.goto(f"{base_url}/reset-password")
        page.locator("#act").get_by_label("Username or e-mail address").fill(account)
        page.get_by_label("Code").fill(code)
        page.get_by_label("Password", exact=True).fill(password)
        page.get_by_label("Password", exact=True).press("Enter")

    return fill


def test_a_wrong_code_is_named_at_its_field_and_keeps_what_was_typed(page, fake_api, fill):
    fill(code="abcd efgh jkm")
    code = page.get_by_label("Code")
    expect(code).to_be_focused()
    expect(code).to_have_attribute("aria-invalid", "true")
    expect(code).to_have_accessible_description(re.compile("The account or the code is wrong"))
    expect(page.locator(".error:visible").filter(has_text=re.compile("."))).to_have_count(1)
    expect(code).to_have_value("abcd efgh jkm")
    expect(page.get_by_label("Password", exact=True)).to_have_value(PASSPHRASE)

    fake_api.instead = bad("too_many_requests", "Too many attempts.", 429)
    code.press("Enter")
    expect(page.get_by_role("alert")).to_have_text("Too many attempts. Try again later.")
    fake_api.instead = None
    code.fill("ABCDEFGHJKMN")
    code.press("Enter")
    expect(page.locator("#done")).to_be_visible()
    assert fake_api.password == PASSPHRASE


def test_a_weak_password_beside_a_code_is_refused_at_the_password(page, fill):
    fill(password="short")
    expect(page.get_by_label("Password", exact=True)).to_be_focused()
    expect(page.get_by_label("Code")).not_to_have_attribute("aria-invalid", "true")


def test_a_phone_does_not_correct_what_is_typed(page, base_url):
    page.goto(f"{base_url}/reset-password")
    typed = {"autocorrect": "off", "spellcheck": "false"}
    fields = {
        "account": {"autocomplete": "username", "autocapitalize": "none", "inputmode": "email"},
        "code": {"autocomplete": "one-time-code", "autocapitalize": "characters"},
        "new-password": {"autocomplete": "new-password", "autocapitalize": "none"},
    }
    for name, attributes in fields.items():
        for attribute, value in (typed | attributes).items():
            expect(page.locator(f"#{name}")).to_have_attribute(attribute, value)


def test_form_for_a_code_and_form_for_a_mail_lead_to_each_other(page, base_url, fake_api):
    page.goto(f"{base_url}/reset-password#token=dead")
    expect(page.get_by_text("This link is not valid any more.")).to_be_visible()
    help_ = page.get_by_text("ask your teacher or the operators of school.test")
    expect(help_.filter(visible=True)).to_have_count(1)
    page.get_by_role("button", name="I have a code").click()
    expect(page.get_by_role("heading", name="Choose a password")).to_be_focused()
    expect(page.get_by_text("Account:")).to_be_hidden()
    expect(help_.filter(visible=True)).to_have_count(1)
    page.get_by_role("button", name="Get a link by e-mail").click()
    page.locator("#again").get_by_label("Username or e-mail address").fill("lee")
    page.get_by_role("button", name="Send a new link").click()
    expect(page.get_by_role("heading", name="Check your e-mail")).to_be_focused()
    assert fake_api.requests[-1] == ("forgot-password", {"email": "lee"})


def test_a_first_password_is_not_called_a_new_one(page, base_url, fake_api):
    fake_api.has_password = False
    fake_api.make_link("reset-password")
    page.goto(f"{base_url}/reset-password#token=T.1-x_y")
    expect(page.get_by_text("Account: newcomer")).to_be_visible()
    expect(page.get_by_label("Code")).to_be_hidden()
    page.get_by_label("Password", exact=True).fill(PASSPHRASE)
    page.get_by_role("button", name="Save the password").click()
    expect(page.get_by_role("heading", name="Your password is saved")).to_be_focused()
    assert not re.search(r"\bnew\b", page.locator("main").inner_text())


@pytest.mark.parametrize("path", ["reset-password", "verify-email"])
@pytest.mark.parametrize("width", [375, 1280])
@pytest.mark.parametrize("language", ["de", "es"])
def test_the_card_keeps_its_place_and_size(
    page, base_url, site_app, fake_api, path, width, language
):
    settings = replace(components(site_app).settings, app_url=f"{base_url}/app", imprint="A line.")
    components(site_app).settings = settings
    fake_api.make_link(path)
    held = []
    page.route("**/check-link", lambda route: held.append(route))
    page.set_viewport_size({"width": width, "height": 780})
    page.set_extra_http_headers({"Accept-Language": language})
    page.goto(f"{base_url}/{path}#token=T.1-x_y")
    card, steps = page.locator("main"), []
    expect(page.locator("#check")).to_be_visible()
    steps.append(card.bounding_box())
    held[0].continue_()
    expect(page.locator("#act")).to_be_visible()
    steps.append(card.bounding_box())
    if path == "reset-password":
        page.locator("#new-password").fill(PASSPHRASE)
    page.locator("#act form button").click()
    expect(page.locator("#done")).to_be_visible()
    steps.append(card.bounding_box())
    assert steps == [steps[0]] * 3
    expect(page.locator("#done a").first).to_have_attribute("href", f"{base_url}/app")
