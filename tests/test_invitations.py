"""Who may open an account, accounts made for others, and links to hand over."""

import functools
from datetime import timedelta
from types import SimpleNamespace

import pytest
from endpoints import UNKNOWN_ID
from helpers import (
    NEW_PASSWORD,
    PASSWORD,
    assert_ended,
    bearer,
    choose,
    execute,
    failure,
    login,
    on_both,
    on_postgres,
    register,
    registration,
    rows,
    set_user,
    stored,
    success,
    while_changing,
)
from sqlalchemy import delete

from core.clock import parse_rfc3339
from core.passwords import Hasher
from core.roles import Role
from models import User


@pytest.fixture
def create(app, admin):
    """Create an account for somebody else, as an admin unless a key does it."""

    def create(username="pupil", *, key=None, app=app, **changes):
        body = registration(username, **changes)
        del body["password"]
        headers = bearer(key) if key else admin.headers
        return app.test_client().post("/api/users", json=body, headers=headers)

    return create


@pytest.fixture
def pupil(create):
    """An account without a password; its invitation waits to be sent."""
    return SimpleNamespace(**success(create(), 201)["user"])


@pytest.fixture
def ask_link(app, admin):
    def ask_link(user_id, deliver="link", app=app, **more):
        url, body = f"/api/users/{user_id}/access-link", {"deliver": deliver, **more}
        return app.test_client().post(url, json=body, headers=admin.headers)

    return ask_link


def token_of(link):
    page, _, token = link.partition("#token=")
    assert page == "https://school.test/reset-password"
    return token


# Who may register


def test_closed_registration_is_refused_before_any_hashing(make_app, monkeypatch):
    def hash_nothing(*_):
        raise AssertionError("hashed")

    monkeypatch.setattr(Hasher, "hash", hash_nothing)
    app = make_app(registration="closed")
    failure(register(app.test_client()), 403, "registration_closed")
    assert rows(app, User) == []


@pytest.mark.parametrize(
    ("domains", "allowed", "refused"),
    [
        ("school.example", ["a@school.example", "b@SCHOOL.example"], "a@x.school.example"),
        ("*.school.example", ["a@b.school.example", "a@c.b.school.example"], "a@school.example"),
        ("xn--mller-kva.example", ["a@m\u00fcller.example"], "a@mueller.example"),
        ("a.example,b.example", ["x@a.example", "x@b.example"], "x@b.example.org"),
    ],
)
def test_only_listed_domains_may_register(make_app, domains, allowed, refused):
    client = make_app(registration_domains=tuple(domains.split(","))).test_client()
    for number, email in enumerate(allowed):
        success(register(client, f"one{number}", email=email), 201)
    response = register(client, "other", email=refused)
    (reason,) = failure(response, 400, "invalid_request")["email"]
    assert all(domain in reason for domain in domains.split(","))


def test_domains_do_not_concern_accounts_made_for_others(make_app, create, run):
    app = make_app(registration="closed", registration_domains=("school.example",))
    success(create(app=app), 201)


def test_options_tell_what_a_form_must_know(client, make_app):
    usual = {"registration": "open", "registrationDomains": [], "passwordMinLength": 8}
    usual |= {"emailVerificationRequired": False, "providers": [], "passkeys": True}
    usual |= {"customFields": []}
    assert success(client.get("/api/auth/options")) == usual
    domains = ("school.example", "*.school.example")
    settings = {"registration": "closed", "registration_domains": domains}
    settings |= {"password_min_length": 12, "require_verified_email": True, "passkeys": "none"}
    strict = make_app(**settings).test_client()
    told = {"registration": "closed", "registrationDomains": [*domains], "passwordMinLength": 12}
    told |= {"emailVerificationRequired": True, "passkeys": False}
    assert success(strict.get("/api/auth/options")) == usual | told


# Accounts for others


def test_invited_user_chooses_a_password_and_is_verified(app, client, create, outbox, admin):
    data = success(create(language="fr", timezone="Europe/Paris", role="instructor"), 201)
    assert data.keys() == {"user"}
    user = data["user"]
    assert (user["role"], user["isActive"]) == ("instructor", True)
    assert (user["emailVerified"], user["hasPassword"]) == (False, False)
    (row,) = rows(app, User, id=user["id"])
    assert (row.language, row.timezone) == ("fr", "Europe/Paris")
    assert outbox.waiting() == [("invitation", "pupil@example.org")]
    failure(login(client, "pupil@example.org", NEW_PASSWORD), 401, "invalid_credentials")
    failure(login(client, "pupil@example.org", row.password_hash), 401, "invalid_credentials")
    assert success(choose(client, outbox.deliver_token())) == {}
    success(login(client, "pupil@example.org", NEW_PASSWORD))
    (shown,) = success(client.get("/api/users?search=pupil", headers=admin.headers))["users"]
    assert (shown["emailVerified"], shown["hasPassword"]) == (True, True)


