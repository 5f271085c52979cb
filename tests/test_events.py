"""The history of an account: what was done to it, told to its user and to admins."""

import re
from contextlib import suppress
from datetime import timedelta
from types import SimpleNamespace

import pytest
from authenticator import set_up
from helpers import (
    PASSWORD,
    Log,
    bearer,
    choose,
    execute,
    failure,
    forgot,
    login,
    on_one_database,
    register,
    rows,
    set_user,
    stored,
    success,
)
from real_service import ROOT
from sqlalchemy import MetaData, delete, insert
from test_two_users import LEFT_BY

from core import audit
from core import clock as core_clock
from core.ids import new_row_id
from database import transaction
from models import Event, User
from services import events, pruning, users

DOCS = (ROOT / "docs/events.md").read_text()
# What these leave is in test_two_users.py.
IN_ACTS = {event for left in LEFT_BY.values() for event in re.findall(r"\w+", left)}


def history(client, user, token):
    response = client.get(f"/api/users/{user.id}/activity", headers=bearer(token))
    return success(response)["events"]


def types(app, user=None):
    found = rows(app, Event, **({"user_id": user.id} if user else {}))
    return [event.type for event in sorted(found, key=lambda event: event.created_at)]


def test_list_in_the_docs_is_that_of_the_code_and_each_is_logged():
    table = re.findall(r"^\| (`.+?`) \| .+? \| (.*?) ?\|$", DOCS, re.M)
    told = {
        name: tuple(re.findall(r"^`(\w+)`", details))
        for names, details in table
        for name in re.findall(r"`(\w+)`", names)
    }
    assert told == events.KEPT
    sources = "".join(
        path.read_text()
        for path in (
            *ROOT.glob("blueprints/*.py"),
            *ROOT.glob("services/*.py"),
            *ROOT.glob("cli/*.py"),
        )
        if path.name != "events.py"
    )
    assert [name for name in told if f'"{name}"' not in sources] == []
    assert told.keys() == IN_ACTS | OTHERS.keys()


def exported(app, client, auth, **_):
    success(client.get("/api/users/export", headers=auth.headers))


def reset(app, client, auth, outbox, **_):
    success(forgot(client, auth.user.email))
    success(choose(client, outbox.deliver_token()))


def activated(app, client, auth, run, **_):
    set_user(app, auth.user, is_active=False)
    assert run("users", "activate", auth.user.id)[1] == 0


def imported(app, client, auth, run, **_):
    dumped, _ = run("users", "dump")
    execute(app, delete(User))
    assert run("users", "import", "-", typed=dumped)[1] == 0


# Each event that no act of test_two_users.py leaves, and what does.
OTHERS = {
    "data_exported": exported,
    "password_reset": reset,
    "account_activated": activated,
    "account_imported": imported,
}


@on_one_database
@pytest.mark.parametrize("event", OTHERS)
def test_event_is_kept(app, client, auth, outbox, run, event):
    execute(app, delete(Event))
    OTHERS[event](app=app, client=client, auth=auth, outbox=outbox, run=run)
    assert types(app, auth.user) == [event]


def test_users_and_admins_see_who_did_what_and_nobody_sees_where_an_admin_was(
    app, client, admin, make_user, make_key, log_in, run
):
    user = make_user("pupil")
    path, elsewhere = f"/api/users/{user.id}", {"environ_base": {"REMOTE_ADDR": "192.0.2.77"}}
    as_admin = {"headers": admin.headers, **elsewhere}
    success(client.patch(path, json={"role": "instructor"}, **as_admin))
    success(client.patch(path, json={"isActive": False}, headers=bearer(make_key("users:write"))))
    assert run("users", "activate", user.id)[1] == 0
    token = log_in(user, environ_base={"REMOTE_ADDR": "2001:db8::1"}).access

    own, seen = history(client, user, token), history(client, user, admin)
    kinds = [(each["type"], each["by"], each["ipAddress"], each["details"]) for each in own]
    assert kinds == [
        ("login", "user", "2001:db8::/64", {}),
        ("account_activated", "machine", "", {}),
        ("account_deactivated", "service", "", {}),
        ("role_changed", "staff", "", {"role": "instructor"}),
    ]
    assert {each["byId"] for each in own} == {""}
    ids = [each.pop("byId") for each in seen]
    assert (ids[0], ids[1], ids[2][:4], ids[3]) == ("", "", "key:", admin.id)
    for each in own:
        del each["byId"]
    assert seen == own
    export = client.get("/api/users/export", headers=bearer(token))
    assert success(export)["events"] == [{**each, "byId": ""} for each in own]
    for text in (export.text, str(rows(app, Event))):
        assert "192.0.2.77" not in text


