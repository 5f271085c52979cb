"""/account and /admin from the first visit to the last, in front of the deployed service."""

import pytest
from authenticator import Authenticator
from helpers import PASSWORD
from playwright.sync_api import expect
from real_service import finish, link_in, python

from core.totp import STEP

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
    expect(page.locator("#learning h1")).to_be_focused()
    mail = mail_server.wait_for("ada@example.org", "Confirm your e-mail address")
    page.goto(link_in(mail))
    page.get_by_role("button", name="Confirm").click()
    page.get_by_role("link", name="account").click()
    page.locator("nav").get_by_role("link", name="Profile").click()
    expect(page.locator("#profile-others strong")).to_have_text(f"{STRANGE} Last")
    page.locator("#profile-bio").fill("I count.")
    page.get_by_role("button", name="Save the profile").click()
    expect(page.locator("#profile-others .prose")).to_have_text("I count.")

    made = flask(service, "keys", "create", "--name", "the pages", "--scope", "learning:write")
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
    page.locator("#security-kept").get_by_label("I have saved these codes").check()
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
