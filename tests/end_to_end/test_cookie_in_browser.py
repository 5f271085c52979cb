"""The page of docs/browser.md in Chromium, on another origin; and hostile pages, for the cookie."""

import re
from types import SimpleNamespace

import pytest
from flask import Flask
from real_service import deployed, serving
from sqlalchemy import URL

from config import ROOT

pytestmark = pytest.mark.browser

# Each way in which a page can make a browser send something, as "what it tried: what it read".
ATTACK = """async ([api, login]) => {
  const got = [];
  const note = (what, seen) => got.push(`${what}: ${seen}`);
  const bodies = ["{}", JSON.stringify(login)];
  const types = ["application/json", "text/plain", "application/x-www-form-urlencoded"];
  const wishes = [null, "1", "session"];
  for (const path of ["/api/auth/refresh", "/auth/refresh", "/api/auth/login", "/api/auth/logout"])
    for (const mode of ["cors", "no-cors"])
      for (const type of types)
        for (const wish of wishes)
          for (const body of bodies) {
            const headers = { "Content-Type": type, ...(wish ? { "X-Refresh-Cookie": wish } : {}) };
            const options = { method: "POST", credentials: "include", mode, headers, body };
            await fetch(api + path, options).then(
              async (answer) => note(`${mode} ${path}`, answer.status + (await answer.text())),
              () => note(`${mode} ${path}`, "an error"));
          }
  await fetch(api + "/api/auth/verify", { credentials: "include" }).then(
    async (answer) => note("verify", await answer.text()), () => note("verify", "an error"));
  navigator.sendBeacon(api + "/api/auth/refresh", "{}");
  for (const enctype of ["text/plain", "multipart/form-data", "application/x-www-form-urlencoded"])
    for (const path of ["refresh", "logout", "login"]) {
      const frame = document.createElement("iframe");
      frame.name = `frame${document.forms.length}`;
      const form = document.createElement("form");
      Object.assign(form, { method: "post", action: `${api}/api/auth/${path}`, enctype });
      form.target = frame.name;
      const field = document.createElement("input");
      Object.assign(field, { name: '{"a":"', value: '"}' });
      form.append(field);
      document.body.append(frame, form);
      const loaded = new Promise((done) => { frame.onload = done; });
      form.submit();
      await loaded;
      let seen = "an error";
      try { seen = frame.contentDocument?.body.textContent || seen; } catch {}
      note(`form to ${path}`, seen);
    }
  return got;
}"""


@pytest.fixture(scope="module")
def example():
    """The page with which the docs begin."""
    docs = (ROOT / "docs/browser.md").read_text()
    page, *_ = re.findall(r"^```html\n(.*?)^```$", docs, re.M | re.S)
    assert page.count("\n") <= 20
    return {"page": page}


@pytest.fixture(scope="module")
def front_end(example):
    app = Flask("front_end")
    app.add_url_rule("/", "page", lambda: example["page"])
    with serving(app) as url:
        yield url


@pytest.fixture(scope="module")
def hostile():
    app = Flask("hostile")
    app.add_url_rule("/", "page", lambda: "<!doctype html><title>A prize!</title><body>")
    with serving(app) as url:
        yield url


def elsewhere(url):
    """Return the URL of the same machine under the name that makes it another site."""
    return url.replace("127.0.0.1", "localhost")


@pytest.fixture(scope="module")
def service(front_end, example, mail_server, folder):
    url = URL.create("sqlite", database=str(folder / "cookie.db"))
    origins = f"{front_end},{elsewhere(front_end)}"
    with deployed(url, mail_server.port, folder / "cookie.log", CORS_ORIGINS=origins) as service:
        example["page"] = example["page"].replace("http://127.0.0.1:5000", service.url)
        yield service


