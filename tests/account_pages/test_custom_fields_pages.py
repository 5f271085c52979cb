"""The custom fields of an installation on the pages."""

import csv
import re
from pathlib import Path

import pytest
from helpers import PASSWORD, set_user, stored
from playwright.sync_api import expect

from config.custom_fields import CustomField

pytestmark = pytest.mark.browser

USERS = {"written_by": "user", "at_sign_up": "yes"}
FIELDS = (
    CustomField(name="grade", type="choice", choices=("7a", "7b"), seen_by="teachers"),
    CustomField(name="birthDay", type="date", label="Date of birth"),
    CustomField(name="constructor", label="Phone", **USERS),  # which all objects have
    CustomField(
        name="siblings", type="number", seen_by="everybody", **USERS | {"at_sign_up": "required"}
    ),
    CustomField(name="newsletter", type="boolean", label="Newsletter", **USERS),
)
VALUES = {"grade": "2024-13-31", "birthDay": "2014-05-06", "siblings": 2000, "newsletter": False}


@pytest.fixture(autouse=True)
def with_fields(change_settings):
    change_settings(custom_fields=FIELDS)


def test_a_sign_up_asks_for_its_fields_and_says_who_sees_them(page, base_url, app):
    page.goto(f"{base_url}/account#sign-up")
    form = page.locator("#sign-up")
    for label in ("First name", "Last name", "Username"):
        form.get_by_label(label).fill("ada")
    form.get_by_label("E-mail address").fill("ada@example.org")
    form.get_by_label("Password", exact=True).fill(PASSWORD)
    expect(form.get_by_label("grade")).to_have_count(0)
    siblings = form.get_by_label("siblings")
    siblings.press("Enter")
    expect(siblings).to_have_accessible_description(
        "Everybody who may see the profile sees this. Fill in this field."
    )
    siblings.fill("9999999999999999")
    siblings.press("Enter")
    expect(siblings).to_have_accessible_description(re.compile("not valid"))
    siblings.fill("0")
    form.get_by_label("Newsletter").check()
    siblings.press("Enter")
    expect(page.get_by_role("heading", name="Learning", exact=True)).to_be_focused()
    assert stored(app, username="ada").custom_fields == {"siblings": 0, "newsletter": True}


def test_a_profile_saves_what_was_changed_and_shows_the_rest(signed_in, app):
    it = signed_in(custom_fields=VALUES)
    about = it.page.locator("#profile .card").first
    facts = ("^grade.*Teachers see this.*2024-13-31$", "Date of birth.*6 May 2014$")
    shown = [re.compile(each, re.S) for each in facts]
    expect(about.locator("dl > div:visible")).to_have_text(shown)
    others = it.page.locator("#profile-others dl")
    expect(others).to_have_text(re.compile(r"^\s*siblings\s*2000\s*$"))
    set_user(app, it.user, custom_fields={**VALUES, "siblings": 3})
    it.page.get_by_role("link", name="Settings").click()
    with it.page.expect_response("**/api/users/profile"):
        it.page.get_by_label("Dark").check()
    it.page.get_by_role("link", name="Profile").click()
    about.get_by_label("Phone").fill("0711 1")
    about.get_by_role("button").click()
    expect(about.get_by_text("Saved.")).to_be_visible()
    expect(about.get_by_label("siblings")).to_have_value("3")
    assert stored(app, it.user).custom_fields == {**VALUES, "siblings": 3, "constructor": "0711 1"}
    about.get_by_label("Phone").fill("")
    about.get_by_label("siblings").fill("")
    about.get_by_role("button").click()
    expect(others.locator("> div")).to_be_hidden()
    assert stored(app, it.user).custom_fields.keys() == {"grade", "birthDay", "newsletter"}


def test_an_admin_sees_and_changes_them_and_a_choice_of_before_stays(signed_in, app, make_user):
    lee = make_user("lee", custom_fields=VALUES)
    page = signed_in("admin", username="head", role="admin").page
    page.goto(f"{page.url.split('#')[0]}#people/{lee.id}")
    facts = page.locator("#person-overview dl > div").filter(visible=True)
    own = (r"grade\s*2024-13-31", r"birth\s*6 May 2014", r"siblings\s*2000", r"Newsletter\s*No")
    for fact in own:
        expect(facts.filter(has_text=re.compile(fact))).to_have_count(1)
    expect(facts.filter(has_text="Phone")).to_have_count(0)
    page.locator("#person-menu summary").click()
    page.get_by_role("button", name="Edit details").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("grade")).to_have_value("2024-13-31")
    dialog.get_by_label("Date of birth").fill("2014-05-07")
    dialog.get_by_role("button", name="Save").click()
    expect(facts.filter(has_text="7 May 2014")).to_have_count(1)
    assert stored(app, lee).custom_fields == {**VALUES, "birthDay": "2014-05-07"}
    page.goto(f"{page.url}/kept")
    kept = page.locator("#person-kept dl").first
    for fact in (r"Date of birth\s*7 May 2014", r"siblings\s*2000", r"Newsletter\s*No", "Phone"):
        expect(kept.locator("> div").filter(has_text=re.compile(fact))).to_have_count(1)


def test_people_are_found_by_them_and_saved_with_them(signed_in, make_user):
    make_user("lee", custom_fields={"grade": "7a", "constructor": "=1+1", "newsletter": True})
    make_user("kim", custom_fields={"grade": "7b"})
    page = signed_in("admin", username="head", role="admin").page
    names = page.locator("#people-list tbody td:nth-child(2)")
    cases = {"grade: 7b": ["kim"], "Newsletter: Yes": ["lee"], "grade: empty": ["head"]}
    for option, found in cases.items():
        page.get_by_label("Other details").select_option(option)
        expect(names).to_have_text(found)
    page.reload()
    expect(names).to_have_text(["head"])
    page.evaluate("location.hash = 'people/field=gone:7a'")
    others = page.get_by_label("Other details")
    expect(others).to_have_accessible_description("This is not valid. Check it.")
    others.select_option("grade: 7a")
    expect(names).to_have_text(["lee"])
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as CSV").click()
    text = Path(saved.value.path()).read_text("utf-8-sig")
    head, line = csv.reader(text.splitlines())
    own = dict(zip(head[-5:], line[-5:], strict=True))
    assert own == {
        **{"fields.grade": "7a", "fields.birthDay": "", "fields.constructor": "'=1+1"},
        **{"fields.siblings": "", "fields.newsletter": "true"},
    }


def test_teachers_find_by_what_they_see(signed_in, make_user, change_settings):
    change_settings(instructor_rights="students")
    make_user("lee", custom_fields={"grade": "7a", "constructor": "0711"})
    page = signed_in("admin#people", username="teach", role="instructor").page
    options = page.get_by_label("Other details").locator("option:not([hidden])")
    expect(options).to_have_text(["All", "grade: 7a", "grade: 7b", "grade: empty"])
    page.get_by_label("Other details").select_option("grade: 7a")
    page.get_by_role("link", name="First Last").click()
    overview = page.locator("#person-overview")
    expect(overview).to_contain_text("7a")
    expect(overview.get_by_text("Phone")).to_be_hidden()


def test_own_words_name_a_field_in_a_language(make_app, tmp_path):
    (tmp_path / "de").mkdir()
    (tmp_path / "de/app.txt").write_text('{% set custom_birthDay = "Geburtstag" %}')
    client = make_app(templates_dir=tmp_path, custom_fields=FIELDS).test_client()
    for path in ("account", "admin", "privacy"):
        for language, name in (("de", "Geburtstag"), ("fr", "Date of birth")):
            assert name in client.get(f"/{path}?language={language}").text
