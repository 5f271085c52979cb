"""What is done for many in one call: what each gets of it, who is refused, and who was first."""

import itertools
import json
from types import SimpleNamespace

import pytest
from endpoints import UNKNOWN_ID
from helpers import (
    assert_ended,
    bearer,
    crowd,
    execute,
    failure,
    on_both,
    on_both_slowly,
    on_postgres,
    race,
    rows,
    set_user,
    statements_of,
    success,
    while_doing,
    words,
)
from sqlalchemy import insert

from core.clock import utcnow
from core.roles import EVERYBODY
from database import transaction
from models import (
    Achievement,
    Certificate,
    Course,
    Event,
    Group,
    Lesson,
    Membership,
    User,
    UserSession,
)
from services import administration, groups, learning, users
from web.bodies import MAX_BODY_OF_MANY

pytestmark = on_both_slowly

GROUP = "dddddddd-0000-4000-8000-000000000000"
MEMBERS = f"/api/groups/{GROUP}/members"
KINDS = {"courses": Course, "lessons": Lesson, "achievements": Achievement}
KINDS["certificates"] = Certificate


@pytest.fixture
def call(client, admin):
    def call(method, path, body, headers=admin.headers):
        return client.open(path, method=method, json=body, headers=headers)

    return call


@pytest.fixture
def admin(admin):
    return SimpleNamespace(id=admin.data["user"]["id"], headers=admin.headers)


@pytest.fixture
def group(app):
    execute(app, insert(Group).values(id=GROUP, name="7b"))


@pytest.fixture
def pupils(make_user):
    """Three students, by id."""
    found = [make_user(name) for name in ("ada", "ben", "cem")]
    return sorted(found, key=lambda user: user.id)


def ids_of(people):
    return [user.id for user in people]


def codes(data):
    return {each.get("id", each.get("index")): each["code"] for each in data["refused"]}


def events_of(app, type):
    """Return whose event this is, sorted, and by whom."""
    found = rows(app, Event, type=type)
    return sorted(each.user_id for each in found), {each.by for each in found}


# What holds for all


CALLS = {
    "members": ("POST", MEMBERS, lambda ids: {"add": ids}, 1000),
    "activation": ("PATCH", "/api/users", lambda ids: {"ids": ids, "isActive": False}, 1000),
    "removals": ("POST", "/api/users/removals", lambda ids: {"ids": ids}, 1000),
    "links": ("POST", "/api/users/access-links", lambda ids: {"ids": ids}, 100),
}


def records_of(**record):
    """Return what makes the body with this record for each of these users."""
    return lambda ids: {"records": [{"userId": id_, **record} for id_ in ids]}


def some_ids(number):
    return [f"{count:08x}-0000-7000-8000-000000000000" for count in range(number)]


@pytest.mark.parametrize("name", CALLS)
def test_nobody_and_too_many_are_refused_and_somebody_unknown_is_named(call, group, name):
    method, path, body, most = CALLS[name]
    for number in (0, most + 1):
        failure(call(method, path, body(some_ids(number))), 400, "invalid_request")
    twice = 2 * [*some_ids(most), UNKNOWN_ID.upper()][1:]
    data = success(call(method, path, body(twice)))
    assert codes(data) == dict.fromkeys([*some_ids(most)[1:], UNKNOWN_ID], "user_not_found")


def test_of_too_many_entries_none_is_looked_at_and_of_ids_the_first_wrong_one_is_told(call):
    answer = call("POST", "/api/learning/courses", {"records": 1001 * [{}]})
    assert words(answer) == {"records": ["too_long"]}
    answer = call("PATCH", "/api/users", {"ids": [UNKNOWN_ID, None, "x"], "isActive": True})
    assert words(answer) == {"ids": ["type"]}


def test_a_body_has_two_mebibytes(client, admin, make_user):
    url, body = "/api/learning/courses", json.dumps(records_of(**COURSE)([make_user().id])).encode()
    for length, status in ((MAX_BODY_OF_MANY, 200), (MAX_BODY_OF_MANY + 1, 413)):
        headers = {**admin.headers, "Content-Type": "application/json"}
        assert client.post(url, data=body.ljust(length), headers=headers).status_code == status


