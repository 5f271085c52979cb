"""Sign in with a provider, and link one: through the provider's own page and back."""

import re

import authenticator
import pytest
from helpers import NEW_PASSWORD, PASSWORD, rows, token_in
from playwright.sync_api import expect

from models import User

pytestmark = pytest.mark.browser
PUPIL = "pupil@school.example"
LINK = "Link School login"
HIDE = """Object.defineProperty(document, "hidden", { value: true });
document.dispatchEvent(new Event("visibilitychange"));"""


@pytest.fixture(autouse=True)
def school(base_url, connect, provider):
    """Connect with settings of the test's own; the provider asks people on a page."""
    provider.has_page = True

    def school(**environ):
        connect(**{"PUBLIC_URL": base_url, "OIDC_SCHOOL_LABEL": "School login", **environ})

    school()
    return school


@pytest.fixture
def origins(base_url, provider):
    return [base_url, provider.issuer]


@pytest.fixture
def go(page, base_url):
    """Press the button for the provider, then one of its page; return the page."""

    def go(button="Continue with School login", at="account", answer="continue"):
        if at:
            page.goto(f"{base_url}/{at}")
        page.get_by_role("button", name=button).filter(visible=True).click()
        expect(page).to_have_title("School login")
        if answer:
            page.get_by_role("button", name=answer).click()
            page.wait_for_url(f"{base_url}/**")
        return page

    return go


def expect_signed_in(page, name="pupil"):
    expect(page.locator("header")).to_contain_text(name)
    expect(page.locator("#sign-out")).to_be_visible()
    # Nothing of the walk is left in the tab, or in an entry of its history.
    kept = "JSON.stringify([{...sessionStorage}, {...localStorage}, history.state])"
    entries = page.context.new_cdp_session(page).send("Page.getNavigationHistory")["entries"]
    assert "verifier" not in page.evaluate(kept)
    assert not [each["url"] for each in entries if re.search("#.*code=", each["url"])]


def expect_alert(page, text):
    expect(page.get_by_role("alert").filter(has_text=text, visible=True)).to_be_visible()


def enter_password(page, form, password=PASSWORD):
    page.locator(form).locator("[name=password]").fill(password)
    page.keyboard.press("Enter")


def test_the_buttons_are_in_the_page_as_delivered(client):
    html = client.get("/account").text
    assert html.count('<button class="plain" name="school" value="School login">') == 3


def test_somebody_signs_up_and_out_and_in_again_by_keyboard(page, go, school, base_url):
    """The sign-out on a device of others says where somebody may still be signed in."""
    work = {"OIDC_WORK_ISSUER": "https://work.example", "OIDC_WORK_CLIENT_ID": "x"}
    work |= {"OIDC_WORK_CLIENT_SECRET": "x", "OIDC_WORK_LABEL": "Work"}
    school(REGISTRATION="providers", OIDC_PROVIDERS="school,work", **work)
    page.goto(f"{base_url}/account#sign-up")
    expect(page.locator("#sign-up[aria-busy=false]")).to_be_visible()
    rest = page.locator("#sign-up :is(input, #sign-up-closed)")
    expect(rest.filter(visible=True)).to_have_count(0)
    expect_signed_in(go(at=None))
    (cookie,) = page.context.cookies(base_url)
    assert cookie["expires"] == -1
    page.locator("#sign-out").click()
    note = page.locator("#signed-out .note")
    expect(note).to_have_text(re.compile("where you may still be signed in: School login$"))
    page.locator("#signed-out a").click()
    page.get_by_label("This is my own device").focus()
    for key in ("Space", "Tab", "Tab", "Enter"):  # past the button of the form
        page.keyboard.press(key)
    expect(page).to_have_title("School login")
    page.get_by_role("button", name="continue").press("Enter")
    expect_signed_in(page)
    (cookie,) = page.context.cookies(base_url)
    assert cookie["expires"] > 0
    page.locator("#sign-out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_a_second_factor_is_asked_for_as_at_a_login(
    page, go, client, clock, make_user, log_in, provider
):
    user = make_user("pupil", identity=f"{provider.issuer} subject-1")
    phone = authenticator.set_up(client, log_in(user), user, clock)
    go()
    code = page.locator("#sign-in [name=secondFactor]")
    expect(code).to_be_focused()
    expect(page.locator("#sign-in [name=password]")).to_be_hidden()
    code.fill(phone.wrong())
    code.press("Enter")
    expect(code).to_have_accessible_description(re.compile("This code is wrong"))
    code.fill(phone.code())
    code.press("Enter")
    expect_signed_in(page)


