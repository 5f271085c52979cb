"""examples/nightly.py, which keeps accounts and groups in step with the school's system, and
examples/oneroster.py, which makes its file.
"""

import csv
import os
import subprocess
import sys
import uuid

import pytest
from helpers import execute, rows
from real_service import serving
from sqlalchemy import insert, update

from config import ROOT
from models import Group, Membership, User

SCRIPT = ROOT / "examples/nightly.py"
OURS = uuid.UUID(SCRIPT.read_text().partition('uuid.UUID("')[2][:36])
CHESS = "99999999-0000-4000-8000-000000000000"
CONVERTER = ROOT / "examples/oneroster.py"


def pupil(number, group, **more):
    names = {"externalId": f"S-{number}", "username": f"s{number:04}"}
    names |= {"email": f"s{number}@school.invalid", "firstName": "Åsa", "lastName": f"P {number}"}
    return {**names, "group": group, **more}


def group_id(name):
    return str(uuid.uuid5(OURS, name))


def write(path, lines):
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, lines[0].keys())
        table.writeheader()
        table.writerows(lines)


@pytest.fixture
def nightly(app, make_app, make_key, tmp_path):
    """Run the script with a file of these lines, or with this file; return what it says it did, in
    order, and the rows. With `refused`, that many calls or lines are, and standard error is said
    too.
    """
    scopes = "users:read", "users:write", "groups:write", "groups:staff"
    key, path = make_key(*scopes), tmp_path / "people.csv"

    def nightly(lines, *options, refused=0):
        if isinstance(lines, list):
            write(path, lines)
        else:
            path.write_text(lines)
        env = {**os.environ, "ACCOUNTS_URL": url, "ACCOUNTS_KEY": key}
        command = [sys.executable, SCRIPT, str(path), *options]
        ended = subprocess.run(command, env=env, text=True, capture_output=True, check=False)
        errors = ended.stderr.splitlines()
        assert (ended.returncode, len(errors)) == (1 if refused else 0, refused), ended.stderr
        said = sorted(ended.stdout.splitlines() + errors)
        return said, rows(app, User), rows(app, Membership)

    with serving(make_app(ratelimit_enabled=True, instructor_rights="groups")) as url:
        yield nightly


def who_is_where(there):
    """Return the usernames in each group."""
    names = {user.id: user.username for user in there[1]}
    found = {}
    for row in there[2]:
        found.setdefault(row.group_id, set()).add(names[row.user_id])
    return found


def test_a_school_year_begins_and_the_second_run_changes_nothing(app, nightly, make_user):
    before = [pupil(number, f"{2 + number % 40}a") for number in range(1000)]
    lines = [dict(line) for line in before[:800]]  # 200 leave
    for line in lines[10:60]:  # change the class, to one that is new
        line["group"] = "2b"
    lines[9]["lastName"] = "Other"
    lines += [pupil(number, f"1{'abcdef'[number % 6]}") for number in range(1000, 4000)]
    member = nightly(before)[1][8]
    # One has no number, and is found by the address; one who was away is back.
    execute(app, update(User).where(User.username == "s0007").values(external_id=None))
    execute(app, update(User).where(User.username == "s0006").values(is_active=False))
    teacher = make_user("teacher", role="instructor")
    execute(app, insert(Group).values(id=CHESS, name="Chess"))
    for user_id, group in ((teacher.id, group_id("2a")), (member.id, CHESS)):
        execute(app, insert(Membership).values(user_id=user_id, group_id=group))
    there = rows(app, User), rows(app, Membership)
    tried = nightly(lines, "--dry-run")
    assert tried[1:] == there
    done, *there = nightly(lines)
    acts = {"new 3000", "changed 3", "deactivated 200", "group 7", "joined 3050", "left 250"}
    assert done == tried[0]
    assert acts in ({*line.split(", ")} for line in done)
    assert nightly(lines) == (["nothing to do"], *there)
    users = {user.id: user for user in there[0]}
    assert {(users[row.user_id].username, row.group_id) for row in there[1]} == {
        *((line["username"], group_id(line["group"])) for line in lines),
        *(("teacher", group_id("2a")), (member.username, CHESS)),
    }
    active = {(user.external_id, user.last_name) for user in users.values() if user.is_active}
    assert active == {(line["externalId"], line["lastName"]) for line in lines} | {(None, "Last")}


