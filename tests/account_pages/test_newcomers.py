"""Admins add people, one or a list, and hand over codes; they see and revoke service keys.

What the service makes of a list is shown in the tests of its reader and of the call.
"""

import re

import pytest
from helpers import NEW_PASSWORD, PASSWORD, alter, answer, execute, failure, lose, rows, success
from playwright.sync_api import expect
from sqlalchemy import update

from core.clock import utcnow
from models import Membership, User

pytestmark = pytest.mark.browser

APPLY = re.compile("apply=true")
CLASS = "First name;Last name;Class;No.\nMia;Okoro;7a;1\nTim;5e;7a;2\nZoë;Åström;;3\n"
FACTS = (
    "New: 2 · Without an e-mail address: 2 · Left out: 1 · In no group: 1 · Groups: 7a (new): 1 · "
    "Columns not used: No."
)
HEADS = "First name;Last name;Username;E-mail\n"
# Two of them have nothing but their names.
FOUR = f"{HEADS}Ann;Lee\nMia;Lee;;m@school.example\nBen;Oh;ben\nMia;Lee"
LONG = "Bernhardine-Wilhelmine " * 2 + "von Hoheneck"


@pytest.fixture
def newcomers(signed_in):
    """Open the section as an admin, for slips; return the page, which may be left."""
    page = signed_in("admin#newcomers", username="principal", role="admin").page
    page.get_by_role("radio", name="A link and a code").check()
    page.on("dialog", lambda dialog: dialog.accept())
    return page


def press(page, name):
    page.get_by_role("button", name=name).click()


def check(page, text):
    page.locator("#paste-list").fill(text)
    press(page, "Check the list")
    expect(page.locator("#lines h3")).to_be_focused()


def users(app):
    return {user.username: user for user in rows(app, User) if user.username != "principal"}


def test_a_class_is_checked_made_and_gets_a_sheet_of_codes(newcomers, app, client):
    page, lines = newcomers, newcomers.locator("#lines tbody tr")
    field, summary = page.locator("#paste-list"), page.locator("#lines-summary")
    check(page, CLASS)
    expect(summary).to_have_text(FACTS)
    texts = (r"3\s+Tim\s+5e.*Last name: This looks like a class", "2.*mia.okoro.*New", "4.*astrom")
    expect(lines).to_have_text([re.compile(text, re.S) for text in texts])
    lines.first.get_by_role("button").click()
    expect(field).to_be_focused()
    assert page.evaluate("getSelection().toString()") == "Tim;5e;7a;2"
    expect(field).to_have_accessible_description(re.compile("This looks like a class"))
    assert users(app) == {}
    press(page, "Create 2 accounts, leave out 1")
    expect(page.get_by_role("heading", name="Codes to hand over")).to_be_focused()
    expect(summary).to_have_text(f"Done. {FACTS}")
    expect(lines.first).to_contain_text("This looks like a class")
    expect(page.locator("#make")).to_be_hidden()
    check(page, field.input_value().replace("5e", "Lee"))
    press(page, "Create one account, leave out 2")  # names alone may be somebody else's
    slips = page.locator(".slip")
    expect(slips).to_have_count(3)
    assert users(app).keys() == {"mia.okoro", "zoe.astrom", "tim.lee"}
    text = re.compile(r"· 7a\s+Mia Okoro.*127\.0\.0\.1:\d+/reset-password", re.S)
    expect(slips.first).to_contain_text(text)
    picture = slips.first.locator("img")
    assert picture.evaluate("async (image) => (await image.decode(), image.width > 0)")
    code = slips.first.locator(".code").inner_text()
    body = {"account": "mia.okoro", "code": code, "newPassword": NEW_PASSWORD}
    success(client.post("/api/auth/reset-password", json=body))


