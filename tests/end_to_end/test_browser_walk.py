"""The links of real mails, opened in Chromium, and the docs, served by the real service.

Each page is watched: nothing on it may break, and no other host may be asked.
"""

import re
from uuid import uuid4

import pytest
from playwright.sync_api import expect
from real_service import link_in, registration

pytestmark = pytest.mark.browser

NEW_PASSWORD = "seven green lamps by the door"


@pytest.fixture
def base_url(service):
    """Where `page` looks: nothing on it may break, and no other host may be asked."""
    return service.url


@pytest.fixture
def user(service):
    user = registration(f"user-{uuid4().hex[:8]}")
    assert service.call("POST", "/api/auth/register", user).status == 201
    return user


def test_a_forgotten_password_is_replaced_in_the_browser(page, service, mail_server, user):
    login = {"email": user["email"], "password": user["password"]}
    before = service.call("POST", "/api/auth/login", login).data
    service.call("POST", "/api/auth/forgot-password", {"email": user["email"]})
    link = link_in(mail_server.wait_for(user["email"], "Choose a new password"))

    page.goto(link)
    expect(page.get_by_text(f"Account: {user['username']}")).to_be_visible()
    field = page.get_by_label("New password")
    save = page.get_by_role("button", name="Save the password")
    field.fill("password1")
    save.click()
    expect(field).to_have_attribute("aria-invalid", "true")
    field.fill(NEW_PASSWORD)
    save.click()
    expect(page.get_by_role("heading", name="Your new password is saved")).to_be_visible()
    assert page.url == f"{service.url}/reset-password"

    answer = service.call("GET", "/api/auth/verify", token=before["accessToken"])
    assert answer.code == "token_revoked"
    assert service.call("POST", "/api/auth/login", login).code == "invalid_credentials"
    login["password"] = NEW_PASSWORD
    assert service.call("POST", "/api/auth/login", login).status == 200

    # The same link again, as from the mail: it worked once, and offers a new one.
    page.goto("about:blank")
    page.goto(link)
    expect(page.get_by_role("heading", name="Get a new link")).to_be_visible()
    page.get_by_role("textbox", name="E-mail address").fill(user["email"])
    page.get_by_role("button", name="Send a new link").click()
    expect(page.get_by_role("heading", name="Check your e-mail")).to_be_visible()
    assert link_in(mail_server.wait_for(user["email"], "Choose a new password")) != link


def test_an_address_is_confirmed_in_the_browser(page, service, mail_server, user):
    link = link_in(mail_server.wait_for(user["email"], "Confirm your e-mail address"))
    page.goto(link)
    page.get_by_role("button", name="Confirm my e-mail address").click()
    expect(page.get_by_role("heading", name="Your e-mail address is confirmed")).to_be_visible()
    body = {"token": link.partition("#token=")[2]}
    assert service.call("POST", "/api/auth/verify-email", body).code == "invalid_token"


def test_a_forgotten_password_is_replaced_in_german_on_a_phone(page, service, mail_server, user):
    page.set_viewport_size({"width": 360, "height": 640})
    page.set_extra_http_headers({"Accept-Language": "de-AT,de;q=0.9,en;q=0.8"})
    login = {"email": user["email"], "password": user["password"]}
    token = service.call("POST", "/api/auth/login", login).data["accessToken"]
    service.call("PUT", "/api/users/settings", {"language": "de-AT"}, token=token)
    service.call("POST", "/api/auth/forgot-password", {"email": user["email"]})
    mail = mail_server.wait_for(user["email"], "Neues Passwort wählen")
    assert '<html lang="de">' in mail.get_body(("html",)).get_content()

    page.goto(link_in(mail))
    expect(page.locator("html")).to_have_attribute("lang", "de")
    expect(page.get_by_role("heading", name="Neues Passwort wählen")).to_be_visible()
    field = page.get_by_label("Neues Passwort")
    save = page.get_by_role("button", name="Passwort speichern")
    field.fill(user["username"])
    save.click()
    expect(field).to_be_focused()
    expect(field).to_have_accessible_description(re.compile("besteht aus Ihrem Benutzernamen"))
    field.fill(NEW_PASSWORD)
    save.click()
    expect(page.get_by_role("heading", name="Ihr neues Passwort ist gespeichert")).to_be_focused()
    # Nothing on the page is wider than the phone, or in another language.
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    text = page.locator("main").inner_text()
    assert not re.search(r"\b(the|your|password|page|you)\b", text), text
    login["password"] = NEW_PASSWORD
    assert service.call("POST", "/api/auth/login", login).status == 200
    mail_server.wait_for(user["email"], "Ihr Passwort wurde geändert")


