"""The script of docs/moving.md that keeps students and groups in step with the school's system."""

import csv
import os
import subprocess
import sys
import uuid

from helpers import execute, on_one_database, rows
from real_service import serving
from sqlalchemy import insert, update
from test_moving import section

from core.addresses import search_key
from models import Group, Membership, User

SCRIPT = section("Every night, from the school's own system")["python"]
OURS = uuid.UUID(SCRIPT.partition('uuid.UUID("')[2][:36])
CHESS = "99999999-0000-4000-8000-000000000000"


def pupil(number, group):
    name = f"s{number:04}"
    names = {"externalId": f"S-{number}", "username": name, "email": f"{name}@school.invalid"}
    return {**names, "firstName": "Åsa", "lastName": f"Pupil {number}", "group": group}


def group_id(name):
    return str(uuid.uuid5(OURS, name))


def add(app, pupils, number_of=lambda line: line["externalId"]):
    """Add pupils and their groups straight into the database."""
    names = {line["group"] for line in pupils}
    execute(app, insert(Group).values([{"id": group_id(name), "name": name} for name in names]))
    accounts = [
        {
            **{"id": str(uuid.UUID(int=int(line["username"][1:]) + 1)), "password_hash": "!"},
            **{"username": line["username"], "username_key": line["username"]},
            **{"email": line["email"], "external_id": number_of(line)},
            **{"first_name": line["firstName"], "last_name": line["lastName"]},
            "search_key": search_key(line["username"], line["email"], "a", "b"),
        }
        for line in pupils
    ]
    execute(app, insert(User).values(accounts))
    pairs = [(user["id"], group_id(line["group"])) for user, line in zip(accounts, pupils)]  # noqa: B905
    members = [{"user_id": user, "group_id": group} for user, group in pairs]
    execute(app, insert(Membership).values(members))


@on_one_database
def test_a_school_year_begins_and_the_second_run_changes_nothing(
    app, make_app, make_key, make_user, tmp_path
):
    before = [pupil(number, f"{2 + number % 40}a") for number in range(1000)]
    # One has no number yet, and is found by the address; another has left and comes back.
    add(app, before, lambda line: None if line["username"] == "s0007" else line["externalId"])
    execute(app, update(User).where(User.username == "s0006").values(is_active=False))
    teacher, member = make_user("teacher", role="instructor"), rows(app, User, username="s0008")[0]
    execute(app, insert(Group).values(id=CHESS, name="Chess"))
    others = [(teacher.id, group_id("2a")), (member.id, CHESS)]
    for user_id, group in others:
        execute(app, insert(Membership).values(user_id=user_id, group_id=group))
    stay = [dict(line) for line in before[:800]]  # 200 leave
    for line in stay[10:60]:  # change the class, to one that is new
        line["group"] = "2b"
    stay[9]["lastName"] = "Other"
    lines = stay + [pupil(number, f"1{'abcdef'[number % 6]}") for number in range(1000, 4000)]
    with (tmp_path / "students.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, lines[0].keys())
        table.writeheader()
        table.writerows(lines)
    key = make_key("users:read", "users:write", "groups:write")

    def nightly(*options):
        env = {**os.environ, "ACCOUNTS_URL": url, "ACCOUNTS_KEY": key}
        command = [sys.executable, "-c", SCRIPT, str(tmp_path / "students.csv"), *options]
        ended = subprocess.run(command, env=env, text=True, capture_output=True, check=False)
        assert (ended.returncode, ended.stderr) == (0, "")
        return ended.stdout.splitlines()

    with serving(make_app(ratelimit_enabled=True)) as url:
        everything = rows(app, User), rows(app, Membership)
        tried = nightly("--dry-run")
        assert (rows(app, User), rows(app, Membership)) == everything
        done = nightly()
        assert sorted(done) == sorted(tried)
        acts = ("new 3000", "changed 3", "deactivated 200", "group 7", "joined 3050", "left 250")
        assert {*done[-1].split(", ")} == {*acts}
        everything = rows(app, User), rows(app, Membership)
        assert nightly() == ["nothing to do"]
        assert (rows(app, User), rows(app, Membership)) == everything
    wanted = {(line["username"], group_id(line["group"])) for line in lines} | {("s0008", CHESS)}
    users = {user.id: user for user in rows(app, User)}
    found = {(users[row.user_id].username, row.group_id) for row in rows(app, Membership)}
    assert found == wanted | {("teacher", group_id("2a"))}
    active = {user.external_id for user in users.values() if user.is_active}
    assert active == {line["externalId"] for line in lines} | {None}
    (renamed,) = (user for user in users.values() if user.external_id == "S-9")
    assert renamed.last_name == "Other"
