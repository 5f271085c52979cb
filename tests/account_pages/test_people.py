"""Admins and teachers find people at /admin, see why they cannot log in, and help them."""

import re
from datetime import timedelta

import pytest
from helpers import PASSWORD, bearer, crowd, login, success
from playwright.sync_api import expect

from core.clock import utcnow
from database import transaction
from models import Event

pytestmark = pytest.mark.browser


@pytest.fixture
def people(signed_in):
    """Open the list as an admin."""
    return signed_in("admin", username="head", role="admin").page


def expect_list(page, text, rows):
    """Expect this many rows, which are such as `1-100 of 104`."""
    expect(page.locator("#people-form [role=status]")).to_have_text(text.replace("-", "\u2013"))
    expect(page.locator("#people-list tbody tr")).to_have_count(rows)


def open_act(page, button):
    """Choose an act of the menu."""
    page.locator("#person-menu summary").click()
    page.locator("#person-menu").get_by_role("button", name=button).click()


def act(page, button, dialog, **fields):
    """Fill in and send the form of a dialog."""
    open_act(page, button)
    for name, value in fields.items():
        page.locator(f"#act-{dialog} [name={name}]").fill(value)
    page.locator(f"#act-{dialog} form button").first.click()


def expect_news(page, text):
    expect(page.locator("#people-news")).to_have_text(text)
    expect(page.locator("#people-news")).to_be_focused()


def test_an_admin_finds_a_locked_pupil_among_many_and_hands_over_a_new_way_in(
    signed_in, app, client, make_user, change_settings
):
    change_settings(ratelimit_enabled=True)
    lee = make_user("lee", first_name="Lee", last_name="Young")
    crowd(app, 102)
    for _ in range(10):
        login(client, lee.email, "wrong")
    page = signed_in("admin", username="head", role="admin").page
    expect_list(page, "1-100 of 104", 100)
    page.get_by_role("link", name="Next page").click()
    expect_list(page, "101-104 of 104", 4)
    page.reload()
    expect_list(page, "101-104 of 104", 4)
    page.go_back()
    expect_list(page, "1-100 of 104", 100)

    page.locator("#people-search").press_sequentially("LEE YO")
    # Somebody slow has searched for less before.
    expect(page).to_have_url(re.compile(r"#people/search=LEE\+YO$"))
    expect_list(page, "1-1 of 1", 1)
    # No filter finds who is locked; a search shows it.
    badges = page.locator("#people-list tbody .badge:visible")
    expect(badges).to_have_text(re.compile(r"^Locked until \d\d:\d\d$"))
    page.get_by_role("link", name="Lee Young").click()
    expect(page.get_by_role("heading", name="Lee Young")).to_be_focused()
    expect(page.locator("#person-state")).to_contain_text("Too many failed sign-ins")
    page.get_by_role("button", name="Unlock").click()
    expect_news(page, "The account has been unlocked.")
    expect(page.locator("#person-state")).to_have_text("Can sign in.")
    expect(page.get_by_role("button", name="Unlock")).to_be_hidden()

    page.get_by_role("link", name="Access").click()
    page.get_by_label("Show a link, a code and a QR code").check()
    page.get_by_label("The current password stops working").check()
    page.get_by_role("button", name="Create link").click()
    expect_news(page, "The link and the code are ready to hand over.")
    expect(page.locator("#person-access [role=status]")).to_be_empty()  # it is said once
    expect(page.locator("#person")).to_contain_text("Not set")
    assert page.locator("#person-handout .qr").evaluate("image => image.decode()") is None
    page.emulate_media(media="print")
    expect(page.locator("#person .card:visible")).to_have_count(0)
    expect(page.locator("#person .slip")).to_be_visible()
    page.emulate_media(media="screen")
    page.reload()
    expect(page.get_by_role("heading", name="Lee Young")).to_be_visible()
    expect(page.locator("#person-handout")).to_be_empty()
    page.get_by_role("link", name="Back to the list").click()
    page.get_by_label("Status").select_option("Deactivated")
    expect(page.get_by_text("No matches.")).to_be_visible()


