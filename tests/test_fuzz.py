"""Schemathesis reads the OpenAPI document and tries to prove it wrong.

Its pytest plugin is off (see pyproject.toml), so the cases come from its programming interface.
FUZZ_EXAMPLES asks for more of them: `FUZZ_EXAMPLES=500 pytest -m '' tests/test_fuzz.py`.
"""

import logging
import os
from datetime import timedelta
from functools import cache

import pytest
from endpoints import ENDPOINTS
from helpers import bearer
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode, openapi
from schemathesis.checks import load_all_checks
from schemathesis.config import GenerationConfig, SchemathesisConfig
from schemathesis.generation.coverage import GenerationSession
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from core import clock, ids
from core.roles import Role
from core.tokens import Purpose
from extensions import components
from schemas import camel_case

FEW = 50
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", FEW))
# What an address, a password or a token of a mail must be is beyond JSON Schema: such values
# have the right shape and are refused with a declared 400.
EXCLUDED = [positive_data_acceptance]
# A record that is wrong is refused by its index, and hinders no other one: the call is a success.
WRONG_ONE_BY_ONE = "learning.deliver_", "lists.read_list"

SETTINGS = settings(
    max_examples=EXAMPLES,
    # The same cases every time, and no folder of old ones.
    derandomize=EXAMPLES == FEW,
    database=None,
    deadline=None,
    phases=[Phase.generate, Phase.shrink],
    # An application lives as long as its test; whether a case leaves rows behind does not matter.
    suppress_health_check=list(HealthCheck),
)


@cache
def read_document(app):
    load_all_checks()
    return openapi.from_wsgi("/openapi.json", app, config=SchemathesisConfig(seed=1))


@pytest.fixture
def document(app):
    logging.getLogger().setLevel(logging.CRITICAL)  # until the next test configures the log
    return read_document(app)


@pytest.fixture
def check(document, make_user):
    """Call the application with a case, as an admin if need be, and check the answer."""
    admin = make_user("fuzzy", role=Role.ADMIN)

    def authorization():
        # Of a new session for each call, since some of them end it.
        now, session = clock.utcnow(), {"sid": ids.new_row_id(), "role": Role.ADMIN}
        times = {"issued_at": now, "expires_at": now + timedelta(minutes=1)}
        tokens = components(document.app).tokens
        return bearer(tokens.encode(Purpose.ACCESS, admin.id, **times, **session))

    def check(case, endpoint):
        headers = authorization() if endpoint.operation.role else {}
        is_one_by_one = endpoint.name.startswith(WRONG_ONE_BY_ONE)
        excluded = [*EXCLUDED, *([negative_data_rejection] if is_one_by_one else [])]
        response = case.call_and_validate(headers=headers, excluded_checks=excluded)
        assert response.status_code < 500
        return response.status_code

    return check


def operation_of(document, endpoint):
    return document.find_operation_by_id(camel_case(endpoint.name.rpartition(".")[2]))


# These ask for the current password, a code, a picture or what an application asks for.
KNOWING_MORE = {
    *("users.change_password", "users.delete_account", "users.upload_avatar"),
    *("users.request_email", "users.confirm_email", "passkeys.add_passkey"),
    "applications.sign_in_to_application",
}


def few_on(database):
    """Take one database for a few cases, and both for more."""
    databases = [database] if EXAMPLES == FEW else ["sqlite", "postgres"]
    return pytest.mark.parametrize("database_url", databases, indirect=True)


@pytest.mark.asvs("2.2.1", "2.2.2")
@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=str)
@few_on("postgres")
def test_boundaries_of_every_value_are_answered_as_documented(document, check, endpoint):
    operation = operation_of(document, endpoint)
    config = {"generation_modes": list(GenerationMode), "generation_config": GenerationConfig()}
    # A session asks each path once with a method that it lacks.
    cases = document.iter_coverage_cases(operation, session=GenerationSession(), **config)
    statuses = {check(case, endpoint) for case in cases}
    assert 405 in statuses
    # The usual application has no provider, and says so before it looks at a body.
    has_body = endpoint.operation.body or endpoint.operation.upload
    if has_body and endpoint.name != "providers.start":
        assert ({400} if endpoint.operation.or_text else {400, 415}) <= statuses
    if endpoint.operation.role:
        # Where there are two ways to authenticate, no case leaves both out; test_roles.py does.
        assert 401 in statuses or endpoint.operation.scopes
        if "<" not in endpoint.rule and endpoint.name not in KNOWING_MORE:
            assert endpoint.operation.status in statuses


# Where nothing is sent, nothing can be wrong with it; and any text may be a share code.
NEVER_WRONG = "certificates.check_certificate"
MODES = [
    (endpoint, mode)
    for endpoint in ENDPOINTS
    for mode in GenerationMode
    if mode.is_positive
    or endpoint.operation.body
    or ("<" in endpoint.rule and endpoint.name != NEVER_WRONG)
]


@pytest.mark.parametrize(("endpoint", "mode"), MODES, ids=str)
@few_on("sqlite")
def test_generated_calls_are_answered_as_documented(document, check, endpoint, mode):
    operation = operation_of(document, endpoint)

    @SETTINGS
    @given(case=operation.as_strategy(generation_mode=mode))
    def run(case):
        check(case, endpoint)

    run()
