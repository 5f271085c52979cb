"""The accounts, as admins list, change and delete them; and that one admin always stays."""

import functools
from datetime import timedelta
from types import SimpleNamespace

import pytest
from endpoints import UNKNOWN_ID
from helpers import (
    Log,
    assert_ended,
    bearer,
    crowd,
    delete_account,
    execute,
    failure,
    login,
    on_both,
    on_postgres,
    refresh,
    rows,
    stored,
    success,
    verify,
    while_changing,
)
from sqlalchemy import update

import errors
from config.providers import ProviderSettings
from core import clock
from core.clock import rfc3339
from core.ids import NIL
from database import transaction
from models import Course, DeniedSession, User
from services import administration

FIELDS = {"id", "username", "email", "firstName", "lastName", "role"}
FIELDS |= {"isActive", "emailVerified", "hasPassword", "hindrances", "provider"}
FIELDS |= {"joinDate", "lastLogin", "externalId", "customFields"}


@pytest.fixture
def ask(client, admin):
    """Ask for the list with a query as it stands in the URL."""

    return lambda query="": client.get(f"/api/users?{query}", headers=admin.headers)


@pytest.fixture
def find(client, admin):
    """Return the usernames that a search finds, newest first; they fit on one page."""

    def find(search, **query):
        query["search"] = search
        data = success(client.get("/api/users", query_string=query, headers=admin.headers))
        assert len(data["users"]) == data["total"]
        return [user["username"] for user in data["users"]]

    return find


@pytest.fixture
def alter(client, admin):
    headers = admin.headers
    return lambda user, **new: client.patch(f"/api/users/{user.id}", json=new, headers=headers)


@pytest.fixture
def remove(client, admin):
    return lambda user: client.delete(f"/api/users/{user.id}", headers=admin.headers)


def active_admins(app):
    return {user.id for user in rows(app, User, role="admin", is_active=True)}


# The list


@pytest.mark.asvs("15.3.1")
def test_list_shows_what_an_admin_needs_and_nothing_else(ask, admin, make_user, clock):
    clock.move(minutes=1)
    moment = clock.utcnow()
    times = {"created_at": moment, "email_verified_at": moment}
    user = make_user("Ada.L", first_name="Ada", last_name="L", **times)
    response = ask()
    assert "message" not in response.get_json()
    data = success(response)
    assert data.keys() == {"users", "page", "perPage", "total"}
    assert (data["page"], data["perPage"], data["total"]) == (1, 20, 2)
    newest, oldest = data["users"]
    names = {"username": "Ada.L", "firstName": "Ada", "lastName": "L"}
    state = {"role": "student", "isActive": True, "emailVerified": True, "lastLogin": None}
    state |= {"hasPassword": True, "provider": "", "externalId": "", "hindrances": []}
    own = {"id": user.id, "email": "ada.l@example.org", "joinDate": rfc3339(moment)}
    own["customFields"] = {}
    assert newest == names | state | own
    assert oldest.keys() == FIELDS
    assert (oldest["id"], oldest["role"], oldest["emailVerified"]) == (admin.id, "admin", False)
    assert oldest["lastLogin"] >= oldest["joinDate"]


@on_both
def test_accounts_of_other_systems_stand_where_they_belong(app, ask, run, make_user):
    start, names = clock.utcnow(), ("old", "new", "twin", "last")
    for name, digit, days in zip(names, "f120", (-9, 1, 1, 2), strict=True):
        make_user(name, created_at=start + timedelta(days=days))
        execute(app, update(User).where(User.username == name).values(id=digit * 36))
    listed = [user["username"] for user in success(ask())["users"]]
    assert listed == ["last", "twin", "new", "headmaster", "old"]
    lines = run("users", "list")[0].splitlines()
    assert [line.split("\t")[1] for line in lines] == listed
    students = success(ask("role=student&perPage=2&page=2"))["users"]
    assert [user["username"] for user in students] == ["new", "old"]


