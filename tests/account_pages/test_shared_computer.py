"""A computer that many use: nobody goes on in the account of somebody else."""

import authenticator
import pytest
from applications import STILL_KNOWN
from helpers import NEW_PASSWORD, PASSWORD, soon, success
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


@pytest.fixture
def code(client, admin, make_user):
    """Return the code of a pupil's slip; the pupil is `mia`."""
    mia = make_user("mia", password_hash="!", first_name="Mia")
    url, body = f"/api/users/{mia.id}/access-link", {"deliver": "link"}
    return success(client.post(url, json=body, headers=admin.headers))["code"]


@pytest.fixture
def emma(page, make_user, sign_in):
    """Emma is signed in, and has walked away; return the page."""
    sign_in(page, make_user("emma", first_name="Emma", last_name="Becker"))
    expect(page.locator("#profile[aria-busy=false]")).to_be_visible()
    return page


def choose(page, code, name="mia"):
    page.locator("#link-account").fill(name)
    page.locator("#link-code").fill(code)
    page.locator("#link-newPassword").fill(NEW_PASSWORD)
    page.locator("#link-newPassword").press("Enter")


@pytest.mark.parametrize("is_own", [False, True])
def test_who_has_chosen_a_password_is_signed_in(page, base_url, code, is_own):
    page.goto(f"{base_url}/reset-password")
    page.get_by_label("This is my own device").set_checked(is_own)
    choose(page, code)
    expect(page.locator("header")).to_contain_text("mia")
    expect(page.locator("#learning h1")).to_be_visible()
    (cookie,) = page.context.cookies()
    assert (cookie["expires"] > 0) == is_own


def test_the_second_factor_is_asked_for_after_a_new_password(
    page, base_url, client, admin, make_user, log_in, clock
):
    mia = make_user("mia")
    phone = authenticator.set_up(client, log_in(mia), mia, clock)
    url, body = f"/api/users/{mia.id}/access-link", {"deliver": "link"}
    link = success(client.post(url, json=body, headers=admin.headers))["link"]
    page.goto(f"{base_url}/reset-password#{link.split('#')[1]}")
    page.locator("#link-newPassword").fill(NEW_PASSWORD)
    page.locator("#link-newPassword").press("Enter")
    expect(page.get_by_role("heading", name="Your password is saved")).to_be_visible()
    expect(page.locator("#done [name=password]")).to_be_hidden()
    field = page.locator("#done [name=secondFactor]")
    expect(field).to_be_focused()
    field.fill(phone.code())
    field.press("Enter")
    expect(page.locator("header")).to_contain_text("mia")


def test_a_refused_sign_in_after_a_new_password_leads_to_the_sign_in(page, base_url, code):
    answer = {"success": False, "message": "", "error": {"code": "too_many_requests"}}
    page.route("**/auth/login", lambda route: route.fulfill(status=429, json=answer))
    page.goto(f"{base_url}/reset-password")
    choose(page, code)
    expect(page.get_by_role("heading", name="Your password is saved")).to_be_visible()
    expect(page.locator("#done [role=alert]")).to_contain_text("Too many attempts")
    page.get_by_role("link", name="Back to the sign-in").click()
    expect(page.locator("#sign-in [name=email]")).to_have_value("mia")
    expect(page.locator("#sign-in [name=password]")).to_be_focused()


def test_the_second_child_of_a_tablet_is_not_taken_for_the_first(emma, base_url, code, client):
    page = emma
    page.goto(f"{base_url}/reset-password")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("You are signed in as Emma Becker.")
    dialog.get_by_role("button", name="Sign out and go on").click()
    expect(dialog).to_be_hidden()
    assert page.context.cookies() == []
    choose(page, code)
    expect(page.locator("header")).to_contain_text("mia")
    page.goto(f"{base_url}/account?#sign-in/mia")  # herself
    expect(page.locator("#learning h1")).to_be_visible()
    expect(dialog).to_be_hidden()


def test_a_link_survives_the_sign_out_of_somebody_else(emma, base_url, client, admin, make_user):
    page, lee = emma, make_user("lee", password_hash="!")
    url, body = f"/api/users/{lee.id}/access-link", {"deliver": "link"}
    link = success(client.post(url, json=body, headers=admin.headers))["link"]
    page.goto(f"{base_url}/reset-password#{link.split('#')[1]}")
    page.get_by_role("button", name="Sign out and go on as lee").click()
    expect(page.get_by_text("Account: lee")).to_be_visible()
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_who_is_named_at_the_sign_in_replaces_who_is_signed_in(emma, base_url, make_user):
    page = emma
    make_user("mia")
    for name in ("You-won:-call-0900", "%3Cb%3E", "emma", "EMMA@example.org", ""):
        page.goto(f"{base_url}/account?{name}#sign-in/{name}")
        expect(page.locator("#learning[aria-busy=false]")).to_be_visible()
        expect(page.get_by_role("dialog")).to_be_hidden()
    page.goto(f"{base_url}/account?#sign-in/mia")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("You are signed in as Emma Becker.")
    dialog.get_by_role("button", name="Sign out and go on as mia").click()
    expect(page.locator("#sign-in [name=email]")).to_have_value("mia")
    page.locator("#sign-in [name=password]").fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.locator("header")).to_contain_text("mia")


MINUTE = 60_000
USED = "localStorage['accounts / used']"
UNUSED = "You were signed out after 15 minutes without use."


