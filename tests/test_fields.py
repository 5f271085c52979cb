"""What each field takes, and the stable word beside each sentence about what it refuses."""

import pytest
from endpoints import API, WITH_BODY
from helpers import PASSWORD, failure, registration, words
from marshmallow import ValidationError
from marshmallow import fields as ma

import schemas
from core.reasons import Reason

SHAPES = {
    shape
    for endpoint in API
    for shape in (endpoint.operation.body, endpoint.operation.query, endpoint.operation.path_shape)
    if shape
}
BODIES = sorted({endpoint.operation.body for endpoint in WITH_BODY}, key=str)
TAKES = {ma.Boolean: bool, ma.Integer: int, ma.Nested: dict, ma.Dict: dict, ma.List: list}
VALUES = [
    *(None, True, False, 0, -1, 1.5, 10**18, [], ["a"], {}, {"a": "b"}, {"profileVisible": 1}),
    *("", " ", "a", "a b", "-1", "0", "9" * 20, "x" * 5000, "\x00", "\u202ea", "\u3164"),
    *("9999-01-01T00:00:00Z", "http://a b.cd", "me@example", "@" * 300 + ".org", "no zone"),
]


TWO_LINES = "a@b.org\nBcc: a@b.org"
# Among them are digits of other scripts: an Arabic one and a superscript.
NO_NUMBERS = ["+1", "1.5", "1_0", "", "one", " 1", "9" * 5000, "1\0", "\u0661", "\u00b9"]


def kept(shape, field, sent):
    """Return what is kept of a value."""
    (value,) = getattr(schemas, shape)().load({field: sent}, partial=True).values()
    return value


def words_about(shape, field, sent):
    """Return why a value is refused."""
    with pytest.raises(ValidationError) as caught:
        kept(shape, field, sent)
    ((name, found),) = caught.value.messages_dict.items()
    assert name == field
    reasons = found["_schema"] if isinstance(found, dict) else found
    return [reason.word for reason in reasons]


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


# Providers add parameters of their own.
@pytest.mark.asvs("15.3.3", "15.3.5")
@pytest.mark.parametrize("shape", sorted(SHAPES - {schemas.ProviderAnswer}, key=str))
def test_unknown_fields_are_named(shape):
    for name in ("surprise", "_id", "__proto__", "\u00e9", "a\x00b", "\n", "x" * 1000):
        assert shape().validate({name: "admin"}, partial=True).keys() == {name}


@pytest.mark.asvs("1.4.2", "1.5.2", "15.3.3", "15.3.5")
@pytest.mark.parametrize("shape", BODIES)
def test_value_of_another_type_is_named(shape):
    for field in shape().fields.values():
        takes = next((kind for cls, kind in TAKES.items() if isinstance(field, cls)), str)
        for value in (None, True, 7, 1.5, "text", [], ["text"], {}, {"a": "b"}):
            if type(value) is not takes and not (value is None and field.allow_none):
                found = shape().validate({field.data_key: value}, partial=True)
                assert found.keys() == {field.data_key}, value


@pytest.mark.asvs("6.2.9", "6.2.10")
@pytest.mark.parametrize(
    ("shape", "field", "least", "most"),
    [
        *(("Register", name, 1, 64) for name in ("firstName", "lastName")),
        *(("ProfileChanges", name, 1, 64) for name in ("firstName", "lastName")),
        ("ServiceKeyName", "name", 1, 64),
        ("Register", "username", 3, 32),
        ("Register", "password", 0, 128),
        ("ProfileChanges", "bio", 0, 500),
        ("ProfileChanges", "location", 0, 100),
        ("AccountQuery", "search", 0, 254),
        *((shape, "name", 1, 200) for shape in ("CourseDelivery", "AchievementDelivery")),
        ("CertificateDelivery", "courseName", 1, 200),
        ("CertificateDelivery", "courseId", 1, 64),
        *((f"{kind}Path", f"{kind.lower()}Id", 1, 64) for kind in ("Course", "Lesson")),
        *((f"{kind}Path", f"{kind.lower()}Id", 1, 64) for kind in ("Achievement", "Certificate")),
    ],
)
def test_text_has_its_length(shape, field, least, most):
    for length in (least, most):
        assert kept(shape, field, "a" * length) == "a" * length
    assert words_about(shape, field, "a" * (most + 1)) == ["too_long"]
    if least:
        assert words_about(shape, field, "a" * (least - 1)) == ["too_short"]


