"""The two applications in examples/ sign users in at the served service."""

import re
import runpy
from html import unescape
from types import SimpleNamespace
from urllib.parse import parse_qsl, urlsplit

import pytest
import requests
from applications import KEY, SECRET, der
from flask import Flask
from playwright.sync_api import expect
from real_service import deployed, serving
from sqlalchemy import URL

from config import ROOT

HERE = "http://notes.test"
PAGE = [(ROOT / "examples/application.html").read_text()]


@pytest.fixture(scope="module")
def front_end():
    app = Flask("notes")
    app.add_url_rule("/application.html", "page", lambda: PAGE[-1])
    with serving(app) as url:
        yield f"{url}/application.html"


@pytest.fixture(scope="module")
def service(front_end, mail_server, folder):
    server = {"REDIRECT_URIS": f"{HERE}/callback", "LOGOUT_URIS": f"{HERE}/"}
    browser = {"REDIRECT_URIS": front_end, "LOGOUT_URIS": front_end}
    settings = {f"APPLICATION_SERVER_{name}": value for name, value in server.items()}
    settings |= {"APPLICATION_SERVER_SECRET": SECRET}
    settings |= {f"APPLICATION_NOTES_{name}": value for name, value in browser.items()}
    settings |= {"APPLICATIONS": "server,notes", "APPLICATIONS_KEYS": der(KEY)}
    url = URL.create("sqlite", database=str(folder / "applications.db"))
    with deployed(url, mail_server.port, folder / "applications.log", **settings) as service:
        PAGE.append(PAGE[0].replace("http://127.0.0.1:5000", service.url))
        yield service


@pytest.fixture
def notes(service, monkeypatch):
    """A browser at the example with a server, and what that server knows."""
    env = {"ACCOUNTS_URL": service.url, "APPLICATION_URL": HERE, "COOKIE_KEY": "k" * 64}
    env |= {"CLIENT_ID": "server", "CLIENT_SECRET": SECRET}
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    run = runpy.run_path(str(ROOT / "examples/application.py"))
    return SimpleNamespace(browser=run["app"].test_client(), people=run["people"])


def sign_in(service, notes, user, **changes):
    """Go to the service, sign in there as the page does, and come back; return the answer."""
    url = notes.browser.get("/login").headers["Location"]
    if nonce := changes.pop("nonce", ""):
        url = re.sub("(?<=&nonce=)[^&]+", nonce, url)
    there = requests.get(url, allow_redirects=False, timeout=10).headers["Location"]
    body = {"request": there.partition("#request=")[2]}
    assert service.call("POST", "/api/auth/applications/check", body).data["label"] == "Server"
    token = service.log_in(user).data["accessToken"]
    back = service.call("POST", "/api/auth/applications/codes", body, token=token).data["url"]
    said = dict(parse_qsl(urlsplit(back).query)) | changes
    return notes.browser.get("/callback", query_string=said)


def test_server_knows_its_users_by_id_and_signs_out_here_too(service, notes):
    user = service.register("emma", firstName="Emma", lastName="Becker")
    assert sign_in(service, notes, user).headers["Location"] == "/"
    me = service.log_in(user).data["user"]
    assert notes.people == {me["id"]: {"name": "Emma Becker"}}
    page = unescape(notes.browser.get("/").text)
    assert "Hello, Emma Becker!" in page
    form = dict(re.findall('name="([^"]+)" value="([^"]+)"', page))
    answer = notes.browser.post("/logout", data=form)
    assert answer.status_code == 307
    there = requests.post(answer.headers["Location"], form, allow_redirects=False, timeout=10)
    body = {"request": there.headers["Location"].partition("#leave=")[2]}
    left = service.call("POST", "/api/auth/applications/check", body).data
    assert (left["url"], left["userId"]) == (f"{HERE}/", me["id"])
    assert "Sign in" in notes.browser.get("/").text


def test_server_takes_no_answer_that_it_has_not_asked_for(service, notes):
    user = service.register("kim")
    for wrong in ({"state": "x"}, {"iss": "https://else.test"}, {"nonce": "x"}):
        assert sign_in(service, notes, user, **wrong).status_code == 400, wrong
    assert notes.people == {}


@pytest.mark.browser
def test_application_in_the_browser_signs_in_and_out(service, browser, front_end):
    user = service.register("ben", firstName="Ben", lastName="Young")
    page = browser.new_page(locale="en")
    page.goto(front_end)
    begin = page.get_by_role("button", name="Sign in with your school account")
    begin.click()
    page.wait_for_url(f"{service.url}/account**")
    page.locator("#sign-in [name=email]").fill(user["email"])
    page.locator("#sign-in [name=password]").fill(user["password"])
    page.locator("#sign-in [name=password]").press("Enter")
    expect(page).to_have_url(front_end)
    expect(page.get_by_role("status")).to_have_text("Hello, Ben Young!")
    page.get_by_role("button", name="Sign out").click()
    begin.click()
    expect(page.locator("#sign-in [name=password]")).to_be_visible()  # signed out there too
    page.close()
