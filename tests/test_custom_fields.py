"""Custom fields: who writes and sees which, through every call; filters, tokens, settings."""

import io
import json
from collections.abc import Iterator
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
SHOWN = {**VALUES, "birthDay": None}
# What each reader sees of a pupil who has all but the birthday.
TO = {
    "office": SHOWN,
    "teachers": {"phone": "0711 1", "siblings": 2},
    "everybody": {"siblings": 2},
}
GROUP = "dddddddd-0000-4000-8000-000000000000"
# Each call that shows accounts, and whom it shows which of them: where its answer has them, and the
# readers. (`READERS` makes the callers.)
SHOWS = {
    "GET /api/users/profile": ("", {"pupil": "office"}),
    "PUT /api/users/profile": ("", {"pupil": "office"}),
    "PUT /api/users/username": ("", {"pupil": "office"}),
    "GET /api/users/{userId}": (
        "",
        {
            **{"pupil": "office", "admin": "office", "key": "office"},
            **{"teacher": "teachers", "stranger": "everybody", "other_teacher": "everybody"},
        },
    ),
    "GET /api/users": ("users.0", {"admin": "office", "key": "office", "teacher": "teachers"}),
    "GET /api/users/{userId}/account": (
        "",
        {"admin": "office", "key": "office", "teacher": "teachers"},
    ),
    "GET /api/users/changes": ("changes.0.account", {"admin": "office", "key": "office"}),
    "PATCH /api/users/{userId}": ("", {"admin": "office", "key": "office"}),
    "POST /api/users": ("user", {"admin": "office", "key": "office"}),
    "GET /api/users/export": ("account", {"pupil": "office"}),
    "GET /api/users/{userId}/export": ("account", {"admin": "office"}),
}
BODIES = {
    "PUT /api/users/profile": {"bio": "New"},
    "PUT /api/users/username": {"username": "renamed", "password": PASSWORD},
    "PATCH /api/users/{userId}": {"language": "de"},
    "POST /api/users": {
        **{"username": "made", "email": "made@example.org", "deliver": "none"},
        **{"firstName": "First", "lastName": "Last", "customFields": VALUES},
    },
}
TAKES = {
    "POST /api/auth/register",
    "PUT /api/users/profile",
    "POST /api/users",
    "PATCH /api/users/{userId}",
    "POST /api/users/lists",
}

pytestmark = on_both


@pytest.fixture
def app(app):
    held = components(app)
    held.settings = replace(held.settings, custom_fields=FIELDS, instructor_rights="groups")
    return app


@pytest.fixture
def set_fields(app):
    def set_fields(*fields):
        held = components(app)
        held.settings = replace(held.settings, custom_fields=fields)

    return set_fields


@pytest.fixture
def pupil(make_user):
    return make_user("pupil", custom_fields=VALUES)


@pytest.fixture
def headers(app, pupil, admin, make_user, make_key, log_in):
    """The headers of each reader, by name."""
    users = {"pupil": pupil, "stranger": make_user("stranger")}
    for name in ("teacher", "other_teacher"):
        users[name] = make_user(name, role="instructor")
    execute(app, insert(Group).values(id=GROUP, name="7b"))
    for user in (pupil, users["teacher"]):
        execute(app, insert(Membership).values(group_id=GROUP, user_id=user.id))
    found = {name: log_in(user).headers for name, user in users.items()}
    key = make_key("users:read", "users:write")
    return {**found, "admin": admin.headers, "key": bearer(key)}


def shapes(schema) -> Iterator[ma.Field]:
    """Yield all fields of a shape, nested ones too."""
    for field in schema.fields.values():
        yield field
        inner = getattr(field, "inner", field)
        if isinstance(inner, ma.Nested):
            yield from shapes(inner.schema)


def has_fields(shape):
    return shape and any(isinstance(field, CustomFields) for field in shapes(shape()))


