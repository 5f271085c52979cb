"""Who is signed in: across reloads, tabs, expired tokens and lost connections."""

import re
from datetime import datetime
from zoneinfo import ZoneInfo

import authenticator
import pytest
from helpers import NEW_PASSWORD, PASSWORD, success
from playwright.sync_api import expect

pytestmark = pytest.mark.browser
# The module of the page itself, by the URL that names the version.
API = "new URL('api.js', document.querySelector('script[type=module]').src)"


def expect_signed_in(page):
    expect(page.get_by_role("heading", name="Profile")).to_be_visible()
    expect(page.locator("#sign-out")).to_be_visible()


def expect_signed_out(page):
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(page.locator("#sign-out")).to_be_hidden()


@pytest.mark.parametrize("is_in", [False, True], ids=["out", "in"])
def test_the_code_of_a_provider_is_dropped_where_there_is_none(page, signed_in, base_url, is_in):
    if is_in:
        signed_in()
    page.goto(f"{base_url}/account?#provider=school&code=forged")
    if is_in:
        expect(page.locator("header .who")).to_be_visible()
    else:
        expect_signed_out(page)


def test_a_wrong_password_is_said_and_a_right_one_signs_in(page, make_user, sign_in):
    user = make_user()
    sign_in(page, user, password="wrong")
    expect(page.locator("#sign-in [role=alert]")).to_contain_text(
        "username or the password is wrong"
    )
    expect(page.locator("#sign-in [name=email]")).to_have_value(user.username)
    page.locator("#sign-in [name=password]").fill(PASSWORD)
    page.locator("#sign-in [name=password]").press("Enter")
    expect(page.get_by_role("heading", name="Profile")).to_be_focused()
    expect(page.locator("header")).to_contain_text(user.username)


def test_the_form_is_busy_until_a_section_is_shown(page, make_user, sign_in):
    """An emptied form looks as if the password had been refused."""
    held = []
    page.route("**/api/users/profile", lambda call: held.append(call))
    with page.expect_request("**/api/users/profile"):
        sign_in(page, make_user())
    form = page.locator("#sign-in form")
    expect(form).to_have_attribute("aria-busy", "true")
    expect(form.get_by_role("status")).to_have_text("One moment…")
    expect(form.locator("[name=password]")).to_have_value(PASSWORD)
    for call in held:
        call.continue_()
    expect_signed_in(page)
    expect(form).to_have_attribute("aria-busy", "false")


def test_caps_lock_is_said_at_the_password(page, base_url):
    page.goto(f"{base_url}/account")
    expect(page.locator("#sign-in [name=email]")).to_be_focused()
    for is_on in (True, False):
        page.locator("#sign-in-password").dispatch_event("keyup", {"modifierCapsLock": is_on})
        expect(page.locator("#caps")).to_have_text("Caps Lock is on." if is_on else "")


@pytest.mark.asvs("14.3.2", "14.3.3")
@pytest.mark.parametrize("own_device", [True, False])
def test_a_reload_stays_signed_in_and_scripts_see_no_refresh_token(
    page, make_user, sign_in, own_device
):
    sign_in(page, make_user(), own_device=own_device)
    expect_signed_in(page)
    (cookie,) = page.context.cookies()
    assert cookie["httpOnly"]
    assert (cookie["expires"] > 0) == own_device
    assert "eyJ" not in page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])")
    assert page.evaluate("document.cookie") == ""
    page.reload()
    expect_signed_in(page)
    (cookie,) = page.context.cookies()
    assert (cookie["expires"] > 0) == own_device


def test_a_visitor_costs_one_call_and_then_none(page, base_url):
    """Whether there is a cookie: a browser may have forgotten who is signed in."""
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    for _ in range(2):
        page.goto(f"{base_url}/account")
        expect_signed_out(page)
    assert [url for url in asked if "/api/" in url] == [f"{base_url}/api/auth/refresh"]


@pytest.mark.asvs("7.4.4")
def test_a_sign_out_in_one_tab_ends_all_tabs(signed_in, base_url):
    page = signed_in().page
    other = page.context.new_page()
    other.goto(f"{base_url}/account#security")
    expect(other.get_by_role("heading", name="Security")).to_be_visible()
    page.locator("#sign-out").click()
    expect_signed_out(page)
    expect_signed_out(other)
    assert page.context.cookies() == []


BLOCKED = """
    const refuse = () => { throw new DOMException("The operation is insecure.", "SecurityError"); };
    Object.defineProperty(window, "localStorage", { get: refuse });
    navigator.locks.request = async () => refuse();
    window.BroadcastChannel = class { constructor() { refuse(); } };
"""


