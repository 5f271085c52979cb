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
document.querySelector("p").textContent = `said: ${[...both, await effect(), ...heard].join()}`;
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


def test_front_end_tells_why_nobody_has_come(page, front_end):
    visit(page, "cancel")
    expect(said(page)).to_have_text("Sie haben abgebrochen.")
    page.goto("about:blank")
    page.goto(f"{front_end}/front-end.html#provider=school&code=x&verifier={'x' * 43}")
    expect(said(page)).to_have_text("Bitte beginnen Sie noch einmal.")
    assert page.url == f"{front_end}/front-end.html"


def come_without_a_code(page, service, school, user):
    """Link a user, add a second factor, and come from the provider again; return its codes."""
    school.person |= {"sub": f"that of {user['username']}", "email": user["email"]}
    visit(page)
    sign_in(page, user, button="verknüpfen")
    expect(said(page)).to_have_text(f"Hallo, {user['username']}!")
    codes = service.add_second_factor(user)
    page.get_by_role("button", name="Abmelden").click()
    visit(page)
    expect(said(page)).to_have_text("Geben Sie einen Code Ihrer App ein.")
    return codes


def test_next_person_signs_in_where_a_code_was_asked_for(page, service, school):
    """Who came back from the provider has left the device."""
    user, other = service.register("lou"), service.register("max")
    come_without_a_code(page, service, school, user)
    sign_in(page, other)
    expect(said(page)).to_have_text("Hallo, max!")


HIDE = """Object.defineProperty(document, 'hidden', { value: true, configurable: true });
document.dispatchEvent(new Event('visibilitychange')); delete document.hidden;"""


@pytest.mark.parametrize("how", ["late", "hidden"])
def test_what_came_back_cannot_be_linked_by_the_next_person(page, service, school, front_end, how):
    user = service.register(f"owner-{how}")
    school.person |= {"sub": f"of {how}", "email": user["email"]}
    page.clock.install()
    visit(page)
    link = page.get_by_role("button", name="verknüpfen")
    expect(link).to_contain_text(user["email"])
    if how == "hidden":
        page.evaluate(HIDE)
    else:
        page.clock.fast_forward(121_000)
    expect(link).to_be_hidden()

    page.goto(f"{front_end}/twice")
    page.get_by_text("said: ,").wait_for()
    page.evaluate("() => { client.signInWith('school'); }")
    page.get_by_role("button", name="continue").click()
    page.get_by_text("email_taken,email_taken").wait_for()
    page.evaluate(HIDE if how == "hidden" else "0")
    page.clock.fast_forward(0 if how == "hidden" else 121_000)
    login = {"email": user["username"], "password": user["password"], "link": True}
    asked = page.evaluate("(login) => client.signIn(login).catch(({ code }) => code)", login)
    assert asked == "again"


def test_code_waits_for_the_app_of_the_second_factor(page, service, school, front_end):
    """The app may be on the same phone: the page is hidden while its code is read."""
    user = service.register("phone")
    codes = come_without_a_code(page, service, school, user)
    page.evaluate(HIDE)
    page.get_by_label("Code").fill(codes[0])
    page.get_by_role("button", name="Anmelden", exact=True).click()
    expect(said(page)).to_have_text("Hallo, phone!")


def test_two_clicks_are_one_walk(page, front_end, school):
    school.person |= {"sub": "seventh", "email": "twice@school.example"}
    page.goto(f"{front_end}/twice")
    page.get_by_text("said: ,").wait_for()
    calls = []
    page.on("request", lambda request: "start" in request.url and calls.append(request.method))
    page.evaluate("() => { for (const _ of [1, 2]) client.signInWith('school'); }")
    page.get_by_role("button", name="continue").click()
    page.get_by_text("twice,twice,twice,signed_in").wait_for()
    assert calls.count("POST") == 1


def test_page_that_comes_back_by_the_back_button_can_begin_again(
    cached_page, service, school, front_end
):
    page = cached_page
    page.goto(f"{front_end}/twice")
    page.get_by_text("said: ,").wait_for()
    leave = """() => { window.asked = client.signInWith("school").catch(({ code }) => code);
      addEventListener("pageshow", (event) => { window.persisted = event.persisted; }); }"""
    page.evaluate(leave)
    page.get_by_role("button", name="continue").wait_for()
    page.go_back(wait_until="commit")  # nothing is loaded
    page.wait_for_function("window.persisted !== undefined")
    assert page.evaluate("persisted") is True
    assert page.evaluate("asked") == "denied"
    page.evaluate(leave)
    page.get_by_role("button", name="continue").wait_for()


def test_effect_that_runs_twice_is_one_login(page, front_end, school):
    school.person |= {"sub": "fourth", "email": "twin@school.example"}
    page.goto(f"{front_end}/twice")
    expect(page.locator("p")).to_have_text("said: ,,")
    page.evaluate("() => { client.signInWith('school'); }")
    page.get_by_role("button", name="continue").click()
    expect(page.locator("p")).to_have_text("said: twin,twin,twin,signed_in")