def test_every_call_that_shows_or_takes_custom_fields_is_in_the_table():
    calls = {f"{each.method} {each.documented}": each.operation for each in API}
    assert {name for name, each in calls.items() if has_fields(each.response)} == SHOWS.keys()
    taken = {name for name, each in calls.items() if each.body and has_fields(each.body)}
    assert taken == TAKES


@pytest.mark.parametrize(
    ("call", "reader"), [(call, reader) for call, (_, who) in SHOWS.items() for reader in who]
)
def test_each_reader_sees_what_the_settings_say(client, pupil, headers, call, reader):
    method, path = call.replace("{userId}", pupil.id).split()
    place, readers = SHOWS[call]
    body = BODIES.get(call)
    query = {"search": "pupil"} if call == "GET /api/users" else None
    answer = client.open(
        path, method=method, json=body, query_string=query, headers=headers[reader]
    )
    found = success(answer, answer.status_code)
    if path.endswith("/changes"):
        found = next(each for each in found["changes"] if each["id"] == pupil.id)["account"]
        place = ""
    for name in filter(None, place.split(".")):
        found = found[int(name) if name.isdigit() else name]
    assert found["customFields"] == TO[readers[reader]]


def test_a_call_for_which_somebody_may_not_ask_shows_nothing(client, pupil, headers, make_key):
    def ask(path, who):
        return client.get(f"/api/users/{path}", headers=who)

    for who in (headers["stranger"], headers["other_teacher"], bearer(make_key("learning:read"))):
        failure(ask(f"{pupil.id}/account", who), 403, "forbidden")
    failure(ask(pupil.id, bearer(make_key("learning:read"))), 403, "forbidden")


@pytest.mark.parametrize("name", ["grade", "siblings", "birthDay", "nothing", "__proto__", "id"])
def test_what_a_user_may_not_write_is_unknown(app, client, pupil, headers, name):
    body = {"customFields": {"phone": "1", name: SHOWN.get(name) or "7a"}}
    answer = client.put("/api/users/profile", json=body, headers=headers["pupil"])
    failure(answer, 400, "invalid_request")
    assert words(answer) == {"customFields": {name: ["unknown"]}}
    assert stored(app, pupil).custom_fields == VALUES


def test_teachers_write_none(app, client, pupil, headers):
    body = {"customFields": {"phone": "1"}}
    answer = client.patch(f"/api/users/{pupil.id}", json=body, headers=headers["teacher"])
    failure(answer, 403, "forbidden")


def test_what_is_sent_is_merged_and_emptied_with_a_change_and_an_event_of_names(
    app, client, pupil, headers
):
    def write(**sent):
        url = f"/api/users/{pupil.id}"
        answer = client.patch(url, json={"customFields": sent}, headers=headers["admin"])
        return success(answer)["customFields"]

    before = stored(app, pupil).changed
    assert write(grade="7a", phone="") == {**SHOWN, "grade": "7a", "phone": None}
    assert stored(app, pupil).custom_fields == {"grade": "7a", "siblings": 2, "newsletter": False}
    assert stored(app, pupil).changed > before
    (event,) = rows(app, Event, user_id=pupil.id, type="custom_fields_changed")
    assert event.details == {"fields": "grade phone"}
    before = stored(app, pupil).changed
    assert write(grade="7a", birthDay=None)["grade"] == "7a"
    assert stored(app, pupil).changed == before
    assert len(rows(app, Event, user_id=pupil.id, type="custom_fields_changed")) == 1


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [
        *(("grade", value, "invalid") for value in ("8c", "7A")),
        *(("grade", value, "type") for value in (7, True, [], {})),
        ("phone", "x" * 101, "too_long"),
        ("phone", "a\x00b", "invalid"),
        ("siblings", 2.5, "type"),
        ("siblings", "2", "type"),
        ("siblings", True, "type"),
        ("siblings", 10**15, "too_large"),
        ("newsletter", "true", "type"),
        ("birthDay", "2026-02-30", "invalid"),
        ("birthDay", 20, "type"),
    ],
)
def test_a_wrong_value_is_told_at_its_field(client, pupil, admin, name, value, word):
    body = {"customFields": {name: value}}
    answer = client.patch(f"/api/users/{pupil.id}", json=body, headers=admin.headers)
    answer = answer
    failure(answer, 400, "invalid_request")
    assert words(answer) == {"customFields": {name: [word]}}


