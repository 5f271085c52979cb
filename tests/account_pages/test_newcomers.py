"""Admins make accounts, one or a list, and hand over codes; they see and revoke service keys."""

import re

import pytest
from helpers import NEW_PASSWORD, failure, rows, success
from playwright.sync_api import expect

from models import User

pytestmark = pytest.mark.browser

CLASS = '''Mia\tOkoro
Ben\tYoung\tben
\tLopez
Zoë\tÅström\tzoe\tzoe@example
"Jean ""JB"""\tde la Tour\tBEN
Élise\tMüller-Straße
'''
LABELS = {"firstName": "Vorname", "lastName": "Nachname", "username": "Name", "email": "E-Mail"}


@pytest.fixture
def newcomers(signed_in):
    """Open the section as an admin; return the page."""
    page = signed_in("admin#newcomers", username="principal", role="admin").page
    expect(page.get_by_role("heading", name="New people")).to_be_visible()
    return page


def check(page, text):
    page.locator("#paste-list").fill(text)
    page.get_by_role("button", name="Check the list").click()
    expect(page.locator("#lines")).to_be_visible()


def users(app):
    return {user.username: user for user in rows(app, User) if user.username != "principal"}


def test_a_class_is_corrected_made_and_gets_a_sheet_of_codes(newcomers, app, client):
    page = newcomers
    check(page, CLASS)
    expect(page.locator("#lines-summary")).to_contain_text("6 lines. 4 have mistakes.")
    expect(page.locator("#line-0-username")).to_have_value("mia.okoro")
    expect(page.locator("#line-5-username")).to_have_value("elise.muller-strasse")
    create = page.get_by_role("button", name="Create 6 accounts")
    create.click()
    expect(page.locator("#line-1-username")).to_be_focused()
    expect(page.locator("#line-1-username")).to_have_accessible_description(re.compile("twice"))
    page.locator("#line-2-firstName").fill("Ana")
    page.locator("#line-3-email").fill("zoe@example.org")
    page.locator("#line-4-username").fill("jean")
    page.locator("#make").get_by_role("radio", name="A link and a code").check()
    assert users(app) == {}  # nothing was sent
    create.click()
    expect(page.get_by_role("heading", name="Codes to hand over")).to_be_focused()
    slips = page.locator(".slip")
    expect(slips).to_have_count(6)
    made = users(app)
    assert made.keys() == {
        *("mia.okoro", "ben", "ana.lopez", "zoe", "jean", "elise.muller-strasse")
    }
    assert made["ben"].email == "ben@no-mail.invalid"
    assert (made["jean"].first_name, made["zoe"].email) == ('Jean "JB"', "zoe@example.org")
    ben = slips.nth(1)
    expect(ben).to_contain_text(re.compile(r"Ben Young.*127\.0\.0\.1:\d+/reset-password", re.S))
    assert ben.locator("img").evaluate("async (image) => (await image.decode(), image.width > 0)")
    sheets = re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4"))
    assert len(sheets) == 2  # of four slips each
    code = ben.locator(".code").inner_text()
    body = {"account": "ben", "code": code, "newPassword": NEW_PASSWORD}
    success(client.post("/api/auth/reset-password", json=body))
    success(client.post("/api/auth/login", json={"email": "ben", "password": NEW_PASSWORD}))
    warned = []
    page.on("dialog", lambda dialog: (warned.append(dialog.type), dialog.accept()))
    page.reload()
    assert warned == ["beforeunload"]


def test_a_list_that_broke_off_goes_on_where_it_was(newcomers, app, make_user):
    """The first answer is a limit, that of the third account is lost, and a name is taken."""
    page = newcomers
    make_user("taken")
    calls = []

    def answer(route):
        calls.append(route.request)
        if len(calls) == 1:
            return route.fulfill(status=429, headers={"Retry-After": "3600"}, body="{}")
        if len(calls) == 4:
            route.fetch()
            return route.abort()
        return route.continue_()

    page.route(lambda url: url.endswith("/api/users"), answer)
    check(page, "A;B;ann\nC;D;taken\nE;F;eve\nG;H;gus")
    page.get_by_role("button", name="Create 4 accounts").click()
    expect(page.locator("#make [role=status]")).to_contain_text("It goes on in 1 hour.")
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("button", name="Create 4 accounts").click()
    expect(page.locator("#make [role=alert]")).to_contain_text("did not respond")
    assert users(app).keys() == {"ann", "taken", "eve"}
    name = page.locator("#line-1-username")
    expect(name).to_have_accessible_description("Somebody has this name already.")
    name.fill("cid")
    page.get_by_role("button", name="Create 3 accounts").click()
    expect(page.locator(".slip")).to_have_count(4)
    assert users(app).keys() == {"ann", "taken", "cid", "eve", "gus"}
    page.once("dialog", lambda dialog: dialog.accept())


