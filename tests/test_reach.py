"""Whom a teacher reaches with INSTRUCTOR_RIGHTS=groups: who learns in one of the own groups."""

import re

import pytest
from endpoints import API, UNKNOWN_ID
from helpers import (
    execute,
    failure,
    many_lessons,
    on_both,
    plan_of,
    set_user,
    statements_of,
    success,
)
from sqlalchemy import delete, event, insert
from test_roles import LEAST, OWN, name_of

from extensions import db
from models import Group, Membership

OURS, THEIRS = (f"{digit * 8}-0000-4000-8000-000000000000" for digit in "ab")
ABOUT_A_USER = [endpoint for endpoint in API if "<uuid:user_id>" in endpoint.rule]
# Who is asked for: the role, whether active, and the group.
TARGETS = {
    "mine": ("student", True, OURS),
    "gone": ("student", False, OURS),
    "other": ("student", True, THEIRS),
    "other gone": ("student", False, THEIRS),
    "alone": ("student", True, None),
    "colleague": ("instructor", True, OURS),
    "head": ("admin", True, OURS),
}
REACHED, NONE, ITSELF = {"mine", "gone"}, "user_not_found", "teacher"
# What an instructor is told about those out of reach, and about some others: by these operations,
# and by all that are for instructors. What is for admins has no row, and may be nobody's.
RULES = {
    "GET /api/users/*": (
        "profile_private",
        {**dict.fromkeys(("gone", "other gone"), NONE), ITSELF: "ok"},
    ),
    "GET /api/users/*/activity": (
        "forbidden",
        {**dict.fromkeys((*REACHED, "unknown"), "forbidden"), ITSELF: "ok"},
    ),
    "POST /api/users/*/access-link": ("forbidden", {"gone": NONE}),
    "GET /api/users/*/account": ("forbidden", {}),
    "instructor": ("forbidden", {}),
}


@pytest.fixture
def people(app, make_user):
    """Users of all kinds, whose profiles are private, and a teacher."""
    named = {ITSELF: make_user(ITSELF, role="instructor", profile_visible=False)}
    for name, (role, is_active, _) in TARGETS.items():
        state = {"role": role, "is_active": is_active, "profile_visible": False}
        named[name] = make_user(name.replace(" ", "-"), external_id=name, **state)
    execute(app, insert(Group).values([{"id": each, "name": "7b"} for each in (OURS, THEIRS)]))
    members = [(named[name].id, group) for name, (*_, group) in TARGETS.items() if group]
    members.append((named[ITSELF].id, OURS))
    rows = [{"user_id": user_id, "group_id": group} for user_id, group in members]
    execute(app, insert(Membership).values(rows))
    return named


@pytest.fixture
def school(make_app):
    return make_app(instructor_rights="groups").test_client()


def outcome(response):
    assert response.status_code < 500, response.text
    code = response.get_json().get("error", {}).get("code", "ok")
    return "ok" if code == "not_found" else code  # it has looked for the record


# A read, a change and an addition; all others ask the databases the same question.
ON_BOTH = ["GET /api/users/*", "POST /api/users/*/access-link"]
ON_BOTH += ["PUT /api/users/*/courses/*/lessons/*"]
BY_NAME = {name_of(endpoint): endpoint for endpoint in ABOUT_A_USER}
CASES = [*(("sqlite", each) for each in BY_NAME), *(("postgres", each) for each in ON_BOTH)]


@pytest.mark.parametrize(("database_url", "name"), CASES, indirect=["database_url"])
def test_a_teacher_reaches_students_of_the_own_groups_and_nobody_else(
    app, school, people, log_in, name
):
    teacher, endpoint = log_in(people[ITSELF]), BY_NAME[name]
    rule = RULES.get(name) or RULES.get(LEAST[name])
    assert rule or LEAST[name] == "admin", "a new kind of operation needs a row"
    out_of_reach, others = rule or ("forbidden", {})
    as_student = others if LEAST[name] == "student" or name in OWN else {}
    nobody = {**dict.fromkeys(people, out_of_reach), "unknown": NONE, **as_student}
    reached = {**dict.fromkeys(REACHED, "ok"), **others}
    if not rule:
        nobody, reached = dict.fromkeys(nobody, "forbidden"), {}

    def told(name, prefix="/api"):
        user_id = people[name].id if name in people else UNKNOWN_ID
        path = re.sub("<[^>]+>", UNKNOWN_ID, endpoint.rule.replace("<uuid:user_id>", user_id))
        options = {"json": endpoint.example} if endpoint.operation.body else {}
        options |= {"method": endpoint.method, "headers": teacher.headers}
        return outcome(school.open(prefix + path.removeprefix("/api"), **options))

    def told_of_all(*prefix):
        return {name: told(name, *prefix) for name in (*people, "unknown")}

    assert told_of_all("/api") == told_of_all("") == nobody | reached
    for member in ("mine", ITSELF):
        membership = {"user_id": people[member].id, "group_id": OURS}
        execute(app, delete(Membership).filter_by(**membership))
        assert told("mine") == out_of_reach
        if member == ITSELF:
            assert told_of_all() == nobody
        execute(app, insert(Membership).values(membership))
        assert told("mine") == (nobody | reached)["mine"]
    set_user(app, people[ITSELF], role="student")
    assert told_of_all() == (nobody if as_student else dict.fromkeys(nobody, "forbidden"))


