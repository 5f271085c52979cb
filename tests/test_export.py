"""The copy of a user's own data."""

import base64
import io
import json

import pytest
from endpoints import UNKNOWN_ID
from helpers import Log, bearer, failure, on_one_database, success
from PIL import Image
from sqlalchemy import update

from core.clock import rfc3339, utcnow
from database import transaction
from extensions import db
from models import EmailChange, User

# Every column of every table that names a user: where it is in the export, or why it is not.
WHERE = {
    "users.id": "account.id",
    "users.username": "account.username",
    "users.username_key": "derived from the username",
    "users.email": "account.email",
    "users.first_name": "account.firstName",
    "users.last_name": "account.lastName",
    "users.password_hash": "a secret, of use to a thief only",
    "users.password_version": "a counter that says nothing about the user",
    "users.role": "account.role",
    "users.is_active": "account.isActive",
    "users.email_verified_at": "account.emailVerifiedAt",
    "users.created_at": "account.joinDate",
    "users.last_login_at": "account.lastLogin",
    "users.bio": "account.bio",
    "users.location": "account.location",
    "users.website": "account.website",
    "users.avatar_digest": "account.avatar",
    "users.search_key": "derived from the names and the e-mail address",
    "users.theme": "settings.theme",
    "users.language": "settings.language",
    "users.timezone": "settings.timezone",
    "users.email_notifications": "settings.emailNotifications",
    "users.push_notifications": "settings.pushNotifications",
    "users.profile_visible": "settings.privacy.profileVisible",
    "users.progress_visible": "settings.privacy.progressVisible",
    "sessions.id": "sessions.0.id",
    "sessions.user_id": "the account's id",
    "sessions.created_at": "sessions.0.createdAt",
    "sessions.last_used_at": "sessions.0.lastUsedAt",
    "sessions.expires_at": "sessions.0.expiresAt",
    "sessions.access_expires_at": "a detail of the tokens that says nothing about the user",
    "sessions.refresh_token_id": "a part of a token",
    "sessions.previous_token_id": "a part of a token",
    "sessions.user_agent": "sessions.0.userAgent",
    "sessions.ip_address": "sessions.0.ipAddress",
    "pending_emails.user_id": "the account's id",
    "pending_emails.id": "what the code is made of",
    "pending_emails.new_email": "pendingEmail",
    "pending_emails.expires_at": "in GET /api/users/email",
    "pending_emails.tries": "a counter that says nothing about the user",
    "email_changes.number": "a counter that says nothing about the user",
    "email_changes.id": "what the link that undoes the change is made of",
    "email_changes.user_id": "the account's id",
    "email_changes.old_email": "emailChanges.0.oldEmail",
    "email_changes.changed_at": "emailChanges.0.changedAt",
    "avatars.user_id": "the account's id",
    "avatars.picture": "avatar.data",
    "courses.user_id": "the account's id",
    "courses.id": "courses.0.id",
    "courses.name": "courses.0.name",
    "courses.lessons": "courses.0.lessons",
    "lessons.user_id": "the account's id",
    "lessons.course_id": "courses.0.completedLessons.0.courseId",
    "lessons.id": "courses.0.completedLessons.0.id",
    "lessons.completed_at": "courses.0.completedLessons.0.completedAt",
    "lessons.minutes": "courses.0.completedLessons.0.minutes",
    "achievements.user_id": "the account's id",
    "achievements.id": "achievements.0.id",
    "achievements.name": "achievements.0.name",
    "achievements.earned_at": "achievements.0.earnedAt",
    "certificates.user_id": "the account's id",
    "certificates.id": "certificates.0.id",
    "certificates.course_id": "certificates.0.courseId",
    "certificates.course_name": "certificates.0.courseName",
    "certificates.issued_at": "certificates.0.issuedAt",
    "certificates.expires_at": "certificates.0.expiresAt",
    "certificates.credential_url": "certificates.0.credentialUrl",
}
# A waiting mail is gone within a day; the others name nobody.
NO_USERS = {"outbox", "denylist", "counters", "service_keys"}


