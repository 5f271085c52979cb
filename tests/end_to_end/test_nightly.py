"""The nightly roster: both scripts in examples/, and the line of docs/moving.md."""

import csv
import io
import json
import os
import shutil
import subprocess
import sys
from collections import Counter

import pytest
from helpers import rows
from real_service import serving
from test_moving import section

from config import ROOT
from models import Group, Membership, User

HEAD = "externalId,username,email,firstName,lastName,group\n"
CLASS = [f"S-{number},s{number:03},,Åsa,P {number},7A\n" for number in range(8)]
WINDOWS = {"PYTHONIOENCODING": "cp1252"}


def python(script, *arguments, **env):
    """Run an example in the environment of a Windows machine; return what it says, as UTF-8."""
    command = [sys.executable, ROOT / "examples" / script, *map(str, arguments)]
    env = {**os.environ, **WINDOWS, **env}
    return subprocess.run(command, env=env, capture_output=True, encoding="utf-8", check=False)


@pytest.fixture
def school(make_app, make_key):
    """A service, and what it wants to know of who calls it."""
    key = make_key("users:read", "users:write", "groups:write", "groups:staff")
    with serving(make_app(ratelimit_enabled=True)) as url:
        yield {"ACCOUNTS_URL": url, "ACCOUNTS_KEY": key}


@pytest.fixture
def nightly(school, tmp_path):
    """Run the script with a file; return what it prints, and with `fails` its errors too."""

    def nightly(text, *options, fails=False):
        path = tmp_path / "people.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        ended = python("nightly.py", path, *options, **school)
        assert ended.returncode == (1 if fails else 0), ended.stderr
        assert bool(ended.stderr) == fails, ended.stderr
        return (ended.stdout + ended.stderr).splitlines()

    return nightly


def everything(app):
    return rows(app, User), rows(app, Group), rows(app, Membership)


def test_a_roster_is_followed_and_the_second_run_has_nothing_to_do(app, nightly):
    first = HEAD + "".join(CLASS)
    assert nightly(first)[-1] == "new 8"
    there = everything(app)
    second = "".join([HEAD, *CLASS[:6], "S-6,other,,Åsa,Łukasz,8A\n", "S-9,,,Łukasz,,8A\n"])
    said = [
        "changed: Åsa Łukasz, line 8, username s006, changes ['lastName', 'groups']",
        "new: Łukasz -, line 9, username lukasz",
        "differs: Åsa Łukasz, line 8, differs ['username']",
        "deactivated: Åsa P 7, externalId S-7, username s007",
        "changed 1, new 1, deactivated 1",
    ]
    assert nightly(second, "--dry-run") == said
    assert everything(app) == there
    assert nightly(second) == said
    there = everything(app)
    assert nightly(second) == [said[2], "nothing to do"]
    assert everything(app) == there
    assert [user.username for user in there[0] if not user.is_active] == ["s007"]
    assert [*Counter(row.user_id for row in there[2]).values()] == [1] * 9


def test_refusals_are_errors_and_the_others_go_on(app, nightly):
    said = nightly(f"{HEAD}{CLASS[0]}S-1,s000,,Kim,Lee,7A\n{CLASS[2]}", fails=True)
    assert said == [
        "new: Åsa P 0, line 2, username s000",
        "new: Åsa P 2, line 4, username s002",
        "new 2, refused 1",
        "refused: Kim Lee, line 3, code username_taken",
    ]
    assert [user.username for user in rows(app, User)] == ["s000", "s002"]


def test_a_file_that_was_cut_off_does_nothing_unless_it_is_right(app, nightly):
    nightly(HEAD + "".join(CLASS))
    there = everything(app)
    (said,) = nightly(HEAD + "".join(CLASS[:5]), fails=True)
    assert "too_many_missing" in said
    assert everything(app) == there
    assert nightly(HEAD + "".join(CLASS[:5]), "--all")[-1] == "deactivated 3"


