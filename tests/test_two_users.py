"""What is done to one user leaves every row of the others as it was, and no answer shows theirs.

All users have a row in every table, alike as far as the constraints allow: the same ids of records,
the same times, the same counts; only texts and minutes tell whose they are. A statement that
forgets whose rows it means finds theirs too.
"""

import functools
import itertools
import json
import re
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import applications
import pytest
from authenticator import Authenticator
from endpoints import API, UNKNOWN_ID
from helpers import (
    NEW_PASSWORD,
    PASSWORD,
    SECRET,
    bearer,
    execute,
    on_both,
    on_both_slowly,
    on_postgres,
    picture,
    picture_form,
    rows,
    set_user,
    success,
)
from passkey_device import Device, ask, begin
from sqlalchemy import LargeBinary, String, Text, cast, delete, event, insert, select, update
from test_copies import contents

import models
from cli.users import users
from config.custom_fields import CustomField
from core import codes, passwords, totp
from core.passkeys import RelyingParty
from core.scopes import Scope
from database import insert_into, reading, transaction
from extensions import components, db
from services import links, recovery, sessions
from services.letters import MailKind
from services.second_factor import LOCK_AT, WARN_AT
from web.limits import GUESSES, call_within

SEED = bytes(range(totp.SEED))
HERE = RelyingParty("school.test", ("https://school.test",))
CUSTOM_FIELDS = (CustomField(name="phone", written_by="user"),)


class Act(NamedTuple):
    """What somebody does to user `one`: a call, or a command of `flask users`; `facts` fills it.

    The second factor of `one` is confirmed, or waiting for its first code, or there is none. The
    history and the log have the events that it leaves, in the order of the alphabet, and the log
    alone has those that it `logs`.
    """

    by: str
    what: str
    body: dict[str, Any] = {}
    factor: str = "confirmed"
    refused: bool = False
    leaves: str = ""
    logs: str = ""


