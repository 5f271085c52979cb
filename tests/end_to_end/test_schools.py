"""docs/schools.md: its commands, in a shell beside a running service, and its year in a browser."""

import json
import re
import shutil

import pytest
from helpers import NEW_PASSWORD, PASSWORD
from playwright.sync_api import expect
from real_service import PATIENCE, deployed, empty_database
from test_readme_walk import paste

from config import ROOT, load

PAGE = (ROOT / "docs/schools.md").read_text()
CLASS = "\n".join(["First name;Last name", *(f"Pupil;Number{each:02}" for each in range(1, 31))])


def blocks():
    return re.findall(r"^```sh\n(.*?)^```", PAGE, re.M | re.S)


def settings():
    """Return the settings that the page names for a school with groups."""
    lines = blocks()[1].splitlines()
    names = dict(line.split("#")[0].strip().split("=", 1) for line in lines)
    assert load({**names, "TEMPLATES_DIR": ""}).site_name == "Example School"
    return names


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
@pytest.mark.parametrize("service", ["sqlite"], indirect=True)
def test_a_school_gets_a_class_without_mail_through_a_year(service, mail_server, tmp_path):
    shell, _, *commands = blocks()
    # The files of the page go into a folder of this test.
    shell = shell.replace(".venv", f"env -C {ROOT} .venv")
    printed = paste("\n".join((shell, f"cd {tmp_path}", *commands)), service, patience=5 * PATIENCE)
    assert "kim@school.example gets an invitation." in printed
    line = r"https?://\S+/reset-password#token=\S+\n([A-Z0-9-]{14})$"
    handed_out = dict(re.findall(rf"^\w+ \w+, username (\w+):\n{line}", printed, re.M))
    assert handed_out.keys() == {"ben", "mia"}
    mail_server.wait_for("kim@school.example", "Your account at 127.0.0.1")
    assert "can log in: no: no_password" in printed

    # Both are deactivated or gone by now, and Mia's second code has ended the first one before.
    *_, second = re.findall(line, printed, re.M)
    for account, code in (*handed_out.items(), ("mia", second)):
        body = {"account": account, "code": code, "newPassword": NEW_PASSWORD}
        assert service.call("POST", "/api/auth/reset-password", body).status == 400
    assert (tmp_path / "mia.json").stat().st_mode & 0o777 == 0o600
    exported = json.loads((tmp_path / "mia.json").read_text())
    assert exported["account"]["email"] == "mia@class.invalid"
    listed = [line.split("\t") for line in printed.splitlines() if line.count("\t") == 7]
    addresses = {line[1]: line[2] for line in listed}
    assert addresses["ben"] == "ben@home.example"
    assert "mia" not in addresses
    assert "ben is inactive.\nnot all were there\n" in printed
    assert not (tmp_path / "sheet.txt").exists()


@pytest.fixture
def school(request, tmp_path, mail_server):
    """A service with the settings of the page, and its staff."""
    url = empty_database(request, tmp_path, "sqlite")
    with deployed(url, mail_server.port, tmp_path / "log", **settings()) as service:
        for name, role in (("secretary", "admin"), ("kim", "instructor"), ("lou", "instructor")):
            who = f"--username {name} --email {name}@school.example --role {role}"
            command = f".venv/bin/flask users create {who} --first-name {name} --last-name Staff"
            paste(command, service, f"{PASSWORD}\n")
        yield service


@pytest.fixture
def base_url(school):
    return school.url


@pytest.fixture
def visit(browser, school):
    """Open a page on a device of somebody's own, and sign in there; return the page."""
    contexts = []

    def visit(at, account, password=PASSWORD):
        contexts.append(browser.new_context(accept_downloads=True))
        page = contexts[-1].new_page()
        page.on("dialog", lambda dialog: dialog.accept())  # codes are on the screen
        page.goto(f"{school.url}/{at}")
        sign_in(page, account, password)
        expect(page.locator("#sign-out")).to_be_visible()
        return page

    yield visit
    for context in contexts:
        context.close()


def choose(page, search, count):
    """Search in the list of people, and tick all who are found, and nobody else."""
    page.locator("nav").get_by_role("link", name="People", exact=True).click()
    expect(page.locator("#people-list tbody tr")).to_have_count(33)
    clear = page.get_by_role("button", name="Clear")
    if clear.is_visible():
        clear.click()
        expect(clear).to_be_hidden()
    page.locator("#people-search").fill(search)
    expect(page.locator("#people-list tbody tr")).to_have_count(count)
    page.get_by_label("All on this page").check()


def act(page, button, count, group=""):
    page.locator("#people-acts").get_by_role("button", name=button).click()
    dialog = page.get_by_role("dialog")
    if group:
        dialog.get_by_label("Into the group").select_option(group)
    dialog.get_by_role("button", name=button).click()
    expect(dialog).to_be_hidden()
    expect(page.locator("#people-done")).to_contain_text(
        re.compile(rf"\b{count} (person|people)\b")
    )