def test_who_says_no_or_goes_back_begins_again(page, go, provider, clock):
    go(answer="cancel")
    expect_alert(page, "was cancelled")
    expect(page.locator("#sign-in [name=password]")).to_be_visible()
    go(at=None, answer=None)
    page.go_back()
    provider.secret = b"of nobody"
    go(at=None)
    expect_alert(page, "could not tell us")
    provider.secret = None
    page.route("**/auth/login", lambda route: (clock.move(minutes=11), route.continue_()))
    go(at=None)
    expect_alert(page, "took too long")
    page.unroute("**/auth/login")
    expect_signed_in(go(at=None))


@pytest.mark.asvs("7.6.2")
def test_a_code_that_nobody_asked_for_here_is_dropped(page, go, base_url, make_user, sign_in):
    """It was asked for in another tab, by somebody else, or in another account."""
    theirs = f"{base_url}/account#provider=school&code=theirs"
    page.goto(theirs)
    expect_alert(page, "did not begin here")
    assert page.url == f"{base_url}/account"
    go(at=None, answer=None)
    other = page.context.new_page()
    for name in ("one", "another"):
        sign_in(other, make_user(name), "account#security")
        expect_signed_in(other, name)
        page.get_by_role("button", name="continue").click()
        expect(page.locator("#learning h1")).to_be_visible()
        expect_signed_in(page, name)
        page.goto(theirs.replace("account", "account?"))
        expect_signed_in(page, name)
        expect(page.get_by_role("alert").filter(has_text=re.compile("."))).to_have_count(0)
        go(LINK, at="account?#security", answer=None)
        other.locator("#sign-out").click()
        expect(other.locator("#sign-in")).to_be_visible()


BOTH = f"Sign in and link School login ({PUPIL})"


def test_a_link_with_a_code_shows_the_sign_in_where_storage_is_blocked(page, base_url):
    page.add_init_script(
        """for (const name of ["localStorage", "sessionStorage"])
             Object.defineProperty(window, name, { get() { throw new Error("blocked"); } });"""
    )
    page.goto(f"{base_url}/account#provider=school&code=forged")
    expect_alert(page, "did not begin here")
    assert page.url == f"{base_url}/account"


@pytest.mark.parametrize(
    ("registration", "said"),
    [("open", "There is an account with the address"), ("closed", "is not linked to an account")],
)
def test_only_the_button_that_names_the_address_links(
    page, go, school, make_user, registration, said
):
    """The next person at a shared computer presses Enter, as ever."""
    school(REGISTRATION=registration)
    make_user("pupil", email=PUPIL)
    make_user("mia")
    sent = []
    page.on("request", lambda it: "auth/login" in it.url and sent.append(it.post_data_json))
    go()
    expect(page.locator("#ended")).to_contain_text(said)
    expect(page.locator("#sign-in [name=email]")).to_be_focused()
    page.keyboard.type("mia")
    enter_password(page, "#sign-in", "wrong")
    expect_alert(page, "password is wrong")
    enter_password(page, "#sign-in")
    expect_signed_in(page, "mia")
    assert ["provider" in body for body in sent] == [True, False, False]
    page.goto(f"{page.url.split('#')[0]}?#security")
    expect(page.get_by_role("button", name=LINK)).to_be_visible()
    page.locator("#sign-out").click()
    expect(page.locator("#sign-in")).to_be_visible()

    go()
    page.locator("#sign-in [name=email]").fill("pupil")
    page.locator("#sign-in [name=password]").fill(PASSWORD)
    page.get_by_role("button", name=BOTH).click()
    expect_signed_in(page)
    expect(page.get_by_text("School login is now linked to your account.")).to_be_visible()
    page.locator("#sign-out").click()
    expect(page.locator("#signed-out")).to_be_visible()
    expect_signed_in(go())


