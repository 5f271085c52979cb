"""The forgotten password and the verified address, from the mail's token on."""

import pytest
from authenticator import enter, set_up
from helpers import (
    NEW_PASSWORD,
    PASSWORD,
    SHUTTING_OUT,
    alter,
    assert_ended,
    choose,
    failure,
    forgot,
    login,
    on_both,
    race,
    register,
    rows,
    set_user,
    stored,
    success,
    token_in,
)

from core import clock
from models import Event, PendingEmail, SecondFactor, User


def resend(client, email):
    return client.post("/api/auth/resend-verification", json={"email": email})


def confirm(client, token, password=PASSWORD, **options):
    body = {"token": token, "password": password}
    return client.post("/api/auth/verify-email", json=body, **options)


@pytest.fixture
def reset_token(client, auth, outbox):
    success(forgot(client, auth.user.email))
    return outbox.deliver_token()


@pytest.mark.asvs("6.4.3")
def test_forgotten_password_is_replaced(client, auth, outbox, reset_token, log_in):
    other = log_in(auth.user)
    assert success(choose(client, reset_token)) == {}
    failure(login(client, auth.user, auth.user.password), 401, "invalid_credentials")
    for session in (auth, other):
        assert_ended(client, session)
    success(login(client, auth.user, NEW_PASSWORD))
    assert outbox.waiting() == [("password_changed", auth.user.email)]
    (notice,) = outbox.deliver()
    assert notice["To"] == auth.user.email


@pytest.mark.asvs("14.2.1")
@pytest.mark.parametrize(
    ("call", "page"),
    [("forgot-password", "reset-password"), ("resend-verification", "verify-email")],
)
def test_link_is_made_of_the_public_url_and_hides_the_token_in_the_fragment(
    client, auth, outbox, call, page
):
    response = client.post(
        f"/api/auth/{call}",
        json={"email": auth.user.email},
        headers={"Host": "evil.example", "X-Forwarded-Host": "evil.example"},
    )
    success(response)
    (mail,) = outbox.deliver()
    for kind in ("plain", "html"):
        content = mail.get_body((kind,)).get_content()
        assert f"https://school.test/{page}#token=" in content
        assert "evil.example" not in content


def test_answer_is_the_same_for_every_address(client, auth, outbox):
    answers = [forgot(client, email) for email in (auth.user.email, "nobody@example.org")]
    assert answers[0].data == answers[1].data
    assert [kind for kind, _ in outbox.waiting()] == ["password_reset"] * 2
    (mail,) = outbox.deliver()
    assert mail["To"] == auth.user.email
    assert outbox.waiting() == []


def test_address_is_found_in_all_its_forms(client, auth, outbox):
    success(forgot(client, " Student@EXAMPLE.org "))
    assert len(outbox.deliver()) == 1


def test_a_username_gets_the_same_answer_and_its_account_the_mail(client, auth, outbox):
    for name in ("nobody", "Student", " student "):
        answer = forgot(client, name)
        assert answer.data == forgot(client, auth.user.email).data
        outbox.deliver()
    assert [mail["To"] for mail in outbox.delivered] == [auth.user.email] * 5
    success(choose(client, token_in(outbox.delivered[-1])))
    for name in ("a b", "x", "a@b@c"):
        assert failure(forgot(client, name), 400, "invalid_request").keys() == {"email"}


def test_mail_that_was_asked_for_by_username_is_withdrawn_with_the_others(
    client, auth, outbox, admin
):
    success(forgot(client, "student"))
    path = f"/api/users/{auth.user.id}/access-link"
    body = {"deliver": "link", "replacePassword": True}
    success(client.post(path, json=body, headers=admin.headers))
    assert ("password_reset", "student") not in outbox.waiting()