def test_link_is_handed_over_once_and_proves_no_address(app, client, create, outbox, clock):
    data = success(create(deliver="link"), 201)
    left = parse_rfc3339(data["expiresAt"]) - clock.utcnow()
    assert timedelta(days=6, hours=23) < left <= timedelta(days=7)
    assert outbox.waiting() == []
    token = token_of(data["link"])
    success(choose(client, token))
    success(login(client, "pupil@example.org", NEW_PASSWORD))
    failure(choose(client, token, PASSWORD), 400, "invalid_token")
    assert data["user"]["emailVerified"] is False
    assert rows(app, User, id=data["user"]["id"])[0].email_verified_at is None
    assert outbox.waiting() == [("password_changed", "pupil@example.org")]


def test_maker_of_an_account_may_vouch_for_its_address(create):
    assert success(create(emailVerified=True), 201)["user"]["emailVerified"] is True


def test_malformed_account_is_refused_by_name(create):
    for changes in ({"role": "root"}, {"deliver": "fax"}, {"username": "ab"}):
        assert failure(create(**changes), 400, "invalid_request").keys() == changes.keys()


def test_key_makes_accounts_but_no_admins_and_no_links(app, client, create, make_key, outbox):
    key = make_key("users:write")
    for changes in ({"role": "admin"}, {"deliver": "link"}):
        failure(create(key=key, **changes), 403, "forbidden")
    assert len(rows(app, User)) == 1
    user = success(create(key=key, role="instructor"), 201)["user"]
    assert outbox.waiting() == [("invitation", user["email"])]


# Links for those who have none


def test_new_link_replaces_all_earlier_ones_of_an_account_without_a_password(
    client, pupil, ask_link, outbox
):
    invitation = outbox.deliver_token()
    success(ask_link(pupil.id, "mail"))
    first = token_of(success(ask_link(pupil.id))["link"])
    assert outbox.deliver() == []  # the invitation that waited is withdrawn
    second = token_of(success(ask_link(pupil.id))["link"])
    for token in (invitation, first):
        failure(choose(client, token), 400, "invalid_token")
    success(choose(client, second))


@on_postgres
def test_new_link_waits_for_a_password_that_is_being_stored(app, pupil, ask_link, clock):
    ask = functools.partial(ask_link, pupil.id)
    data = success(while_changing(app, pupil, {"password_hash": "a hash"}, ask))
    left = parse_rfc3339(data["expiresAt"]) - clock.utcnow()
    assert left <= timedelta(hours=24)
    assert stored(app, pupil).password_hash == "a hash"


def test_another_invitation_leaves_the_earlier_one_good(client, pupil, ask_link, outbox):
    first = outbox.deliver_token()
    assert success(ask_link(pupil.id, "mail")) == {}
    second = outbox.deliver_token()
    success(choose(client, first))
    failure(choose(client, second), 400, "invalid_token")


@pytest.mark.parametrize(
    ("verified", "role", "hours"),
    [(True, "student", 1), (False, "instructor", 1), (False, "student", 24)],
)
def test_link_for_an_account_with_a_password_lives_an_hour_beside_it_or_a_day_on_paper(
    app, client, make_user, log_in, ask_link, outbox, clock, verified, role, hours
):
    user = make_user(role=role, email_verified_at=clock.utcnow() if verified else None)
    session = log_in(user)
    data = success(ask_link(user.id))
    left = parse_rfc3339(data["expiresAt"]) - clock.utcnow()
    assert timedelta(minutes=60 * hours - 1) < left <= timedelta(hours=hours)
    notices = [("access_link_made", user.email)] if verified else []
    assert outbox.waiting() == notices
    success(login(client, user))
    success(choose(client, token_of(data["link"])))
    assert_ended(client, session)
    failure(login(client, user), 401, "invalid_credentials")
    assert bool(stored(app, user).email_verified_at) == verified
    second = success(ask_link(user.id))
    proofs = {"token": token_of(second["link"])}, {"account": user.email, "code": second["code"]}
    clock.move(minutes=60 * hours - 1)
    for minutes, code in ((0, "weak_password"), (62, "invalid_token")):
        clock.move(minutes=minutes)
        for proof in proofs:
            body = {**proof, "newPassword": "password1"}
            failure(client.post("/api/auth/reset-password", json=body), 400, code)


@pytest.mark.parametrize("is_verified", [True, False])
def test_link_that_replaces_a_password_lives_as_one_beside_it(
    app, client, make_user, ask_link, outbox, clock, is_verified
):
    """The user learns of it, also where the password is removed at the same time."""
    user = make_user(email_verified_at=clock.utcnow() if is_verified else None)
    made = success(ask_link(user.id, replacePassword=True))
    assert outbox.waiting() == [("access_link_made", user.email)] * is_verified
    clock.move(minutes=62, hours=1)
    for proof in ({"token": token_of(made["link"])}, {"account": user.email, "code": made["code"]}):
        body = {**proof, "newPassword": "password1"}
        answer = client.post("/api/auth/reset-password", json=body)
        failure(answer, 400, "invalid_token" if is_verified else "weak_password")


