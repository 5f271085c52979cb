"""The modules of docs/browser.md run in Chromium, on a page of another origin."""

import re
import time

import pytest
from flask import Flask, Response
from forgeries import forge
from real_service import deployed, serving
from sqlalchemy import URL

from config import ROOT

pytestmark = pytest.mark.browser

PAGE = b"""<!doctype html><title>A front end</title><script type="module">
import * as api from "/api.js";
import { withCode } from "/codes.js";
window.api = api;
window.withCode = withCode;
window.told = [];
api.onOtherTab((user) => window.told.push(user?.username ?? null));
</script>"""


HOLD_THE_LOCK = """() => new Promise((held) => navigator.locks.request("accounts", () =>
  new Promise((release) => { window.release = release; held(); })))"""


@pytest.fixture(scope="module")
def module():
    """The modules, as the front end has them; `module["api.js"]` may be changed."""
    text = (ROOT / "docs/browser.md").read_text()
    found = re.findall(r"^```js\n(// (api|codes)\.js: .*?)^```$", text, re.M | re.S)
    module = {f"{name}.js": code for code, name in found}
    assert module["api.js"].count("https://accounts.example.org") == 1
    return module


@pytest.fixture(scope="module")
def front_end(module):
    app = Flask("front_end")
    app.add_url_rule("/", "page", lambda: PAGE)
    app.add_url_rule(
        "/<name>", "module", lambda name: Response(module[name], mimetype="text/javascript")
    )
    with serving(app) as url:
        yield url


@pytest.fixture(scope="module")
def service(front_end, mail_server, folder):
    url = URL.create("sqlite", database=str(folder / "browser.db"))
    log = folder / "browser.log"
    with deployed(url, mail_server.port, log, CORS_ORIGINS=front_end) as service:
        yield service


@pytest.fixture
def tabs(browser, front_end, module, service):
    """Two tabs of one browser, with the front end in them."""
    module["api.js"] = module["api.js"].replace("https://accounts.example.org", service.url)
    context = browser.new_context()
    context.set_default_timeout(10_000)
    one = context.new_page()
    one.goto(front_end)
    # Tabs that were opened otherwise may see what this one stores some milliseconds late.
    with one.expect_popup() as opened:
        one.evaluate("() => { window.open('/') }")
    for tab in (one, opened.value):
        tab.wait_for_function("window.api")
    yield one, opened.value
    context.close()


def expired(token):
    """Return the access token of the same session as it is after its life."""
    past = int(time.time()) - 3600
    return forge(token, iat=past, nbf=past, exp=past + 900)


def test_tabs_of_another_origin_share_a_session_and_refresh_it_once(tabs, service):
    one, two = tabs
    someone = service.register("someone")
    login = [someone["email"], someone["password"]]
    wrong = "(login) => api.logIn(login[0], 'a wrong one').catch((error) => error.code)"
    assert one.evaluate(wrong, login) == "invalid_credentials"
    assert one.evaluate("(login) => api.logIn(...login)", login)["username"] == "someone"
    two.wait_for_function("told.at(-1) === 'someone'")

    # Both tabs hold the same expired token and wait for the lock, so neither is first.
    stored = one.evaluate("JSON.parse(localStorage.accounts)")
    stored["accessToken"] = expired(stored["accessToken"])
    one.evaluate("(session) => { localStorage.accounts = JSON.stringify(session) }", stored)
    refreshes = []
    for tab in tabs:
        tab.on("response", lambda each: refreshes.append(each) if "refresh" in each.url else None)
    one.evaluate(HOLD_THE_LOCK)
    for tab in tabs:
        tab.evaluate("() => { window.answer = api.call('GET', '/auth/verify') }")
    one.wait_for_function("async () => (await navigator.locks.query()).pending.length === 2")
    one.evaluate("() => release()")
    for tab in tabs:
        assert tab.evaluate("answer")["user"]["username"] == "someone"
    assert [(each.request.method, each.status) for each in refreshes] == [("POST", 200)]

    two.evaluate("api.logOut()")
    one.wait_for_function("told.at(-1) === null")
    assert one.evaluate("api.user()") is None
    body = {"refreshToken": stored["refreshToken"]}
    assert service.call("POST", "/api/auth/refresh", body).code == "token_revoked"


def test_login_asks_for_a_code_until_it_is_right(tabs, service):
    one, _ = tabs
    user = service.register("protected")
    log_in = """async ([email, password, typed]) => {
      const asked = [];
      const ask = (why) => { asked.push(why); return typed.shift(); };
      const act = (code) => api.logIn(email, password, code);
      const ended = await withCode(act, ask).catch((error) => error.code);
      return [asked, ended.username ?? ended];
    }"""
    login = [user["email"], user["password"]]
    right = service.add_second_factor(user)[0]
    required, wrong = "second_factor_required", "wrong_code"
    assert one.evaluate(log_in, [*login, [""]]) == [[required], required]
    assert one.evaluate(log_in, [*login, ["wrong", right]]) == [[required, wrong], "protected"]
    assert one.evaluate(log_in, [login[0], "wrong", [right]]) == [[], "invalid_credentials"]