Refused = functools.partial(Act, refused=True)
KNOWN, NO_PASSWORD = {"password": PASSWORD}, {"password": "wrong"}
SURE, NO_CODE = {**KNOWN, "secondFactor": "{digits}"}, {**KNOWN, "secondFactor": "{wrong}"}
SPARE = {**KNOWN, "email": "{email}", "secondFactor": "{unused}"}
ASKED = {"request": "{request}"}
LINKED = {"provider": "linked", "secondFactor": "{digits}"}
LINKS = {"provider": "links", "email": "one", **SURE}
CURRENT = {"currentPassword": PASSWORD, "secondFactor": "{digits}"}
COURSE, NEW_COURSE = {"courseId": "new", "courseName": "New"}, {"name": "New", "lessons": 9}
NEW_EMAIL, NEW_ADDRESS = {"email": "new@example.org"}, {"newEmail": "new@example.org"}
DELETION = {"confirmation": "DELETE_MY_ACCOUNT"}
NEWCOMER = {**NEW_EMAIL, "username": "New", "firstName": "First", "lastName": "Last"}
CHOICE, NEW_NAME = {"newPassword": NEW_PASSWORD}, {"username": "NewName"}
PROOF, MISTAKE = {"token": "{proof}", **KNOWN}, {**CHOICE, "currentPassword": "wrong"}
BY_LINK, BY_CODE = {**CHOICE, "token": "{token}"}, {**CHOICE, "account": "one", "code": "{code}"}
LINK, MAIL, REPLACE = {"deliver": "link"}, {"deliver": "mail"}, {"replacePassword": True}
SET, OF_ONE = {"ids": ["{userId}"]}, {"userId": "{userId}", "id": "same"}
LIST = {"people": [{"externalId": "one's", "firstName": "Other", "language": "de"}]}
LESSON = {**OF_ONE, "courseId": "same", "minutes": 9}
RENAMED = {**NEW_NAME, "firstName": "Other", "language": "de"}
ACTS = [
    Act("nobody", "POST /api/auth/register", {**NEWCOMER, **KNOWN}, leaves="registered"),
    Act("nobody", "POST /api/auth/login", {"email": "one", **SURE}, leaves="login"),
    Act("nobody", "POST /api/auth/login", SPARE, leaves="login recovery_code_used"),
    Refused("nobody", "POST /api/auth/login", {"email": "one", **NO_PASSWORD}, logs="login_failed"),
    Refused("nobody", "POST /api/auth/login", {"email": "one", **NO_CODE}, logs="wrong_code"),
    Act("nobody", "POST /api/auth/providers/school/start", {"challenge": "x" * 43}),
    Act("nobody", "POST /api/auth/applications/check", ASKED),
    Act("one", "POST /api/auth/applications/codes", ASKED, logs="application_login"),
    Act("nobody", "POST /api/auth/login", {"provider": "new"}, leaves="login registered"),
    Act(
        "nobody",
        "POST /api/auth/login",
        {"provider": "joins"},
        leaves="identity_joined login",
        factor="none",
    ),
    Act("nobody", "POST /api/auth/login", LINKS, leaves="identity_linked login"),
    Act("nobody", "POST /api/auth/login", LINKED, leaves="login"),
    Act("nobody", "POST /api/auth/login", {"passkey": "used"}, leaves="login"),
    Act("nobody", "POST /api/auth/passkeys/options"),
    Act("one", "POST /api/auth/passkeys", {**SURE, "credential": "made"}, leaves="passkey_added"),
    Act("one", "PUT /api/auth/passkeys/{passkeyId}", {"name": "Renamed"}),
    Act("one", "DELETE /api/auth/passkeys/{passkeyId}", SURE, leaves="passkey_removed"),
    Act("nobody", "POST /api/auth/refresh", {"refreshToken": "{refresh}"}),
    Act("one", "POST /api/auth/logout", logs="logout"),
    Act("one", "DELETE /api/auth/sessions/{sessionId}", logs="session_ended"),
    Act("one", "DELETE /api/auth/sessions", logs="other_sessions_ended"),
    Act("nobody", "POST /api/auth/forgot-password", {"email": "{email}"}),
    Act("nobody", "POST /api/auth/check-link", {"token": "{token}"}),
    Act("nobody", "POST /api/auth/reset-password", BY_LINK, leaves="access_link_used"),
    Act(
        "nobody", "POST /api/auth/reset-password", BY_LINK, leaves="access_link_used", factor="none"
    ),
    Act("nobody", "POST /api/auth/reset-password", BY_CODE, leaves="access_link_used"),
    Act("nobody", "POST /api/auth/verify-email", PROOF, leaves="email_verified"),
    Act("nobody", "POST /api/auth/resend-verification", {"email": "{email}"}),
    Act("one", "POST /api/auth/second-factor", KNOWN, factor="waiting"),
    Refused(
        "one",
        "POST /api/auth/second-factor/confirm",
        {"code": "{wrong}"},
        factor="waiting",
        logs="wrong_code",
    ),
    Act(
        "one",
        "POST /api/auth/second-factor/confirm",
        {"code": "{digits}"},
        leaves="second_factor_added",
        factor="waiting",
    ),
    Act(
        "one", "POST /api/auth/second-factor/recovery-codes", SURE, leaves="recovery_codes_replaced"
    ),
    Act("one", "DELETE /api/auth/second-factor", SURE, leaves="second_factor_removed"),
    Act("one", "PUT /api/users/profile", {"firstName": "Other"}, leaves="names_changed"),
    Act(
        "one",
        "PUT /api/users/profile",
        {"customFields": {"phone": "1"}},
        leaves="custom_fields_changed",
    ),
    Act("one", "POST /api/users/avatar"),
    Act("one", "DELETE /api/users/avatar"),
    Act("one", "PUT /api/users/settings", {"theme": "dark", "privacy": {"progressVisible": True}}),
    Act("one", "PUT /api/users/certificates/{certificateId}", {"shared": False}),
    Act("one", "PUT /api/users/password", {**CHOICE, **CURRENT}, leaves="password_changed"),
    Refused("one", "PUT /api/users/password", MISTAKE, logs="wrong_password"),
    Act("one", "POST /api/users/email", {**SURE, **NEW_ADDRESS}, logs="email_change_requested"),
    Refused("one", "POST /api/users/email/confirm", {"code": "wrong"}),
    Act("one", "POST /api/users/email/confirm", {"code": "{emailCode}"}, leaves="email_changed"),
    Act("one", "DELETE /api/users/email"),
    Act("one", "PUT /api/users/username", {**SURE, **NEW_NAME}, leaves="username_changed"),
    Act("one", "DELETE /api/users/account", {**SURE, **DELETION}, logs="account_deleted"),
    Act("teacher", "PUT /api/users/{userId}/courses/{courseId}", NEW_COURSE),
    Act("key", "DELETE /api/users/{userId}/courses/{courseId}"),
    Act("key", "PUT /api/users/{userId}/courses/{courseId}/lessons/{lessonId}", {"minutes": 9}),
    Act("teacher", "DELETE /api/users/{userId}/courses/{courseId}/lessons/{lessonId}"),
    Act("teacher", "PUT /api/users/{userId}/achievements/{achievementId}", {"name": "New"}),
    Act("key", "DELETE /api/users/{userId}/achievements/{achievementId}"),
    Act("key", "PUT /api/users/{userId}/certificates/{certificateId}", COURSE),
    Act("teacher", "DELETE /api/users/{userId}/certificates/{certificateId}"),
    Act("key", "POST /api/users", {**NEWCOMER, **MAIL}, leaves="account_created"),
    Act(
        "admin", "POST /api/users", {**NEWCOMER, **LINK}, leaves="access_link_made account_created"
    ),
    Act("admin", "POST /api/users/{userId}/access-link", LINK, leaves="access_link_made"),
    Act(
        "admin",
        "POST /api/users/{userId}/access-link",
        {**MAIL, **REPLACE},
        leaves="access_link_made password_removed",
    ),
    Act(
        "admin",
        "PATCH /api/users/{userId}",
        RENAMED,
        leaves="names_changed username_changed",
        logs="profile_changed",
    ),
    Act("admin", "PATCH /api/users/{userId}", NEW_EMAIL, leaves="email_changed"),
    Refused("key", "PATCH /api/users/{userId}", NEW_EMAIL, logs="service_key_refused"),
    Act(
        "admin",
        "PATCH /api/users/{userId}",
        {"role": "instructor"},
        leaves="group_left group_left role_changed",
    ),
    Act("key", "PATCH /api/users/{userId}", {"isActive": False}, leaves="account_deactivated"),
    Act("key", "PATCH /api/users/{userId}", {"emailVerified": True}, leaves="email_verified"),
    Act("admin", "DELETE /api/users/{userId}/failed-logins", leaves="account_unlocked"),
    Act("admin", "DELETE /api/users/{userId}/second-factor", leaves="second_factor_reset"),
    Act("admin", "DELETE /api/users/{userId}", logs="account_deleted"),
    Act("key", "PUT /api/groups/{groupId}", {"name": "New"}, logs="group_saved"),
    Act("admin", "DELETE /api/groups/{groupId}", logs="group_deleted"),
    Act("key", "PUT /api/groups/{groupId}/members/{userId}"),
    Act("key", "DELETE /api/groups/{groupId}/members/{userId}", leaves="group_left"),
    Act("admin", "DELETE /api/service-keys/{keyId}", logs="service_key_revoked"),
    Act("key", "POST /api/groups/{groupId}/members", {"remove": ["{userId}"]}, leaves="group_left"),
    Act("key", "PATCH /api/users", {**SET, "isActive": False}, leaves="account_deactivated"),
    Act("admin", "POST /api/users/removals", SET, logs="account_deleted"),
    Act("admin", "POST /api/users/access-links", SET, leaves="access_link_made"),
    Act(
        "admin",
        "POST /api/users/access-links",
        {**SET, **REPLACE},
        leaves="access_link_made password_removed",
    ),
    Act("key", "POST /api/users/lists", LIST, leaves="names_changed", logs="profile_changed"),
    Act("key", "POST /api/learning/courses", {"records": [{**OF_ONE, **NEW_COURSE}]}),
    Act("teacher", "POST /api/learning/lessons", {"records": [LESSON]}),
    Act("key", "POST /api/learning/achievements", {"records": [{**OF_ONE, "name": "New"}]}),
    Act("teacher", "POST /api/learning/certificates", {"records": [{**OF_ONE, **COURSE}]}),
    Act(
        "operator",
        "create --username=New --first-name=A --last-name=B --link --email=n@b.org",
        leaves="access_link_made account_created",
    ),
    Act(
        "operator", "access-link one --replace-password", leaves="access_link_made password_removed"
    ),
    Act(
        "operator",
        "set-email one new@example.org --replace-password",
        leaves="email_changed password_removed",
    ),
    Act("operator", "set-role one instructor", leaves="group_left group_left role_changed"),
    Act("operator", "activate one"),
    Act("operator", "deactivate one", leaves="account_deactivated"),
    Act("operator", "unlock one", leaves="account_unlocked"),
    Act("operator", "reset-second-factor one", leaves="second_factor_reset"),
    Act("operator", "delete one --yes", logs="account_deleted"),
    Act("operator", "import - --links={file}", leaves="access_link_made", logs="accounts_imported"),
]
# What no event says: of facts and answers, what opens something; and what somebody has typed.
SECRETS = ("token", "code", "proof", "emailCode", "unused", "refresh", "access", "link", "secret")
TYPED = re.compile(r"@|\b(one|New|Other)")
# These read, only add accounts of their own to the embedded database, or are about all users.
OTHER_COMMANDS = {"list", "show", "export", "dump", "fake", "empty-field", "unused"}


