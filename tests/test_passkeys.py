"""Passkeys: a way in that was added with password and code, and counts as both."""

from uuid import UUID

import pytest
from authenticator import enter, set_up
from helpers import (
    NEW_PASSWORD,
    PASSWORD,
    SECRET,
    assert_ended,
    bearer,
    change_password,
    choose,
    failure,
    forgot,
    login,
    on_both,
    on_postgres,
    race,
    rows,
    set_user,
    statements_of,
    stored,
    success,
    verify,
    while_doing,
)
from passkey_device import URL, Device, add, ask, begin, encode, send, send_new, sign_in

from core.totp import STEP
from models import DeniedSession, Passkey, UserSession
from services import accounts, administration, second_factor, sessions, users

FACTOR = "/api/auth/second-factor"


def listed(client, session):
    return success(client.get(URL, headers=bearer(session)))["passkeys"]


def remove(client, session, passkey, **more):
    body = {"password": PASSWORD, **more}
    return client.delete(f"{URL}/{passkey['id']}", json=body, headers=bearer(session))


def refused(response):
    failure(response, 401, "invalid_credentials")


@pytest.fixture
def device():
    return Device()


@pytest.fixture
def passkey(client, auth, device):
    """The passkey of the user of `auth`, on `device`."""
    return add(client, auth, device)


@pytest.fixture
def boss(make_user, log_in):
    return log_in(make_user("boss", role="admin"))


@on_both
def test_passkey_opens_the_account_without_naming_it(app, client, auth, passkey, device, clock):
    assert passkey["lastUsedAt"] is None
    clock.move(minutes=10)
    options = ask(client)
    assert options.keys() == {"challenge", "rpId", "userVerification", "timeout"}
    assert (options["rpId"], options["userVerification"]) == ("school.test", "required")
    response = send(client, device.get(options))
    data = success(response)
    assert data["user"]["id"] == auth.user.id
    assert success(verify(client, data["accessToken"]))["valid"]
    (row,) = listed(client, auth)
    assert row == {**passkey, "lastUsedAt": row["lastUsedAt"]}
    assert row["lastUsedAt"] > row["createdAt"]


def test_options_for_a_login_ask_no_database(app, client):
    with statements_of(app) as sent:
        ask(client)
    assert sent == []
    assert rows(app, DeniedSession) == []


def test_options_for_a_new_passkey_exclude_the_own_ones(client, auth, passkey, device):
    options = begin(client, auth)
    assert options["rp"] == {"id": "school.test", "name": "school.test"}
    selection = options["authenticatorSelection"]
    assert selection["residentKey"] == selection["userVerification"] == "required"
    assert [kind["alg"] for kind in options["pubKeyCredParams"]] == [-7, -257]
    (own,) = options["excludeCredentials"]
    assert own["id"] == passkey["credentialId"] == encode(next(iter(device.keys)))
    assert options["user"]["id"] == encode(UUID(auth.user.id).bytes)


def test_a_login_answers_as_any_other_and_may_keep_the_token_in_a_cookie(client, passkey, device):
    headers = {"X-Refresh-Cookie": "1"}
    body = {"passkey": device.get(ask(client))}
    response = client.post("/api/auth/login", json=body, headers=headers)
    assert success(response)["refreshToken"] == ""
    assert "__Host-refresh" in response.headers["Set-Cookie"]


def test_name_is_the_own_one_or_the_makers(client, auth, passkey, device):
    assert passkey["name"] == ""
    device.aaguid = bytes.fromhex("bada5566a7aa401fbd9645619a55120d")
    assert add(client, auth, device)["name"] == "1Password"
    assert add(client, auth, device, name=" Key ")["name"] == "Key"
    assert [each["name"] for each in listed(client, auth)] == ["", "1Password", "Key"]


def test_passkey_is_renamed(client, auth, passkey):
    url = f"{URL}/{passkey['id']}"
    named = success(client.put(url, json={"name": "My phone"}, headers=auth.headers))
    assert named == {**passkey, "name": "My phone"} == listed(client, auth)[0]
    for name in ("", "x" * 65):
        put = client.put(url, json={"name": name}, headers=auth.headers)
        failure(put, 400, "invalid_request")


