"""Lists of people: whom a line means, what it changes, and what is refused."""

import uuid
from types import SimpleNamespace

import pytest
from helpers import (
    execute,
    failure,
    on_both,
    on_both_slowly,
    on_postgres,
    race,
    rows,
    set_user,
    statements_of,
    stored,
    success,
    while_changing,
    words,
)
from sqlalchemy import delete, insert

from core.clock import utcnow
from core.scopes import Scope
from models import Event, Group, Membership, User
from services import lists

pytestmark = on_both_slowly

LISTS = "/api/users/lists"
CHESS = "01900000-0000-7000-8000-000000000000"  # a group that people have made


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch):
    monkeypatch.setattr(lists, "PAUSE", 0)


@pytest.fixture
def sent(client, admin):
    """Return the response to a list, a text or people, that is sent with this query."""

    def sent(people, client=client, headers=admin.headers, **query):
        content = {"json": {"people": people}} if isinstance(people, list) else {"data": people}
        query = {name: str(value).lower() for name, value in query.items()}
        return client.post(LISTS, query_string=query, headers=headers, **content)

    return sent


@pytest.fixture
def do(sent):
    """Do what a list says, which the check had said before; return the data."""

    def do(people, **query):
        before = success(sent(people, **query))
        after = success(sent(people, apply=True, **query))
        made = [{**line, "userId": None} for line in after["lines"] if line["status"] == "new"]
        others = [line for line in after["lines"] if line["status"] != "new"]
        assert before["lines"] == sorted(made + others, key=lambda line: line["line"])
        assert before | {"lines": []} == after | {"lines": []}
        return after

    return do


def statuses(data):
    return [line["status"] for line in data["lines"]]


def person(first="Mia", last="Lang", **columns):
    return {"firstName": first, "lastName": last, **columns}


def groups_of(app, user):
    there = {group.id: group.name for group in rows(app, Group)}
    return sorted(there[each.group_id] for each in rows(app, Membership, user_id=user.id))


@pytest.fixture
def make_group(app):
    def make(name, group_id=CHESS, *members):
        execute(app, insert(Group).values(id=group_id, name=name))
        pairs = [{"group_id": group_id, "user_id": user.id} for user in members]
        for pair in pairs:
            execute(app, insert(Membership).values(**pair))
        return group_id

    return make


# The account: username mia, address mia@example.org, with a password; what it has besides.
UNUSED = {"password_hash": "!"}
PROVED = {"email_verified_at": utcnow()}
SEEN = {"password_hash": "!", "last_login_at": utcnow()}
LINKED = {"password_hash": "!", "identity": "https://id.example.org 1"}
S1, S2 = {"externalId": "S-1"}, {"externalId": "S-2"}
MINE, OTHER = {"email": "Mia@Example.org"}, {"email": "other@example.org"}
NAMED = {"username": "MIA"}
TEACHER = {"role": "instructor", **UNUSED}
# The account, the line, whom that means (hers, new, or the code of a refusal), and what differs.
MEANT = [
    ({"external_id": "S-1"}, {**S1, **OTHER}, "hers", ["email"]),
    ({"external_id": "S-1", **UNUSED}, {**S1, **OTHER}, "hers", []),
    ({"external_id": "s-1"}, S1, "new", []),  # compared as it is written
    (PROVED, MINE, "hers", []),
    (UNUSED, MINE, "hers", []),
    ({}, MINE, "email_taken", []),  # perhaps a stranger registered it
    ({}, {**MINE, **S1}, "email_taken", []),
    ({}, {**MINE, **NAMED}, "email_taken", []),
    (SEEN, MINE, "email_taken", []),
    (LINKED, MINE, "email_taken", []),
    (PROVED, {**MINE, **S1}, "hers", []),
    ({"external_id": "S-1", **PROVED}, MINE, "hers", []),
    ({"external_id": "S-1", **PROVED}, {**MINE, **S2}, "new", ["email"]),  # siblings
    ({"external_id": "S-1"}, {**MINE, **S2}, "new", ["email"]),
    ({"external_id": "S-1"}, {**MINE, **S2, **NAMED}, "username_taken", ["email"]),
    (UNUSED, NAMED, "hers", []),
    (UNUSED, {**NAMED, **S1, **OTHER}, "hers", []),
    ({"external_id": "S-1", **UNUSED}, NAMED, "hers", []),
    ({"external_id": "S-1", **UNUSED}, {**NAMED, **S2}, "username_taken", []),
    ({}, {**NAMED, **S1}, "username_taken", []),  # a stranger may have chosen it
    ({}, NAMED, "username_taken", []),
    ({}, {**NAMED, **OTHER}, "username_taken", []),
    (SEEN, NAMED, "username_taken", []),
    (LINKED, NAMED, "username_taken", []),
    (TEACHER, NAMED, "username_taken", []),
    ({"role": "admin", "external_id": "S-1"}, S1, "hers", []),
    (UNUSED, {**MINE, "role": "instructor"}, "invalid_request", []),
    ({"first_name": "Mia", "last_name": "Läng"}, {}, "new", []),  # mia.lang is free
    # A pupil with the address of a teacher; and the teacher of the class.
    ({"role": "instructor", **PROVED}, {**MINE, **S1}, "invalid_request", []),
    ({"role": "instructor", "first_name": "MÍA", "last_name": "Lang", **PROVED}, MINE, "hers", []),
    ({}, {"externalId": "7,1E+05"}, "invalid_request", []),
    ({}, {"firstName": "Mia", "lastName": "5e"}, "invalid_request", []),
]