@on_both
def test_page_is_as_long_as_asked_for_and_always_tells_the_total(app, ask):
    crowd(app, 101)
    for length in (1, 100):
        data = success(ask(f"perPage={length}"))
        assert (len(data["users"]), data["perPage"], data["total"]) == (length, length, 102)
    assert failure(ask("perPage=101"), 400, "invalid_request").keys() == {"perPage"}
    assert success(ask("perPage=34&page=3"))["users"] != []
    for page in (4, 1_000_000_000):
        data = success(ask(f"perPage=34&page={page}"))
        assert data == {"users": [], "page": page, "perPage": 34, "total": 102}


def test_a_list_that_is_read_by_id_is_whole_when_somebody_goes(app, ask):
    crowd(app, 5)
    after, found = NIL, []
    for left in (5, 3, 1):
        data = success(ask(f"role=student&perPage=2&sort=name&after={after}"))
        assert data["total"] == left
        found += [user["username"] for user in data["users"]]
        after = data["users"][-1]["id"]
        # By the number of a page, somebody would be skipped now.
        with app.app_context(), transaction():
            administration.delete(data["users"][0]["id"])
    assert found == ["user1", "user2", "user3", "user4", "user5"]
    assert success(ask(f"role=student&after={after}"))["users"] == []
    assert failure(ask("after=1"), 400, "invalid_request").keys() == {"after"}


def assert_refused(response, *names):
    assert failure(response, 400, "invalid_request").keys() == {*names}, response.request.url


@pytest.mark.asvs("15.3.7")
def test_parameter_that_is_unknown_or_repeated_is_refused_by_name(ask):
    good = {"search": "a", "role": "admin", "isActive": "true", "page": "1", "perPage": "1"}
    for name, value in good.items():
        success(ask(f"{name}={value}"))
        assert_refused(ask(f"{name}={value}&{name}={value}"), name)
    for name in ("per_page", "Page", "id", "search[]", ""):
        assert_refused(ask(f"page=1&{name}=1&{name}=2"), name)


# Filters and search


@on_both
def test_role_and_activity_filter_alone_and_together(find, make_user, clock):
    for name, role in {
        **{"learner": "student", "dropout": "student", "teacher": "instructor"},
        **{"emeritus": "instructor", "retired": "admin"},
    }.items():
        clock.move(seconds=1)
        make_user(name, role=role, is_active=name in ("learner", "teacher"))
    assert find("", role="student") == ["dropout", "learner"]
    assert find("", role="instructor") == ["emeritus", "teacher"]
    assert find("", role="admin") == ["retired", "headmaster"]
    assert find("", isActive="true") == ["teacher", "learner", "headmaster"]
    assert find("", isActive="false") == ["retired", "emeritus", "dropout"]
    assert find("", role="admin", isActive="false") == ["retired"]
    assert find("e", role="instructor", isActive="true") == ["teacher"]
    assert find("emeritus", role="student") == []