def test_six_slips_fit_a_page_and_say_where_from_and_where_to(
    signed_in, change_settings, make_group
):
    change_settings(site_name="Riverside School")
    group = make_group("7b")
    page = signed_in("admin#newcomers", role="admin", language="de").page
    page.get_by_role("radio", name="Link und Code").check()
    page.locator("#options-groupId").select_option(group)
    people = [f"{LONG};{LONG};{'w' * 32}", *(f"Mia;Lee{number}" for number in range(5))]
    page.locator("#paste-list").fill("\n".join(people))
    page.get_by_role("button", name="Liste prüfen").click()
    page.get_by_role("button", name="6 Konten anlegen").click()
    slips = page.locator(".slip")
    expect(slips).to_have_count(6)
    today = page.evaluate("new Intl.DateTimeFormat('de', {dateStyle: 'long'}).format(new Date())")
    expect(slips.first).to_contain_text(f"Riverside School · {today} · 7b")
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


@pytest.mark.parametrize(("encoding", "is_dropped"), [("utf-16", False), ("cp1252", True)])
def test_the_bytes_of_a_file_are_checked_and_made_as_they_are(newcomers, app, encoding, is_dropped):
    page, sent = newcomers, []

    def note(route):
        sent.append((*route.request.url.split("apply="), route.request.post_data_buffer))
        route.continue_()

    page.route("**/api/users/lists?*", note)
    page.locator("#options-language").select_option("de")
    page.get_by_label("The last name comes first").check()
    page.locator("#paste-list").fill("left")
    content = "Müller;Jörg\nÖz;Elif\n".encode(encoding)
    if is_dropped:
        script = """bytes => { const data = new DataTransfer();
            data.items.add(new File([new Uint8Array(bytes)], "class.csv")); return data; }"""
        data = page.evaluate_handle(script, [*content])
        page.dispatch_event("#paste-list", "drop", {"dataTransfer": data})
    else:
        file = {"name": "class.csv", "mimeType": "", "buffer": content}
        page.locator("#paste-file").set_input_files(file)
    expect(page.locator("#lines tbody tr").first).to_contain_text("joerg.mueller")
    expect(page.locator("#lines tbody button")).to_have_count(0)  # there is no text to go to
    expect(page.locator("#paste-list")).to_have_value("")
    press(page, "Create 2 accounts")
    expect(page.locator(".slip h3")).to_have_text(["Jörg Müller", "Elif Öz"])
    (query, *first), (again, *second) = sent
    assert (query, [first, second]) == (again, [["false", content], ["true", content]])
    assert users(app)["elif.oez"].language == "de"