@pytest.mark.parametrize(("account", "line", "meant", "differs"), MEANT)
def test_a_line_means_whom_only_the_office_can_have_made_so(
    app, make_user, sent, account, line, meant, differs
):
    hers = make_user("mia", **account)
    before = stored(app, hers)
    [found] = success(sent([person(**line)], apply=True))["lines"]
    assert found["differs"] == differs
    if meant == "hers":
        assert (found["status"], found["userId"]) == ("changed", hers.id)
        assert stored(app, hers).first_name == "Mia"
        return
    assert stored(app, hers) == before
    if meant == "new":
        assert found["status"] == "new"
        assert found["userId"] != hers.id
        assert stored(app, id=found["userId"]).role == "student"
    else:
        assert (found["status"], found["code"]) == ("refused", meant)
        assert len(rows(app, User)) == 2
        assert found["holderId"] == (hers.id if meant.endswith("taken") else None)


@pytest.mark.parametrize(
    ("line", "meant"),
    [(NAMED, "same"), ({**NAMED, **S1}, "refused"), ({**NAMED, **OTHER}, "refused")],
)
def test_where_nobody_registers_a_username_alone_is_enough(make_app, make_user, sent, line, meant):
    client = make_app(registration="closed").test_client()
    make_user("mia", first_name="Mia", last_name="Lang")
    [found] = success(sent([person(**line)], client=client))["lines"]
    assert found["status"] == meant


def test_the_same_list_of_names_makes_nobody_twice(app, make_user, do):
    make_user("mia.lang", first_name="Someone", last_name="Else")
    people = [person(), person("Noa", "Lang"), person("Noa", "Lang")]
    data = do(people)
    assert statuses(data) == ["new"] * 3
    assert [line["username"] for line in data["lines"]] == ["mia.lang2", "noa.lang", "noa.lang2"]
    again = do([person("MIA", "Láng", username="ab"), *people[1:]])
    assert [line["code"] for line in again["lines"]] == ["username_taken"] * 3
    assert [line["holderId"] for line in again["lines"]][:2] == [
        line["userId"] for line in data["lines"]
    ][:2]


def test_lines_of_one_person_are_one_where_only_their_groups_differ(app, do):
    data = do([person(group="5a", **S1), person(group="Choir", **S1), person(group="5a", **S1)])
    [line] = data["lines"]
    assert sorted(group["people"] for group in data["groups"]) == [1, 1]
    assert groups_of(app, SimpleNamespace(id=line["userId"])) == ["5a", "Choir"]


