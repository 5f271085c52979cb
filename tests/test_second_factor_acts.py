"""A code stands beside the current password wherever that is asked for, and serves one act."""

from types import SimpleNamespace

import pytest
from authenticator import URL, begin, enter, set_up
from endpoints import API, UNKNOWN_ID
from helpers import (
    PASSWORD,
    Log,
    choose,
    failure,
    forgot,
    on_both,
    race,
    rows,
    set_user,
    statements_of,
    success,
    token_in,
    words,
)
from passkey_device import URL as PASSKEYS
from passkey_device import Device
from passkey_device import begin as begin_passkey

from core.totp import STEP
from database import transaction
from models import Passkey, SecondFactor, User, UserSession

NEW_PASSWORD = "Purple-Lamp-Steel-77"


@pytest.fixture
def protected(app, client, auth, clock):
    """A user with a second factor and a passkey: `user`, `headers` of a session, `app`."""
    phone = set_up(client, auth, auth.user, clock)
    passkey = {"credential_id": b"x" * 16, "public_key": b"", "name": ""}
    with app.app_context(), transaction() as session:
        session.add(Passkey(id=UNKNOWN_ID, user_id=auth.user.id, **passkey))
    return SimpleNamespace(**vars(auth), app=phone)


ACTS = {
    "login": ("POST", "/api/auth/login", {"email": "student@example.org"}),
    "password": ("PUT", "/api/users/password", {"newPassword": NEW_PASSWORD}),
    "email": ("POST", "/api/users/email", {"newEmail": "new@example.org"}),
    "username": ("PUT", "/api/users/username", {"username": "newname"}),
    "own name": ("PUT", "/api/users/username", {"username": "student"}),
    "recovery codes": ("POST", f"{URL}/recovery-codes", {}),
    "removal": ("DELETE", URL, {}),
    "passkey": ("POST", PASSKEYS, {}),
    "passkey's removal": ("DELETE", f"{PASSKEYS}/{{passkeyId}}", {}),
    "deletion": ("DELETE", "/api/users/account", {"confirmation": "DELETE_MY_ACCOUNT"}),
}
STATUS = {"passkey": 201}
every_act = pytest.mark.parametrize("act", ACTS)


def test_every_call_with_a_current_password_is_an_act():
    asking = {
        f"{endpoint.method} {endpoint.documented}"
        for endpoint in API
        if endpoint.operation.body and "second_factor" in endpoint.operation.body().fields
    }
    assert asking == {f"{method} {url}" for method, url, _ in ACTS.values()}


def do(client, session, act, code=None, *, password=PASSWORD, **changes):
    method, url, body = ACTS[act]
    field = "currentPassword" if act == "password" else "password"
    body = {**body, field: password, **changes}
    if code is not None:
        body["secondFactor"] = code
    headers = {} if act == "login" else session.headers
    if act == "passkey":
        body["credential"] = Device().create(begin_passkey(client, session))
    return client.open(url.format(passkeyId=UNKNOWN_ID), method=method, json=body, headers=headers)


def wrong_codes(app):
    return [row.wrong_codes for row in rows(app, SecondFactor)]


@pytest.mark.asvs("7.5.1")
@every_act
def test_act_needs_a_code_after_the_password(app, client, protected, act):
    before = rows(app, User)
    failure(do(client, protected, act, "surprise" * 9), 400, "invalid_request")
    wrong = do(client, protected, act, protected.app.code(), password="wrong")
    failure(wrong, *((401, "invalid_credentials") if act == "login" else (400, "wrong_password")))
    for missing in (None, "", "  "):
        response = do(client, protected, act, missing)
        assert failure(response, 403, "second_factor_required").keys() == {"secondFactor"}
    response = do(client, protected, act, protected.app.wrong())
    assert failure(response, 400, "wrong_code").keys() == {"secondFactor"}
    assert words(response) == {"secondFactor": ["wrong"]}
    assert rows(app, User) == before
    assert wrong_codes(app) == [1]
    code = protected.app.code()
    success(do(client, protected, act, f" {code[:3]} {code[3:]} "), STATUS.get(act, 200))