def test_a_class_that_is_renamed_keeps_its_teacher_and_one_that_becomes_empty_is_named(
    app, nightly, make_user
):
    make_user("kim", role="instructor", external_id="T-1")
    deputy = make_user("deputy", role="instructor")
    kim = {**pupil(0, ""), "externalId": "T-1", "username": "kim", "email": "kim@example.org"}
    kim |= {"firstName": "First", "lastName": "Last", "role": "instructor"}

    def year(name, **more):
        pupils = [pupil(number, name, role="", **more) for number in (1, 2)]
        return [*pupils, pupil(3, "8", role="student", groupId=""), {**kim, "group": name, **more}]

    def done(lines):
        said, *there = nightly(lines)
        assert nightly(lines)[1:] == tuple(there)
        return said, who_is_where((said, *there))

    first, second = group_id("c-7"), group_id("c-7 next")
    _, there = done(year("7A", groupId="c-7"))
    class_8 = {group_id("8"): {"s0003"}}
    assert there == {first: {"s0001", "s0002", "kim"}, **class_8}
    execute(app, insert(Membership).values(user_id=deputy.id, group_id=first))
    said, there = done(year("7A blue", groupId="c-7"))
    assert said == ["renamed 1", "renamed: 7A to 7A blue"]
    assert there == {first: {"s0001", "s0002", "kim", "deputy"}, **class_8}
    # The group stays with who has no number; the others move.
    said, there = done(year("8A", groupId="c-7 next"))
    assert "empty: 7A blue" in said
    assert "group 1, joined 3, left 3, empty 1" in said
    assert there == {first: {"deputy"}, second: {"s0001", "s0002", "kim"}, **class_8}


def test_what_the_key_may_not_correct_is_named_and_counted(app, nightly, clock):
    lines = [pupil(number, "7a") for number in range(6)]
    nightly(lines)
    # One has a password, one has signed in with a provider, and one became a teacher.
    values = {1: {"password_hash": "x"}, 2: {"identity": "https://provider.example 1"}}
    values |= {3: {"role": "instructor"}, 4: {"last_login_at": clock.utcnow()}}
    for number, columns in values.items():
        execute(app, update(User).where(User.username == f"s{number:04}").values(**columns))
    for line in lines[:3] + lines[4:5]:
        line["email"] = line["email"].replace("s", "new", 1)
    lines[1]["username"] = "other"
    said, *there = nightly(lines)
    assert [line for line in said if line.startswith("differs")] == [
        "differs: S-1 Åsa P 1: email is s1@school.invalid, in the file new1@school.invalid",
        "differs: S-1 Åsa P 1: username is s0001, in the file other",
        "differs: S-2 Åsa P 2: email is s2@school.invalid, in the file new2@school.invalid",
        "differs: S-3 Åsa P 3: the account has the role instructor",
        "differs: S-4 Åsa P 4: email is s4@school.invalid, in the file new4@school.invalid",
    ]
    assert {"changed: S-0 Åsa P 0", "changed 1, differs 5"} < {*said}
    assert {user.username: user.email for user in there[0]} == {
        f"s{number:04}": f"{'new' if number == 0 else 's'}{number}@school.invalid"
        for number in range(6)
    }
    # It says so each night, and changes nothing.
    assert nightly(lines)[1:] == tuple(there)
    lines.append({**pupil(6, "7a"), "username": "!"})
    said, *after = nightly(lines, refused=1)
    assert after == there
    assert [line for line in said if line.startswith("new: S-6 Åsa P 6: {")]
    assert "differs 5, refused 1" in said