def test_a_person_is_shown_with_facts_that_are_there_and_named_in_each_dialog(
    signed_in, app, client, make_user, make_group, change_settings
):
    change_settings(ratelimit_enabled=True)
    lee = make_user("lee", first_name="Lee", last_name="Young")
    for name in ("6a", "6b"):
        make_group(name, lee)
    page = signed_in("admin", username="head", role="admin").page
    for _ in range(2):  # the filter has each group once, also after a return
        page.get_by_role("link", name="Lee Young").click()
        expect(page.get_by_role("heading", name="Lee Young")).to_be_focused()
        page.get_by_role("link", name="Back to the list").click()
        expect(page.locator("#people[aria-busy=false] #people-list")).to_be_visible()
        expect(page.locator("#people-groupId option")).to_have_text(["All", "6a", "6b"])
    page.locator("#people-search").fill("Young, Lee")
    expect_list(page, "1-1 of 1", 1)
    for _ in range(10):
        login(client, lee.email, "wrong")
    page.get_by_role("link", name="Lee Young").click()
    locked = page.locator("#person-state")
    expect(locked).to_have_text(re.compile(r"locked until \d+ \w+ \d{4} at \d\d:\d\d\.$"))
    expect(page.locator("#person-groups a")).to_have_text(["6a", "6b"])
    facts = page.locator("#person dl").get_by_role("term").filter(visible=True)
    expect(facts.filter(has_text=re.compile("Second factor|Language|Time zone"))).to_have_count(0)
    page.get_by_role("button", name="Unlock").click()
    expect(locked).to_have_text("Can sign in.")
    expect(facts.filter(has_text="Locked until")).to_have_count(0)
    for button, dialog in (("Delete the account", "delete"), ("Change the role", "role")):
        open_act(page, button)
        expect(page.locator(f"#act-{dialog} .quiet").first).to_have_text("Lee Young (lee)")
        page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    page.get_by_role("link", name="Access").click()
    page.get_by_label("Show a link, a code and a QR code").check()
    page.get_by_role("button", name="Create link").click()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy the link").click()
    expect(page.get_by_role("button", name="Copied.")).to_be_visible()
    link = page.locator("#person-link").input_value()
    assert page.evaluate("navigator.clipboard.readText()") == link


TOP = "element => element.getBoundingClientRect().top"


def test_a_phone_shows_people_on_its_first_screen_and_the_acts_beside_a_tick(people, app):
    crowd(app, 62)
    people.set_viewport_size({"width": 375, "height": 740})
    people.reload()
    expect_list(people, "1-63 of 63", 63)
    rows, acts = people.locator("#people-list tbody tr"), people.locator("#people-acts")
    assert rows.first.evaluate(TOP) <= 400
    assert max(rows.evaluate_all("rows => rows.map(({ offsetHeight }) => offsetHeight)")) <= 72
    assert people.evaluate("document.documentElement.scrollHeight") <= 5500
    expect(people.locator("#people-list tbody .badge:visible")).to_have_count(0)  # all is well

    rows.nth(55).get_by_role("checkbox").check()
    for width in (375, 1280):
        people.set_viewport_size({"width": width, "height": 740})
        for button in ("Slips with codes", "Move"):
            expect(acts.get_by_role("button", name=button)).to_be_in_viewport(ratio=1)
        rows.nth(55).get_by_role("checkbox").focus()
        for _ in range(14):  # down to the acts, and on
            people.keyboard.press("Tab")
            assert (
                people.evaluate("""() => {
                const { left, top, bottom } = document.activeElement.getBoundingClientRect();
                const at = (y) => document.elementFromPoint(left + 4, y);
                const hidden = (y) => !at(y)?.contains(document.activeElement)
                    && !document.activeElement.contains(at(y));
                const isHidden = hidden(top + 4) || hidden(bottom - 4);
                return isHidden ? document.activeElement.outerHTML : "";
            }""")
                == ""
            )


def test_filters_that_are_folded_on_a_phone_say_what_is_set(people, make_group):
    group = make_group("7b")
    people.set_viewport_size({"width": 375, "height": 740})
    people.goto(f"{people.url.split('#')[0]}#people/groupId={group}&role=student")
    expect(people.get_by_text("Nobody is in this group.")).to_be_hidden()  # who is in another role
    expect(people.get_by_text("Student \u00b7 7b")).to_be_visible()
    expect(people.locator("#people-role")).to_be_hidden()
    people.get_by_role("button", name="Filters 2").click()
    people.locator("#people-role").select_option("All")
    expect(people.get_by_text("Nobody is in this group.")).to_be_visible()