def test_a_sign_up_has_its_fields_and_needs_what_is_required(app, client):
    options = success(client.get("/api/auth/options"))["customFields"]
    assert [(each["name"], each["required"]) for each in options] == [
        ("phone", False),
        ("newsletter", True),
    ]

    def sign_up(**sent):
        body = {**registration(), "customFields": sent}
        return client.post("/api/auth/register", json=body)

    answer = sign_up(phone="1")
    failure(answer, 400, "invalid_request")
    assert words(answer) == {"customFields": {"newsletter": ["required"]}}
    failure(client.post("/api/auth/register", json=registration()), 400, "invalid_request")
    answer = sign_up(newsletter=True, grade="7a")
    failure(answer, 400, "invalid_request")
    assert words(answer) == {"customFields": {"grade": ["unknown"]}}
    success(sign_up(newsletter=True), 201)
    assert stored(app, username="newcomer").custom_fields == {"newsletter": True}


def test_two_names_written_at_once_are_both_kept(app, client, pupil, headers):
    url = f"/api/users/{pupil.id}"

    def write(number):
        if number % 2:
            body = {"customFields": {"phone": f"{number}"}}
            return app.test_client().put("/api/users/profile", json=body, headers=headers["pupil"])
        body = {"customFields": {"siblings": number + 10}}
        return app.test_client().patch(url, json=body, headers=headers["admin"])

    for answer in race(write):
        assert answer.status_code == 200
    found = stored(app, pupil).custom_fields
    assert found["phone"] != VALUES["phone"]
    assert found["siblings"] != VALUES["siblings"]


def test_a_list_is_filtered_by_a_field_that_its_reader_sees(app, client, pupil, headers, make_user):
    make_user("other", custom_fields={"grade": 7, "phone": "Müller", "newsletter": True})

    def found(field, who="admin"):
        answer = client.get("/api/users", query_string={"field": field}, headers=headers[who])
        return {user["username"] for user in success(answer)["users"]}

    everybody = found("birthDay:")
    assert {"pupil", "other", "headmaster"} <= everybody
    assert found("grade:7b") == {"pupil"}
    assert found("grade:") == everybody - {"pupil"}, "7 is no text, so it is shown as not set"
    assert found("phone:Müller") == {"other"}
    assert found("siblings:2") == {"pupil"}
    assert found("newsletter:true") == {"other"}
    assert found("newsletter:false") == {"pupil"}
    assert found("phone:0711 1", "teacher") == {"pupil"}
    for field, who in (
        ("grade:7b", "teacher"),
        ("nothing:", "admin"),
        ("siblings:x", "admin"),
        ("siblings:9999999999999999", "admin"),
        ("newsletter:TRUE.", "admin"),
        ("__proto__:", "admin"),
    ):
        answer = client.get("/api/users", query_string={"field": field}, headers=headers[who])
        failure(answer, 400, "invalid_request")


def test_access_tokens_carry_what_the_settings_still_allow(app, client, pupil, log_in, set_fields):
    def carried(token):
        return jwt.decode(token, options={"verify_signature": False}).get("fields")

    session = log_in(pupil)
    assert carried(session.access) == {"grade": "7b"}
    set_fields(replace(OFFICE, choices=("8a",)))
    renewed = success(refresh(client, session))
    assert carried(renewed["accessToken"]) is None
    own = success(client.get("/api/users/profile", headers=bearer(renewed["accessToken"])))
    assert own["customFields"] == {"grade": "7b"}, "it stays until somebody writes another one"


