"""Admins and teachers find people at /admin, see why they cannot log in, and help them."""

import re
from dataclasses import replace

import pytest
from helpers import NEW_PASSWORD, PASSWORD, bearer, login, success
from playwright.sync_api import expect

from extensions import components

pytestmark = pytest.mark.browser


@pytest.fixture
def set_up(app, base_url):
    """Change settings of the application that serves the pages."""

    def set_up(**changes):
        parts = components(app)
        parts.settings = replace(parts.settings, **changes)

    return set_up


@pytest.fixture
def people(signed_in):
    """Open the list as an admin."""
    return signed_in("admin", username="head", role="admin").page


def expect_list(page, text, rows):
    """Expect this many rows, which are such as `1-20 of 24`."""
    expect(page.locator("#people-form [role=status]")).to_have_text(text.replace("-", "\u2013"))
    expect(page.locator("#people-list tbody tr")).to_have_count(rows)


def act(page, button, dialog, **fields):
    """Fill in and send the form of a dialog."""
    page.locator("#person").get_by_role("button", name=button).click()
    for name, value in fields.items():
        page.locator(f"#act-{dialog} [name={name}]").fill(value)
    page.locator(f"#act-{dialog} form button").first.click()


def expect_news(page, text):
    expect(page.locator("#people-news")).to_have_text(text)
    expect(page.locator("#people-news")).to_be_focused()


def test_an_admin_finds_a_locked_pupil_among_many_and_hands_over_a_new_way_in(
    signed_in, client, make_user, set_up
):
    set_up(ratelimit_enabled=True)
    lee = make_user("lee", first_name="Lee", last_name="Young")
    for number in range(22):
        make_user(f"pupil-{number}")
    for _ in range(10):
        login(client, lee.email, "wrong")
    page = signed_in("admin", username="head", role="admin").page
    expect_list(page, "1-20 of 24", 20)
    page.get_by_role("link", name="Next page").click()
    expect_list(page, "21-24 of 24", 4)
    page.reload()
    expect_list(page, "21-24 of 24", 4)
    page.go_back()
    expect_list(page, "1-20 of 24", 20)

    page.locator("#people-search").press_sequentially("LEE YO")
    expect_list(page, "1-1 of 1", 1)
    assert page.url.endswith("#people/search=LEE+YO")
    page.get_by_role("link", name="Lee Young").click()
    expect(page.get_by_role("heading", name="Lee Young")).to_be_focused()
    expect(page.locator("#person-state")).to_contain_text("Cannot log in before")
    page.get_by_role("button", name="Unlock").click()
    expect_news(page, "The account is unlocked.")
    expect(page.locator("#person-state")).to_have_text("Can log in.")

    page.get_by_label("Show a link, a code and a QR code").check()
    page.get_by_label("The present password stops working").check()
    page.get_by_role("button", name="Make the link").click()
    expect_news(page, "The link and the code are ready to hand over.")
    expect(page.locator("#person-state")).to_contain_text("the account has no password")
    assert page.locator("#person-handout .qr").evaluate("image => image.decode()") is None
    page.emulate_media(media="print")
    expect(page.locator("#person .card:visible")).to_have_count(1)
    page.emulate_media(media="screen")
    code = page.get_by_label("Code", exact=True).and_(page.locator("#person-code")).input_value()
    page.reload()
    expect(page.locator("#person-state")).to_be_visible()
    expect(page.locator("#person-handout")).to_be_empty()
    body = {"account": "lee", "code": code, "newPassword": NEW_PASSWORD}
    success(client.post("/api/auth/reset-password", json=body))

    page.get_by_role("link", name="Back to the list").click()
    page.get_by_label("State").select_option("Deactivated")
    expect(page.get_by_text("Nobody matches.")).to_be_visible()


def test_an_answer_to_an_older_search_is_dropped(people, make_user):
    make_user("adam")
    make_user("zoe")
    held = []
    people.route("**/api/users?search=adam", lambda route: held.append(route))
    search = people.locator("#people-search")
    with people.expect_request("**/api/users?search=adam"):
        search.fill("adam")
    search.fill("zoe")
    search.press("Enter")
    rows = people.locator("#people-list tbody")
    expect(rows).to_contain_text("zoe@example.org")
    with people.expect_event("requestfinished", lambda request: "=adam" in request.url):
        held[0].continue_()
    # What the answer would do is done before the page is painted again.
    people.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    assert "zoe@example.org" in rows.inner_text()
    expect(people.locator("#people-form")).to_have_attribute("aria-busy", "false")


