"""The module of docs/providers.md runs in Chromium, on a page of another origin."""

import re
from urllib.parse import urlsplit

import pytest
from fake_provider import CLIENT_ID, CLIENT_SECRET, FakeProvider
from flask import Flask, Response
from real_service import deployed, serving
from sqlalchemy import URL

from config import ROOT

pytestmark = pytest.mark.browser

PAGE = b"""<!doctype html><title>A front end</title><link rel="icon" href="data:,">
<script type="module">
import * as provider from "/provider.js";
import { withCode } from "/codes.js";
Object.assign(window, { provider, withCode });
</script>"""
LOG_IN = "(more) => provider.logIn(more).then(({ user }) => user.username, ({ code }) => code)"


@pytest.fixture(scope="module")
def module():
    """The modules, as the front end has them; `module["provider.js"]` may be changed."""
    texts = [(ROOT / f"docs/{name}.md").read_text() for name in ("providers", "browser")]
    found = re.findall(r"^```js\n(// (provider|codes)\.js: .*?)^```$", "".join(texts), re.M | re.S)
    module = {f"{name}.js": code for code, name in found}
    assert module["provider.js"].count("https://accounts.example.org") == 1
    return module


@pytest.fixture(scope="module")
def front_end(module):
    app = Flask("front_end")
    app.add_url_rule("/", "page", lambda: PAGE)
    app.add_url_rule(
        "/<name>", "module", lambda name: Response(module[name], mimetype="text/javascript")
    )
    with serving(app) as url:
        yield f"{url}/"


@pytest.fixture(scope="module")
def school():
    with FakeProvider() as provider:
        provider.has_page = True
        yield provider


@pytest.fixture(scope="module")
def service(front_end, module, school, mail_server, folder):
    url = URL.create("sqlite", database=str(folder / "front_end.db"))
    settings = {
        **{"CORS_ORIGINS": front_end, "SIGN_IN_RETURN_URLS": front_end},
        **{"OIDC_PROVIDERS": "school", "OIDC_SCHOOL_ISSUER": school.issuer},
        **{"OIDC_SCHOOL_CLIENT_ID": CLIENT_ID, "OIDC_SCHOOL_CLIENT_SECRET": CLIENT_SECRET},
        "OIDC_SCHOOL_DOMAINS": "school.example",
    }
    with deployed(url, mail_server.port, folder / "front_end.log", **settings) as service:
        module["provider.js"] = module["provider.js"].replace(
            "https://accounts.example.org", service.url
        )
        yield service


@pytest.fixture
def visit(browser, front_end, service):
    """Go to the provider from the front end, press a button there, and come back."""
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(10_000)

    def visit(button="continue"):
        page.goto(front_end)
        page.wait_for_function("window.provider")
        page.evaluate("() => { provider.leave('school') }")
        page.get_by_role("button", name=button).click()
        page.wait_for_url(front_end)
        page.wait_for_function("window.provider")
        assert urlsplit(page.url).fragment == ""
        return page

    yield visit
    context.close()


def test_front_end_of_another_origin_signs_in_and_links(visit, service, school):
    page = visit()
    assert page.evaluate("provider.problem") is None
    assert page.evaluate(LOG_IN) == "pupil"
    assert page.evaluate(LOG_IN) == "invalid_token"  # once only

    user = service.register("ada")
    code, *_ = service.add_second_factor(user)
    school.person |= {"sub": "another", "email": user["email"]}
    page = visit()
    assert page.evaluate(LOG_IN) == "email_taken"
    login = {name: user[name] for name in ("email", "password")}
    assert page.evaluate(LOG_IN, login) == "second_factor_required"
    assert page.evaluate(LOG_IN, {**login, "secondFactor": code}) == "ada"


def test_second_factor_is_asked_for_in_the_front_end(visit, service, school):
    user = service.register("kim")
    school.person |= {"sub": "third"}
    codes = service.add_second_factor(user)
    login = {name: user[name] for name in ("email", "password")}
    assert visit().evaluate(LOG_IN, {**login, "secondFactor": codes[0]}) == "kim"
    asked = """async (codes) => {
      const asked = [];
      const ask = (why) => { asked.push(why); return codes.shift(); };
      const { user } = await withCode((secondFactor) => provider.logIn({ secondFactor }), ask);
      return [...asked, user.username];
    }"""
    answers = ["second_factor_required", "wrong_code", "kim"]
    assert visit().evaluate(asked, ["wrong", codes[1]]) == answers


def test_front_end_tells_why_nobody_has_come(visit, front_end):
    page = visit("cancel")
    assert page.evaluate("[provider.problem, provider.proof]") == ["denied", None]
    page.goto("about:blank")
    page.goto(f"{front_end}#provider=school&code=of-somebody-else")
    page.wait_for_function("window.provider")
    assert page.evaluate("[provider.problem, provider.proof]") == ["again", None]
    assert page.url == front_end
