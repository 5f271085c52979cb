"""Admins read at /admin#activity what was done to all accounts, by days, and save it."""

import re
from datetime import datetime

import pytest
from helpers import success, table_in
from playwright.sync_api import expect

from database import transaction
from models import Event

pytestmark = pytest.mark.browser


def test_the_office_reads_who_changed_what_and_saves_it(
    page, sign_in, make_user, make_group, client, admin
):
    mia = make_user("mia", first_name="Mia", last_name="Okoro")
    path = f"/api/groups/{make_group('8c')}/members/{mia.id}"
    sign_in(page, make_user("head", role="admin"), "admin#keys")
    expect(page.locator("#keys[aria-busy=false]")).to_be_visible()
    success(client.put(path, headers=admin.headers))
    page.get_by_role("link", name="Activity").click()
    first = page.locator("#activity tbody tr").first.locator("th, td")
    said = ["Mia Okoro", "mia", "Added to the group 8c", "First Last"]
    expect(first).to_have_text([re.compile(r"\d\d:\d\d"), *said], use_inner_text=True)
    kinds = page.get_by_label("What").locator("option").all_inner_texts()
    assert kinds == ["All", *sorted(set(kinds) - {"All"})]
    page.get_by_label("What").select_option("Added to the group …")
    expect(page.locator("#activity tbody tr")).to_have_count(1)
    with page.expect_response("**/api/activity"):
        page.get_by_label("What").select_option("All")
    page.get_by_label("Whose account").fill("mia@example.org")
    with page.expect_response("**/api/activity?userId=*"):
        page.get_by_label("Whose account").press("Enter")
    expect(page.locator("#activity tbody tr")).to_have_count(1)
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as CSV").click()
    head, line = table_in(saved.value)
    assert head == ["When", "Name", "Username", "What", "By"]
    assert line[1:] == said
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d", line[0])

    def many(route):
        url = re.sub("&after=[^&]*", "", route.request.url)
        answer = route.fetch(url=url).json()
        answer["data"] = {"events": answer["data"]["events"] * 200, "next": "more"}
        route.fulfill(json=answer)

    page.route("**/api/activity?*", many)
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as CSV").click()
    assert len(table_in(saved.value)) == 1 + 2000
    expect(page.locator("#activity [role=alert]")).to_contain_text("only the latest 2,000 events")
    page.unroute("**/api/activity?*")
    page.get_by_label("Whose account").fill("somebody")
    page.get_by_label("Whose account").press("Enter")
    field = page.get_by_label("Whose account")
    expect(field).to_have_accessible_description(re.compile("fits nobody, or several people"))
    expect(page.locator("#activity tbody tr")).to_have_count(0)  # those of the question before
    field.fill("okoro")
    field.press("Enter")
    expect(page.locator("#activity tbody tr")).to_have_count(1)


@pytest.fixture
def happen(app):
    """Let an event of a type happen to a user at a time."""

    def happen(user, at, type, number=0):
        milliseconds = int(datetime.fromisoformat(at).timestamp() * 1000)
        digits = f"{milliseconds:012x}"
        with app.app_context(), transaction() as session:
            session.add(
                Event(
                    id=f"{digits[:8]}-{digits[8:]}-7{number:03x}-8000-000000000000",
                    created_at=datetime.fromisoformat(at),
                    **{"user_id": user.id, "type": type, "by": "", "ip_address": "", "details": {}},
                )
            )

    return happen


def test_days_begin_in_the_zone_of_the_account(page, sign_in, make_user, happen):
    """On the day on which clocks in New York go forward."""
    head = make_user("head", role="admin", timezone="America/New_York")
    happen(head, "2026-03-08T04:59:59.999Z", "registered")
    happen(head, "2026-03-08T05:00:00.000Z", "email_verified")
    happen(head, "2026-03-09T03:59:59.999Z", "names_changed")
    happen(head, "2026-03-09T04:00:00.000Z", "username_changed")
    at = "type=&person=&by=&from=2026-03-08&to=2026-03-08"
    sign_in(page, head, f"admin#activity/{at}")
    acts = page.locator("#activity tbody td:nth-child(4)")
    expect(acts).to_have_text(["Name changed", "E-mail address confirmed"])
    expect(page.get_by_label("First day")).to_have_value("2026-03-08")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as CSV").click()
    assert [line[0] for line in table_in(saved.value)[1:]] == [
        "2026-03-08 23:59",
        "2026-03-08 00:00",
    ]
    page.get_by_label("First day").fill("")
    expect(acts).to_have_text(["Name changed", "E-mail address confirmed", "Signed up"])
    page.get_by_label("Last day").fill("2026-03-07")
    expect(acts).to_have_text(["Signed up"])
    assert page.url.endswith("#activity/to=2026-03-07")
    page.get_by_label("First day").fill("2026-03-08")
    expect(page.get_by_text("Nothing is recorded that fits")).to_be_visible()


def test_earlier_events_are_offered_where_the_days_have_some(page, sign_in, make_user, happen):
    head = make_user("head", role="admin")
    happen(head, "2026-03-07T12:00:00Z", "registered")
    for number in range(201):
        happen(head, "2026-03-08T12:00:00Z", "names_changed", number)
    sign_in(page, head, "admin#activity/to=2026-03-08")
    lines = page.locator("#activity tbody tr")
    more = page.get_by_role("button", name="Show earlier")
    expect(lines).to_have_count(200)
    more.click()
    expect(lines).to_have_count(202)
    expect(lines.nth(200)).to_be_focused()
    expect(more).to_be_hidden()
    page.get_by_label("First day").fill("2026-03-08")
    expect(lines).to_have_count(200)
    more.click()
    expect(lines).to_have_count(201)
    expect(more).to_be_hidden()


def test_equal_acts_of_a_minute_are_one_line(
    page, sign_in, make_user, make_group, client, admin, clock
):
    people = [make_user(f"pupil{n}", first_name=f"Pupil{n}") for n in range(30)]
    body = {"add": [user.id for user in people]}
    for name in ("7b", "8c"):
        url = f"/api/groups/{make_group(name)}/members"
        success(client.post(url, json=body, headers=admin.headers))
    success(client.post(url, json={"remove": body["add"]}, headers=admin.headers))
    clock.move(minutes=1)
    success(client.post(url, json=body, headers=admin.headers))
    sign_in(page, make_user("head", role="admin"), "admin#activity/type=group_joined")
    lines = page.locator("#activity tbody tr")
    acts = [f"30 people.*Added to the group {name}" for name in ("8c", "8c", "7b")]
    expect(lines).to_have_text([re.compile(act, re.S) for act in acts])
    lines.first.get_by_text("30 people").click()
    expect(lines.first.get_by_role("link", name="Pupil7 Last")).to_be_visible()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as CSV").click()
    assert len(table_in(saved.value)) == 1 + 90
