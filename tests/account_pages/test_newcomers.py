"""Admins make accounts, one or a list, and hand over codes; they see and revoke service keys."""

import re
from datetime import UTC, datetime

import pytest
from helpers import NEW_PASSWORD, execute, failure, rows, success
from playwright.sync_api import expect
from sqlalchemy import delete, update

from core.clock import utcnow
from models import Group, Membership, User

pytestmark = pytest.mark.browser

CLASS = '''Mia\tOkoro
Ben\tYoung\tben
\tLopez
Zoë\tÅström\tzoe\tzoe@example
"Jean ""JB"""\tde la Tour\tBEN
Élise\tMüller-Straße
'''
LABELS = {"firstName": "Vor", "lastName": "Nach", "username": "Benutzername", "email": "E-Mail"}
LONG = "Bernhardine-Wilhelmine " * 2 + "von Hoheneck"


@pytest.fixture
def newcomers(signed_in):
    """Open the section as an admin; return the page."""
    page = signed_in("admin#newcomers", username="principal", role="admin").page
    # What is chosen before the section's module is there does nothing.
    expect(page.locator("#newcomers[aria-busy=false]")).to_be_visible()
    return page


def check(page, text):
    page.locator("#paste-list").fill(text)
    page.get_by_role("button", name="Check the list").click()


def correct(page, old, new):
    """Replace a line of the text."""
    text = page.locator("#paste-list").input_value()
    assert text.count(old) == 1
    page.locator("#paste-list").fill(text.replace(old, new))


def users(app):
    return {user.username: user for user in rows(app, User) if user.username != "principal"}


def test_a_class_is_corrected_made_and_gets_a_sheet_of_codes(newcomers, app, client):
    page = newcomers
    field, lines = page.locator("#paste-list"), page.locator("#lines tbody tr")
    check(page, CLASS)
    expect(page.locator("#lines-summary")).to_contain_text("6 lines. 4 have mistakes.")
    expect(lines.nth(0)).to_contain_text(re.compile("1.*Mia.*Okoro.*mia.okoro", re.S))
    expect(lines.nth(5)).to_contain_text("elise.muller-strasse")
    expect(lines.locator(".error:not(:empty)")).to_have_text(
        [
            "Username: This is in the list twice. Change or remove one.",
            "First name: Fill in this field.",
            "E-mail address: This is not a valid e-mail address. Check it.",
            "Username: This is in the list twice. Change or remove one.",
        ]
    )
    # The cursor is on the first wrong line, which a screen reader is told about.
    expect(field).to_be_focused()
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).to_have_accessible_description(re.compile("Username: This is in the list twice"))
    assert page.evaluate("getSelection().toString()") == "Ben\tYoung\tben"
    lines.nth(2).get_by_role("button").click()
    assert page.evaluate("getSelection().toString()") == "\tLopez"
    expect(field).to_have_accessible_description(re.compile("First name: Fill in this field"))
    page.get_by_role("radio", name="A link and a code").check()
    create = page.get_by_role("button", name="Create 6 accounts")
    create.click()
    expect(field).to_be_focused()
    correct(page, "\tLopez", "Ana\tLopez")
    expect(create).to_be_hidden()  # what is not checked
    correct(page, "zoe@example", "zoe@example.org")
    correct(page, "\tBEN", ";jean")  # the key for a tab leaves the field
    page.get_by_role("button", name="Check the list").click()
    expect(page.get_by_role("heading", name="Check the lines")).to_be_focused()
    expect(field).not_to_have_attribute("aria-invalid", "true")
    assert users(app) == {}  # nothing was sent
    create.click()
    expect(page.get_by_role("heading", name="Codes to hand over")).to_be_focused()
    expect(field).to_have_value("")
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
    code = ben.locator(".code").inner_text()
    body = {"account": "ben", "code": code, "newPassword": NEW_PASSWORD}
    success(client.post("/api/auth/reset-password", json=body))
    warned = []
    page.on("dialog", lambda dialog: (warned.append(dialog.type), dialog.accept()))
    page.reload()
    assert warned == ["beforeunload"]


