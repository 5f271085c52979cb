"""The copy of a user's own data."""

import base64
import io
import json

import pytest
from endpoints import UNKNOWN_ID
from helpers import (
    Log,
    bearer,
    execute,
    failure,
    on_both,
    picture,
    picture_form,
    rows,
    set_user,
    success,
)
from passkey_device import Device, add
from PIL import Image
from sqlalchemy import delete

from core.clock import rfc3339
from extensions import db
from models import Event
from schemas import camel_case

# Every column of every table that names a user: the fields of the export, which have the names of
# the columns below a path, ...
EXPORTED = {
    "account": "users: id username email first_name last_name role is_active email_verified_at "
    "identity external_id bio location website custom_fields",
    "settings": "users: theme language timezone email_notifications push_notifications",
    "settings.privacy": "users: profile_visible progress_visible",
    "sessions.0": "sessions: id created_at last_used_at expires_at user_agent ip_address",
    "courses.0": "courses: id name lessons",
    "courses.0.completedLessons.0": "lessons: course_id id name completed_at minutes",
    "achievements.0": "achievements: id name earned_at",
    "passkeys.0": "passkeys: id credential_id name created_at last_used_at",
    "events.0": "events: id type ip_address details",
    "certificates.0": "certificates: id course_id course_name issued_at expires_at credential_url "
    "holder revoked_at",
}
# ... or other names, ...
RENAMED = {
    "users.created_at": "account.joinDate",
    "users.last_login_at": "account.lastLogin",
    "events.created_at": "events.0.at",
    "events.by": "events.0.by",
    "users.second_factor_at": "secondFactor.since",
    "second_factors.confirmed_at": "secondFactor.since",
    "users.avatar_digest": "account.avatar",
    "pending_emails.new_email": "pendingEmail",
    "avatars.picture": "avatar.data",
    "certificates.share_code": "certificates.0.verifyUrl",
    "groups.name": "groups.0",
}
# ... or why they are not in it.
LEFT_OUT = {
    "a random number": "groups.id memberships.group_id",
    "derived from others": "users.username_key users.search_key",
    "a secret, of use to a thief only": "users.password_hash second_factors.sealed",
    "of use to the service only": "passkeys.public_key",
    "a part of a token, of a code or of a link": "sessions.refresh_token_id "
    "sessions.previous_token_id pending_emails.id",
    "a counter that says nothing about the user": "users.password_version users.changed "
    "pending_emails.tries "
    "second_factors.wrong_codes second_factors.window_ends_at "
    "second_factors.last_step second_factors.generation",
    "told by an event, `unused_warned`": "users.warned_at",
    "in GET /api/auth/second-factor": "second_factors.unused",
    "another time of the factor": "second_factors.created_at",
    "in GET /api/users/email": "pending_emails.expires_at",
    "the account's id": "sessions.user_id second_factors.user_id pending_emails.user_id "
    "avatars.user_id courses.user_id lessons.user_id achievements.user_id certificates.user_id "
    "memberships.user_id events.user_id passkeys.user_id",
}
# A waiting mail is gone within a day; the others name nobody.
NO_USERS = {"outbox", "denylist", "counters", "service_keys", "last_change", "deletions"}


@pytest.fixture
def pupil(app, client, make_user, make_key, log_in):
    """A user with something in every table, logged in."""
    user = make_user("pupil")
    session, key = log_in(user), bearer(make_key("learning:write", "groups:write"))
    for path, body in [
        ("courses/c", {"name": "Course", "lessons": 2}),
        ("courses/c/lessons/l", {"minutes": 7}),
        ("courses/d", {"name": "Other course", "lessons": 1}),
        ("courses/d/lessons/l", {"minutes": 9}),
        ("achievements/a", {"name": "Achievement"}),
        ("certificates/d", {"courseId": "c", "courseName": "Course"}),
    ]:
        success(client.put(f"/api/users/{user.id}/{path}", json=body, headers=key), 201)
    group = f"/api/groups/{UNKNOWN_ID}"
    success(client.put(group, json={"name": "7b"}, headers=key), 201)
    success(client.put(f"{group}/members/{user.id}", headers=key))
    success(client.post("/api/users/avatar", data=picture_form(picture()), headers=session.headers))
    body = {"newEmail": "new@example.org", "password": user.password}
    success(client.post("/api/users/email", json=body, headers=session.headers))
    add(client, session, Device())
    return {"user": user, "headers": session.headers}