@pytest.mark.parametrize(
    "people",
    [
        [person(**S1), person("Noa", **S1)],
        [person(**MINE), person(**MINE, language="de")],
        [person(**NAMED), person("Noa", username="mia"), person(**NAMED)],
        [person(**MINE), person(**S1)],  # both mean the account
    ],
)
def test_lines_that_mean_one_person_and_differ_are_all_refused(make_user, do, people):
    make_user("mia", external_id="S-1", **PROVED)
    data = do(people)
    assert {line["code"] for line in data["lines"]} == {"invalid_request"}
    assert [line["reasons"] for line in data["lines"]] == [{"line": ["taken"]}] * 2


def test_siblings_share_the_address_of_a_parent(app, do):
    family = {"email": "lang@example.org"}
    data = do([person(**S1, **family), person("Noa", **S2, **family), person("Tom", **family)])
    assert [line["email"] for line in data["lines"]][:2] == [
        "lang@example.org",
        "noa.lang@no-mail.invalid",
    ]
    assert statuses(data) == ["new", "new", "refused"]
    assert data["lines"][2]["code"] == "email_taken"
    again = do([person(**S1, **family), person("Noa", **S2, **family)])
    assert statuses(again) == ["same", "same"]
    assert [line["differs"] for line in again["lines"]] == [[], ["email"]]


# What the line says, and the username and the address that are made up.
MADE_UP = [
    ({}, "mia.lang", "mia.lang@no-mail.invalid"),
    ({"firstName": "Łukasz", "lastName": "Wałęsa"}, "lukasz.walesa", None),
    ({"lastName": "Müller", "language": "de-AT"}, "mia.mueller", None),
    ({"lastName": "Müller", "language": "fr"}, "mia.muller", None),
    ({"username": "müller.zoë"}, "mia.lang", None),
    ({"username": "ab"}, "mia.lang", None),
    ({"username": "Mia..L."}, "Mia..L.", "mia_.l_@no-mail.invalid"),
    ({"firstName": "太郎", "lastName": "山田", "externalId": "S-7"}, "s-7", None),
    ({"firstName": "太郎", "lastName": "山田", "externalId": "7"}, "user.7", None),
    (
        {"firstName": "太郎", "lastName": "山田", "email": "Taro@example.org"},
        "taro",
        "taro@example.org",
    ),
    ({"lastName": ""}, "mia", None),
    ({"email": "mia@school.invalid"}, "mia.lang", "mia@school.invalid"),
]


@pytest.mark.parametrize(("line", "username", "email"), MADE_UP)
def test_what_is_missing_or_cannot_be_is_made_up(app, do, line, username, email):
    [found] = do([{"firstName": "Mia", "lastName": "Lang", **line}])["lines"]
    made = stored(app, id=found["userId"])
    assert (made.username, found["username"]) == (username, username)
    assert made.email == found["email"] == (email or f"{username}@no-mail.invalid")
    assert (made.email_verified_at is not None) == made.email.endswith(".invalid")
    assert made.last_name == (line.get("lastName", "Lang") or "-")


def test_made_up_addresses_are_those_of_nobody_else_in_the_list(make_user, do):
    make_user("tom2", email="tom@no-mail.invalid")
    people = [
        person("Noa", "Lang", username="noa.x", email="mia.lang@no-mail.invalid", group="5a"),
        person(group="5b"),
        person("Tom", "Lang", username="tom"),
    ]
    data = do(people)
    assert [line["username"] for line in data["lines"][:2]] == ["noa.x", "mia.lang2"]
    assert data["lines"][0]["userId"] != data["lines"][1]["userId"]
    assert data["lines"][2]["code"] == "email_taken"


def test_a_name_that_is_taken_gets_a_number(app, make_user, do):
    make_user("mia.lang")
    make_user("other", email="mia.lang2@no-mail.invalid")
    people = [person(**S1), person(**S2), person(username="mia.lang4", externalId="S-3")]
    data = do(people)
    assert [line["username"] for line in data["lines"]] == ["mia.lang3", "mia.lang5", "mia.lang4"]