def test_removal_ends_the_other_sessions_and_mails_tell_of_both(
    client, auth, passkey, device, log_in, outbox
):
    other, opened = log_in(auth.user), success(sign_in(client, device))
    success(remove(client, auth, passkey))
    assert_ended(client, other)
    failure(verify(client, opened["accessToken"]), 401, "token_revoked")
    assert listed(client, auth) == []
    refused(sign_in(client, device))
    failure(remove(client, auth, passkey), 404, "not_found")
    subjects = [mail["Subject"] for mail in outbox.deliver()]
    assert subjects == ["Your account has a new passkey", "A passkey of your account was removed"]


def test_support_sees_how_many(client, auth, passkey, boss, run):
    url = f"/api/users/{auth.user.id}/account"
    assert success(client.get(url, headers=boss.headers))["passkeys"] == 1
    assert "\npasskeys: 1\n" in run("users", "show", "student")[0]


# The second factor.


@pytest.fixture
def phone(client, auth, clock):
    """The authenticator app of the user of `auth`."""
    return set_up(client, auth, auth.user, clock)


def test_passkey_stands_for_the_code_that_it_was_added_with(client, auth, phone, device):
    add(client, auth, device, secondFactor=phone.code())
    success(sign_in(client, device))
    success(send(client, device.get(ask(client)), secondFactor=phone.wrong()))
    failure(enter(client, auth.user), 403, "second_factor_required")


def test_a_refused_passkey_spends_no_code(client, auth, phone, device):
    code, made = phone.code(), device.create(begin(client, auth))
    bad = {**made, "response": {**made["response"], "attestationObject": "AA"}}
    failure(send_new(client, auth, bad, secondFactor=code), 400, "invalid_token")
    success(send_new(client, auth, made, secondFactor=code), 201)


def test_first_code_of_a_factor_removes_all_and_its_removal_none(
    client, auth, passkey, device, clock
):
    phone = set_up(client, auth, auth.user, clock)
    assert listed(client, auth) == []
    refused(sign_in(client, device))
    other = Device()
    add(client, auth, other, secondFactor=phone.code())
    clock.move(seconds=STEP)
    body = {"password": PASSWORD, "secondFactor": phone.code()}
    success(client.post(f"{FACTOR}/recovery-codes", json=body, headers=auth.headers))
    clock.move(seconds=STEP)
    body["secondFactor"] = phone.code()
    success(client.delete(FACTOR, json=body, headers=auth.headers))
    success(sign_in(client, other))


@pytest.mark.parametrize("with_factor", [True, False])
@pytest.mark.parametrize("by", ["admin", "operator"])
def test_reset_removes_factor_and_passkeys(client, auth, device, clock, boss, run, with_factor, by):
    code = {}
    if with_factor:
        code = {"secondFactor": set_up(client, auth, auth.user, clock).code()}
    add(client, auth, device, **code)
    url = f"/api/users/{auth.user.id}/second-factor"
    if by == "admin":
        success(client.delete(url, headers=boss.headers))
    else:
        assert run("users", "reset-second-factor", "student")[1] == 0
    failure(verify(client, auth), 401, "token_revoked")
    refused(sign_in(client, device))
    failure(client.delete(url, headers=boss.headers), 404, "not_found")


def test_passkey_is_no_second_factor(make_app, make_user, device, clock):
    client = make_app(require_second_factor="admin").test_client()
    user = make_user("boss", role="admin")
    session = success(login(client, user))["accessToken"]
    add(client, session, device)
    opened = success(sign_in(client, device))
    assert opened["user"]["role"] == "student"
    listing = client.get("/api/users", headers=bearer(opened["accessToken"]))
    failure(listing, 403, "second_factor_required")
    phone, other = set_up(client, session, user, clock), Device()
    add(client, session, other, secondFactor=phone.code())
    assert success(sign_in(client, other))["user"]["role"] == "admin"


# What ends passkeys, and what does not.


def test_changed_password_removes_all_and_the_notice_says_so(client, auth, passkey, device, outbox):
    outbox.deliver()
    success(change_password(client, auth, new=PASSWORD))
    assert listed(client, auth) == []
    refused(sign_in(client, device))
    assert "passkeys" in outbox.deliver()[-1].get_body(("plain",)).get_content()
    success(change_password(client, auth))
    assert "passkeys" not in outbox.deliver()[-1].get_body(("plain",)).get_content()


