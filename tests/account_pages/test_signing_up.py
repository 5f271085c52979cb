"""How visitors get an account, and what keeps them from signing in."""

import re

import pytest
from helpers import PASSWORD
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


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
    expect(page.get_by_role("heading", name="Learning", exact=True)).to_be_focused()
    expect(page.get_by_text("not confirmed yet. Open the link in our e-mail")).to_contain_text(
        "to ada@example.org."
    )
    expect(page.locator("#sign-up [name=password]")).to_have_value("")


def test_the_form_is_busy_until_the_new_account_is_shown(page, base_url):
    held = []
    page.route("**/api/users/profile", lambda call: held.append(call))
    with page.expect_request("**/api/users/profile"):
        form = sign_up(page, base_url)
    expect(form.locator("form[data-call]")).to_have_attribute("aria-busy", "true")
    expect(form.get_by_label("Password", exact=True)).to_have_value(PASSWORD)
    for call in held:
        call.abort()
    expect(page.get_by_role("alert").filter(has_text="did not respond")).to_be_visible()


def test_who_mistyped_the_address_reads_it_and_finds_a_way(page, base_url, change_settings):
    change_settings(require_verified_email=True)
    form = sign_up(page, base_url, email="adda@example.org")
    expect(page.locator("#check-mail")).to_contain_text("We have sent it to adda@example.org.")
    page.get_by_role("link", name="Sign up again").click()
    address, password = form.get_by_label("E-mail"), form.get_by_label("Password", exact=True)
    expect(address).to_be_focused()
    expect(form.get_by_label("First name")).to_have_value("Ada")
    expect(password).to_have_value("")
    address.fill("ada@example.org")
    password.fill(PASSWORD)
    password.press("Enter")
    expect(form.get_by_label("Username")).to_have_accessible_description(
        re.compile("The e-mail address of that account was never confirmed.")
    )
    expect(form.get_by_text("If you gave a wrong address, ask")).to_be_visible()
    form.get_by_role("link", name="Get a new link").click()
    # No account has the address that was typed now.
    expect(page.locator("#new-confirmation [name=email]")).to_have_value("")


def test_an_address_is_confirmed_before_the_first_sign_in(
    page, base_url, change_settings, outbox, sign_in
):
    change_settings(require_verified_email=True, registration_domains=("example.org",))
    form = sign_up(page, base_url, email="ada@elsewhere.example")
    address = form.get_by_label("E-mail address")
    accepted = "Only addresses of these domains are accepted: example.org."
    expect(address).to_have_accessible_description(f"{accepted} {accepted}")
    expect(address).to_have_attribute("aria-invalid", "true")
    address.fill("a..b@example.org")
    form.get_by_role("button", name="Create my account").click()
    expect(address).to_have_accessible_description(
        f"{accepted} This is not a valid e-mail address. Check it."
    )
    expect(form.get_by_label("Password", exact=True)).to_have_value(PASSWORD)
    form.get_by_label("E-mail address").fill("ada@example.org")
    form.get_by_role("button", name="Create my account").click()
    expect(page.get_by_role("heading", name="Check your e-mail")).to_be_focused()
    expect(page.locator("#check-mail")).to_contain_text("confirm your e-mail address with it")

    page.locator("#check-mail").get_by_role("link", name="Back to the sign-in").click()
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


def test_a_new_address_of_another_domain_is_refused_as_such(signed_in, change_settings):
    change_settings(registration_domains=("*.example.org",))
    page = signed_in("account#security").page
    page.locator("summary", has_text="Change the e-mail address").click()
    form = page.locator("#security-change-email")
    form.get_by_label("Current password").fill(PASSWORD)
    for domain, refused in (("example.com", True), ("b.example.org", False)):
        form.get_by_label("New e-mail address").fill(f"ada@{domain}")
        form.get_by_role("button").click()
        if refused:
            error = form.locator(".error:not(:empty)")
            expect(error).to_have_text(
                "Only addresses of these domains are accepted: *.example.org."
            )
    expect(page.locator("#security-email")).to_contain_text("sent a code to ada@b.example.org")


