"""Learning records of all users in bulk: pages of JSON and CSV, and files."""

import csv
import io
import re
import stat
from urllib.parse import parse_qsl, urlsplit

import pytest
from endpoints import UNKNOWN_ID
from helpers import (
    bearer,
    execute,
    failure,
    many_lessons,
    on_both,
    on_both_slowly,
    plan_of,
    statements_of,
    success,
)
from sqlalchemy import update

from core.clock import rfc3339, utcnow
from database import transaction
from extensions import db
from models import Achievement, Certificate, Course, Group, Lesson, Membership, User
from services import bulk

AT = utcnow().replace(microsecond=0)
KINDS = [*bulk.KINDS]
NO_PLACES = ["//", "A/b/c", *(f"{UNKNOWN_ID}/{end}" for end in ("a", "a/b/c", "/b", "a/", "a/é"))]
CSV = {"Accept": "text/csv"}


@pytest.fixture
def deliver(app):
    """Give a user two records of each kind."""

    def deliver(user, group=None):
        own = {"user_id": user.id}
        certificate = {"issued_at": AT, "course_id": "a", "holder": "x", "credential_url": ""}
        with app.app_context(), transaction() as session:
            for id_, name in (("a", "=1+1"), ("-b", "Plain")):
                session.add(Course(**own, id=id_, name=name, lessons=9))
                session.flush()
                lesson = {"name": name, "completed_at": AT, "minutes": 7}
                session.add(Lesson(**own, course_id="a", id=id_, **lesson))
                session.add(Achievement(**own, id=id_, name=name, earned_at=AT))
                session.add(Certificate(**own, id=id_, course_name=name, **certificate))
                name = f"{group or user.id[:-1]}{id_[-1]}"
                session.merge(Group(id=name, name=f"@{name}"))
                session.add(Membership(**own, group_id=name))
        return user

    return deliver


@pytest.fixture
def pupils(make_user, deliver):
    """Three users with records: their ids, in the order of pages."""
    users = [deliver(make_user(name, external_id=number)) for name, number in PUPILS.items()]
    return sorted(user.id for user in users)


PUPILS = {"ada": "-7", "ben": "=2", "cem": None}


@pytest.fixture
def get(client, make_key):
    key = make_key("learning:read", "users:read")

    def get(kind, headers=None, as_csv=False, **query):
        headers = {**(headers or bearer(key)), **(CSV if as_csv else {})}
        return client.get(f"/api/learning/{kind}", query_string=query, headers=headers)

    return get


def keys(kind, records):
    names = {"lessons": ["userId", "courseId", "id"], "memberships": ["userId", "groupId"]}
    return [tuple(each[name] for name in names.get(kind, ["userId", "id"])) for each in records]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("limit", [1, 4, 100])
@on_both_slowly
def test_pages_have_every_record_once_by_user_and_id(get, pupils, kind, limit):
    found, after = [], {}
    while True:
        data = success(get(kind, limit=limit, **after))
        assert data.keys() == {"records", "next"}
        assert len(data["records"]) <= limit
        found += data["records"]
        if data["next"] is None:
            break
        assert data["next"] == "/".join(keys(kind, data["records"])[-1])
        after = {"after": data["next"]}
    assert {each["userId"] for each in found} == {*pupils}
    assert keys(kind, found) == sorted({*keys(kind, found)})
    assert len(found) == 6


@on_both
def test_records_are_as_they_were_delivered(get, deliver, make_user):
    user = deliver(make_user(external_id="S-1", is_active=False, role="instructor"))
    whose, at = {"userId": user.id, "externalId": "S-1"}, rfc3339(AT)
    shown = {kind: success(get(kind))["records"][-1] for kind in KINDS}
    text, group = {"name": "=1+1"}, f"{user.id[:-1]}b"
    certificate = {"courseId": "a", "courseName": "=1+1", "issuedAt": at, "credentialUrl": ""}
    assert shown == {
        "courses": {**whose, **text, "id": "a", "lessons": 9},
        "lessons": {**whose, **text, "courseId": "a", "id": "a", "completedAt": at, "minutes": 7},
        "achievements": {**whose, **text, "id": "a", "earnedAt": at},
        "certificates": {
            **{**whose, **certificate, "id": "a", "expiresAt": None, "revokedAt": None}
        },
        "memberships": {**whose, "groupId": group, "groupName": f"@{group}"},
    }