def as_told(app):
    """Return by id what other systems are told of each account."""
    names = ["username", "email", "first_name", "last_name", "role", "is_active", "external_id"]
    names.append("custom_fields")
    return {
        user.id: [bool(user.email_verified_at), *(getattr(user, name) for name in names)]
        for user in rows(app, models.User)
    }


def test_every_call_and_command_that_changes_something_is_an_act():
    calls = {f"{each.method} {each.documented}" for each in API if each.method != "GET"}
    calls = {call.replace("{name}", "school") for call in calls}
    commands = users.commands.keys() - OTHER_COMMANDS
    assert calls == {act.what for act in ACTS if act.by != "operator"}
    assert commands == {act.what.split()[0] for act in ACTS if act.by == "operator"}


@pytest.fixture(autouse=True)
def now(monkeypatch):
    """One moment for everything, so that no time tells the rows of two users apart."""
    now = datetime.now(UTC).replace(microsecond=0)
    monkeypatch.setattr("core.clock.utcnow", lambda: now)
    return now


@pytest.fixture
def app(app):
    held = components(app)
    held.settings = replace(held.settings, ratelimit_enabled=True, custom_fields=CUSTOM_FIELDS)
    return app


@pytest.fixture
def make_everything(app, make_user, now):
    """Add a user with a row in each table, who has used two recovery codes."""

    def make(name, factor="confirmed"):
        confirmed_at, later = now if factor == "confirmed" else None, now + timedelta(hours=1)
        columns = {"second_factor_at": confirmed_at, "identity": f"https://id.example {name}"}
        columns["custom_fields"] = {"phone": f"Of {name}"}
        user = make_user(name, avatar_digest="0" * 64, **columns)
        own, until = {"user_id": user.id}, {"expires_at": later}
        course = {"course_id": "same", "course_name": f"Of {name}", "issued_at": now}
        course["credential_url"] = ""
        login = {"created_at": now, "last_used_at": now, "user_agent": "", "ip_address": ""}
        waits = {"id": f"change of {name}", "new_email": f"new.{user.email}", "tries": 1}
        code = {"kind": "email_change_code", "facts": {"change_id": waits["id"]}}
        seed = {"sealed": totp.seal(SECRET, SEED, user.id), "created_at": now, "unused": 0x3FC}
        wrong = {"confirmed_at": confirmed_at, "wrong_codes": WARN_AT - 1, "window_ends_at": later}
        passkey = {"credential_id": name.encode() * 5, "public_key": b"of nobody"}
        added = [
            models.Avatar(**own, picture=b"picture"),
            models.Course(**own, id="same", name=f"Of {name}", lessons=2),
            models.Lesson(**own, id="same", course_id="same", completed_at=now, minutes=len(name)),
            models.Achievement(**own, id="same", name=f"Of {name}", earned_at=now),
            models.Certificate(**own, **course, id="same", share_code=name, holder=name),
            models.UserSession(**own, **login, **until, refresh_token_id="same"),
            models.DeniedSession(session_id=f"of {name}", **until),
            models.Event(**own, type="login", by="", ip_address="", details={}, created_at=now),
            models.Deletion(id=f"of {name}", number=1, deleted_at=now),
            models.Passkey(**own, **passkey, name=f"Of {name}", created_at=now, last_used_at=now),
            models.ServiceKey(name=name, digest=name, scopes="users:read"),
            models.PendingEmail(**own, **waits, **until),
            models.OutboxMail(**code, address=waits["new_email"]),
            *(models.OutboxMail(kind=kind.value, address=user.email) for kind in MailKind),
            *([] if factor == "none" else [models.SecondFactor(**own, **seed, **wrong)]),
        ]
        # A group of the user's own, and one that all are in.
        groups = [{"id": each, "name": f"Of {each}"} for each in (user.id, UNKNOWN_ID)]
        added += [models.Membership(**own, group_id=each["id"]) for each in groups]
        with app.app_context(), transaction() as session:
            session.execute(insert_into(models.Group).on_conflict_do_nothing(), groups)
            session.add_all(added)
        for guess in (user.email, name):
            with app.test_request_context(environ_base={"accounts.ip": "192.0.2.1"}):
                call_within(GUESSES, dict, body={"email": guess})
        return user

    return make