@pytest.fixture
def browser_of(browser, service, front_end):
    """A browser with the page of the docs in it; `name` is that of a user of the service."""
    context = browser.new_context()
    context.set_default_timeout(10_000)
    # Each answer of the API to any page, but not those to preflights.
    answers = []
    ours = service.url
    context.on("response", lambda each: answers.append(each) if ours in each.url else None)
    page = context.new_page()
    page.goto(front_end)

    def cookie():
        found = [each for each in context.cookies(service.url) if each["name"] == "refresh"]
        return found[0] if found else None

    yield SimpleNamespace(context=context, page=page, answers=answers, cookie=cookie)
    context.close()


def fill(page, user, own=True):
    page.get_by_label("E-mail address").fill(user["email"])
    page.get_by_label("Password").fill(user["password"])
    page.get_by_label("This is my own device").set_checked(own)
    page.get_by_role("button", name="Sign in").click()


def log_in(page, user, own=True):
    fill(page, user, own)
    greeted(page, user["username"])


def greeted(page, name):
    page.get_by_text(f"Hello, {name}!").wait_for()


def second_tab(page):
    with page.expect_popup() as opened:
        page.evaluate("() => { window.open('/') }")
    return opened.value


def test_page_of_another_origin_stays_logged_in_until_it_logs_out(browser_of, service, front_end):
    page, cookie = browser_of.page, browser_of.cookie
    page.get_by_label("Password").wait_for()
    # A browser that knows nothing asks once whether there is a cookie.
    browser_of.page.wait_for_function(
        "localStorage.length && Object.values(localStorage)[0] === 'ended'"
    )
    calls = [f"{service.url}/client.js", f"{service.url}/api/auth/refresh"]
    assert [each.url for each in browser_of.answers if each.request.method != "OPTIONS"] == calls
    user = service.register("reader")
    log_in(page, user, own=False)
    first = cookie()
    assert (first["httpOnly"], first["sameSite"], first["expires"]) == (True, "Strict", -1)
    kept = page.evaluate("document.cookie + JSON.stringify(localStorage)")
    assert first["value"] not in kept
    assert "eyJ" not in kept

    page.reload()
    greeted(page, "reader")
    assert cookie()["value"] != first["value"]
    assert cookie()["expires"] == -1
    other = second_tab(page)
    greeted(other, "reader")

    page.get_by_role("button", name="Sign out").click()
    for tab in (page, other):
        tab.get_by_label("Password").wait_for()
    assert cookie() is None

    log_in(page, user)
    assert cookie()["expires"] > 0
    greeted(other, "reader")


def test_page_under_another_name_of_the_machine_loses_the_cookie(browser_of, service, front_end):
    user, page = service.register("local"), browser_of.context.new_page()
    page.goto(elsewhere(front_end))
    log_in(page, user)
    assert browser_of.cookie() is None
    page.reload()
    page.get_by_label("Password").wait_for()


# Of the same site, which gets the cookie sent but is no allowed origin; and of another site.
@pytest.mark.asvs("3.3.2", "3.3.3", "3.3.4")
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_hostile_page_gets_nothing_and_changes_nothing(browser_of, service, hostile, host):
    user = service.register(f"victim-{host.replace('.', '-')}")
    log_in(browser_of.page, user)
    before = browser_of.cookie()
    evil = browser_of.context.new_page()
    evil.goto(hostile.replace("127.0.0.1", host))
    browser_of.answers.clear()
    stranger = service.register(f"stranger-{host.replace('.', '-')}")
    login = {"email": stranger["email"], "password": stranger["password"]}
    got = evil.evaluate(ATTACK, [service.url, login])
    assert len(got) > 150
    assert {each.partition(": ")[2] for each in got} == {"an error"}
    assert browser_of.answers
    for answer in browser_of.answers:
        assert answer.status in (400, 401, 415), (answer.url, answer.status)
        assert "set-cookie" not in answer.headers
    assert browser_of.cookie() == before

    browser_of.page.reload()
    greeted(browser_of.page, user["username"])