@pytest.mark.parametrize(
    ("line", "reasons"),
    [
        ({"firstName": "Mia"}, {"lastName": ["required"]}),
        ({"externalId": "S-9"}, {"firstName": ["required"], "lastName": ["required"]}),
        ({"firstName": "太郎", "lastName": "山田"}, {"username": ["required"]}),
        (person(email="mia"), {"email": ["invalid"]}),
        (person(role="admin"), {"role": ["invalid"]}),
        (person(language="!"), {"language": ["invalid"]}),
        (person("x" * 65), {"firstName": ["too_long"]}),
        (person(5), {"firstName": ["type"]}),
        (person(nickname="Mimi"), {"nickname": ["unknown"]}),
        (person([[[[]]]]), {"firstName": ["type"]}),
    ],
)
def test_a_wrong_line_is_refused_and_the_others_are_done(do, line, reasons):
    data = do([line, person("Noa", "Lang")] if "lastName" in line else [line])
    assert data["lines"][0]["code"] == "invalid_request"
    assert data["lines"][0]["reasons"] == reasons
    assert statuses(data)[1:] == ["new"] * (len(data["lines"]) - 1)


def test_the_line_changes_what_it_says_otherwise_and_an_empty_cell_says_nothing(
    app, make_user, do, outbox
):
    user = make_user("mia", external_id="S-1", language="en", first_name="Mia", **UNUSED)
    people = [person(**S1, last="Lang-Becker", language="de", email="new@example.org", username="")]
    [line] = do(people)["lines"]
    assert line["changes"] == ["lastName", "language", "email"]
    row = stored(app, user)
    assert (row.last_name, row.language, row.email) == ("Lang-Becker", "de", "new@example.org")
    assert (row.email_verified_at, row.password_version) == (None, 2)
    assert "lang-becker" in row.search_key
    assert row.changed == max(row.changed for row in rows(app, User))
    assert {event.type for event in rows(app, Event, user_id=user.id)} == {
        "names_changed",
        "email_changed",
    }
    events = len(rows(app, Event))
    [line] = do([{**people[0], "lastName": None}])["lines"]
    assert (line["status"], line["lastName"]) == ("same", "Lang-Becker")
    assert len(rows(app, Event)) == events
    assert outbox.deliver() == []


def test_an_address_that_was_vouched_for_is_told_of_another_one(make_user, do, outbox):
    make_user("mia", external_id="S-1", **UNUSED, **PROVED)
    do([person(**S1, email="new@example.org")])
    assert [mail["To"] for mail in outbox.deliver()] == ["mia@example.org"]


def test_new_people_are_invited_where_mails_can_arrive(do, outbox):
    do([person(**MINE), person("Noa", "Lang")], deliver="mail")
    assert [mail["To"] for mail in outbox.deliver()] == ["mia@example.org"]


def test_the_query_says_what_lines_do_not(app, make_group, do):
    make_group("Chess")
    teacher = {"role": "Teacher", **OTHER}
    data = do([person(), person("Noa", **teacher)], groupId=CHESS, language="fr", role="student")
    made = [stored(app, id=line["userId"]) for line in data["lines"]]
    assert [(row.role, row.language) for row in made] == [("student", "fr"), ("instructor", "fr")]
    assert [groups_of(app, row) for row in made] == [["Chess"]] * 2
    assert [group["name"] for group in data["groups"]] == ["Chess"]


def test_groups_are_found_by_their_names_or_made(app, make_group, do):
    make_group("Klasse 5 d")
    names = ["KLASSE 5D", "klasse 5d", "5e", "5 E"]
    numbered = [person("Mia", "ABCD"[n] * 3, group=name) for n, name in enumerate(names)]
    data = do(numbered)
    found = [(each["name"], each["isNew"], each["people"]) for each in data["groups"]]
    assert found == [("Klasse 5 d", False, 2), ("5e", True, 2)]
    assert [len(line["groups"]) for line in data["lines"]] == [1] * 4


def test_a_group_is_not_guessed_of_two(make_group, do):
    make_group("5a")
    make_group("5A", CHESS.replace("1", "2", 1))
    people = [person(group="5a"), person("Noa", "5e", group="5a")]  # one mistake is enough
    reasons = [line["reasons"] for line in do(people)["lines"]]
    assert reasons == [{"group": ["invalid"]}, {"lastName": ["invalid"]}]


