"""Beside each sentence about a field stands a stable word, which clients translate."""

import io

import pytest
from endpoints import API
from helpers import PASSWORD, failure, login, on_one_database, registration, success, words
from marshmallow import ValidationError

import schemas
from core.reasons import Reason

SHAPES = {
    shape
    for endpoint in API
    for shape in (
        endpoint.operation.body,
        endpoint.operation.query,
        endpoint.operation.path_shape,
    )
    if shape
}
VALUES = [
    *(None, True, False, 0, -1, 1.5, 10**18, [], ["a"], {}, {"a": "b"}, {"profileVisible": 1}),
    *("", " ", "a", "a b", "-1", "0", "9" * 20, "x" * 5000, "\x00", "\u202ea", "\u3164"),
    *("9999-01-01T00:00:00Z", "http://a b.cd", "me@example", "@" * 300 + ".org", "no zone"),
]


def leaves(messages):
    for found in messages.values():
        yield from leaves(found) if isinstance(found, dict) else found


def test_no_sentence_about_a_field_is_without_its_word():
    for shape in SHAPES:
        made = shape()
        bodies = [{field.data_key: value} for field in made.fields.values() for value in VALUES]
        for body in [{}, {"surprise": 1}, *bodies]:
            for reason in leaves(made.validate(body)):
                assert isinstance(reason, Reason), (shape, body, reason)


@pytest.mark.parametrize(
    ("shape", "field", "value", "word"),
    [
        ("Register", "surprise", 1, "unknown"),
        ("Register", "username", "ab", "too_short"),
        ("Register", "username", "", "too_short"),
        ("Register", "username", "a" * 33, "too_long"),
        ("Register", "username", "Ann Lee", "invalid"),
        ("Register", "username", 7, "type"),
        ("Register", "email", "nobody", "invalid"),
        ("Register", "email", f"me@{'example.' * 40}org", "too_long"),
        ("Register", "firstName", None, "type"),
        ("Register", "firstName", " ", "too_short"),
        ("Register", "password", "x" * 129, "too_long"),
        ("Register", "language", "english please", "invalid"),
        ("Register", "timezone", "europe/berlin", "invalid"),
        ("ProfileChanges", "bio", "a\tb", "invalid"),
        ("ProfileChanges", "bio", "x" * 501, "too_long"),
        ("ProfileChanges", "website", "a.bc", "invalid"),
        ("ProfileChanges", "website", f"http://a.bc/{'x' * 200}", "too_long"),
        ("SettingsChanges", "theme", "blue", "invalid"),
        ("SettingsChanges", "privacy", [], "type"),
        ("SettingsChanges", "emailNotifications", "true", "type"),
        ("CourseDelivery", "lessons", 0, "too_small"),
        ("CourseDelivery", "lessons", 10_001, "too_large"),
        ("CourseDelivery", "lessons", 1.5, "type"),
        ("LessonDelivery", "completedAt", "9999-01-01T00:00:00Z", "future"),
        ("LessonDelivery", "completedAt", "yesterday", "invalid"),
        ("CoursePath", "courseId", "a b", "invalid"),
        ("CoursePath", "courseId", "a" * 65, "too_long"),
        ("AccountQuery", "page", "0", "too_small"),
        ("AccountQuery", "page", "9" * 20, "too_large"),
        ("AccountQuery", "page", "one", "type"),
        ("AccountQuery", "isActive", "maybe", "type"),
        ("AccountChanges", "emailVerified", False, "invalid"),
    ],
)
def test_each_mistake_has_its_word(shape, field, value, word):
    made = getattr(schemas, shape)
    with pytest.raises(ValidationError) as caught:
        made().load({field: value}, partial=True)
    found = caught.value.messages_dict[field]
    reasons = found["_schema"] if isinstance(found, dict) else found
    assert [reason.word for reason in reasons] == [word]