def signed_in(app, user, now):
    """Return the tokens of a new session, whatever a login asks for."""
    (row,) = rows(app, models.User, id=user.id)
    with app.app_context(), transaction():
        return sessions.open_session(row, now=now, user_agent="", ip_address="")


def facts_about(app, one, now):
    """Return what fills the calls and commands, with tokens and codes of user `one`."""
    (user,), (key,) = rows(app, models.User, id=one.id), rows(app, models.ServiceKey, name="one")
    (session,) = rows(app, models.UserSession, user_id=one.id)
    (passkey,) = rows(app, models.Passkey, user_id=one.id)
    phone, verifies = Authenticator(totp.app_key(SEED)), links.Action.VERIFY_EMAIL
    pair = signed_in(app, one, now)
    with app.app_context(), transaction():
        handed = recovery.hand_over(user, now=now)[user.id]
        bound, until = links.bound_to(verifies, user), now + timedelta(days=1)
        proof = links.make(verifies, one.id, bound, expires_at=until)
    return {
        **{"userId": one.id, "email": one.email, "keyId": key.id, "sessionId": session.id},
        **{"groupId": one.id, "passkeyId": passkey.id},
        **dict.fromkeys(("courseId", "lessonId", "achievementId", "certificateId"), "same"),
        **{"digits": phone.code(), "wrong": phone.wrong(), "code": handed.code},
        **{"unused": totp.recovery_codes(SEED, 1)[5], "refresh": pair.refresh_token},
        **{"token": handed.link.split("=")[1], "proof": proof.link.split("=")[1]},
        "emailCode": codes.email_code(SECRET, "change of one", f"new.{one.email}"),
        "access": pair.access_token,
    }