def test_six_slips_fit_a_page_and_say_where_from_and_where_to(
    signed_in, change_settings, make_user
):
    change_settings(site_name="Riverside School")
    page = signed_in("admin#newcomers", role="admin", language="de").page
    page.get_by_role("radio", name="Link und Code").check()
    people = [f"{LONG};{LONG};{'w' * 32}", *(f"Mia;Lee{number}" for number in range(5))]
    page.locator("#paste-list").fill("\n".join(people))
    page.get_by_role("button", name="Liste prüfen").click()
    page.get_by_role("button", name="6 Konten anlegen").click()
    slips = page.locator(".slip")
    expect(slips).to_have_count(6)
    today = page.evaluate("new Intl.DateTimeFormat('de', {dateStyle: 'long'}).format(new Date())")
    expect(slips.first).to_contain_text(f"Riverside School · {today}")
    expect(slips.first).to_contain_text(
        re.compile(r"hier anmelden: 127\.0\.0\.1:\d+/account$", re.M)
    )
    for paper in ("A4", "Letter"):
        assert len(re.findall(rb"/Type\s*/Page\b", page.pdf(format=paper))) == 1, paper
    # As wide as on US Letter: 216 mm without the margins, 96 dots to 25.4 mm.
    page.set_viewport_size({"width": 725, "height": 960})
    page.emulate_media(media="print")
    for slip in (slips.first, slips.last):
        tall, room = slip.evaluate("slip => [slip.scrollHeight, slip.clientHeight]")
        assert tall <= room
        assert slip.locator("img").bounding_box()["width"] > 25 / 25.4 * 96
    hosts = slips.last.locator("[data-text=host]")
    hosts.first.evaluate("host => void (host.textContent = 'learn.riverside.school.test')")
    for words in ("Benutzername", "/reset-password"):
        place = slips.last.get_by_text(words, exact=True)
        assert place.evaluate("each => each.getClientRects().length") == 1  # not broken
    page.once("dialog", lambda dialog: dialog.accept())


def test_a_school_list_is_read_without_the_columns_that_are_not_used(signed_in, app):
    page = signed_in("admin#newcomers", username="principal", role="admin", language="de").page
    text = "Nr.;Name;Vorname;Klasse;Geb.\n1;Müller;Jörg;6b;3.4.2014\n2;Öz;Elif;6b;1.2.2014\n"
    page.locator("#paste-list").fill(text)
    page.get_by_role("button", name="Liste prüfen").click()
    expect(page.locator("#lines-summary")).to_contain_text(
        re.compile(
            r"2 Zeilen\. 2 Personen haben keine .* Gruppen: 6b \(neu\): 2\. "
            r"Nicht verwendet: Nr\., Geb\.$"
        )
    )
    page.get_by_role("button", name="2 Konten anlegen").click()
    expect(page.locator(".slip h3")).to_have_text(["Jörg Müller", "Elif Öz"])
    expect(page.locator(".slip").first).to_contain_text("· 6b")
    assert users(app)["joerg.mueller"].last_name == "Müller"
    page.once("dialog", lambda dialog: dialog.accept())


def test_each_line_goes_into_the_group_of_its_name(newcomers, make_group, app):
    page = newcomers
    old, _, _ = make_group("6b"), make_group("8c"), make_group("8c")
    page.get_by_role("radio", name="A link and a code").check()
    lines = ["First name;Last name;Class", "Ann;Lee;6B", "Mia;Oh;7a", "Jo;Bo;7a", "Al;Li;"]
    check(page, "\n".join([*lines, "No;Go;8c"]))
    summary = page.locator("#lines-summary")
    expect(summary).to_contain_text("Groups: 6b: 1, 7a (new): 2, 8c: 1.")
    wrong = page.locator("#lines tbody tr").last
    expect(wrong).to_contain_text("Group: Two groups have this name.")
    page.locator("#paste-list").fill("\n".join(lines))
    page.get_by_role("button", name="Check the list").click()

    def delete_old(route):
        execute(app, delete(Group).where(Group.id == old))
        route.continue_()

    page.route("**/members/**", delete_old, times=1)
    page.get_by_role("button", name="Create 4 accounts").click()
    expect(page.locator("#make [role=alert]")).to_contain_text("The group no longer exists")
    for _ in range(2):  # also when the rest is checked anew
        expect(summary).to_contain_text("Groups: 6B (new): 1, 7a (new): 2.")
        page.get_by_role("button", name="Check the list").click()
    page.route("**/api/groups", lambda route: route.abort(), times=1)  # after all is made
    page.get_by_role("button", name="Create 4 accounts").click()
    expect(page.locator(".slip")).to_have_count(4)
    names = {row.id: row.name for row in rows(app, Group)}
    made = {user.id: user.first_name for user in rows(app, User)}
    placed = sorted((names[row.group_id], made[row.user_id]) for row in rows(app, Membership))
    assert placed == [("6B", "Ann"), ("7a", "Jo"), ("7a", "Mia")]
    assert sorted(names.values()) == ["6B", "7a", "8c", "8c"]
    page.once("dialog", lambda dialog: dialog.accept())


