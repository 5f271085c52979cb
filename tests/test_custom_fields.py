"""Custom fields: who writes and sees which, through every call; filters, tokens, settings."""

import io
import json
from dataclasses import replace

import jwt
import pytest
from dotenv import dotenv_values
from endpoints import API
from helpers import (
    PASSWORD,
    bearer,
    execute,
    failure,
    login,
    on_both,
    on_both_slowly,
    race,
    refresh,
    registration,
    rows,
    stored,
    success,
    words,
)
from marshmallow import fields as ma
from sqlalchemy import insert, update

import config
from config import ROOT, ConfigError
from config.custom_fields import CustomField
from extensions import components
from fields import CustomFields
from models import Event, Group, Membership, User

OFFICE = CustomField(name="grade", type="choice", choices=("7a", "7b"), in_token=True)
TEACHERS = CustomField(name="phone", written_by="user", seen_by="teachers", at_sign_up="yes")
EVERYBODY = CustomField(name="siblings", type="number", seen_by="everybody")
FLAG = CustomField(name="newsletter", type="boolean", written_by="user", at_sign_up="required")
DAY = CustomField(name="birthDay", type="date")
FIELDS = (OFFICE, TEACHERS, EVERYBODY, FLAG, DAY)
VALUES = {"grade": "7b", "phone": "0711 1", "siblings": 2, "newsletter": False}
# What each kind of reader sees of a pupil who has all but the birthday.
ALL = {**VALUES, "birthDay": None}
SOME, FEW = {"phone": "0711 1", "siblings": 2}, {"siblings": 2}
STAFF = {"admin": ALL, "key": ALL}
GROUP = "dddddddd-0000-4000-8000-000000000000"
# Each call that shows accounts: where its answer has them, its body, and what each reader sees.
NEW = {"username": "made", "email": "made@example.org", "firstName": "First", "lastName": "Last"}
SHOWS = {
    "GET /api/users/profile": ("", None, {"pupil": ALL}),
    "PUT /api/users/profile": ("", {"bio": "New"}, {"pupil": ALL}),
    "PUT /api/users/username": ("", {"username": "new", "password": PASSWORD}, {"pupil": ALL}),
    "GET /api/users/{userId}": (
        *("", None),
        {**STAFF, "pupil": ALL, "teacher": SOME, "stranger": FEW, "other_teacher": FEW},
    ),
    "GET /api/users": ("users.0", None, {**STAFF, "teacher": SOME}),
    "GET /api/users/{userId}/account": ("", None, {**STAFF, "teacher": SOME}),
    "GET /api/users/changes": ("changes.pupil.account", None, STAFF),
    "PATCH /api/users/{userId}": ("", {"language": "de"}, STAFF),
    "POST /api/users": ("user", {**NEW, "deliver": "none", "customFields": VALUES}, STAFF),
    "GET /api/users/export": ("account", None, {"pupil": ALL}),
    "GET /api/users/{userId}/export": ("account", None, {"admin": ALL}),
}
TAKES = {
    *("POST /api/auth/register", "PUT /api/users/profile", "POST /api/users"),
    *("PATCH /api/users/{userId}", "POST /api/users/lists"),
}

pytestmark = on_both_slowly


@pytest.fixture
def set_fields(app):
    def set_fields(*fields, **settings):
        held = components(app)
        held.settings = replace(held.settings, custom_fields=fields, **settings)

    set_fields(*FIELDS, instructor_rights="groups")
    return set_fields


@pytest.fixture
def pupil(set_fields, make_user):
    return make_user("pupil", custom_fields=VALUES)


@pytest.fixture
def headers(app, pupil, admin, make_user, make_key, log_in):
    """The headers of each reader, by name."""
    users = {"pupil": pupil, "stranger": make_user("stranger")}
    users |= {name: make_user(name, role="instructor") for name in ("teacher", "other_teacher")}
    execute(app, insert(Group).values(id=GROUP, name="7b"))
    for user in (pupil, users["teacher"]):
        execute(app, insert(Membership).values(group_id=GROUP, user_id=user.id))
    found = {name: log_in(user).headers for name, user in users.items()}
    return {**found, "admin": admin.headers, "key": bearer(make_key("users:read", "users:write"))}


