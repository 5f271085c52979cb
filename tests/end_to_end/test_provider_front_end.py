"""examples/front-end.html runs in Chromium, on an origin of its own."""

import pytest
from fake_provider import CLIENT_ID, CLIENT_SECRET, FakeProvider
from flask import Flask
from helpers import NEW_PASSWORD
from playwright.sync_api import expect
from real_service import deployed, serving
from sqlalchemy import URL

from config import ROOT

pytestmark = pytest.mark.browser

# As in React's StrictMode, where an effect runs twice.
TWICE = """<!doctype html><link rel="icon" href="data:,"><p></p><script type="module">
import { createClient } from "http://127.0.0.1:5000/client.js";
const client = createClient({ url: "http://127.0.0.1:5000", storage: "local" });
const heard = [];
client.onChange((user, why) => heard.push(why));
const effect = () => client.arrived().then((user) => user?.username, ({ code }) => code);
const both = await Promise.all([effect(), effect()]);
document.querySelector("p").textContent = [...both, await effect(), ...heard].join();
Object.assign(window, { client });
</script>"""


@pytest.fixture(scope="module")
def texts():
    return {"page": (ROOT / "examples/front-end.html").read_text(), "twice": TWICE}


@pytest.fixture(scope="module")
def front_end(texts):
    app = Flask("front_end")
    app.add_url_rule("/front-end.html", "page", lambda: texts["page"])
    app.add_url_rule("/twice", "twice", lambda: texts["twice"])
    with serving(app) as url:
        yield url


@pytest.fixture(scope="module")
def school():
    with FakeProvider() as provider:
        provider.has_page = True
        yield provider


@pytest.fixture(scope="module")
def service(front_end, texts, school, mail_server, folder):
    url = URL.create("sqlite", database=str(folder / "front_end.db"))
    settings = {
        **{
            "CORS_ORIGINS": front_end,
            "SIGN_IN_RETURN_URLS": f"{front_end}/front-end.html,{front_end}/twice",
        },
        **{"OIDC_PROVIDERS": "school", "OIDC_SCHOOL_ISSUER": school.issuer},
        **{"OIDC_SCHOOL_CLIENT_ID": CLIENT_ID, "OIDC_SCHOOL_CLIENT_SECRET": CLIENT_SECRET},
        "OIDC_SCHOOL_DOMAINS": "school.example",
    }
    with deployed(url, mail_server.port, folder / "front_end.log", **settings) as service:
        for name, text in texts.items():
            texts[name] = text.replace("http://127.0.0.1:5000", service.url)
        yield service


@pytest.fixture
def page(browser, front_end, service):
    context = browser.new_context(locale="de-AT")
    page = context.new_page()
    page.set_default_timeout(10_000)
    page.goto(f"{front_end}/front-end.html")
    page.get_by_role("button", name="School").wait_for()  # the last thing that comes
    yield page
    context.close()


def sign_in(page, user, button="Anmelden", **more):
    form = page.locator("#sign-in")
    for name in ("email", "password", *more):
        form.locator(f"[name={name}]").fill({**user, **more}[name])
    form.get_by_role("button", name=button, exact=button == "Anmelden").click()


def said(page):
    return page.get_by_role("status")


def visit(page, button="continue"):
    """Go to the provider, press a button there, and come back."""
    page.get_by_role("button", name="School").click()
    page.get_by_role("button", name=button).click()
    page.wait_for_url("**/front-end.html")
    return page


def test_sign_up_signs_in_and_says_in_the_readers_language_what_is_wrong(page):
    form = page.locator("#sign-up")
    values = {"firstName": "A", "lastName": "L", "username": "newcomer", "email": "n@example.org"}
    for name, value in {**values, "password": "password"}.items():
        form.locator(f"[name={name}]").fill(value)
    form.get_by_role("button").click()
    expect(said(page)).to_have_text("Passwort ist leicht zu erraten")
    form.locator("[name=password]").fill(NEW_PASSWORD)
    form.get_by_role("button").click()
    expect(said(page)).to_have_text("Hallo, newcomer!")
    page.reload()
    expect(said(page)).to_have_text("Hallo, newcomer!")
    page.get_by_role("button", name="Abmelden").click()
    expect(page.locator("#sign-in")).to_be_visible()


def test_second_try_has_the_code_of_the_second_factor(page, service):
    user = service.register("protected")
    code, *_ = service.add_second_factor(user)
    expect(page.get_by_label("Code")).to_be_hidden()
    sign_in(page, user)
    expect(said(page)).to_have_text("Geben Sie einen Code Ihrer App ein.")
    sign_in(page, user, secondFactor="000000")
    expect(said(page)).to_have_text("Dieser Code ist falsch oder schon benutzt.")
    sign_in(page, user, secondFactor=code)
    expect(said(page)).to_have_text("Hallo, protected!")


def test_front_end_of_another_origin_signs_in_with_a_provider_and_links(page, service, school):
    visit(page)
    expect(said(page)).to_have_text("Hallo, pupil!")
    assert "#" not in page.url
    page.get_by_role("button", name="Abmelden").click()

    user = service.register("ada")
    code, *_ = service.add_second_factor(user)
    school.person |= {"sub": "another", "email": user["email"]}
    visit(page)
    expect(said(page)).to_contain_text("Es gibt ein Konto mit dieser Adresse")
    sign_in(page, user, button="verknüpfen")
    sign_in(page, user, secondFactor=code)
    expect(said(page)).to_have_text("Hallo, ada!")


def test_second_factor_is_asked_for_after_a_provider(page, service, school):
    user = service.register("kim")
    school.person |= {"sub": "third", "email": user["email"]}
    visit(page)
    sign_in(page, user, button="verknüpfen")
    expect(said(page)).to_have_text("Hallo, kim!")
    codes = service.add_second_factor(user)
    page.get_by_role("button", name="Abmelden").click()
    visit(page)
    expect(said(page)).to_have_text("Geben Sie einen Code Ihrer App ein.")
    page.get_by_label("Code").fill(codes[0])
    page.get_by_role("button", name="Anmelden", exact=True).click()
    expect(said(page)).to_have_text("Hallo, kim!")


def test_front_end_tells_why_nobody_has_come(page, front_end):
    visit(page, "cancel")
    expect(said(page)).to_have_text("Sie haben abgebrochen.")
    page.goto("about:blank")
    page.goto(f"{front_end}/front-end.html#provider=school&code=x&verifier={'x' * 43}")
    expect(said(page)).to_have_text("Bitte beginnen Sie noch einmal.")
    assert page.url == f"{front_end}/front-end.html"


def test_effect_that_runs_twice_is_one_login(page, front_end, school):
    school.person |= {"sub": "fourth", "email": "twin@school.example"}
    page.goto(f"{front_end}/twice")
    expect(page.locator("p")).to_have_text(",,")
    page.evaluate("() => { client.signInWith('school'); }")
    page.get_by_role("button", name="continue").click()
    expect(page.locator("p")).to_have_text("twin,twin,twin,signed_in")
