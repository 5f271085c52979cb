"""The embedded default: a database and a secret in a folder, made when they are missing."""

import re
from unittest.mock import Mock

import pytest
from helpers import race
from sqlalchemy import URL, delete, text

import database
import embedded
from app import create_app
from config import ConfigError, Settings
from database import schema
from extensions import components, db
from models import User


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "not yet" / "instance"


@pytest.fixture
def start(folder):
    """Start applications on the folder, with settings of the test's own."""
    started = []

    def start(**settings):
        app = create_app(Settings(bcrypt_rounds=4, **settings), instance_path=folder)
        started.append(app)
        return app

    yield start
    for app in started:
        with app.app_context():
            db.engine.dispose()


def mode(path):
    return path.stat().st_mode & 0o777


def test_secret_is_made_once_and_nobody_else_can_read_it(folder):
    secret = embedded.secret_key(folder)
    assert re.fullmatch(r"[\w-]{64}", secret)
    assert (mode(folder), mode(folder / "secret_key")) == (0o700, 0o600)
    assert embedded.secret_key(folder) == secret
    assert embedded.secret_key(folder.with_name("other")) != secret


def test_secret_is_one_for_all_that_ask_at_once(folder):
    assert len(set(race(lambda _: embedded.secret_key(folder)))) == 1


def test_fault_before_the_secret_is_in_place_does_no_harm(folder, monkeypatch):
    with monkeypatch.context() as broken:
        broken.setattr("os.fsync", Mock(side_effect=OSError("full")))
        with pytest.raises(OSError, match="full"):
            embedded.secret_key(folder)
    assert [path.name for path in folder.iterdir()] == ["lock"]
    assert len(embedded.secret_key(folder)) == 64


@pytest.mark.parametrize("content", ["", "too short"])
def test_file_without_a_secret_stops_the_start(start, folder, content):
    folder.mkdir(parents=True)
    (folder / "secret_key").write_text(content)
    with pytest.raises(ConfigError, match="holds no secret"):
        start()
    assert (folder / "secret_key").read_text() == content


def test_workers_of_a_preloading_server_inherit_no_connection(start):
    for app in start(), start():  # the first one makes the database, the second one finds it
        with app.app_context():
            assert db.engine.pool.checkedin() == 0


def test_database_is_its_owners_alone(start, folder):
    folder.mkdir(mode=0o755, parents=True)
    app = start()
    with app.app_context(), database.transaction() as session:
        session.execute(delete(User))
        assert {path.name: mode(path) for path in folder.glob("accounts.db*")} == {
            "accounts.db": 0o600,
            "accounts.db-shm": 0o600,
            "accounts.db-wal": 0o600,
        }


@pytest.mark.parametrize("revision", [schema.NEWEST, "9999"])
def test_current_or_newer_database_starts_without_migrating(start, monkeypatch, revision):
    with start().app_context(), database.transaction() as session:
        session.execute(text("UPDATE alembic_version SET version_num = :new"), {"new": revision})
    monkeypatch.setattr(schema, "upgrade", None)  # cannot be called
    start()


def test_database_of_before_the_first_release_stops_the_start(start):
    with start().app_context(), database.transaction() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '0013'"))
    with pytest.raises(ConfigError, match="before the first release"):
        start()


def test_secret_of_the_settings_goes_before_the_file(start, folder):
    key = "a key of the settings, long enough for HS256"
    app = start(secret_key=key)
    assert components(app).settings.secret_key == key
    assert not (folder / "secret_key").exists()
    in_file = components(start()).settings.secret_key
    assert in_file == (folder / "secret_key").read_text()


def test_production_database_leaves_the_folder_alone(folder, tmp_path):
    url = URL.create("sqlite", database=str(tmp_path / "production.db"))
    create_app(Settings(database_url=url, secret_key="x" * 32), instance_path=folder)
    assert not folder.exists()
    assert not (tmp_path / "production.db").exists()