@every_act
def test_recovery_code_does_once_what_a_code_of_the_app_does(client, protected, act):
    code = protected.app.recovery_codes[4]
    success(do(client, protected, "email", code.lower().replace("-", "")))
    failure(do(client, protected, act, code), 400, "wrong_code")
    success(do(client, protected, act, protected.app.recovery_codes[5]), STATUS.get(act, 200))


@pytest.mark.asvs("6.5.1", "6.5.2", "6.5.3", "6.5.4")
@every_act
def test_code_serves_one_act(client, protected, act):
    code = protected.app.code()
    success(do(client, protected, "email", code))
    failure(do(client, protected, act, code), 400, "wrong_code")
    failure(do(client, protected, act, protected.app.code(-STEP)), 400, "wrong_code")


@pytest.mark.parametrize("act", ["login", "password", "username", "recovery codes"])
def test_code_of_an_act_is_spent(client, protected, act):
    code = protected.app.code()
    success(do(client, protected, act, code))
    password = NEW_PASSWORD if act == "password" else PASSWORD
    failure(do(client, protected, "deletion", code, password=password), 400, "wrong_code")


@on_both
def test_failed_act_spends_no_code(app, client, protected, make_user):
    make_user("taken")
    code, recovery_code = protected.app.code(), protected.app.recovery_codes[0]
    for typed in (code, recovery_code):
        for act, change, error in [
            ("email", {"newEmail": "taken@example.org"}, (409, "email_taken")),
            ("username", {"username": "taken"}, (409, "username_taken")),
            ("password", {"newPassword": "password1"}, (400, "weak_password")),
        ]:
            failure(do(client, protected, act, typed, **change), *error)
            # What the password and the code are for is not told before both are right.
            wrong = do(client, protected, act, protected.app.wrong(), **change)
            failure(wrong, 400, "wrong_code")
    assert wrong_codes(app) == [6]
    success(do(client, protected, "username", recovery_code))
    assert wrong_codes(app) == [6]
    success(do(client, protected, "deletion", code))


def test_account_without_a_factor_is_asked_for_nothing(app, client, auth):
    for typed in (None, "", "000000"):
        with statements_of(app) as sent:
            success(enter(client, auth.user, typed))
        assert "second_factors" not in str(sent)
    success(do(client, auth, "username", "000000"))


def test_password_judged_before_the_factor_does_not_log_in_after_it(
    client, auth, clock, during_the_hash
):
    during_the_hash(lambda: set_up(client, auth, auth.user, clock))
    failure(enter(client, auth.user), 401, "invalid_credentials")


def test_factor_confirmed_while_another_page_begins_stays(
    app, client, auth, clock, during_the_hash
):
    during_the_hash(lambda: set_up(client, auth, auth.user, clock))
    answer = client.post(URL, json={"password": PASSWORD}, headers=auth.headers)
    failure(answer, 400, "wrong_password")
    (factor,) = rows(app, SecondFactor)
    assert factor.confirmed_at


# Guesses


@pytest.mark.asvs("6.5.1", "6.5.2", "6.5.3", "6.5.4")
@pytest.mark.parametrize("kind", ["code", "recovery code"])
@on_both
def test_one_code_opens_one_session(app, client, protected, kind):
    typed = protected.app.code() if kind == "code" else protected.app.recovery_codes[9]
    answers = race(lambda _: enter(client, protected.user, typed))
    assert sorted(answer.status_code for answer in answers) == [200, *15 * [400]]
    for answer in answers:
        if answer.status_code == 400:
            failure(answer, 400, "wrong_code")
    assert len(rows(app, UserSession)) == 2


@on_both
def test_parallel_guesses_are_all_counted(app, client, protected):
    race(lambda _: failure(enter(client, protected.user, protected.app.wrong()), 400, "wrong_code"))
    assert wrong_codes(app) == [16]


@pytest.fixture
def guess(client, protected):
    """Enter so many wrong codes."""

    def guess(number):
        for _ in range(number):
            failure(enter(client, protected.user, protected.app.wrong()), 400, "wrong_code")

    return guess