def sign_in(page, account, password):
    form = page.locator("#sign-in form")
    form.locator("[name=email]").fill(account)
    form.locator("[name=password]").fill(password)
    form.locator("[name=password]").press("Enter")


def codes_on(page):
    found = page.locator(".slip").all_inner_texts()
    return {re.search(r"Username\n(\S+)", slip)[1]: slip for slip in found}


@pytest.mark.browser
def test_a_school_year_with_groups(browser, school, visit):
    """What the page says of each month, as its people do it."""
    said = " ".join(re.search(r"^## A school year.*?\n(.*?)^## ", PAGE, re.M | re.S)[1].split())
    words = (ROOT / "templates/en/admin.txt").read_text()
    assert [each for each in re.findall('"(.*?)"', said) if f'"{each}"' not in words] == []

    office = visit("admin#groups", "secretary")  # August
    for name in ("7b", "7c"):
        office.get_by_label("Name of a new group").fill(name)
        office.get_by_role("button", name="Create the group").click()
        expect(office.get_by_role("link", name=name)).to_be_visible()
    office.get_by_role("link", name="Add people").click()
    office.get_by_label("A link and a code to hand over").check()
    office.locator("#options-groupId").select_option("7b")
    office.locator("#paste-list").fill(CLASS)
    office.get_by_role("button", name="Check the list").click()
    office.get_by_role("button", name="Create 30 accounts").click()
    expect(office.get_by_role("heading", name="Codes to hand over")).to_be_focused()
    slips = codes_on(office)
    assert len(slips) == 30
    for name, group in (("kim", "7b"), ("lou", "7c")):
        choose(office, name, 1)
        act(office, "Add to a group", 1, group)

    slip = slips["pupil.number01"]  # September
    assert "7b" in slip
    pupil = browser.new_context().new_page()
    pupil.goto("http://" + re.search(r"127\S+/reset-password", slip)[0])
    pupil.locator("[name=account]").fill("pupil.number01")
    pupil.locator("[name=code]").fill(re.search(r"Code\n(\S+)", slip)[1])
    pupil.locator("[name=newPassword]").fill(NEW_PASSWORD)
    pupil.locator("[name=newPassword]").press("Enter")
    expect(pupil.get_by_role("button", name="Sign out")).to_be_visible()
    pupil.context.close()
    pupil = visit("account#profile", "pupil.number01", NEW_PASSWORD)
    expect(pupil.get_by_label("About you")).to_be_visible()
    expect(pupil.get_by_label("Location")).to_be_hidden()
    expect(pupil.locator("#profile-firstName")).to_be_hidden()

    kim = visit("admin", "kim")
    kim.get_by_role("link", name="7b").click()
    kim.get_by_role("link", name="All members").click()
    expect(kim.locator("#people-list tbody tr")).to_have_count(30)
    kim.get_by_label("All on this page").check()
    kim.locator("#people-acts").get_by_role("button", name="Slips with codes").click()
    kim.get_by_role("dialog").get_by_role("button", name="Slips with codes").click()
    expect(kim.get_by_role("heading", name="Codes to hand over")).to_be_focused()
    assert len(codes_on(kim)) == 30

    token = school.log_in({"email": "kim", "password": PASSWORD}).data["accessToken"]
    found = school.call("GET", "/api/users?username=pupil.number02", token=token)
    path = f"/api/users/{found.data['users'][0]['id']}"
    for part, body in (("", {"name": "SQL", "lessons": 2}), ("/lessons/one", {"minutes": 20})):
        assert school.call("PUT", f"{path}/courses/sql{part}", body, token=token).status == 201
    kim.locator("nav").get_by_role("link", name="Groups").click()  # every Monday
    kim.get_by_role("link", name="7b").click()
    line = kim.get_by_role("row", name="Number02, Pupil")
    expect(line.locator(".whole")).to_have_text(["1", "20"])
    line.get_by_role("link").click()
    expect(kim.locator("#person-learning")).to_contain_text("1 of 2 lessons completed")

    choose(office, "Number02", 1)  # February
    act(office, "Move", 1, "7c")
    assert school.call("GET", f"{path}/account", token=token).status == 403
    lou = visit("admin", "lou")
    lou.get_by_role("link", name="7c").click()
    expect(lou.get_by_role("link", name="Number02, Pupil").last).to_be_visible()

    office.locator("#people-search").fill("Number")  # July
    office.locator("#people-groupId").select_option("7b")
    expect(office.locator("#people-list tbody tr")).to_have_count(29)
    with office.expect_download() as saved:
        office.get_by_role("button", name="Save as CSV").click()
    assert "Number30" in saved.value.path().read_text()
    choose(office, "Number1", 10)
    act(office, "Deactivate", 10)
    office.locator("nav").get_by_role("link", name="Groups").click()
    office.get_by_role("link", name="7b").click()
    expect(office.locator("#groups-week tbody tr")).to_have_count(19)
    office.get_by_role("button", name="Rename the group").click()
    office.get_by_role("dialog").get_by_label("Name").fill("8b")
    office.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(office.get_by_role("heading", name="8b")).to_be_visible()
