"""The page of a person: what is to be done, what is rare, and what is kept, on paper."""

import base64
import re

import marshmallow as ma
import pytest
from helpers import picture, set_user
from playwright.sync_api import expect

import fields
from schemas import Export

pytestmark = pytest.mark.browser

MOMENT, WORDS = "2026-11-24T08:31:00Z", "24 November 2026 at 08:31"


@pytest.fixture
def open_person(signed_in):
    """Open the page of somebody as an admin."""

    def open_person(user, part="", **admin):
        it = signed_in("admin", username="head", role="admin", **admin)
        it.page.goto(f"{it.page.url.split('#')[0]}#people/{user.id}{part}")
        expect(it.page.locator("#person h1, #person-kept h1").filter(visible=True)).to_be_focused()
        return it.page

    return open_person


def sample(schema, path=""):
    """Return an export with everything in it; a text names its place."""
    made = {}
    for name, field in schema.fields.items():
        key = field.data_key or name
        one = field.inner if isinstance(field, ma.fields.List) else field
        value = MOMENT if isinstance(one, fields.Moment) else f"{path}{key}"
        if isinstance(one, ma.fields.Nested):
            value = sample(one.schema, f"{path}{key}.")
        if isinstance(one, fields.CustomFields):
            value = {}
        made[key] = [value] if one is not field else value
    return made


def leaves(value, key=""):
    """Return the keys and texts of an export."""
    if isinstance(value, dict):
        return [pair for name, each in value.items() for pair in [(name, ""), *leaves(each, name)]]
    if isinstance(value, list):
        return [pair for each in value for pair in leaves(each, key)]
    return [(key, value)]


@pytest.mark.parametrize("language", ["en", "de", "fr", "es"])
def test_each_name_of_an_export_has_a_word(client, language):
    page = client.get(f"/privacy?language={language}").text
    words = set(re.findall(r"^say_kept_(\w+) \S", page, re.M))
    assert {name for name, _ in leaves(sample(Export()))} - {"exportedAt", "customFields"} <= words


def test_all_that_is_kept_is_on_paper_in_words(open_person, make_user, page):
    data = sample(Export())
    avatar = {"mediaType": "image/png", "data": base64.b64encode(picture()).decode()}
    details = {"role": "instructor", "deliver": "mail", "fields": "size hat", "hat": "a hat"}
    data["events"][0] |= {"type": "role_changed", "by": "user", "details": details}
    del data["passkeys"][0], data["avatar"]
    unlike = ("", "role_changed", "user", "instructor", "mail", "size hat")
    texts = [text for _, text in leaves(data) if text not in unlike]

    def answer(route):
        answer = route.fetch().json()
        answer["data"] = {**data, "avatar": avatar, "sizes": [{"shoe": 44}]}
        route.fulfill(json=answer)

    page.route("**/export", answer)
    lee = make_user("lee", language="en")
    open_person(lee, "/kept")
    page.emulate_media(media="print")
    paper = page.locator("#person-kept")
    expect(page.get_by_role("heading", level=1)).to_contain_text("keeps about account.firstName")
    shown = paper.inner_text()
    assert {text for text in texts if text not in shown} == {MOMENT}
    assert shown.count(WORDS) == texts.count(MOMENT)
    assert "New role: Teacher by the person" in shown
    assert "instructor" not in shown
    for fact in ("Handed over By e-mail", "Which fields size, hat", "hat a hat"):
        expect(paper.locator("dl > div").filter(has_text=fact).last).to_have_text(fact)
    assert re.search(r"Passkeys\s+none", shown)
    expect(paper.locator("dl > div", has_text="shoe").last).to_have_text("shoe 44")
    assert avatar["data"] not in shown
    assert paper.locator("img").evaluate("image => image.decode()") is None
    expect(page.locator("button, form, header, #people-back").filter(visible=True)).to_have_count(0)


def test_what_is_kept_is_in_the_language_of_the_person(open_person, make_user):
    page = open_person(make_user("lee", language="de"), language="en")
    page.locator("#person-menu summary").click()
    with page.expect_popup() as opened:
        page.get_by_role("link", name="Print or save what is kept").click()
    expect(opened.value.get_by_role("heading", level=1)).to_have_text(
        re.compile("^Was .* speichert$")
    )
    opened.value.close()


def test_a_phone_shows_the_one_thing_to_do_and_paper_all_parts(open_person, make_user, app):
    lee = make_user("lee")
    page = open_person(lee)
    page.set_viewport_size({"width": 375, "height": 740})
    filled = page.locator("#person > .head button:not(.plain, .chips *)").filter(visible=True)
    expect(filled).to_have_text(["New code"])
    expect(filled).to_be_in_viewport()
    box = page.locator("#person-overview").bounding_box()
    assert box["y"] + box["height"] < 1800  # pixels
    set_user(app, lee, is_active=False)
    page.reload()
    expect(filled).to_have_text(["Activate"])
    page.emulate_media(media="print")
    expect(page.locator("#person .part").filter(visible=True)).to_have_count(4)
    expect(page.locator("#person button, #person nav").filter(visible=True)).to_have_count(0)


def test_the_menu_is_used_by_keys_and_gets_the_focus_back(open_person, make_user):
    page = open_person(make_user("lee"))
    menu = page.locator("#person-menu")
    summary = menu.locator("summary")
    for key in ("Escape", "Enter"):
        summary.press("Enter")
        acts = menu.locator("button, a").filter(visible=True)
        expect(acts.last).to_have_text("Delete the account")
        acts.last.press(key)
        expect(acts).to_have_count(0)
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(summary).to_be_focused()


def test_who_was_taken_out_of_a_group_is_put_back_where_that_was_said(
    open_person, make_user, make_group
):
    lee = make_user("lee")
    make_group("5c", lee)
    page = open_person(lee)
    page.get_by_role("button", name="Take out of 5c").click()
    undo = page.get_by_role("button", name="Undo")
    expect(undo).to_be_focused()
    expect(undo).to_have_accessible_description("Taken out of 5c.")
    undo.click()
    expect(page.locator("#people-news")).to_have_text("Added to 5c.")
    expect(page.locator("#person-groups a")).to_have_text(["5c"])
