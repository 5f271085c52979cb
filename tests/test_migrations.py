"""Migrations: they make what the models say, on both databases, and no way leads back."""

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from real_service import SECRET
from sqlalchemy import (
    CheckConstraint,
    column,
    create_engine,
    insert,
    inspect,
    select,
    table,
    text,
)
from sqlalchemy.exc import DataError, IntegrityError

import database
from app import create_app
from config import Settings
from core import clock
from extensions import Base, db
from models import (
    Achievement,
    Avatar,
    Certificate,
    Course,
    Group,
    Lesson,
    Membership,
    User,
    UserSession,
)

USER = {
    "username": "Student",
    "username_key": "student",
    "email": "student@example.org",
    "first_name": "First",
    "last_name": "Last",
    "password_hash": "$",
}


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
    database.upgrade(app)
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


def upgrade_to(app, revision):
    with app.app_context():
        command.upgrade(database.enable_migrations(app).get_config(), revision)


def test_database_that_has_the_table_of_old_addresses_loses_it(app, engine):
    upgrade_to(app, "0008")
    with engine.begin() as connection:
        columns = "id VARCHAR(36) PRIMARY KEY, user_id VARCHAR(36) REFERENCES users (id)"
        connection.execute(text(f"CREATE TABLE email_changes ({columns})"))
    database.upgrade(app)
    with engine.connect() as connection:
        assert differences(connection) == []


def test_upgrade_gives_each_certificate_the_name_of_its_user(app, engine):
    upgrade_to(app, "0007")
    with engine.begin() as connection:
        for user in ("ada", "bob"):
            names = {"username": user, "username_key": user, "email": user, "last_name": user}
            connection.execute(insert(User), USER | names | {"id": user})
            values = {"user_id": user, "id": "c", "course_id": "c", "course_name": "C"}
            values |= {"issued_at": clock.utcnow(), "credential_url": ""}
            connection.execute(insert(Certificate), values)  # as the version before does
    database.upgrade(app)
    with engine.connect() as connection:
        holders = connection.execute(select(Certificate.user_id, Certificate.holder))
        assert {(user, holder) for user, holder in holders} == {
            ("ada", "First ada"),
            ("bob", "First bob"),
        }


def test_upgrade_lets_searches_find_names_without_accents_and_the_last_one_first(app, engine):
    upgrade_to(app, "0011")
    with engine.begin() as connection:
        names = {"first_name": "Zoë", "last_name": "Ångström", "search_key": "as before"}
        row = USER | names | {"id": "zoe", "role": "student", "is_active": True}
        row |= {"password_version": 1, "theme": "dark", "created_at": clock.utcnow()}
        old = table("users", *(column(name) for name in row))
        connection.execute(insert(old).values(row))
    database.upgrade(app)
    with engine.connect() as connection:
        key = connection.scalar(select(User.search_key))
        assert key == "angstrom\nzoe\nstudent\nstudent@example.org"


def test_processes_of_version_1_0_deny_sessions_for_long_enough_during_an_upgrade(app, engine):
    upgrade_to(app, "0005")
    now = clock.utcnow()
    session = {"user_id": "ada", "created_at": now, "last_used_at": now, "expires_at": now}
    session |= {"refresh_token_id": "x", "user_agent": "", "ip_address": ""}
    with engine.begin() as connection:
        connection.execute(insert(User), USER | {"id": "ada"})
        before = session | {"id": "before", "access_expires_at": now}
        connection.execute(insert(UserSession), before)
    database.upgrade(app)
    with engine.begin() as connection:
        connection.execute(insert(UserSession), session | {"id": "after"})
        denied_until = connection.scalars(select(UserSession.access_expires_at)).all()
    assert len(denied_until) == 2
    assert min(denied_until).year == 9999


def test_there_is_one_newest_revision_and_the_code_names_it(app):
    with app.app_context():
        scripts = ScriptDirectory.from_config(database.enable_migrations(app).get_config())
    assert scripts.get_heads() == [database.SCHEMA_REVISION]
    assert len(scripts.get_bases()) == 1


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
    database.upgrade(app)
    moment = clock.utcnow()
    good = {
        User: USER | {"id": "u"},
        Group: {"id": "g", "name": "G"},
        Membership: {"group_id": "g", "user_id": "u"},
        Course: {"id": "c", "user_id": "u", "name": "C", "lessons": 1},
        Lesson: {"id": "l", "user_id": "u", "course_id": "c", "completed_at": moment, "minutes": 0},
        Achievement: {"id": "a", "user_id": "u", "name": "A", "earned_at": moment},
        Certificate: {
            "id": "d",
            "user_id": "u",
            "course_id": "c",
            "course_name": "C",
            "issued_at": moment,
            "credential_url": "",
        },
        Avatar: {"user_id": "u", "picture": b"x"},
    }
    others = {"id": "other", "username": "New", "username_key": "new", "email": "o@example.org"}
    with app.app_context():
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
    for path in (database.MIGRATIONS / "versions").glob("*.py"):
        assert "batch" not in path.read_text(), path.name