def test_what_admins_do_to_themselves_is_theirs(app, client, admin):
    success(client.patch(f"/api/users/{admin.id}", json={"username": "new"}, headers=admin.headers))
    changed, _login = history(client, admin, admin)
    assert (changed["type"], changed["by"], changed["ipAddress"]) == (
        *("username_changed", "user"),
        "127.0.0.1",
    )


@on_one_database
def test_history_is_for_the_user_and_for_admins(app, client, admin, make_user, make_key, log_in):
    user, nobody = make_user(), SimpleNamespace(id="01234567-89ab-7cde-8f01-23456789abcd")
    teacher = make_user("teacher", role="instructor")
    for token in (log_in(teacher), log_in(make_user("other")), make_key("users:read")):
        for target in (user, nobody):
            response = client.get(f"/api/users/{target.id}/activity", headers=bearer(token))
            failure(response, 403, "forbidden")
    response = client.get(f"/api/users/{nobody.id}/activity", headers=admin.headers)
    failure(response, 404, "user_not_found")


@on_one_database
def test_admin_who_lacks_the_second_factor_sees_the_own_history_only(
    make_app, make_user, log_in, admin
):
    client, user = make_app(require_second_factor="admin").test_client(), make_user()
    response = client.get(f"/api/users/{user.id}/activity", headers=admin.headers)
    failure(response, 403, "second_factor_required")
    assert history(client, admin, admin)


def test_only_the_first_login_from_a_client_is_kept(app, client, auth, clock):
    addresses = ["127.0.0.1", "192.0.2.1", "192.0.2.1", "2001:db8::1", "2001:db8::2"]
    for address in (*addresses, "2001:db8:0:1::1"):
        body = {"email": auth.user.email, "password": PASSWORD}
        client.post("/api/auth/login", json=body, environ_base={"REMOTE_ADDR": address})
    known = [event.ip_address for event in rows(app, Event, type="login")]
    assert sorted(known) == ["127.0.0.1", "192.0.2.1", "2001:db8:0:1::/64", "2001:db8::/64"]
    with app.app_context():
        assert pruning.prune(core_clock.utcnow() + timedelta(days=90))["events"] == 4
    login(client, auth.user)
    assert types(app) == ["login"]


def test_the_latest_two_hundred_are_told_and_all_are_exported(app, client, auth):
    start = core_clock.utcnow() - timedelta(days=9)
    row = {"user_id": auth.user.id, "type": "data_exported", "by": "machine", "ip_address": ""}
    added = [
        {**row, "id": new_row_id(), "details": {}, "created_at": start + timedelta(seconds=second)}
        for second in range(250)
    ]
    execute(app, insert(Event).values(added))
    told = history(client, auth.user, auth)
    times = [each["at"] for each in told]
    assert (len(told), told[0]["type"]) == (200, "login")
    assert times == sorted(times, reverse=True)
    data = success(client.get("/api/users/export", headers=auth.headers))
    assert len(data["events"]) == 251


@on_one_database
def test_history_goes_on_where_nothing_is_logged(make_app, make_user):
    user = make_user()
    client = make_app(log_level="CRITICAL").test_client()
    success(login(client, user))
    success(register(client), 201)


def test_failure_is_a_warning_and_changes_no_answer(app, client, make_user, monkeypatch):
    monkeypatch.setattr(events, "_EVENTS", events._EVENTS.to_metadata(MetaData(), name="gone"))
    log, user = Log(), make_user()
    success(login(client, user))
    (line,) = [line for line in log.lines() if "accounts.events" in line]
    assert " WARNING accounts.events " in line
    with app.app_context():
        with transaction():  # of which it is a part
            users.update(user.id, bio="kept")
            audit.log("email_verified", user.id)
        with suppress(RuntimeError), transaction():
            audit.log("email_verified", user.id)
            raise RuntimeError
    assert stored(app, user).bio == "kept"
    assert log.text().count("an event could not be kept") == 2
    assert types(app) == []


def test_event_of_an_open_transaction_goes_with_it(app, make_user):
    user = make_user()
    with app.app_context():
        with suppress(RuntimeError), transaction():
            audit.log("email_verified", user.id)
            raise RuntimeError
        assert types(app) == []
        with transaction():
            audit.log("email_verified", user.id)
        audit.log("email_verified", "of nobody")
    assert types(app) == ["email_verified"]


def test_reset_that_removes_a_second_factor_tells_both(app, client, auth, outbox, clock):
    set_up(client, auth, auth.user, clock)
    outbox.deliver()
    success(forgot(client, auth.user.email))
    success(choose(client, outbox.deliver_token()))
    told = ["login", "second_factor_added", "second_factor_removed", "password_reset"]
    assert types(app) == told


@on_one_database
def test_days_are_a_setting(make_app, make_user):
    app = make_app(event_days=0)
    success(login(app.test_client(), make_user()))
    assert types(app) == ["login"]
    with app.app_context():
        assert pruning.prune(core_clock.utcnow())["events"] == 1
