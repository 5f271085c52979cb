"""A second factor is set up, used, replaced and removed by its user, or reset by others."""

import re
from types import SimpleNamespace

import pytest
from authenticator import URL, Authenticator, begin, enter, set_up
from endpoints import UNKNOWN_ID
from helpers import (
    PASSWORD,
    SECRET,
    assert_ended,
    failure,
    on_both,
    race,
    refresh,
    rows,
    stored,
    success,
    verify,
)
from sqlalchemy import delete, update

from config import ROOT
from core import totp
from database import transaction
from models import SecondFactor, User, UserSession
from services import second_factor

OFF = {"enabled": False, "since": None, "recoveryCodesLeft": 0, "required": False}


@pytest.fixture
def protected(client, auth, clock):
    """A user with a second factor: `user`, `headers` of a session, `app`."""
    return SimpleNamespace(**vars(auth), app=set_up(client, auth, auth.user, clock))


def status(client, session):
    return success(client.get(URL, headers=session.headers))


def confirm(client, session, code):
    return client.post(f"{URL}/confirm", json={"code": code}, headers=session.headers)


def ask(client, session, code=None, *, password=PASSWORD, method="DELETE", path=""):
    body = {"password": password} | ({} if code is None else {"secondFactor": code})
    return client.open(URL + path, method=method, json=body, headers=session.headers)


def new_codes(client, session, code):
    return ask(client, session, code, method="POST", path="/recovery-codes")


def subjects(outbox):
    return [mail["Subject"] for mail in outbox.deliver()]


# Setting it up


@on_both
def test_second_factor_is_set_up_with_its_first_code(app, client, auth, log_in, clock, outbox):
    other = log_in(auth.user)
    assert status(client, auth) == OFF
    made = success(ask(client, auth, method="POST"))
    assert re.fullmatch("[A-Z2-7]{32}", made["secret"])
    account = "otpauth://totp/school.test:student%40example.org"
    assert made["uri"] == f"{account}?secret={made['secret']}&issuer=school.test"
    assert made["qrCode"].startswith("<svg")
    assert status(client, auth) == OFF
    version = stored(app, auth.user).password_version
    phone = Authenticator(made["secret"])
    code = phone.code()
    recovery_codes = success(confirm(client, auth, code))["recoveryCodes"]
    assert len({*recovery_codes}) == 10
    for each in recovery_codes:
        assert re.fullmatch("[0-9A-HJKMNP-TV-Z]{5}-[0-9A-HJKMNP-TV-Z]{5}", each)
    now = status(client, auth)
    assert now == {**OFF, "enabled": True, "since": now["since"], "recoveryCodesLeft": 10}
    assert stored(app, auth.user).password_version == version + 1
    assert_ended(client, other)
    assert subjects(outbox) == ["Your account has a second factor now"]
    # The first code is spent.
    failure(enter(client, auth.user, code), 400, "wrong_code")


def test_new_key_replaces_one_that_waits(client, auth):
    old, new = begin(client, auth, auth.user), begin(client, auth, auth.user)
    failure(confirm(client, auth, old.code()), 400, "wrong_code")
    success(confirm(client, auth, new.code()))


def test_key_waits_for_a_quarter_of_an_hour(client, auth, log_in, clock):
    failure(confirm(client, auth, "000000"), 400, "invalid_token")
    phone = begin(client, auth, auth.user)
    clock.move(minutes=15)
    failure(confirm(client, log_in(auth.user), phone.code()), 400, "invalid_token")


def test_setting_up_needs_the_password_and_no_second_one(client, auth, protected):
    failure(ask(client, protected, method="POST", password="wrong"), 400, "wrong_password")
    failure(ask(client, protected, method="POST"), 409, "second_factor_exists")
    failure(confirm(client, protected, protected.app.code()), 400, "invalid_token")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (update(User).values(password_version=9), (400, "invalid_token")),
        (delete(UserSession), (401, "token_revoked")),
    ],
)
def test_factor_is_not_confirmed_on_an_account_that_has_changed(
    app, client, auth, monkeypatch, change, error
):
    phone, judge = begin(client, auth, auth.user), totp.step_of

    def slow(*arguments, **options):
        with transaction() as session:
            session.execute(change)
        return judge(*arguments, **options)

    monkeypatch.setattr(totp, "step_of", slow)
    failure(confirm(client, auth, phone.code()), *error)
    assert stored(app, auth.user).second_factor_at is None


@on_both
def test_parallel_confirmations_turn_one_factor_on(client, auth, outbox):
    phone = begin(client, auth, auth.user)
    answers = race(lambda _: confirm(client, auth, phone.code()).status_code)
    assert sorted(answers) == [200, *15 * [400]]
    assert len(outbox.deliver()) == 1


# Changing and removing it


def test_new_recovery_codes_replace_the_old_ones(app, client, protected, outbox):
    outbox.deliver()
    version = stored(app, protected.user).password_version
    made = success(new_codes(client, protected, protected.app.recovery_codes[0]))["recoveryCodes"]
    assert not {*made} & {*protected.app.recovery_codes}
    assert status(client, protected)["recoveryCodesLeft"] == 10
    assert stored(app, protected.user).password_version == version + 1
    told = ["One of your recovery codes was used", "You have new recovery codes"]
    assert subjects(outbox) == told
    old = protected.app.recovery_codes[1]
    failure(enter(client, protected.user, old), 400, "wrong_code")
    success(enter(client, protected.user, made[1]))


