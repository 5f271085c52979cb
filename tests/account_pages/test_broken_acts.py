"""Acts for many people, and their undo, that something breaks in the middle."""

import re
from types import SimpleNamespace

import pytest
from helpers import PASSWORD, alter, execute, rows, soon
from playwright.sync_api import Route, expect
from sqlalchemy import delete

from models import Group, Membership, User

pytestmark = pytest.mark.browser
CHANGE = re.compile("/api/(groups/[^/]+/members/[^/]+|users|users/[0-9a-f-]{36})$")
FATES = {
    None: Route.continue_,
    "lost": lambda call: (call.fetch(), call.abort()),
    "limit": lambda call: call.fulfill(status=429, headers={"Retry-After": "1"}),
    "hour": lambda call: call.fulfill(status=429, headers={"Retry-After": "3600"}),
    "offline": lambda call: (call.request.frame.page.context.set_offline(True), call.abort()),
}


@pytest.fixture
def story(page, sign_in, make_user, make_group, app):
    """An admin has chosen Ann, Ben and Cid of 7b; `plan` has the fates of the next calls."""
    head, _ = (make_user(name, role="admin") for name in ("head", "deputy"))
    pupils = [make_user(name, first_name=name.title()) for name in ("ann", "ben", "cid")]
    groups = [make_group("7b", *pupils), make_group("8c"), make_group("9a")]
    sign_in(page, head, "admin#people/role=student&sort=name")
    expect(page.locator("#people-list tbody tr")).to_have_count(3)
    page.get_by_label("All on this page").check()
    plan, dialog = [], page.locator("#many")
    button, alert = dialog.locator("form button").first, dialog.get_by_role("alert")
    into, news = dialog.get_by_label("Into the group"), page.locator("#people-chosen")

    def answer(call):
        fate = plan.pop(0) if plan else None
        FATES.get(fate, fate)(call)

    def begin(act, *fates):
        plan[:] = fates
        page.locator("#people-acts").get_by_role("button", name=act, exact=True).click()
        if act in ("Add to a group", "Move"):
            into.select_option("8c")
        if act != "Undo":
            expect(dialog.locator("form:not([aria-busy=true])")).to_be_visible()
            button.click()

    def state():
        return rows(app, Membership), [user.is_active for user in rows(app, User)]

    def after(act):
        return lambda call: (act(), call.continue_())

    def remove(model, row):
        return after(lambda: execute(app, delete(model).where(model.id == row)))

    page.route(CHANGE, answer)
    return SimpleNamespace(**locals())


@pytest.mark.parametrize("act", ["Add to a group", "Take out of a group", "Move", "Deactivate"])
def test_an_act_and_its_undo_go_on_after_all_that_breaks_their_calls(story, act):
    before = story.state()
    for name, said in ((act, "Done"), ("Undo", "Undone")):
        story.begin(name, None, "lost", "limit", "offline")
        for _ in range(2):
            expect(story.alert).to_contain_text("did not respond")
            story.page.context.set_offline(False)
            story.button.click()
        expect(story.news).to_contain_text(f"{said}: 3 of 3.")
        assert (story.state() == before) == (name == "Undo")


def test_what_was_done_until_the_session_ended_can_be_taken_back(story, app):
    before = story.state()
    end = story.after(lambda: alter(app, story.head, {"role": "student"}, {"role": "admin"}))
    for act, calls, said in (("Move", 3, "Done: 1 of 3."), ("Undo", 2, "Undone: 1 of 2.")):
        story.begin(act, *[None] * calls, end)
        expect(story.page.get_by_text("Your session has ended.")).to_be_visible()
        story.page.locator("#sign-in [name=password]").fill(PASSWORD)
        story.page.locator("#sign-in [name=password]").press("Enter")
        expect(story.news).to_have_text(said)
    story.begin("Undo")
    expect(story.news).to_have_text("Undone: 1 of 1.")
    assert story.state() == before


def test_a_group_that_is_gone_is_named_once_and_another_one_can_be_chosen(story, app):
    story.begin("Move", None, None, story.remove(Group, story.groups[1]))
    expect(story.alert).to_have_text("The group no longer exists. Choose another one.")
    story.into.select_option("9a")
    story.button.click()
    expect(story.news).to_have_text("Done: 3 of 3.")
    # Also who was in the one that is gone.
    assert [row.group_id for row in rows(app, Membership)] == [story.groups[2]] * 3


def test_nobody_is_moved_before_the_groups_of_all_are_known(story, app):
    gone = story.remove(User, story.pupils[2].id)
    story.plan[:] = [None, "limit", gone, None, "lost"]  # of Ann, Ben and Cid; again; then of Ben
    story.page.route("**/api/users/*/account", story.answer)
    story.page.get_by_role("button", name="Move").click()
    expect(story.alert).to_contain_text("did not respond")
    story.into.select_option("8c")
    story.button.click()
    leaving = story.dialog.get_by_label("Out of the group").locator("option")
    expect(leaving.last).to_have_text("7b (2)")
    story.button.click()
    expect(story.news).to_have_text("Done: 2 of 3.")
    assert [row.group_id for row in rows(app, Membership)] == [story.groups[1]] * 2


@pytest.mark.parametrize(("fate", "done"), [(None, 2), ("hour", 1)])
def test_the_next_act_waits_for_the_last_call_of_one_that_was_stopped(story, fate, done):
    held = []
    story.begin("Add to a group", None, held.append)
    soon(lambda: story.page.evaluate("true") and held)  # which handles what has come
    story.dialog.get_by_role("button", name="Cancel").click()
    story.page.get_by_role("button", name="Deactivate").click()
    expect(story.page.locator("#people-form [role=status]")).to_have_text("One moment…")
    expect(story.dialog).to_be_hidden()
    FATES[fate](held[0])
    expect(story.news).to_have_text(f"Done: {done} of 3.")
    expect(story.dialog).to_contain_text("nobody can sign in")


@pytest.mark.parametrize("is_list", [False, True])
def test_a_reload_is_asked_about_and_a_sign_out_in_another_tab_is_not(story, base_url, is_list):
    page, asked, held, other = story.page, [], [], story.page.context.new_page()
    page.on("dialog", lambda dialog: (asked.append(dialog.type), dialog.dismiss()))
    other.goto(f"{base_url}/admin#people")
    expect(other.locator("#sign-out")).to_be_visible()
    if is_list:
        page.get_by_role("link", name="Add people").click()
        expect(page.locator("#newcomers[aria-busy=false]")).to_be_visible()
        page.locator("#paste-list").fill("Eva;Lee")
        page.get_by_role("button", name="Check the list").click()
        story.plan.append(held.append)
        page.get_by_role("button", name="Create one account").click()
    else:
        story.begin("Deactivate", held.append)
    soon(lambda: page.evaluate("true") and held)
    page.evaluate("location.reload()")
    soon(lambda: page.evaluate("true") and asked)
    other.locator("#sign-out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert asked == ["beforeunload"]