@pytest.mark.parametrize("proof", ["first", "second", "handed over"])
def test_first_proof_of_an_address_removes_a_factor_that_was_there(
    app, client, auth, outbox, clock, run, proof
):
    """Somebody else may have registered the address and set it up."""
    set_up(client, auth, auth.user, clock)
    if proof == "second":
        set_user(app, auth.user, email_verified_at=clock.utcnow())
    outbox.deliver()
    if proof == "handed over":
        token = run("users", "access-link", auth.user.id)[0].split()[0].partition("=")[2]
    else:
        success(forgot(client, auth.user.email))
        token = outbox.deliver_token()
    success(choose(client, token))
    gone = proof == "first"
    assert (rows(app, SecondFactor) == []) is gone
    assert (stored(app, auth.user).second_factor_at is None) is gone
    auth.user.password = NEW_PASSWORD
    assert enter(client, auth.user).status_code == (200 if gone else 403)


@pytest.mark.asvs("2.3.1")
def test_reset_link_works_once(client, reset_token):
    success(choose(client, reset_token))
    failure(choose(client, reset_token, "Yet-Another-Mug-5"), 400, "invalid_token")


@pytest.mark.asvs("2.3.3", "2.3.4")
@on_both
def test_of_many_resets_with_one_link_one_wins(app, client, auth, reset_token, outbox):
    passwords = [f"Kettle-Purple-{number}-Rain" for number in range(16)]
    answers = race(lambda number: choose(app.test_client(), reset_token, passwords[number]))
    assert sorted(answer.status_code for answer in answers) == [200] + [400] * 15
    winner = [answer.status_code for answer in answers].index(200)
    success(login(client, auth.user, passwords[winner]))
    assert outbox.waiting() == [("password_changed", auth.user.email)]


@pytest.mark.parametrize("changes", SHUTTING_OUT, ids=str)
def test_account_that_an_admin_changed_during_the_hash_keeps_its_password(
    app, client, auth, reset_token, during_the_hash, changes
):
    during_the_hash(lambda: alter(app, auth.user, *changes), "hash")
    failure(choose(client, reset_token), 400, "invalid_token")


def test_reset_link_expires(client, auth, reset_token, outbox, clock):
    clock.move(minutes=29)
    assert success(forgot(client, auth.user.email)) == {}
    later = outbox.deliver_token()
    clock.move(minutes=1)
    failure(choose(client, reset_token), 400, "invalid_token")
    clock.move(minutes=28)
    success(choose(client, later))


def test_link_lives_from_when_the_mail_is_sent(client, auth, outbox, clock):
    success(forgot(client, auth.user.email))
    clock.move(minutes=40)  # the mail server was down
    success(choose(client, outbox.deliver_token()))


def test_guessable_password_does_not_spend_the_link(client, auth, reset_token):
    for password in ("password", "student-2024", "short"):
        fields = failure(choose(client, reset_token, password), 400, "weak_password")
        assert fields.keys() == {"newPassword"}
    fields = failure(choose(client, reset_token, "x" * 129), 400, "invalid_request")
    assert fields.keys() == {"newPassword"}
    success(choose(client, reset_token))


def is_verified(app, email="student@example.org"):
    (user,) = rows(app, User, email=email)
    return user.email_verified_at is not None


def test_address_is_verified_once(app, client, outbox):
    success(register(client, "student"), 201)
    token = outbox.deliver_token()
    assert not is_verified(app)
    assert success(confirm(client, token)) == {}
    assert is_verified(app)
    failure(confirm(client, token), 400, "invalid_token")