def value_at(content, path):
    for name in path.split("."):
        content = content[int(name) if name.isdigit() else name]
    return content


@on_both
def test_every_column_is_exported_or_left_out_for_a_reason(client, pupil):
    columns = {
        str(column)
        for table in db.metadata.sorted_tables
        if table.name not in NO_USERS
        for column in table.columns
    }
    where = dict(RENAMED)
    for path, names in EXPORTED.items():
        table, *fields = names.split()
        where |= {f"{table[:-1]}.{name}": f"{path}.{camel_case(name)}" for name in fields}
    assert columns == where.keys() | {name for names in LEFT_OUT.values() for name in names.split()}
    data = success(client.get("/api/users/export", headers=pupil["headers"]))
    for path in where.values():
        value_at(data, path)


@pytest.mark.asvs("14.2.2", "14.2.3")
@on_both
def test_export_is_a_file_with_all_that_was_stored(client, pupil, clock):
    log = Log()
    response = client.get("/api/users/export", headers=pupil["headers"])
    assert f"data_exported user={pupil['user'].id}" in log.text()
    assert response.headers["Content-Disposition"] == 'attachment; filename="account.json"'
    assert response.headers["Cache-Control"] == "no-store"
    data = success(response)
    assert data["account"]["email"] == "pupil@example.org"
    profile = success(client.get("/api/users/profile", headers=pupil["headers"]))
    assert data["account"] == profile | {
        "emailVerifiedAt": None,
        "identity": None,
        "externalId": "",
    }
    assert data["settings"] == success(client.get("/api/users/settings", headers=pupil["headers"]))
    avatar = Image.open(io.BytesIO(base64.b64decode(data["avatar"]["data"])))
    assert (data["avatar"]["mediaType"], avatar.format) == ("image/webp", "WEBP")
    assert [each["current"] for each in data["sessions"]] == [True]
    courses = [(course["name"], course["lessons"]) for course in data["courses"]]
    assert courses == [("Course", 2), ("Other course", 1)]
    done = [[lesson["minutes"] for lesson in each["completedLessons"]] for each in data["courses"]]
    assert done == [[7], [9]]
    assert data["groups"] == ["7b"]
    assert data["exportedAt"][:10] == rfc3339(clock.utcnow())[:10]


def test_an_admin_saves_what_the_person_would_get(app, client, pupil, admin, make_key, make_user):
    """But for the session that asks; and the person's own exports are not counted for it."""
    user, log = pupil["user"], Log()
    path = f"/api/users/{user.id}/export"
    own = success(client.get("/api/users/export", headers=pupil["headers"]))
    execute(app, delete(Event).where(Event.type == "data_exported"))
    response = client.get(path, headers=admin.headers)
    assert response.headers["Content-Disposition"] == 'attachment; filename="account.json"'
    seen = success(response)
    others = [{**each, "current": False} for each in own["sessions"]]
    assert seen == {**own, "sessions": others, "exportedAt": seen["exportedAt"]}
    assert f"data_exported user={user.id} by={admin.id}" in log.text()
    (event,) = rows(app, Event, type="data_exported")
    assert (event.user_id, event.by, event.ip_address) == (user.id, admin.id, "")
    set_user(app, user, is_active=False, role="admin")
    assert success(client.get(path, headers=admin.headers))["account"]["isActive"] is False
    assert client.head(path, headers=admin.headers).status_code == 405
    unknown = f"/api/users/{UNKNOWN_ID}/export"
    failure(client.get(unknown, headers=admin.headers), 404, "user_not_found")


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
    assert data["events"].pop(0)["by"] == "machine"  # of the command itself
    assert exported == data
    assert run("users", "export", "nobody")[1] == 1