@pytest.mark.parametrize("deliver", ["link", "mail"])
def test_link_after_a_password_was_replaced_is_announced_and_brief_too(
    app, client, make_user, ask_link, outbox, clock, deliver
):
    user = make_user(email_verified_at=clock.utcnow())
    success(ask_link(user.id, deliver, replacePassword=True))
    outbox.deliver()
    token = token_of(success(ask_link(user.id))["link"])
    assert outbox.waiting() == [("access_link_made", user.email)]
    clock.move(minutes=59)
    failure(choose(client, token, "password1"), 400, "weak_password")
    clock.move(minutes=2)
    failure(choose(client, token), 400, "invalid_token")


@pytest.mark.parametrize("deliver", ["link", "mail"])
def test_password_that_somebody_knows_is_replaced_at_once(
    client, auth, log_in, ask_link, outbox, clock, deliver
):
    user, thief = auth.user, log_in(auth.user)
    body = {"newEmail": "thief@example.org", "password": user.password}
    success(client.post("/api/users/email", json=body, headers=thief.headers))
    outbox.deliver()
    earlier = token_of(success(ask_link(user.id))["link"])
    data = success(ask_link(user.id, deliver, replacePassword=True))
    failure(login(client, user), 401, "invalid_credentials")
    for session in (auth, thief):
        assert_ended(client, session)
    failure(choose(client, earlier), 400, "invalid_token")
    if deliver == "mail":
        assert outbox.waiting() == [("invitation", user.email)]
        token = outbox.deliver_token()
    else:
        left = parse_rfc3339(data["expiresAt"]) - clock.utcnow()
        assert left > timedelta(days=6)
        token = token_of(data["link"])
    success(choose(client, token))
    new = log_in(SimpleNamespace(email=user.email, password=NEW_PASSWORD))
    state = success(client.get("/api/users/email", headers=new.headers))
    assert (state["email"], state["pendingEmail"]) == (user.email, "")


@pytest.mark.asvs("6.4.1")
def test_invitation_and_link_live_as_many_days_as_the_settings_say(
    make_app, create, outbox, clock, monkeypatch
):
    app = make_app(invitation_days=2)
    success(create(app=app), 201)
    outbox._app = app
    token = outbox.deliver_token()
    link = token_of(success(create("other", app=app, deliver="link"), 201)["link"])
    clock.move(days=1, hours=23)
    success(choose(app.test_client(), link))
    clock.move(hours=1)
    failure(choose(app.test_client(), token), 400, "invalid_token")


def test_nobody_makes_a_link_for_an_admin_over_http(app, make_user, ask_link, outbox, run, client):
    other = make_user("other", role="admin")
    for deliver in ("link", "mail"):
        failure(ask_link(other.id, deliver, replacePassword=True), 403, "forbidden")
    assert outbox.waiting() == []
    success(login(client, other))
    printed, code = run("users", "access-link", "other", "--replace-password")
    assert code == 0
    failure(login(client, other), 401, "invalid_credentials")
    success(choose(client, token_of(printed.splitlines()[-1])))


def test_unknown_and_inactive_users_get_no_link(make_user, ask_link, outbox, run):
    inactive = make_user("gone", is_active=False)
    for user_id in (UNKNOWN_ID, inactive.id):
        for deliver in ("link", "mail"):
            failure(ask_link(user_id, deliver), 404, "user_not_found")
    assert outbox.waiting() == []
    assert run("users", "access-link", "gone")[1] == 1


def test_link_changes_nothing_if_the_address_changes_during_the_hash(
    app, client, pupil, outbox, during_the_hash
):
    token = outbox.deliver_token()
    during_the_hash(lambda: set_user(app, pupil, email="moved@example.org"), "hash")
    failure(choose(client, token), 400, "invalid_token")
    assert stored(app, pupil).password_hash.startswith("!")


# flask users


def test_command_invites_or_prints_a_link(app, client, run, outbox):
    names = ["--first-name", "First", "--last-name", "Last"]
    one = ["--username", "one", "--email", "one@example.org", *names]
    assert run("users", "create", *one, "--invite")[1] == 0
    assert outbox.waiting() == [("invitation", "one@example.org")]
    assert rows(app, User, username="one")[0].email_verified_at is None
    success(choose(client, outbox.deliver_token()))
    outbox.deliver()
    two = ["--username", "two", "--email", "two@example.org", *names]
    printed, code = run("users", "create", *two, "--link", "--role", "admin")
    assert code == 0
    success(choose(client, token_of(printed.splitlines()[-1])))
    assert rows(app, User, username="two")[0].role == Role.ADMIN
    both = ["--username", "x" * 3, "--email", "x@example.org", *names, "--link", "--invite"]
    assert run("users", "create", *both)[1] == 2
    assert len(rows(app, User)) == 2


# Limits


@on_both
def test_fourth_account_for_an_address_within_an_hour_gets_no_invitation(
    make_app, create, outbox, app
):
    limited = make_app(ratelimit_enabled=True)
    taken = {"username": "headmaster", "email": "pupil@example.org", "app": limited}
    failure(create(**taken), 409, "username_taken")  # which does not count
    for _ in range(4):
        success(create(app=limited), 201)
        execute(app, delete(User).where(User.username == "pupil"))
    assert outbox.waiting() == [("invitation", "pupil@example.org")] * 3
