"""What users do for the safety of their accounts: the section Security."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from authenticator import Authenticator
from helpers import PASSWORD, success
from playwright.sync_api import expect

from core.roles import Role

pytestmark = pytest.mark.browser
FIREFOX = "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:128.0) Gecko/20100101 Firefox/128.0"


@pytest.fixture
def security(signed_in):
    """Open the section, signed in as a new user."""

    def security(**fields):
        it = signed_in("account#security", **fields)
        it.card = lambda name: it.page.locator("#security .card").filter(
            has=it.page.get_by_role("heading", name=name, exact=True)
        )
        expect(it.card("Your devices")).to_contain_text("This device")
        return it

    return security


def enter(form, button, **values):
    """Fill fields by their labels, and press the button."""
    for label, value in values.items():
        form.get_by_label(label.replace("e_mail", "e-mail").replace("_", " "), exact=True).filter(
            visible=True
        ).fill(value)
    form.get_by_role("button", name=button, exact=True).click()


def set_up(it):
    """Turn a second factor on in the page, up to the recovery codes; return the app."""
    card = it.card("Second factor")
    card.locator("summary", has_text="Set up").click()
    enter(card, "Continue", Current_password=PASSWORD)
    expect(card.get_by_role("heading", name="1. Add the account to an app")).to_be_focused()
    picture = card.get_by_role("img", name=re.compile("QR code"))
    assert picture.evaluate("(image) => image.decode().then(() => image.naturalWidth)") > 0
    key = card.locator("[data-text=key]").inner_text()
    assert re.fullmatch(r"([A-Z2-7]{4} ){7}[A-Z2-7]{4}", key)
    app = Authenticator(key.replace(" ", ""))
    link = card.get_by_role("link", name="Open in an app")
    expect(link).to_have_attribute("href", re.compile("^otpauth://.*" + key.replace(" ", "")))
    code = card.get_by_label("Code from the app")
    enter(card, "Turn on", Code_from_the_app=app.wrong())
    expect(code).to_have_accessible_description(re.compile("Enter the one that your app shows"))
    enter(card, "Turn on", Code_from_the_app=app.code())
    expect(card.get_by_role("heading", name="Your recovery codes")).to_be_focused()
    assert key not in it.page.content()  # it is a secret of the app now
    app.recovery_codes = card.locator(".codes li").all_inner_texts()
    assert len({*app.recovery_codes}) == 10
    return app


def keep(it):
    card = it.card("Second factor")
    card.get_by_label("I have saved these codes").check()
    card.get_by_role("button", name="Done").click()
    expect(card).to_contain_text("You have 10 recovery codes left.")


def test_a_role_that_needs_a_second_factor_takes_effect_with_it(security, change_settings):
    change_settings(require_second_factor=Role.ADMIN)
    it = security(role="admin")
    card = it.card("Second factor")
    expect(card).to_contain_text("Your role takes effect only with a second factor.")
    expect(it.page.get_by_role("link", name="Administration")).to_be_hidden()
    app = set_up(it)
    expect(it.page.get_by_role("link", name="Administration")).to_be_visible()
    expect(card).not_to_contain_text("takes effect", use_inner_text=True)
    keep(it)
    card.get_by_role("button", name="Remove the second factor").click()
    dialog = it.page.get_by_role("dialog")
    enter(dialog, "Remove", Current_password=PASSWORD, Code=app.recovery_codes[0])
    expect(card.get_by_role("status").first).to_contain_text("The second factor has been removed.")
    expect(card.get_by_role("heading", name="Second factor")).to_be_focused()
    expect(dialog).to_be_hidden()


def test_a_set_up_can_be_given_up_and_its_key_leaves_the_page(security):
    it = security()
    card = it.card("Second factor")
    card.locator("summary", has_text="Set up").click()
    enter(card, "Continue", Current_password=PASSWORD)
    expect(card.get_by_label("Code from the app")).to_be_visible()
    key = card.locator("[data-text=key]").inner_text()
    assert len(key) == 39
    card.get_by_role("button", name="Cancel").filter(visible=True).click()
    expect(card.locator("summary", has_text="Set up")).to_be_visible()
    expect(card.get_by_label("Code from the app")).to_be_hidden()
    expect(card.locator(":focus")).to_have_count(1)
    assert key not in it.page.content()
    assert "otpauth:" not in it.page.content()


def test_recovery_codes_stay_until_they_are_kept(security, clock):
    it = security()
    card = it.card("Second factor")
    app = set_up(it)
    card.get_by_role("button", name="Done").click()  # without the tick
    expect(card.get_by_text("Tick this first.")).to_be_visible()
    it.page.get_by_role("link", name="Profile").click()
    it.page.get_by_role("link", name="Security").click()
    expect(card.locator(".codes li")).to_have_text(app.recovery_codes)
    warnings = []
    it.page.on("dialog", lambda dialog: (warnings.append(dialog.type), dialog.dismiss()))
    it.page.evaluate("setTimeout(() => location.reload())")
    with it.page.expect_download() as download:
        card.get_by_role("button", name="Save as a file").click()
    assert warnings == ["beforeunload"]
    saved = Path(download.value.path()).read_text()
    assert it.user.username in saved
    assert saved.splitlines()[-10:] == app.recovery_codes
    it.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    card.get_by_role("button", name="Copy").click()
    expect(card).to_contain_text("Copied.")
    assert it.page.evaluate("navigator.clipboard.readText()") == saved
    it.page.emulate_media(media="print")
    expect(card.locator(".codes")).to_be_visible()
    expect(it.card("Your devices")).to_be_hidden()
    it.page.emulate_media(media="screen")
    keep(it)
    expect(card.locator(".codes li")).to_have_count(0)


@pytest.mark.asvs("14.3.1")
def test_a_sign_out_in_another_tab_takes_recovery_codes_away(security):
    it = security()
    set_up(it)
    other = it.page.context.new_page()
    other.goto(it.page.url)
    with it.page.expect_event("load"), other.expect_event("load"):  # both start anew, unasked
        other.locator("#sign-out").click()
    expect(it.page.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(it.page.locator(".codes li")).to_have_count(0)


def test_a_key_that_has_expired_is_made_anew(security, clock):
    it = security()
    card = it.card("Second factor")
    card.locator("summary", has_text="Set up").click()
    enter(card, "Continue", Current_password=PASSWORD)
    expect(card.get_by_label("Code from the app")).to_be_visible()
    clock.move(minutes=16)
    enter(card, "Turn on", Code_from_the_app="000000")
    expect(card.get_by_role("alert").filter(has_text="Start again")).to_be_visible()
    expect(card.locator("#security-begin-password")).to_be_focused()


def test_a_code_that_was_wrong_too_often_is_asked_for_again(security):
    """The new address stays typed; after the change, the page says what is done."""
    card = security().card("E-mail address")
    card.locator("summary").click()
    address = "new@example.org"
    enter(card, "Send the code", New_e_mail_address=address, Current_password=PASSWORD)
    expect(card.get_by_label("Code from our e-mail")).to_be_focused()
    for _ in range(6):
        enter(card, "Change the e-mail address", Code_from_our_e_mail="0000-0000")
        expect(card.locator("[aria-busy=true]")).to_have_count(0)
    expect(card.get_by_role("alert").filter(has_text="Ask for the change again")).to_be_visible()
    expect(card.get_by_label("New e-mail address")).to_be_focused()
    enter(card, "Send the code", New_e_mail_address=address, Current_password=PASSWORD)
    card.get_by_role("button", name="Keep the old address").click()
    expect(card.get_by_role("status").first).to_have_text("Your e-mail address stays as it is.")


def test_devices_are_named_and_signed_out(security, log_in):
    it = security()
    for agent in (FIREFOX, "<b>Strange</b>/1"):
        log_in(it.user, headers={"User-Agent": agent})
    it.page.reload()
    card = it.card("Your devices")
    year = datetime.now(UTC).year
    expect(card.locator("tbody tr")).to_contain_text(3 * [re.compile(rf"since .* {year} at")])
    card.get_by_role("button", name="Sign out: Firefox on Windows").click()
    expect(card.get_by_role("status").first).to_have_text("The device is signed out.")
    expect(card.get_by_role("heading")).to_be_focused()
    expect(card).not_to_contain_text("Firefox")
    expect(card).to_contain_text("<b>Strange</b>/1")


def test_more_than_five_devices_are_folded_and_stay_unfolded(security, log_in):
    it = security()
    for _ in range(6):
        log_in(it.user, headers={"User-Agent": FIREFOX})
    it.page.reload()
    card = it.card("Your devices")
    rows = card.locator("tbody tr").filter(visible=True)
    expect(rows).to_have_count(5)
    expect(rows.first).to_contain_text("This device")  # also if others were used later
    card.get_by_role("button", name="Show all 7").click()
    expect(rows).to_have_count(7)
    expect(rows.nth(5).get_by_role("button")).to_be_focused()
    rows.last.get_by_role("button").click()
    expect(rows).to_have_count(6)
    expect(card.get_by_role("button", name="Show all")).to_be_hidden()


def test_somebody_saves_the_data_and_confirms_the_deletion(security):
    it = security()
    with it.page.expect_download() as download:
        it.page.get_by_role("button", name="Save my data").click()
    assert re.fullmatch(r"account-student-[\d-]{10}\.json", download.value.suggested_filename)
    saved = json.loads(Path(download.value.path()).read_text())
    assert saved["account"]["email"] == it.user.email
    it.page.get_by_role("button", name="Delete my account").click()
    dialog = it.page.get_by_role("dialog")
    words = dialog.get_by_label("To confirm, type: delete my account")
    words.fill("yes")
    enter(dialog, "Delete for good", Current_password=PASSWORD)
    expect(words).to_have_accessible_description(re.compile("Type exactly those words"))
    words.fill("Delete my account")
    words.press("Enter")
    expect(it.page.get_by_role("heading", name="Your account is deleted")).to_be_visible()


def test_how_one_signs_in_is_said_first(security):
    it = security()
    expect(it.page.locator("#security .card h2").first).to_have_text("How you sign in")
    expect(it.card("How you sign in").get_by_role("listitem")).to_have_text("Password")


def test_the_current_password_stands_above_the_new_one(security):
    card = security().card("Password")
    fields = card.locator("input[type=password]").evaluate_all("all => all.map(({name}) => name)")
    assert fields == ["currentPassword", "newPassword"]


def test_a_pupil_finds_what_happened_and_not_where_an_admin_was(
    security, make_user, log_in, client
):
    it = security()
    head, elsewhere = make_user("head", role="admin"), {"REMOTE_ADDR": "192.0.2.77"}
    headers = log_in(head).headers
    path = f"/api/users/{it.user.id}"
    link = client.post(
        f"{path}/access-link", json={"deliver": "link"}, headers=headers, environ_base=elsewhere
    )
    success(link)
    card = it.page.locator("#security-happened")
    expect(card).not_to_contain_text("Link or code")
    it.card("Password").locator("summary").click()
    enter(
        it.card("Password"),
        "Change the password",
        Current_password=PASSWORD,
        New_password="another good one",
    )
    expect(card.get_by_role("listitem")).to_contain_text(
        ["Password changed", "created by an admin or a teacher", "First sign-in from this IP"]
    )
    expect(card).to_contain_text("127.0.0.1")
    expect(card).not_to_contain_text("192.0.2.77")
    expect(card.get_by_role("link")).to_be_hidden()
