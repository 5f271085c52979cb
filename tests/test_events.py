"""The history of an account: what was done to it, told to its user and to admins."""

import json
import re
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from endpoints import UNKNOWN_ID
from helpers import (
    bearer,
    choose,
    execute,
    failure,
    forgot,
    login,
    on_both,
    on_both_slowly,
    race,
    rows,
    set_user,
    success,
)
from real_service import ROOT
from sqlalchemy import delete, insert
from test_two_users import ACTS

from core import audit, ids
from core import clock as core_clock
from core.roles import EVERYBODY
from database import transaction
from models import Event, User, UserSession
from services import events, groups, pruning

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def history(client, user, token):
    response = client.get(f"/api/users/{user.id}/activity", headers=bearer(token))
    return success(response)["events"]


def fails(_):
    raise ZeroDivisionError


def types(app):
    found = sorted(rows(app, Event), key=lambda event: event.created_at)
    return [event.type for event in found]


# The events that no act of test_two_users.py leaves, and what does.


def exported(app, client, auth, **_):
    success(client.get("/api/users/export", headers=auth.headers))


def reset(app, client, auth, outbox, **_):
    set_user(app, auth.user, email_verified_at=core_clock.utcnow())
    success(forgot(client, auth.user.email))
    success(choose(client, outbox.deliver_token()))


def activated(app, client, auth, run, **_):
    set_user(app, auth.user, is_active=False)
    assert run("users", "activate", auth.user.id)[1] == 0


def imported(app, client, auth, run, **_):
    dumped, _ = run("users", "dump")
    execute(app, delete(User))
    assert run("users", "import", "-", typed=dumped)[1] == 0


def joined(app, auth, **_):
    with app.app_context(), transaction():
        groups.save(UNKNOWN_ID, "7b")
        groups.join(UNKNOWN_ID, auth.user.id, EVERYBODY)


def warned(app, auth, run, **_):
    set_user(app, auth.user, created_at=LONG_AGO, last_login_at=LONG_AGO)
    execute(app, delete(UserSession))
    assert run("users", "unused", "--days=30", "--warn")[0] == "warned: 1\n"


OTHERS = {"data_exported": exported, "password_reset": reset, "group_joined": joined}
OTHERS |= {"account_activated": activated, "account_imported": imported, "unused_warned": warned}


@pytest.mark.parametrize("event", OTHERS)
def test_event_is_kept(app, client, auth, outbox, run, event):
    execute(app, delete(Event))
    OTHERS[event](app=app, client=client, auth=auth, outbox=outbox, run=run)
    assert types(app) == [event]


def test_every_event_is_declared_and_comes_somewhere():
    folders = ("blueprints", "cli", "services", "web")
    code = "".join(path.read_text() for name in folders for path in ROOT.glob(f"{name}/*.py"))
    said = re.findall(r"""\b(?:audit\.log|events\.tell|events\.add)\(\s*"(\w+)\"""", code)
    assert {*said} <= {*audit.EVENTS}
    assert {event for event in audit.EVENTS if f'"{event}"' not in code} == set()
    with pytest.raises(KeyError):
        audit.log("unheard_of")


def test_each_event_of_the_history_is_left_and_has_its_sentence():
    acts = {event for act in ACTS for event in act.leaves.split()}
    kept = {name for name, event in audit.EVENTS.items() if event.kept is not None}
    assert kept == acts | OTHERS.keys()
    for words in (ROOT / "templates").glob("*/app.txt"):
        said = set(re.findall(r"say_event_(?!by\b|by_)(\w+)", words.read_text()))
        assert said == kept, words


@pytest.mark.parametrize("words", sorted((ROOT / "templates").glob("*/app.txt")), ids=str)
def test_each_detail_is_in_the_sentence_of_its_event_or_has_a_word_on_paper(words):
    sentences = dict(re.findall(r'say_event_(\w+) = "(.*)"', words.read_text()))
    paper = words.with_name("privacy.txt").read_text()
    for name, event in audit.EVENTS.items():
        for detail in event.kept or ():
            is_said = f"{{{detail}}}" in sentences[name] or detail == "provider"
            assert is_said or f"say_kept_{detail} = " in paper, f"{detail} of {name}"


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
    export = client.get("/api/users/export", headers=bearer(token))
    assert success(export)["events"] == own
    ids = [each.pop("byId") for each in seen]
    assert (ids[0], ids[1], ids[2][:4], ids[3]) == ("", "", "key:", admin.id)
    assert [{**each, "byId": ""} for each in seen] == own
    assert "192.0.2.77" not in export.text + str(rows(app, Event))

    success(client.patch(f"/api/users/{admin.id}", json={"username": "new"}, **as_admin))
    changed, _login = history(client, admin, admin)
    assert (changed["by"], changed["ipAddress"]) == ("user", "192.0.2.77")


def test_history_is_for_the_user_and_for_admins(
    client, admin, make_app, make_user, make_key, log_in
):
    user, nobody = make_user(), SimpleNamespace(id="01234567-89ab-7cde-8f01-23456789abcd")
    teacher = make_user("teacher", role="instructor")
    paths = [f"/api/users/{target.id}/activity" for target in (user, nobody)]
    for token in (log_in(teacher), log_in(make_user("other")), make_key("users:read")):
        for path in paths:
            failure(client.get(path, headers=bearer(token)), 403, "forbidden")
    failure(client.get(paths[1], headers=admin.headers), 404, "user_not_found")
    strict = make_app(require_second_factor="admin").test_client()
    failure(strict.get(paths[0], headers=admin.headers), 403, "second_factor_required")
    assert history(strict, admin, admin)


