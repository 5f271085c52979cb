"""Groups: made, filled and removed; their days of learning; and who was first in a race."""

import functools
import re
from datetime import datetime, timedelta

import pytest
from endpoints import UNKNOWN_ID
from helpers import (
    Log,
    bearer,
    execute,
    failure,
    meanwhile,
    on_both,
    on_postgres,
    on_sqlite,
    race,
    rows,
    success,
    while_doing,
    words,
)
from sqlalchemy import insert

from core.ids import NIL
from core.roles import EVERYBODY
from models import Course, Group, Lesson, Membership, User
from services import administration, groups

pytestmark = on_both

GROUP, OTHER = (f"{digit * 8}-0000-4000-8000-000000000000" for digit in "dc")
URL = f"/api/groups/{GROUP}"


@pytest.fixture
def call(client, admin):
    def call(method, path="", body=None, headers=admin.headers):
        return client.open(f"{URL}{path}", method=method, json=body, headers=headers)

    return call


@pytest.fixture
def filled(app):
    """Add a group with these users."""

    def filled(*users, group=GROUP):
        execute(app, insert(Group).values(id=group, name="7b"))
        for user in users:
            execute(app, insert(Membership).values(group_id=group, user_id=user.id))

    return filled


def group_events(log):
    """Return what was logged about groups since the last call, and of whom and by whom."""
    return re.findall(r"(group_\w+) user=(\S+) group=(\S+) by=(\S+)", log.text())


def save(call, name="7b", **options):
    return call("PUT", body={"name": name}, **options)


def members(app):
    return {(row.group_id, row.user_id) for row in rows(app, Membership)}


def test_a_group_is_made_renamed_filled_and_removed(app, call, admin, make_user, filled):
    pupil, log = make_user(is_active=False), Log()
    filled(pupil, group=OTHER)
    member = f"/members/{pupil.id}"
    failure(call("PUT", member), 404, "not_found")
    assert success(save(call), 201) == {"id": GROUP, "name": "7b", "members": 0}
    assert success(save(call, " 7b "))["name"] == "7b"
    assert group_events(log) == [("group_saved", "-", GROUP, admin.id)]
    joins = ("PUT", "group_joined")
    for method, event in (joins, ("DELETE", "group_left"), joins):
        for changed in (True, False):
            assert success(call(method, member)) == {"changed": changed}
        assert group_events(log) == [(event, pupil.id, GROUP, admin.id)]
        there = {(GROUP, pupil.id)} if method == "PUT" else set()
        assert members(app) == there | {(OTHER, pupil.id)}
    for method in ("PUT", "DELETE"):
        failure(call(method, f"/members/{UNKNOWN_ID}"), 404, "user_not_found")
    for _ in range(2):
        assert success(save(call, "8b")) == {"id": GROUP, "name": "8b", "members": 1}
    assert success(call("DELETE")) == {}
    assert [event[0] for event in group_events(log)] == ["group_saved", "group_deleted"]
    assert [group.id for group in rows(app, Group)] == [OTHER]
    assert (members(app), len(rows(app, User))) == ({(OTHER, pupil.id)}, 2)
    failure(call("DELETE"), 404, "not_found")
    success(call("DELETE", member))
    assert group_events(log) == []


def test_groups_are_in_the_order_of_their_folded_names(app, client, admin, filled):
    names = ["10a", "Ärzte", "arzt", "BIO", "zoo"]
    rows = [{"id": f"{n}{NIL[1:]}", "name": name} for n, name in enumerate(names)]
    execute(app, insert(Group).values(rows[::-1]))
    found = success(client.get("/api/groups", headers=admin.headers))["groups"]
    assert [group["name"] for group in found] == ["10a", "arzt", "Ärzte", "BIO", "zoo"]
    for group in found:  # any UUID is the id of one, also the nil one
        success(client.get(f"/api/users?groupId={group['id']}", headers=admin.headers))


@pytest.mark.parametrize("staff", [(), ("groups:staff",)])
def test_a_key_puts_students_in_and_out_and_instructors_with_a_scope(
    call, make_user, make_key, staff
):
    key, log = bearer(make_key("groups:write", *staff)), Log()
    allowed = {"student"} | ({"instructor"} if staff else set())
    assert success(save(call, headers=key), 201)["members"] == 0
    for role in ("student", "instructor", "admin"):
        member = f"/members/{make_user(f'the-{role}', role=role).id}"
        for method in ("PUT", "DELETE"):
            answer = call(method, member, headers=key)
            assert answer.status_code == (200 if role in allowed else 403)
            success(call("PUT", member))  # an admin may
    assert group_events(log)[0][3].startswith("key:")


