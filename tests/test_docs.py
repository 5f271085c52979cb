"""The documentation says what is true."""

import itertools
import json
import re
import shlex
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import pytest
from helpers import on_both, success, verify
from sqlalchemy import text

from core.clock import utcnow
from core.ids import NIL
from database import reading, transaction
from extensions import db
from models import Course, Group, Lesson, Membership
from web.headers import WITHOUT_PREFIX

ROOT = Path(__file__).parent.parent
DOCS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("bench/*.md")])
OPERATIONS = (ROOT / "docs/operations.md").read_text()
QUERIES = (ROOT / "docs/queries.md").read_text()
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


@pytest.mark.parametrize("path", DOCS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere_and_every_module_that_is_named_is_there(path):
    for target in LINK.findall(path.read_text()):
        assert (path.parent / target).exists(), target
    example = "tests/test_email_confirmation.py"  # CONTRIBUTING.md creates it
    for module in set(re.findall(r"`(\w+(?:/\w+)*\.py)`", path.read_text())) - {example}:
        assert (ROOT / module).exists(), module


@pytest.mark.parametrize("path", DOCS, ids=lambda path: str(path.relative_to(ROOT)))
def test_text_is_wrapped_at_100_columns_and_not_earlier(path):
    # Rows of tables and blocks of code cannot be wrapped.
    text = re.sub(r"^ *```.*?^ *```$", "", path.read_text(), flags=re.M | re.S)
    lines = [line for line in text.splitlines() if not line.startswith("|")]
    assert [line for line in lines if len(line) > 100] == []
    # Neither do headings and tags of HTML go on, and an item of a list begins on a line of its own.
    goes_on, begins_anew = re.compile(r"(?![#<])."), re.compile(r" *([-*+] |[0-9]+\. |[#<]|$)")
    for line, following in itertools.pairwise(lines):
        if goes_on.match(line) and not begins_anew.match(following):
            assert len(f"{line} {following.split()[0]}") > 100, line


def test_the_readme_leads_to_a_logged_in_user(client):
    readme = (ROOT / "README.md").read_text()
    curls = re.findall(r"^curl (?:.*\\\n)*.*$", readme, re.M)
    assert len(curls) == 2
    for curl, status in zip(curls, (201, 200), strict=True):
        address, *options = shlex.split(curl.replace("\\\n", " "))[1:]
        given = dict(zip(options[::2], options[1::2], strict=True))
        assert given["-H"] == "Content-Type: application/json"
        response = client.post(urlsplit(address).path, json=json.loads(given["-d"]))
        data = success(response, status)
    assert success(verify(client, data["accessToken"]))["user"]["username"] == "newcomer"


def test_every_path_for_the_proxy_of_a_shared_host_is_in_the_docs(app):
    (block,) = re.findall(r"^```\n(/api .*?)^```", OPERATIONS, re.M | re.S)
    rules = [rule.rule for rule in app.url_map.iter_rules() if rule.rule != "/"]
    # One rule has the names of two files.
    files = [f"/{name}" for rule in rules for name in re.findall(r"'([^']+)'", rule)]
    paths = [*WITHOUT_PREFIX, *files, *(rule for rule in rules if not rule.startswith("/<"))]
    first = {"/".join(path.split("/")[: 3 if "well-known" in path else 2]) for path in paths}
    assert sorted(block.split()) == sorted(first)


@on_both
def test_example_queries_show_the_week_and_the_month_of_a_class(app, make_user):
    # Of an hour when it is the next day in Tokyo.
    now = utcnow().replace(hour=20, minute=0)
    mia, ben = make_user("mia", timezone="Asia/Tokyo"), make_user("ben")
    teacher, zone = make_user("kim", role="instructor"), ZoneInfo("Asia/Tokyo")
    lessons = [(mia, "one", 1), (mia, "two", 1), (mia, "old", 8), (make_user("else"), "one", 1)]
    lessons.append((mia, "older", 40))
    with app.app_context():
        for user, name, days_ago in lessons:
            row = {"user_id": user.id, "completed_at": now - timedelta(days=days_ago)}
            with transaction() as session:
                session.merge(Course(user_id=user.id, id="c", name="Course", lessons=9))
                session.flush()
                session.add(Lesson(**row, course_id="c", id=name, minutes=20))
        with transaction() as session:
            session.add(Group(id=NIL, name="7b"))
            session.flush()
            members = [mia, ben, teacher]
            session.add_all(Membership(group_id=NIL, user_id=user.id) for user in members)
        on_postgres, month, on_sqlite = re.findall(
            r"^```sql\n(SELECT.*?)^```", QUERIES, re.M | re.S
        )
        is_postgres = db.engine.dialect.name == "postgresql"
        with reading() as connection:
            query = text(on_postgres if is_postgres else on_sqlite)
            found = [tuple(row) for row in connection.execute(query)]
            of_month = is_postgres and [tuple(row) for row in connection.execute(text(month))]
    yesterday = now - timedelta(days=1)
    day = yesterday.astimezone(zone).date()
    latest = yesterday.strftime("%Y-%m-%d %H:%M:%S")
    week = [(ben.username, 0, 0, None), (mia.username, 2, 40, latest)]
    assert found == ([(mia.username, day, 2, 40)] if is_postgres else week)
    months = [(now - timedelta(days=ago)).astimezone(zone).month for _, _, ago in lessons[:3]]
    count = months.count(utcnow().astimezone(zone).month)
    assert of_month in (False, [(ben.username, 0, 0), (mia.username, count, 20 * count)])


def test_every_module_of_the_top_level_is_among_the_layers():
    design = (ROOT / "docs/design.md").read_text()
    modules = {path.name for path in ROOT.glob("*.py")} - {"gunicorn.conf.py"}
    assert {name for name in modules if name not in design} == set()


def test_the_service_says_the_version_with_which_the_changelog_begins(client):
    changelog = (ROOT / "CHANGELOG.md").read_text()
    newest, *older = re.findall(r"^## (\S+)", changelog, re.M)
    version = client.get("/openapi.json").get_json()["info"]["version"]
    if newest == "Unreleased":  # the next release is still being made
        assert version.endswith("-dev")
        assert version.removesuffix("-dev") not in older
    else:
        assert version == newest
