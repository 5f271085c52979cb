"""/account and /admin from the first visit to the last, in front of the deployed service."""

from datetime import UTC, datetime, timedelta

import pytest
from authenticator import Authenticator
from helpers import NEW_PASSWORD, PASSWORD
from playwright.sync_api import expect
from real_service import finish, link_in, python

from core.second_factor import STEP

pytestmark = [pytest.mark.browser, pytest.mark.parametrize("service", ["sqlite"], indirect=True)]
STRANGE = "<script>alert(1)</script> \u05e9\u05e8\u05d4"


@pytest.fixture
def base_url(service):
    """Where `page` looks: nothing on it may break, and no other host may be asked."""
    return service.url


def sign_in(page, account, password=PASSWORD):
    form = page.locator("#sign-in form")
    form.locator("[name=email]").fill(account)
    form.locator("[name=password]").fill(password)
    form.locator("[name=password]").press("Enter")


def flask(service, *arguments):
    """Run a command on the machine of the service; return what it printed."""
    ((status, output),) = finish([python("-m", "flask", *arguments, env=service.env)])
    assert status == 0, output
    return output


def test_a_newcomer_from_sign_up_to_deletion(page, service, mail_server):
    page.goto(f"{service.url}/account#sign-up")
    form = page.locator("#sign-up form")
    names = {"firstName": STRANGE, "lastName": "Last", "username": "ada"}
    secrets = {"email": "ada@example.org", "password": PASSWORD}
    for name, value in (names | secrets).items():
        form.locator(f"[name={name}]").fill(value)
    form.locator("button").click()
    expect(page.locator("#profile h1")).to_be_focused()
    mail = mail_server.wait_for("ada@example.org", "Confirm your e-mail address")
    page.goto(link_in(mail))
    page.get_by_role("button", name="Confirm").click()
    page.get_by_role("link", name="account").click()
    expect(page.locator("#profile-facts .badge:visible")).to_have_text("confirmed")
    expect(page.locator("#profile-others strong")).to_have_text(f"{STRANGE} Last")
    page.locator("#profile-bio").fill("I count.")
    page.get_by_role("button", name="Save the profile").click()
    expect(page.locator("#profile-others .prose")).to_have_text("I count.")

    made = flask(service, "keys", "create", "--name", "courses", "--scope", "learning:write")
    user = service.log_in({"email": "ada", "password": PASSWORD}).data["user"]["id"]
    for path, body in (
        ("courses/sql", {"name": "SQL", "lessons": 2}),
        ("courses/sql/lessons/one", {"minutes": 20}),
    ):
        answer = service.call("PUT", f"/api/users/{user}/{path}", body, token=made.split()[-1])
        assert answer.status == 201
    page.locator("nav").get_by_role("link", name="Learning").click()
    expect(page.locator("#learning-courses")).to_contain_text("1 of 2")

    page.locator("nav").get_by_role("link", name="Security").click()
    page.locator("#security-factor summary:visible").click()
    page.locator("#security-begin-password").fill(PASSWORD)
    page.locator("#security-begin button").click()
    key = page.locator("#security-factor [data-text=key]")
    expect(key).to_be_visible()
    app = Authenticator(key.inner_text().replace(" ", ""))
    page.locator("#security-first-code-code").fill(app.code())
    page.locator("#security-first-code-code").press("Enter")
    codes = page.locator("#security-codes li")
    expect(codes).to_have_count(10)
    recovery_code = codes.first.inner_text()
    page.locator("#security-kept").get_by_label("I have kept these codes").check()
    page.locator("#security-kept button").click()
    page.locator("#sign-out").click()
    sign_in(page, "ada")
    second = page.locator("#sign-in [name=secondFactor]")
    second.fill(app.code(STEP))  # the first one is spent
    second.press("Enter")
    expect(page.locator("header")).to_contain_text("ada")

    page.locator("nav").get_by_role("link", name="Security").click()
    page.get_by_role("button", name="Delete my account").click()
    dialog = page.get_by_role("dialog")
    dialog.locator("[name=password]").fill(PASSWORD)
    dialog.locator("[name=confirmation]").fill("delete my account")
    dialog.get_by_role("button", name="Delete for good").click()
    dialog.locator("[name=secondFactor]").fill(recovery_code)
    dialog.locator("[name=secondFactor]").press("Enter")
    expect(page.get_by_role("heading", name="Your account is deleted")).to_be_visible()
    page.goto(f"{service.url}/account")
    expect(page.locator("#sign-in form")).to_be_visible()
    assert service.log_in({"email": "ada", "password": PASSWORD}).code == "invalid_credentials"
    for secret in (PASSWORD, recovery_code, link_in(mail).partition("=")[2]):
        assert secret not in service.log()


