"""Migrations: they make what the models say, on both databases, and no way leads back."""

import shutil

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from helpers import failure
from real_service import SECRET
from sqlalchemy import CheckConstraint, MetaData, Table, create_engine, insert, inspect, text
from sqlalchemy.exc import DataError, IntegrityError

import database
from app import create_app
from config import Settings
from core import clock
from database import schema
from database.schema import MIGRATIONS
from extensions import Base, db
from models import Achievement, Avatar, Certificate, Course, Group, Lesson, Membership, User

USER = {"username": "Student", "username_key": "student", "email": "student@example.org"}
USER |= {"first_name": "First", "last_name": "Last", "password_hash": "$"}


@pytest.fixture
def app(new_database):
    """An application whose database has no tables yet."""
    app = create_app(Settings(database_url=new_database, secret_key=SECRET))
    yield app
    with app.app_context():
        db.engine.dispose()


@pytest.fixture
def engine(new_database):
    """A way to the same database that is not the application's."""
    engine = create_engine(new_database)
    yield engine
    engine.dispose()


def differences(connection):
    context = MigrationContext.configure(connection, opts={"compare_type": True})
    return list(compare_metadata(context, Base.metadata))


def test_migrations_make_what_the_models_say(app, engine):
    with app.app_context():
        schema.upgrade()
    with engine.connect() as connection:
        assert differences(connection) == []
        found = inspect(connection)
        for place, name in (("counters", "key"), ("users", "search_key")):
            (key,) = (c["type"] for c in found.get_columns(place) if c["name"] == name)
            assert key.collation == ("C" if engine.dialect.name == "postgresql" else None)
        # Alembic does not compare these.
        checks = {
            (table, str(check["name"]))
            for table in Base.metadata.tables
            for check in found.get_check_constraints(table)
        }
        keys = {
            key["name"]: key["options"]
            for table in Base.metadata.tables
            for key in found.get_foreign_keys(table)
        }
    assert checks == {
        (table.name, str(constraint.name))
        for table in Base.metadata.tables.values()
        for constraint in table.constraints
        if isinstance(constraint, CheckConstraint)
    }
    assert keys == {
        str(key.name): {"ondelete": key.ondelete}
        for table in Base.metadata.tables.values()
        for key in table.foreign_key_constraints
    }


def test_database_of_before_the_first_release_is_told_what_to_do(app, engine):
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32))"))
        connection.execute(text("INSERT INTO alembic_version VALUES ('0013')"))
        connection.execute(text("CREATE TABLE sessions (id TEXT)"))
    result = app.test_cli_runner().invoke(args=["db", "upgrade"])
    assert result.exit_code == 1
    (line,) = result.output.splitlines()
    assert "`flask users dump --with-hashes > accounts.jsonl`" in line
    failure(app.test_client().get("/readyz"), 503, "unavailable")
    assert sorted(inspect(engine).get_table_names()) == ["alembic_version", "sessions"]


def test_a_migration_is_written_to_what_the_models_say(app, engine, tmp_path, monkeypatch):
    copy = shutil.copytree(MIGRATIONS, tmp_path / "100%")
    monkeypatch.setattr(schema, "MIGRATIONS", copy)
    (first,) = copy.glob("versions/*_all_tables.py")
    column = '        sa.Column("revoked_at", seconds),\n'
    assert column in first.read_text()
    first.write_text(first.read_text().replace(column, ""))
    result = app.test_cli_runner().invoke(args=["db", "migrate", "-m", "time of revocation"])
    assert result.exit_code == 0, result.output
    following = f"{int(schema.NEWEST) + 1:04}_time_of_revocation.py"
    added = "op.add_column('certificates', sa.Column('revoked_at', sa.BigInteger(), nullable=True))"
    assert added in (copy / "versions" / following).read_text()
    with app.app_context():
        schema.upgrade()
    with engine.connect() as connection:
        assert differences(connection) == []


def test_search_keys_are_made_anew(app, engine):
    with app.app_context():
        schema.run_alembic("upgrade", schema.OLDEST)
    names = {"a": ("\u0141ukasz", "D\u2019Arcy"), "b": ("Ada", "Park"), "c": ("J\u00f6rg", "Lee")}
    many = {f"{number:04}": ("\u00d8", "Plain") for number in range(1_100)}
    usual = {"role": "student", "is_active": True, "password_version": 1}
    usual |= {"created_at": clock.utcnow(), "search_key": "old"}
    with engine.begin() as connection:
        users = Table("users", MetaData(), autoload_with=connection)
        for name, (first, last) in (names | many).items():
            user = {"username": f"u-{name}", "username_key": f"u-{name}", "email": f"{name}@a.org"}
            user |= {"id": name, "first_name": first, "last_name": last}
            connection.execute(insert(users), USER | usual | user)
    with app.app_context():
        schema.upgrade()
    with engine.connect() as connection:
        found = dict(connection.execute(text("SELECT id, search_key FROM users")).all())
    assert found.pop("a") == "d'arcy\nlukasz\nu-a\na@a.org\ndarcy\nlukasz"
    assert found.pop("b") == "park\nada\nu-b\nb@a.org"
    assert found.pop("c") == "lee\njorg\nu-c\nc@a.org\nlee\njoerg"
    assert found.keys() == many.keys()
    assert {key.split("\n")[1] for key in found.values()} == {"o"}


