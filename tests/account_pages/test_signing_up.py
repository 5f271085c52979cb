"""How visitors get an account, and what keeps them from signing in."""

import re
from dataclasses import replace

import pytest
from helpers import PASSWORD
from playwright.sync_api import expect

from extensions import components

pytestmark = pytest.mark.browser


@pytest.fixture
def change_settings(app, base_url):
    """Change settings of the application for this test; `base_url` has set its own by then."""

    def change(**settings):
        parts = components(app)
        parts.settings = replace(parts.settings, **settings)

    return change


def sign_up(page, base_url, email="ada@example.org", username="ada"):
    page.goto(f"{base_url}/account#sign-up")
    form = page.locator("#sign-up")
    form.get_by_label("First name").fill("Ada")
    form.get_by_label("Last name").fill("Lovelace")
    form.get_by_label("Username").fill(username)
    form.get_by_label("E-mail address").fill(email)
    form.get_by_label("Password", exact=True).fill(PASSWORD)
    form.get_by_role("button", name="Create my account").click()
    return form


def test_somebody_registers_and_is_signed_in(page, base_url):
    page.goto(f"{base_url}/account")
    page.get_by_role("link", name="Create an account").click()
    expect(page.locator("#sign-up").get_by_role("heading")).to_be_focused()
    form = sign_up(page, base_url, username="ad")
    expect(form.get_by_label("Username")).to_have_accessible_description(
        re.compile("This is too short")
    )
    form.get_by_label("Username").fill("ada")
    form.get_by_role("button", name="Create my account").click()
    expect(page.get_by_role("heading", name="Profile")).to_be_visible()
    expect(page.locator("#sign-out")).to_be_visible()
    expect(page.locator("#sign-up [name=password]")).to_have_value("")


def test_an_address_is_confirmed_before_the_first_sign_in(
    page, base_url, change_settings, outbox, sign_in
):
    change_settings(require_verified_email=True, registration_domains=("example.org",))
    form = sign_up(page, base_url, email="ada@elsewhere.example")
    expect(form).to_contain_text("Only these addresses can register: example.org")
    expect(form.get_by_label("E-mail address")).to_have_attribute("aria-invalid", "true")
    expect(form.get_by_label("Password", exact=True)).to_have_value(PASSWORD)
    form.get_by_label("E-mail address").fill("ada@example.org")
    form.get_by_role("button", name="Create my account").click()
    expect(page.get_by_role("heading", name="Check your e-mail")).to_be_focused()
    expect(page.locator("#check-mail")).to_contain_text("confirm your e-mail address with it")

    page.locator("#check-mail").get_by_role("link").click()
    page.locator("#sign-in [name=email]").fill("ada@example.org")
    page.locator("#sign-in [name=password]").fill(PASSWORD)
    page.locator("#sign-in [name=password]").press("Enter")
    expect(page.locator("#sign-in [role=alert]")).to_contain_text("is not confirmed yet")
    page.get_by_role("link", name="Get a new link").click()
    again = page.locator("#new-confirmation")
    expect(again.get_by_label("E-mail address")).to_have_value("ada@example.org")
    again.get_by_role("button").click()
    expect(page.get_by_role("heading", name="Check your e-mail")).to_be_focused()
    assert {kind for kind, _ in outbox.waiting()} == {"email_verification"}


def test_where_nobody_can_register_the_page_says_who_makes_accounts(
    page, base_url, change_settings
):
    change_settings(registration="closed")
    page.goto(f"{base_url}/account#sign-up")
    expect(page.locator("#sign-up")).to_contain_text("Accounts are made by the operators")
    expect(page.locator("#sign-up form")).to_be_hidden()


def test_a_deactivated_account_is_told_whom_to_ask(page, make_user, sign_in):
    sign_in(page, make_user(is_active=False))
    expect(page.locator("#sign-in [role=alert]")).to_contain_text("Contact the operators")
    expect(page.get_by_role("link", name="Get a new link")).to_be_hidden()


def test_too_many_attempts_are_told_how_long_to_wait(page, make_user, sign_in):
    answer = {"success": False, "message": "", "error": {"code": "too_many_requests"}}
    page.route(
        "**/auth/login",
        lambda route: route.fulfill(status=429, headers={"Retry-After": "90"}, json=answer),
    )
    sign_in(page, make_user())
    expect(page.locator("#sign-in [role=alert]")).to_contain_text("Try again in 2 minutes.")
    expect(page.locator("#sign-in [name=password]")).to_have_value(PASSWORD)


def test_a_forgotten_password_gets_a_mail(page, make_user, base_url, outbox):
    user = make_user()
    page.goto(f"{base_url}/account")
    page.locator("#sign-in [name=email]").fill(user.email)
    page.get_by_role("link", name="Forgot your password?").click()
    page.locator("#forgot-password").get_by_role("button").click()
    expect(page.get_by_role("heading", name="Check your e-mail")).to_be_focused()
    assert outbox.waiting() == [("password_reset", user.email)]