def test_a_stranger_who_registers_an_address_gets_nothing_by_its_readers_click(
    app, client, auth, outbox, clock
):
    """The stranger has chosen the password, and waits for a code to an address of his own."""
    body = {"newEmail": "own@evil.example", "password": PASSWORD}
    success(client.post("/api/users/email", json=body, headers=auth.headers))
    set_up(client, auth, auth.user, clock)
    outbox.deliver()
    mia = auth.user.email
    resend(client, mia)
    token = outbox.deliver_token()
    assert success(client.post("/api/auth/check-link", json={"token": token}))["hasPassword"]
    for sent in ({}, {"password": ""}, {"password": "one of mia's"}):
        answer = client.post("/api/auth/verify-email", json={"token": token, **sent})
        assert failure(answer, 400, "wrong_password").keys() == {"password"}
    assert not is_verified(app)
    forgot(client, mia)
    success(choose(client, outbox.deliver_token()))
    assert is_verified(app)
    assert_ended(client, auth)
    failure(login(client, mia), 401, "invalid_credentials")
    assert rows(app, SecondFactor) == rows(app, PendingEmail) == []
    success(login(client, mia, NEW_PASSWORD))


@pytest.mark.parametrize("proof", ["session", "no password", "another's session", "ended session"])
def test_a_session_or_no_password_does_in_place_of_the_password(
    app, client, auth, outbox, proof, make_user, log_in
):
    resend(client, auth.user.email)
    token = outbox.deliver_token()
    headers = auth.headers if "session" in proof else {}
    if proof == "no password":
        set_user(app, auth.user, password_hash="!none")
    if proof == "another's session":
        headers = log_in(make_user("other")).headers
    if proof == "ended session":
        success(client.post("/api/auth/logout", headers=headers))
    is_enough = proof in ("session", "no password")
    assert confirm(client, token, "", headers=headers).status_code == (200 if is_enough else 400)
    assert is_verified(app) is is_enough


def test_the_session_of_another_user_has_no_part_in_a_confirmation(
    app, client, auth, outbox, make_user, log_in
):
    resend(client, auth.user.email)
    headers = log_in(make_user("other")).headers
    success(confirm(client, outbox.deliver_token(), headers=headers))
    (event,) = rows(app, Event, type="email_verified")
    assert (event.user_id, event.by) == (auth.user.id, "")


@pytest.mark.parametrize("changes", SHUTTING_OUT, ids=str)
def test_an_address_is_not_confirmed_by_a_password_judged_before_a_change(
    app, client, auth, outbox, during_the_hash, changes
):
    resend(client, auth.user.email)
    token = outbox.deliver_token()
    during_the_hash(lambda: alter(app, auth.user, *changes))
    failure(confirm(client, token), 400, "invalid_token")
    assert not is_verified(app, auth.user.email)


def test_a_confirmation_clears_failed_logins_but_not_past_a_second_factor(
    make_app, make_user, outbox
):
    client = make_app(ratelimit_enabled=True).test_client()
    for name, factor in (("plain", None), ("careful", clock.utcnow())):
        user = make_user(name, second_factor_at=factor)
        resend(client, user.email)
        for _ in range(9):
            failure(login(client, user, "wrong"), 401, "invalid_credentials")
        success(confirm(client, outbox.deliver_token()))
        failure(login(client, user, "wrong"), 401, "invalid_credentials")
        assert login(client, user, "wrong").status_code == (429 if factor else 401)


def test_verification_mail_can_be_asked_for_again(app, client, make_user, outbox):
    user = make_user()
    answers = [resend(client, email) for email in (user.email, "nobody@example.org")]
    assert answers[0].data == answers[1].data
    success(answers[0])
    token = outbox.deliver_token()
    success(confirm(client, token))
    resend(client, user.email)
    assert outbox.deliver() == []


def test_verification_link_expires(client, make_user, outbox, clock):
    resend(client, make_user().email)
    token = outbox.deliver_token()
    clock.move(days=2, hours=23)
    success(client.post("/api/auth/check-link", json={"token": token}))
    clock.move(hours=1)
    failure(confirm(client, token), 400, "invalid_token")


def test_verified_user_gets_in_where_that_is_required(make_app, make_user, outbox):
    user = make_user()
    client = make_app(require_verified_email=True).test_client()
    failure(login(client, user), 403, "email_unverified")
    resend(client, user.email)
    success(confirm(client, outbox.deliver_token()))
    success(login(client, user))
