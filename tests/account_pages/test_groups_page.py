"""Teachers see the weeks of their groups at /admin; admins make groups, and see who is in them."""

import csv
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
from helpers import bearer, crowd, rows, success, table_in
from playwright.sync_api import expect

from database import transaction
from models import Group, Membership, User
from services import administration

pytestmark = pytest.mark.browser


@pytest.fixture
def deliver(client, make_key):
    """Deliver a lesson of so many minutes, so many days ago."""
    headers = bearer(make_key("learning:write"))

    def deliver(user, days, minutes):
        at = (datetime.now(UTC) - timedelta(days=days)).isoformat()
        url = f"/api/users/{user.id}/courses/sql"
        client.put(url, json={"name": "SQL", "lessons": 9}, headers=headers)
        body = {"minutes": minutes, "completedAt": at}
        success(client.put(f"{url}/lessons/{days}", json=body, headers=headers), 201)

    return deliver


@pytest.fixture
def school(make_user, make_group, change_settings):
    """Kim teaches 7b, in which Mia and Ben learn; Ann, who is elsewhere, is out of reach."""
    change_settings(instructor_rights="groups")
    kim = make_user("kim", role="instructor")
    mia = make_user("mia", first_name="Mia", last_name="Okoro", password_hash="!")
    ben = make_user("ben", first_name="Ben", last_name='=Young "B"')
    gone = make_user("gone", first_name="Gone", is_active=False)
    ann = make_user("ann", first_name="Ann")
    group = make_group("7b", kim, mia, ben, gone)
    return SimpleNamespace(
        kim=kim, mia=mia, ben=ben, ann=ann, group=group, other=make_group("8c", ann)
    )


def cells(row):
    return row.locator("rect").evaluate_all("each => each.map((cell) => cell.classList[0])")


# Groups


def test_a_teacher_sees_the_week_of_a_group_and_then_what_one_has_learned(
    page, sign_in, school, deliver
):
    monday = datetime.now(UTC).weekday()  # days ago
    for days, minutes in ((monday, 90), (monday + 1, 300), (monday + 8, 20)):
        deliver(school.mia, days, minutes)
    sign_in(page, school.kim, "admin")
    expect(page.locator("nav a:visible")).to_have_text(["Groups", "People"])
    # Students, and how many learned nothing last week and in this one.
    expect(page.locator("#groups-list tbody :is(th, td):visible")).to_have_text(
        ["7b", "2", "1", "1"]
    )
    expect(page.get_by_role("button", name="Create the group")).to_be_hidden()
    page.get_by_text("Nothing yet this week").last.click()
    expect(page.locator("#groups-list li:visible")).to_have_text(['7b Ben =Young "B"'])
    page.get_by_role("link", name="7b").click()
    expect(page.get_by_role("heading", name="7b")).to_be_focused()
    lines = page.locator("#groups-week tbody tr")
    week = page.locator("#groups[aria-busy=false]")
    expect(lines.locator("a")).to_have_text(['=Young "B", Ben', "Okoro, Mia"])
    ben, mia = lines.all()
    assert cells(mia) == ["step-4", *["step-0"] * 6]  # Monday to Sunday
    assert cells(ben) == ["step-0"] * 7
    expect(mia.locator(".whole")).to_have_text(["1", "90"])
    expect(ben.locator(".whole")).to_have_text(["\u2013", "\u2013"])
    expect(mia.get_by_role("img", name="1 lesson · 1 hr 30 min")).to_be_visible()
    idle = page.locator("#groups-idle")
    expect(idle).to_have_text('1 of 2 learned nothing: Ben =Young "B".')
    sorting = page.get_by_role("button", name="Minutes")
    for order, first in (("ascending", '=Young "B", Ben'), ("descending", "Okoro, Mia")):
        sorting.click()
        expect(lines.locator("a").first).to_have_text(first)
        expect(page.get_by_role("columnheader", name="Minutes")).to_have_attribute(
            "aria-sort", order
        )
    page.get_by_role("button", name="Name", exact=True).click()
    expect(lines.locator("a").first).to_have_text('=Young "B", Ben')
    expect(page.get_by_role("link", name="Next week")).to_be_hidden()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as CSV").click()
    table = table_in(saved.value)
    assert table[0][:3] == ["Last name", "First name", "Username"]
    assert table[2] == ["Okoro", "Mia", "mia", "90", *["0"] * 6, "1", "90"]
    assert table[1][0] == '\'=Young "B"'
    page.emulate_media(media="print")
    today = f"{datetime.now(UTC):%-d %B %Y}"
    paper = page.locator("#groups-week .paper")
    expect(paper).to_have_text(f"127.0.0.1 · Printed on {today} · Teacher: First Last")
    left_out = page.locator("header, #groups .actions a, #groups .actions button")
    expect(left_out.filter(visible=True)).to_have_count(0)
    expect(page.locator("#groups-week th button")).to_have_text(["Name", "Lessons", "Minutes"])
    for heading in page.locator("#groups-week th button").all():
        expect(heading).to_be_visible()
    # The table begins on the first page, and each page has its headings.
    expect(page.locator("#groups-week")).to_have_css("break-inside", "auto")
    expect(page.locator("#groups-week th").first).to_have_css("position", "static")
    page.emulate_media(media="screen")
    expect(paper).to_be_hidden()
    for way, minutes in (("Previous week", "300"), ("Next week", "90")):
        page.get_by_role("link", name=way).click()
        expect(mia.get_by_role("cell").last).to_have_text(minutes)

    page.get_by_role("link", name="Okoro, Mia").click()
    expect(page.get_by_role("heading", name="Learning")).to_be_focused()
    expect(page.locator("#person-learning")).to_contain_text("3 of 9 lessons completed")
    expect(page.locator("#learning-days rect:not(.step-0)")).to_have_count(3)
    expect(page.locator("#learning-sum")).to_contain_text("Days with lessons: 3 (3")
    page.get_by_text("Completed lessons").click()
    expect(page.locator("#learning-courses ol li")).to_have_count(3)
    page.locator("#person-groups").get_by_role("link", name="7b").click()
    expect(week).to_be_visible()
    idle.get_by_role("link", name='Ben =Young "B"').click()
    expect(page.get_by_text("No courses yet.")).to_be_visible()
    page.goto(f"{page.url.split('#')[0]}#people/{school.ann.id}")
    expect(page.get_by_role("heading", name="Not in your groups")).to_be_focused()
    expect(page.locator("#person-out")).to_contain_text("ask the people who run 127.0.0.1")
    expect(page.locator("#trouble, #person, #people-list").filter(visible=True)).to_have_count(0)
    page.get_by_role("link", name="Back to the list").click()
    page.locator("#people-search").fill("nobody")
    nobody = page.locator("#people-list .empty")
    expect(nobody).to_contain_text("Teachers see the students of their own groups.")
    expect(page.locator("#person-out")).to_be_hidden()