def test_a_code_that_waits_for_a_password_is_dropped_soon(page, go, make_user, base_url):
    """After two minutes, or when the page was hidden."""
    make_user("pupil", email=PUPIL)
    both = page.get_by_role("button", name=BOTH)
    page.clock.install()
    go()
    expect(both).to_be_visible()
    page.clock.fast_forward(121_000)
    expect(both).to_be_hidden()
    go()
    expect(both).to_be_visible()
    page.evaluate(HIDE)
    expect(both).to_be_hidden()
    page.locator("#sign-in [name=email]").fill("pupil")
    with page.expect_request("**/auth/login") as sent:
        enter_password(page, "#sign-in")
    assert "provider" not in sent.value.post_data_json
    expect_signed_in(page)


def test_an_address_that_nobody_proved_is_not_offered(page, go, make_user, provider):
    make_user("pupil", email=PUPIL)
    provider.person = {**provider.person, "email_verified": False}
    go()
    expect(page.locator("#ended")).to_contain_text("There is an account with the address")
    expect(page.locator("#sign-in-link")).to_be_hidden()


def test_an_account_with_another_link_stays_as_it_is(page, go, make_user, provider):
    make_user("pupil", identity=f"{provider.issuer} subject-2", email=PUPIL)
    go()
    page.locator("#sign-in [name=email]").fill("pupil")
    page.locator("#sign-in [name=password]").fill(PASSWORD)
    page.get_by_role("button", name=BOTH).click()
    expect_alert(page, "Nothing was linked")
    enter_password(page, "#sign-in")
    expect_signed_in(page)


def test_the_way_to_the_provider_is_asked_for_once(page, base_url):
    held = []
    page.route("**/school/start", lambda route: held.append(route))
    page.goto(f"{base_url}/account")
    form = page.locator("#sign-in .providers")
    button = form.get_by_role("button")
    with page.expect_request("**/school/start"):
        button.press("Enter")
    expect(form).to_have_attribute("aria-busy", "true")
    button.press("Enter")
    expect(button).to_have_attribute("aria-disabled", "true")
    assert len(held) == 1
    held[0].abort()


def test_who_signs_up_with_a_provider_has_the_days_of_the_browser(browser, base_url, app):
    context = browser.new_context(timezone_id="Europe/London")
    page = context.new_page()
    page.goto(f"{base_url}/account")
    page.get_by_role("button", name="Continue with School login").first.click()
    page.get_by_role("button", name="continue").click(no_wait_after=True)
    expect(page.locator("#sign-out")).to_be_visible()
    (user,) = rows(app, User)
    assert user.timezone == "Europe/London"
    context.close()


def test_a_link_lasts_until_the_next_password(page, go, sign_in, make_user):
    """Not even the reload in the language of the account loses the code."""
    sign_in(page, make_user("pupil", language="de"), "account#security", own_device=True)
    expect(page.get_by_role("heading", name="Sicherheit")).to_be_visible()
    calls = []
    page.on("request", lambda request: calls.append(request.url))
    go("School login verknüpfen", at=None)
    linking = f"To link School login ({PUPIL}) with the account pupil, enter the password of pupil."
    expect(page.locator("#security-link .note")).to_have_text(linking)
    expect(page.locator("#security-link [name=password]")).to_be_focused()
    enter_password(page, "#security-link", "wrong")
    alert = page.locator("#security-link [role=alert]")
    expect(alert).to_have_text("The password is wrong. Enter it again.")
    enter_password(page, "#security-link")
    expect(page.get_by_role("heading", name="Sicherheit")).to_be_visible()
    ways = page.locator("#security-ways li").filter(visible=True)
    expect(ways).to_have_text(["Passwort", "School login"])
    expect(page.locator("#security-happened")).to_contain_text("verknüpft (School login)")
    expect(page.locator("#security-sessions tr")).to_have_count(1)
    assert len([url for url in calls if url.endswith("/auth/login")]) == 2  # failed ones count
    assert page.context.cookies()[0]["expires"] > 0
    expect_signed_in(page)
    page.locator("summary", has_text="Passwort ändern").click()
    page.locator("[name=currentPassword]").fill(PASSWORD)
    page.locator("[name=newPassword]").fill(NEW_PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="School login verknüpfen")).to_be_visible()


def test_the_card_names_no_address_that_nobody_proved(page, go, sign_in, make_user, provider):
    provider.person = {**provider.person, "email": "mia@school.example", "email_verified": False}
    sign_in(page, make_user("mia"), "account#security")
    go(LINK, at=None)
    expect(page.locator("#security-link .note")).to_contain_text("confirms no address")
    expect(page.locator("#security-link")).not_to_contain_text("@")