def test_a_name_of_a_group_may_come_in_a_later_line(app, do):
    data = do([person(groupId="k1", **S1), person("Noa", groupId="k1", group="5a", **S2)])
    assert [each["name"] for each in data["groups"]] == ["5a"]


def test_groups_with_an_id_are_renamed(app, make_group, do):
    make_group("Chess")
    own = {"groupId": CHESS.upper(), "group": "Chess and Go"}
    data = do([person(**own, **S1), person("Noa", groupId="2026/5a", group="5a", **S2)])
    assert [(each["name"], each["isRenamed"]) for each in data["groups"]] == [
        ("Chess and Go", True),
        ("5a", False),
    ]
    assert uuid.UUID(data["groups"][1]["id"]).version == 5
    data = do([person("Noa", groupId="2026/5a", group="6a", **S2)])
    assert (data["groups"][0]["name"], data["groups"][0]["isRenamed"]) == ("6a", True)
    data = do([person("Tom", group="5a", externalId="S-3")])  # that id has another name by now
    assert data["groups"][0]["isNew"]
    assert sorted(group.name for group in rows(app, Group)) == ["5a", "6a", "Chess and Go"]


def test_only_takes_people_out_of_the_groups_of_lists(app, make_user, make_group, do):
    mia = make_user("mia", external_id="S-1")
    noa = make_user("noa", external_id="S-2")
    make_group("Chess", CHESS, mia)
    do([person(group="5a", **S1), person("Noa", group="5a", **S2)])
    data = do([person(group="6a", **S1)], groups="only")
    assert data["lines"][0]["changes"] == ["groups"]
    assert groups_of(app, mia) == ["6a", "Chess"]
    assert groups_of(app, noa) == ["5a"]
    # An empty cell says nothing; and who stands in a wrong line too stays.
    data = do([person(group="7a", **S1), person("Noa", **S2)], groups="only")
    assert [line["changes"] for line in data["lines"]] == [["groups"], []]
    data = do([person(group="8a", **S1), person(group="x" * 65, **S1)], groups="only")
    assert groups_of(app, mia) == ["7a", "8a", "Chess"]
    assert groups_of(app, noa) == ["5a"]


@pytest.mark.parametrize(
    ("people", "query", "field"),
    [
        ([person(**S1)], {"groups": "only"}, "groups"),
        ([person(**S1, group="")], {"groups": "only"}, "groups"),
        ([person(group="5a")], {"missing": "tell"}, "missing"),
        ([person(externalId="")], {"missing": "deactivate"}, "missing"),
    ],
)
def test_a_list_without_the_column_is_refused(app, sent, people, query, field):
    assert words(sent(people, apply=True, **query)) == {field: ["required"]}
    assert len(rows(app, User)) == 1


@pytest.fixture
def school(app, make_user):
    """Eight pupils and four teachers, with numbers."""
    pupils = [make_user(f"pupil{n}", external_id=f"P-{n}") for n in range(8)]
    role = {"role": "instructor"}
    return pupils, [make_user(f"staff{n}", external_id=f"T-{n}", **role) for n in range(4)]


def lines_of(people, **columns):
    return [{"externalId": user.external_id, **columns} for user in people]


def test_who_is_missing_is_told_or_deactivated_and_comes_back(app, school, do):
    pupils, _ = school
    people = lines_of(pupils[:6])
    data = do(people, missing="tell")
    assert sorted(each["externalId"] for each in data["missing"]) == ["P-6", "P-7"]
    assert all(row.is_active for row in rows(app, User))
    people[0] = {"externalId": " P-0 ", "email": "no"}  # a refused line names somebody too
    people[1] = {"email": pupils[1].email.upper(), "firstName": "pupil6" * 20}
    people[2]["firstName"] = "pupil7"
    assert do(people, missing="deactivate")["missing"] == data["missing"]
    gone = [row.username for row in rows(app, User) if not row.is_active]
    assert sorted(gone) == ["pupil6", "pupil7"]
    data = do(lines_of(pupils), missing="deactivate")
    assert [line["changes"] for line in data["lines"]] == [[]] * 6 + [["isActive"]] * 2
    assert all(row.is_active for row in rows(app, User))