def test_the_newest_revision_has_the_highest_number_and_the_oldest_is_the_first_release():
    scripts = ScriptDirectory(MIGRATIONS)
    assert scripts.get_heads() == [schema.NEWEST]
    assert scripts.get_bases() == [schema.OLDEST]


BAD_ROWS = [
    (User, {"username": "ab", "username_key": "ab"}, "ck_users_username_length"),
    (User, {"username_key": "Student"}, "ck_users_username_key"),
    (User, {"username_key": "other"}, "ck_users_username_key"),
    (User, {"email": "Student@example.org"}, "ck_users_email_lower_case"),
    (User, {"first_name": ""}, "ck_users_first_name_length"),
    (User, {"last_name": ""}, "ck_users_last_name_length"),
    (User, {"role": "root"}, "ck_users_role"),
    (User, {"bio": "b" * 501}, "ck_users_bio_length|character varying"),
    (User, {"location": "l" * 101}, "ck_users_location_length|character varying"),
    (User, {"website": "w" * 201}, "ck_users_website_length|character varying"),
    (User, {"theme": "blue"}, "ck_users_theme"),
    (User, {"external_id": ""}, "ck_users_external_id_length"),
    (Group, {"name": ""}, "ck_groups_name_length"),
    (Membership, {"user_id": "nobody"}, "(?i)foreign key"),
    (Membership, {"group_id": "none"}, "(?i)foreign key"),
    (Course, {"lessons": 0}, "ck_courses_lessons"),
    (Course, {"lessons": 10_001}, "ck_courses_lessons"),
    (Course, {"name": ""}, "ck_courses_name_length"),
    (Course, {"id": ""}, "ck_courses_id_length"),
    (Course, {"user_id": "nobody"}, "(?i)foreign key"),
    (Lesson, {"name": "n" * 201}, "ck_lessons_name_length|character varying"),
    (Lesson, {"minutes": -1}, "ck_lessons_minutes"),
    (Lesson, {"minutes": 1441}, "ck_lessons_minutes"),
    (Lesson, {"course_id": "other"}, "(?i)foreign key"),
    (Achievement, {"name": ""}, "ck_achievements_name_length"),
    (Achievement, {"user_id": "nobody"}, "(?i)foreign key"),
    (Certificate, {"course_id": ""}, "ck_certificates_course_id_length"),
    (Certificate, {"course_name": ""}, "ck_certificates_course_name_length"),
    (Certificate, {"user_id": "nobody"}, "(?i)foreign key"),
    (Avatar, {"user_id": "nobody"}, "(?i)foreign key"),
]


@pytest.mark.asvs("2.2.1", "2.2.2")
def test_database_refuses_a_bad_row(app):
    moment = clock.utcnow()
    certificate = {"course_id": "c", "course_name": "C", "credential_url": "", "holder": "H"}
    good = {
        User: USER | {"id": "u"},
        Group: {"id": "g", "name": "G"},
        Membership: {"group_id": "g", "user_id": "u"},
        Course: {"id": "c", "user_id": "u", "name": "C", "lessons": 1},
        Lesson: {"id": "l", "user_id": "u", "course_id": "c", "completed_at": moment, "minutes": 0},
        Achievement: {"id": "a", "user_id": "u", "name": "A", "earned_at": moment},
        Certificate: {"id": "d", "user_id": "u", "issued_at": moment, **certificate},
        Avatar: {"user_id": "u", "picture": b"x"},
    }
    others = {"id": "other", "username": "New", "username_key": "new", "email": "o@example.org"}
    with app.app_context():
        schema.upgrade()
        with database.transaction() as work:
            for table, values in good.items():
                work.execute(insert(table), values)
        for table, changes, constraint in BAD_ROWS:
            bad = good[table] | {name: others[name] for name in others if name in good[table]}
            with (
                # Postgres knows how long a text may be by its type alone.
                pytest.raises((IntegrityError, DataError), match=constraint),
                database.transaction() as work,
            ):
                work.execute(insert(table), bad | changes)


def test_no_migration_copies_a_table():
    # On SQLite, that drops the old table, and the rows that refer to it are deleted with it.
    for path in (MIGRATIONS / "versions").glob("*.py"):
        assert "batch" not in path.read_text(), path.name