def test_what_cannot_be_read_is_refused_with_what_to_do(newcomers, tmp_path):
    file, alert = newcomers.locator("#paste-file"), newcomers.locator("#paste [role=alert]")
    for name, content, text in (
        ("class.xlsx", b"PK\x03\x04\x14\x00\x06\xff", "Copy the cells and paste them"),
        ("large.csv", b"Ann;Lee\n" * 300_000, "The file is too large."),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        file.set_input_files(path)
        expect(alert).to_contain_text(text)
    path.write_text("changed since")
    press(newcomers, "Check the list")
    expect(file).to_have_accessible_description("Choose a file first.")
    expect(newcomers.locator("#lines")).to_be_hidden()
    check(newcomers, "Ann;Lee")  # in place of the file


def test_nothing_is_made_that_was_not_checked(newcomers, app):
    page, make = newcomers, newcomers.locator("#make")
    for change in (
        lambda: page.locator("#options-role").select_option("instructor"),
        lambda: page.get_by_role("radio", name="Later").check(),
        lambda: page.locator("#paste-list").press_sequentially("x"),
        lambda: page.get_by_label("The last name comes first").check(),
    ):
        check(page, "Müller;Jörg")
        expect(make).to_be_visible()
        change()
        expect(make).to_be_hidden()
    check(page, "Müller;Jörg")
    press(page, "Create one account")
    expect(page.locator("#lines-summary")).to_contain_text("Done. New: 1")
    assert users(app)["jorg.muller"].role == "instructor"


def test_who_is_known_already_is_told_from_who_is_in_the_way(newcomers, make_user, app):
    page, lines, mail = newcomers, newcomers.locator("#lines tbody tr"), "mia@school.example"
    make_user("mia", first_name="Mia", email=mail, password_hash="!")
    make_user("tim", first_name="Tim", last_name="Oh")
    check(page, f"{HEADS}Mia;Lee;may;{mail}\nTim;Wolf;tim;tim@school.example\nNo;One")
    texts = (
        "3.*Somebody has this username already.*Show the account",
        "2.*Changed: Last name · Stays as it was: Username",
        "4.*no.one.*None.*New",
    )
    expect(lines).to_have_text([re.compile(text, re.S) for text in texts])
    press(page, "Create one account, change 1, leave out 1")
    expect(page.locator(".slip")).to_have_count(1)
    assert users(app)["mia"].last_name == "Lee"
    lines.get_by_role("link", name="Show the account").click()
    expect(page.get_by_role("heading", name="Tim Oh")).to_be_visible()
    page.go_back()
    press(page, "Check the list")
    expect(page.locator("#lines-summary")).to_contain_text("Unchanged: 1")


def refuse(route):
    route.abort()


@pytest.mark.parametrize(
    ("fate", "said"),
    [
        (lose, "Perhaps only a part is done. Press again"),
        (refuse, "Perhaps only a part is done"),
        (answer(503), "nothing is done twice"),
        (answer(429, **{"Retry-After": "120"}), "Try again in 2 minutes"),
    ],
)
def test_a_list_that_broke_off_is_done_by_the_same_button(newcomers, app, make_user, fate, said):
    """Also of those who have nothing but their names, and not for a stranger of such a name."""
    page, slips = newcomers, 3 if fate is refuse else 4
    check(page, FOUR)
    page.route(APPLY, fate, times=1)
    press(page, "Create 4 accounts")
    expect(page.locator("#make [role=alert]")).to_contain_text(said)
    if fate is refuse:
        make_user("mia.lee2", first_name="Mia", last_name="Lee", last_login_at=utcnow())
    press(page, "Create 4 accounts")
    expect(page.locator(".slip")).to_have_count(slips)
    expect(page.locator("#lines td .error")).to_have_count(4 - slips)
    assert users(app).keys() == {"ann.lee", "mia.lee", "ben", "mia.lee2"}
    press(page, "Take these accounts back")
    expect(page.locator("#lines-summary")).to_contain_text(f"Undone for {slips} people.")


def test_slips_go_on_after_the_limit(newcomers, app):
    page, asked = newcomers, []
    check(page, "\n".join(f"Ann;Lee;ann{number}" for number in range(101)))

    def refuse_second(route):
        asked.append(len(route.request.post_data_json["ids"]))
        answer(429, **{"Retry-After": "3000"})(route) if len(asked) == 2 else route.continue_()

    page.route("**/api/users/access-links", refuse_second)
    for slips, said in ((100, "No more codes for now. Go on in 50 minutes."), (101, "")):
        press(page, "Create 101 accounts")
        expect(page.locator(".slip")).to_have_count(slips)
        expect(page.locator("#make [role=alert]")).to_have_text(said)
    assert (asked, len(users(app))) == ([100, 1, 1], 101)


def test_a_session_that_ended_loses_nothing_of_the_list(newcomers, app, make_user):
    page, (principal,) = newcomers, rows(app, User)
    make_user("deputy", role="admin")
    page.get_by_role("radio", name="An invitation").check()
    check(page, FOUR)

    def end(route):
        alter(app, principal, {"role": "student"}, {"role": "admin"})
        route.continue_()

    page.route(APPLY, end, times=1)
    press(page, "Create 4 accounts")
    expect(page.get_by_text("Your session has ended.")).to_be_visible()
    page.locator("#sign-in [name=password]").fill(PASSWORD)
    page.locator("#sign-in [name=password]").press("Enter")
    press(page, "Create 4 accounts")
    expect(page.locator(".slip")).to_have_count(3)  # one has an address


def test_a_reload_is_asked_about_and_another_users_turn_is_not(newcomers, base_url):
    page, asked, held, other = newcomers, [], [], newcomers.context.new_page()
    page.on("dialog", lambda dialog: asked.append(dialog.type))
    other.goto(f"{base_url}/admin#people")
    page.locator("#paste-list").fill("Ann;Lee")
    page.reload()
    assert asked == ["beforeunload"]
    expect(page.locator("#newcomers[aria-busy=false]")).to_be_visible()
    page.route(APPLY, lambda route: held.append(route))
    check(page, "Ann;Lee")
    press(page, "Create one account")
    expect(page.locator("#paste")).to_have_attribute("inert", "")
    other.locator("#sign-out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert len(asked) == len(held) == 1
    expect(page.locator("#paste-list")).to_have_value("")


def test_a_wrong_list_is_taken_back_but_for_who_has_used_the_account(newcomers, app):
    page, button = newcomers, newcomers.locator("#take-back button")
    for text, made, slips in (("Eva;Old", "one", 1), ("Ann;Lee\nBen;Oh\nCid;Lu", "3", 4)):
        check(page, text)
        expect(button).to_be_hidden()
        press(page, f"Create {made} account")
        expect(page.locator(".slip")).to_have_count(slips)
        expect(page.locator("#paste-list")).to_have_value("")
    execute(app, update(User).filter_by(username="ben.oh").values(last_login_at=utcnow()))
    page.route("**/api/users/removals", lambda route: route.abort(), times=1)
    button.click()
    expect(page.locator("#take-back [role=alert]")).to_contain_text("it may have been done")
    button.click()
    expect(page.locator("#lines-summary")).to_contain_text("Undone for 2 of 3 people.")
    left = re.compile("Ben.*Somebody uses this account", re.S)
    expect(page.locator("#lines tbody tr")).to_have_text(left)
    expect(button).to_be_hidden()
    expect(page.locator(".slip h3")).to_have_text(["Eva Old", "Ben Oh"])
    assert users(app).keys() == {"eva.old", "ben.oh"}  # the list before stays


def test_one_person_without_an_address_gets_a_code(newcomers, app):
    page, form = newcomers, newcomers.locator("#newcomer")
    check(page, "Name;Vorname;Klasse\nLee;Ann;7b")  # which makes the group
    press(page, "Create one account")
    first, last, username = (form.get_by_label(x) for x in ("First name", "Last name", "Username"))
    first.fill("Łukasz Jan")
    last.fill("O'Neil Ōe")
    expect(username).to_have_value("lukasz.oneil-oe")
    username.fill("principal")
    last.press_sequentially("e")
    expect(username).to_have_value("principal")
    role, by_hand = page.locator("#options-role"), page.get_by_role("radio", name="A link and")
    role.select_option("Admin")
    expect(by_hand).to_be_disabled()
    expect(page.locator("#paste")).to_be_hidden()  # no list makes admins
    role.select_option("Student")
    expect(page.get_by_role("radio", name="An invitation")).to_be_checked()
    page.locator("#options-groupId").select_option("7b")
    form.get_by_label("Has no e-mail address").check()
    expect(form.get_by_label("E-mail address", exact=True)).to_be_hidden()
    press(page, "Create the account")
    expect(form.get_by_role("link", name="First Last")).to_be_visible()  # the principal
    username.fill("luk")
    press(page, "Create the account")
    expect(page.locator(".slip").last).to_contain_text(re.compile("· 7b.*luk", re.S))
    assert users(app)["luk"].email == "luk@no-mail.invalid"
    assert len(rows(app, Membership)) == 2
    press(page, "Remove the codes")
    page.get_by_role("dialog").get_by_role("button", name="Remove the codes").click()
    expect(page.locator(".slip")).to_have_count(0)


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