def test_an_admin_reads_nothing_of_own_groups(page, sign_in, make_user, school):
    sign_in(page, make_user("boss", role="admin"), "admin#people/search=nobody")
    nobody = page.locator("#people-list .empty")
    expect(nobody).to_be_visible()
    expect(nobody.get_by_text("own groups")).to_be_hidden()


def test_who_manages_others_and_learns_nothing_comes_to_admin(
    page, sign_in, make_user, school, deliver
):
    deliver(school.ben, 1, 20)
    page.route("**/api/users/progress", lambda route: route.abort(), times=1)  # not known
    for user, at, comes in (
        (school.kim, "account", "/account"),
        (school.kim, "account", "/admin"),
        (school.kim, "account#settings", "/account"),
        (school.ben, "account", "/account"),
    ):
        sign_in(page, user, at)
        expect(page.locator("#sign-out")).to_be_visible()
        assert urlsplit(page.url).path == comes
        page.locator("#sign-out").click()
        expect(page.locator("#sign-in")).to_be_visible()


def test_a_teacher_in_no_group_reads_whom_to_ask(page, sign_in, make_user, make_group, school):
    sign_in(page, make_user("new", role="instructor"), "admin#groups")
    expect(page.get_by_text("You are in no group yet. To be added, ask")).to_be_visible()
    expect(page.get_by_text("There are no groups yet.")).to_be_hidden()


def test_a_second_group_typed_at_once_is_another_one(page, sign_in, make_user, app):
    held = []
    sign_in(page, make_user("head", role="admin"), "admin#groups")
    field = page.get_by_label("Name of a new group")
    expect(page.locator("#groups[aria-busy=false]")).to_be_visible()
    page.route("**/api/groups", lambda route: held.append(route))
    for name in ("7b", "7a"):
        with page.expect_response("**/api/groups/*"):
            field.fill(name)
            field.press("Enter")
        expect(field).to_have_value("")
    for route in held:
        route.continue_()
    expect(page.locator("#groups-list tbody a")).to_have_text(["7a", "7b"])
    assert sorted(group.name for group in rows(app, Group)) == ["7a", "7b"]