@pytest.mark.parametrize("is_strict", [True, False])
@on_both
def test_who_cannot_sign_in_is_listed_with_the_reasons(make_app, make_user, admin, is_strict):
    """The filter is SQL and the words are Python: they say the same."""
    school = ProviderSettings(
        name="school", issuer="https://id.example", client_id="a", client_secret="b"
    )
    strict = make_app(require_verified_email=is_strict, oidc_providers=(school,))
    client = strict.test_client()
    nobody, own = {"password_hash": "!"}, {"email_verified_at": clock.utcnow()}
    made = {
        "fine": own,
        "child": {"email": "child@class.invalid"},
        "unproven": {},
        "out": {**own, "is_active": False},
        "new": {**own, **nobody},
        "linked": {**own, **nobody, "identity": "https://id.example 1"},
        "left": {**own, **nobody, "identity": "https://ID.example 1"},
        "md5": {**own, "password_hash": "md5:x"},
        "all": {**nobody, "is_active": False},
    }
    for name, values in made.items():
        make_user(name, **values)

    def listed(query):
        users = success(client.get(f"/api/users?{query}", headers=admin.headers))["users"]
        return {user["username"]: user["hindrances"] for user in users}

    unproven = ["email_unverified"] if is_strict else []
    expected = {"headmaster": unproven, "unproven": unproven, "out": ["inactive"]}
    expected |= {"new": ["no_password"], "left": ["no_password"]}
    expected["all"] = ["inactive", *unproven, "no_password"]
    expected = {name: words for name, words in expected.items() if words}
    assert listed("hindered=true") == expected
    everybody = listed("")
    assert {name: words for name, words in everybody.items() if words} == expected
    assert everybody.keys() == made.keys() | {"headmaster"}
    for wrong in ("false", "1", ""):
        answer = client.get(f"/api/users?hindered={wrong}", headers=admin.headers)
        assert_refused(answer, "hindered")


@on_both
def test_a_list_of_names_numbers_and_addresses_finds_each_of_them(find, make_user):
    make_user("lena", external_id="S-1")
    make_user("tom")
    make_user("s-1")
    assert {*find("", anyOf=" LENA ,tom@EXAMPLE.org,,nobody, ")} == {"lena", "tom"}
    assert {*find("", anyOf="S-1")} == {"lena", "s-1"}  # one line may fit two people
    assert find("lena", anyOf="lena,tom") == ["lena"]
    assert find("", anyOf="len,%,not an@address@") == find("", anyOf=",") == []


def test_a_list_has_a_hundred_names_at_most(ask, make_user):
    make_user("last")
    names = [f"name-{number}" for number in range(99)]
    assert success(ask(f"anyOf={','.join([*names, 'last'])}"))["total"] == 1
    assert_refused(ask(f"anyOf={','.join([*names, 'one', 'last'])}"), "anyOf")


@on_both
def test_each_word_of_a_search_is_part_of_a_username_an_address_or_a_name(find, make_user):
    make_user("other")
    names = {"first_name": "Augústa", "last_name": "King-Noël"}
    make_user("Ada.L-1", email="lovelace@analytical.example", **names)
    for search in (
        *("Ada.L-1", "DA.L-", "LOVELACE@", "analytical.ex", "gust", "AUGUSTA", "g-n"),
        *("Augusta King-Noel", "KING-NOÊL augu\u0301sta", "  ta ki  ", "1 love king 1"),
    ):
        assert find(search) == ["Ada.L-1"], search
    assert len(find("")) == len(find(" \u00a0\u2003")) == 3
    # Parts of none of them, though two of them together might hold it.
    for search in ("1love", "exampleaugusta", "augustaking", "ada other"):
        assert find(search) == [], search


@pytest.mark.parametrize(
    ("name", "searches"),
    [
        ("Ärger", ["ärger", "ÄRGER", "äRg", "A\u0308rger"]),
        ("Groß", ["groß", "GROSS", "gross", "GROẞ", "ß"]),
        ("Σίσυφος", ["σίσυφος", "ΣΊΣΥΦΟΣ", "σίσυφοσ", "ΣΥΦΟΣ"]),
        ("İpek", ["İpek", "İPEK", "i\u0307pek", "ipek", "IPEK", "pek"]),
        ("Iş\u0131k", ["Iş\u0131k", "IŞIK", "\u0131ş\u0131k", "ş\u0131k", "Ş\u0131"]),
        ("Καΐρης", ["Καΐρης", "Καΐρης".upper(), "καΐρησ"]),
        ("\uff21\uff44\uff41", ["Ada", "ADA", "\uff41\uff44\uff41"]),
        ("李小龍", ["小龍", "李"]),
    ],
)
@on_both
def test_search_knows_no_case_in_any_script(find, make_user, name, searches):
    make_user("other", first_name="Nobody", last_name="Else")
    make_user("somebody", email="x@y.example", first_name=name, last_name="Z")
    for search in searches:
        assert find(search, role="student") == ["somebody"], search


