"""The links of real mails, opened in Chromium, and the docs, served by the real service."""

import re

import pytest
from helpers import NEW_PASSWORD
from playwright.sync_api import expect
from real_service import link_in

pytestmark = [pytest.mark.browser, pytest.mark.parametrize("service", ["sqlite"], indirect=True)]


@pytest.fixture
def base_url(service):
    """Where `page` looks: nothing on it may break, and no other host may be asked."""
    return service.url


def choose_a_password(page, link):
    page.goto(link)
    page.get_by_label(re.compile("^(Neues )?Passwort$")).fill(NEW_PASSWORD)
    page.get_by_role("button", name="Passwort speichern").click()
    expect(page.get_by_role("heading", name=re.compile("Passwort ist gespeichert"))).to_be_focused()


def test_a_forgotten_password_is_replaced_in_the_browser(page, service, mail_server):
    user = service.register("forgetful")
    page.set_viewport_size({"width": 360, "height": 640})
    page.set_extra_http_headers({"Accept-Language": "de-AT,de;q=0.9,en;q=0.8"})
    token = service.log_in(user).data["accessToken"]
    service.call("PUT", "/api/users/settings", {"language": "de-AT"}, token=token)
    service.call("POST", "/api/auth/forgot-password", {"email": user["email"]})
    mail = mail_server.wait_for(user["email"], "Neues Passwort wählen")
    assert '<html lang="de">' in mail.get_body(("html",)).get_content()

    page.goto(link_in(mail))
    expect(page.get_by_text(f"Konto: {user['username']}")).to_be_visible()
    field = page.get_by_label("Neues Passwort")
    field.fill(user["username"])
    page.get_by_role("button", name="Passwort speichern").click()
    expect(field).to_have_accessible_description(re.compile("besteht aus Ihrem Benutzernamen"))
    page.goto("about:blank")
    choose_a_password(page, link_in(mail))
    # Nothing on the page is wider than the phone, or in another language.
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    text = page.locator("main").inner_text()
    assert not re.search(r"\b(the|your|password|page|you)\b", text), text

    assert service.call("GET", "/api/auth/verify", token=token).code == "token_revoked"
    assert service.log_in(user).code == "invalid_credentials"
    assert service.log_in(user, password=NEW_PASSWORD).status == 200
    # The same link again, as from the mail: it worked once, and offers a new one.
    page.goto("about:blank")
    page.goto(link_in(mail))
    page.get_by_role("textbox", name="Benutzername oder E-Mail-Adresse").fill(user["email"])
    page.get_by_role("button", name="Neuen Link senden").click()
    expect(page.get_by_role("heading", name="Schauen Sie in Ihr Postfach")).to_be_visible()
    again = mail_server.wait_for(user["email"], "Neues Passwort wählen")
    assert link_in(again) != link_in(mail)


def test_the_docs_show_every_operation_and_call_the_service(page, service):
    document = service.call("GET", "/openapi.json").content
    operations = sum(len(path) for path in document["paths"].values())
    page.goto(f"{service.url}/docs")
    expect(page.locator(".opblock")).to_have_count(operations)

    page.locator(".btn.authorize").click()
    token = service.log_in(service.register("reader")).data["accessToken"]
    page.locator(".auth-container input").first.fill(token)
    page.locator(".auth-btn-wrapper .authorize").first.click()
    page.locator(".btn-done").first.click()
    verify = page.locator(".opblock", has_text="/api/auth/verify").first
    verify.locator(".opblock-summary-control").click()
    verify.locator(".execute").click()
    expect(verify.locator(".live-responses-table .response-col_status").last).to_contain_text("200")