def test_a_name_that_is_not_in_the_settings_is_kept_and_in_the_export_alone(
    app, client, pupil, log_in, admin, set_fields
):
    session = log_in(pupil)
    set_fields(replace(EVERYBODY, type="text"), FLAG)
    own = success(client.get("/api/users/profile", headers=session.headers))
    assert own["customFields"] == {"siblings": None, "newsletter": False}
    export = success(client.get("/api/users/export", headers=session.headers))
    assert export["account"]["customFields"] == VALUES
    body = {"customFields": {"newsletter": True}}
    success(client.put("/api/users/profile", json=body, headers=session.headers))
    set_fields(*FIELDS)
    own = success(client.get("/api/users/profile", headers=session.headers))
    assert own["customFields"] == {**SHOWN, "newsletter": True}


def test_a_list_of_people_brings_them_by_their_columns(app, client, pupil, headers):
    text = (
        "First name,Last name,Username,fields.grade,fields.siblings,fields.newsletter,fields.x\n"
        "First,Last,,7a,3,TRUE,?\nAnn,Bee,ann.bee,9z,,,\nCid,Dee,cid.dee,,,,\n"
    )

    def send(**query):
        more = {"Content-Type": "text/csv", **headers["admin"]}
        url = "/api/users/lists"
        return success(client.post(url, query_string=query, data=text, headers=more))

    checked = send()
    assert checked["leftOut"] == ["fields.x"]
    made, refused, plain = checked["lines"]
    assert refused["reasons"] == {"customFields": {"grade": ["invalid"]}}
    assert [made["status"], plain["status"]] == ["new", "new"]
    send(apply="true")
    user = stored(app, username="first.last")
    assert user.custom_fields == {"grade": "7a", "siblings": 3, "newsletter": True}
    assert stored(app, username="cid.dee").custom_fields == {}
    execute(app, update(User).values(external_id=User.username_key))
    people = [{"externalId": "first.last", "customFields": {"grade": "7b", "siblings": None}}]

    def again(**query):
        more = {"query_string": query, "headers": headers["key"]}
        return success(client.post("/api/users/lists", json={"people": people}, **more))["lines"][0]

    before = stored(app, username="first.last").changed
    assert (again()["status"], again()["changes"]) == ("changed", ["customFields"])
    again(apply="true")
    assert again()["status"] == "same"
    user = stored(app, username="first.last")
    assert user.custom_fields == {"grade": "7b", "siblings": 3, "newsletter": True}
    assert user.changed > before
    (event,) = rows(app, Event, user_id=user.id, type="custom_fields_changed")
    assert event.details == {"fields": "grade"}


def test_a_file_brings_them_and_a_dump_has_them(app, run, tmp_path):
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
    assert dumped["customFields"] == {**dict.fromkeys(SHOWN), **values}
    (tmp_path / "again.jsonl").write_text(json.dumps({**dumped, "email": "e@f.org", "id": GROUP}))
    assert run("users", "import", str(tmp_path / "again.jsonl"))[1] == 1  # the username is taken


def test_a_field_is_emptied_everywhere_as_changes(app, run, pupil, make_user):
    other = make_user("other", custom_fields={"grade": "7a"})
    make_user("none")
    assert run("users", "empty-field", "grade", "--yes")[0] == "2 accounts had a value.\n"
    assert "grade" not in stored(app, pupil).custom_fields
    assert stored(app, other).custom_fields == {}
    assert all(stored(app, user).changed for user in (pupil, other))
    assert len(rows(app, Event, type="custom_fields_changed")) == 2
    said, code = run("users", "empty-field", "nothing", "--yes")
    assert (code, "CUSTOM_FIELDS has no such field." in said) == (2, True)
    assert "grade: None" in run("users", "show", "pupil")[0]


def loaded(**environ):
    names = {"CUSTOM_FIELDS": "grade, birthYear", "FIELD_GRADE_TYPE": "choice"}
    return config.load({**names, "FIELD_GRADE_CHOICES": "5, 6", **environ})