@pytest.mark.parametrize(
    ("password", "word"),
    [
        ("short", "too_short"),
        ("asdasdas", "repeated"),
        ("newcomer1", "personal"),
        ("asdfghjkl;", "sequence"),
        ("password1", "common"),
    ],
)
@on_one_database
def test_a_weak_password_is_explained_in_a_word(client, password, word):
    response = client.post("/api/auth/register", json=registration(password=password))
    failure(response, 400, "weak_password")
    assert words(response) == {"password": [word]}


@on_one_database
def test_reasons_have_the_shape_of_the_fields(client, auth, make_user):
    body = {"theme": 7, "privacy": {"profileVisible": "yes", "surprise": 1}}
    response = client.put("/api/users/settings", json=body, headers=auth.headers)
    assert words(response) == {
        "theme": ["type"],
        "privacy": {"profileVisible": ["type"], "surprise": ["unknown"]},
    }
    missing = client.post("/api/auth/login", json={})
    assert words(missing) == {"email": ["required"], "password": ["required"]}


@on_one_database
def test_what_is_taken_or_wrong_has_its_word(client, auth):
    taken = client.post(
        "/api/auth/register", json=registration(auth.user.username, email=auth.user.email)
    )
    failure(taken, 409, "username_taken")
    assert taken.get_json()["error"]["reasons"] == {"username": ["taken"], "email": ["taken"]}
    body = {"currentPassword": "no", "newPassword": PASSWORD}
    wrong = client.put("/api/users/password", json=body, headers=auth.headers)
    failure(wrong, 400, "wrong_password")
    assert words(wrong) == {"currentPassword": ["wrong"]}


@on_one_database
def test_an_upload_is_refused_in_words(client, auth):
    def upload(**data):
        return client.post("/api/users/avatar", data=data, headers=auth.headers)

    multipart = {"content_type": "multipart/form-data"}
    empty = client.post("/api/users/avatar", data={}, headers=auth.headers, **multipart)
    failure(empty, 400, "invalid_request")
    response = upload(avatar="text", other=(io.BytesIO(b"a"), "a"))
    assert words(response) == {"avatar": ["type"], "other": ["unknown"]}
    assert words(upload(other=(io.BytesIO(b"a"), "a")))["avatar"] == ["required"]
    assert words(upload(avatar=(io.BytesIO(b"no picture"), "a"))) == {"avatar": ["invalid"]}


@pytest.mark.parametrize(
    "name",
    [
        *("\u200b", "\u2060\ufeff", "\u3164", "\u115f\u1160", "\u2800\uffa0", "\U000e0041"),
        *(
            "\uffff",
            "\ue000",
            "nimda\u202e",
            "\u200fa",
            "\u2066a\u2069",
            "\ufe0f",
            "\u0301",
            "a\u206e",
        ),
    ],
)
def test_a_name_can_be_seen_and_reads_as_it_stands(name):
    for shape, field in ((schemas.Register, "firstName"), (schemas.CourseDelivery, "name")):
        ((reason,),) = shape().validate({field: name}, partial=True).values()
        assert reason.word == "invalid"


@pytest.mark.parametrize(
    "name",
    [
        "O\u2019Brien-Smith",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",  # Persian, with a non-joiner
        "\u0d28\u0d4d\u200d",  # Malayalam, with a joiner
        "\U0001f469\u200d\U0001f680",
        "\u674e",
        "\ud64d\uae38\ub3d9",
    ],
)
def test_a_name_in_any_script_is_taken(name):
    assert schemas.Register().validate({"firstName": name}, partial=True) == {}


@on_one_database
def test_registration_takes_a_time_zone(client):
    success(client.post("/api/auth/register", json=registration(timezone="Asia/Tokyo")), 201)
    token = success(login(client, "newcomer@example.org"))["accessToken"]
    settings = client.get("/api/users/settings", headers={"Authorization": f"Bearer {token}"})
    assert success(settings)["timezone"] == "Asia/Tokyo"


@on_one_database
def test_a_time_zone_is_nothing_personal(client):
    # The password is made of the zone's name, and of nothing that is the user's own.
    body = registration(timezone="Europe/Berlin", password="europe.berlin")
    success(client.post("/api/auth/register", json=body), 201)
