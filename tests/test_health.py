"""What balancers and supervisors ask for."""

from helpers import failure, success
from sqlalchemy import text

from database import transaction


def test_service_is_not_ready_with_the_schema_of_another_revision(app, client):
    def set_revision(value):
        with app.app_context(), transaction() as session:
            session.execute(text(f"UPDATE alembic_version SET version_num = {value}"))

    assert success(client.get("/readyz")) == {}
    set_revision("'0' || version_num")
    try:
        response = client.get("/readyz")
        assert failure(response, 503, "unavailable") == {}
        assert "flask db upgrade" in response.get_json()["message"]
        assert int(response.headers["Retry-After"]) > 0
        success(client.get("/healthz"))
    finally:
        set_revision("substr(version_num, 2)")
    success(client.get("/readyz"))
