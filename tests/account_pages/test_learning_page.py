"""What users see of their learning: days, courses, and certificates that they share."""

import re
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from helpers import bearer, success
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

ZONE = "Pacific/Kiritimati"  # 14 hours ahead of UTC


@pytest.fixture
def deliver(client, make_key):
    """Deliver a learning record of a user, as the course system does."""
    headers = bearer(make_key("learning:write"))

    def deliver(user, path, **fields):
        url = f"/api/users/{user.id}/{path}"
        return success(client.put(url, json=fields, headers=headers), 201)

    return deliver


@pytest.fixture
def at_noon(clock):
    """It is noon of a day in Kiritimati, for the service; return the time."""
    noon = datetime.combine(clock.utcnow(), time(12), ZoneInfo(ZONE)) + timedelta(days=1)
    clock.move(seconds=(noon - clock.utcnow()).total_seconds())
    return noon


def learned(deliver, user, now):
    """Complete lessons a minute after midnight, today and 3 and 360 days before."""
    deliver(user, "courses/sql", name="<b>SQL</b>", lessons=4)
    deliver(user, "courses/web", name="The web", lessons=9)
    for days, minutes in ((0, 0), (3, 20), (360, 90)):
        at = datetime.combine(now.date() - timedelta(days=days), time(0, 1), now.tzinfo)
        path = f"courses/sql/lessons/after-{days}"
        deliver(user, path, minutes=minutes, completedAt=at.isoformat())