@on_both
def test_after_twenty_wrong_codes_six_digits_wait_for_the_end_of_a_day(
    app, make_app, client, protected, guess, clock
):
    client = make_app(log_format="json").test_client()
    log = Log()
    guess(1)
    clock.move(hours=1)
    guess(19)
    for digits in (protected.app.code(), protected.app.wrong()):
        refused = enter(client, protected.user, digits)
        failure(refused, 429, "too_many_requests")
        assert 22.9 * 3600 < int(refused.headers["Retry-After"]) <= 23 * 3600
    events = [line["message"] for line in log.events()]
    assert events.count("second_factor_locked") == 1
    assert events.count("limit_reached") == 2
    assert wrong_codes(app) == [21]
    # A recovery code cannot be guessed. A right one does not let six digits in again.
    failure(enter(client, protected.user, "AAAAA-AAAAA"), 400, "wrong_code")
    success(enter(client, protected.user, protected.app.recovery_codes[0]))
    failure(enter(client, protected.user, protected.app.code()), 429, "too_many_requests")
    clock.move(hours=23)
    success(enter(client, protected.user, protected.app.code()))


def test_mistakes_before_the_first_code_count_for_no_factor(app, client, auth, clock, outbox):
    phone = begin(client, auth, auth.user)
    for _ in range(21):
        body = {"code": phone.wrong()}
        answer = client.post(f"{URL}/confirm", json=body, headers=auth.headers)
        failure(answer, 400, "wrong_code")
    success(client.post(f"{URL}/confirm", json={"code": phone.code()}, headers=auth.headers))
    assert wrong_codes(app) == [0]
    clock.move(seconds=STEP)
    (told,) = outbox.deliver()
    assert told["Subject"] == "Your account has a second factor now"
    failure(enter(client, auth.user, phone.wrong()), 400, "wrong_code")
    success(enter(client, auth.user, phone.code()))
    assert [row.window_ends_at is None for row in rows(app, SecondFactor)] == [False]
    assert outbox.deliver() == []


def test_a_right_code_opens_no_window(app, client, protected):
    success(enter(client, protected.user, protected.app.code()))
    assert [row.window_ends_at for row in rows(app, SecondFactor)] == [None]


def test_right_codes_neither_count_nor_clear_the_wrong_ones(app, client, protected, guess, clock):
    guess(19)
    for _ in range(3):
        success(enter(client, protected.user, protected.app.code()))
        clock.move(seconds=STEP)
    guess(1)
    failure(enter(client, protected.user, protected.app.code()), 429, "too_many_requests")


@pytest.mark.parametrize("role", ["student", "admin"])
def test_only_an_unlocked_account_forgets_wrong_codes(
    app, client, protected, guess, outbox, run, admin, clock, role
):
    user = protected.user
    set_user(app, user, role=role, email_verified_at=clock.utcnow())
    guess(20)
    success(forgot(client, user.email))
    (mail,) = (mail for mail in outbox.deliver() if mail["Subject"] == "Choose a new password")
    success(choose(client, token_in(mail), user.password))
    assert run("users", "access-link", user.id)[1] == 0
    failure(enter(client, user, protected.app.code()), 429, "too_many_requests")
    success(client.delete(f"/api/users/{user.id}/failed-logins", headers=admin.headers))
    assert (wrong_codes(app) == [0]) is (role == "student")
    assert run("users", "unlock", user.id)[1] == 0
    assert wrong_codes(app) == [0]


def test_user_is_told_that_somebody_knows_the_password_once_in_a_window(
    protected, guess, clock, outbox
):
    def told_after(number):
        guess(number)
        return [mail["Subject"] for mail in outbox.deliver()]

    outbox.deliver()
    assert told_after(4) == []
    assert told_after(1) == ["Someone knows your password"]
    assert told_after(15) == []
    clock.move(days=1)
    assert told_after(4) == []
    assert told_after(1) == ["Someone knows your password"]


def test_user_is_told_how_many_recovery_codes_are_left(client, protected, outbox):
    outbox.deliver()
    success(enter(client, protected.user, protected.app.recovery_codes[0]))
    success(enter(client, protected.user, protected.app.recovery_codes[1]))
    texts = [mail.get_body(("plain",)).get_content() for mail in outbox.deliver()]
    assert "Unused codes left: 9." in texts[0]
    assert "Unused codes left: 8." in texts[1]