def test_settings_say_what_a_field_is():
    settings = loaded(FIELD_BIRTH_YEAR_TYPE="number", FIELD_BIRTH_YEAR_LABEL="Year of birth")
    grade, year = settings.custom_fields
    assert (grade.choices, grade.title, year.type, year.title) == (
        ("5", "6"),
        "grade",
        "number",
        "Year of birth",
    )


@pytest.mark.parametrize(
    ("environ", "problem"),
    [
        ({"CUSTOM_FIELDS": "Grade"}, "CUSTOM_FIELDS must be at most 20 names"),
        ({"CUSTOM_FIELDS": ",".join(f"a{n}" for n in range(21))}, "must be at most 20 names"),
        ({"CUSTOM_FIELDS": "grade,graDe"}, "CUSTOM_FIELDS must not list a name twice"),
        ({"FIELD_GRADE_CHOICES": ""}, "FIELD_GRADE_CHOICES is missing"),
        ({"FIELD_GRADE_CHOICES": ",".join(map(str, range(51)))}, "must be at most 50 texts"),
        ({"FIELD_BIRTH_YEAR_AT_SIGN_UP": "yes"}, "FIELD_BIRTH_YEAR_AT_SIGN_UP needs WRITTEN_BY"),
        (
            {"FIELD_GRADE_IN_TOKEN": "1", "FIELD_GRADE_WRITTEN_BY": "user"},
            "FIELD_GRADE_IN_TOKEN needs WRITTEN_BY=office",
        ),
        (
            {"FIELD_BIRTH_YEAR_IN_TOKEN": "1", "FIELD_BIRTH_YEAR_LENGTH": "200"},
            "CUSTOM_FIELDS can put 816 bytes into access tokens; 500 are the most",
        ),
        (
            {
                "CUSTOM_FIELDS": ",".join(f"text{n}" for n in range(11)),
                **{f"FIELD_TEXT{n}_LENGTH": "200" for n in range(11)},
            },
            "more than 2000 characters together",
        ),
    ],
)
def test_settings_that_contradict_each_other_are_refused_at_start(environ, problem):
    with pytest.raises(ConfigError, match=problem):
        loaded(**environ)


def test_the_document_names_the_fields_open_in_answers_and_closed_in_bodies(make_app):
    document = make_app(custom_fields=FIELDS).test_client().get("/openapi.json").get_json()
    schemas = document["components"]["schemas"]
    properties = schemas["CustomFields"]["properties"]
    assert properties.keys() == SHOWN.keys()
    assert properties["siblings"]["type"] == ["integer", "null"]
    ref = {"$ref": "#/components/schemas/CustomFields"}
    assert schemas["Profile"]["properties"]["customFields"] == ref
    closed = schemas["ProfileChanges"]["properties"]["customFields"]
    assert closed == {"allOf": [ref], "unevaluatedProperties": False}


def test_an_account_signs_in_whatever_its_fields_say(app, client, make_user, set_fields):
    user = make_user("odd", custom_fields={"grade": ["no", "text"], "old": {"a": None}})
    data = success(login(client, user, PASSWORD))
    own = success(client.get("/api/users/profile", headers=bearer(data["accessToken"])))
    assert own["customFields"]["grade"] is None


def test_the_settings_that_the_docs_show_are_taken():
    page = (ROOT / "docs/custom-fields.md").read_text()
    shown = dotenv_values(stream=io.StringIO(page.split("```")[1].removeprefix("sh")))
    grade, department, newsletter = config.load(shown).custom_fields
    assert (grade.in_token, grade.seen_by) == (True, "teachers")
    assert department.choices[2] == "Research and development"
    assert (newsletter.title, newsletter.required) == ("Send me the newsletter", True)
    assert list(config.misspelt(shown, (), (grade, department, newsletter))) == []