@pytest.mark.parametrize("how", ["late", "hidden"])
def test_the_card_waits_for_the_password_of_who_has_come_back(page, go, sign_in, make_user, how):
    """Somebody else may sit at the device by then."""
    sign_in(page, make_user("mia"), "account#security")
    expect(page.get_by_role("button", name=LINK)).to_be_visible()
    page.clock.install()
    go(LINK, at=None)
    form = page.locator("#security-link")
    expect(form).to_contain_text(PUPIL)
    expect(page.locator("#security[aria-busy=false]")).to_be_visible()  # no call is under way
    if how == "late":
        page.clock.fast_forward(121_000)
    else:
        page.evaluate(HIDE)
    expect(form).to_be_hidden()
    expect_alert(page, "took too long")
    with page.expect_request("**/auth/login") as sent:
        page.evaluate(
            """password => {
              const form = document.getElementById("security-link");
              form.elements.password.value = password;
              form.requestSubmit();
            }""",
            PASSWORD,
        )
    assert "provider" not in sent.value.post_data_json


def test_who_has_no_password_gets_one_by_mail(page, go, outbox, base_url):
    """One button, which says what it ends, in place of all forms that ask for it."""
    expect_signed_in(go())
    page.goto(f"{base_url}/account?#security")
    ways = page.locator("#security-ways li").filter(visible=True)
    expect(ways).to_have_text(["School login"])
    expect(page.locator("#security-happened")).to_contain_text("Signed up (School login)")
    forms = page.locator("#security :is(summary, [data-opens], [type=password])")
    expect(forms.filter(visible=True)).to_have_count(0)
    ways = page.locator("#security").get_by_role("button", name="Choose a password by e-mail")
    expect(ways.filter(visible=True)).to_have_count(1)
    expect(page.locator("#security form.mail")).to_contain_text("That ends this link")
    ways.click()
    expect(page.get_by_text("ends the link with the provider")).to_be_visible()
    page.context.clear_cookies()
    page.goto(f"{base_url}/reset-password#token={token_in(outbox.deliver()[-1])}")
    page.locator("[name=newPassword]").fill(NEW_PASSWORD)
    expect(page.locator("#choose-password")).to_contain_text("ends the link to a provider")
    page.keyboard.press("Enter")
    expect(page.locator("#learning h1")).to_be_visible()
    page.get_by_role("link", name="Security").click()
    expect(page.get_by_role("button", name=LINK)).to_be_visible()
    expect(forms.filter(visible=True).first).to_be_visible()
    expect(ways.filter(visible=True)).to_have_count(0)


def test_without_https_the_button_says_what_is_missing(page, base_url):
    page.add_init_script("Object.defineProperty(crypto, 'subtle', {value: undefined})")
    page.goto(f"{base_url}/account")
    page.get_by_role("button", name="Continue with School login").click()
    expect_alert(page, "Open the page with https")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("School login", "Can sign in. Signs in with School login."),
        ("https://gone.example", "Cannot sign in. There is no password"),
    ],
)
def test_an_admin_sees_who_signs_in_with_a_provider(page, make_user, sign_in, provider, name, said):
    issuer = provider.issuer if name == "School login" else name
    pupil = make_user("pupil", identity=f"{issuer} subject-1", password_hash="!")
    sign_in(page, make_user("head", role="admin"), f"admin#people/{pupil.id}")
    expect(page.locator("#person-state")).to_contain_text(said)
    expect(page.locator("#person [data-text=provider]")).to_have_text(name)


def test_large_text_fits_a_small_screen(page, go, school, base_url):
    school(OIDC_SCHOOL_LABEL="Anmeldung der Gesamtschulen")
    large = "() => document.documentElement.style.fontSize = '200%'"
    page.add_init_script(f"addEventListener('DOMContentLoaded', {large})")
    page.set_viewport_size({"width": 320, "height": 640})
    page.goto(f"{base_url}/account?language=de")
    expect(page.locator("#sign-in")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 320
    go("Anmeldung der Gesamtschulen", at=None)
    expect(page.locator("#menu")).to_be_visible()
    page.goto(f"{base_url}/account?language=de#security")
    expect(page.locator("#security-ways [data-text=linked]")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 320