def test_a_class_comes_in_and_a_locked_pupil_is_helped(page, service, browser):
    service.register("office")
    flask(service, "users", "set-role", "office", "admin")
    page.goto(f"{service.url}/admin#newcomers")
    sign_in(page, "office")
    page.locator("#paste-list").fill(f"{STRANGE}\tOkoro\tnia\nBen\tYoung\n")
    page.locator("#paste button").click()
    page.locator("#make [value=link]").check()
    page.locator("#make button").first.click()
    slips = page.locator(".slip")
    expect(slips.locator("h3")).to_have_text([f"{STRANGE} Okoro", "Ben Young"])
    assert page.pdf().startswith(b"%PDF")

    for _ in range(10):
        service.log_in({"email": "nia", "password": "wrong"})
    page.once("dialog", lambda dialog: dialog.accept())  # the codes of the sheet are lost
    page.goto(f"{service.url}/admin#people")
    page.get_by_role("link", name=f"{STRANGE} Okoro").click()
    expect(page.locator("#person-state")).to_contain_text("no password")
    page.locator("#person-access [value=link]").check()
    page.locator("#person-access button").click()
    link = page.locator("#person-link").input_value()
    code = page.locator("#person-code").input_value()

    pupil = browser.new_page()
    pupil.goto(link.partition("#")[0])
    pupil.locator("#account").fill("nia")
    pupil.locator("#code").fill(code)
    pupil.locator("#new-password").fill(NEW_PASSWORD)
    pupil.get_by_role("button", name="Save").click()
    pupil.get_by_role("link", name="account").click()
    sign_in(pupil, "nia", NEW_PASSWORD)
    expect(pupil.locator("#profile-others strong")).to_have_text(f"{STRANGE} Okoro")
    pupil.close()


def test_tabs_lost_connections_and_expired_tokens_lose_nothing_typed(page, service):
    service.register("tabs")
    page.goto(f"{service.url}/account")
    sign_in(page, "tabs")
    expect(page.locator("#profile-bio")).to_have_js_property("value", "")
    tabs = [page.context.new_page() for _ in range(3)]
    for tab in tabs:
        tab.goto(page.url, wait_until="commit")
    for tab in tabs:
        expect(tab.locator("#sign-out")).to_be_visible()

    page.locator("#profile-bio").fill("typed")
    page.clock.set_fixed_time(datetime.now(UTC) + timedelta(minutes=16))  # the token has expired
    page.context.set_offline(True)
    save = page.get_by_role("button", name="Save the profile")
    save.click()
    expect(page.locator("#profile-form [role=alert]")).to_contain_text("did not respond")
    page.context.set_offline(False)
    save.click()
    expect(page.locator("#profile-form [role=status]")).to_have_text("Saved.")
    expect(page.locator("#profile-others .prose")).to_have_text("typed")
    tabs[0].locator("#sign-out").click()
    for tab in (page, *tabs):
        expect(tab.locator("#sign-in h1")).to_be_visible()
    assert page.context.cookies() == []