@pytest.mark.parametrize(
    ("contact", "href"),
    [
        *(("mailto:office@school.example", "mailto:office@school.example"),),
        *(("https://school.example/help", "https://school.example/help"), ("room 12", None)),
    ],
)
def test_whom_to_ask_is_a_link_where_it_can_be(
    page, make_user, sign_in, change_settings, contact, href
):
    change_settings(contact=contact)
    sign_in(page, make_user(is_active=False))
    alert, text = page.locator("#sign-in [role=alert]"), contact.removeprefix("mailto:")
    expect(alert).to_have_text(f"This account is deactivated. Ask {text}.")
    links = alert.get_by_role("link", name=text)
    assert [link.get_attribute("href") for link in links.all()] == ([href] if href else [])


@pytest.mark.parametrize(("wait", "helps"), [(60, False), (90, True), (3000, False)])
def test_too_many_attempts_are_told_how_long_to_wait(page, make_user, sign_in, wait, helps):
    """A new password ends the limit of 15 minutes only."""
    answer = {"success": False, "message": "", "error": {"code": "too_many_requests"}}
    page.route(
        "**/auth/login",
        lambda route: route.fulfill(status=429, headers={"Retry-After": str(wait)}, json=answer),
    )
    sign_in(page, make_user())
    alert = page.locator("#sign-in [role=alert]")
    expect(alert).to_contain_text(f"Try again in {-(-wait // 60)} minute")
    assert ("Forgot your password?" in alert.inner_text()) == helps
    expect(page.locator("#sign-in [name=password]")).to_have_value(PASSWORD)


def test_nobody_is_led_to_a_closed_registration(page, base_url, change_settings):
    for registration, count in (("open", 1), ("closed", 0)):
        change_settings(registration=registration)
        for path in ("account", "admin"):
            page.goto(f"{base_url}/{path}")
            expect(page.get_by_text("Forgot your password?").first).to_be_visible()
            expect(page.get_by_role("link", name="Create an account")).to_have_count(count)
    page.goto(f"{base_url}/account#sign-up")
    expect(page.get_by_text("You cannot create an account yourself here")).to_be_visible()
    expect(page.locator("#sign-up form")).to_be_hidden()


def test_a_forgotten_password_is_asked_for_by_username(page, base_url, outbox, make_user):
    make_user("ada")
    page.goto(f"{base_url}/account#forgot-password")
    section = page.locator("#forgot-password")
    section.get_by_label("Username or e-mail address").fill("ada")
    section.get_by_role("button", name="Send a link").click()
    sent = page.locator("#mail-sent")
    expect(sent).to_contain_text("If there is such an account")
    for part in (section, sent):
        expect(part).to_contain_text("Without a mailbox, ask your teacher")


def test_a_device_without_a_time_zone_can_sign_up(page, base_url):
    page.add_init_script(
        """const real = Intl.DateTimeFormat.prototype.resolvedOptions;
        Intl.DateTimeFormat.prototype.resolvedOptions = function () {
            return {...real.call(this), timeZone: "Etc/Unknown"};
        };"""
    )
    sign_up(page, base_url)
    expect(page.locator("#sign-out")).to_be_visible()


def test_a_second_tab_learns_that_the_address_is_confirmed(page, base_url, outbox):
    sign_up(page, base_url)
    note = page.get_by_text("Your e-mail address is not confirmed yet.")
    expect(note).to_be_visible()
    page.get_by_role("link", name="Send it again, or change the address").click()
    expect(page.get_by_text("Not confirmed", exact=True)).to_be_visible()
    other = page.context.new_page()
    other.goto(f"{base_url}/verify-email#token={outbox.deliver_token()}")
    other.get_by_role("button", name="Confirm my e-mail address").click()
    expect(other.locator("#done")).to_be_visible()
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")  # back in this tab
    expect(page.locator("#security-email").get_by_text("Confirmed", exact=True)).to_be_visible()
    expect(note).to_be_hidden()