def test_the_picture_has_the_days_of_the_users_zone(
    page, make_user, sign_in, deliver, client, log_in, at_noon
):
    user = make_user(timezone=ZONE)
    learned(deliver, user, at_noon)
    days = success(client.get("/api/users/progress/days", headers=log_in(user).headers))["days"]
    page.clock.set_fixed_time(at_noon)
    page.set_viewport_size({"width": 390, "height": 780})
    sign_in(page, user, "account#learning")
    filled = page.locator("#learning-days rect:not(.step-0)")
    expect(filled).to_have_count(3)
    drawn = [each.get_attribute("data-date") for each in filled.all()]
    assert drawn == [each["date"] for each in days]
    assert drawn[-1] == at_noon.date().isoformat()
    expect(filled).to_have_class(["step-4", "step-2", re.compile("step-1 today")])
    expect(page.locator("#learning-days .today")).to_have_attribute("data-date", drawn[-1])
    expect(page.locator("#learning-days rect").last).to_be_in_viewport()
    expect(page.locator("#learning-sum")).to_have_text(
        "You learned on 3 days: 3 lessons · 1 hr 50 min."
    )
    said = page.locator("#learning-day")
    page.get_by_role("group", name="Your last 12 months").focus()
    for key in ("ArrowRight", "ArrowLeft", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown"):
        page.keyboard.press(key)
    expect(said).to_contain_text("1 lesson · 20 min")
    page.keyboard.press("ArrowDown")
    expect(said).to_contain_text("no lesson")
    page.get_by_text("Your days as a list").click()
    expect(page.locator("#learning-list li")).to_have_count(3)
    expect(page.locator("#learning-list li").last).to_contain_text("1 lesson · 1 hr 30 min")


def test_a_course_shows_its_lessons(signed_in, deliver, base_url):
    it = signed_in(timezone=ZONE)
    deliver(it.user, "achievements/first", name="First lesson")
    learned(deliver, it.user, datetime.now(ZoneInfo(ZONE)) - timedelta(days=1))
    it.page.goto(f"{base_url}/account#learning")
    figures = it.page.get_by_role("list", name="What you have reached")
    expect(figures).to_contain_text("1 day in a row")
    expect(figures).to_contain_text("3 of 13 lessons completed")
    expect(figures).to_contain_text("1 hr 50 min of learning")
    course = it.page.locator("#learning-courses > li").first
    expect(course.get_by_role("progressbar", name="<b>SQL</b>")).to_have_js_property("value", 3)
    badges = it.page.locator("#learning-courses .badge")
    expect(badges.filter(visible=True)).to_have_count(0)  # no course is completed
    course.get_by_text("Completed lessons").click()
    lessons = course.get_by_role("listitem")
    expect(lessons).to_contain_text(["after-360", "after-3", "after-0"])
    expect(lessons.first).to_contain_text("at 00:01 · 1 hr 30 min")
    expect(it.page.locator("#learning-achievements")).to_contain_text("First lesson")


def test_a_certificate_is_shared_until_its_link_is_dead(signed_in, deliver, base_url):
    it = signed_in()
    about = {"courseId": "sql", "courseName": "SQL", "issuedAt": "2026-01-01T12:00:00Z"}
    deliver(it.user, "certificates/first", **about)
    it.page.goto(f"{base_url}/account#learning")
    card = it.page.locator("#learning-certificates li")
    expect(card).to_contain_text("issued on 1 January 2026")
    switch = card.get_by_role("switch", name="Anybody with the link can check it")
    expect(switch).not_to_be_checked()
    switch.check()
    expect(card.get_by_role("status")).to_contain_text("The link works now.")
    dialog = it.page.get_by_role("dialog", name="Stop sharing this certificate?")
    switch.click()
    dialog.get_by_role("button", name="Cancel").click()
    expect(switch).to_be_checked()
    expect(switch).to_be_focused()
    switch.click()
    dialog.get_by_role("button", name="Stop sharing").click()
    expect(card.get_by_role("status")).to_contain_text("does not work now")
    expect(switch).not_to_be_checked()
    expect(switch).to_be_focused()


def test_a_certificate_is_printed_with_one_click_which_shares_it(signed_in, deliver, base_url):
    it = signed_in()
    about = {"courseId": "sql", "courseName": "SQL", "issuedAt": "2026-01-01T12:00:00Z"}
    deliver(it.user, "certificates/first", **about)
    it.page.context.add_init_script("window.print = () => (document.title = 'printed');")
    it.page.goto(f"{base_url}/account#learning")
    card = it.page.locator("#learning-certificates li")
    switch, said = card.get_by_role("switch"), "makes a link with which anybody can check"
    expect(card).to_contain_text(said, use_inner_text=True)
    for _ in ("not shared", "shared"):
        with it.page.expect_popup() as opened:
            card.get_by_role("button", name="Print").click()
        expect(opened.value).to_have_title("printed")
        assert opened.value.url == card.locator("[name=verifyUrl]").input_value()
        expect(card).not_to_contain_text(said, use_inner_text=True)
    expect(switch).to_be_checked()
    expect(card.get_by_role("button", name="Copy the link")).to_be_visible()


def test_a_lesson_has_its_name(signed_in, deliver, base_url):
    it = signed_in()
    deliver(it.user, "courses/sql", name="SQL", lessons=4)
    deliver(it.user, "courses/sql/lessons/l1", name="Joins <b>", minutes=5)
    deliver(it.user, "courses/sql/lessons/l2", minutes=5)
    it.page.goto(f"{base_url}/account#learning")
    course = it.page.locator("#learning-courses > li").first
    course.get_by_text("Completed lessons").click()
    lessons = course.get_by_role("listitem")
    expect(lessons.filter(has_text="Joins <b>")).to_have_count(1)
    expect(lessons.filter(has_text="l2")).to_have_count(1)


def test_a_new_account_is_shown_a_way_to_begin(signed_in, base_url):
    def in_a_zone_that_this_browser_does_not_know(route):
        days = route.fetch().json()
        days["data"]["timezone"] = "Mars/Base"
        route.fulfill(json=days)

    page = signed_in().page
    page.route("**/progress/days", in_a_zone_that_this_browser_does_not_know)
    page.goto(f"{base_url}/account#learning")
    expect(page.get_by_role("heading", name="No course begun yet")).to_be_visible()
    expect(page.locator("#learning-days")).to_be_hidden()


def test_time_is_said_in_one_form(signed_in, deliver, base_url):
    it = signed_in("account#settings")
    deliver(it.user, "courses/sql", name="SQL", lessons=4)
    at = (datetime.now(ZoneInfo("UTC")) - timedelta(hours=1)).isoformat()
    deliver(it.user, "courses/sql/lessons/one", minutes=303, completedAt=at)
    it.page.get_by_role("link", name="Learning").click()
    for place in (".figures", "#learning-sum", "#learning-courses"):
        expect(it.page.locator(f"#learning {place}")).to_contain_text("5 hr 3 min")