@on_both
def test_lists_totals_and_exact_searches_have_only_those_in_reach(school, people, log_in):
    headers = log_in(people[ITSELF]).headers

    def found(**query):
        data = success(school.get("/api/users", query_string=query, headers=headers))
        assert len(data["users"]) == data["total"]
        assert {user["externalId"] for user in data["users"]} <= {""}
        return {user["username"] for user in data["users"]}

    assert found() == found(role="student") == found(groupId=OURS) == found(search="o") | REACHED
    assert found(role="instructor") == found(role="admin") == found(search="other") == set()
    for name, user in people.items():
        reached = {name} & REACHED
        assert found(username=user.username) == found(email=user.email) == reached
        assert found(search=f"example {user.username}") == reached
        assert found(externalId=name) == set()
    response = school.get(f"/api/users?groupId={THEIRS}", headers=headers)
    failure(response, 404, "not_found")
    account = success(school.get(f"/api/users/{people['mine'].id}/account", headers=headers))
    assert account["externalId"] == ""


def test_nobody_is_told_of_a_group_of_others(app, client, school, people, log_in, make_key):
    execute(app, insert(Membership).values(user_id=people["mine"].id, group_id=THEIRS))
    url = f"/api/users/{people['mine'].id}/account"
    for name, seen in ((ITSELF, {OURS}), ("head", {OURS, THEIRS})):
        headers = log_in(people[name]).headers
        account = success(school.get(url, headers=headers))
        assert {group["id"] for group in account["groups"]} == seen
        groups = success(school.get("/api/groups", headers=headers))["groups"]
        assert {group["id"] for group in groups} == seen
    there = success(school.get(f"/api/users?groupId={THEIRS}", headers=headers))["users"]
    assert {user["username"] for user in there} == {"mine", "other", "other-gone"}
    headers = log_in(people["other"]).headers
    (group,) = success(client.get("/api/groups", headers=headers))["groups"]
    assert group == {"id": THEIRS, "name": "7b", "members": 3}
    everything = {"Authorization": f"Bearer {make_key('users:read')}"}
    assert len(success(client.get("/api/groups", headers=everything))["groups"]) == 2


def test_a_factor_is_asked_for_only_where_it_would_show_the_profile(make_app, people, log_in):
    school = make_app(instructor_rights="groups", require_second_factor="instructor").test_client()
    headers = log_in(people[ITSELF]).headers
    for name, code in (("mine", "second_factor_required"), ("other", "profile_private")):
        response = school.get(f"/api/users/{people[name].id}", headers=headers)
        failure(response, 403, code)


@pytest.mark.parametrize("at", ["own", "pupil"])
def test_reach_is_judged_after_a_slow_body(app, school, people, log_in, monkeypatch, at):
    headers, user = log_in(people[ITSELF]).headers, people["mine" if at == "pupil" else ITSELF]

    def arrive(_most):
        execute(app, delete(Membership).where(Membership.user_id == user.id))
        return {"deliver": "link"}

    monkeypatch.setattr("web.bodies.json_object", arrive)
    url = f"/api/users/{people['mine'].id}/access-link"
    failure(school.post(url, json={}, headers=headers), 403, "forbidden")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "", None),
        ("GET", "/account", None),
        ("GET", "/courses", None),
        ("PUT", "/courses/c", {"name": "C", "lessons": 1}),
        ("DELETE", "/courses/c", None),
        ("POST", "/access-link", {"deliver": "link"}),
        ("POST", "/access-link", {"deliver": "mail"}),
        ("POST", "/access-link", {"deliver": "mail", "replacePassword": True}),
    ],
)
def test_reach_costs_one_query_more_and_no_connection(make_app, people, log_in, method, path, body):
    headers, sent, held = log_in(people[ITSELF]).headers, {}, set()
    for rights in ("groups", "students", "groups"):  # a record that is there costs more
        app = make_app(instructor_rights=rights)
        with app.app_context():
            pool = db.engine.pool
        event.listen(pool, "checkout", lambda *_, pool=pool: held.add(pool.checkedout()))
        url = f"/api/users/{people['mine'].id}{path}"
        with statements_of(app) as sent[rights]:
            response = app.test_client().open(url, method=method, json=body, headers=headers)
        assert response.status_code < 300, response.text
    assert len(sent["groups"]) == len(sent["students"]) + 1
    assert held == {1}  # calls that wait for a second one would wait for each other


@on_both
def test_no_query_reads_all_lessons_or_all_users(app, school, people, log_in):
    many_lessons(app)
    headers = log_in(people[ITSELF]).headers

    def read():
        for path in (f"groups/{OURS}/days", "users?sort=name"):
            success(school.get(f"/api/{path}", headers=headers))

    plan = plan_of(school.application, read)
    # Postgres knows how many users there are, and may well read a few hundred.
    assert not re.search("(SCAN|Seq Scan on) lessons|SCAN users|CORRELATED|ix_users_role", plan)
    ours = r"ix_lessons_user_id_completed_at.*?user_id ?=.*? AND \(?completed_at ?>"
    assert re.search(ours, plan, re.S), plan
