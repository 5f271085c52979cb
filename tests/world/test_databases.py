"""What a Postgres database, its server and its role can be like: each is made right for our
connections, or refused in words."""

import json

import pytest
from helpers import PASSWORD, SECRET, bearer, failure, register, success
from sqlalchemy import text

import database
from app import create_app
from config import Settings
from config.types import database_url as parse_url
from database import engines, schema
from database_check import UnfitDatabase
from extensions import db

ALL = "SELECT, INSERT, UPDATE, DELETE"


@pytest.fixture
def open_app():
    """Make an application on a database."""
    made = []

    def open_app(url):
        usual = {"public_url": "https://school.test", "bcrypt_rounds": 4}
        made.append(create_app(Settings(database_url=url, secret_key=SECRET, **usual)))
        return made[-1]

    yield open_app
    for app in made:
        with app.app_context():
            db.session.remove()
            db.engine.dispose()


def flask(app, command, typed=""):
    """Run a command; return its exit status and what it printed."""
    result = app.test_cli_runner().invoke(args=command.split(), input=typed)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    assert "secret" not in result.output
    return result.exit_code, result.output


def upgrade(app):
    status, output = flask(app, "db upgrade")
    assert status == 0, output


def last_line(app, command="db upgrade"):
    """Return what a command says that fails in one line; the log may say others before."""
    status, output = flask(app, command)
    assert status == 1, output
    assert output.count("Error: ") == 1
    return output.splitlines()[-1]


def is_unfit(app, words):
    """Assert that a database which answers is refused by commands, readiness and the start."""
    assert words in last_line(app)
    failure(app.test_client().get("/readyz"), 503, "unavailable")
    with app.app_context(), pytest.raises(UnfitDatabase) as refusal:
        schema.refuse_unfit()
    assert words in str(refusal.value)


def walk(app):
    """Store and read names, times and bytes."""
    client = app.test_client()
    success(client.get("/readyz"))
    success(register(client, "Iris", firstName="\u0141ukasz", lastName="\U0001f393"), 201)
    body = {"email": "IRIS", "password": PASSWORD}
    headers = bearer(success(client.post("/api/auth/login", json=body))["accessToken"])
    body = {"username": "ILKER", "password": PASSWORD}
    success(client.put("/api/users/username", json=body, headers=headers))
    assert success(client.get("/api/users/profile", headers=headers))["firstName"] == "\u0141ukasz"
    person = {"username": "INCI", "email": "I@EXAMPLE.ORG", "firstName": "I", "lastName": "I"}
    assert "made: 1" in flask(app, "users import -", typed=json.dumps(person))[1]
    assert flask(app, "users list")[1].count("@example.org") == 2


@pytest.mark.parametrize("locale", ["tr_TR", "az_AZ"])
def test_usernames_have_the_same_lower_case_in_every_locale(server, open_app, locale):
    app = open_app(server.make(f"ENCODING 'UTF8' LOCALE '{server.locale(locale)}'"))
    upgrade(app)
    walk(app)


def test_school_moves_to_a_database_of_any_locale(server, run, client):
    success(register(client, "Iris"), 201)
    url = server.make(f"ENCODING 'UTF8' LOCALE '{server.locale('tr_TR')}'")
    output, status = run("db", "copy-to", "-", typed=url.render_as_string(hide_password=False))
    assert (status, "users: 1 copied" in output) == (0, True), output


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1", "WIN1254", "EUC_JP"])
def test_a_database_that_cannot_hold_every_name_is_refused(server, open_app, run, encoding):
    url = server.make(f"ENCODING '{encoding}' LOCALE 'C'")
    words = f"The database has the encoding {encoding}, and UTF8 is needed."
    is_unfit(open_app(url), words)
    output, status = run("db", "copy-to", "-", typed=url.render_as_string(hide_password=False))
    assert (status, words in output) == (1, True)