def test_names_can_be_read_the_other_way_round(newcomers, app):
    page = newcomers
    check(page, "Müller;Jörg\nÖz;Elif\n")
    names = page.locator("#lines tbody tr").first.locator("td")
    expect(names.nth(0)).to_have_text("Müller")
    page.get_by_label("The last name comes first").check()
    expect(names.nth(0)).to_have_text("Jörg")
    page.get_by_role("button", name="Create 2 accounts").click()
    expect(page.locator(".slip h3")).to_have_text(["Jörg Müller", "Elif Öz"])
    assert users(app)["jorg.muller"].last_name == "Müller"
    expect(page.get_by_label("The last name comes first")).not_to_be_checked()
    page.once("dialog", lambda dialog: dialog.accept())


def test_who_is_listed_twice_or_known_already_is_pointed_out(newcomers, make_user):
    page, lines = newcomers, newcomers.locator("#lines tbody tr")
    make_user("mia", first_name="Mia", last_name="Lee", email="mia@example.org")
    check(page, "Tim;Wolf\nTim;WOLF;tim\nMia;Lee;mia\nAda;Oh;ada;mia@example.org")
    expect(lines.get_by_text("the same person?").filter(visible=True)).to_have_count(2)
    page.get_by_role("button", name="Create 4 accounts").click()
    expect(lines.get_by_role("link", name="Mia Lee")).to_have_count(2)
    form = page.locator("#newcomer")
    for label, value in {"First name": "Mia", "Last name": "Lee", "Username": "mia"}.items():
        form.get_by_label(label).fill(value)
    form.get_by_label("Has no e-mail address").check()
    form.get_by_role("button", name="Create the account").click()
    form.get_by_role("link", name="Mia Lee").click()
    expect(page.get_by_role("heading", name="Mia Lee")).to_be_visible()
    page.go_back()
    expect(page.locator("#paste-list")).to_have_value("Mia;Lee;mia;\nAda;Oh;ada;mia@example.org")
    page.once("dialog", lambda dialog: dialog.accept())


def test_a_list_that_broke_off_goes_on_where_it_was(newcomers, app, make_user):
    """The answer of the third account is lost, and a name is taken."""
    page = newcomers
    make_user("taken", email="taken@no-mail.invalid")
    calls = []

    def answer(route):
        calls.append(route.request)
        if len(calls) == 3:
            route.fetch()
            return route.abort()
        return route.continue_()

    page.route(lambda url: url.endswith("/api/users"), answer)
    lines = ["Ann,ann,Lee", "", "Mia,taken,Lee", "Mia,,Lee,mia@schüle.example", "Mia,,Lee"]
    check(page, "\n".join(["First name,Username,Last name,E-mail", *lines]))
    page.get_by_role("button", name="Create 4 accounts").click()
    alert, field = page.locator("#make [role=alert]"), page.locator("#paste-list")
    expect(alert).to_contain_text("did not respond")
    assert users(app).keys() == {"ann", "taken", "mia.lee"}
    expect(page.locator("#lines-summary")).to_contain_text(
        "2 lines. One has a mistake. 2 people have no e-mail address and get a code. "
        "The answer for one account was lost"
    )
    expect(field).to_have_value("Mia;Lee;taken;\nMia;Lee;mia.lee2;")
    expect(field).to_be_focused()
    expect(page.locator("#lines .error").nth(0)).to_have_text(
        "Username: Somebody has this username already. Choose another one."
    )
    correct(page, "taken", "cid")
    page.get_by_role("button", name="Check the list").click()
    page.get_by_role("button", name="Create 3 accounts").click()
    expect(page.locator(".slip")).to_have_count(3)
    expect(field).to_have_value("")
    assert users(app).keys() == {"ann", "taken", "cid", "mia.lee", "mia.lee2"}
    page.once("dialog", lambda dialog: dialog.accept())


def test_a_strangers_account_is_not_taken_for_one_of_the_list(newcomers, app, make_user):
    """It came by a provider that vouches for nothing, while an answer was lost."""
    page, calls = newcomers, []
    now = datetime.now(UTC)
    make_user("mia", email="mia@evil.example", password_hash="!", last_login_at=now)

    def lose(route):
        calls.append(route.request)
        route.abort() if len(calls) < 2 else route.continue_()

    page.route(lambda url: url.endswith("/api/users"), lose)
    page.get_by_label("A link and a code to hand over").check()
    check(page, "First name,Username,Last name,E-mail\nMia,mia,Lee,mia@school.example")
    page.get_by_role("button", name="Create one account").click()
    expect(page.locator("#make [role=alert]")).to_contain_text("did not respond")
    page.get_by_role("button", name="Create one account").click()
    expect(page.locator("#lines .error").first).to_have_text(
        "Username: Somebody has this username already. Choose another one."
    )
    expect(page.locator(".slip")).to_have_count(0)


