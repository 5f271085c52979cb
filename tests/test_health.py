"""What balancers and supervisors ask for."""

import pytest
from helpers import failure, success
from sqlalchemy import text

from database import SCHEMA_REVISION, transaction


@pytest.fixture
def set_revision(app):
    """Give the schema another revision, until the end of the test."""

    def set_revision(revision):
        with app.app_context(), transaction() as session:
            session.execute(
                text("UPDATE alembic_version SET version_num = :new"), {"new": revision}
            )

    yield set_revision
    set_revision(SCHEMA_REVISION)


def test_service_is_not_ready_with_an_older_schema(client, set_revision):
    assert success(client.get("/readyz")) == {}
    set_revision("0001")
    response = client.get("/readyz")
    assert failure(response, 503, "unavailable") == {}
    assert "flask db upgrade" in response.get_json()["message"]
    assert int(response.headers["Retry-After"]) > 0
    success(client.get("/healthz"))


def test_service_is_ready_with_the_schema_of_a_later_release(client, set_revision):
    set_revision("9999")
    assert success(client.get("/readyz")) == {}