@pytest.mark.asvs("1.4.2", "1.5.2")
@pytest.mark.parametrize(
    ("shape", "field", "least", "most"),
    [("CourseDelivery", "lessons", 1, 10_000), ("LessonDelivery", "minutes", 0, 1440)],
)
def test_number_has_its_bounds(shape, field, least, most):
    for number in (least, most):
        assert kept(shape, field, number) == number
    for number in (least - 1, -(2**64)):
        assert words_about(shape, field, number) == ["too_small"]
    for number in (most + 1, 2**31, 2**63):
        assert words_about(shape, field, number) == ["too_large"]
    for number in (None, True, 1.5, 1.0, "5", "", [5]):
        assert words_about(shape, field, number) == ["type"]


@pytest.mark.parametrize(
    ("shape", "field", "sent", "word"),
    [
        *(("Register", "username", name, "invalid") for name in ("Ann Lee", "-ann", "ad\u00e4")),
        ("Register", "password", "long and fine, but\0", "invalid"),
        ("Register", "username", 7, "type"),
        ("Register", "surprise", 1, "unknown"),
        *(("Register", "email", email, "invalid") for email in ("a@b", "\u00e4@b.org", TWO_LINES)),
        ("Register", "email", f"me@{'example.' * 40}org", "too_long"),
        ("Register", "firstName", None, "type"),
        ("Register", "firstName", " \u3000\n\t", "too_short"),
        *(("Register", "language", tag, "invalid") for tag in ("", "english please", "d" * 35)),
        *(("Register", "timezone", zone, "invalid") for zone in ("", "Europe", "europe/berlin")),
        ("ProfileChanges", "bio", "a\tb", "invalid"),
        *(("SettingsChanges", "theme", theme, "invalid") for theme in ("blue", "Dark", "")),
        *(("SettingsChanges", "privacy", value, "type") for value in ([], None)),
        *(("PrivacyChanges", "profileVisible", value, "type") for value in ("yes", None, 1)),
        ("SettingsChanges", "emailNotifications", "true", "type"),
        ("LessonDelivery", "completedAt", "9999-01-01T00:00:00Z", "future"),
        ("LessonDelivery", "completedAt", "9" * 10_000, "too_long"),
        ("LessonDelivery", "completedAt", 1907366400, "type"),
        ("CertificateDelivery", "expiresAt", None, "type"),
        *(
            (shape, field, time, "invalid")
            for shape, field in (
                ("AchievementDelivery", "earnedAt"),
                ("CertificateDelivery", "expiresAt"),
            )
            for time in ("", "yesterday", "2030-06-01T00:00:00", "0001-01-01T00:00:00+00:01")
        ),
        *(
            (shape, "courseId", text, "invalid")
            for shape in ("CoursePath", "CertificateDelivery")
            for text in ("a b", "a\x00", "a/b", "a%", "a:b", "a+b", "\u00e4", "\uff21", "\u0661")
        ),
        ("CoursePath", "courseId", "a\n", "invalid"),
        *(("AccountQuery", "page", text, "too_small") for text in ("0", "-1")),
        *(("AccountQuery", "page", text, "too_large") for text in ("1000000001", "9" * 20)),
        ("AccountQuery", "perPage", "0", "too_small"),
        ("AccountQuery", "perPage", "one", "type"),
        *(("AccountQuery", "page", text, "type") for text in NO_NUMBERS),
        *(("AccountQuery", "isActive", text, "type") for text in ("True", "1", "", "true ")),
        *(("AccountQuery", "role", role, "invalid") for role in ("", "Admin", "teacher")),
        *(("AccountQuery", "search", f"a{char}b", "invalid") for char in "\0\t\n\x1b\x7f\x85\x9f"),
        ("AccountChanges", "emailVerified", False, "invalid"),
    ],
)
def test_each_mistake_has_its_word(shape, field, sent, word):
    assert words_about(shape, field, sent) == [word]


@pytest.mark.parametrize(
    ("shape", "field", "sent", "expected"),
    [
        ("Register", "username", " 0a_.-\n", "0a_.-"),
        ("ProfileChanges", "firstName", " \u3000Ada\u2003 ", "Ada"),
        *((shape, "password", " a ", " a ") for shape in ("Register", "Confirmation")),
        ("ProfileChanges", "bio", "one\ntwo\r\n", "one\ntwo"),
        ("CertificateDelivery", "courseId", " a ", "a"),
        ("CertificateDelivery", "credentialUrl", "   ", ""),
        ("SettingsChanges", "language", "EN-us", "en-US"),
    ],
)
def test_text_is_kept_in_its_plain_form(shape, field, sent, expected):
    assert kept(shape, field, sent) == expected