@pytest.fixture
def write(client, pupil, headers):
    """Write custom fields of the pupil, as the office or as the pupil."""

    def write(by="admin", **sent):
        method, path = ("PUT", "profile") if by == "pupil" else ("PATCH", pupil.id)
        more = {"method": method, "json": {"customFields": sent}, "headers": headers[by]}
        return client.open(f"/api/users/{path}", **more)

    return write


@pytest.fixture
def own(client):
    """Return the custom fields in the profile of whom these headers are."""
    return lambda headers: success(client.get("/api/users/profile", headers=headers))[
        "customFields"
    ]


def has_fields(schema):
    inner = [getattr(field, "inner", field) for field in schema.fields.values()]
    nested = [each.schema for each in inner if isinstance(each, ma.Nested)]
    return any(isinstance(each, CustomFields) for each in inner) or any(map(has_fields, nested))


def test_every_call_that_shows_or_takes_custom_fields_is_in_the_table():
    calls = {f"{each.method} {each.documented}": each.operation for each in API}
    shown = {name for name, each in calls.items() if each.response and has_fields(each.response())}
    assert shown == SHOWS.keys()
    assert {name for name, each in calls.items() if each.body and has_fields(each.body())} == TAKES


@pytest.mark.parametrize(
    ("call", "reader"), [(call, reader) for call, (_, _, who) in SHOWS.items() for reader in who]
)
def test_each_reader_sees_what_the_settings_say(client, pupil, headers, call, reader):
    method, path = call.replace("{userId}", pupil.id).split()
    place, body, readers = SHOWS[call]
    query = {"search": "pupil"} if call == "GET /api/users" else None
    how = {"method": method, "json": body, "query_string": query, "headers": headers[reader]}
    answer = client.open(path, **how)
    found = success(answer, answer.status_code)
    for name in filter(None, place.split(".")):
        if name == "pupil":
            (found,) = (each for each in found if each["id"] == pupil.id)
        else:
            found = found[int(name) if name.isdigit() else name]
    assert found["customFields"] == readers[reader]


@pytest.mark.parametrize("name", ["grade", "siblings", "birthDay", "nothing", "__proto__", "id"])
def test_what_a_user_may_not_write_is_unknown(app, pupil, write, name):
    answer = write("pupil", phone="1", **{name: ALL.get(name) or "7a"})
    failure(answer, 400, "invalid_request")
    assert words(answer) == {"customFields": {name: ["unknown"]}}
    assert stored(app, pupil).custom_fields == VALUES
    failure(write("teacher", phone="1"), 403, "forbidden")


def test_what_is_sent_is_merged_and_emptied_with_a_change_and_an_event_of_names(app, pupil, write):
    before = stored(app, pupil).changed
    assert success(write(grade="7a", phone=""))["customFields"] == {
        **{**ALL, "grade": "7a", "phone": None}
    }
    assert stored(app, pupil).custom_fields == {"grade": "7a", "siblings": 2, "newsletter": False}
    assert stored(app, pupil).changed > before
    (event,) = rows(app, Event, user_id=pupil.id, type="custom_fields_changed")
    assert event.details == {"fields": "grade phone"}
    before = stored(app, pupil).changed
    success(write(grade="7a", birthDay=None))
    assert stored(app, pupil).changed == before
    success(write(phone="None"))  # a text, which is not the same as none
    assert len(rows(app, Event, user_id=pupil.id, type="custom_fields_changed")) == 2


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [
        *(("grade", value, "invalid") for value in ("8c", "7A")),
        *(("grade", value, "type") for value in (7, True, [], {})),
        *(("siblings", value, "type") for value in (2.5, "2", True)),
        *(("phone", "x" * 101, "too_long"), ("phone", "a\x00b", "invalid")),
        *(("siblings", 10**15, "too_large"), ("newsletter", "true", "type")),
        *(("birthDay", "2026-02-30", "invalid"), ("birthDay", 20, "type")),
    ],
)
def test_a_wrong_value_is_told_at_its_field(write, name, value, word):
    answer = write(**{name: value})
    failure(answer, 400, "invalid_request")
    assert words(answer) == {"customFields": {name: [word]}}