@pytest.mark.asvs("1.2.4")
@on_both
def test_signs_are_taken_literally(find, make_user):
    make_user("plain", first_name="Plain", last_name="Name")
    signs = ["%", "_", "\\", "/", "*", "?", "[a]", "'", '"', "$", "--", "^"]
    for number, sign in enumerate(signs):
        make_user(f"signed{number}", first_name=f"Si{sign}gn", last_name="Ed")
        for search in (sign, f"i{sign}g", f"SI{sign}GN ED"):
            assert find(search) == [f"signed{number}"], search
        for search in (f"{sign}{sign}", f"p{sign}n", f"si{sign}ed"):
            assert find(search) == [], search


@on_both
def test_longest_search_is_as_long_as_the_longest_address(ask, make_user):
    address = f"{'a' * 64}@{'b' * 63}.{'c' * 63}.{'d' * 57}.org"
    make_user("longest", email=address)
    assert success(ask(f"search={address}"))["total"] == 1
    # Some characters are escaped, and one becomes eighteen when it is folded.
    for char in ("x", "%", "/", "\ufdfa", "\U0001f600"):
        quoted = "".join(f"%{byte:02x}" for byte in char.encode())
        assert success(ask(f"search={quoted * 254}"))["total"] == 0
        assert_refused(ask(f"search={quoted * 255}"), "search")


# Changes


def test_change_of_role_ends_all_sessions(app, client, auth, alter, make_user, log_in):
    user = make_user("teacher")
    sessions = [log_in(user), log_in(user)]
    response = alter(user, role="instructor")
    assert response.get_json()["message"] == "The account is changed."
    data = success(response)
    assert data.keys() == FIELDS
    assert (data["id"], data["role"], data["isActive"]) == (user.id, "instructor", True)
    for session in sessions:
        assert_ended(client, session)
    success(verify(client, auth))
    assert success(verify(client, log_in(user)))["user"]["role"] == "instructor"
    assert len(rows(app, DeniedSession)) == 2


def test_deactivated_account_is_out_at_once_until_it_is_activated(client, alter, auth, log_in):
    sessions = [auth, log_in(auth.user)]
    assert success(alter(auth.user, isActive=False))["isActive"] is False
    for session in sessions:
        assert_ended(client, session)
    failure(login(client, auth.user), 403, "account_inactive")
    assert success(alter(auth.user, isActive=True))["isActive"] is True
    for session in sessions:
        assert_ended(client, session)
    success(verify(client, log_in(auth.user)))


def test_what_cannot_be_changed_is_refused_by_name(app, auth, alter):
    before = stored(app, auth.user)
    for changes in ({"id": UNKNOWN_ID}, {"role": "root"}, {"emailVerified": False}):
        response = alter(auth.user, **{"role": "admin", "isActive": False, **changes})
        assert failure(response, 400, "invalid_request").keys() == changes.keys()
    assert stored(app, auth.user) == before


def test_unknown_user_is_not_found(alter, remove, make_user):
    make_user()
    unknown = SimpleNamespace(id=UNKNOWN_ID)
    for response in (alter(unknown), alter(unknown, role="instructor"), remove(unknown)):
        assert failure(response, 404, "user_not_found") == {}


UNCHANGED = {"role": "student", "isActive": True, "firstName": "First"}
UNCHANGED |= {"username": "student", "email": "student@example.org"}


@pytest.mark.parametrize("changes", [{}, UNCHANGED], ids=len)
def test_what_changes_nothing_ends_no_session_and_sends_no_mail(
    app, client, auth, alter, changes, outbox
):
    before, log = stored(app, auth.user), Log()
    data = success(alter(auth.user, **changes))
    assert (data["id"], data["role"], data["isActive"]) == (auth.user.id, "student", True)
    assert outbox.waiting() == []
    assert "accounts.security" not in log.text()
    assert stored(app, auth.user) == before
    success(verify(client, auth))
    success(refresh(client, auth))


