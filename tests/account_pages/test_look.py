"""The look of the account pages: on small screens, with large text, on paper, without scripts."""

import pytest
from helpers import bearer, success
from playwright.sync_api import expect

from core.templates import Templates
from extensions import components

pytestmark = pytest.mark.browser


@pytest.fixture
def phone(page):
    """A page of 320 pixels."""
    page.set_viewport_size({"width": 320, "height": 640})
    return page


def expect_large_text_to_fit(page, *ids):
    page.evaluate("void (document.documentElement.style.fontSize = '200%')")
    for hash in ids:
        page.evaluate(f"location.hash = '{hash}'")
        id = hash.split("/")[0]
        expect(page.locator(f"#{id} :focus")).to_have_count(1)
        expect(page.locator(f"#{id}[aria-busy=true]")).to_have_count(0)
        widths = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert widths == [320, 320], id


def test_large_text_fits_a_small_screen_for_visitors(phone, base_url):
    phone.goto(f"{base_url}/account?language=de")
    expect_large_text_to_fit(phone, "sign-up", "forgot-password", "new-confirmation", "sign-in")
    ways = {"verify-email": "new-confirmation", "reset-password": "forgot-password"}
    for path, again in ways.items():
        phone.goto(f"{base_url}/{path}?language=fr")
        expect(phone.locator("main > section:visible")).to_have_count(1)
        expect_large_text_to_fit(phone, again, "mail-sent", "done")
    expect_large_text_to_fit(phone, "choose-password")
    # Phones zoom into a field whose letters are smaller, and stay zoomed.
    phone.reload()
    sizes = phone.locator("input:not([type=checkbox])").evaluate_all(
        "all => all.map(input => parseFloat(getComputedStyle(input).fontSize))"
    )
    assert min(sizes) >= 16


def test_large_text_fits_a_small_screen_for_users(phone, make_user, sign_in):
    user = make_user("a" * 32, language="de", bio="w" * 90, last_name="b" * 64)
    sign_in(phone, user, "account?language=de")
    expect(phone.locator("#menu")).to_be_visible()
    expect_large_text_to_fit(phone, "learning", "settings", "security", "profile")


def test_large_text_fits_a_small_screen_for_admins(phone, make_user, make_group, sign_in):
    group = make_group("c" * 64, make_user("a" * 32, first_name="b" * 64))
    sign_in(phone, make_user("head", role="admin", language="de"), "admin?language=de")
    expect(phone.locator("#menu")).to_be_visible()
    expect(phone.locator("#people-list tbody tr")).to_have_count(2)
    expect_large_text_to_fit(phone, "groups", f"groups/{group}", "people/sort=name", "newcomers")
    expect_large_text_to_fit(phone, "activity")


def test_paper_shows_the_section_alone_in_black_on_white(signed_in):
    page = signed_in(theme="dark").page
    expect(page.locator("#profile-others strong")).to_have_text("First Last")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(16, 19, 26)"
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    expect(page.locator("#profile-others")).to_be_visible()
    expect(page.locator("header, nav, form:visible, button:visible").first).to_be_hidden()


@pytest.mark.parametrize("path", ["account", "reset-password#token=T", "verify-email#token=T"])
def test_without_scripts_the_page_says_what_it_needs(browser, base_url, path):
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(f"{base_url}/{path}")
    expect(page.locator("noscript p")).to_be_visible()
    expect(page.locator("form:visible, nav:visible")).to_have_count(0)
    page.context.close()


@pytest.mark.parametrize(("at", "role"), [("account", "student"), ("admin", "admin")])
def test_on_a_phone_the_header_is_a_row_with_a_menu(page, make_user, sign_in, at, role):
    page.set_viewport_size({"width": 375, "height": 640})
    sign_in(page, make_user(role=role), at)
    header, menu = page.locator("body > header"), page.get_by_role("button", name="Menu")
    expect(menu).to_have_attribute("aria-expanded", "false")
    assert header.bounding_box()["height"] < 80  # pixels
    expect(header.get_by_role("link")).to_have_count(1)  # the logo
    menu.click()
    ways = header.locator("a, button").filter(visible=True)
    small = ways.all_inner_texts()
    ways.last.click()
    expect(menu).to_have_attribute("aria-expanded", "false")
    page.set_viewport_size({"width": 1280, "height": 640})
    expect(menu).to_be_hidden()
    assert [text for text in small if text != "Menu"] == ways.all_inner_texts()


@pytest.mark.parametrize(
    "at",
    [
        *("account#profile", "account#learning", "account#settings", "account#security"),
        *("admin#groups", "admin#people", "admin#newcomers", "admin#activity", "admin#keys"),
        *("admin#people/{id}", "admin#groups/{group}", "admin#activity/person=head"),
    ],
)
def test_a_reload_waits_for_five_requests_at_most(signed_in, make_group, change_settings, at):
    """One after another: each costs the latency of the line, and what is kept costs nothing."""
    it = signed_in("admin", username="head", role="admin", language="en")
    page, cdp = it.page, it.page.context.new_cdp_session(it.page)
    at = at.format(id=it.user.id, group=make_group("7b", it.user))
    page.goto(f"{page.url.rpartition('/')[0]}/{at}")
    shown = page.locator("main > section:not([hidden])[aria-busy=false]")
    expect(shown).to_have_count(1)
    depths, finished, asked = {}, {0}, set()

    def sent(event):
        if not event["request"]["url"].startswith("data:"):
            depths[event["requestId"]] = max(finished) + 1
            asked.add(event["requestId"])

    def kept(event):
        if event.get("response", {"fromDiskCache": True})["fromDiskCache"]:
            depths[event["requestId"]] = 0
            asked.discard(event["requestId"])

    cdp.on("Network.requestWillBeSent", sent)
    cdp.on("Network.requestServedFromCache", kept)
    cdp.on("Network.responseReceived", kept)
    cdp.on("Network.loadingFinished", lambda event: finished.add(depths.get(event["requestId"], 0)))
    cdp.send("Network.enable")
    # So that what is sent at once is on its way before the first answer comes.
    line = {"offline": False, "latency": 150, "downloadThroughput": -1, "uploadThroughput": -1}
    cdp.send("Network.emulateNetworkConditions", line)
    page.reload()
    page.wait_for_load_state("networkidle")
    expect(shown).to_have_count(1)
    assert 3 <= max(finished) <= 5


