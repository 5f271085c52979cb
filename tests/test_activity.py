"""What happened to all accounts, told to admins; and names and groups in the history of one."""

import pytest
from endpoints import UNKNOWN_ID
from helpers import bearer, crowd, execute, failure, on_both, plan_of, rows, success
from sqlalchemy import insert, select, text

from core import ids
from core.clock import utcnow
from database import transaction
from extensions import db
from models import Event, User

GROUP = "dddddddd-0000-4000-8000-000000000000"


@pytest.fixture
def ask(client, admin):
    def ask(headers=None, **query):
        return client.get("/api/activity", query_string=query, headers=headers or admin.headers)

    return ask


@pytest.fixture
def pupil(client, admin, make_user, make_key, run):
    """A pupil who was put into a group by a key, taken out, renamed and deactivated."""
    user, path = make_user("pupil"), f"/api/groups/{GROUP}"
    key = bearer(make_key("groups:write"))
    success(client.put(path, json={"name": "7b"}, headers=admin.headers), 201)
    for _ in range(2):  # only the first changes something
        success(client.put(f"{path}/members/{user.id}", headers=key))
    success(client.delete(f"{path}/members/{user.id}", headers=admin.headers))
    body = {"lastName": "Other", "language": "de"}
    for _ in range(2):
        success(client.patch(f"/api/users/{user.id}", json=body, headers=admin.headers))
    assert run("users", "deactivate", user.id)[1] == 0
    assert run("users", "activate", user.id)[1] == 0
    return user


IN_ORDER = ["group_joined", "group_left", "names_changed", "account_deactivated"]
IN_ORDER.append("account_activated")


def test_admins_see_what_happened_to_whom_and_who_did_it(ask, admin, pupil):
    (joined, left, renamed, out, back), (login,) = (
        reversed(success(ask(userId=each.id))["events"]) for each in (pupil, admin)
    )
    who = {"userId": pupil.id, "username": "pupil", "ipAddress": ""}
    for each in (joined, left, renamed, out, back):
        assert each == {**each, **who}
    assert (joined["by"], joined["byId"][:4]) == ("service", "key:")
    assert (left["by"], left["byId"]) == (renamed["by"], renamed["byId"]) == ("staff", admin.id)
    assert (out["by"], out["byId"]) == ("machine", "")
    details = [each["details"] for each in (joined, left, renamed)]
    assert details == [{"group": GROUP}, {"group": GROUP}, {}]
    assert (login["username"], login["by"], login["byId"]) == ("headmaster", "user", "")
    assert [each["type"] for each in success(ask())["events"]] == [*reversed(IN_ORDER), "login"]


@on_both
def test_activity_is_filtered_by_word_person_and_who_did_it(ask, admin, pupil):
    def types(**query):
        return [each["type"] for each in reversed(success(ask(**query))["events"])]

    key = success(ask(type="group_joined"))["events"][0]["byId"]
    assert types(by=key) == ["group_joined"]
    assert types(by=admin.id.upper()) == ["group_left", "names_changed"]
    assert types(by="machine") == ["account_deactivated", "account_activated"]
    assert types(by="machine", type="account_activated") == ["account_activated"]
    assert types(userId=pupil.id, by=admin.id) == ["group_left", "names_changed"]
    assert types(userId=UNKNOWN_ID) == types(by=UNKNOWN_ID) == types(by=pupil.id) == []
    for query in (
        *({"by": value} for value in ("key:", "key:x", "user", "", f"key:key:{UNKNOWN_ID}")),
        *({"type": value} for value in ("profile_changed", "")),
        *({"after": "x"}, {"userId": "x"}, {"limit": 0}, {"limit": 201}),
    ):
        assert failure(ask(**query), 400, "invalid_request").keys() == query.keys()


@on_both
def test_every_event_comes_once_whatever_happens_meanwhile(app, ask, pupil):
    first = success(ask(limit=2))
    row = {"user_id": pupil.id, "type": "login", "by": "", "ip_address": "", "details": {}}
    new = {**row, "id": ids.new_row_id(), "created_at": utcnow()}
    execute(app, insert(Event).values(new))
    told, after = first["events"], first["next"]
    while after:
        page = success(ask(limit=2, after=after))
        told, after = [*told, *page["events"]], page["next"]
    assert [each["type"] for each in told] == [*reversed(IN_ORDER), "login"]
    assert first["next"] == first["events"][-1]["id"]


def test_groups_are_in_neither_the_users_own_history_nor_the_export(client, pupil, log_in):
    token = bearer(log_in(pupil))
    path = f"/api/users/{pupil.id}/activity"
    own = success(client.get(path, headers=token))["events"]
    assert [each["type"] for each in reversed(own)] == [*IN_ORDER[2:], "login"]
    assert success(client.get(f"{path}?type=group_left", headers=token))["events"] == []
    exported = client.get("/api/users/export", headers=token)
    assert success(exported)["events"] == own
    assert GROUP not in exported.text


def test_whoever_changes_a_name_leaves_an_event(app, client, auth, make_key):
    path, key = f"/api/users/{auth.user.id}", bearer(make_key("users:write"))
    profile = "/api/users/profile"
    same = {"firstName": auth.user.first_name, "bio": "New"}
    success(client.put(profile, json=same, headers=auth.headers))
    assert rows(app, Event, type="names_changed") == []
    success(client.put(profile, json={"firstName": "New"}, headers=auth.headers))
    success(client.patch(path, json={"lastName": "New"}, headers=key))
    own, other = rows(app, Event, type="names_changed")
    assert (own.by, own.ip_address, own.details) == ("", "127.0.0.1", {})
    assert other.by.startswith("key:")


@pytest.mark.parametrize("query", [(), ("userId",)], ids=["all", "of one"])
@on_both
def test_no_page_reads_all_events(app, ask, query):
    """The index by id gives a page, and that by user and id the page of a person."""
    crowd(app, 200)
    with app.app_context():
        people = db.session.scalars(select(User.id)).all()
    row = {"type": "login", "by": "", "ip_address": "", "details": {}, "created_at": utcnow()}
    many = [{**row, "id": ids.new_row_id(), "user_id": each} for _ in range(25) for each in people]
    with app.app_context(), transaction() as session:
        session.execute(insert(Event), many)
    with app.app_context():
        is_sqlite = db.engine.dialect.name == "sqlite"
    if not is_sqlite:
        execute(app, text("ANALYZE events"))
    page = {"limit": 20, **dict.fromkeys(query, people[7])}
    assert len(success(ask(**page))["events"]) == 20
    plan = plan_of(app, lambda: ask(**page))
    index = "ix_events_user_id_id" if query else ("autoindex_events" if is_sqlite else "pk_events")
    assert index in plan
    assert "Seq Scan on events" not in plan