COURSE = {"id": "c", "name": "x", "lessons": 1}
SETS = {
    **CALLS,
    "leaving": ("POST", MEMBERS, lambda ids: {"remove": ids}, 1000),
    "lessons": ("POST", "/api/learning/lessons", records_of(courseId="c", id="l", minutes=1), 1000),
}
# What is there before.
FIRST = {"leaving": CALLS["members"]}
FIRST["lessons"] = ("POST", "/api/learning/courses", records_of(**COURSE), 1000)


@pytest.mark.parametrize("name", sorted(SETS.keys() - {"links"}))
def test_sets_are_written_as_sets(app, call, group, name):
    crowd(app, 60)
    everybody = sorted(user.id for user in rows(app, User) if user.username.startswith("user"))
    counts = []
    if name in FIRST:
        method, path, body, _ = FIRST[name]
        success(call(method, path, body(everybody)))
    method, path, body, _ = SETS[name]
    for some in (everybody[:5], everybody[5:]):
        with statements_of(app) as sent:
            assert codes(success(call(method, path, body(some)))) == {}
        counts.append(len(sent))
    assert counts[0] == counts[1] < 25


# Groups


def test_members_come_and_go_together_and_the_call_turned_round_takes_it_back(
    app, call, group, pupils
):
    ada, ben, cem = ids_of(pupils)
    data = success(call("POST", MEMBERS, {"add": [ada, ben]}))
    assert data == {"added": [ada, ben], "removed": [], "refused": []}
    first = success(call("POST", MEMBERS, {"add": [ben, cem, UNKNOWN_ID], "remove": [ada]}))
    assert (first["added"], first["removed"]) == ([cem], [ada])
    assert codes(first) == {UNKNOWN_ID: "user_not_found"}
    again = success(call("POST", MEMBERS, {"add": [ben, cem], "remove": [ada]}))
    assert again == {"added": [], "removed": [], "refused": []}
    back = {"add": first["removed"], "remove": first["added"]}
    assert success(call("POST", MEMBERS, back))["added"] == [ada]
    assert {row.user_id for row in rows(app, Membership)} == {ada, ben}
    assert events_of(app, "group_joined")[0] == sorted([ada, ada, ben, cem])
    assert events_of(app, "group_left")[0] == [ada, cem]


def test_members_of_no_group_and_ids_in_both_lists_are_refused(call, group, pupils):
    (ada, ben, _), elsewhere = ids_of(pupils), f"/api/groups/{UNKNOWN_ID}/members"
    failure(call("POST", elsewhere, {"add": [ada]}), 404, "not_found")
    failure(call("POST", elsewhere, {"remove": [ada]}), 404, "not_found")
    failure(call("POST", MEMBERS, {}), 400, "invalid_request")
    failure(call("POST", MEMBERS, {"add": [ada, ben], "remove": [ada]}), 400, "invalid_request")
    both = {"add": some_ids(600), "remove": some_ids(1001)[600:]}
    failure(call("POST", MEMBERS, both), 400, "invalid_request")


@pytest.mark.parametrize("staff", [False, True])
def test_a_key_moves_those_only_whom_it_moves_one_by_one(
    app, call, admin, group, pupils, make_user, make_key, staff
):
    teacher, pupil = make_user("teacher", role="instructor"), pupils[0]
    scopes = ("groups:write", *(["groups:staff"] if staff else []))
    them = [teacher.id, pupil.id, admin.id]
    key = bearer(make_key(*scopes))
    data = success(call("POST", MEMBERS, {"add": them}, key))
    refused = them[2:] if staff else [teacher.id, admin.id]
    assert codes(data) == dict.fromkeys(refused, "forbidden")
    assert data["added"] == sorted({*them} - {*refused})
    by = {each.by for each in rows(app, Event, type="group_joined")}
    assert [who.startswith("key:") for who in by] == [True]


# Accounts


def test_many_are_deactivated_with_their_sessions_and_activated_again(
    app, call, client, pupils, log_in
):
    session, ids = log_in(pupils[0]), ids_of(pupils)
    set_user(app, pupils[2], is_active=False)
    versions = {user.id: user.password_version for user in rows(app, User)}
    data = success(call("PATCH", "/api/users", {"ids": ids, "isActive": False}))
    assert data == {"changed": ids[:2], "refused": []}
    assert_ended(client, session)
    assert rows(app, UserSession, user_id=ids[0]) == []
    for user in rows(app, User):
        grown = user.id in ids[:2]
        assert user.password_version == versions[user.id] + grown
        assert bool(user.changed) is grown
    back = {"ids": data["changed"], "isActive": True}
    assert success(call("PATCH", "/api/users", back))["changed"] == ids[:2]
    assert success(call("PATCH", "/api/users", back))["changed"] == []
    for type in ("account_deactivated", "account_activated"):
        assert events_of(app, type)[0] == ids[:2]