@pytest.mark.parametrize("as_csv", [False, True], ids=["json", "csv"])
@pytest.mark.parametrize("kind", KINDS)
def test_keys_do_not_get_the_records_of_admins_nor_their_ids(
    app, get, pupils, log_in, make_user, kind, as_csv
):
    execute(app, update(User).where(User.id.in_(pupils[::2])).values(role="admin"))
    found, after = [], {}
    while len(found) < 9:
        response = get(kind, as_csv=as_csv, limit=1, **after)
        found.append(f"{response.text}{response.headers}")
        link = response.headers.get("Link", "").removesuffix('>; rel="next"')
        query = dict(parse_qsl(urlsplit(link).query)) if as_csv else success(response)
        after = {"after": query.get("after") if as_csv else query["next"]}
        if not after["after"]:
            break
    assert sum(pupils[1] in each for each in found) == 2
    assert not [id_ for id_ in pupils[::2] if id_ in "".join(found)]
    head = log_in(make_user("head", role="admin")).headers
    assert len(success(get(kind, headers=head))["records"]) == 6


@pytest.mark.parametrize("kind", KINDS)
@on_both
def test_a_group_has_the_records_of_its_members(app, get, deliver, make_user, kind):
    inside = deliver(make_user("inside"), group="0190a6e0-0000-7000-8000-00000000000")
    deliver(make_user("outside"))
    group = "0190a6e0-0000-7000-8000-00000000000a"
    found = success(get(kind, groupId=group))["records"]
    assert {each["userId"] for each in found} == {inside.id}
    assert len(found) == (1 if kind == "memberships" else 2)
    first = success(get(kind, groupId=group, limit=1))
    assert len(first["records"]) == 1
    failure(get(kind, groupId=UNKNOWN_ID), 404, "not_found")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        *[({"after": text}, "after") for text in ("", "x", "a/b/c", "/" * 300, *NO_PLACES)],
        *[({"limit": text}, "limit") for text in ("0", "1001", "x")],
        ({"groupId": "x"}, "groupId"),
        ({"page": "2"}, "page"),
    ],
)
def test_what_is_no_query_is_named(get, query, field):
    assert failure(get("lessons", **query), 400, "invalid_request").keys() == {field}
    if query != {"limit": "1001"}:
        answer = get("lessons", as_csv=True, **query)
        assert failure(answer, 400, "invalid_request").keys() == {field}


def test_csv_takes_larger_pages(get):
    assert get("lessons", as_csv=True, limit=10_000).status_code == 200
    failure(get("lessons", as_csv=True, limit=10_001), 400, "invalid_request")


@pytest.mark.parametrize("kind", KINDS)
def test_csv_has_the_same_records_with_texts_that_are_no_formulas(client, get, pupils, kind):
    records = success(get(kind))["records"]
    lines, path, query = [], kind, {"limit": 4}
    while path:
        response = get(path, as_csv=True, **query)
        assert response.content_type == "text/csv; charset=utf-8"
        lines += (page := list(csv.DictReader(io.StringIO(response.text))))
        assert len(page) <= 4
        assert response.text.count('"') == 2 * len(page[0]) * (len(page) + 1)  # each cell
        target = response.headers.get("Link", "").removesuffix('>; rel="next"').removeprefix("<")
        assert target.startswith("https://school.test/api/learning/") or not target
        path = urlsplit(target).path.rpartition("/")[2]
        query = dict(parse_qsl(urlsplit(target).query))
    names = {"name", "courseName", "groupName"}
    assert len(lines) == 6
    for line, record in zip(lines, records, strict=True):
        for name, value in record.items():
            text = "" if value is None else str(value)
            formula = (name in names and text[0] in "=@") or text == "=2"
            assert line[name] == ("'" if formula else "") + text, name