def test_a_new_role_ends_all_memberships_and_nothing_else_does(
    app, client, admin, make_user, filled
):
    (user, other), log = (make_user(), make_user("other")), Log()
    for group in (GROUP, OTHER):
        filled(user, other, group=group)
    url = f"/api/users/{user.id}"
    for body in ({"role": "student"}, {"isActive": False}, {"firstName": "A"}):
        success(client.patch(url, json=body, headers=admin.headers))
    assert (len(members(app)), group_events(log)) == (4, [])
    success(client.patch(url, json={"role": "instructor"}, headers=admin.headers))
    assert members(app) == {(GROUP, other.id), (OTHER, other.id)}
    left = {("group_left", user.id, group, admin.id) for group in (GROUP, OTHER)}
    assert {*group_events(log)} == left
    success(client.delete(f"/api/users/{other.id}", headers=admin.headers))
    assert (members(app), group_events(log)) == (set(), [])


# The days


def learned(app, user, *moments):
    """Add a lesson of 5 minutes at each of these times."""
    execute(app, insert(Course).values(user_id=user.id, id="c", name="C", lessons=9))
    for number, moment in enumerate(moments):
        lesson = {"course_id": "c", "id": str(number), "minutes": 5}
        at = datetime.fromisoformat(moment)
        execute(app, insert(Lesson).values(user_id=user.id, completed_at=at, **lesson))


def test_days_are_those_of_each_student_in_the_own_time_zone(
    app, client, call, filled, make_user, log_in
):
    zones = {"berlin": "Europe/Berlin", "apia": "Pacific/Apia", "lima": "America/Lima"}
    zones["utc"] = "UTC"
    pupils = {name: make_user(name, timezone=zone) for name, zone in zones.items()}
    gone, elsewhere = make_user("gone", is_active=False), make_user("elsewhere")
    teacher = make_user("teacher", role="instructor")
    filled(*pupils.values(), gone, teacher)
    filled(elsewhere, group=OTHER)
    # The night in which Berlin's clocks go back, and the day that Apia never had (30 December).
    moments = ("2011-10-29T21:59:59Z", "2011-10-29T22:00:00Z", "2011-10-30T22:59:59Z")
    moments += ("2011-10-30T23:00:00Z", "2011-12-30T09:59:59Z", "2011-12-30T10:00:00Z")
    for user in (*pupils.values(), gone, elsewhere, teacher):
        learned(app, user, *moments)
    headers = log_in(teacher).headers
    for first, last in (("10-29", "10-31"), ("12-29", "12-31"), ("10-30", "10-30")):
        query = f"?from=2011-{first}&to=2011-{last}"
        data = success(call("GET", f"/days{query}", headers=headers))
        assert (data["from"], data["to"]) == (f"2011-{first}", f"2011-{last}")
        expected = []
        for user in pupils.values():
            url = f"/api/users/{user.id}/progress/days{query}"
            days = success(client.get(url, headers=headers))["days"]
            expected += [{"userId": user.id, **day} for day in days]
        assert data["days"] == sorted(expected, key=lambda day: (day["date"], day["userId"]))
    berlin = {"userId": pupils["berlin"].id, "date": "2011-10-30", "lessons": 2, "minutes": 10}
    assert berlin in data["days"]


def test_days_are_at_most_31_and_by_default_the_last_8(call, filled, clock):
    filled()
    today = clock.utcnow().date()

    def bounds(query=""):
        data = success(call("GET", f"/days{query}"))
        return data["from"], data["to"]

    assert bounds() == (str(today - timedelta(days=7)), str(today))
    assert bounds("?from=2026-01-01") == ("2026-01-01", "2026-01-08")
    assert bounds("?to=2026-01-08") == ("2026-01-01", "2026-01-08")
    assert bounds("?from=0001-01-01") == ("0001-01-01", "0001-01-08")
    assert bounds("?to=9999-12-31") == ("9999-12-24", "9999-12-31")
    assert bounds("?from=2026-01-01&to=2026-01-31") == ("2026-01-01", "2026-01-31")
    assert words(call("GET", "/days?from=2026-01-01&to=2026-02-01")) == {"to": ["too_large"]}
    assert words(call("GET", "/days?from=2026-01-02&to=2026-01-01")) == {"from": ["invalid"]}