def come_with_passkey(app, one, access):
    """Return what a login sends of the passkey of a user, and an addition of another one."""
    client, device = app.test_client(), Device()
    made, options = device.create(begin(client, access)), ask(client)
    key = HERE.read_new(made)._asdict()
    this = update(models.Passkey).where(models.Passkey.user_id == one.id)
    execute(app, this.values(credential_id=key["credential_id"], public_key=key["public_key"]))
    used = device.get(options)
    return {"passkey": used, "credential": Device().create(begin(client, access))}


def come_from_provider(request, app, one, how):
    """Return what a login sends of somebody who joins, links or opens the account, or makes one."""
    request.getfixturevalue("connect")(RATELIMIT_ENABLED="1", OIDC_SCHOOL_DOMAINS="example.org")
    linked = f"{request.getfixturevalue('provider').issuer} subject-1"
    set_user(app, one, identity=linked if how == "linked" else None)
    if how == "joins":
        set_user(app, one, password_hash=passwords.unusable())
    return request.getfixturevalue("visit")(email="x@example.org" if how == "new" else one.email)


@pytest.fixture
def prepare(request, app, make_user, make_key, log_in, make_everything, now, tmp_path):
    """Make user `one` for an act; return this user, what fills the act, and the headers."""

    def prepare(act):
        one, proof = make_everything("one", act.factor), {}
        if "provider" in f"{act.what} {act.body}":
            how = act.body.get("provider", "new")
            proof = {"provider": come_from_provider(request, app, one, how)}
        facts = {**facts_about(app, one, now), **proof, "file": tmp_path / "links.csv"}
        if act.body == ASKED:
            facts["request"] = applications.begin(app.test_client())
        if act.body.keys() & {"passkey", "credential"}:
            facts |= come_with_passkey(app, one, facts["access"])
        if "/members" in act.what:
            facts["groupId"] = UNKNOWN_ID
        if act.what.endswith("/lists"):
            set_user(app, one, external_id="one's")
        if act.what.endswith("/removals"):  # of what nobody has used
            for kind in (models.Course, models.Achievement, models.Certificate):
                execute(app, delete(kind).where(kind.user_id == one.id))
        callers = {
            "one": lambda: facts["access"],
            "admin": lambda: log_in(make_user("head", role="admin")),
            "teacher": lambda: log_in(make_user("teacher", role="instructor")),
            "key": lambda: make_key(*Scope),
        }
        if act.what.startswith("import"):  # as a list of codes for those without a password
            set_user(app, one, password_hash=passwords.unusable(), identity=None)
        return one, facts, bearer(callers[act.by]()) if act.by in callers else {}

    return prepare