def test_a_list_that_was_cut_off_deactivates_nobody(app, school, sent, do):
    pupils, teachers = school
    kept = [*lines_of(pupils), *lines_of(teachers[:2], role="teacher")]
    for people in (lines_of(pupils[:5]), kept):
        failure(sent(people, missing="deactivate", apply=True), 409, "too_many_missing")
        assert success(sent(people, missing="tell"))["missing"]
    assert all(row.is_active for row in rows(app, User))
    assert len(do(kept, missing="deactivate", all=True)["missing"]) == 2


def test_nobody_is_made_an_admin_deleted_or_given_another_role(app, make_user, school, do):
    make_user("head", role="admin", external_id="A-1")
    do([{"externalId": "A-1", "role": "student"}, *lines_of(school[0][:2])], missing="tell")
    do(lines_of(school[0][:1]), missing="deactivate", all=True)
    roles = {row.username: row.role for row in rows(app, User)}
    assert len(roles) == 14
    assert roles["head"] == "admin"
    assert stored(app, username="head").is_active


# The scopes of a key besides those of users, the line, and the status, or the code of the whole.
KEYS = [
    ((), person(), {}, "new"),
    ((), person(group=""), {}, "new"),
    ((), person(group=""), {"groups": "only"}, "forbidden"),
    ((), person(group="5a"), {}, "forbidden"),
    ((), person(), {"groupId": CHESS}, "forbidden"),
    ((Scope.GROUPS_WRITE,), person(group="5a"), {}, "new"),
    ((Scope.GROUPS_WRITE,), person(group="5a", role="instructor"), {}, "refused"),
    ((Scope.GROUPS_WRITE, Scope.GROUPS_STAFF), person(group="5a", role="teacher"), {}, "new"),
]


@pytest.mark.parametrize(("scopes", "line", "query", "status"), KEYS)
def test_a_key_does_with_a_list_what_it_may_do_one_by_one(
    make_key, make_group, sent, scopes, line, query, status
):
    make_group("Chess")
    key = make_key(Scope.USERS_READ, Scope.USERS_WRITE, *scopes)
    response = sent([line], headers={"Authorization": f"Bearer {key}"}, **query)
    if status == "forbidden":
        failure(response, 403, status)
    else:
        assert statuses(success(response)) == [status]


def test_a_key_neither_changes_admins_nor_makes_trusted_teachers(
    app, make_app, make_key, make_user, sent
):
    client = make_app(instructor_rights="groups").test_client()
    headers = {"Authorization": f"Bearer {make_key(Scope.USERS_READ, Scope.USERS_WRITE)}"}
    head = make_user("head", role="admin", external_id="A-1", **PROVED)
    before = stored(app, head)
    people = [person(externalId="A-1"), person("Noa", role="instructor")]
    people.append(person("Tom", email="head@example.org", externalId="A-2"))
    found = success(sent(people, client=client, headers=headers, apply=True))["lines"]
    assert [line["status"] for line in found] == ["refused", "refused", "new"]
    assert {line["holderId"] for line in found} == {None}
    assert stored(app, head) == before
    for scopes in ([Scope.USERS_READ], [Scope.USERS_WRITE]):
        headers = {"Authorization": f"Bearer {make_key(*scopes)}"}
        failure(sent([person()], headers=headers), 403, "forbidden")


def test_teachers_do_nothing_with_lists(make_app, make_user, log_in, sent):
    client = make_app(instructor_rights="groups").test_client()
    teacher = log_in(make_user("teacher", role="instructor"))
    failure(sent([person()], client=client, headers=teacher.headers), 403, "forbidden")


def test_a_check_changes_nothing(app, make_user, sent):
    make_user("mia", external_id="S-1", **UNUSED)
    before = [rows(app, kind) for kind in (User, Group, Membership, Event)]
    with statements_of(app) as statements:
        success(sent([person(**S1, **OTHER, group="5a"), person("Noa", group="5a")]))
    assert [rows(app, kind) for kind in (User, Group, Membership, Event)] == before
    assert not [each for each in statements if "FOR" in each and "users" in each]