@on_both
def test_only_the_first_login_from_a_client_is_kept(app, client, make_user):
    user, addresses = make_user(), ["192.0.2.1", "192.0.2.1", "2001:db8::1", "2001:db8::2"]
    for address in (*addresses, "2001:db8:0:1::1"):
        body = {"email": user.email, "password": user.password}
        client.post("/api/auth/login", json=body, environ_base={"REMOTE_ADDR": address})
    known = sorted(event.ip_address for event in rows(app, Event))
    assert known == ["192.0.2.1", "2001:db8:0:1::/64", "2001:db8::/64"]
    with app.app_context():
        assert pruning.prune(core_clock.utcnow() + timedelta(days=89))["events"] == 0
        assert pruning.prune(core_clock.utcnow() + timedelta(days=90))["events"] == 3
    success(login(client, user))
    assert types(app) == ["login"]


@on_both_slowly
def test_twenty_of_a_kind_are_kept_in_a_day_of_what_a_user_does(app, client, auth, make_user):
    """Or a thief of the password could push what was done before out of the history."""
    now, path = core_clock.utcnow(), "/api/users/export"
    own = {"user_id": auth.user.id, "type": "data_exported", "by": "", "created_at": now}
    own |= {"ip_address": "", "details": {}}
    others = {"by": "machine"}, {"user_id": make_user("other").id}, {"type": "names_changed"}
    uncounted = [own | more for more in (*others, {"created_at": now - timedelta(days=1)})]
    execute(app, insert(Event).values([own] * 18 + uncounted * 20))
    race(lambda _: success(app.test_client().get(path, headers=auth.headers)))
    assert len(rows(app, Event)) == 1 + 20 + 80  # one login


@on_both_slowly
def test_pages_of_two_hundred_are_told_and_all_are_exported(app, client, auth, run, monkeypatch):
    start = core_clock.utcnow() - timedelta(days=9)
    row = {"user_id": auth.user.id, "type": "data_exported", "by": "machine", "ip_address": ""}
    added = [
        {**row, "id": ids.new_row_id(), "details": {}, "created_at": start + timedelta(minutes=n)}
        for n in range(450)
    ]
    execute(app, insert(Event).values(added))
    path = f"/api/users/{auth.user.id}/activity"

    def page(**query):
        return success(client.get(path, query_string=query, headers=auth.headers))

    first = page()
    rest = page(after=first["next"])
    last = page(after=rest["next"])
    told = [*first["events"], *rest["events"], *last["events"]]
    assert (len(first["events"]), len(last["events"]), last["next"]) == (200, 51, None)
    found = [each["id"] for each in told]
    assert found == sorted({*found}, reverse=True)
    # What is pruned or comes meanwhile moves nothing.
    execute(app, delete(Event).where(Event.id == first["next"]))
    success(login(client, auth.user, environ_base={"REMOTE_ADDR": "192.0.2.9"}))
    assert page(after=first["next"]) == rest
    assert [each["type"] for each in page(type="login")["events"]] == ["login", "login"]
    assert len(page(limit=1)["events"]) == 1
    for query in ({"after": "x"}, {"limit": 0}, {"limit": 201}, {"type": "logout"}):
        refused = client.get(path, query_string=query, headers=auth.headers)
        assert failure(refused, 400, "invalid_request").keys() == {*query}
    everything = found[:199] + found[200:]
    data = success(client.get("/api/users/export", headers=auth.headers))
    assert [each["id"] for each in data["events"]][1:] == everything
    printed = run("users", "export", auth.user.id)[0]
    printed = json.loads(printed[printed.index("{\n") :])
    assert [each["id"] for each in printed["events"]][2:] == everything
    # Pages are read while they are sent. Where the database fails, it looks like no whole file;
    sent = client.get("/api/users/export", headers=auth.headers, buffered=False)
    parts = iter(sent.response)
    begun = next(parts)
    with monkeypatch.context() as broken:
        broken.setattr("services.history.read_all", fails)
        with pytest.raises(ZeroDivisionError):
            next(parts)
    assert (sent.status_code, sent.content_length, begun[-1:]) == (200, None, b"}")
    # what is pruned meanwhile leaves no gap in the JSON.
    sent = client.get("/api/users/export", headers=auth.headers, buffered=False)
    execute(app, delete(Event).where(Event.id.in_(found[150:])))
    assert len(success(sent)["events"]) == 200


def test_history_needs_no_log_and_is_kept_as_long_as_the_setting_says(make_app, make_user):
    app = make_app(log_level="CRITICAL", event_days=0)
    success(login(app.test_client(), make_user()))
    assert types(app) == ["login"]
    with app.app_context():
        assert pruning.prune(core_clock.utcnow())["events"] == 1


@on_both
def test_of_parallel_first_logins_from_a_client_one_is_kept(app, client, make_user):
    user = make_user()
    race(lambda _: success(login(app.test_client(), user)))
    assert types(app) == ["login"]


def test_export_of_an_account_that_is_gone_meanwhile_is_refused(app, client, auth, monkeypatch):
    def collect(*_, **__):
        execute(app, delete(User))
        return {}, ()

    monkeypatch.setattr("services.export.collect", collect)
    response = client.get("/api/users/export", headers=auth.headers)
    failure(response, 401, "token_revoked")
    assert types(app) == []


def test_word_that_is_not_declared_fails_the_act(app):
    with app.app_context(), pytest.raises(KeyError), transaction():
        events.tell("unheard_of")
