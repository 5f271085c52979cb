"""What admins, teachers and service keys read and correct about one account."""

import functools
from datetime import UTC, datetime

import pytest
from authenticator import enter, set_up
from helpers import (
    assert_ended,
    bearer,
    execute,
    failure,
    login,
    on_both,
    on_postgres,
    race,
    registration,
    set_user,
    stored,
    success,
    while_doing,
)
from sqlalchemy import delete

from models import Counter
from services import users

CORRECTIONS = {"username": "Renamed", "firstName": "Ada", "lastName": "L", "language": "de"}
PERSON = {key: value for key, value in registration().items() if key != "password"}


@pytest.fixture
def admin(make_user, log_in):
    return log_in(make_user("headmaster", role="admin")).headers


@pytest.fixture
def patch(client, admin):
    def patch(user, headers=None, **changes):
        url = f"/api/users/{user.id}"
        return client.patch(url, json=changes, headers=headers or admin)

    return patch


# Reading one account


def test_account_says_why_its_user_cannot_log_in(make_app, make_user, log_in):
    client = make_app(ratelimit_enabled=True).test_client()
    admin = log_in(make_user("headmaster", role="admin")).headers
    user = make_user(language="fr", timezone="Europe/Paris")
    url = f"/api/users/{user.id}/account"
    account = success(client.get(url, headers=admin))
    (listed,) = success(client.get("/api/users?username=student", headers=admin))["users"]
    more = {"language": "fr", "timezone": "Europe/Paris", "provider": "", "secondFactor": False}
    more |= {"passkeys": 0, "groups": [], "lockedUntil": None, "hindrances": []}
    assert account == {**listed, **more}
    for _ in range(10):
        login(client, user, "wrong")
    locked = success(client.get(url, headers=admin))
    assert (bool(locked["lockedUntil"]), locked["hindrances"]) == (True, ["locked"])
    unlimited = make_app().test_client()
    assert success(unlimited.get(url, headers=admin))["lockedUntil"] is None
    success(client.delete(f"/api/users/{user.id}/failed-logins", headers=admin))
    assert success(client.get(url, headers=admin))["lockedUntil"] is None


def test_hindrances_are_named_in_their_order(app, make_app, client, make_user, log_in, clock):
    client = make_app(require_verified_email=True, ratelimit_enabled=True).test_client()
    now = clock.utcnow()
    admin = log_in(make_user("head", role="admin", email_verified_at=now)).headers

    def hindrances(user):
        account = success(client.get(f"/api/users/{user.id}/account", headers=admin))
        assert bool(account["lockedUntil"]) == bool(
            {*account["hindrances"]} & {"locked", "second_factor_locked"}
        )
        return account["hindrances"]

    user = make_user("pupil", email_verified_at=now)
    phone = set_up(client, log_in(user), user, clock)
    for _ in range(20):
        failure(enter(client, user, phone.wrong()), 400, "wrong_code")
        execute(app, delete(Counter))
    assert hindrances(user) == ["second_factor_locked"]
    for _ in range(10):
        login(client, user, "wrong")
    set_user(app, user, is_active=False, email_verified_at=None, password_hash="md5:x")
    words = ["inactive", "email_unverified", "unknown_hash", "locked", "second_factor_locked"]
    assert hindrances(user) == words
    set_user(app, user, is_active=True, password_hash="!")
    assert hindrances(user) == ["email_unverified", "no_password", *words[3:]]
    # Nobody can prove an address without a mailbox, so nobody is asked to.
    child = make_user("child", email="child@class.invalid")
    assert hindrances(child) == []
    success(login(client, child))


# Correcting an account


def test_admins_and_keys_correct_names_language_and_zone(app, make_user, make_key, patch, outbox):
    user = make_user()
    account = success(patch(user, **CORRECTIONS))
    assert account == account | {k: v for k, v in CORRECTIONS.items() if k != "language"}
    row = stored(app, user)
    assert (row.username_key, row.language) == ("renamed", "de")
    assert outbox.waiting() == [("username_changed", user.email)]
    success(patch(user, bearer(make_key("users:write")), timezone="Asia/Tokyo", username="again"))
    assert stored(app, user).timezone == "Asia/Tokyo"
    assert len(outbox.waiting()) == 2


def test_taken_names_and_addresses_are_refused_and_change_nothing(app, make_user, patch):
    user, other = make_user(), make_user("other")
    problems = failure(patch(user, username="OTHER", firstName="Ada"), 409, "username_taken")
    assert problems.keys() == {"username"}
    assert failure(patch(user, email=other.email, firstName="Ada"), 409, "email_taken").keys()
    problems = failure(patch(user, username="other", email=other.email), 409, "username_taken")
    assert problems.keys() == {"username", "email"}
    assert stored(app, user).first_name == "First"


@on_both
def test_one_of_two_accounts_gets_a_name(client, make_user, patch):
    users = [make_user("one"), make_user("two")]
    statuses = race(lambda number: patch(users[number], username="wanted").status_code, 2)
    assert sorted(statuses) == [200, 409]


