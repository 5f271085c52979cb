"""Groups: made, filled and removed; their days of learning; and who was first in a race."""

import itertools
from datetime import datetime, timedelta

import pytest
from endpoints import UNKNOWN_ID
from helpers import (
    alter,
    bearer,
    execute,
    failure,
    meanwhile,
    on_one_database,
    on_postgres,
    race,
    rows,
    success,
    while_doing,
    words,
)
from sqlalchemy import insert

from core.roles import EVERYBODY
from models import Course, Group, Lesson, Membership, User
from services import administration, groups

GROUP, OTHER = (f"{digit * 8}-0000-4000-8000-000000000000" for digit in "cd")
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


@pytest.fixture
def events(caplog):
    """Return what was logged about groups since the last call."""
    caplog.set_level("INFO", logger="accounts.security")

    def events():
        found = [each for each in caplog.records if each.getMessage().startswith("group_")]
        fields = ("user", "group", "by")
        said = [(each.getMessage(), *map(each.fields.get, fields)) for each in found]
        caplog.clear()
        return said

    return events


def members(app):
    return {(row.group_id, row.user_id) for row in rows(app, Membership)}


def test_a_group_is_made_renamed_filled_and_removed(app, call, admin, make_user, events):
    pupil = make_user(is_active=False)
    member = f"/members/{pupil.id}"
    failure(call("PUT", member), 404, "not_found")
    made = call("PUT", body={"name": " 7b "})
    assert success(made, 201) == {"id": GROUP, "name": "7b", "members": 0}
    assert success(call("PUT", body={"name": "7b"}))["name"] == "7b"
    assert events() == [("group_saved", "-", GROUP, admin.id)]
    for method, event in (("PUT", "group_joined"), ("DELETE", "group_left"), ("PUT", None)):
        for _ in range(2):  # the second one changes nothing
            assert success(call(method, member)) == {}
        assert not event or events() == [(event, pupil.id, GROUP, admin.id)]
        assert members(app) == ({(GROUP, pupil.id)} if method == "PUT" else set())
    failure(call("PUT", f"/members/{UNKNOWN_ID}"), 404, "user_not_found")
    failure(call("DELETE", f"/members/{UNKNOWN_ID}"), 404, "user_not_found")
    events()
    assert success(call("PUT", body={"name": "8b"})) == {"id": GROUP, "name": "8b", "members": 1}
    assert success(call("DELETE")) == {}
    assert [event[0] for event in events()] == ["group_saved", "group_deleted"]
    assert (members(app), rows(app, Group), len(rows(app, User))) == (set(), [], 2)
    failure(call("DELETE"), 404, "not_found")
    success(call("DELETE", member))  # it is in no group, this one neither
    assert events() == []


@on_one_database
def test_names_of_groups_are_names_and_nothing_else(client, call):
    for name in ("", "x" * 65, "\u2800", 7, None):
        assert words(call("PUT", body={"name": name})).keys() == {"name"}
    assert client.put("/api/groups/7b", json={"name": "7b"}).status_code == 404


def test_groups_are_in_the_order_of_their_folded_names(app, client, admin, filled):
    names = ["10a", "Ärzte", "arzt", "BIO", "zoo"]
    rows = [{"id": f"{n}" * 8 + GROUP[8:], "name": name} for n, name in enumerate(names)]
    execute(app, insert(Group).values(rows[::-1]))
    found = success(client.get("/api/groups", headers=admin.headers))["groups"]
    assert [group["name"] for group in found] == ["10a", "arzt", "Ärzte", "BIO", "zoo"]


def test_a_key_puts_students_in_and_out_and_nobody_else(app, call, make_user, make_key, events):
    key = bearer(make_key("groups:write"))
    assert success(call("PUT", body={"name": "7b"}, headers=key), 201)["members"] == 0
    for role, method in itertools.product(("student", "instructor", "admin"), ("PUT", "DELETE")):
        user = make_user(f"{role}-{method}".lower(), role=role)
        response = call(method, f"/members/{user.id}", headers=key)
        if role == "student":
            success(response)
        else:
            failure(response, 403, "forbidden")
        success(call("PUT", f"/members/{user.id}"))  # an admin may
    failure(call("DELETE", headers=key), 403, "forbidden")
    assert events()[0][3].startswith("key:")