def test_a_sign_up_has_its_fields_and_needs_what_is_required(app, client, set_fields):
    options = success(client.get("/api/auth/options"))["customFields"]
    told = [(each["name"], each["required"]) for each in options]
    assert told == [("phone", False), ("newsletter", True)]
    wrong = {"newsletter": ["required"]}
    for sent, why in (
        ({}, wrong),
        ({"customFields": {"phone": "1", "newsletter": ""}}, wrong),
        ({"customFields": {"newsletter": True, "grade": "7a"}}, {"grade": ["unknown"]}),
    ):
        answer = client.post("/api/auth/register", json={**registration(), **sent})
        failure(answer, 400, "invalid_request")
        assert words(answer) == {"customFields": why}
    person = {**registration(), "customFields": {"newsletter": True}}
    success(client.post("/api/auth/register", json=person), 201)
    assert stored(app, username="newcomer").custom_fields == {"newsletter": True}


@on_both
def test_two_names_written_at_once_are_both_kept(app, pupil, headers):
    ways = [
        ("PUT", "/api/users/profile", headers["pupil"], {"phone": "1"}),
        ("PATCH", f"/api/users/{pupil.id}", headers["admin"], {"siblings": 11}),
    ]

    def act(number):
        method, path, who, sent = ways[number % 2]
        body = {"customFields": sent}
        return app.test_client().open(path, method=method, json=body, headers=who).status_code

    assert {*race(act)} == {200}
    assert stored(app, pupil).custom_fields == {**VALUES, "phone": "1", "siblings": 11}


@on_both
def test_a_list_is_filtered_by_a_field_that_its_reader_sees(client, headers, make_user):
    make_user("other", custom_fields={"grade": 7, "phone": "Müller", "newsletter": True})

    def ask(field, who="admin"):
        return client.get("/api/users", query_string={"field": field}, headers=headers[who])

    def found(*asked):
        return {user["username"] for user in success(ask(*asked))["users"]}

    everybody = found("birthDay:")
    assert {"pupil", "other", "headmaster"} <= everybody
    assert found("grade:7b") == {"pupil"}
    assert found("grade:") == everybody - {"pupil"}, "7 is no text, so it is shown as not set"
    assert found("phone:Müller") == found("newsletter:true") == {"other"}
    assert found("siblings:2") == found("newsletter:false") == {"pupil"}
    assert found("phone:0711 1", "teacher") == {"pupil"}
    for field in (
        "grade",
        "nothing:",
        "__proto__:",
        "siblings:x",
        f"siblings:{10**16}",
        "newsletter:yes",
    ):
        failure(ask(field), 400, "invalid_request")
    failure(ask("grade:7b", "teacher"), 400, "invalid_request")


def test_access_tokens_carry_what_the_settings_still_allow(client, pupil, log_in, set_fields, own):
    def carried(token):
        return jwt.decode(token, options={"verify_signature": False}).get("fields")

    session = log_in(pupil)
    assert carried(session.access) == {"grade": "7b"}
    set_fields(replace(OFFICE, choices=("8a",)))
    renewed = success(refresh(client, session))["accessToken"]
    assert carried(renewed) is None
    assert own(bearer(renewed)) == {"grade": "7b"}, "it stays until somebody writes another one"


def test_a_name_that_is_not_in_the_settings_is_kept_and_in_the_export_alone(
    client, write, headers, set_fields, own
):
    set_fields(replace(EVERYBODY, type="text"), FLAG)
    assert own(headers["pupil"]) == {"siblings": None, "newsletter": False}
    export = success(client.get("/api/users/export", headers=headers["pupil"]))
    assert export["account"]["customFields"] == VALUES
    success(write("pupil", newsletter=True))
    set_fields(*FIELDS)
    assert own(headers["pupil"]) == {**ALL, "newsletter": True}