CSV_FIRST = ["text/csv; charset=UTF-8", "text/*", "text/csv, */*"]


@pytest.mark.parametrize("accept", CSV_FIRST)
def test_csv_can_be_asked_for_in_each_form(client, make_key, accept):
    headers = {**bearer(make_key("learning:read")), "Accept": accept}
    assert client.get("/api/learning/lessons", headers=headers).mimetype == "text/csv"


@pytest.mark.parametrize("accept", ["*/*", "application/json, text/csv", "image/png", "text/*;q=0"])
def test_who_does_not_ask_for_csv_gets_json(client, make_key, accept):
    headers = {**bearer(make_key("learning:read")), "Accept": accept}
    success(client.get("/api/learning/lessons", headers=headers))


@pytest.mark.parametrize("as_csv", [False, True], ids=["json", "csv"])
def test_a_page_is_one_query_by_the_primary_key(app, get, pupils, as_csv):
    get("lessons")  # notes when the key was used
    with statements_of(app) as statements:
        get("lessons", as_csv=as_csv)
    assert len(statements) == 2  # the guard's, and the page's


@on_both
def test_no_page_reads_the_whole_table(app, get):
    many_lessons(app)
    place = success(get("lessons", limit=1000))["next"]
    plan = plan_of(app, lambda: get("lessons", after=place))
    by_key = r"lessons USING PRIMARY KEY \(|Index Scan using \w*lessons\w* on lessons"
    assert re.search(by_key, plan), plan
    assert not re.search("(SCAN|Seq Scan on) lessons", plan), plan


@pytest.mark.parametrize("kind", KINDS)
def test_command_writes_the_whole_table(app, get, pupils, run, tmp_path, monkeypatch, kind):
    monkeypatch.setattr(bulk, "BATCH", 4)
    file = tmp_path / "records.csv"
    assert run("learning", "export", kind, str(file)) == (f"{kind}: 6 records\n", 0)
    assert file.read_bytes().decode() == get(kind, as_csv=True).text
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [*tmp_path.iterdir()] == [file]


def test_command_leaves_no_part_of_a_file_and_no_other_file_changed(
    run, pupils, tmp_path, monkeypatch
):
    file = tmp_path / "records.csv"
    file.write_text("kept")
    for path in (file, tmp_path / "no" / "folder"):
        output, status = run("learning", "export", "lessons", str(path))
        assert (status, "cannot be written" in output) == (1, True)
    assert file.read_text() == "kept"
    file.unlink()
    monkeypatch.setattr(bulk, "BATCH", 4)
    as_csv, calls = bulk.as_csv, []

    def fail(*arguments):
        calls.append(arguments)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        return as_csv(*arguments)

    monkeypatch.setattr(bulk, "as_csv", fail)
    output, status = run("learning", "export", "lessons", str(file))
    assert (status, "No space left on device" in output) == (1, True)
    assert [*tmp_path.iterdir()] == []


@on_both
def test_between_two_pages_of_a_file_nothing_is_held(app, pupils, monkeypatch):
    monkeypatch.setattr(bulk, "BATCH", 4)
    with app.app_context():
        pages = bulk.everything(bulk.KINDS["lessons"])
        first = next(pages)
        assert db.engine.pool.checkedout() == 0
        execute(app, update(Lesson).values(minutes=8))  # what comes later is as it is then
        rest = [record for page in pages for record in page]
    assert [7 in each for each in first] == [True] * 4
    assert [8 in each for each in rest] == [True] * 2
