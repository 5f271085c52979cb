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

from models import Group, Membership, User

SCRIPT = section("Every night, from the school's own system")["python"]
OURS = uuid.UUID(SCRIPT.partition('uuid.UUID("')[2][:36])
CHESS = "99999999-0000-4000-8000-000000000000"


def pupil(number, group):
    names = {"externalId": f"S-{number}", "username": f"s{number:04}"}
    names |= {"email": f"s{number}@school.invalid", "firstName": "Åsa", "lastName": f"P {number}"}
    return {**names, "group": group}


def group_id(name):
    return str(uuid.uuid5(OURS, name))


@on_one_database
def test_a_school_year_begins_and_the_second_run_changes_nothing(
    app, make_app, make_key, make_user, tmp_path
):
    key, path = make_key("users:read", "users:write", "groups:write"), tmp_path / "students.csv"

    def nightly(lines, *options):
        """Run the script with this file; return what it says it did, and the rows."""
        with path.open("w", newline="", encoding="utf-8") as file:
            table = csv.DictWriter(file, lines[0].keys())
            table.writeheader()
            table.writerows(lines)
        env = {**os.environ, "ACCOUNTS_URL": url, "ACCOUNTS_KEY": key}
        command = [sys.executable, "-c", SCRIPT, str(path), *options]
        ended = subprocess.run(command, env=env, text=True, capture_output=True, check=False)
        assert (ended.returncode, ended.stderr) == (0, "")
        return sorted(ended.stdout.splitlines()), rows(app, User), rows(app, Membership)

    before = [pupil(number, f"{2 + number % 40}a") for number in range(1000)]
    lines = [dict(line) for line in before[:800]]  # 200 leave
    for line in lines[10:60]:  # change the class, to one that is new
        line["group"] = "2b"
    lines[9]["lastName"] = "Other"
    lines += [pupil(number, f"1{'abcdef'[number % 6]}") for number in range(1000, 4000)]
    with serving(make_app(ratelimit_enabled=True)) as url:
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