def test_days_are_for_instructors_in_the_group_admins_and_keys(
    call, filled, make_user, make_key, log_in
):
    inside, outside = (make_user(name, role="instructor") for name in ("inside", "outside"))
    filled(inside)
    key = bearer(make_key("learning:read"))
    for headers in (log_in(inside).headers, key):
        assert success(call("GET", "/days", headers=headers))["days"] == []
    failure(call("GET", "/days", headers=log_in(outside).headers), 404, "not_found")
    success(call("DELETE"))
    failure(call("GET", "/days"), 404, "not_found")


@on_sqlite
def test_groups_with_too_many_students_have_no_days(monkeypatch, call, filled, make_user):
    monkeypatch.setattr("services.groups.MOST_STUDENTS", 2)
    pupils = [make_user(name) for name in ("ada", "ben")]
    filled(*pupils, make_user("gone", is_active=False), make_user("kim", role="instructor"))
    filled(make_user("far"), group=OTHER)
    assert success(call("GET", "/days"))["days"] == []
    success(call("PUT", f"/members/{make_user('cyd').id}"))
    failure(call("GET", "/days"), 400, "invalid_request")


# Races


@on_postgres
def test_a_link_waits_for_a_removal_and_a_join_for_a_new_role(
    app, make_app, call, filled, make_user, make_key, log_in
):
    school = make_app(instructor_rights="groups").test_client()
    pupil, teacher = make_user(), make_user("teacher", role="instructor")
    filled(pupil, teacher)
    headers, key = log_in(teacher).headers, bearer(make_key("groups:write"))

    def ask():
        url = f"/api/users/{pupil.id}/access-link"
        return school.post(url, json={"deliver": "link"}, headers=headers)

    success(ask())
    removed = while_doing(app, lambda: groups.leave(GROUP, pupil.id, EVERYBODY), ask)
    failure(removed, 403, "forbidden")
    promote = functools.partial(administration.alter, pupil.id, role="instructor")
    join = functools.partial(call, "PUT", f"/members/{pupil.id}", headers=key)
    failure(while_doing(app, promote, join), 403, "forbidden")
    assert members(app) == {(GROUP, teacher.id)}


def test_a_removal_and_a_link_at_once_both_end(app, make_app, call, filled, make_user, log_in):
    school = make_app(instructor_rights="groups")
    pupil, teacher = make_user(), make_user("teacher", role="instructor")
    filled(pupil, teacher)
    headers, url = log_in(teacher).headers, f"/api/users/{pupil.id}/access-link"

    def act(number):
        if number:
            return call("DELETE", f"/members/{pupil.id}").status_code
        client = school.test_client()
        return client.post(url, json={"deliver": "link"}, headers=headers).status_code

    for _ in range(4):
        link, removal = race(act, 2)
        assert (link in (200, 403), removal, act(0)) == (True, 200, 403)
        success(call("PUT", f"/members/{pupil.id}"))


def test_a_group_that_is_removed_meanwhile_is_there_or_not_found(
    app, call, admin, make_user, log_in
):
    teacher = make_user("teacher", role="instructor")
    paths = [f"/api/users?groupId={GROUP}", "/api/groups", f"/api/users/{teacher.id}/account"]
    callers = {f"{URL}/days": log_in(teacher).headers, **dict.fromkeys(paths, admin.headers)}

    def read(path):
        response = app.test_client().get(path, headers=callers[path])
        if response.status_code != 200:
            failure(response, 404, "not_found")

    with meanwhile([lambda path=path: read(path) for path in callers]):
        for _ in range(5):
            success(save(call), 201)
            success(call("PUT", f"/members/{teacher.id}"))
            success(call("DELETE"))


def test_a_group_is_made_once_and_removed_while_it_is_saved(app, call):
    saved = race(lambda n: save(call, f"{n}").status_code, 8)
    assert sorted(saved) == [200] * 7 + [201]
    acts = [lambda: call("DELETE"), lambda: save(call)]
    for _ in range(4):
        assert {each.status_code for each in race(lambda n: acts[n % 2](), 6)} <= {200, 201, 404}