def test_a_list_is_done_in_batches_each_of_them_whole(app, monkeypatch, sent, do):
    monkeypatch.setattr(lists, "BATCH", 2)
    people = [person(name, "Lang", group="5a", email=f"{name}@example.org") for name in "abcde"]
    add, batches = lists.sets.add_all, []

    def fail(rows):
        batches.append(len(rows))
        if len(batches) == 3:
            raise RuntimeError
        return add(rows)

    monkeypatch.setattr(lists.sets, "add_all", fail)
    failure(sent(people, apply=True), 500, "internal_error")
    assert batches == [2, 2, 1]
    assert len(rows(app, Membership)) == len(rows(app, User)) - 1 == 4
    assert statuses(do(people)) == ["same"] * 4 + ["new"]


@on_both
def test_equal_lists_at_once_make_nobody_twice(app, sent):
    people = [person(f"{n:b}", "Lang", group="5a") for n in range(1, 30)]
    answers = race(lambda _: sent(people, apply=True), 3)
    assert {answer.status_code for answer in answers} <= {200, 503}
    sent(people, apply=True)
    assert len(rows(app, User)) == 30
    assert len(rows(app, Group)) == 1
    assert len(rows(app, Membership)) == 29


@on_postgres
@pytest.mark.parametrize(
    ("values", "code"),
    [({"role": "instructor"}, "unavailable"), ({"external_id": "S-2"}, "unavailable")],
)
def test_who_changed_since_the_check_is_left_alone(app, make_user, sent, values, code):
    user = make_user("mia", external_id="S-1")
    answer = while_changing(app, user, values, lambda: sent([person(**S1)], apply=True))
    [line] = success(answer)["lines"]
    assert (line["status"], line["code"]) == ("refused", code)
    assert stored(app, user).first_name == "First"


def test_who_signed_in_since_the_check_keeps_the_address(app, make_user, monkeypatch, sent):
    user = make_user("mia", external_id="S-1", **UNUSED)
    check = lists.check

    def then_sign_in(*arguments):
        done = check(*arguments)
        set_user(app, user, last_login_at=utcnow())
        return done

    monkeypatch.setattr(lists, "check", then_sign_in)
    [line] = success(sent([person(**S1, **OTHER)], apply=True))["lines"]
    assert line["code"] == "unavailable"
    assert stored(app, user).email == "mia@example.org"


def test_a_group_or_person_that_goes_meanwhile_refuses_the_line(
    app, make_user, make_group, monkeypatch, sent
):
    gone = make_user("mia", external_id="S-1")
    make_group("Chess")
    people = [person(**S1), person("Noa", groupId=CHESS, **S2), person("Tom", externalId="S-3")]

    def check(*arguments):
        done = real(*arguments)
        execute(app, delete(User).where(User.id == gone.id))
        execute(app, delete(Group))
        return done

    real = lists.check
    monkeypatch.setattr(lists, "check", check)
    found = success(sent(people, apply=True))["lines"]
    assert [line["code"] for line in found] == ["user_not_found", "not_found", None]
    assert statuses({"lines": found}) == ["refused", "refused", "new"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"json": {"people": []}}, 400),
        ({"json": {"people": [5]}}, 400),
        ({"json": {"people": "Mia"}}, 400),
        ({"json": [], "content_type": "application/json"}, 400),
        ({"json": {"people": [person()] * 5001}}, 400),
        ({"data": b""}, 400),
        ({"data": b"PK\x03\x04"}, 400),
        ({"data": b"x" * (2 * 1024 * 1024 + 1)}, 413),
        ({"data": b"Mia;Lang", "headers": {"Content-Encoding": "gzip"}}, 415),
    ],
)
def test_what_is_no_list_is_refused(client, admin, body, status):
    body = {**body, "headers": {**admin.headers, **body.get("headers", {})}}
    assert client.post(LISTS, **body).status_code == status


def test_a_text_of_any_type_is_read(sent, client, admin):
    for kind in ("text/csv", "text/plain", "application/octet-stream", ""):
        headers = {**admin.headers, "Content-Type": kind}
        response = client.post(LISTS, data="firstName;lastName\nMia;Lang\n", headers=headers)
        assert statuses(success(response)) == ["new"]