NOBODY = {"lines": [], "groups": [], "missing": [], "leftOut": []}
GOOD = "200 OK", [], json.dumps({"data": NOBODY})
AGAIN = [("Retry-After", "0")]


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ([("503 Busy", AGAIN, ""), ("429 Later", AGAIN, ""), GOOD], "nothing to do"),
        ([("200 OK", [("Content-Length", "99")], '{"data": ')], "IncompleteRead"),
        ([("200 OK", [], "<h1>Log in</h1>")], "JSONDecodeError"),
        (
            [("502 Bad Gateway", [], "<h1>\xe9</h1>")],
            "HTTP Error 502: Bad Gateway: <h1>\ufffd</h1>",
        ),
        ([], "URLError"),
    ],
)
def test_what_a_service_may_say_is_waited_for_or_told_in_a_line(tmp_path, answers, said):
    path = tmp_path / "people.csv"
    path.write_bytes(b"\xff\xfe\0")
    left, sent = [*answers], set()

    def service(environ, start):
        sent.add(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
        status, headers, body = left.pop(0)
        start(status, headers)
        return [body.encode("latin-1")]

    with serving(service) as url:
        url = url if answers else "http://127.0.0.1:1"
        ended = python("nightly.py", path, ACCOUNTS_URL=url, ACCOUNTS_KEY="key")
    assert (left, sent) == ([], {path.read_bytes()} if answers else set())
    assert ended.returncode == (0 if GOOD in answers else 1)
    (line,) = (ended.stdout + ended.stderr).splitlines()
    assert said in line


@pytest.mark.skipif(not shutil.which("curl"), reason="there is no curl")
def test_the_line_of_the_docs_does_the_same(app, school, tmp_path):
    blocks = section("Every night, from the school's own system")
    (tmp_path / "people.csv").write_text(blocks["csv"])
    line = blocks["sh"][blocks["sh"].index("curl ") :]
    command = ["sh", "-ec", line]
    options = {"cwd": tmp_path, "env": {**os.environ, **school}, "capture_output": True}
    ended = subprocess.run(command, check=True, **options)
    (person,) = json.loads(ended.stdout)["data"]["lines"]
    assert (person["status"], person["username"]) == ("new", "mia")
    assert [group.name for group in rows(app, Group)] == ["7A"]
    (tmp_path / "people.csv").write_text("")
    assert subprocess.run(command, check=False, **options).returncode == 22


# What stands "here" is the username of the account.
COLUMNS = {
    "users": "here username givenName familyName email role enabledUser status preferredGivenName",
    "roles": "userSourcedId roleType role beginDate endDate status",
    "classes": "title termSourcedIds",
    "enrollments": "classSourcedId userSourcedId role beginDate endDate status",
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
        c-4 Chess-and-all-other-games-that-two-people-can-play-with-a-board-of-wood -
    """,
    "users": """
        u-1 mia mia Mia Okoro mia@school.example student true
        u-2 bo.li bo Bo Li - student true
        u-3 u-3 山田.太郎 太郎 山田 - student true
        u-4 zoe.muller müller.zoë Zoë Müller - student true
        u-5 mller.zo mller.zo Moritz Zorn - student true
        u-6 al.long a-name-of-more-than-32-characters Al Long - student true
        u-7 uma.der _under Uma Der - student true
        u-8 ben.young - Ben Young - student true
        u-9 cher cher Cher - - student true
        u-10 lukasz.walesa łukasz Łukasz Wałęsa - student true
        u-11 tom tom Tom Twin twins@home.example student true
        u-12 tim tim Tim Twin twins@home.example student true
        u-13 kai.mail kai@school.example Kai Mail - student -
        u-14 kim kim Kimberly Park kim@school.example teacher true - Kim
        u-15 lee lee Lee Lo - teacher true
        u-16 - gone Al Gone - student false
        u-17 - left Jo Left - student true tobedeleted
        u-18 - pat Pat Rent - guardian true
        u-19 - boss Bo Ss - administrator true
    """,
    "enrollments": """
        e-1 c-1 u-1 student 2000-08-01
        e-2 c-2 u-2 student
        e-3 c-1 u-14 teacher
        e-4 c-2 u-14 teacher 2000-08-01 2001-07-31
        e-5 c-3 u-1 student
        e-6 c-2 u-1 student - - tobedeleted
        e-7 c-2 u-16 student
        e-8 c-1 u-17 student
        e-9 c-4 u-1 -
        e-10 c-2 u-15 student
    """,
}


def lines_of(name):
    """Return the lines of a file of the export."""
    columns = ["sourcedId", *COLUMNS[name].split()]
    lines = (line.split() for line in ROSTER[name].strip().splitlines())
    cells = (["" if cell == "-" else cell for cell in line] for line in lines)
    return [dict(zip(columns, line, strict=False)) for line in cells]


def export(folder, version="1.1", encoding="utf-8"):
    """Write the files of an export; return the folder."""
    files = {name: lines_of(name) for name in ROSTER}
    if version == "1.2":
        files["roles"] = [
            {"userSourcedId": user["sourcedId"], "roleType": kind, "role": role, "endDate": end}
            for user in files["users"]
            for kind, role, end in (
                ("primary", user.pop("role"), ""),
                ("secondary", "student", ""),
                ("primary", "guardian", "2001-07-31"),
            )
        ]
    for name, lines in files.items():
        text = io.StringIO()
        table = csv.DictWriter(text, ["sourcedId", *COLUMNS[name].split()])
        table.writeheader()
        table.writerows(lines)
        (folder / f"{name}.csv").write_bytes(text.getvalue().encode(encoding, "replace"))
    return folder


@pytest.mark.parametrize(("version", "encoding"), [("1.1", "utf-8-sig"), ("1.2", "utf-16")])
def test_everybody_of_an_export_of_oneroster_gets_an_account(
    app, nightly, tmp_path, version, encoding
):
    folder = export(tmp_path, version, encoding)
    made = python("oneroster.py", folder).stdout
    assert nightly(made)[-1] == "new 15"
    users, groups, there = everything(app)
    here = {line["sourcedId"]: line["here"] for line in lines_of("users") if line["here"]}
    assert {user.external_id: user.username for user in users} == here
    assert [user.external_id for user in users if user.role == "instructor"] == ["u-14", "u-15"]
    titles, numbers = dict(groups), {user.id: user.external_id for user in users}
    chess = lines_of("classes")[3]["title"][:64]
    where = {("u-1", "7A"), ("u-1", chess), ("u-2", "7A"), ("u-14", "7A")}
    assert {(numbers[row.user_id], titles[row.group_id]) for row in there} == where
    assert [user.first_name for user in users if user.username == "kim"] == ["Kim"]
    assert nightly(made)[-1] == "nothing to do"
    # Between two terms, the classes of the last one go on; a term without an end is not over.
    terms = folder / "academicSessions.csv"
    text = terms.read_bytes().decode(encoding)
    for end in ("2025-07-31", ""):
        terms.write_bytes(text.replace("2999-07-31", end).encode(encoding))
        assert python("oneroster.py", folder).stdout == made


def test_without_terms_each_class_counts_and_letters_of_windows_stay(app, nightly, tmp_path):
    folder, made = export(tmp_path, encoding="cp1252"), tmp_path / "people.csv"
    (folder / "academicSessions.csv").unlink()
    command = [sys.executable, ROOT / "examples/oneroster.py", folder]
    made.write_bytes(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    lines = csv.DictReader(io.StringIO(made.read_text("cp1252")))
    assert [line["groupId"] for line in lines if line["username"] == "mia"] == ["c-1", "c-3", "c-4"]
    nightly(made.read_bytes())
    assert "Zoë" in {user.first_name for user in rows(app, User)}
    # Without another file, nobody would be in a class.
    (folder / "enrollments.csv").unlink()
    ended = python("oneroster.py", folder)
    assert (ended.returncode, ended.stdout) == (1, "")