def test_an_account_is_taken_by_its_address_only_if_it_is_no_strangers(
    app, nightly, make_user, clock
):
    """Whoever registers a pupil's address gets neither number, name nor class."""
    moment = clock.utcnow()
    strangers = {
        "registered": {},
        "by-provider": {"password_hash": "!", "identity": "https://provider.example 1"},
        "once": {"password_hash": "!", "last_login_at": moment},
    }
    rightful = {
        "verified": {"email_verified_at": moment, "last_login_at": moment},
        "made": {"password_hash": "!"},
    }
    for name, columns in (strangers | rightful).items():
        make_user(name, **columns)
    before = {row.username: row for row in rows(app, User)}
    lines = [
        {**pupil(number, "7a"), "email": f"{name}@Example.org", "username": name}
        for number, name in enumerate(before)
    ]
    said, *there = nightly(lines, refused=3)
    assert "refused 3, changed 2, group 1, joined 2" in said
    after = {row.username: row for row in there[0]}
    assert {name: after[name] for name in strangers} == {name: before[name] for name in strangers}
    assert who_is_where((said, *there)) == {group_id("7a"): {*rightful}}
    assert all(after[name].external_id for name in rightful)


COLUMNS = {
    "users": "givenName familyName username email enabledUser",
    "roles": "userSourcedId roleType role beginDate endDate",
    "classes": "title termSourcedIds",
    "enrollments": "classSourcedId userSourcedId role beginDate endDate",
    "academicSessions": "title startDate endDate",
}
ROSTER = {
    "academicSessions": """
        now Year 2000-08-01 2999-07-31
        old Year 2000-08-01 2001-07-31
    """,
    "classes": """
        c-1 7A old,now
        c-2 7A now
        c-3 8A old
    """,
    "users": """
        u-1 Mia Okoro mia@old.example mia@school.example true
        u-2 Ben Young ben - true
        u-3 Kim Park kim kim@school.example true
        u-4 Al Gone al - false
        u-5 Pat Rent pat - true
        u-6 Jo Left jo - true tobedeleted
    """,
    "roles": """
        r-1 u-1 primary student - -
        r-2 u-2 primary student - -
        r-3 u-3 primary teacher - -
        r-4 u-3 secondary student - -
        r-5 u-4 primary student - -
        r-6 u-5 primary guardian - -
        r-7 u-6 primary student - -
    """,
    "enrollments": """
        e-1 c-1 u-1 student - -
        e-2 c-2 u-2 student - -
        e-3 c-1 u-3 teacher - -
        e-4 c-2 u-3 teacher 2000-08-01 2001-07-31
        e-5 c-3 u-1 student - -
        e-6 c-2 u-1 student - - tobedeleted
        e-7 c-2 u-4 student - -
        e-8 c-1 u-6 student - -
    """,
}


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_the_nightly_file_is_made_from_oneroster(app, nightly, make_user, tmp_path, version):
    make_user("kim", email="kim@school.example", role="instructor", external_id="u-3")
    role_of = {line.split()[1]: line.split()[3] for line in ROSTER["roles"].split("\n")[-2:0:-1]}
    for name, text in ROSTER.items():
        columns, lines = ["sourcedId", *COLUMNS[name].split(), "status"], []
        for line in text.strip().splitlines():
            cells = ["" if cell == "-" else cell for cell in line.split()]
            lines.append(dict(zip(columns, [*cells, "active"], strict=False)))
        if version == "1.1" and name == "users":
            lines = [line | {"role": role_of[line["sourcedId"]]} for line in lines]
        if version == "1.2" or name != "roles":
            write(tmp_path / f"{name}.csv", lines)

    def convert():
        command = [sys.executable, CONVERTER, str(tmp_path)]
        return subprocess.run(command, text=True, capture_output=True, check=True).stdout

    made = convert()
    said, *there = nightly(made)
    assert "new 2, changed 1, group 2, joined 3" in said
    where = {group_id("c-1"): {"mia", "kim"}, group_id("c-2"): {"ben"}}
    assert who_is_where((said, *there)) == where
    addresses = {user.external_id: user.email for user in there[0]}
    assert addresses["u-1"] == "mia@school.example"
    assert addresses.keys() == {"u-1", "u-2", "u-3"}
    # Between two terms, the classes of the last one go on.
    terms = tmp_path / "academicSessions.csv"
    terms.write_text(terms.read_text().replace("2999-07-31", "2025-07-31"))
    assert convert() == made
    # A term without an end is not over.
    terms.write_text(terms.read_text().replace("2025-07-31", ""))
    assert convert() == made
