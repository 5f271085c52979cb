"""Acts for many people at /admin: what the page sends, says and leaves chosen, and Undo.

What the calls do is shown in the tests of the calls.
"""

import re
from types import SimpleNamespace

import pytest
from helpers import PASSWORD, alter, answer, crowd, execute, lose, rows, soon
from playwright.sync_api import Route, expect
from sqlalchemy import delete

from models import Group, Membership, User

pytestmark = pytest.mark.browser
CHANGES = re.compile("/api/(groups/[^/]+/members|users|users/access-links)$")
LOST = "Sessions, links and codes from before stay lost."


@pytest.fixture
def story(page, sign_in, make_user, make_group, app):
    """An admin sees 7b, where Kim teaches Ann, Ben and Cid. `plan` has the fates of the next calls;
    `sent` has those that came through.
    """
    head, _ = (make_user(name, last_name=name, role="admin") for name in ("head", "deputy"))
    kim = make_user("kim", first_name="Kim", role="instructor")
    pupils = [make_user(name, first_name=name.title()) for name in ("ann", "ben", "cid")]
    b7, c8, _ = groups = [make_group("7b", kim, *pupils), make_group("8c"), make_group("9a")]
    sign_in(page, head, f"admin#people/groupId={b7}&sort=name")
    expect(page.locator("#people-list tbody tr")).to_have_count(4)
    ids = sorted(user.id for user in pupils)
    plan, sent, dialog = [], [], page.locator("#many")
    button, alert = dialog.locator("form button").first, dialog.get_by_role("alert")
    into, leaving = dialog.get_by_label("Into the group"), dialog.get_by_label("Out of the group")
    news, count = page.locator("#people-done"), page.locator("#people-chosen")
    failed = page.locator("#people-failures li")
    everybody = page.get_by_label("All on this page")

    def handle(call):
        request = call.request
        if request.method == "GET":
            return call.continue_()
        if plan:
            return plan.pop(0)(call)
        body = request.post_data_json
        for name in body.keys() & {"ids", "add", "remove"}:
            body[name].sort()
        sent.append((request.method, request.url.split("/api/")[1], body))
        return call.continue_()

    def begin(act):
        page.locator("#people-acts").get_by_role("button", name=act, exact=True).click()

    def send(act, *fates):
        plan[:] = fates
        begin(act)
        if act in ("Add to a group", "Move"):
            into.select_option("8c")
        expect(dialog.locator("form:not([aria-busy=true])")).to_be_visible()
        button.click()

    def state():
        return rows(app, Membership), [user.is_active for user in rows(app, User)]

    def remove(model, row):
        return lambda call: (execute(app, delete(model).where(model.id == row)), call.continue_())

    page.route(CHANGES, handle)
    return SimpleNamespace(**locals())


def test_an_act_is_one_call_and_its_undo_is_that_call_turned_round(story):
    old, new = (f"groups/{group}/members" for group in (story.b7, story.c8))
    ids, before = story.ids, story.state()
    put, taken = ("POST", new, {"add": ids}), ("POST", old, {"remove": ids})
    out = ("POST", new, {"add": [], "remove": ids})
    back = ("POST", old, {"add": ids, "remove": []})
    off, on = (("PATCH", "users", {"ids": ids, "isActive": state}) for state in (False, True))
    for act, there, and_back, said in (
        ("Add to a group", [put], [out], "3 people added to 8c."),
        ("Take out of a group", [taken], [back], "3 people taken out of 7b."),
        ("Move", [put, taken], [back, out], "3 people moved from 7b to 8c."),
        ("Deactivate", [off], [on], f"3 people deactivated. {LOST}"),
    ):
        lost = LOST if LOST in said else ""
        story.everybody.check()
        story.send(act)
        expect(story.news).to_have_text(said)
        expect(story.news).to_be_focused()
        expect(story.count).to_be_empty()
        assert story.sent == there
        story.sent.clear()
        story.begin("Undo")
        expect(story.news).to_have_text(f"Undone for 3 people. {lost}".strip())
        assert (story.sent, story.state()) == (and_back, before)
        expect(story.page.get_by_role("button", name="Undo")).to_be_hidden()
        story.sent.clear()