def test_where_storage_and_cookies_are_blocked_the_pages_work_until_the_token_ends(
    page, make_user, sign_in, base_url, clock
):
    page.add_init_script(BLOCKED)
    page.goto(f"{base_url}/reset-password")
    expect(page.get_by_label("Code")).to_be_visible()
    sign_in(page, make_user())
    expect(page.locator("#profile[aria-busy=false]")).to_be_visible()  # its calls are over
    page.context.clear_cookies()
    clock.move(minutes=16)
    page.get_by_role("link", name="Security").click()
    expect(page.get_by_text("Your session has ended.")).to_be_visible()


def test_no_fragment_of_the_url_breaks_the_page(page, base_url):
    page.goto(f"{base_url}/account#100%/%E0")
    expect_signed_out(page)


def test_a_second_factor_is_asked_for_when_it_is_needed(
    page, client, clock, make_user, log_in, sign_in
):
    user = make_user()
    phone = authenticator.set_up(client, log_in(user), user, clock)
    sign_in(page, user)
    code = page.locator("#sign-in [name=secondFactor]")
    expect(code).to_be_focused()
    expect(code).to_have_attribute("autocomplete", "one-time-code")
    code.fill(phone.wrong())
    code.press("Enter")
    expect(code).to_have_accessible_description(re.compile("This code is wrong"))
    code.fill(phone.code())
    code.press("Enter")
    expect_signed_in(page)


def test_an_expired_token_is_replaced_in_the_middle_of_a_form(signed_in, clock):
    page = signed_in().page
    form = page.locator("#profile-form")
    expect(form.get_by_label("First name")).to_have_value("First")
    form.get_by_label("Location").fill("Lisbon")
    clock.move(minutes=16)
    form.get_by_role("button").click()
    expect(form.get_by_role("status")).to_have_text("Saved.")
    expect(form.get_by_label("Location")).to_have_value("Lisbon")


def test_what_was_typed_outlives_the_session(signed_in, client, log_in):
    """Another device changes the password."""
    it = signed_in()
    it.page.evaluate("document.querySelector('#profile').append(document.createElement('input'))")
    it.page.locator("#profile > input").fill("typed")
    body = {"currentPassword": PASSWORD, "newPassword": NEW_PASSWORD}
    assert client.put("/api/users/password", json=body, headers=log_in(it.user).headers).json[
        "success"
    ]
    it.page.evaluate(
        f"import({API}).then((api) => api.call('GET', 'users/profile')).catch(() => 0)"
    )
    expect(it.page.get_by_text("Your session has ended.")).to_be_visible()
    it.page.locator("#sign-in [name=email]").fill(it.user.username)
    it.page.locator("#sign-in [name=password]").fill(NEW_PASSWORD)
    it.page.locator("#sign-in [name=password]").press("Enter")
    expect(it.page.locator("#profile > input")).to_have_value("typed")


def test_another_users_sign_in_starts_the_page_anew(signed_in, make_user, sign_in):
    page = signed_in().page
    page.evaluate("document.querySelector('#profile').append(document.createElement('input'))")
    other = page.context.new_page()
    other.goto(page.url)
    expect(other.locator("#profile[aria-busy=false]")).to_be_visible()
    other.evaluate("localStorage.clear()")
    page.context.clear_cookies()
    sign_in(other, make_user("somebody"), "account")
    expect(page.locator("header")).to_contain_text("somebody")
    expect(page.locator("#profile > input")).to_have_count(0)


def test_a_refresh_for_another_user_starts_the_page_anew(
    signed_in, make_user, base_url, client, clock
):
    """The cookie has changed without a word, as by another application of the host."""
    page = signed_in().page
    body = {"email": make_user("somebody").email, "password": PASSWORD}
    header = {"X-Refresh-Cookie": "session"}
    login = client.post("/api/auth/login", json=body, headers=header)
    name, value = login.headers["Set-Cookie"].split(";")[0].split("=", 1)
    page.context.add_cookies([{"name": name, "value": value, "url": base_url}])
    clock.move(minutes=16)
    page.evaluate(f"void import({API}).then((api) => api.call('GET', 'users')).catch(() => 0)")
    expect(page.locator("header")).to_contain_text("somebody")


def test_without_a_connection_the_page_says_so_and_goes_on_later(signed_in):
    page = signed_in().page
    page.route("**/api/**", lambda route: route.abort())
    page.reload()
    expect(page.get_by_role("alert")).to_contain_text("did not respond")
    page.unroute("**/api/**")
    page.get_by_role("button", name="Try again").click()
    expect_signed_in(page)
    expect(page.get_by_role("alert").filter(has_text="did not respond")).to_be_hidden()