def test_of_the_last_admins_one_stays(app, call, admin, make_user, make_key, pupils):
    others = [make_user(name, role="admin") for name in ("head", "deputy")]
    admins = sorted([*ids_of(others), admin.id])
    body = {"ids": [*admins, pupils[0].id], "isActive": False}
    key = call("PATCH", "/api/users", body, bearer(make_key("users:write")))
    assert codes(success(key)) == dict.fromkeys(admins, "forbidden")
    data = success(call("PATCH", "/api/users", {**body, "ids": admins}))
    assert (data["changed"], codes(data)) == (admins[:2], {admins[2]: "last_admin"})
    active = [user.id for user in rows(app, User, is_active=True) if user.role == "admin"]
    assert active == admins[2:]


USES = {
    Course: {"name": "x", "lessons": 1},
    Achievement: {"name": "x", "earned_at": utcnow()},
    Certificate: {
        **{"course_id": "c", "course_name": "x", "issued_at": utcnow(), "holder": "x"},
        "credential_url": "",
    },
}


def of_user(kind, user, **more):
    """Return the columns of a record of this kind."""
    return {"user_id": user.id, "id": "one", **USES[kind], **more}


USED = {"login": {"last_login_at": utcnow()}, "admin": {"role": "admin"}}


@pytest.mark.parametrize("use", [*USED, *USES])
def test_an_account_is_taken_back_with_a_notice_unless_it_was_used(app, call, pupils, outbox, use):
    ada, ben, _ = pupils
    if use in USED:
        set_user(app, ada, **USED[use])
    else:
        execute(app, insert(use).values(of_user(use, ada)))
    data = success(call("POST", "/api/users/removals", {"ids": ids_of([ada, ben])}))
    assert (data["removed"], codes(data)) == ([ben.id], {ada.id: "account_used"})
    assert outbox.waiting() == [("account_deleted", ben.email)]


@on_postgres
def test_taking_back_waits_for_a_course_that_is_delivered_meanwhile(app, pupils):
    (pupil, *_), record = pupils, {"id": "c", "name": "x", "lessons": 1}

    def deliver():
        user = users.lock_within(pupil.id, EVERYBODY, read=True)
        learning.put(Course, user, record, now=utcnow())

    data = while_doing(app, deliver, lambda: in_one(app, administration.remove_unused, [pupil.id]))
    assert (data["removed"], [*data["refused"]]) == ([], [pupil.id])


def in_one(app, act, *arguments, **more):
    with app.app_context(), transaction():
        return act(*arguments, **more)


# Slips


def test_many_links_work_each_for_its_user(call, client, pupils, make_user, app):
    gone, head = make_user("gone", is_active=False), make_user("head", role="admin")
    ids = ids_of([*pupils, gone, head])
    data = success(call("POST", "/api/users/access-links", {"ids": ids, "replacePassword": True}))
    assert codes(data) == {gone.id: "user_not_found", head.id: "forbidden"}
    assert [each["userId"] for each in data["links"]] == ids_of(pupils)
    for user, made in zip(pupils, data["links"], strict=True):
        assert made["qrCode"].startswith("<svg") or "<svg" in made["qrCode"]
        sent = {"account": user.username, "code": made["code"], "newPassword": f"{user.id} is new"}
        success(client.post("/api/auth/reset-password", json=sent))


def test_each_link_counts_towards_the_limit(make_app, admin, pupils):
    client = make_app(ratelimit_enabled=True).test_client()

    def ask(number):
        body = {"ids": [*some_ids(number - 1), pupils[0].id]}
        return client.post("/api/users/access-links", json=body, headers=admin.headers)

    for _ in range(9):
        success(ask(100))
    success(ask(60))
    failure(ask(41), 429, "too_many_requests")  # which counts towards nothing
    success(ask(39))
    url = f"/api/users/{pupils[0].id}/access-link"
    one = {"json": {"deliver": "link"}, "headers": admin.headers}
    success(client.post(url, **one))
    failure(client.post(url, **one), 429, "too_many_requests")