def filled(value, facts):
    """Return what an act sends, with the facts in it."""
    if isinstance(value, dict):
        return {name: filled(each, facts) for name, each in value.items()}
    if isinstance(value, list):
        return [filled(each, facts) for each in value]
    return value.format(**facts) if isinstance(value, str) else value


def call(client, act, facts, headers):
    method, path = act.what.format(**facts).split()
    body = filled(act.body, facts)
    body |= {name: facts[name] for name in ("provider", "passkey", "credential") if name in body}
    sent = {"data": picture_form(picture())} if path.endswith("/avatar") else {"json": body}
    query = {"apply": "true"} if path.endswith("/lists") else {}
    return client.open(path, method=method, headers=headers, query_string=query, **sent)


def check_events(act, left, records, known):
    """Assert that history and log say what the act does, of the same users and by the same."""
    lines = [record for record in records if record.name == "accounts.security"]
    kept = Counter((event.type, event.user_id, event.by.replace("machine", "")) for event in left)
    logged = Counter(
        (each.message, each.fields["user"], each.fields.get("by", "")) for each in lines
    )
    assert sorted(event.type for event in left) == act.leaves.split()
    assert sorted(name for name, *_ in (logged - kept).elements()) == act.logs.split()
    assert (kept <= logged) is not act.what.startswith("import")  # which logs its counts alone
    said = f"{[each.fields for each in lines]} {[event.details for event in left]}"
    assert not [name for name in SECRETS if known.get(name, "no text") in said]
    assert not TYPED.search(said)


@on_postgres  # as all reads below, in the slow suite: so each statement of the API has run there
@pytest.mark.parametrize("act", ACTS, ids=[f"{act.by} {act.what}" for act in ACTS])
def test_act_on_one_user_leaves_the_rows_of_the_others(
    app, client, run, prepare, make_everything, caplog, act
):
    one, facts, headers = prepare(act)
    before = contents(app)
    make_everything("bystander")
    waiting = make_everything("onlooker", "waiting")
    set_user(app, waiting, password_hash=passwords.unusable(), identity=None)
    everything = contents(app)
    theirs = {name: {*found} - {*before[name]} for name, found in everything.items()}
    del theirs["last_change"]  # which is nobody's
    known, told = {event.id for event in rows(app, models.Event)}, as_told(app)
    deleted = {row.id for row in rows(app, models.Deletion)}
    assert all(theirs.values()), {name for name, found in theirs.items() if not found}
    caplog.clear()

    if act.by == "operator":
        line = json.dumps({**NEWCOMER, "email": one.email})
        output, status = run("users", *act.what.format(**facts).split(), typed=line)
        assert status == 0, output
        answer = {}
    else:
        response = call(client, act, facts, headers)
        assert (response.status_code >= 400) is act.refused, response.text
        answer = response.get_json().get("data", {})

    left = [event for event in rows(app, models.Event) if event.id not in known]
    assert {event.user_id for event in left}.isdisjoint(told.keys() - {one.id})
    check_events(act, left, caplog.records, {**facts, **answer})

    numbered, now_told = {user.id for user in rows(app, models.User) if user.changed}, as_told(app)
    assert numbered == {id_ for id_, values in now_told.items() if values != told.get(id_)}
    assert {row.id for row in rows(app, models.Deletion)} - deleted == told.keys() - now_told.keys()

    after = contents(app)
    lost = {name: gone for name, found in theirs.items() if (gone := found - {*after[name]})}
    assert lost == {}
    new = [row for name, found in after.items() for row in {*found} - {*everything[name]}]
    assert [row for row in new if "bystander" in row or "onlooker" in row] == []


def cells(app):
    """Yield every value of every table as text, with its column."""
    with app.app_context(), reading() as connection:
        for table in db.metadata.sorted_tables:
            for column in table.columns:
                as_it_is = isinstance(column.type, String | Text | LargeBinary)
                cell = column if as_it_is else cast(column, String)
                for value in connection.scalars(select(cell)):
                    if value is not None:
                        yield f"{table.name}.{column.name}", str(value)


def traces(app, user):
    words = (user.id, user.email, user.username)
    return {column for column, value in cells(app) if any(word in value.lower() for word in words)}