def test_all_of_a_group_are_those_who_learn_in_it_and_a_teacher_is_named(story):
    page = story.page
    story.everybody.check()
    expect(story.count).to_have_text("3 selected")
    expect(story.everybody).to_be_checked()
    page.get_by_label("Select Kim").check()
    story.begin("Deactivate")
    expect(story.dialog).to_contain_text("Students: 3")
    expect(story.dialog.locator(".note")).to_have_text("Teachers and admins: Kim Last.")
    story.dialog.get_by_role("button", name="Cancel").click()
    page.locator("#people-search").fill("Ann")
    expect(story.count).to_have_text("4 selected \u00b7 3 of them not on this page")
    story.begin("Add to a group")
    expect(story.dialog).to_contain_text("Students: 3 \u00b7 2 of them not on this page")
    note = "Not on this page, too: Kim Last."
    expect(story.dialog.locator(".note")).to_have_text(note)
    story.button.click()
    expect(story.into).to_have_accessible_description("Fill in this field.")
    story.dialog.get_by_role("button", name="Cancel").click()
    page.locator("#people-search").fill("")
    page.locator("#people-groupId").select_option("All")
    expect(page.get_by_label("Select First head")).to_be_disabled()  # the own account
    assert story.sent == []


def test_only_groups_that_they_are_in_are_offered_to_leave(story, app):
    page = story.page
    page.get_by_role("button", name="Select from a list").click()
    names = page.get_by_label("Usernames, numbers or e-mail addresses")
    names.fill("ANN\nkim@example.org\n\nnobody\nhead\n")
    page.get_by_role("button", name="Select", exact=True).click()
    expect(names).to_have_accessible_description(re.compile("fit nobody, several people"))
    expect(names).to_have_value("nobody\nhead")
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    page.route("**/api/learning/memberships?*", lambda call: call.abort(), times=1)
    page.get_by_label("Select Ben").check()
    execute(app, delete(Membership).where(Membership.user_id == story.pupils[1].id))
    story.begin("Move")
    expect(story.alert).to_contain_text("did not respond")
    story.into.select_option("7b")
    story.button.click()
    expect(story.leaving.locator("option")).to_have_text(["\u2013", "7b (2)"])
    expect(story.leaving).to_have_value(story.b7)
    expect(story.into).to_have_value("")  # nobody moves from a group into the same one
    expect(story.dialog).to_contain_text("Students: 1")
    story.into.select_option("8c")
    story.button.click()
    expect(story.news).to_have_text("2 people moved from 7b to 8c.")


def test_who_was_refused_stays_chosen_with_the_reason(story, app):
    story.everybody.check()
    story.send("Add to a group", story.remove(User, story.pupils[1].id))
    expect(story.news).to_have_text("2 of 3 people added to 8c.")
    expect(story.failed).to_have_text(
        "Ben Last This account no longer exists. Load the list again."
    )
    expect(story.count).to_contain_text("1 selected")
    execute(app, delete(Group).where(Group.id == story.c8))
    story.begin("Undo")
    expect(story.news).to_have_text("Undone for 2 people.")  # they are not in it


@pytest.mark.parametrize(
    ("fate", "said"),
    [
        (lose, "may have been done: the list and Activity show it."),
        (answer(504), "it may have been done"),
        (answer(503), "nothing was changed. Try again"),
        (None, "The group no longer exists. Choose another one."),
    ],
)
def test_a_call_that_failed_says_what_is_known_and_can_be_sent_again(story, fate, said):
    """Also to another group, if the first one is gone."""
    story.everybody.check()
    story.send("Move", fate or story.remove(Group, story.c8))
    expect(story.alert).to_contain_text(said)
    story.into.select_option("9a")
    story.button.click()
    expect(story.news).to_have_text("3 people moved from 7b to 9a.")
    assert len(rows(story.app, Membership, group_id=story.groups[2])) == 3


