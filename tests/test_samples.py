"""`flask users fake`: sample accounts, so that a new installation has something to show."""

import re

import pytest
from helpers import bearer, login, registration, rows, success

from app import create_app
from config import Settings
from extensions import db
from models import Certificate, Course, Lesson, User


@pytest.fixture
def embedded_app(tmp_path):
    app = create_app(Settings(bcrypt_rounds=4), instance_path=tmp_path)
    yield app
    with app.app_context():
        db.engine.dispose()


def fake(app, number):
    """Return the first and last e-mail address, and the password."""
    result = app.test_cli_runner().invoke(args=["users", "fake", str(number)])
    assert result.exit_code == 0, result.output
    text = r"Password of the new accounts: (\S+)\nLog in as (\S+) to (\S+)\n"
    password, first, last = re.fullmatch(text, result.output).groups()
    return first, last, password


def test_samples_have_learning_records_that_the_service_shows(embedded_app):
    client = embedded_app.test_client()
    first, last, password = fake(embedded_app, 20)
    assert (first, last) == ("student-0001@example.org", "student-0020@example.org")
    users = rows(embedded_app, User)
    assert len(users) == 20
    assert all(user.email_verified_at and user.role == "student" for user in users)
    assert {row.user_id for row in rows(embedded_app, Course)} == {user.id for user in users}

    certificate = rows(embedded_app, Certificate)[0]  # of a completed course
    (user,) = (user for user in users if user.id == certificate.user_id)
    headers = bearer(success(login(client, user, password))["accessToken"])
    progress = success(client.get("/api/users/progress", headers=headers))
    assert progress["totalCourses"] == len(rows(embedded_app, Course, user_id=user.id))
    assert progress["completedLessons"] == len(rows(embedded_app, Lesson, user_id=user.id)) > 0
    assert progress["completedCourses"] == len(progress["achievements"]) > 0
    shown = success(client.get("/api/users/certificates", headers=headers))["certificates"]
    assert len(shown) == progress["completedCourses"]


def test_second_run_continues_and_skips_what_is_taken(embedded_app):
    client = embedded_app.test_client()
    body = registration("Student-0002", email="student-0004@example.org")
    success(client.post("/api/auth/register", json=body), 201)
    first, last, old_password = fake(embedded_app, 3)
    assert (first, last) == ("student-0001@example.org", "student-0005@example.org")
    other, _, password = fake(embedded_app, 1)
    assert other == "student-0006@example.org"
    assert len(rows(embedded_app, User)) == 1 + 3 + 1
    assert password != old_password
    success(login(client, first, old_password))
    success(login(client, other, password))


@pytest.mark.parametrize(("number", "code"), [("5", 1), ("0", 2), ("many", 2)])
def test_samples_need_a_number_and_the_embedded_database(app, run, number, code):
    output, exit_code = run("users", "fake", number)
    assert exit_code == code
    assert ("embedded database, but DATABASE_URL is set" in output) == (code == 1)
    assert rows(app, User) == []