# The last admin


def delete_own(client, _user, session):
    return delete_account(client, session)


def patch(**changes):
    def act(client, user, session):
        return client.patch(f"/api/users/{user.id}", json=changes, headers=session.headers)

    return act


ACTS = {
    "demote": patch(role="student"),
    "deactivate": patch(isActive=False),
    "delete": lambda client, user, session: client.delete(
        f"/api/users/{user.id}", headers=session.headers
    ),
    "delete own": delete_own,
}


@pytest.mark.parametrize(
    "second", [None, {"role": "admin", "is_active": False}, {"role": "instructor"}]
)
def test_last_active_admin_stays(app, client, admin, alter, remove, make_user, outbox, second):
    if second:
        make_user("second", **second)
    before = stored(app, admin)
    for changes in (
        *({"role": "student"}, {"role": "instructor"}, {"isActive": False}),
        *({"role": "student", "isActive": is_active} for is_active in (False, True)),
        {"role": "admin", "isActive": False},
    ):
        assert failure(alter(admin, **changes), 409, "last_admin") == {}
    for response in (remove(admin), delete_account(client, admin)):
        assert failure(response, 409, "last_admin") == {}
        assert response.get_json()["message"] == errors.LastAdmin.message
    assert stored(app, admin) == before
    assert outbox.waiting() == []
    # Nothing is in the way of what leaves the admin one, and the session has not ended.
    success(alter(admin, role="admin", isActive=True))


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_one_of_two_admins_may_go(app, client, admin, make_user, log_in, act):
    second = make_user("second", role="admin")
    success(act(client, admin, admin))
    failure(verify(client, admin), 401, "token_revoked")
    failure(act(client, second, log_in(second)), 409, "last_admin")
    assert active_admins(app) == {second.id}


@on_postgres
@pytest.mark.parametrize("act", ["patch", "delete"])
def test_service_key_waits_for_a_promotion_and_then_leaves_the_admin_alone(
    app, make_user, make_key, act
):
    user, headers = make_user(), bearer(make_key("users:write"))
    options = {"json": {"isActive": False}} if act == "patch" else {}
    call = getattr(app.test_client(), act)
    call = functools.partial(call, f"/api/users/{user.id}", headers=headers, **options)
    failure(while_changing(app, user, {"role": "admin"}, call), 403, "forbidden")
    assert stored(app, user).is_active


@on_postgres
def test_delivery_of_a_service_key_waits_for_a_promotion_and_is_refused(app, make_user, make_key):
    user, headers = make_user(), bearer(make_key("learning:write"))
    url, course = f"/api/users/{user.id}/courses/python", {"name": "Python", "lessons": 2}
    put = functools.partial(app.test_client().put, url, json=course, headers=headers)
    failure(while_changing(app, user, {"role": "admin"}, put), 403, "forbidden")
    assert rows(app, Course) == []


@on_postgres
@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_who_removes_an_admin_waits_for_the_removal_of_the_other(
    app, admin, make_user, log_in, act
):
    """Both would see two admins, and leave none."""
    second = make_user("second", role="admin")
    caller = admin if act is delete_own else log_in(second)
    remove = functools.partial(act, app.test_client(), admin, caller)
    failure(while_changing(app, second, {"role": "student"}, remove), 409, "last_admin")
    assert active_admins(app) == {admin.id}


@on_postgres
def test_activation_waits_for_a_deactivation_on_its_way(app, alter, make_user):
    """Else it would see an active account, and change nothing."""
    user = make_user()
    act = functools.partial(alter, user, isActive=True)
    success(while_changing(app, user, {"is_active": False}, act))
    assert stored(app, user).is_active