@pytest.mark.parametrize(
    "settings",
    [
        ["client_encoding = LATIN1", "DateStyle = 'German, DMY'"],
        ["client_encoding = SQL_ASCII", "DateStyle = 'SQL, DMY'"],
        [
            *("IntervalStyle = sql_standard", "TimeZone = '<x>-13:37'", "search_path = own"),
            *("standard_conforming_strings = off", "bytea_output = escape"),
            *("extra_float_digits = -15", "default_transaction_isolation = serializable"),
            *("transform_null_equals = on", "default_tablespace = none", "statement_timeout = 50"),
        ],
    ],
)
def test_no_setting_of_a_database_breaks_a_promise(server, open_app, settings):
    url = server.make()
    server.run(*(f"ALTER DATABASE {url.database} SET {each}" for each in settings))
    server.run("CREATE SCHEMA own", database=url.database)
    app = open_app(url)
    upgrade(app)
    walk(app)


def version(*revisions):
    rows = (f"INSERT INTO alembic_version VALUES ('{each}')" for each in revisions)
    return "CREATE TABLE alembic_version (version_num text)", *rows


@pytest.mark.parametrize(
    ("statements", "sign"),
    [
        (version("3f2a9c1d77be"), "revision 3f2a9c1d77be"),  # later than ours, as a text
        (version("000abc000abc"), "revision 000abc000abc"),  # earlier
        (version("9999"), "revision 9999"),  # of another application that counts
        (version("0001"), "revision 0001"),
        ((*version("1", "2"), "CREATE TABLE sessions ()"), "revision 1, 2"),
        ((*version("9999", "9998"), "CREATE TABLE sessions ()"), "revision 9999, 9998"),
        (("CREATE TABLE users ()",), "table users"),
        ((*version(), "CREATE TABLE groups ()"), "table groups"),
    ],
)
def test_a_database_of_another_application_is_refused(server, open_app, statements, sign):
    url = server.make()
    server.run(*statements, database=url.database)
    is_unfit(open_app(url), f"This database belongs to another application ({sign}).")


def test_a_role_without_its_rights_is_refused(server, open_app):
    url = server.make()
    upgrade(open_app(url))
    role = f"role_{url.database}"
    grant = f"GRANT {ALL} ON ALL TABLES IN SCHEMA public TO {role}"
    server.run(f"CREATE ROLE {role} LOGIN", grant, database=url.database)
    app = open_app(url.set(username=role))
    walk(app)
    for change, words in (
        ("REVOKE SELECT ON alembic_version FROM", "permission denied for table alembic_version."),
        ("REVOKE DELETE ON sessions FROM", "or the right to read or write: sessions."),
        ("REVOKE INSERT ON users, events FROM", "or the right to read or write: users, events."),
    ):
        server.run(f"{change} {role}", database=url.database)
        is_unfit(app, words)
        server.run(grant, database=url.database)
    server.run("DROP TABLE outbox", database=url.database)
    is_unfit(app, "These tables are missing, or the right to read or write: outbox.")


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("role = {role}", "permission denied for schema public."),
        ("search_path = none_such", "no schema has been selected to create in."),
        ("default_transaction_read_only = on", "cannot execute CREATE TABLE in a read-only"),
    ],
)
def test_a_role_that_cannot_make_tables_is_told_so(server, open_app, setting, words):
    url = server.make()
    role = f"role_{url.database}"
    server.run(
        f"CREATE ROLE {role}", f"ALTER DATABASE {url.database} SET {setting}".format(role=role)
    )
    app = open_app(url)
    assert words in last_line(app)
    failure(app.test_client().get("/readyz"), 503, "unavailable")


CAUSES = [
    ("?user=asked&password=secret", 'password authentication failed for user "asked"'),
    ("?user=nobody&password=secret", 'role "nobody" does not exist'),
    ("?dbname=none", 'database "none" does not exist'),
    ("?user=few", 'too many connections for role "few"'),
    ("?user=barred", 'pg_hba.conf rejects connection for host "[local]", user "barred"'),
    ("?options=-c%20nonsense%3D1", 'unrecognized configuration parameter "nonsense"'),
    ("?target_session_attrs=standby", "server is not in hot standby mode"),
    ("?target_session_attrs=nonsense", 'invalid target_session_attrs value: "nonsense"'),
    ("?sslmode=nonsense", 'invalid sslmode value: "nonsense"'),
    ("?host=/no/such/folder", 'socket "/no/such/folder/.s.PGSQL.5432" failed: No such file'),
    ("?host=none.invalid", "failed to resolve host 'none.invalid'"),
    ("?host=127.0.0.1&port=1", "port 1 failed: Connection refused"),
    ("?host=127.0.0.1,127.0.0.1&port=1,2", "port 2 failed: Connection refused"),
]