def test_a_section_that_loads_keeps_its_place(page, make_user, sign_in):
    """It says at once that it loads, and its cards are there before their contents."""
    sign_in(page, make_user())
    expect(page.locator("#profile[aria-busy=false]")).to_be_visible()
    top = page.locator("#profile h1").bounding_box()["y"]
    held = []
    page.route("**/security.js", lambda route: held.append(route))
    with page.expect_request("**/security.js"):
        page.get_by_role("link", name="Security").click()
    expect(page.locator("#busy")).to_have_text("One moment…")
    assert page.locator("#security h1").bounding_box()["y"] == top
    expect(page.locator("#security .card").first).to_be_visible()
    expect(page.locator("#security .card h2").first).to_be_hidden()
    held[0].continue_()
    expect(page.locator("#security .card h2").first).to_be_visible()
    expect(page.locator("#busy")).to_be_empty()
    assert page.locator("#security h1").bounding_box()["y"] == top


def test_bars_keep_the_places_of_what_a_section_brings(signed_in):
    """Also where no card is known before; who cannot see them hears the status."""
    page = signed_in().page
    held = []
    page.route("**/learning.js", lambda route: held.append(route))
    with page.expect_request("**/learning.js"):
        page.get_by_role("link", name="Learning").click()
    expect(page.locator("#learning")).to_have_attribute("aria-busy", "true")
    bars = "getComputedStyle(document.querySelector('#learning'), '::after')"
    assert "gradient" in page.evaluate(f"{bars}.backgroundImage")
    assert page.evaluate(f"parseFloat({bars}.height)") > 300
    assert page.evaluate(f"{bars}.animationName") == "none"
    expect(page.locator("#busy")).to_have_css("color", "rgba(0, 0, 0, 0)")
    held[0].continue_()
    expect(page.locator("#learning .card:visible")).to_have_count(1)
    assert "gradient" not in page.evaluate(f"{bars}.backgroundImage")


def test_forced_colours_keep_the_current_tab_and_the_drawings(signed_in):
    page = signed_in("admin#people", role="admin").page
    page.emulate_media(forced_colors="active")
    (ground,) = {page.evaluate("getComputedStyle(document.body).backgroundColor")}
    line = "all => all.map(each => getComputedStyle(each).borderBottomColor)"
    assert ground not in page.locator("nav [aria-current]").evaluate_all(line)
    assert {*page.locator("nav a:not([aria-current])").evaluate_all(line)} == {ground}
    drawn = "each => getComputedStyle(each, '::before').backgroundColor"
    search = page.locator("#people-form .actions > :first-child")
    assert search.evaluate(drawn) != search.evaluate(
        "each => getComputedStyle(each).backgroundColor"
    )


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_wide_logo_is_readable_in_the_colours_of_the_user(app, signed_in, tmp_path, theme):
    drawing = "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 400 100'/>"
    for name in ("logo.svg", "logo-dark.svg"):
        (tmp_path / name).write_text(drawing)
    components(app).templates = Templates(tmp_path, "en")
    page = signed_in(theme=theme).page
    logo = page.locator("header .site img:visible")
    expect(logo).to_have_count(1)
    expect(logo).to_have_class(f"in-{theme}")
    box = logo.bounding_box()
    assert (box["width"], box["height"]) == (144, 36)


def test_a_tick_box_is_no_further_from_the_next_than_fields_are(page, base_url):
    page.goto(f"{base_url}/account")
    boxes = page.locator("#sign-in .choice")
    expect(boxes).to_have_count(2)
    first, second = (box.bounding_box() for box in boxes.all())
    assert second["y"] - first["y"] - first["height"] == pytest.approx(0, abs=1)


def test_a_way_back_stands_below_a_form_and_not_at_its_button(page, base_url):
    page.goto(f"{base_url}/account#sign-up")
    button = page.get_by_role("button", name="Create my account").bounding_box()
    way = page.locator("#sign-up > p").last.bounding_box()
    assert way["y"] - button["y"] - button["height"] >= 20


def test_large_text_on_a_certificate_fits_a_phone(
    page, base_url, client, make_user, make_key, log_in
):
    user, headers = make_user(first_name="Ada"), bearer(make_key("learning:write"))
    body = {"courseId": "c", "courseName": "Python"}
    success(client.put(f"/api/users/{user.id}/certificates/c", json=body, headers=headers), 201)
    sharing = {"json": {"shared": True}, "headers": log_in(user).headers}
    code = success(client.put("/api/users/certificates/c", **sharing))["verifyUrl"].rpartition("/")[
        2
    ]
    page.set_viewport_size({"width": 375, "height": 740})
    page.goto(f"{base_url}/certificates/{code}?language=de")
    page.evaluate("void (document.documentElement.style.fontSize = '200%')")
    assert page.evaluate("document.documentElement.scrollWidth") == 375