def test_a_list_of_people_brings_them_by_their_columns(app, client, headers):
    text = (
        "First name,Last name,Username,fields.grade,FIELDS.phone,fields.newsletter"
        ",fields.siblings,fields.x\n"
        "First,Last,,7a,'+49 1,TRUE,'-5,?\nAnn,Bee,ann.bee,9z,,,,\nCid,Dee,cid.dee,,,,,\n"
    )
    people = [{"externalId": "first.last", "customFields": {"grade": "7b", "phone": " "}}]
    as_csv = {"data": text, "content_type": "text/csv"}

    def send(*, by="admin", apply="false", **body):
        query = {"query_string": {"apply": apply}, "headers": headers[by]}
        return success(client.post("/api/users/lists", **query, **body))

    checked = send(**as_csv)
    assert checked["leftOut"] == ["fields.x"]
    made, refused, plain = checked["lines"]
    assert refused["reasons"] == {"customFields": {"grade": ["invalid"]}}
    assert [made["status"], plain["status"]] == ["new", "new"]
    send(**as_csv, apply="true")
    values = {"grade": "7a", "phone": "+49 1", "newsletter": True, "siblings": -5}
    assert stored(app, username="first.last").custom_fields == values
    assert stored(app, username="cid.dee").custom_fields == {}
    execute(app, update(User).values(external_id=User.username_key))
    before = stored(app, username="first.last").changed
    for apply, status in (("false", "changed"), ("true", "changed"), ("true", "same")):
        (line,) = send(by="key", apply=apply, json={"people": people})["lines"]
        assert line["status"] == status
        assert line.get("changes", []) == ["customFields"] * (status == "changed")
    user = stored(app, username="first.last")
    assert user.custom_fields == {**values, "grade": "7b"}
    assert user.changed > before
    (event,) = rows(app, Event, user_id=user.id, type="custom_fields_changed")
    assert event.details == {"fields": "grade"}


def test_a_file_brings_them_and_a_dump_has_those_that_are_set(app, set_fields, run, tmp_path):
    file = tmp_path / "people.csv"
    head = "email,username,firstName,lastName,fields.grade,fields.siblings,fields.newsletter\n"
    file.write_text(f"{head}a@b.org,ann,Ann,Bee,7a,3,true\nc@d.org,cid,Cid,Dee,9z,many,\n")
    said, code = run("users", "import", str(file))
    assert code == 1
    assert "customFields.grade: Use one of" in said
    assert "customFields.siblings: Not a valid integer" in said
    values = {"grade": "7a", "siblings": 3, "newsletter": True}
    assert stored(app, username="ann").custom_fields == values
    dumped = json.loads(run("users", "dump")[0])
    assert dumped["customFields"] == values
    set_fields(replace(OFFICE, choices=("8a",)))
    dumped = json.loads(run("users", "dump")[0].splitlines()[0])
    assert dumped["customFields"] == {}, "what another installation could not read"


def test_true_is_not_the_1_of_a_number_before(app, client, set_fields, make_user, headers):
    for name in ("one", "two"):
        make_user(name, external_id=name, custom_fields={"newsletter": 1})
    body = {"customFields": {"newsletter": True}}
    path = f"/api/users/{stored(app, username='one').id}"
    success(client.patch(path, json=body, headers=headers["admin"]))
    people = {"people": [{"externalId": "two", **body}]}
    how = {"query_string": {"apply": "true"}, "headers": headers["admin"]}
    success(client.post("/api/users/lists", json=people, **how))
    for name in ("one", "two"):
        user = stored(app, username=name)
        assert user.custom_fields["newsletter"] is True
        (event,) = rows(app, Event, user_id=user.id, type="custom_fields_changed")
        assert (event.details, user.changed > 0) == ({"fields": "newsletter"}, True)


def test_a_field_is_emptied_everywhere_as_changes(app, run, pupil, make_user):
    other = make_user("other", custom_fields={"grade": "7a"})
    make_user("none")
    assert run("users", "empty-field", "grade", "--yes")[0] == "2 accounts had a value.\n"
    assert "grade" not in stored(app, pupil).custom_fields
    assert stored(app, other).custom_fields == {}
    assert all(stored(app, user).changed for user in (pupil, other))
    assert len(rows(app, Event, type="custom_fields_changed")) == 2
    said, code = run("users", "empty-field", "nothing", "--yes")
    assert (code, "CUSTOM_FIELDS has no such field" in said) == (2, True)
    said = run("users", "show", "pupil")[0]
    assert ("fields.siblings: 2\n" in said, "fields.grade" in said) == (True, False)


