"""A service on each kind of database, and the mail server that both use."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from real_service import MailServer, Service, deployed, empty_database


@pytest.fixture(scope="session")
def mail_server() -> Iterator[MailServer]:
    server = MailServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("service")


@pytest.fixture(scope="session", params=["sqlite", "postgres"])
def service(
    request: pytest.FixtureRequest, folder: Path, mail_server: MailServer
) -> Iterator[Service]:
    url = empty_database(request, folder)
    with deployed(url, mail_server.port, folder / f"{request.param}.log") as service:
        yield service


@pytest.fixture(autouse=True)
def show_log(request: pytest.FixtureRequest) -> Iterator[None]:
    """Print the service's log; pytest shows what was printed when a test fails."""
    yield
    if "service" in request.fixturenames:
        print(request.getfixturevalue("service").log()[-20_000:])
