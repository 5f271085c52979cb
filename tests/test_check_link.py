"""What a link does, asked before it is used: the same as when it is used."""

from datetime import timedelta

import pytest
from helpers import failure, on_one_database, rows, success
from sqlalchemy import delete, update

from core import clock as core_clock
from core.clock import rfc3339
from core.ids import new_row_id
from core.tokens import Purpose
from database import transaction
from models import EmailChange, User
from services import links

OLD = "old@example.org"
WAYS_IN = (Purpose.PASSWORD_RESET, Purpose.INVITATION, Purpose.ACCESS_LINK)
ACTIONS = dict.fromkeys(WAYS_IN, "choose_password")
ACTIONS |= {Purpose.EMAIL_VERIFICATION: "verify_email", Purpose.EMAIL_UNDO: "undo_email_change"}
CALLS = {"choose_password": "reset-password", "verify_email": "verify-email"}

# What makes the links of an account useless, besides their use and their end.
CHANGES = {
    "password": update(User).values(password_hash="!another"),
    "version": update(User).values(password_version=7),
    "address": update(User).values(email="moved@example.org"),
    "inactive": update(User).values(is_active=False),
    "verified": update(User).values(email_verified_at=core_clock.utcnow()),
    "void": delete(EmailChange),
}
ENDED_BY = {purpose: {"password", "version", "address", "inactive"} for purpose in WAYS_IN}
ENDED_BY |= {Purpose.EMAIL_VERIFICATION: {"address", "inactive", "verified"}}
ENDED_BY |= {Purpose.EMAIL_UNDO: {"void"}}


@pytest.fixture
def user(make_user):
    return make_user("pupil")


@pytest.fixture
def make(app, user, clock):
    """Return the token of a new link of the user for a purpose, and when it ends."""

    def make(purpose):
        now = clock.utcnow()
        with app.app_context(), transaction() as session:
            if purpose is not Purpose.EMAIL_UNDO:
                made = links.make(purpose, session.get(User, user.id), now=now)
                return made.link.partition("#token=")[2], made.expires_at
            row = {"id": new_row_id(), "user_id": user.id, "old_email": OLD, "changed_at": now}
            done = EmailChange(**row)
            session.add(done)
            return links.make_undo(done, now=now).partition("#token=")[2], now + links.UNDO_LIFE

    return make


@pytest.fixture
def check(client):
    return lambda token: client.post("/api/auth/check-link", json={"token": token})


@pytest.fixture
def use(client):
    def use(purpose, token):
        action = ACTIONS[purpose]
        body = {"token": token}
        if action == "choose_password":
            body["newPassword"] = "Kettle-Purple-Rain-19"
        return client.post(f"/api/auth/{CALLS.get(action, 'undo-email-change')}", json=body)

    return use


@pytest.mark.parametrize("purpose", ACTIONS)
def test_link_says_what_it_does_for_whom_and_until_when_until_it_is_used(
    app, user, make, check, use, purpose
):
    token, end = make(purpose)
    before = rows(app, User), rows(app, EmailChange)
    for _ in range(2):
        assert success(check(token)) == {
            "action": ACTIONS[purpose],
            "username": "" if purpose is Purpose.EMAIL_VERIFICATION else user.username,
            "email": OLD if purpose is Purpose.EMAIL_UNDO else user.email,
            "expiresAt": rfc3339(end),
        }
    assert (rows(app, User), rows(app, EmailChange)) == before
    success(use(purpose, token))
    failure(check(token), 400, "invalid_token")


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("purpose", ACTIONS)
@on_one_database
def test_check_refuses_what_the_call_refuses_and_nothing_else(
    app, make, check, use, purpose, change
):
    token, _ = make(purpose)
    with app.app_context(), transaction() as session:
        session.execute(CHANGES[change])
    for answer in (check(token), use(purpose, token)):
        if change in ENDED_BY[purpose]:
            failure(answer, 400, "invalid_token")
        else:
            success(answer)


def test_link_that_another_account_blocks_is_not_dead(make, make_user, check, use):
    token, _ = make(Purpose.EMAIL_UNDO)
    make_user(email=OLD)
    assert success(check(token))["email"] == OLD
    failure(use(Purpose.EMAIL_UNDO, token), 409, "email_taken")


@pytest.mark.parametrize("purpose", ACTIONS)
@on_one_database
def test_expired_link_is_dead(make, check, clock, purpose):
    token, end = make(purpose)
    clock.move(seconds=(end - clock.utcnow() - timedelta(seconds=60)).total_seconds())
    success(check(token))
    clock.move(minutes=1)
    failure(check(token), 400, "invalid_token")


@on_one_database
def test_other_tokens_are_no_links(auth, check):
    for token in ("", "a.b.c", auth.access, auth.refresh):
        failure(check(token), 400, "invalid_token")