LINK = "https://example.org/"
LINKS = [("ProfileChanges", "website"), ("CertificateDelivery", "credentialUrl")]


@pytest.mark.parametrize(("shape", "field"), LINKS)
def test_website_may_be_any_web_address(shape, field):
    for link in (
        *("https://example.org", "http://example.org:8080/", "HTTPS://Example.org/Path?a#b"),
        *("https://xn--bcher-kva.example/", "http://192.0.2.1/x", "https://[2001:db8::1]/"),
        *("https://b\u00fccher.example/\u00e4?\u00f6=\u00fc#\u00df", "https://example.org/a@b"),
        LINK.ljust(200, "a"),
    ):
        assert kept(shape, field, link) == link


@pytest.mark.asvs("1.2.2")
@pytest.mark.parametrize(("shape", "field"), LINKS)
def test_website_is_no_other_kind_of_link(shape, field):
    for link in (
        *("example.org", "//example.org", "ftp://example.org", "javascript:alert(1)"),
        *("javascript://example.org/%0aalert(1)", "data:text/html,x", "mailto:me@example.org"),
        *("https://", "https:///path", "https://exa mple.org", "https://example.org/a b"),
        *('https://example.org/"onclick="x', "https://example.org/<script>", "https://a..org"),
        *("https://example.org\\@evil.example", "https://known.example@evil.example/"),
        *("https://user:password@example.org/", "https://example.org/\u202egpj.exe", f"{LINK}\x00"),
    ):
        assert words_about(shape, field, link) == ["invalid"]
    assert words_about(shape, field, LINK.ljust(201, "a")) == ["too_long"]


NAMES = [
    *(("Register", "firstName"), ("Register", "lastName"), ("ServiceKeyName", "name")),
    *(("ProfileChanges", "firstName"), ("ProfileChanges", "lastName")),
    *(("CourseDelivery", "name"), ("AchievementDelivery", "name")),
    ("CertificateDelivery", "courseName"),
]


@pytest.mark.parametrize(("shape", "field"), NAMES)
def test_a_name_can_be_seen_and_reads_as_it_stands(shape, field):
    for name in (
        *("\u200b", "\u2060\ufeff", "\u3164", "\u115f\u1160", "\u2800\uffa0", "\U000e0041"),
        *("\uffff", "\ue000", "nimda\u202e", "a\u200fb", "a\u2066b\u2069c", "\ufe0f", "\u0301"),
        *("a\tb", "a\x00", "a\x1f"),
    ):
        assert words_about(shape, field, name) == ["invalid"]


@pytest.mark.parametrize(("shape", "field"), NAMES)
def test_a_name_in_any_script_is_taken(shape, field):
    for name in (
        *("O\u2019Brien-Smith", "\u674e", "\ud64d\uae38\ub3d9", "<b>'\"; DROP TABLE users; --"),
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",  # Persian, with a non-joiner
        "\u0d28\u0d4d\u200d",  # Malayalam, with a joiner
        "\U0001f469\u200d\U0001f680",
        "\U0001f600" * 64,
    ):
        assert kept(shape, field, name) == name


def test_reasons_have_the_shape_of_the_fields(client, auth):
    body = {"theme": 7, "privacy": {"profileVisible": "yes", "surprise": 1}}
    response = client.put("/api/users/settings", json=body, headers=auth.headers)
    assert words(response) == {
        "theme": ["type"],
        "privacy": {"profileVisible": ["type"], "surprise": ["unknown"]},
    }
    missing = client.post("/api/auth/login", json={})
    assert words(missing) == {"email": ["required"], "password": ["required"]}


def test_what_is_taken_weak_or_wrong_has_its_word(client, auth):
    body = registration(auth.user.username, email=auth.user.email)
    taken = client.post("/api/auth/register", json=body)
    failure(taken, 409, "username_taken")
    assert taken.get_json()["error"]["reasons"] == {"username": ["taken"], "email": ["taken"]}
    weak = client.post("/api/auth/register", json=registration(password="asdasdas"))
    failure(weak, 400, "weak_password")
    assert words(weak) == {"password": ["repeated"]}
    body = {"currentPassword": "no", "newPassword": PASSWORD}
    wrong = client.put("/api/users/password", json=body, headers=auth.headers)
    failure(wrong, 400, "wrong_password")
    assert words(wrong) == {"currentPassword": ["wrong"]}