def test_chosen_password_removes_all(client, auth, passkey, device, outbox):
    outbox.deliver()
    forgot(client, auth.user.email)
    success(choose(client, outbox.deliver_token(), NEW_PASSWORD))
    refused(sign_in(client, device))
    assert "passkeys" in outbox.deliver()[-1].get_body(("plain",)).get_content()


@pytest.mark.parametrize("replaces", [True, False])
def test_access_link_removes_all_only_with_the_password(
    client, auth, passkey, device, boss, replaces
):
    url, body = f"/api/users/{auth.user.id}/access-link", {"deliver": "link"}
    body["replacePassword"] = replaces
    success(client.post(url, json=body, headers=boss.headers))
    answer = sign_in(client, device)
    refused(answer) if replaces else success(answer)


def test_deactivated_account_keeps_them_and_a_deleted_one_does_not(
    app, client, auth, passkey, device, boss
):
    url = f"/api/users/{auth.user.id}"
    success(client.patch(url, json={"isActive": False}, headers=boss.headers))
    failure(sign_in(client, device), 403, "account_inactive")
    success(client.patch(url, json={"isActive": True, "role": "instructor"}, headers=boss.headers))
    assert success(sign_in(client, device))["user"]["role"] == "instructor"
    success(client.delete(url, headers=boss.headers))
    refused(sign_in(client, device))
    assert rows(app, Passkey) == []


def test_new_hash_of_the_same_password_removes_none(app, make_app, auth, passkey, device):
    client = make_app(bcrypt_rounds=5).test_client()
    success(login(client, auth.user))
    success(sign_in(client, device))


def test_unverified_address_is_asked_for_after_the_passkey(make_app, passkey, device):
    client = make_app(require_verified_email=True).test_client()
    failure(sign_in(client, device), 403, "email_unverified")


def test_nobodys_failed_logins_shut_out_a_passkey(make_app, auth, passkey, device):
    client = make_app(ratelimit_enabled=True).test_client()
    for _ in range(10):
        login(client, auth.user, "wrong-password")
    failure(login(client, auth.user), 429, "too_many_requests")
    success(sign_in(client, device))


def test_refused_passkeys_count_as_logins_a_minute_alone(make_app, auth, passkey, device):
    client = make_app(ratelimit_enabled=True, logins_per_minute=12).test_client()
    for _ in range(11):
        refused(sign_in(client, device, origin="https://evil.test"))
    success(login(client, auth.user))
    failure(sign_in(client, device), 429, "too_many_requests")


# Challenges.


@pytest.mark.asvs("6.7.2")
def test_assertion_works_once_and_so_does_its_challenge(client, passkey, device):
    options = ask(client)
    first, second = device.get(options), device.get(options)
    success(send(client, first))
    failure(send(client, first), 400, "invalid_token")
    failure(send(client, second), 400, "invalid_token")


def test_refused_login_uses_nothing_up(app, client, auth, passkey, device):
    assertion = device.get(ask(client))
    set_user(app, auth.user, is_active=False)
    failure(send(client, assertion), 403, "account_inactive")
    set_user(app, auth.user, is_active=True)
    success(send(client, assertion))


def test_challenge_ends_after_five_minutes(client, auth, passkey, device, clock):
    early, late = device.get(ask(client)), device.get(ask(client))
    made = Device().create(begin(client, auth))
    clock.move(seconds=298)
    success(send(client, early))
    clock.move(seconds=2)
    failure(send(client, late), 400, "invalid_token")
    failure(send_new(client, auth, made), 400, "invalid_token")


def test_challenge_is_for_one_use_and_one_user(client, auth, passkey, device, log_in, make_user):
    failure(send(client, device.get(begin(client, auth))), 400, "invalid_token")
    options = ask(client) | {"user": {"id": encode(UUID(auth.user.id).bytes)}}
    failure(send_new(client, auth, Device().create(options)), 400, "invalid_token")
    other = log_in(make_user("other"))
    failure(send_new(client, other, Device().create(begin(client, auth))), 400, "invalid_token")