def test_a_day_stands_in_the_week_that_it_is_where_students_are(
    browser, sign_in, make_user, make_group, deliver, change_settings
):
    """Kiritimati is 24 hours ahead of Honolulu."""
    change_settings(instructor_rights="groups")
    kim, mia = make_user("kim", role="instructor"), make_user("mia", timezone="Pacific/Kiritimati")
    group = make_group("7b", kim, mia)
    deliver(mia, 0, 5)
    context = browser.new_context(timezone_id="Pacific/Honolulu")
    there = (datetime.now(UTC) + timedelta(hours=14)).date()
    page = sign_in(context.new_page(), kim, f"admin#groups/{group}/{there}")
    expect(page.locator("#groups-week tbody rect").nth(there.weekday())).to_have_class("step-1")
    page.get_by_role("link", name="Previous week").click()
    expect(page.locator("#groups-week tbody rect:not(.step-0)")).to_have_count(0)
    page.evaluate(f"location.hash = 'groups/{group}/{there + timedelta(days=7)}'")
    expect(page.locator("#groups[aria-busy=false] tbody rect.step-0")).to_have_count(7)
    expect(page.locator("#groups-idle")).to_be_hidden()  # a week that has not begun
    context.close()


def test_the_head_sees_the_figures_of_all_groups(
    page, sign_in, make_user, make_group, school, deliver
):
    deliver(school.mia, 7, 5)
    make_group("10a", school.mia, school.ann)
    large = make_group("20", school.ben)
    sign_in(page, make_user("head", role="admin"), "admin#groups")
    lines = page.locator("#groups-list tr:has(td)")
    expect(lines).to_have_text(
        [
            re.compile(rf"\s+{name}\s+{figures}\s*$")
            for name, figures in (
                ("7b", r"2\s+1\s+2"),
                ("8c", r"1\s+1\s+1"),
                ("10a", r"2\s+1\s+2"),
                ("20", r"1\s+1\s+1"),
                ("All", r"3\s+2\s+3"),
            )
        ]
    )
    page.get_by_text("Learned nothing last week").last.click()
    names = page.locator("#groups-list li:visible")
    expect(names).to_have_text(
        ['7b Ben =Young "B"', "8c Ann Last", "10a Ann Last", '20 Ben =Young "B"']
    )
    # One that is too large for the API leaves the others theirs.
    page.route(f"**/api/groups/{large}/days?*", lambda route: route.fulfill(status=400, json={}))
    page.reload()
    expect(lines.nth(3)).to_have_text(re.compile(r"20(\s+\u2013){3}"))
    expect(lines.last).to_have_text(re.compile(r"All\s+≥ 3\s+≥ 2\s+≥ 3"))
    page.get_by_role("link", name="People", exact=True).click()
    groups = page.locator("#people-groupId option")
    expect(groups).to_have_text(["All", "7b", "8c", "10a", "20"])


def test_the_week_on_a_phone_begins_on_the_first_screen(page, sign_in, school):
    page.set_viewport_size({"width": 375, "height": 740})
    sign_in(page, school.kim, f"admin#groups/{school.group}")
    expect(page.locator("#groups-week tbody tr").first).to_be_in_viewport(ratio=1)
    expect(page.locator("#groups-week thead text").first).to_be_in_viewport()  # of Monday
    save = page.get_by_role("button", name="Save as CSV")
    expect(save).to_be_hidden()
    page.get_by_role("button", name="More").click()
    expect(save).to_be_visible()
    page.get_by_role("link", name="Previous week").click()
    expect(page.get_by_role("link", name="Next week")).to_be_visible()
    expect(save).to_be_hidden()


def test_a_week_that_comes_too_late_names_no_other_section(page, sign_in, school):
    sign_in(page, school.kim, "admin#groups")
    held = []
    page.route("**/api/groups/*/days?*", lambda route: held.append(route))
    with page.expect_request("**/api/groups/*/days?*"):
        page.evaluate(f"location.hash = 'groups/{school.group}'")
    page.get_by_role("link", name="People", exact=True).click()
    expect(page.locator("#people[aria-busy=false]")).to_be_visible()
    with page.expect_response("**/api/groups/*/days?*"):
        held[-1].continue_()
    page.evaluate("fetch('/healthz').then((answer) => answer.text())")  # which comes after it
    expect(page).to_have_title("People · 127.0.0.1")