def test_the_table_stays_one_on_a_phone(people):
    """Also for screen readers: each row with its heading, each cell below its own."""
    people.set_viewport_size({"width": 375, "height": 740})
    nodes = people.context.new_cdp_session(people).send("Accessibility.getFullAXTree")["nodes"]
    roles = [node["role"]["value"] for node in nodes if "role" in node and not node["ignored"]]
    counts = {role: roles.count(role) for role in ("table", "columnheader", "rowheader", "row")}
    assert counts == {"table": 1, "columnheader": 6, "rowheader": 1, "row": 2}
    assert len([role for role in roles if role in ("cell", "gridcell")]) == 5


@pytest.mark.parametrize("way", ["back", "link"])
def test_who_comes_back_to_the_list_is_where_it_was_left(people, app, way):
    crowd(app, 62)
    people.goto(f"{people.url.split('#')[0]}#people/sort=-lastLogin&role=student")
    expect_list(people, "1-62 of 62", 62)
    link = people.locator("#people-list tbody a").nth(29)
    link.scroll_into_view_if_needed()
    people.evaluate("scrollBy(0, 200)")  # not where the focus alone would move it
    place, face = people.evaluate("scrollY"), people.locator("#people-list .face").nth(29)
    assert place > 500
    colours = "face => [face.textContent, getComputedStyle(face).backgroundColor]"
    own = face.evaluate(colours)
    assert len({str(each.evaluate(colours)) for each in people.locator(".face:visible").all()}) > 3
    link.click()
    expect(people.locator("#person h1")).to_be_focused()
    assert people.locator("#person .face").evaluate(colours) == own
    if way == "back":
        people.go_back()
    else:
        people.get_by_role("link", name="Back to the list").click()
    expect(link).to_be_focused()
    assert people.evaluate("scrollY") == place


def test_a_list_shows_only_those_chosen(people, app):
    crowd(app, 30)
    people.reload()
    expect_list(people, "1-31 of 31", 31)
    for number in (3, 20):
        people.locator("#people-list tbody input").nth(number).check()
    people.get_by_role("button", name="Show only these").click()
    expect_list(people, "1-2 of 2", 2)
    people.get_by_role("button", name="Show all").click()
    expect_list(people, "1-31 of 31", 31)


def test_an_answer_to_an_older_search_is_dropped(people, make_user):
    make_user("adam")
    make_user("zoe")
    held = []
    people.route("**/api/users?search=adam*", lambda route: held.append(route))
    search = people.locator("#people-search")
    with people.expect_request("**/api/users?search=adam*"):
        search.fill("adam")
    search.fill("zoe")
    search.press("Enter")
    rows = people.locator("#people-list tbody")
    expect(rows).to_contain_text("zoe@example.org")
    with people.expect_event("requestfinished", lambda request: "=adam&" in request.url):
        held[0].continue_()
    # What the answer would do is done before the page is painted again.
    people.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    assert "zoe@example.org" in rows.inner_text()
    expect(people.locator("#people-form")).to_have_attribute("aria-busy", "false")


def test_an_admin_changes_an_account_and_deletes_it(people, client, make_user, make_key):
    lee = make_user("lee", first_name="Lee", timezone="Europe/Kiev", email_verified_at=utcnow())
    url = f"/api/users/{lee.id}/courses/sql"
    course, key = {"name": "Databases", "lessons": 9}, make_key("learning:write")
    success(client.put(url, json=course, headers=bearer(key)), 201)
    people.locator("#people-search").fill("lee@")
    expect_list(people, "1-1 of 1", 1)
    people.get_by_role("link", name="Lee Last").click()
    people.get_by_role("link", name="Learning").click()
    expect(people.get_by_role("heading", name="Learning")).to_be_focused()
    expect(people.locator("#learning-courses")).to_contain_text("Databases")
    act(people, "Edit details", "details", firstName="Leo", username="HEAD")
    field = people.locator("#act-details [name=username]")
    expect(field).to_have_accessible_description(re.compile("Somebody has this username already"))
    field.fill("leo")
    zone = people.locator("#act-details [name=timezone]")
    expect(zone).to_have_value("Europe/Kiev")
    zone.select_option("Kyiv")
    field.press("Enter")
    expect_news(people, "The changes to the account have been saved.")
    expect(people.locator("#person")).to_contain_text("Europe/Kyiv")
    expect(people.get_by_role("heading", name="Leo Last")).to_be_visible()
    act(people, "Change the e-mail", "address", email="leo@example.org")
    expect_news(people, "The e-mail address has been changed.")
    act(people, "Deactivate", "deactivate")
    expect(people.locator("#person-state")).to_contain_text("The account is deactivated.")
    people.get_by_role("link", name="Access").click()
    expect(people.get_by_role("button", name="Create link")).to_be_disabled()
    people.get_by_role("button", name="Activate", exact=True).click()
    expect_news(people, "The account is active again.")

    act(people, "Delete", "delete", confirmation="lee")
    field = people.locator("#act-delete [name=confirmation]")
    expect(field).to_have_accessible_description(re.compile("not the username of this account"))
    field.fill("leo")
    field.press("Enter")
    expect_news(people, "The account leo has been deleted.")
    expect_list(people, "0 people", 0)