@pytest.mark.asvs("6.5.6")
def test_removal_leaves_the_password(app, client, protected, outbox):
    outbox.deliver()
    other = success(enter(client, protected.user, protected.app.recovery_codes[0]))
    version = stored(app, protected.user).password_version
    success(ask(client, protected, protected.app.code()))
    assert status(client, protected) == OFF
    assert rows(app, SecondFactor) == []
    assert stored(app, protected.user).password_version == version + 1
    failure(verify(client, other["accessToken"]), 401, "token_revoked")
    failure(refresh(client, other["refreshToken"]), 401, "token_revoked")
    assert subjects(outbox)[1:] == ["The second factor of your account was removed"]
    success(enter(client, protected.user))


def test_nothing_is_replaced_or_removed_without_a_factor(client, auth):
    begin(client, auth, auth.user)
    failure(new_codes(client, auth, "000000"), 404, "not_found")
    failure(ask(client, auth, "000000"), 404, "not_found")
    failure(ask(client, auth, password="wrong"), 400, "wrong_password")


# When all is lost


def test_admin_resets_the_factor_of_a_user(app, client, protected, make_user, log_in, outbox):
    admin = log_in(make_user("admin", role="admin")).headers
    version = stored(app, protected.user).password_version
    outbox.deliver()
    url = f"/api/users/{protected.user.id}/second-factor"
    success(client.delete(url, headers=admin))
    assert_ended(client, protected)
    assert stored(app, protected.user).password_version == version + 1
    assert rows(app, SecondFactor) == []
    assert subjects(outbox) == ["The second factor of your account was removed"]
    failure(client.delete(url, headers=admin), 404, "not_found")
    unknown = url.replace(protected.user.id, UNKNOWN_ID)
    failure(client.delete(unknown, headers=admin), 404, "user_not_found")


def test_factor_of_an_admin_is_reset_on_the_machine_only(
    app, client, make_user, log_in, clock, run
):
    admin = make_user("admin", role="admin")
    session = log_in(admin)
    set_up(client, session, admin, clock)
    url = f"/api/users/{admin.id}/second-factor"
    failure(client.delete(url, headers=session.headers), 403, "forbidden")
    printed = "admin has no second factor any more.\n"
    assert run("users", "reset-second-factor", "admin") == (printed, 0)
    assert_ended(client, session)
    log_in(admin)
    printed = "Error: This account has no second factor.\n"
    assert run("users", "reset-second-factor", "admin") == (printed, 1)


def test_admins_and_the_machine_see_who_has_a_factor(client, protected, make_user, log_in, run):
    admin = make_user("admin", role="admin")
    headers = log_in(admin).headers

    def account(user):
        return success(client.get(f"/api/users/{user.id}/account", headers=headers))

    assert account(protected.user)["secondFactor"] is True
    assert account(admin)["secondFactor"] is False
    shown, _ = run("users", "show", protected.user.id)
    assert "second factor: yes, 10 recovery codes left\n" in shown
    assert "second factor: no\n" in run("users", "show", admin.id)[0]


def test_export_says_whether_there_is_a_factor(client, auth, clock):
    def exported():
        data = success(client.get("/api/users/export", headers=auth.headers))
        return data["secondFactor"]

    assert exported() == {"enabled": False, "since": None}
    set_up(client, auth, auth.user, clock)
    assert exported() == {"enabled": True, "since": status(client, auth)["since"]}


# What is stored


@pytest.mark.asvs("6.5.1", "6.5.2", "6.5.3", "6.5.4")
def test_stored_seed_opens_for_its_own_account_only(app, client, protected, make_user, run, caplog):
    (row,) = rows(app, SecondFactor)
    assert protected.app.key not in row.sealed
    other = make_user("other", second_factor_at=row.confirmed_at)
    with app.app_context(), transaction() as session:
        session.add(SecondFactor(**{**row._asdict(), "user_id": other.id}))
    for code in (protected.app.code(), protected.app.recovery_codes[0]):
        failure(enter(client, other, code), 400, "wrong_code")
    assert caplog.messages.count(f"no key opens the second factor of account {other.id}") == 2
    assert "second factor: yes, but no key opens it\n" in run("users", "show", other.id)[0]
    failure(enter(client, other), 403, "second_factor_required")


@on_both
def test_factor_follows_a_rotation_of_the_key(app, make_app, client, protected, clock):
    new = "another key for the tests, which is as long as the first of them is"
    rotating = make_app(secret_key=new, secret_key_fallbacks=(SECRET,))
    alone = make_app(secret_key=new)
    success(enter(rotating.test_client(), protected.user, protected.app.code()))
    clock.move(seconds=totp.STEP)
    failure(enter(alone.test_client(), protected.user, protected.app.code()), 400, "wrong_code")
    # The docs say so for a leaked key; the service does it by itself after any other change.
    docs = (ROOT / "docs/operations.md").read_text()
    (command,) = re.findall("^SECRET_KEY=new SECRET_KEY_FALLBACKS=old flask (.+?) +#", docs, re.M)
    prune = rotating.test_cli_runner().invoke(args=command.split())
    assert "second_factors: 1 sealed with the newest key" in prune.output
    success(enter(alone.test_client(), protected.user, protected.app.code()))
    with rotating.app_context():
        assert second_factor.seal_anew() == 0
    success(enter(alone.test_client(), protected.user, protected.app.recovery_codes[3]))