def test_a_new_role_ends_all_memberships_and_nothing_else_does(
    app, client, admin, make_user, filled, events
):
    user, other = make_user(), make_user("other")
    filled(user, other)
    filled(user, other, group=OTHER)
    for body in ({"role": "student"}, {"isActive": False}, {"firstName": "A"}):
        success(client.patch(f"/api/users/{user.id}", json=body, headers=admin.headers))
    assert len(members(app)) == 4
    body = {"role": "instructor"}
    success(client.patch(f"/api/users/{user.id}", json=body, headers=admin.headers))
    assert members(app) == {(GROUP, other.id), (OTHER, other.id)}
    left = {("group_left", user.id, group, admin.id) for group in (GROUP, OTHER)}
    assert set(events()) == left
    success(client.delete(f"/api/users/{other.id}", headers=admin.headers))
    assert (members(app), events()) == (set(), [])


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
    zones = {
        "berlin": "Europe/Berlin",
        "apia": "Pacific/Apia",
        "utc": "UTC",
        "lima": "America/Lima",
    }
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


@on_one_database
def test_groups_with_too_many_students_have_no_days(monkeypatch, call, filled, make_user):
    monkeypatch.setattr("services.groups.MOST_STUDENTS", 2)
    pupils = [make_user(name) for name in ("ada", "ben")]
    filled(*pupils, make_user("gone", is_active=False), make_user("kim", role="instructor"))
    assert success(call("GET", "/days"))["days"] == []
    success(call("PUT", f"/members/{make_user('cyd').id}"))
    failure(call("GET", "/days"), 400, "invalid_request")


# Races


@pytest.fixture
def school(make_app):
    return make_app(instructor_rights="groups").test_client()


@on_postgres
def test_a_link_waits_for_a_removal_and_a_join_for_a_new_role(
    app, school, client, filled, make_user, make_key, log_in
):
    pupil, teacher = make_user(), make_user("teacher", role="instructor")
    filled(pupil, teacher)
    headers, key = log_in(teacher).headers, bearer(make_key("groups:write"))

    def ask():
        url = f"/api/users/{pupil.id}/access-link"
        return school.post(url, json={"deliver": "link"}, headers=headers)

    def join():
        return client.put(f"{URL}/members/{pupil.id}", headers=key)

    success(ask())
    removal = lambda: groups.leave(GROUP, pupil.id, EVERYBODY)  # noqa: E731
    failure(while_doing(app, removal, ask), 403, "forbidden")
    new_role = lambda: administration.alter(pupil.id, role="instructor")  # noqa: E731
    failure(while_doing(app, new_role, join), 403, "forbidden")
    assert members(app) == {(GROUP, teacher.id)}


def test_whoever_is_first_no_membership_outlives_a_new_role(
    app, client, filled, make_user, make_key
):
    filled()
    key = bearer(make_key("groups:write"))
    for number in range(6):
        user = make_user(f"user{number}")
        join = lambda: client.put(f"{URL}/members/{user.id}", headers=key)  # noqa: B023, E731
        promote = lambda: alter(app, user, {"role": "instructor"})  # noqa: B023, E731
        joined, _ = race(lambda n: (join, promote)[n](), 2)  # noqa: B023
        assert joined.status_code in (200, 403)
    assert members(app) == set()


def test_a_group_that_is_removed_meanwhile_is_there_or_not_found(
    app, call, admin, school, filled, make_user, log_in
):
    teacher = make_user("teacher", role="instructor")
    headers = log_in(teacher).headers
    paths = [f"{URL}/days", f"/api/users?groupId={GROUP}", "/api/groups"]
    paths.append(f"/api/users/{teacher.id}/account")

    def read(path, headers):
        response = app.test_client().get(path, headers=headers)
        if response.status_code != 200:
            failure(response, 404, "not_found")

    reads = [lambda path=path: read(path, admin.headers) for path in paths]
    with meanwhile([*reads, lambda: read(paths[0], headers)]):
        for _ in range(5):
            success(call("PUT", body={"name": "7b"}), 201)
            success(call("PUT", f"/members/{teacher.id}"))
            success(call("DELETE"))


def test_a_group_is_made_once_and_removed_while_it_is_saved(app, call):
    saved = race(lambda n: call("PUT", body={"name": f"{n}"}).status_code, 8)
    assert sorted(saved) == [200] * 7 + [201]
    acts = [lambda: call("DELETE"), lambda: call("PUT", body={"name": "7b"})]
    for _ in range(4):
        assert {each.status_code for each in race(lambda n: acts[n % 2](), 6)} <= {200, 201, 404}
