"""The OpenAPI document says what the application does, and all of it."""

import re

import pytest
from endpoints import ENDPOINTS, GUARDED, WITH_BODY
from helpers import success
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator, validate

import errors
import schemas
from core.reasons import WORDS
from core.roles import Role
from web.forms import NOT_MULTIPART
from web.openapi import possible_errors, successes

# Of no single endpoint: the first one is the answer where there is none, and the second one stands
# in lists of those who are refused.
OF_NO_ENDPOINT = {errors.MethodNotAllowed, errors.AccountUsed}
ERROR = {"$ref": "#/components/schemas/Error"}


@pytest.fixture
def document(client):
    return client.get("/openapi.json").get_json()


def resolve(document, found):
    """Return what a reference names, with what stands beside the reference in its place."""
    if "$ref" not in found:
        return found
    _, _, kind, name = found["$ref"].split("/")
    return {**document["components"][kind][name], **found}


def operation_of(document, endpoint):
    return document["paths"][endpoint.documented][endpoint.method.lower()]


def operations(document):
    return [
        (f"{method.upper()} {path}", operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


def content_of(answer):
    assert answer["content"].keys() - {"text/csv"} == {"application/json"}
    return answer["content"]["application/json"]["schema"]


def test_document_is_valid_openapi_3_1(client, document):
    response = client.get("/openapi.json")
    assert (response.status_code, response.mimetype) == (200, "application/json")
    assert len(response.data) < 240_000
    assert document["openapi"].startswith("3.1.")
    validate(document, cls=OpenAPIV31SpecValidator)
    assert document["servers"] == [{"url": "/"}]
    assert document["info"]["license"] == {"name": "MIT", "identifier": "MIT"}


@pytest.mark.asvs("13.4.2", "13.4.3", "13.4.4", "13.4.5")
def test_document_has_every_endpoint_in_its_canonical_form_and_nothing_else(document):
    declared = {f"{endpoint.method} {endpoint.documented}" for endpoint in ENDPOINTS}
    assert {name for name, _ in operations(document)} == declared
    beside = {path for path in document["paths"] if not path.startswith("/api/")}
    assert beside == {"/healthz", "/readyz", "/metrics"}


@pytest.mark.asvs("6.3.4")
def test_guarded_endpoints_and_no_others_ask_for_a_token(document):
    of_key = {"type": "http", "scheme": "bearer"}
    assert document["components"]["securitySchemes"] == {
        "bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
        "serviceKey": {**of_key, "description": "A service key: `acsk_…`."},
    }
    assert "security" not in document
    for endpoint in ENDPOINTS:
        operation = operation_of(document, endpoint)
        assert bool(operation["security"]) == (endpoint in GUARDED), endpoint
        if endpoint in GUARDED:
            answer = resolve(document, operation["responses"]["401"])
            codes = codes_of(answer)
            assert {"token_missing", "token_invalid", "token_expired", "token_revoked"} <= codes


@pytest.mark.asvs("5.1.1")
def test_every_operation_is_told_in_a_sentence_and_has_a_tag(document):
    known = {tag["name"] for tag in document["tags"]}
    ids = set()
    for name, operation in operations(document):
        assert operation["summary"].endswith("."), name
        assert "\n" not in operation["summary"], name
        assert {*operation["tags"]} <= known, name
        ids.add(operation["operationId"])
        # Generators of clients make a function of each.
        assert re.fullmatch(r"[a-z][A-Za-z]*", operation["operationId"]), name
        rows = [resolve(document, row) for row in operation.get("parameters", [])]
        described = {row["name"] for row in rows if row["in"] == "path"}
        assert described == {*re.findall(r"{(\w+)}", name)}, name
        # Calls share `from` and `to`, and each has another number of days.
        assert not re.search("[0-9]+ days", str(rows)), name
    assert len(ids) == len(operations(document))


def codes_of(answer):
    return {*re.findall(r"`(\w+)`: ", answer["description"])}


def test_every_error_can_be_found_in_the_document(document):
    told = set()
    for _, operation in operations(document):
        for status, answer in operation["responses"].items():
            told |= codes_of(resolve(document, answer)) if int(status) >= 400 else set()
    assert told == {kind.code for kind in errors.all_errors() if kind not in OF_NO_ENDPOINT}


def test_all_errors_are_one_named_schema_in_named_responses(document):
    for name, operation in operations(document):
        for status, answer in operation["responses"].items():
            if int(status) >= 400:
                assert {"$ref"} <= answer.keys() <= {"$ref", "description"}, name
                assert answer["$ref"].startswith("#/components/responses/"), name
                assert content_of(resolve(document, answer)) == ERROR, name
    assert all(content_of(found) == ERROR for found in document["components"]["responses"].values())
    error = document["components"]["schemas"]["Error"]
    assert {*error["required"]} == {*error["properties"]} == {"success", "message", "error"}
    assert error["properties"]["success"] == {"const": False}
    detail = resolve(document, error["properties"]["error"])
    assert detail["required"] == ["code"]
    assert detail["properties"]["code"]["enum"] == [kind.code for kind in errors.all_errors()]


def test_a_client_knows_the_type_of_what_is_wrong_with_a_field(document, client, auth):
    detail = document["components"]["schemas"]["ErrorDetail"]
    for name, text in (("fields", {}), ("reasons", {"enum": [*WORDS]})):
        texts, _ = detail["properties"][name]["additionalProperties"]["anyOf"]
        described = resolve(document, texts["items"])
        assert {"type": "string", **text} == {k: v for k, v in described.items() if k != "$ref"}
    for privacy in (7, {"profileVisible": 7}):
        body = {"theme": 7, "privacy": privacy}
        answer = client.put("/api/users/settings", json=body, headers=auth.headers)
        error = answer.get_json()["error"]
        assert error["reasons"]["privacy"]
        Draft202012Validator({**document, **detail}).validate(error)


def test_generators_of_clients_find_a_name_and_one_type_for_everything(document):
    def objects(found):
        for inner in found.values() if isinstance(found, dict) else found:
            if isinstance(inner, dict | list):
                yield from objects(inner)
        if isinstance(found, dict) and found.get("type") == "object":
            yield found

    for each in objects(document):
        # TypeScript gives all properties the type of the others.
        assert not each.get("properties") or not isinstance(each.get("additionalProperties"), dict)
    for name, schema in document["components"]["schemas"].items():
        if name == "Error":  # the one name that clients of all generators know it by
            continue
        # In Python, an object and a list that it holds would be one variable of two types.
        held = schema.get("properties", {}).get(name[0].lower() + name[1:], {"type": "string"})
        assert held.get("type") == "string", name


def test_error_answers_tell_status_and_codes(document):
    for endpoint in ENDPOINTS:
        answers = operation_of(document, endpoint)["responses"]
        possible = possible_errors(endpoint.operation)
        for kind in possible:
            answer = resolve(document, answers[str(kind.status)])
            assert codes_of(answer) == {one.code for one in possible if one.status == kind.status}
            other_type = kind is errors.UnsupportedMediaType and endpoint.operation.upload
            message = NOT_MULTIPART if other_type else kind.message
            assert f"`{kind.code}`: {message}" in answer["description"]
        needs_none = ("/healthz", "/api/auth/options", "/api/auth/passkeys/options")
        without_database = endpoint.rule in needs_none
        assert {"500", "503"} <= answers.keys() or without_database


def test_a_missing_second_factor_is_told_as_the_call_needs_it(document):
    for endpoint in ENDPOINTS:
        answer = operation_of(document, endpoint)["responses"].get("403", {"description": ""})
        told, declared = resolve(document, answer)["description"], endpoint.operation
        takes_code = declared.body and "second_factor" in declared.body().fields
        assert (errors.SecondFactorRequired.message in told) == bool(takes_code), endpoint
        of_both = endpoint.name in (
            *("users.get_user", "admin.list_events", "applications.sign_in_to_application"),
        )
        for_role = declared.role not in (None, Role.STUDENT) or of_both
        assert (errors.RoleNeedsFactor.message in told) == for_role, endpoint


# What forms need to know. Where the document takes more than validation, the sentence says why.
SAMPLES = {
    ("Register", "username"): ("Ann Lee", "_ann", "a", "ann_lee", "x" * 33),
    ("Register", "password"): ("Tr4vel-Mug-Blue-42", "x" * 129),
    ("ProfileChanges", "website"): ("", "https://a.bc:8/d?e#f"),
    ("SettingsChanges", "theme"): ("dark", "blue"),
}


def test_schemas_take_and_refuse_what_validation_does(document):
    for (name, field), texts in SAMPLES.items():
        described = Draft202012Validator(
            document["components"]["schemas"][name]["properties"][field]
        )
        for text in texts:
            refused = getattr(schemas, name)().validate({field: text}, partial=True)
            assert described.is_valid(text) == (not refused), text


@pytest.mark.asvs("2.1.3")
def test_request_bodies_list_what_is_required_and_forbid_what_is_unknown(document):
    for endpoint in ENDPOINTS:
        operation = operation_of(document, endpoint)
        if not (endpoint.operation.body or endpoint.operation.upload):
            assert "requestBody" not in operation
            continue
        assert {"400", "413", "415"} <= operation["responses"].keys()
        body = operation["requestBody"]
        if endpoint.operation.upload:
            assert body["content"].keys() == {"multipart/form-data"}
            schema = body["content"]["multipart/form-data"]["schema"]
            assert schema["required"] == [endpoint.operation.upload]
        else:
            assert body["required"] is True
            schema = resolve(document, content_of(body))
            assert {*schema.get("required", [])} == endpoint.required, endpoint
        assert schema["additionalProperties"] is False, endpoint


@pytest.mark.asvs("2.1.1")
def test_every_property_has_a_type(document):
    bodies = {each.operation.body.__name__ for each in WITH_BODY}
    for name, schema in document["components"]["schemas"].items():
        for field, described in schema.get("properties", {}).items():
            kinds = {"type", "const", "$ref", "allOf", "anyOf", "oneOf"}
            assert described.keys() & kinds, (name, field)
            if described.get("type") == "string" and name in bodies:
                assert described.keys() & {"maxLength", "enum", "const", "format"}, (name, field)


def test_every_body_has_an_example_that_passes_its_own_rules(document):
    for endpoint in WITH_BODY:
        endpoint.operation.body().load(endpoint.example)
        schema = resolve(document, content_of(operation_of(document, endpoint)["requestBody"]))
        for field, example in endpoint.example.items():
            inner = {**document, **schema["properties"][field]}
            assert Draft202012Validator(inner).is_valid(example), (endpoint, field)


def test_example_of_registration_and_login_works_as_it_stands(client):
    by_name = {endpoint.name: endpoint for endpoint in ENDPOINTS}
    for name, status in (("auth.register", 201), ("auth.login", 200)):
        success(by_name[name].open(client), status)


def test_success_answers_are_the_envelope(document):
    for endpoint in ENDPOINTS:
        answers = operation_of(document, endpoint)["responses"]
        wanted = {"success", "data"} | ({"message"} if endpoint.operation.message else set())
        assert {status for status in answers if status < "400"} == {
            str(status) for status in successes(endpoint.operation)
        }
        for status in successes(endpoint.operation):
            answer = answers[str(status)]
            if endpoint.name == "metrics.get_metrics":
                assert answer["content"] == {"text/plain": {"schema": {"type": "string"}}}
                continue
            assert ("text/csv" in answer["content"]) == endpoint.operation.or_csv
            assert content_of(answer).keys() == {"$ref"}
            schema = resolve(document, content_of(answer))
            assert {*schema["required"]} == {*schema["properties"]} == wanted
            assert schema["properties"]["success"] == {"const": True}
            data = schema["properties"]["data"]["$ref"].rpartition("/")[2]
            assert data == getattr(endpoint.operation.response, "__name__", "Empty")
            assert document["components"]["schemas"][data]["type"] == "object"