@pytest.fixture
def pupil(app, client, make_user, make_key, log_in):
    """A user with something in every table, logged in."""
    user = make_user("pupil")
    session, key = log_in(user), bearer(make_key("learning:write"))
    for path, body in [
        ("courses/c", {"name": "Course", "lessons": 2}),
        ("courses/c/lessons/l", {"minutes": 7}),
        ("courses/d", {"name": "Other course", "lessons": 1}),
        ("courses/d/lessons/l", {"minutes": 9}),
        ("achievements/a", {"name": "Achievement"}),
        ("certificates/d", {"courseId": "c", "courseName": "Course"}),
    ]:
        success(client.put(f"/api/users/{user.id}/{path}", json=body, headers=key), 201)
    picture = io.BytesIO()
    Image.new("RGB", (8, 8)).save(picture, "PNG")
    data = {"avatar": (io.BytesIO(picture.getvalue()), "a.png")}
    success(client.post("/api/users/avatar", data=data, headers=session.headers))
    change = {"id": UNKNOWN_ID, "user_id": user.id, "old_email": "old@example.org"}
    with app.app_context(), transaction() as changes:
        changes.add(EmailChange(**change, changed_at=utcnow()))
    body = {"newEmail": "new@example.org", "password": user.password}
    success(client.post("/api/users/email", json=body, headers=session.headers))
    return {"user": user, "headers": session.headers}


def value_at(content, path):
    for name in path.split("."):
        content = content[int(name) if name.isdigit() else name]
    return content


def test_every_column_is_exported_or_left_out_for_a_reason(client, pupil):
    columns = {
        str(column)
        for table in db.metadata.sorted_tables
        if table.name not in NO_USERS
        for column in table.columns
    }
    assert columns == WHERE.keys()
    data = success(client.get("/api/users/export", headers=pupil["headers"]))
    for where in WHERE.values():
        if " " not in where:
            value_at(data, where)


def test_export_is_a_file_with_all_that_was_stored(client, pupil, clock):
    log = Log()
    response = client.get("/api/users/export", headers=pupil["headers"])
    assert f"data_exported user={pupil['user'].id}" in log.text()
    assert response.headers["Content-Disposition"] == 'attachment; filename="account.json"'
    assert response.headers["Cache-Control"] == "no-store"
    data = success(response)
    assert data["account"]["email"] == "pupil@example.org"
    profile = success(client.get("/api/users/profile", headers=pupil["headers"]))
    assert data["account"] == {**profile, "emailVerifiedAt": None}
    assert data["settings"] == success(client.get("/api/users/settings", headers=pupil["headers"]))
    picture = Image.open(io.BytesIO(base64.b64decode(data["avatar"]["data"])))
    assert (data["avatar"]["mediaType"], picture.format) == ("image/webp", "WEBP")
    assert [each["current"] for each in data["sessions"]] == [True]
    courses = [(course["name"], course["lessons"]) for course in data["courses"]]
    assert courses == [("Course", 2), ("Other course", 1)]
    done = [[lesson["minutes"] for lesson in each["completedLessons"]] for each in data["courses"]]
    assert done == [[7], [9]]
    assert data["exportedAt"][:10] == rfc3339(clock.utcnow())[:10]


def test_export_holds_nothing_of_anybody_else(client, pupil, make_user, log_in):
    other = make_user("somebody-else")
    headers = log_in(other).headers
    data = success(client.get("/api/users/export", headers=headers))
    assert pupil["user"].id not in json.dumps(data)
    assert (data["avatar"], data["courses"], data["certificates"]) == (None, [], [])
    text = client.get("/api/users/export", headers=pupil["headers"]).text
    assert other.id not in text
    assert other.username not in text


def test_command_prints_the_same(client, pupil, run):
    log = Log()
    printed, code = run("users", "export", "pupil")
    assert code == 0
    assert f"data_exported user={pupil['user'].id}" in log.text()
    exported = json.loads(printed[printed.index("{\n") :])
    data = success(client.get("/api/users/export", headers=pupil["headers"]))
    for content in (exported, data):
        del content["exportedAt"]
    data["sessions"][0]["current"] = False
    assert exported == data
    assert run("users", "export", "nobody")[1] == 1


@on_one_database
def test_eleventh_export_of_an_hour_is_refused(make_app, auth):
    client = make_app(ratelimit_enabled=True).test_client()
    for _ in range(10):
        success(client.get("/api/users/export", headers=auth.headers))
    with client.application.app_context(), transaction() as changes:
        # The count must outlive a change of the e-mail address.
        changes.execute(update(User).values(email="moved@example.org"))
    failure(client.get("/api/users/export", headers=auth.headers), 429, "too_many_requests")
