"""axe-core finds nothing serious on any page, in light and dark colours, and all fit 320 pixels."""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from helpers import bearer, success
from playwright.sync_api import expect
from real_service import PATIENCE

pytestmark = pytest.mark.browser

VISITORS = ["sign-in", "sign-up", "check-mail", "forgot-password", "new-confirmation", "mail-sent"]
OF_LINKS = {
    "reset-password": ["choose-password", "forgot-password", "mail-sent", "done"],
    "verify-email": ["new-confirmation", "done"],
}
COURSE = {"courseId": "sql", "courseName": "SQL"}


@pytest.fixture(params=["light", "dark"])
def look(request, browser):
    """A page in these colours, and a check of what it shows. The CSP would keep axe out."""
    context = browser.new_context(
        bypass_csp=True, color_scheme=request.param, reduced_motion="reduce"
    )
    page = context.new_page()
    page.set_default_timeout(PATIENCE * 1000)
    found = []
    # The colours are all that differs.
    rules = {} if request.param == "light" else {"runOnly": ["color-contrast"]}

    def check(name):
        expect(page.locator("main [aria-busy=true]")).to_have_count(0)
        page.set_viewport_size({"width": 320, "height": 640})
        width = page.evaluate("document.documentElement.scrollWidth")
        found.extend([(name, width)] if width > 320 else [])
        page.set_viewport_size({"width": 1280, "height": 900})
        results = Axe().run(page, options={"resultTypes": ["violations"], **rules}).response
        found.extend(
            (name, each["id"], node["target"], node["failureSummary"])
            for each in results["violations"]
            if each["impact"] in ("serious", "critical")
            for node in each["nodes"]
        )

    yield page, check
    context.close()
    assert found == []


def test_visitors(look, base_url):
    page, check = look
    page.goto(f"{base_url}/account")
    for id in VISITORS:
        page.evaluate(f"location.hash = '{id}'")
        expect(page.locator(f"#{id} h1")).to_be_visible()
        check(id)
    for path, ids in OF_LINKS.items():
        page.goto(f"{base_url}/{path}")
        for id in ids:
            page.evaluate(f"location.hash = '{id}'")
            expect(page.locator(f"#{id} h1")).to_be_focused()
            check(id)


# Of each section, the fields that a browser may fill (WCAG 2.2, 1.3.5). Axe does not know which.
FILLED = {
    "sign-in": {"email": "username", "password": "current-password"},
    "sign-up": {
        **{"firstName": "given-name", "lastName": "family-name", "username": "username"},
        **{"email": "email", "password": "new-password"},
    },
    "forgot-password": {"email": "username"},
    "new-confirmation": {"email": "email"},
    "profile": {"firstName": "given-name", "lastName": "family-name", "website": "url"},
    "security": {
        **{"newEmail": "email", "code": "one-time-code", "newPassword": "new-password"},
        **{"password": "current-password", "currentPassword": "current-password"},
    },
}


def test_a_browser_knows_what_to_fill_in(page, base_url):
    page.goto(f"{base_url}/account")
    for section, fields in FILLED.items():
        for name, purpose in fields.items():
            found = page.locator(f"#{section} [name={name}]:not([type=hidden])").all()
            assert {each.get_attribute("autocomplete") for each in found} == {purpose}, name


def test_an_account_with_everything_in_it(look, make_user, sign_in, client, make_key):
    page, check = look
    user = make_user(theme="system", bio="A line.", website="https://example.org")
    headers = bearer(make_key("learning:write"))
    for path, body in {
        "courses/sql": {"name": "SQL", "lessons": 4},
        "courses/sql/lessons/one": {"minutes": 20},
        "achievements/first": {"name": "First lesson"},
        "certificates/new": COURSE,
        "certificates/old": {**COURSE, "expiresAt": "2026-01-01T12:00:00Z"},
    }.items():
        success(client.put(f"/api/users/{user.id}/{path}", json=body, headers=headers), 201)
    sign_in(page, user)
    expect(page.locator("#sign-out")).to_be_visible()
    check("profile")
    for id in ("learning", "settings", "security"):
        page.evaluate(f"location.hash = '{id}'")
        expect(page.locator(f"#{id} h1")).to_be_focused()
        for part in page.locator(f"#{id} summary:visible").all():
            part.click()
        check(id)
    page.get_by_role("button", name="Delete my account").click()
    check("dialog")
    page.locator("#act-delete [data-closes]").click()
    page.evaluate("location.hash = 'learning'")
    expect(page.locator("#learning h1")).to_be_focused()
    expect(page.locator("#learning[aria-busy=true]")).to_have_count(0)
    page.get_by_role("switch").first.check()
    link = page.get_by_label("Link for checking").first
    expect(link).to_have_value(re.compile("/certificates/"))
    page.goto(link.input_value())
    check("certificate")
    page.goto(f"{page.url.split('/certificates')[0]}/privacy")
    check("privacy")