@on_both
def test_deletion_leaves_nothing_in_any_table(app, client, make_user, make_everything, outbox, now):
    user, head = make_everything("vanishing"), make_user("head", role="admin")
    # What is named after the user here, and outlives it there, is nobody's.
    execute(app, delete(models.Group).where(models.Group.id == user.id))
    for kind in (models.DeniedSession, models.Deletion, models.ServiceKey):
        execute(app, delete(kind))
    mail, links = models.OutboxMail, ("password_reset", "email_verification", "invitation")
    execute(app, delete(mail).where(mail.address == user.email, mail.kind.not_in(links)))
    nobodys = {"groups", "denylist", "counters", "service_keys", "last_change", "deletions"}
    filled = {column.partition(".")[0] for column in traces(app, user)}
    assert filled == {table.name for table in db.metadata.sorted_tables} - nobodys
    headers = bearer(signed_in(app, head, now).access_token)
    success(client.delete(f"/api/users/{user.id}", headers=headers))
    assert traces(app, user) == {"outbox.address", "deletions.id"}
    assert outbox.waiting() == [("account_deleted", user.email)]
    (notice,) = outbox.deliver()
    assert (notice["Subject"], notice["To"]) == ("Your account was deleted", user.email)
    assert traces(app, user) == {"deletions.id"}


# Each of these commits once. Who comes from a provider gets an account first, and an import clears
# the counts of each account at its end.
IN_ONE = [
    act
    for act in ACTS
    if act.leaves and act.body.get("provider") != "new" and not act.what.startswith("import")
]


@contextmanager
def failing_at(app, number):
    """Let the statement with this number fail in transactions, or a commit; lend which failed."""
    seen, failed = itertools.count(1), []

    def fail(connection, *_statement):
        in_transaction = "isolation_level" in connection.get_execution_options()
        if in_transaction and next(seen) == number:
            failed.append(number)
            raise ZeroDivisionError

    with app.app_context():
        engine = db.engine
    places = (engine, "before_cursor_execute", fail), (engine, "commit", fail)
    for place in places:
        event.listen(*place)
    yield failed
    for place in places:
        event.remove(*place)


@pytest.mark.slow
@pytest.mark.parametrize("act", IN_ONE, ids=lambda act: f"{act.by} {act.what}")
def test_act_that_fails_anywhere_leaves_nothing_and_no_line(app, prepare, caplog, act):
    _, facts, headers = prepare(act)
    components(app).settings = replace(components(app).settings, ratelimit_enabled=False)
    client, before = app.test_client(), contents(app)
    # A try of a code, and the use of a key, are stored first.
    del before["second_factors"], before["service_keys"], before["pending_emails"]
    for number in itertools.count(1):
        caplog.clear()
        execute(app, update(models.PendingEmail).values(tries=1))
        with failing_at(app, number) as failed:
            if act.by == "operator":
                words = ("users", *act.what.format(**facts).split())
                is_done = app.test_cli_runner().invoke(args=words).exit_code == 0
            else:
                is_done = call(client, act, facts, headers).status_code < 400
        said = [each.message for each in caplog.records if each.name == "accounts.security"]
        if not failed:
            break
        assert not is_done
        after = contents(app)
        assert {name: after[name] for name in before} == before, number
        assert said == [], number
    assert is_done
    assert {*act.leaves.split()} <= {*said}
    assert number > 3  # BEGIN, what it does, its event, COMMIT


@pytest.mark.slow
@pytest.mark.parametrize("act", IN_ONE, ids=lambda act: f"{act.by} {act.what}")
def test_of_what_users_do_to_their_account_twenty_of_a_kind_are_kept_in_a_day(
    app, client, run, prepare, now, caplog, act
):
    """And all of what others do; the log has every act."""
    one, facts, headers = prepare(act)
    row = {"user_id": one.id, "by": "", "ip_address": "", "details": {}, "created_at": now}
    kinds = {*act.leaves.split()}
    enough = [{**row, "type": kind} for kind in kinds for _ in range(20)]
    execute(app, insert(models.Event).values(enough))
    known = {event.id for event in rows(app, models.Event)}
    caplog.clear()
    if act.by == "operator":
        assert run("users", *act.what.format(**facts).split())[1] == 0
    else:
        assert call(client, act, facts, headers).status_code < 400
    kept = {event.type for event in rows(app, models.Event) if event.id not in known}
    is_own = act.by in ("one", "nobody") and "registered" not in kinds
    assert kept == (set() if is_own else kinds)
    assert kinds <= {each.message for each in caplog.records}