def test_an_account_signs_in_whatever_its_fields_say(client, make_user, set_fields, own):
    user = make_user("odd", custom_fields={"grade": ["no", "text"], "old": {"a": None}})
    data = success(login(client, user, PASSWORD))
    assert own(bearer(data["accessToken"]))["grade"] is None


RIGHT = "CUSTOM_FIELDS=grade,birthYear FIELD_GRADE_TYPE=choice FIELD_GRADE_CHOICES=5,6 "
MANY = ",".join(f"text{n}" for n in range(21))
LONG = " ".join(f"FIELD_TEXT{n}_LENGTH=200" for n in range(11))


@pytest.mark.parametrize(
    ("environ", "problem"),
    [
        ("CUSTOM_FIELDS=Grade", "CUSTOM_FIELDS must be at most 20 names"),
        (f"CUSTOM_FIELDS={MANY}", "must be at most 20 names"),
        (f"CUSTOM_FIELDS={MANY.partition(',text11')[0]} {LONG}", "more than 2000 characters"),
        ("CUSTOM_FIELDS=grade,graDe", "CUSTOM_FIELDS must not list a name twice"),
        ("FIELD_GRADE_CHOICES=", "FIELD_GRADE_CHOICES is missing"),
        ("FIELD_GRADE_TYPE=", "FIELD_GRADE_CHOICES needs TYPE=choice"),
        (f"FIELD_GRADE_CHOICES={','.join(map(str, range(51)))}", "must be at most 50 texts"),
        ("FIELD_BIRTH_YEAR_AT_SIGN_UP=yes", "FIELD_BIRTH_YEAR_AT_SIGN_UP needs WRITTEN_BY=user"),
        ("FIELD_GRADE_IN_TOKEN=1 FIELD_GRADE_WRITTEN_BY=user", "IN_TOKEN needs WRITTEN_BY=office"),
        (
            "FIELD_BIRTH_YEAR_IN_TOKEN=1 FIELD_BIRTH_YEAR_LENGTH=200",
            "can put 816 bytes into access",
        ),
    ],
)
def test_settings_that_contradict_each_other_are_refused_at_start(environ, problem):
    right = dict(each.split("=") for each in RIGHT.split())
    grade, year = config.load({**right, "FIELD_BIRTH_YEAR_LABEL": "Year of birth"}).custom_fields
    assert (grade.choices, grade.title, year.title) == (("5", "6"), "grade", "Year of birth")
    with pytest.raises(ConfigError, match=problem):
        config.load(right | dict(each.split("=") for each in environ.split()))


def test_the_settings_that_the_docs_show_are_taken():
    page = (ROOT / "docs/custom-fields.md").read_text()
    shown = dotenv_values(stream=io.StringIO(page.split("```")[1].removeprefix("sh")))
    grade, department, newsletter = config.load(shown).custom_fields
    assert (grade.in_token, grade.seen_by) == (True, "teachers")
    assert department.choices[2] == "Research and development"
    assert (newsletter.title, newsletter.required) == ("Send me the newsletter", True)
    assert list(config.misspelt(shown, config.load(shown))) == []


def test_the_document_names_the_fields_open_in_answers_and_closed_in_bodies(make_app):
    document = make_app(custom_fields=FIELDS).test_client().get("/openapi.json").get_json()
    schemas = document["components"]["schemas"]
    properties = schemas["CustomFields"]["properties"]
    assert properties.keys() == ALL.keys()
    assert properties["siblings"]["type"] == ["integer", "null"]
    ref = {"$ref": "#/components/schemas/CustomFields"}
    assert schemas["Profile"]["properties"]["customFields"] == ref
    closed = schemas["ProfileChanges"]["properties"]["customFields"]
    assert closed == {"allOf": [ref], "unevaluatedProperties": False}