@pytest.fixture(scope="module")
def picky(server):
    """The URL of a server that refuses some roles."""
    server.run(
        "CREATE ROLE asked LOGIN PASSWORD 'another'",
        "CREATE ROLE few LOGIN CONNECTION LIMIT 0",
        "CREATE ROLE barred LOGIN",
    )
    server.allow("local all asked scram-sha-256", "local all barred reject", "local all all trust")
    return server.make()


@pytest.mark.parametrize(("options", "cause"), CAUSES)
def test_each_command_says_why_it_cannot_connect(picky, open_app, run, options, cause):
    given = parse_url(f"postgresql:///{picky.database}{options}")
    name = given.query.get("dbname", picky.database)
    url = picky.set(database=name, query={**picky.query, **given.query})
    app = open_app(url)
    for command in ("db upgrade", "users list", "prune"):
        line = last_line(app, command)
        assert line.startswith("Error: The database cannot be reached or used: "), line
        assert cause in line, line
    failure(app.test_client().get("/readyz"), 503, "unavailable")
    with app.app_context():
        schema.refuse_unfit()  # the service starts, and recovers
    output, status = run("db", "copy-to", "-", typed=url.render_as_string(hide_password=False))
    assert (status, cause in output, "secret" in output) == (1, True, False)


def test_a_row_that_is_refused_is_in_no_line(server, open_app):
    url = server.make()
    app = open_app(url)
    upgrade(app)
    server.run("ALTER TABLE users ADD CHECK (first_name <> 'Ada')", database=url.database)
    person = {"email": "ada@example.org", "firstName": "Ada", "lastName": "Secretly"}
    status, output = flask(app, "users import -", typed=json.dumps(person))
    assert status == 1
    assert output.splitlines()[-1] == (
        "Error: The database cannot be reached or used: new row for relation "
        '"users" violates check constraint "users_first_name_check".'
    )
    assert "ada@" not in output


def test_options_of_the_url_win_over_our_own(server, open_app):
    url = server.make()
    query = {"application_name": "mine", "options": "-c statement_timeout=5s -c datestyle=German"}
    app = open_app(url.update_query_dict(query))
    with app.app_context(), database.reading() as connection:
        names = ("application_name", "statement_timeout", "lock_timeout", "datestyle")
        found = [connection.scalar(text(f"SHOW {name}")) for name in names]
    assert found == ["mine", "5s", "1s", "ISO, DMY"]
    options = engines.options(url.update_query_dict({"connect_timeout": "15"}), 1)
    assert "connect_timeout" not in options["connect_args"]
    assert options["connect_args"]["keepalives_idle"] == 5


_BY_LOCALE = """
    SELECT t.relname || '.' || a.attname FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid
    JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = ANY(i.indkey)
    JOIN pg_collation k ON k.oid = a.attcollation AND k.collname = 'default'
    WHERE t.relnamespace = 'public'::regnamespace"""
# Of UUIDs, digests and words of one case, which every locale orders alike.
ALIKE = {"id", "user_id", "group_id", "session_id", "digest", "avatar_digest", "share_code", "role"}


def test_no_index_changes_with_the_locales_of_the_system(server, open_app):
    app = open_app(server.make())
    upgrade(app)
    with app.app_context(), database.reading() as connection:
        found = {*connection.scalars(text(_BY_LOCALE))}
    chosen = {f"{table}.id" for table in ("courses", "lessons", "achievements", "certificates")}
    assert {name.split(".")[1] for name in found - {"alembic_version.version_num"}} <= ALIKE
    assert chosen.isdisjoint(found)