# Each GET of the API that shows something of user `one`: what `one` sees, what those see who read
# learning records, copy them, and see accounts; with a query where a list is of everybody.
SHOWN = {
    "own": """/auth/verify /auth/sessions /auth/passkeys /auth/second-factor /users/profile
        /users/settings /users/progress /users/progress/days /users/courses
        /users/courses/{courseId} /users/certificates /users/email /groups /users/export""",
    "own record": "/users/{userId}",
    "record": """/users/{userId}/courses /users/{userId}/courses/{courseId}
        /users/{userId}/progress /users/{userId}/progress/days /users/{userId}/certificates""",
    "account": """/users?email={email} /users?username=one /users?groupId={groupId}
        /users/{userId}/account /users?anyOf=one,{email} /groups/{groupId}/days""",
    "own admin": "/users/{userId}/activity",
    "admin": "/activity?userId={userId} /users/{userId}/export",
    "copy": """/learning/courses?groupId={groupId} /learning/lessons?groupId={groupId}
        /learning/achievements?groupId={groupId} /learning/certificates?groupId={groupId}
        /learning/memberships?groupId={groupId}""",
    "public": "/certificates/{code}",
}
READS = {f"/api{path}": kinds for kinds, paths in SHOWN.items() for path in paths.split()}
# These show nothing of an account, or all of them to whom all may be shown.
OF_NOBODY = {
    *("/api/auth/options", "/api/auth/providers/{name}/callback"),
    *("/api/users/changes", "/api/service-keys"),
}
WHO = {"own": "one", "admin": "admin", "public": "nobody"}
WHO["copy"] = "admin key"
A_STUDENT = {**WHO, "record": "admin teacher key", "account": "admin teacher key"}
# Without the second factor that it needs: an admin for others, and a student for itself.
AN_ADMIN = {**WHO, "record": "admin teacher", "account": "admin"}


def test_every_call_that_shows_something_has_a_row():
    rows = {path.partition("?")[0] for path in READS}
    assert rows | OF_NOBODY == {each.documented for each in API if each.method == "GET"}
    assert rows.isdisjoint(OF_NOBODY)


@on_both_slowly
@pytest.mark.parametrize("order", [("one", "other"), ("other", "one")], ids=" then ".join)
@pytest.mark.parametrize(
    ("who", "role", "rules"),
    [
        (A_STUDENT, "student", {"instructor_rights": "groups"}),
        (AN_ADMIN, "admin", {"require_second_factor": "admin"}),
    ],
    ids=["student", "admin"],
)
def test_what_is_shown_of_one_user_is_the_same_without_the_other(
    app, client, make_user, make_key, make_everything, now, order, who, role, rules
):
    made = {name: make_everything(name) for name in order}
    one, other = made["one"], made["other"]
    # Also what only a number tells apart.
    theirs = update(models.SecondFactor).where(models.SecondFactor.user_id == other.id)
    execute(app, theirs.values(unused=1, wrong_codes=LOCK_AT))
    execute(app, update(models.Certificate).values(share_code=None))
    own = update(models.Certificate).where(models.Certificate.user_id == one.id)
    execute(app, own.values(share_code="0" * 16))
    execute(app, delete(models.Group).where(models.Group.id == UNKNOWN_ID))
    factor = now if role == "student" else None
    set_user(app, one, role=role, second_factor_at=factor, profile_visible=False)
    facts = {**facts_about(app, one, now), "code": "0" * 16}
    teacher = make_user("teacher", role="instructor")
    taught = [{"group_id": user.id, "user_id": teacher.id} for user in (one, other)]
    execute(app, insert(models.Membership).values(taught))
    admin = make_user("head", role="admin", second_factor_at=now)
    callers = {
        "nobody": {},
        "one": bearer(facts["access"]),
        "teacher": bearer(signed_in(app, teacher, now).access_token),
        "admin": bearer(signed_in(app, admin, now).access_token),
        "key": bearer(make_key("users:read", "learning:read")),
    }
    held = components(app)
    held.settings = replace(held.settings, **rules)

    def shown():
        found = {}
        for path, kinds in READS.items():
            for caller in " ".join(who[kind] for kind in kinds.split()).split():
                answer = client.get(path.format(**facts), headers=callers[caller])
                found[f"{caller} {path}"] = success(answer)
                # An export leaves an event.
                execute(app, delete(models.Event).where(models.Event.type == "data_exported"))
        del found["one /api/auth/passkeys"]["publicKey"]["challenge"]  # a random one
        return found

    with_other = shown()
    for gone in (models.User, models.Group):
        execute(app, delete(gone).where(gone.id == other.id))
    assert with_other == shown()