@pytest.mark.parametrize(
    ("words", "state"),
    [
        ([], "Can sign in."),
        (
            ["inactive", "email_unverified", "no_password", "unknown_hash"],
            "Cannot sign in. The account is deactivated. The e-mail address is not confirmed, "
            "which this service requires. There is no password: with a link or a code, the person "
            "chooses one. The password was taken over in a form that this service cannot read: "
            "create a link.",
        ),
        (
            ["locked", "second_factor_locked"],
            "Cannot sign in. Too many failed sign-ins: locked until .*2026.*12:05.*. "
            "Too many wrong codes: only recovery codes work.",
        ),
    ],
)
def test_all_that_hinders_a_sign_in_is_said_once(people, make_user, words, state):
    def answer(route):
        account = route.fetch().json()
        account["data"] |= {"hindrances": words, "lockedUntil": "2026-03-01T12:05:00Z"}
        route.fulfill(json=account)

    people.route("**/account", answer)
    people.goto(f"{people.url.split('#')[0]}#people/{make_user('lee').id}")
    expect(people.locator("#person-state")).to_have_text(re.compile(f"^{state}$"))


def test_an_admin_sees_why_somebody_could_not_get_in_yesterday(signed_in, make_user, app):
    lee, head = make_user("lee"), make_user("head", role="admin")
    row = {"user_id": lee.id, "ip_address": "", "details": {}}
    happened = [("account_unlocked", f"key:{lee.id}")] * 229 + [("account_deactivated", head.id)]
    moments = (utcnow() - timedelta(seconds=230 - number) for number in range(230))
    added = [
        Event(**row, type=event, by=by, created_at=moment)
        for (event, by), moment in zip(happened, moments, strict=True)
    ]
    with app.app_context(), transaction() as session:
        session.add_all(added)
    page = signed_in(f"admin#people/{lee.id}/history", username="kim", role="admin").page
    card = page.locator("#person-history")
    rows = card.get_by_role("listitem")
    expect(rows).to_have_count(20)
    expect(card.get_by_text("Nothing is recorded")).to_be_hidden()
    expect(rows.first).to_contain_text("Account deactivated by First Last")
    expect(rows.nth(1).get_by_role("link", name="by another system")).to_be_visible()
    for there, then in ((20, 220), (220, 230)):
        card.get_by_role("button", name="Show earlier").click()
        expect(rows).to_have_count(then)
        expect(rows.nth(there)).to_be_focused()
    expect(card.get_by_role("button")).to_be_hidden()
    rows.first.get_by_role("link").click()
    expect(page.locator("#person")).to_contain_text("head@")
    page.get_by_role("link", name="History").click()
    expect(card.get_by_text("Nothing is recorded")).to_be_visible()


def test_nothing_is_announced_to_somebody_without_a_mailbox(people, make_user):
    lee = make_user("lee", email="lee@no-mail.invalid")
    row = people.locator("#people-list tbody tr").filter(has_text="lee")
    people.reload()
    expect(row).to_contain_text("None")
    row.get_by_role("link").click()
    person = people.locator("#person")
    expect(person.get_by_role("definition").first).to_have_text("None")
    expect(person).not_to_contain_text(lee.email)
    people.get_by_role("link", name="Access").click()
    expect(person.get_by_role("heading", name="Access")).to_be_focused()
    expect(person.get_by_label("Send a link")).to_be_hidden()
    expect(person).not_to_contain_text(re.compile("confirmed", re.I), use_inner_text=True)
    for button in ("Edit details", "Change the e-mail", "Delete the account"):
        open_act(people, button)
        dialog = people.get_by_role("dialog")
        expect(dialog).to_be_visible()
        expect(dialog).not_to_contain_text("get an e-mail", use_inner_text=True)
        dialog.get_by_role("button", name="Cancel").click()
    expect(people.locator("#act-address [name=email]")).to_have_value("")
    person.get_by_role("button", name="Create link").click()
    expect(people.locator("#person-handout .slip")).to_contain_text("lee")