@pytest.mark.parametrize("how", ["click", "reload", "wake"])
def test_a_device_of_others_is_signed_out_after_a_quarter_of_an_hour(
    page, make_user, sign_in, base_url, how
):
    page.clock.install()
    sign_in(page, make_user("emma"))
    expect(page.locator("#profile[aria-busy=false]")).to_be_visible()
    other = page.context.new_page()
    other.goto(f"{base_url}/account#profile")
    expect(other.locator("#profile-form [name=firstName]")).to_have_value("First")
    for _ in range(3):  # what is used stays, and typing is use
        page.clock.fast_forward(10 * MINUTE)
        page.locator("#profile-form [name=firstName]").press("x")
        used = page.evaluate(USED)
        # What one tab stores, the other one may read some milliseconds later.
        soon(lambda used=used: other.evaluate(USED) == used)
    expect(page.locator("#sign-out")).to_be_visible()
    if how == "wake":
        page.clock.fast_forward(16 * MINUTE)  # the timers run
    else:  # in one task, or a timer may be faster
        page.evaluate(
            """act => {
              localStorage["accounts / used"] -= 960_000;
              if (act === "reload") location.reload();
              else document.querySelector("nav a").click();
            }""",
            how,
        )
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(page.locator("#profile-form [name=firstName]")).not_to_have_value("Firstxxx")
    expect(other.get_by_role("heading", name="Sign in")).to_be_visible()
    assert page.context.cookies() == []
    for tab in (page, other):  # each says why, once
        expect(tab.locator("#ended")).to_contain_text(f"{UNUSED} {STILL_KNOWN}")
        assert tab.evaluate("history.state") is None


@pytest.mark.parametrize("how", ["key", "click", "other tab"])
def test_the_page_asks_for_a_minute_before_it_signs_out(page, make_user, sign_in, base_url, how):
    page.clock.install()
    sign_in(page, make_user("emma"))
    field = page.locator("#profile-form [name=firstName]")
    expect(field).to_have_value("First")
    other = page.context.new_page()
    other.goto(f"{base_url}/account#profile")
    expect(other.locator("#profile-form [name=firstName]")).to_have_value("First")
    field.press("x")
    page.evaluate("location.hash = 'sign-in/mia'")  # a dialog is open already
    expect(page.get_by_role("dialog")).to_contain_text("Sign out and go on as mia")
    page.clock.fast_forward(14 * MINUTE + 10_000)
    asks, asks_there = page.get_by_role("alertdialog"), other.get_by_role("alertdialog")
    expect(asks).to_have_accessible_name("Still there?")
    expect(asks_there).to_be_visible()
    if how == "click":
        asks.get_by_role("button", name="I am still here").click()
    else:
        (page if how == "key" else other).keyboard.press("Enter")
    expect(asks).to_be_hidden()
    expect(asks_there).to_be_hidden()
    page.keyboard.press("Escape")
    expect(page.locator("#other")).to_be_hidden()  # and its button was not pressed before
    page.clock.fast_forward(10 * MINUTE)
    expect(field).to_have_value("xFirst")


def test_slips_that_are_lost_are_said_to_be_lost(page, make_user, sign_in):
    page.clock.install()
    sign_in(page, make_user("boss", role="admin"), "admin#newcomers")
    page.get_by_role("radio", name="A link and a code").check()
    for name in ("First name", "Last name"):
        page.locator("#newcomer").get_by_label(name).fill("Mia")
    page.locator("#newcomer").get_by_label("Has no e-mail address").check()
    page.locator("#newcomer").get_by_role("button").click()
    expect(page.locator(".slip")).to_have_count(1)
    expect(page.get_by_text("Print now: you are signed out")).to_be_visible()
    page.clock.fast_forward(16 * MINUTE)
    expect(page.locator("#ended")).to_contain_text("Slips that were not printed are gone")


CLEAR = "localStorage.clear(); sessionStorage.clear()"


@pytest.mark.parametrize("is_own", [True, False])
def test_a_browser_that_has_forgotten_is_signed_in_for_a_quarter_of_an_hour(
    page, make_user, sign_in, is_own
):
    """Nobody knows any more whose device it is: the cookie ends with the browser, too."""
    page.clock.install()
    sign_in(page, make_user("emma"), own_device=is_own)
    expect(page.locator("#profile[aria-busy=false]")).to_be_visible()
    page.evaluate(CLEAR)
    page.reload()
    expect(page.locator("header")).to_contain_text("emma")
    expect(page.locator("#sign-out")).to_be_visible()
    assert [cookie["expires"] for cookie in page.context.cookies()] == [-1]
    page.clock.fast_forward(16 * MINUTE)
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert page.context.cookies() == []


def test_ones_own_device_stays_signed_in(page, make_user, sign_in):
    page.clock.install()
    sign_in(page, make_user("emma"), own_device=True)
    expect(page.locator("#profile[aria-busy=false]")).to_be_visible()
    page.clock.fast_forward(60 * MINUTE)
    expect(page.get_by_role("alertdialog")).to_be_hidden()
    page.locator("nav a").first.click()
    page.reload()
    expect(page.locator("#sign-out")).to_be_visible()


def test_a_dead_code_leads_to_the_sign_in_with_the_account(page, base_url, code, client):
    body = {"account": "mia", "code": code, "newPassword": PASSWORD}
    success(client.post("/api/auth/reset-password", json=body))
    page.goto(f"{base_url}/reset-password")
    choose(page, code)
    expect(page.locator("#link-code-error")).to_contain_text("Then sign in with that password.")
    page.locator("#choose-password .to-sign-in").click()
    expect(page.locator("#sign-in [name=email]")).to_have_value("mia")


def test_the_colours_of_the_last_user_are_gone(emma):
    page = emma
    page.get_by_role("link", name="Settings").click()
    page.get_by_label("Dark").check()
    expect(page.locator("#settings-theme [role=status]")).to_have_text("Saved.")
    page.locator("#sign-out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(page.locator("#ended")).to_contain_text(STILL_KNOWN)
    expect(page.locator("html")).to_have_attribute("data-theme", "system")