def test_a_teacher(look, make_user, make_group, make_key, sign_in, client, change_settings):
    change_settings(instructor_rights="groups")
    page, check = look
    kim, mia = make_user("kim", role="instructor", theme="system"), make_user("mia")
    group, headers = make_group("7b", kim, mia), bearer(make_key("learning:write"))
    for path, body in (("", {"name": "SQL", "lessons": 4}), ("/lessons/one", {"minutes": 20})):
        url = f"/api/users/{mia.id}/courses/sql{path}"
        success(client.put(url, json=body, headers=headers), 201)
    sign_in(page, kim, "admin")
    expect(page.locator("#groups-list tbody tr")).to_have_count(1)
    check("groups")
    page.evaluate(f"location.hash = 'groups/{group}'")
    expect(page.locator("#groups-week tbody tr")).to_have_count(1)
    check("week")
    page.get_by_role("link", name="Last, First").click()
    expect(page.get_by_role("heading", name="Learning")).to_be_focused()
    check("learning")


def test_an_admin(look, make_user, make_key, sign_in):
    page, check = look
    make_key("learning:read")
    lee = make_user("lee", is_active=False, password_hash="!")
    sign_in(page, make_user("head", role="admin", theme="system"), "admin")
    expect(page.locator("#people-list tbody tr")).to_have_count(2)
    page.get_by_label("All on this page").check()
    check("people")
    page.locator("#people-acts").get_by_role("button", name="Add to a group").click()
    check("dialog for many")
    page.locator("#many [data-closes]").click()
    page.locator("#people-acts").get_by_role("button", name="Move").click()
    expect(page.locator("#many [role=status]")).to_be_empty()
    check("move")
    page.locator("#many [data-closes]").click()
    page.locator("#people-pick").click()
    check("pick")
    page.locator("#pick [data-closes]").click()
    page.evaluate(f"location.hash = 'people/{lee.id}'")
    expect(page.locator("#person h1")).to_be_focused()
    check("person")
    for part, heading in (("access", "Access"), ("history", "Account activity")):
        page.evaluate(f"location.hash = 'people/{lee.id}/{part}'")
        expect(page.get_by_role("heading", name=heading)).to_be_focused()
        check(part)
    page.evaluate(f"location.hash = 'people/{lee.id}/kept'")
    expect(page.get_by_role("heading", name="about First Last")).to_be_focused()
    check("kept")
    page.evaluate(f"location.hash = 'people/{lee.id}'")
    expect(page.locator("#person h1")).to_be_focused()
    page.locator("#person-add summary").click()
    page.locator("#person-menu summary").click()
    check("menu")
    page.get_by_role("button", name="Delete").click()
    check("dialog")
    page.locator("#act-delete [data-closes]").click()
    page.evaluate("location.hash = 'newcomers'")
    page.locator("#options [value=link]").check()
    page.locator("#paste-list").fill("Vorname;Name\nMia;Okoro\nAna;Lopez\nTim;5e")
    page.locator("#paste button").click()
    expect(page.locator("#lines .error:not(:empty)")).to_have_count(1)
    check("newcomers")
    page.locator("#make button").click()
    expect(page.locator(".slip")).to_have_count(2)
    check("sheet")
    page.evaluate("location.hash = 'activity'")
    expect(page.locator("#activity tbody tr").first).to_be_visible()
    check("activity")
    page.evaluate("location.hash = 'keys'")
    expect(page.locator("#keys-list tbody tr")).to_have_count(1)
    check("keys")


def test_the_docs(look, base_url):
    """What only Swagger UI can mend is not serious; docs/pages.md lists it."""
    page, check = look
    page.goto(f"{base_url}/docs")
    page.locator(".opblock-tag").first.click()
    page.locator(".opblock-summary-control").first.click()
    expect(page.locator("textarea").first).to_be_visible()
    check("docs")