def test_new_address_holds_at_once_and_is_not_verified(
    app, client, make_user, log_in, patch, outbox, clock
):
    user = make_user(email_verified_at=clock.utcnow())
    session = log_in(user)
    account = success(patch(user, email="New@Example.org"))
    assert (account["email"], account["emailVerified"]) == ("new@example.org", False)
    assert outbox.waiting() == [("email_changed", user.email)]
    (notice,) = outbox.deliver()
    assert "#token=" not in notice.get_body().get_content()
    assert_ended(client, session)
    user.email = "new@example.org"
    success(patch(user, email="newer@example.org", emailVerified=True))
    assert stored(app, user).email_verified_at
    assert outbox.waiting() == []  # the address before was nobody's for sure
    # Of both changes, the address hears that is the user's for sure.
    success(patch(user, email="newest@example.org", username="renamed"))
    notices = {("username_changed", "newer@example.org"), ("email_changed", "newer@example.org")}
    assert {*outbox.waiting()} == notices


SOME_TIME = datetime(2026, 1, 1, tzinfo=UTC)
USED = {"last_login_at": SOME_TIME, "identity": "https://provider.example 1", "role": "instructor"}
USED |= {"password_hash": "md5:x"}  # one that nobody can log in with is a password too


@pytest.mark.parametrize("column", USED)
def test_a_key_changes_the_address_of_students_who_were_never_here(
    app, make_user, patch, make_key, outbox, clock, column
):
    key = bearer(make_key("users:write"))
    user = make_user(password_hash="!", email_verified_at=clock.utcnow())
    account = success(patch(user, key, email="new@example.org"))
    assert (account["email"], account["emailVerified"]) == ("new@example.org", False)
    assert outbox.waiting() == [("email_changed", user.email)]
    success(patch(user, key, email="newer@example.org", emailVerified=True))
    assert stored(app, user).email_verified_at
    set_user(app, user, **{column: USED[column]})
    before = stored(app, user)
    names = {"firstName": "Other", "username": "other"}
    failure(patch(user, key, email="newest@example.org", **names), 403, "forbidden")
    assert (stored(app, user), len(outbox.waiting())) == (before, 1)


@on_postgres
def test_a_key_that_waits_for_a_first_login_changes_no_address(app, make_user, patch, make_key):
    key, user = bearer(make_key("users:write")), make_user(password_hash="!")

    def log_in():
        users.update(user.id, last_login_at=SOME_TIME)

    change = functools.partial(patch, user, key, email="new@example.org", firstName="Other")
    failure(while_doing(app, log_in, change), 403, "forbidden")
    row = stored(app, user)
    assert (row.email, row.first_name, row.last_login_at) == (user.email, "First", SOME_TIME)


def test_address_of_an_admin_is_changed_on_the_machine_only(make_user, patch, make_key):
    head, user = make_user("head", role="admin"), make_user()
    failure(patch(head, email="new@example.org"), 403, "forbidden")
    key = bearer(make_key("users:write"))
    failure(patch(user, key, email="new@example.org"), 403, "forbidden")
    success(patch(head, firstName="Ada"))
    failure(patch(head, key, firstName="Ada"), 403, "forbidden")


# Teachers


@pytest.fixture
def school(make_app):
    """The service of a school whose teachers help their students."""
    return make_app(instructor_rights="students").test_client()


@pytest.fixture
def teacher(make_user, log_in):
    return log_in(make_user("teacher", role="instructor")).headers


@on_both
def test_teachers_see_students_and_make_their_links_only_where_the_setting_says_so(
    client, school, make_user, teacher, admin
):
    pupil, colleague = make_user("pupil"), make_user("colleague", role="instructor")
    data = success(school.get("/api/users", headers=teacher))
    assert ([user["username"] for user in data["users"]], data["total"]) == (["pupil"], 1)
    assert success(school.get("/api/users?role=admin", headers=teacher))["users"] == []
    success(school.get(f"/api/users/{pupil.id}/account", headers=teacher))
    failure(school.get(f"/api/users/{colleague.id}/account", headers=teacher), 403, "forbidden")
    link = {"json": {"deliver": "link"}, "headers": teacher}
    made = success(school.post(f"/api/users/{pupil.id}/access-link", **link))
    assert made.keys() == {"link", "code", "qrCode", "expiresAt"}
    failure(school.post(f"/api/users/{colleague.id}/access-link", **link), 403, "forbidden")
    assert success(school.get("/api/users", headers=admin))["total"] == 4


def test_keys_neither_give_nor_take_the_role_that_makes_links(client, school, make_user, make_key):
    key, pupil = bearer(make_key("users:write")), make_user()
    colleague = make_user("colleague", role="instructor")
    body = {**PERSON, "role": "instructor"}
    failure(school.post("/api/users", json=body, headers=key), 403, "forbidden")
    for user, role in ((pupil, "instructor"), (colleague, "student")):
        url = f"/api/users/{user.id}"
        failure(school.patch(url, json={"role": role}, headers=key), 403, "forbidden")
    success(school.patch(f"/api/users/{colleague.id}", json={"isActive": False}, headers=key))
    # Where they make none, a key may choose.
    success(client.patch(f"/api/users/{colleague.id}", json={"role": "student"}, headers=key))
    success(client.post("/api/users", json=body, headers=key), 201)