def test_a_stolen_account_is_taken_back_in_german(page, service, mail_server, user):
    page.set_extra_http_headers({"Accept-Language": "de"})
    old, new = user["email"], f"new-{user['email']}"
    link = link_in(mail_server.wait_for(old, "Confirm your e-mail address"))
    service.call("POST", "/api/auth/verify-email", {"token": link.partition("#token=")[2]})
    login = {"email": old, "password": user["password"]}
    token = service.call("POST", "/api/auth/login", login).data["accessToken"]
    service.call("PUT", "/api/users/settings", {"language": "de-AT"}, token=token)
    body = {"newEmail": new, "password": user["password"]}
    assert service.call("POST", "/api/users/email", body, token=token).status == 200
    code = mail_server.wait_for(new, "Bestätigen Sie Ihre neue E-Mail-Adresse")
    text = code.get_body(("plain",)).get_content()
    (typed,) = re.findall(r"^[0-9A-Z]{4}-[0-9A-Z]{4}\b", text, re.MULTILINE)
    assert f">{typed}</p>" in code.get_body(("html",)).get_content()
    body = {"code": typed.lower()}
    assert service.call("POST", "/api/users/email/confirm", body, token=token).status == 200

    link = link_in(mail_server.wait_for(old, "Ihre E-Mail-Adresse wurde geändert"))
    page.goto(link)
    expect(page.get_by_role("heading", name="Änderung der E-Mail-Adresse rück")).to_be_visible()
    assert service.call("GET", "/api/auth/verify", token=token).status == 200  # nothing is done yet
    page.get_by_role("button", name="Änderung rückgängig machen").click()
    expect(page.get_by_role("heading", name="Die Änderung wurde rückgängig")).to_be_focused()
    assert service.call("GET", "/api/auth/verify", token=token).code == "token_revoked"
    page.goto("about:blank")
    page.goto(link)
    expect(page.get_by_role("heading", name="wurde nicht rückgängig gemacht")).to_be_focused()
    expect(page.locator("main")).to_contain_text("Dieser Link ist nicht mehr gültig.")
    expect(page.get_by_label("E-Mail-Adresse")).to_have_count(0)

    page.goto(link_in(mail_server.wait_for(old, "Neues Passwort wählen")))
    page.get_by_role("textbox", name="Passwort").fill(NEW_PASSWORD)
    page.get_by_role("button", name="Passwort speichern").click()
    expect(page.get_by_role("heading", name="Ihr Passwort ist gespeichert")).to_be_focused()
    login["password"] = NEW_PASSWORD
    assert service.call("POST", "/api/auth/login", login).status == 200
    for secret in (old, new, typed, "#token="):
        assert secret not in service.log()


@pytest.mark.parametrize("service", ["sqlite"], indirect=True)
def test_the_docs_show_every_operation_and_call_the_service(page, service, user):
    document = service.call("GET", "/openapi.json").content
    operations = sum(len(path) for path in document["paths"].values())
    page.goto(service.url)
    expect(page.locator(".opblock")).to_have_count(operations)
    assert page.url.startswith(f"{service.url}/docs")

    login = {"email": user["email"], "password": user["password"]}
    token = service.call("POST", "/api/auth/login", login).data["accessToken"]
    page.locator(".btn.authorize").click()
    page.locator(".auth-container input").first.fill(token)
    page.locator(".auth-btn-wrapper .authorize").first.click()
    page.locator(".btn-done").first.click()
    verify = page.locator(".opblock", has_text="/api/auth/verify").first
    verify.locator(".opblock-summary-control").click()
    verify.locator(".execute").click()
    expect(verify.locator(".live-responses-table .response-col_status").last).to_contain_text("200")