def test_a_module_that_does_not_come_is_asked_for_again(browser, make_user, sign_in):
    """What it would have filled is not shown empty. (`page` wants no failed request.)"""
    page = sign_in(browser.new_page(), make_user(role="admin"), "admin")
    for home, way, module, part in (
        ("People", page.get_by_role("link", name="API keys"), "keys", "#keys .card >> nth=0"),
        ("People", page.locator("#people-list tbody a"), "person", "#person"),
        (None, page.get_by_role("link", name="My account"), "profile", "#profile .card >> nth=0"),
        *(
            ("Profile", page.get_by_role("link", name=name.title()), name, f"#{name} h2 >> nth=0")
            for name in ("learning", "settings", "security")
        ),
    ):
        part = page.locator(part)
        if home:
            page.get_by_role("link", name=home, exact=True).click()
        page.route(f"**/{module}.js", lambda route: route.abort())
        way.click()
        expect(page.get_by_role("alert").filter(has_text="did not respond")).to_be_visible()
        expect(part).to_be_hidden()
        page.unroute(f"**/{module}.js")
        page.get_by_role("button", name="Try again").click()
        expect(part).to_be_visible()
    page.close()


def test_a_page_is_in_the_users_language_and_colours(signed_in, client, log_in, base_url):
    it = signed_in(language="de-AT")
    expect(it.page.get_by_role("heading", name="Profil")).to_be_visible()
    changes = {"theme": "dark", "language": "ja"}
    client.put("/api/users/settings", json=changes, headers=log_in(it.user).headers)
    it.page.goto(f"{base_url}/account#profile")
    expect(it.page.locator("body")).to_have_css("background-color", "rgb(16, 19, 26)")
    expect(it.page.get_by_role("heading", name="Profile")).to_be_visible()


def test_the_first_field_is_ready_and_learners_land_on_their_learning(page, base_url, make_user):
    page.goto(f"{base_url}/account")
    expect(page.locator("#sign-in [name=email]")).to_be_focused()
    page.keyboard.type(make_user().username)
    page.locator("#sign-in [name=password]").fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Learning", exact=True)).to_be_focused()


def test_mistakes_are_said_at_their_fields_in_the_pages_language(page, base_url):
    """Not in a bubble of the browser, which hides the button and speaks another language."""
    page.goto(f"{base_url}/account?language=fr#sign-up")
    form = page.locator("#sign-up")
    form.get_by_label("Prénom").fill("Ada")
    form.get_by_label("Adresse e-mail").fill("ada")
    form.get_by_role("button", name="Créer mon compte").click()
    expect(form.get_by_label("Nom", exact=True)).to_be_focused()
    said = [each for each in form.locator(".error").all_inner_texts() if each]
    name = "Champ à remplir."
    address = "Adresse e-mail non valable. Vérifiez-la."
    assert said == [name, name, address, name]


def test_too_many_codes_leave_the_recovery_codes(
    page, client, clock, make_user, log_in, sign_in, change_settings
):
    user = make_user()
    phone = authenticator.set_up(client, log_in(user), user, clock)
    sign_in(page, user)
    code = page.locator("#sign-in [name=secondFactor]")
    expect(code).to_be_focused()
    expect(page.get_by_text("I have a code")).to_be_hidden()
    answer = {"success": False, "message": "", "error": {"code": "too_many_requests"}}
    reply = {"status": 429, "headers": {"Retry-After": "90"}, "json": answer}
    page.route("**/auth/login", lambda route: route.fulfill(**reply))
    code.fill(phone.wrong())
    code.press("Enter")
    expect(page.locator("#sign-in [role=alert]")).to_contain_text("a recovery code may work")


def test_the_logo_leads_to_the_page_on_which_it_stands(signed_in):
    page = signed_in("admin#keys", role="admin").page
    expect(page.get_by_role("link", name="API keys")).to_have_attribute("aria-current", "page")
    page.locator("header .site").click()
    expect(page.get_by_role("heading", name="People")).to_be_visible()


def test_times_are_those_of_the_account_whose_zone_is_named(
    browser, sign_in, client, log_in, make_user
):
    context = browser.new_context(timezone_id="America/Lima", locale="en-US")
    user = make_user(timezone="Asia/Kolkata")
    body = {"newEmail": "new@example.org", "password": PASSWORD}
    client.post("/api/users/email", json=body, headers=log_in(user).headers)
    page = sign_in(context.new_page(), user, "account#security")
    until = success(client.get("/api/users/email", headers=log_in(user).headers))["pendingUntil"]
    there = datetime.fromisoformat(until).astimezone(ZoneInfo("Asia/Kolkata"))
    written = f"{there.day} {there:%B %Y} at {there:%H:%M}"
    expect(page.locator("#security-email")).to_contain_text(f"It is valid until {written}.")
    expect(page.locator("#security-happened")).to_have_text(
        re.compile("time zone Asia/(Kolkata|Calcutta)")
    )
    context.close()