@pytest.mark.parametrize(
    ("challenge", "status"), [("", 400), ("x", 401), ("YQ", 400), ("_w", 400), ("é", 401), (1, 401)]
)
def test_challenge_that_is_not_ours_signs_nobody_in(client, passkey, device, challenge, status):
    code = {400: "invalid_token", 401: "invalid_credentials"}[status]
    failure(send(client, device.get({"challenge": challenge})), status, code)


def test_challenge_of_a_fallback_key_is_good(make_app, client, passkey, device):
    assertion, other = device.get(ask(client)), "another key, also quite long: 32 bytes"
    rotated = make_app(secret_key=other, secret_key_fallbacks=(SECRET,)).test_client()
    success(send(rotated, assertion))
    alone = make_app(secret_key=other).test_client()
    failure(send(alone, device.get(ask(client))), 400, "invalid_token")


# Whose passkey it is.


def test_passkey_of_one_user_opens_no_account_of_another(
    client, passkey, device, make_user, log_in
):
    other, theirs = make_user("other"), Device()
    added = add(client, log_in(other), theirs)
    by_handle, by_id = device.get(ask(client)), device.get(ask(client))
    by_handle["response"]["userHandle"] = encode(UUID(other.id).bytes)
    by_id["id"] = added["credentialId"]
    refused(send(client, by_handle))
    refused(send(client, by_id))


def test_passkeys_of_others_are_not_there(client, passkey, make_user, log_in):
    other = log_in(make_user("other"))
    assert listed(client, other) == []
    url = f"{URL}/{passkey['id']}"
    failure(client.put(url, json={"name": "x"}, headers=other.headers), 404, "not_found")
    failure(remove(client, other, passkey), 404, "not_found")


@on_both
def test_passkey_belongs_to_one_account(client, auth, passkey, device, make_user, log_in):
    for session in (auth, log_in(make_user("other"))):
        made = Device().create(begin(client, session), id_=next(iter(device.keys)))
        failure(send_new(client, session, made), 409, "passkey_taken")
    assert len(listed(client, auth)) == 1


# Forms, and the order of refusals.


@pytest.mark.parametrize(
    "more",
    [{"email": "a@b.example"}, {"password": "x"}, {"provider": {"code": "x", "verifier": "x"}}],
)
def test_passkey_comes_alone(client, passkey, device, more):
    assert failure(send(client, device.get(ask(client)), **more), 400, "invalid_request") == {
        next(iter(more)): ["Send this, or a passkey."]
    }


def test_what_cannot_be_read_is_a_wrong_passkey(client, auth, passkey, device):
    for value in (None, 1, "x", []):
        failure(send(client, value), 400, "invalid_request")
        failure(send_new(client, auth, value), 400, "invalid_request")
    for value in ({}, {"id": 1}, {"id": "AAAA", "response": []}, {"response": {}}):
        refused(send(client, value))
        failure(send_new(client, auth, value), 400, "invalid_token")


def test_what_browsers_add_one_day_is_ignored(client, passkey, device):
    assertion = device.get(ask(client)) | {"future": {"a": 1}}
    assertion["response"]["future"] = None
    failure(send(client, assertion, future=1), 400, "invalid_request")
    success(send(client, assertion))


def test_password_is_judged_before_the_passkey(app, client, auth, device):
    made = device.create(begin(client, auth))
    failure(send_new(client, auth, {}, password="wrong"), 400, "wrong_password")
    failure(send_new(client, auth, made, password="wrong"), 400, "wrong_password")
    success(send_new(client, auth, made), 201)
    set_user(app, auth.user, password_hash="!x")
    failure(send_new(client, auth, {}), 400, "wrong_password")


# Settings.


def test_where_there_are_none_stored_ones_can_still_be_removed(
    make_app, client, auth, passkey, device
):
    assertion, made = device.get(ask(client)), Device().create(begin(client, auth))
    off = make_app(passkeys="none").test_client()
    assert success(off.get("/api/auth/options"))["passkeys"] is False
    failure(off.post(f"{URL}/options"), 404, "not_found")
    refused(send(off, assertion))
    refused(send(off, device.get({"challenge": encode(b"of nobody")})))
    failure(send_new(off, auth, made), 403, "forbidden")
    failure(off.post(URL, json=[], headers=auth.headers), 403, "forbidden")  # whatever it says
    assert begin(off, auth) is None
    assert success(client.get("/api/auth/options"))["passkeys"] is True
    success(send(client, assertion))
    success(remove(off, auth, passkey))