def test_one_person_without_an_address_gets_a_code(newcomers, app):
    page = newcomers
    form = page.locator("#newcomer")
    form.get_by_label("First name").fill("Łukasz")
    form.get_by_label("Last name").fill("Ōe")
    expect(form.get_by_label("Username")).to_have_value("lukasz.oe")
    form.get_by_label("Has no e-mail address").check()
    expect(form.get_by_role("radio", name="An invitation")).to_be_disabled()
    form.get_by_role("button", name="Create the account").click()
    expect(page.locator(".slip")).to_contain_text("lukasz.oe")
    user = users(app)["lukasz.oe"]
    assert user.email == "lukasz.oe@no-mail.invalid"
    page.get_by_role("button", name="Remove the codes").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove the codes").click()
    expect(page.locator(".slip")).to_have_count(0)


@pytest.mark.parametrize(
    ("text", "people"),
    [
        ("Ann,Lee,ann,a@b.example", [["Ann", "Lee", "ann", "a@b.example"]]),
        (
            '\ufeff"Lee; A";"say ""x"""\r\n\r\n"5" foot;B\n',
            [["Lee; A", 'say "x"'], ['"5" foot', "B"]],
        ),
        ("Nachname\tE-Mail\tVorname\nLee\ta@b.example\tAnn", [["Ann", "Lee", "", "a@b.example"]]),
        ("username,firstName,lastName\nann,Ann,Lee", [["Ann", "Lee", "ann"]]),
        ("Ann,Lee,a@b.example", [["Ann", "Lee", "", "a@b.example"]]),
        ("Ann,Lee,ann,a@b.example,more", [["Ann", "Lee", "ann", "a@b.example", True]]),
    ],
)
def test_lists_of_spreadsheets_are_read(newcomers, text, people):
    found = newcomers.evaluate(
        "async ([text, labels]) => (await import('./static/pasted-list.js')).parse(text, labels)",
        [text.removeprefix("\ufeff"), LABELS],
    )
    names = ["firstName", "lastName", "username", "email", "extra"]
    filled = [[*person, *["", "", "", "", False][len(person) :]] for person in people]
    assert [[person[name] for name in names] for person in found["people"]] == filled
    assert found["unknown"] == []


@pytest.mark.parametrize("encoding", ["utf-8-sig", "cp1252"])
def test_a_file_is_read_whatever_its_encoding(newcomers, encoding):
    text = "firstName;lastName\nZoë;Müller\n".encode(encoding)
    file = {"name": "class.csv", "mimeType": "text/csv", "buffer": text}
    newcomers.locator("#paste-file").set_input_files(file)
    expect(newcomers.locator("#line-0-firstName")).to_have_value("Zoë")
    expect(newcomers.locator("#line-0-username")).to_have_value("zoe.muller")


def test_a_service_key_is_listed_and_revoked(signed_in, make_key, client):
    key = make_key("users:read", name="courses")
    page = signed_in("admin#keys", role="admin").page
    row = page.locator("#keys-list tbody tr")
    expect(row).to_contain_text(re.compile("courses.*users:read.*never.*never", re.S))
    row.get_by_role("button", name="Revoke the key courses").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("courses")
    dialog.get_by_role("button", name="Revoke").click()
    expect(page.get_by_text("There are no service keys.")).to_be_visible()
    expect(page.locator("#keys [role=status]").first).to_have_text("The key is revoked.")
    headers = {"Authorization": f"Bearer {key}"}
    failure(client.get("/api/users", headers=headers), 401, "token_invalid")
