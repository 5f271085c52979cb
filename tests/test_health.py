"""What balancers and supervisors ask for."""

from helpers import failure, on_both, success


@on_both
def test_service_is_not_ready_with_an_older_schema(client, monkeypatch):
    assert success(client.get("/readyz")) == {}
    monkeypatch.setattr("database.schema.NEWEST", "9999")
    response = client.get("/readyz")
    assert failure(response, 503, "unavailable") == {}
    assert "flask db upgrade" in response.get_json()["message"]
    assert int(response.headers["Retry-After"]) > 0
    success(client.get("/healthz"))


@on_both
def test_service_is_ready_with_the_schema_of_a_later_release(client, monkeypatch):
    monkeypatch.setattr("database.schema.NEWEST", "0001")
    assert success(client.get("/readyz")) == {}