def test_the_name_of_the_person_leads_the_page(people):
    people.locator("#people-list tbody a").click()
    expect(people.get_by_role("heading", name="First Last")).to_be_focused()
    people.get_by_role("link", name="Access").click()
    expect(people.get_by_role("heading", name="Access")).to_be_focused()
    headings = """[...document.querySelectorAll("#people :is(h1, h2)")]
        .filter((each) => each.offsetParent)
        .map((each) => [parseFloat(getComputedStyle(each).fontSize), each.textContent])"""
    first, *others = people.evaluate(headings)
    assert first[1] == "First Last"
    expect(people.get_by_role("heading", level=1)).to_have_text("First Last")
    assert first > max(others)
    people.go_back()
    people.go_back()
    expect(people.get_by_role("heading", name="People")).to_be_in_viewport()


def test_what_was_typed_into_a_dialog_outlives_the_session(people, client, make_user):
    """The dialog does not block the sign-in either."""
    people.goto(f"{people.url.split('#')[0]}#people/{make_user('lee').id}")
    open_act(people, "Edit details")
    field = people.locator("#act-details [name=firstName]")
    field.fill("Leo")
    token = login(client, "head@example.org").json["data"]["accessToken"]
    success(client.delete("/api/auth/sessions", headers=bearer(token)))
    field.press("Enter")
    form = people.locator("#sign-in form")
    form.locator("[name=email]").click()
    form.locator("[name=email]").fill("head")
    form.locator("[name=password]").fill(PASSWORD)
    form.locator("[name=password]").press("Enter")
    open_act(people, "Edit details")
    expect(people.locator("#act-details [role=alert]")).to_be_empty()
    field.press("Enter")
    expect(people.get_by_role("heading", name="Leo Last")).to_be_visible()


def test_a_name_is_shown_as_it_is_and_turns_no_other_text_around(people, make_user):
    name = "<script>alert(1)</script> שרה"
    make_user("sara", first_name="<script>alert(1)</script>", last_name="שרה")
    people.locator("#people-search").fill("script")
    people.get_by_role("link", name=name).click()
    heading = people.get_by_role("heading", name=name)
    expect(heading.locator("bdi")).to_have_text(name)
    expect(people).to_have_title(re.compile(re.escape(name)))


def test_an_admin_sees_what_is_done_to_admins_only_on_the_machine(people):
    people.locator("#people-list tbody a").click()
    people.get_by_role("link", name="Access").click()
    expect(people.get_by_text("flask users access-link head")).to_be_visible()
    expect(people.get_by_role("button", name="Create link")).to_be_hidden()
    people.locator("#person-menu summary").click()
    button = people.get_by_role("button", name="Change the e-mail address")
    expect(button).to_be_disabled()
    expect(button).to_have_accessible_description(re.compile("flask users set-email head"))
    people.get_by_role("button", name="Change the role").click()
    people.go_back()
    expect(people.locator("dialog[open]")).to_have_count(0)


def test_a_teacher_sees_students_and_makes_links_and_nothing_else(
    signed_in, make_user, change_settings
):
    make_user("lee")
    make_user("other", role="instructor")
    page = signed_in("admin", username="kim", role="instructor").page
    expect(page.locator("#no-rights")).to_contain_text("may not manage others")
    change_settings(instructor_rights="students")
    page.reload()
    page.get_by_role("link", name="People").click()
    expect_list(page, "1-1 of 1", 1)
    expect(page.locator("#people-role")).to_be_hidden()
    page.locator("#people-list tbody a").click()
    expect(page.locator("#person :is(h1, h2):visible")).to_have_text(["First Last"])
    ways = page.locator("#person-ways a").filter(visible=True)
    expect(ways).to_have_text(["Overview", "Learning", "Access"])
    expect(page.locator("#person-menu, #person-add").filter(visible=True)).to_have_count(0)


@pytest.mark.parametrize("language", ["de", "fr"])
def test_list_and_account_fit_a_small_screen(signed_in, make_user, language):
    lee = make_user("x" * 32, first_name="y" * 64, email=f"{'z' * 60}@example.org")
    page = signed_in("admin", username="head", role="admin", language=language).page
    page.set_viewport_size({"width": 320, "height": 600})
    expect(page.locator("#people-list tbody tr")).to_have_count(2)
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    page.locator("#people-list tbody a").last.click()
    expect(page.locator("#person")).to_contain_text(lee.email)
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