def test_staff_only(make_app, make_user, client, auth, passkey, device):
    made, staff = Device().create(begin(client, auth)), make_app(passkeys="staff").test_client()
    refused(sign_in(staff, device))
    failure(send_new(staff, auth, made), 403, "forbidden")
    assert begin(staff, auth) is None
    tutor, theirs = make_user("tutor", role="instructor"), Device()
    add(staff, success(login(staff, tutor))["accessToken"], theirs)
    success(sign_in(staff, theirs))


def test_passkey_works_with_its_domain_and_on_its_pages_alone(make_app, client, passkey, device):
    here, above = "https://learn.school.test", {"passkey_domain": "school.test"}
    other = make_app(public_url=here).test_client()
    refused(sign_in(other, device, domain="school.test", origin=here))
    moved = make_app(public_url=here, **above).test_client()
    assert ask(moved)["rpId"] == "school.test"
    success(sign_in(moved, device, origin=here))
    refused(sign_in(moved, device))
    app, elsewhere = "https://app.school.test:8443", "https://school.example"
    wide = make_app(cors_origins=(app, elsewhere)).test_client()
    success(sign_in(wide, device, origin=app))
    refused(sign_in(wide, device, origin=elsewhere))


# Races.


@on_both
def test_of_parallel_logins_with_one_assertion_one_wins(app, client, passkey, device):
    assertion = device.get(ask(client))
    statuses = [each.status_code for each in race(lambda _: send(app.test_client(), assertion))]
    assert sorted(statuses) == [200] + [400] * (len(statuses) - 1)
    assert len(rows(app, UserSession)) == 2


@on_both
def test_of_parallel_calls_with_one_new_passkey_one_wins(app, client, auth, device):
    made = device.create(begin(client, auth))
    answers = race(lambda _: send_new(app.test_client(), auth, made))
    statuses = sorted(each.status_code for each in answers)
    assert statuses == [201] + [400] * (len(statuses) - 1)


@on_both
def test_parallel_calls_make_no_more_than_ten(app, client, auth, device):
    made = [device.create(begin(client, auth)) for _ in range(12)]
    answers = race(lambda number: send_new(app.test_client(), auth, made[number]), len(made))
    assert sorted(each.status_code for each in answers) == [201] * 10 + [409] * 2
    assert len(rows(app, Passkey)) == 10
    assert begin(client, auth) is None


ENDS = {
    "removal": lambda user: accounts.drop_passkeys(user.id),
    "password": lambda user: accounts.set_password(user, "!x"),
    "deactivation": lambda user: administration.alter(user.id, is_active=False),
    "role": lambda user: administration.alter(user.id, role="instructor"),
    "reset": lambda user: second_factor.reset(user.id),
    "sessions": lambda user: sessions.end_all(user.id),
}


def meanwhile(app, user, end, act):
    """Do this while a transaction that has locked the user's row does what ends it."""

    def other():
        users.lock(user.id)
        ENDS[end](user)

    return while_doing(app, other, act)


@on_postgres
@pytest.mark.parametrize("end", sorted(ENDS.keys() - {"sessions"}))
def test_login_waits_for_what_ends_its_passkey(app, client, auth, passkey, device, end):
    assertion, row = device.get(ask(client)), stored(app, auth.user)
    before = {session.id for session in rows(app, UserSession)}
    refused(meanwhile(app, row, end, lambda: send(app.test_client(), assertion)))
    assert {session.id for session in rows(app, UserSession)} <= before


@on_postgres
@pytest.mark.parametrize("end", sorted(ENDS.keys() - {"removal"}))
def test_adding_waits_for_what_ends_its_proof(app, client, auth, device, end):
    made, row = device.create(begin(client, auth)), stored(app, auth.user)
    if end == "reset":
        add(client, auth, Device())
    answer = meanwhile(app, row, end, lambda: send_new(app.test_client(), auth, made))
    assert answer.status_code in (400, 401), answer.text
    assert rows(app, Passkey) == []
