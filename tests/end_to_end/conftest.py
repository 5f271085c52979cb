"""A service on each kind of database, and the mail server that both use."""

import shutil

import pytest
from real_service import MailServer, deployed, empty_database

from config import ROOT


@pytest.fixture(scope="session")
def mail_server():
    server = MailServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("service")


@pytest.fixture(scope="session", params=["sqlite", "postgres"])
def service(request, folder, mail_server):
    url = empty_database(request, folder)
    with deployed(url, mail_server.port, folder / f"{request.param}.log") as service:
        yield service


@pytest.fixture
def tree(tmp_path):
    """A copy of the program; the `instance` folder and `.env` of this one stay untouched."""
    copy = tmp_path / "program"
    ignored = shutil.ignore_patterns(".*", "__pycache__", "instance", "tests", "bench")
    shutil.copytree(ROOT, copy, ignore=ignored)
    return copy


@pytest.fixture(autouse=True)
def show_log(request):
    """Print the service's log; pytest shows what was printed when a test fails."""
    yield
    if "service" in request.fixturenames:
        print(request.getfixturevalue("service").log()[-20_000:])