def test_an_admin_makes_renames_and_deletes_groups(page, sign_in, make_user, app):
    page.add_init_script("delete Crypto.prototype.randomUUID")  # as on plain http
    sign_in(page, make_user("head", role="admin"), "admin#groups")
    expect(page.get_by_text("There are no groups yet.")).to_be_visible()
    paste = page.get_by_role("link", name="Paste a class list")
    expect(paste).to_have_attribute("href", "#newcomers")
    field = page.get_by_label("Name of a new group")
    for name in ("7b", "7a"):
        field.fill(name)
        field.press("Enter")
        expect(page.locator("#groups-list [role=status]")).to_have_text("Saved.")
        expect(field).to_be_focused()
    expect(page.locator("#groups-list tbody a")).to_have_count(2)
    field.fill("7B ")
    field.press("Enter")  # a second group of one name is asked about
    expect(field).to_have_accessible_description(re.compile("There is a group of this name"))
    field.fill("")
    expect(page.locator("#groups-list tbody a")).to_have_text(["7a", "7b"])
    page.get_by_role("link", name="7b").click()
    expect(page.get_by_text("This group has no active students.")).to_be_visible()
    page.get_by_role("button", name="Rename the group").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Name")).to_have_value("7b")
    dialog.get_by_label("Name").fill("8b")
    dialog.get_by_label("Name").press("Enter")
    expect(page.get_by_role("heading", name="8b")).to_be_focused()
    page.get_by_role("button", name="Delete the group").click()
    dialog.get_by_role("button", name="Delete the group").click()
    expect(page.get_by_role("heading", name="Groups")).to_be_focused()
    expect(page.locator("#groups-list tbody a")).to_have_text(["7a"])
    assert [group.name for group in rows(app, Group)] == ["7a"]


# People


@pytest.fixture
def people(page, sign_in, make_user, school):
    """The list as an admin, by name."""
    sign_in(page, make_user("head", role="admin", last_name="Zz"), "admin#people/sort=name")
    expect(page.locator("#people-list tbody tr")).to_have_count(6)
    return page


def test_groups_of_a_person_are_changed_on_their_page(people, school, app):
    page = people
    page.get_by_role("link", name="Okoro, Mia").click()
    chips = page.locator("#person-groups a")
    expect(chips).to_have_text(["7b"])
    page.locator("#person-add summary").click()
    page.locator("#person-groupId").select_option("8c")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.locator("#people-news")).to_have_text("Added to 8c.")
    expect(chips).to_have_text(["7b", "8c"])
    page.locator("#person-menu summary").click()
    page.get_by_role("button", name="Change the role").click()
    expect(page.get_by_role("dialog")).to_contain_text("the person leaves all groups: 7b, 8c")
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Take out of 7b").click()
    expect(chips).to_have_text(["8c"])
    assert [row.group_id for row in rows(app, Membership, user_id=school.mia.id)] == [school.other]
    page.locator("#person-menu summary").click()
    page.get_by_role("link", name="Print or save what is kept").click()
    with page.expect_download() as saved:
        page.locator("#person-kept").get_by_role("button", name="Save as a file").click()
    assert saved.value.suggested_filename == "mia.json"
    assert json.loads(Path(saved.value.path()).read_text())["groups"] == ["8c"]


def test_a_list_of_people_is_saved_as_the_filters_show_it(people, school):
    page = people
    by_name = ['=Young "B", Ben', *(f"Last, {name}" for name in ("Ann", "First", "Gone"))]
    by_name += ["Okoro, Mia", "Zz, First"]
    expect(page.locator("#people-list tbody a")).to_have_text(by_name)
    page.get_by_label("Sort by").select_option("Newest first")
    expect(page.locator("#people-list tbody a").first).to_have_text("First Zz")
    page.locator("#people-groupId").select_option("7b")
    expect(page.locator("#people-list tbody tr")).to_have_count(4)
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as CSV").click()
    assert saved.value.suggested_filename == "People-7b.csv"
    head, *lines = table_in(saved.value)
    others = ["Role", "Status", "Last sign-in", "Group"]
    assert head[4:] == ["External number (such as a school ID)", *others]
    mia = ["Okoro", "Mia", "mia", "mia@example.org"]
    assert [*mia, "", "Student", "No password", "", "7b"] in lines
    assert sorted(line[6] for line in lines) == ["Active", "Active", "Deactivated", "No password"]
    assert len(lines) == 4

    def many(route):
        answer = route.fetch().json()
        answer["data"]["total"] = 2001
        route.fulfill(json=answer)

    page.route("**/api/users?*", many)
    page.get_by_role("button", name="Save as CSV").click()
    expect(page.locator("#people-form [role=alert]")).to_contain_text("These are too many people")