# Records


RECORDS = {
    "courses": {"id": "c", "name": "Python", "lessons": 3},
    "lessons": {"id": "l", "courseId": "c", "name": "Loops", "minutes": 20},
    "achievements": {"id": "a", "name": "First steps"},
    "certificates": {"id": "z", "courseId": "c", "courseName": "Python"},
}
AT = "2026-03-01T10:00:00Z"
MORE = {
    "lessons": {"completedAt": AT},
    "achievements": {"earnedAt": AT},
    "certificates": {"issuedAt": AT, "expiresAt": "2036-03-01T10:00:00Z", "revokedAt": AT},
}
MORE["certificates"]["credentialUrl"] = "https://school.example/z"
# What a delivery that does not say it leaves as it is, but for these.
KEPT = {
    "certificates": {name: MORE["certificates"][name] for name in ("expiresAt", "credentialUrl")}
}


@pytest.fixture
def deliver(call):
    def deliver(kind, *records, headers=None):
        given = [headers] if headers else []
        return success(call("POST", f"/api/learning/{kind}", {"records": records}, *given))

    return deliver


@pytest.mark.parametrize("kind", RECORDS)
def test_a_delivery_for_many_is_that_for_one_and_what_comes_out_goes_in_again(
    app, call, client, admin, deliver, pupils, kind
):
    ada, ben, cem = pupils
    execute(app, insert(Course).values([of_user(Course, each, id="c") for each in pupils]))
    record = {**RECORDS[kind], **MORE.get(kind, {})}
    sent = {"userId": ada.id, **record}, {"userId": cem.id, **RECORDS[kind]}
    data = deliver(kind, *sent)
    new = 0 if kind == "courses" else 2
    assert data == {"new": new, "replaced": 2 - new, "refused": []}
    place = f"courses/c/lessons/{record['id']}" if kind == "lessons" else f"{kind}/{record['id']}"
    in_path = ("id", "courseId") if kind == "lessons" else ("id",)
    body = {name: value for name, value in record.items() if name not in in_path}
    assert call("PUT", f"/api/users/{ben.id}/{place}", body).status_code in (200, 201)
    before = rows(app, KINDS[kind])
    one, other = ({**row._asdict(), "user_id": ""} for row in before if row.user_id != cem.id)
    assert one == other
    out = success(client.get(f"/api/learning/{kind}", headers=admin.headers))["records"]
    # Also where one record says more than another.
    for again in (out, sent, [{"userId": ada.id, **RECORDS[kind], **KEPT.get(kind, {})}, sent[1]]):
        assert deliver(kind, *again) == {"new": 0, "replaced": len(again), "refused": []}
        assert rows(app, KINDS[kind]) == before


def test_a_record_that_is_refused_hinders_no_other(app, deliver, pupils):
    ada = pupils[0].id
    course = {"userId": ada, **RECORDS["courses"]}
    data = deliver(
        "courses",
        course,
        {**course, "lessons": "3", "name": ""},
        {**course, "userId": UNKNOWN_ID},
        {**RECORDS["courses"]},
        "no object",
        {**course, "unknown": 1},
        {**course, "name": "The later one", "lessons": 4},
    )
    assert (data["new"], data["replaced"]) == (1, 0)
    assert codes(data) == {**dict.fromkeys((1, 3, 4, 5), "invalid_request"), 2: "user_not_found"}
    reasons = {each["index"]: each["reasons"] for each in data["refused"] if "reasons" in each}
    assert reasons == {
        1: {"lessons": ["type"], "name": ["too_short"]},
        3: {"userId": ["required"]},
        4: {"records": ["type"]},
        5: {"unknown": ["unknown"]},
    }
    (row,) = rows(app, Course)
    assert (row.name, row.lessons) == ("The later one", 4)


def test_lessons_need_their_course(app, deliver, pupils):
    execute(app, insert(Course).values(of_user(Course, pupils[0], id="c")))
    lessons = [{"userId": each.id, **RECORDS["lessons"]} for each in pupils]
    assert codes(deliver("lessons", *lessons)) == {1: "not_found", 2: "not_found"}
    assert [row.user_id for row in rows(app, Lesson)] == [pupils[0].id]