def test_more_slips_than_one_call_makes_come_until_the_limit_says_when_to_go_on(story, app):
    crowd(app, 98)
    page = story.page
    page.locator("#people-groupId").select_option("All")
    page.locator("#people-role").select_option("Student")
    # A page of everybody has 100 lines, too.
    expect(page.locator("#people-form [role=status]")).to_have_text("1\u2013100 of 101")
    story.everybody.check()
    page.get_by_role("link", name="Next page").click()
    expect(page.locator("#people-list tbody tr")).to_have_count(1)
    story.everybody.check()
    story.send("Slips with codes", Route.continue_, answer(429, **{"Retry-After": "3000"}))
    expect(story.alert).to_contain_text("No more codes for now. Go on in 50 minutes.")
    expect(page.locator(".slip")).to_have_count(100)
    story.dialog.get_by_role("button", name="Cancel").click()
    expect(story.count).to_have_text("1 selected")
    story.send("Slips with codes")
    expect(page.locator(".slip")).to_have_count(101)
    assert [len(body["ids"]) for _, _, body in story.sent] == [1]
    page.once("dialog", lambda dialog: dialog.accept())


def test_what_was_done_until_the_session_ended_can_be_taken_back(story, app):
    def end(call):
        alter(app, story.head, {"role": "student"}, {"role": "admin"})
        call.continue_()

    story.everybody.check()
    story.send("Move", Route.continue_, end)
    expect(story.page.get_by_text("Your session has ended.")).to_be_visible()
    story.page.locator("#sign-in [name=password]").fill(PASSWORD)
    story.page.locator("#sign-in [name=password]").press("Enter")
    expect(story.news).to_contain_text("0 of 3 people moved from 7b to 8c.")
    expect(story.count).to_contain_text("3 selected")
    story.begin("Undo")
    expect(story.news).to_contain_text("Undone for 3 people.")
    assert rows(app, Membership, group_id=story.c8) == []


def test_a_reload_is_asked_about_and_a_sign_out_in_another_tab_is_not(story, base_url):
    page, asked, held, other = story.page, [], [], story.page.context.new_page()
    page.on("dialog", lambda dialog: (asked.append(dialog.type), dialog.dismiss()))
    other.goto(f"{base_url}/admin#people")
    expect(other.locator("#sign-out")).to_be_visible()
    story.everybody.check()
    story.send("Deactivate", held.append)
    expect(story.button).to_be_disabled()
    soon(lambda: page.evaluate("true") and held)
    page.evaluate("location.reload()")
    soon(lambda: page.evaluate("true") and asked)
    other.locator("#sign-out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert asked == ["beforeunload"]


def test_a_teacher_prints_slips_also_for_those_with_a_password(
    page, sign_in, make_user, make_group, change_settings
):
    change_settings(instructor_rights="groups")
    kim = make_user("kim", role="instructor")
    mia = make_user("mia", first_name="Mia", last_name="Okoro", password_hash="!")
    group = make_group("7b", kim, mia, make_user("ben"), make_user("gone", is_active=False))
    sign_in(page, kim, f"admin#groups/{group}")
    page.get_by_role("link", name="All members").click()
    expect(page.locator("#people-list tbody tr")).to_have_count(3)
    page.get_by_label("All on this page").check()
    names = ["Show only these", "Clear", "Slips with codes"]
    expect(page.locator("#people-acts button:visible")).to_have_text(names, use_inner_text=True)
    act, dialog = page.locator("#people-acts [value=slip]"), page.get_by_role("dialog")
    act.click()
    expect(dialog).to_contain_text("Students: 2 \u00b7 Able to sign in already: 1")
    dialog.get_by_role("button", name="Slips with codes").click()
    expect(page.get_by_role("heading", name="Codes to hand over")).to_be_focused()
    expect(page.locator(".slip")).to_have_count(2)
    expect(page.locator("#people-chosen")).to_be_empty()
    page.get_by_label("All on this page").check()
    act.click()  # a second slip would end the code of the first
    expect(dialog.get_by_role("button", name="Slips with codes")).to_be_disabled()
    dialog.get_by_role("button", name="Cancel").click()
    slip = page.locator(".slip").filter(has_text="Mia Okoro")
    expect(slip).to_contain_text(re.compile(r"· 7b\s+Mia Okoro.*/reset-password", re.S))
    page.emulate_media(media="print")
    expect(page.locator("#people .card:visible")).to_have_count(1)
    page.emulate_media(media="screen")
    page.get_by_role("button", name="Remove the codes").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove the codes").click()
    expect(page.get_by_role("heading", name="People")).to_be_focused()