def test_an_admin_changes_an_account_and_deletes_it(people, client, log_in, make_user):
    lee = make_user("lee")
    course = f"/api/users/{lee.id}/courses/maths"
    teacher = log_in(make_user("kim", role="instructor"))
    client.put(course, json={"name": "<b>Maths", "lessons": 3}, headers=teacher.headers)
    people.locator("#people-search").fill("lee@")
    expect_list(people, "1-1 of 1", 1)
    people.locator("#people-list tbody a").click()
    expect(people.locator("#person-courses")).to_have_text("<b>Maths: 0 of 3")

    act(people, "Names, username", "details", firstName="Leo", username="HEAD")
    field = people.locator("#act-details [name=username]")
    expect(field).to_have_accessible_description(re.compile("Somebody has this name already"))
    field.fill("leo")
    field.press("Enter")
    expect_news(people, "The changes to the account are saved.")
    expect(people.get_by_role("heading", name="Leo Last")).to_be_visible()
    act(people, "Change the e-mail address", "address", email="leo@example.org")
    expect_news(people, "The e-mail address is changed.")
    act(people, "Vouch", "vouch")
    expect_news(people, "The address counts as confirmed.")
    people.locator("#person").get_by_role("button", name="Change the role").click()
    people.locator("#act-role [name=role]").select_option("instructor")
    people.locator("#act-role").get_by_role("button", name="Save").click()
    expect_news(people, "The role is changed.")
    act(people, "Deactivate", "deactivate")
    expect(people.locator("#person-state")).to_have_text(re.compile("the account is deactivated"))
    expect(people.get_by_role("button", name="Make the link")).to_be_disabled()
    people.get_by_role("button", name="Activate", exact=True).click()
    expect_news(people, "The account is active again.")
    facts = people.locator("#person dl").first
    for text in ("leo@example.org", "Address confirmed Yes", "Role Teacher"):
        expect(facts).to_contain_text(re.compile(text.replace(" ", r"\s*")))

    act(people, "Delete", "delete", confirmation="lee")
    field = people.locator("#act-delete [name=confirmation]")
    expect(field).to_have_accessible_description("This is not the username of this account.")
    field.fill("leo")
    field.press("Enter")
    expect_news(people, "The account leo is deleted.")
    expect_list(people, "0 people", 0)


def test_what_was_typed_into_a_dialog_outlives_the_session(people, client, make_user):
    """The dialog does not block the sign-in either."""
    people.goto(f"{people.url.split('#')[0]}#people/{make_user('lee').id}")
    people.get_by_role("button", name="Names, username").click()
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
    people.get_by_role("button", name="Names, username").click()
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
    expect(people.get_by_text("flask users access-link head")).to_be_visible()
    expect(people.get_by_role("button", name="Make the link")).to_be_disabled()
    button = people.get_by_role("button", name="Change the e-mail address")
    expect(button).to_be_disabled()
    expect(button).to_have_accessible_description(re.compile("flask users set-email head"))
    people.get_by_role("button", name="Change the role").click()
    people.go_back()
    expect(people.locator("dialog[open]")).to_have_count(0)
    people.go_forward()
    act(people, "Deactivate", "deactivate")
    alert = people.locator("#act-deactivate [role=alert]")
    expect(alert).to_contain_text("the last active admin")


def test_a_teacher_sees_students_and_makes_links_and_nothing_else(signed_in, make_user, set_up):
    make_user("lee")
    make_user("other", role="instructor")
    page = signed_in("admin", username="kim", role="instructor").page
    expect(page.locator("#no-rights")).to_contain_text("may not manage others")
    set_up(instructor_rights="students")
    page.reload()
    expect_list(page, "1-1 of 1", 1)
    expect(page.locator("#people-role")).to_be_hidden()
    page.locator("#people-list tbody a").click()
    expect(page.locator("#person .card:visible h2")).to_have_text(["First Last", "A way in"])
    page.get_by_label("Send a link").check()
    page.get_by_role("button", name="Make the link").click()
    expect_news(page, "A link is on its way to lee@example.org.")


def test_an_admin_whose_role_needs_a_second_factor_is_led_there(signed_in, set_up):
    set_up(require_second_factor="admin")
    page = signed_in("admin", role="admin").page
    page.get_by_role("link", name="Set up a second factor").click()
    expect(page.get_by_role("heading", name="Security")).to_be_visible()


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