def test_a_number_names_a_user_to_admins_and_keys_only(
    app, deliver, admin, make_user, make_key, log_in, pupils
):
    ada, ben, _ = pupils
    set_user(app, ada, external_id="S-1")
    set_user(app, admin, external_id="S-2")
    record = RECORDS["achievements"]
    key = bearer(make_key("learning:write"))
    sent = [
        {**record, "externalId": "S-1"},
        {**record, "externalId": "S-1", "userId": ben.id},
        {**record, "externalId": "", "userId": ben.id, "id": "b"},
        {**record, "externalId": "s-1"},
        {**record, "externalId": "S-2"},
    ]
    data = deliver("achievements", *sent, headers=key)
    # An admin's number tells a key no more than nobody's.
    assert codes(data) == {3: "user_not_found", 4: "user_not_found"}
    found = sorted((row.user_id, row.id) for row in rows(app, Achievement))
    assert found == sorted([(ada.id, "a"), (ben.id, "a"), (ben.id, "b")])
    teacher = log_in(make_user("teacher", role="instructor")).headers
    data = deliver("achievements", *sent[:2], headers=teacher)
    assert (data["replaced"], codes(data)) == (1, {0: "user_not_found"})


def test_a_teacher_delivers_and_makes_links_within_reach_only(
    make_app, app, make_user, log_in, group, pupils
):
    client = make_app(instructor_rights="groups").test_client()
    teacher = make_user("teacher", role="instructor")
    for user in (teacher, pupils[0]):
        execute(app, insert(Membership).values(group_id=GROUP, user_id=user.id))
    ids, headers = [*ids_of(pupils[:2]), teacher.id, UNKNOWN_ID], log_in(teacher).headers
    records = [{"userId": each, **RECORDS["courses"]} for each in ids]
    sent = {"json": {"records": records}, "headers": headers}
    refused = ["forbidden", "forbidden", "user_not_found"]
    data = success(client.post("/api/learning/courses", **sent))
    assert (data["new"], codes(data)) == (1, dict(enumerate(refused, 1)))
    data = success(client.post("/api/users/access-links", json={"ids": ids}, headers=headers))
    assert [each["userId"] for each in data["links"]] == ids[:1]
    assert codes(data) == dict(zip(ids[1:], refused, strict=True))


# Who was first


@on_both
@pytest.mark.parametrize("name", ["members", "activation", "removals"])
def test_the_same_call_at_once_changes_each_once(app, make_app, admin, group, pupils, name):
    method, path, body, _ = CALLS[name]
    ids = ids_of(pupils)

    def ask(_):
        client = app.test_client()
        answer = client.open(path, method=method, json=body(ids), headers=admin.headers)
        data = success(answer)
        return data[{"members": "added", "activation": "changed", "removals": "removed"}[name]]

    assert sorted(itertools.chain(*race(ask, 6))) == ids


@on_both
def test_the_same_records_at_once_are_new_once(app, admin, pupils):
    records = [{"userId": each.id, **RECORDS["achievements"]} for each in pupils]

    def ask(number):
        body = {"records": records if number % 2 else records[::-1]}
        client = app.test_client()
        data = success(client.post("/api/learning/achievements", json=body, headers=admin.headers))
        assert data["new"] + data["replaced"] == 3
        return data["new"]

    assert sum(race(ask, 6)) == 3


@on_postgres
def test_no_membership_outlives_a_new_role(app, group, pupils):
    ids = ids_of(pupils)

    def promote():
        administration.alter(ids[1], role="instructor")

    def ask():
        return in_one(app, groups.change_members, GROUP, ids, [], EVERYBODY)

    assert while_doing(app, promote, ask)["added"] == ids  # as an instructor, after it
    assert [row.role for row in rows(app, User, id=ids[1])] == ["instructor"]

    def join():
        groups.change_members(GROUP, ids, [], EVERYBODY)

    while_doing(app, join, lambda: in_one(app, administration.alter, ids[0], role="instructor"))
    assert ids[0] not in {row.user_id for row in rows(app, Membership)}


@on_postgres
def test_a_group_is_not_removed_from_under_its_new_members(app, group, pupils):
    ids = ids_of(pupils)

    def join():
        groups.change_members(GROUP, ids, [], EVERYBODY)

    while_doing(app, join, lambda: in_one(app, groups.remove, GROUP))
    assert (rows(app, Group), rows(app, Membership)) == ([], [])
    assert events_of(app, "group_joined")[0] == ids