def test_a_wrong_list_is_taken_back_but_for_who_has_used_the_account(newcomers, app):
    page, button = newcomers, newcomers.locator("#take-back button")
    page.get_by_role("radio", name="A link and a code").check()
    for text, made, slips in (("Eva;Old", "one", 1), ("Ann;Lee\nBen;Oh\nCid;Lu", "3", 4)):
        check(page, text)
        page.get_by_role("button", name=f"Create {made} account").click()
        expect(page.locator(".slip")).to_have_count(slips)
    execute(app, update(User).filter_by(username="ben.oh").values(last_login_at=utcnow()))
    page.route("**/api/users/removals", lambda route: route.abort(), times=1)
    button.click()
    alert = page.locator("#take-back [role=alert]")
    expect(alert).to_contain_text("it may have been done")
    button.click()
    expect(page.locator("#lines-summary")).to_have_text(re.compile("done for 2 of 3.$"))
    expect(page.locator("#kept li")).to_have_text(re.compile("^Ben Oh Somebody uses this account"))
    expect(button).to_be_hidden()
    expect(page.locator(".slip h3")).to_have_text(["Eva Old", "Ben Oh"])
    assert users(app).keys() == {"eva.old", "ben.oh"}  # the list before stays
    page.once("dialog", lambda dialog: dialog.accept())


def test_one_person_without_an_address_gets_a_code(newcomers, app):
    page = newcomers
    form = page.locator("#newcomer")
    form.get_by_label("First name").fill("Łukasz")
    form.get_by_label("Last name").fill("Ōe")
    expect(form.get_by_label("Username")).to_have_value("lukasz.oe")
    form.get_by_label("Username").fill("luk")
    form.get_by_label("Last name").press("End")
    form.get_by_label("Last name").press_sequentially("e")
    expect(form.get_by_label("Username")).to_have_value("luk")
    by_hand = page.get_by_role("radio", name="A link and a code")
    by_hand.check()
    page.locator("#options").get_by_label("Role").select_option("Admin")
    expect(by_hand).to_be_disabled()
    page.locator("#options").get_by_label("Role").select_option("Student")
    expect(page.get_by_role("radio", name="An invitation")).to_be_checked()
    form.get_by_label("Has no e-mail address").check()
    expect(form.get_by_label("E-mail address", exact=True)).to_be_hidden()
    form.get_by_role("button", name="Create the account").click()
    expect(page.locator(".slip")).to_contain_text("luk")
    assert users(app)["luk"].email == "luk@no-mail.invalid"
    page.get_by_role("button", name="Remove the codes").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove the codes").click()
    expect(page.locator(".slip")).to_have_count(0)


@pytest.mark.parametrize(
    ("text", "people"),
    [
        ("Ann,Lee,ann,a@b.example", ["1 Ann|Lee|ann|a@b.example"]),
        (
            '"Lee; A";"say ""x"""\r\n\r\n"5" foot;B\n',
            ['1 Lee; A|say "x"|lee-a.say-x|', '3 "5" foot|B|5-foot.b|'],
        ),
        ("Nach\tE-Mail\tVor\nLee\ta@b.example\tAnn", ["2 Ann|Lee|ann.lee|a@b.example"]),
        ("username,firstName,lastName\nann,Ann,Lee", ["2 Ann|Lee|ann|"]),
        ("Ann,Lee,a@b.example", ["1 Ann|Lee|ann.lee|a@b.example"]),
        ('\n\tOh\n"Ann\nM."\tLee;al\nJo;Oh', ["2 !|Oh||", "3 Ann M.|Lee|al!|", "5 Jo|Oh|jo.oh|"]),
        ("Ann,Lee,ann,a@b.example,more", ["1 Ann|Lee|ann|a@b.example"]),
        ("R2;D2;r2d2", ["1 R2|D2|r2d2|"]),
    ],
)
def test_lists_of_spreadsheets_are_read(newcomers, text, people):
    """Each person has the number of the line; `!` marks a cell with a mistake."""
    read = """async ([text, labels]) => {
        const { COLUMNS, listOf, parse } = await import("./static/pasted-list.js");
        const all = (list) => parse(list, labels).people;
        const cell = (person, name) => person[name] + (person.reasons[name] ? "!" : "");
        const cells = (person) => COLUMNS.map((name) => cell(person, name)).join("|");
        const said = (list) => list.map((person) => `${person.number} ${cells(person)}`);
        return [said(all(text)), said(all(listOf(all(text), labels)))];
    }"""
    found, again = newcomers.evaluate(read, [text, LABELS])
    assert found == people
    # What is written into the field can be read again, a line for each person.
    assert [line.split(" ", 1)[1] for line in again] == [line.split(" ", 1)[1] for line in people]