@pytest.mark.parametrize("sort", ["Name", "Newest first", "Last sign-in"])
def test_nobody_is_missing_in_a_file_when_somebody_goes_between_two_pages(app, people, sort):
    crowd(app, 100)
    people.get_by_label("Sort by").select_option(sort)
    expect(people.locator("#people-list tbody tr")).to_have_count(100)

    def lose_one(route):
        response = route.fetch()
        first, *_, last = response.json()["data"]["users"]
        with app.app_context(), transaction():
            administration.delete(first["id"])
            administration.alter(last["id"], username="moved", last_name="Aa", first_name="A")
        route.fulfill(response=response)

    people.route("**/api/users?*", lose_one, times=1)
    with people.expect_download() as saved:
        people.get_by_role("button", name="Save as CSV").click()
    _, *lines = table_in(saved.value)
    assert len(lines) == len({line[2] for line in lines}) == 106


def test_who_cannot_sign_in_is_listed_and_saved(people):
    page, names = people, people.locator("#people-list tbody a")
    page.get_by_label("Status").select_option("Deactivated, not confirmed or no password")
    expect(names).to_have_text(["Last, Gone", "Okoro, Mia"])
    page.locator("#people-search").fill("Okoro, Mia")
    expect(names).to_have_text(["Okoro, Mia"])
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as CSV").click()
    _, *lines = table_in(saved.value)
    assert [line[2] for line in lines] == ["mia"]


@pytest.mark.parametrize("sign", "=+-@\uff1d\uff0b\uff0d\uff20")
def test_a_cell_is_no_formula(people, sign):
    """As `flask users import --links` writes it."""
    with people.expect_download() as saved:
        people.evaluate(
            "async (sign) => "
            "(await import('./static/lists.js')).saveTable('x', [[sign, `a${sign}`]])",
            sign,
        )
    assert table_in(saved.value) == [[f"'{sign}", f"a{sign}"]]


@pytest.mark.parametrize("language", ["en", "de"])
def test_a_cell_is_no_formula_for_a_program_that_splits_elsewhere(page, base_url, language):
    page.goto(f"{base_url}/account?language={language}")
    with page.expect_download() as saved:
        page.evaluate(
            "async () => (await import('./static/lists.js'))"
            """.saveTable('x', [["First", "x;=cmd|' /C'!A0;", "y,\uff1d1", "z\\t+1", "3-4"],"""
            """["w; @b", 'v"=2', 'u;"=2']])"""
        )
    text = Path(saved.value.path()).read_text("utf-8-sig")
    for separator in ",;\t":
        for cells in csv.reader(text.splitlines(), delimiter=separator):
            assert not [cell for cell in cells if re.match('[ "]*[=+@\uff1d-]', cell)], separator
    assert "3-4" in text


# What else there is for a school


def test_what_students_may_not_change_is_not_offered(signed_in, change_settings, app):
    change_settings(student_rights="profile")
    page = signed_in().page
    expect(page.get_by_label("About you")).to_be_visible()
    expect(page.locator("#profile .note").first).to_contain_text("ask the people who run")
    expect(page.locator("#profile-firstName, #profile-lastName")).to_have_count(2)
    expect(
        page.get_by_label(re.compile("(First|Last) name|Location")).filter(visible=True)
    ).to_have_count(0)
    page.get_by_label("About you").fill("Lima")
    page.get_by_role("button", name="Save the profile").click()
    expect(page.get_by_text("Saved.")).to_be_visible()
    page.get_by_role("link", name="Security").click()
    expect(page.locator("#security summary:visible")).to_have_text(
        ["Change the password", "Set up"]
    )
    expect(page.locator("#security > .note")).to_contain_text("are managed for you")
    expect(page.get_by_text("others can take the old name")).to_be_hidden()
    expect(page.get_by_role("button", name="Delete my account")).to_be_hidden()
    change_settings(student_rights="all")
    page.reload()
    expect(page.locator("#security summary:visible")).to_have_count(4)
    expect(page.locator("#security > .note")).to_be_hidden()
    expect(page.get_by_role("button", name="Delete my account")).to_be_visible()


def test_an_admin_sets_the_number_of_another_system(people, school, make_user, app):
    make_user("other", external_id="S-1")
    people.get_by_role("link", name="Okoro, Mia").click()
    person = people.locator("#person")
    person.locator("#person-menu summary").click()
    person.get_by_role("button", name="Edit details").click()
    field = people.get_by_label("External number (such as a school ID)")
    field.fill("S-1")
    field.press("Enter")
    expect(field).to_have_accessible_description(re.compile("Another account has this number."))
    field.fill("S-2")
    field.press("Enter")
    expect(person.locator("dd").filter(has_text="S-2")).to_be_visible()
    assert rows(app, User, id=school.mia.id)[0].external_id == "S-2"