@pytest.mark.parametrize(
    ("text", "left_out"),
    [
        ("Name\tVorname\nLee\tAnn", []),
        ("Name;Surname\nAnn;Lee", []),
        ("Familienname;Rufname;Klasse\nLee;Ann;6b", []),
        ("Forename,Surname,,DOB\nAnn,Lee,x,", ["x…"]),
        ("NOM;Prénom;Classe\nLee;Ann;6e", []),
        ("Nom de famille;PRENOM(S)\nLee;Ann", []),
        ("Apellido 1;Apellido 2;Nombre\nLee;Oh;Ann", ["Apellido 2"]),
        ("First Name [Required],Last Name [Required],Status\nAnn,Lee,on", ["Status"]),
        ("Name;Vorname;Nachname\nAnn Lee;Ann;Lee", ["Name"]),
        ("Ann;Lee\nVorname;Name\nAnn;Lee", []),
        # without headings
        ("1;Lee;Ann;6b\n2;Lee;Ann;6b", ["1…", "6b…"]),
        ("6b;Lee;Ann;1.2.2014;x@b.example\n6a;Lee;Ann;2.2.2014;", ["6b…", "1.2.2014…"]),
    ],
)
def test_headings_are_no_person_and_say_which_column_is_which(newcomers, text, left_out):
    """The page is in English, whatever the language of the list."""
    read = """async (text) => {
        const { parse } = await import("./static/pasted-list.js");
        const labels = { firstName: "First", lastName: "Last", username: "User", email: "Address" };
        const { people, leftOut } = parse(text, labels);
        return [people.map(({ firstName, lastName }) => `${firstName} ${lastName}`), leftOut];
    }"""
    people, columns = newcomers.evaluate(read, text)
    # Nobody says which of two names without headings is the first.
    assert set(people) == ({"Lee Ann"} if "@" in text or text.startswith("1") else {"Ann Lee"})
    assert columns == left_out


def test_an_excel_file_is_refused_with_what_to_do(newcomers):
    file = {"name": "class.xlsx", "mimeType": "", "buffer": b"PK\x03\x04\x14\x00\x06\xff"}
    newcomers.locator("#paste-file").set_input_files(file)
    expect(newcomers.locator("#paste [role=alert]")).to_have_text(
        "This is an Excel file: copy the cells and paste them."
    )
    expect(newcomers.locator("#paste-list")).to_have_value("")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "cp1252"])
def test_a_file_is_read_whatever_its_encoding(newcomers, encoding):
    text = "firstName;lastName\nZoë;Müller\n".encode(encoding)
    file = {"name": "class.csv", "mimeType": "text/csv", "buffer": text}
    newcomers.locator("#paste-file").set_input_files(file)
    expect(newcomers.locator("#lines tbody tr")).to_have_text(
        re.compile(r"^2\s+Zoë\s+Müller\s+zoe.muller\s*$"), use_inner_text=True
    )
    asked = []
    newcomers.on("dialog", lambda dialog: (asked.append(dialog.type), dialog.accept()))
    newcomers.reload()
    assert asked == ["beforeunload"]


def test_a_service_key_is_listed_and_revoked(signed_in, make_key, client):
    key = make_key("users:read", name="courses")
    page = signed_in("admin#keys", role="admin").page
    row = page.locator("#keys-list tbody tr")
    expect(row).to_contain_text(re.compile("courses.*users:read.*never.*never", re.S))
    row.get_by_role("button", name="Revoke the key courses").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("courses")
    dialog.get_by_role("button", name="Revoke").click()
    expect(page.get_by_text("There are no API keys.")).to_be_visible()
    expect(page.locator("#keys [role=status]").first).to_have_text("The key has been revoked.")
    headers = {"Authorization": f"Bearer {key}"}
    failure(client.get("/api/users", headers=headers), 401, "token_invalid")
