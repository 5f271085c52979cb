"""What a link does, asked before it is used: the same as when it is used."""

from dataclasses import replace
from datetime import date, timedelta

import pytest
from helpers import NEW_PASSWORD, PASSWORD, execute, failure, refresh, rows, success, verify
from sqlalchemy import delete, update

from core import clock as core_clock
from core.clock import rfc3339
from database import transaction
from errors import InvalidToken
from extensions import components
from models import User
from services import links
from services.links import Action

CALLS = {Action.CHOOSE_PASSWORD: "reset-password", Action.VERIFY_EMAIL: "verify-email"}

# What makes the links of an account useless, besides their use and their end.
CHANGES = {
    "password": update(User).values(password_hash="!another"),
    "version": update(User).values(password_version=7),
    "address": update(User).values(email="moved@example.org"),
    "inactive": update(User).values(is_active=False),
    "verified": update(User).values(email_verified_at=core_clock.utcnow()),
    "deleted": delete(User),
}
ENDED_BY = {
    Action.CHOOSE_PASSWORD: {"password", "version", "address", "inactive", "deleted"},
    Action.VERIFY_EMAIL: {"address", "inactive", "verified", "deleted"},
}


@pytest.fixture
def user(make_user):
    return make_user("pupil")


@pytest.fixture
def make(app, user, clock):
    """Return the token of a new link of the user for an action, and when it ends."""

    def make(action):
        now = clock.utcnow()
        with app.app_context(), transaction() as session:
            bound = links.bound_to(action, session.get(User, user.id))
            made = links.make(action, user.id, bound, expires_at=now + timedelta(hours=1))
        return made.link.partition("#token=")[2], made.expires_at

    return make


@pytest.fixture
def check(client):
    return lambda token: client.post("/api/auth/check-link", json={"token": token})


@pytest.fixture
def use(client):
    def use(action, token):
        body = {"token": token}
        is_choice = action is Action.CHOOSE_PASSWORD
        body |= {"newPassword": NEW_PASSWORD} if is_choice else {"password": PASSWORD}
        return client.post(f"/api/auth/{CALLS[action]}", json=body)

    return use


@pytest.mark.parametrize("action", Action)
def test_link_says_what_it_does_for_whom_and_until_when_until_it_is_used(
    app, user, make, check, use, action
):
    token, end = make(action)
    before = rows(app, User)
    for _ in range(2):
        assert success(check(token)) == {
            "action": action,
            "username": "" if action is Action.VERIFY_EMAIL else user.username,
            "email": user.email,
            "hasPassword": True,
            "expiresAt": rfc3339(end),
        }
    assert rows(app, User) == before
    success(use(action, token))
    failure(check(token), 400, "invalid_token")


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("action", Action)
def test_check_refuses_what_the_call_refuses_and_nothing_else(
    app, make, check, use, action, change
):
    token, _ = make(action)
    execute(app, CHANGES[change])
    for answer in (check(token), use(action, token)):
        if change in ENDED_BY[action]:
            failure(answer, 400, "invalid_token")
        else:
            success(answer)


def test_other_tokens_are_no_links(auth, check):
    for token in ("", "a.b.c", "x" * 4096, auth.access, auth.refresh):
        failure(check(token), 400, "invalid_token")


ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
FORGERIES = {
    "longer": lambda token: f"{token}A",
    # The same bytes, spelled in another way.
    "another last character": lambda token: token[:-1] + ALPHABET[ALPHABET.index(token[-1]) + 1],
    "what base64 ignores": lambda token: f"{token[:-5]}!!!!{token[-5:]}",
    "another user": lambda token: f"BBBB{token[4:]}",
    "another end": lambda token: (
        f"{token[:45]}{ALPHABET[ALPHABET.index(token[45]) - 1]}{token[46:]}"
    ),
    "no signature": lambda token: token.rpartition(".")[0],
    "letters that are none": lambda token: f"{token[:-1]}\u00e9",
}


@pytest.mark.parametrize("name", FORGERIES)
def test_changed_token_is_refused(make, check, name):
    for action in Action:
        token, _ = make(action)
        assert FORGERIES[name](token) != token
        failure(check(FORGERIES[name](token)), 400, "invalid_token")


@pytest.mark.parametrize("year", [2105, 2106, 2250])
def test_links_do_not_end_with_the_seconds_of_32_bits(make, check, clock, year):
    clock.move(days=(date(year, 2, 7) - core_clock.utcnow().date()).days)  # on the day of 2106
    token, _ = make(Action.CHOOSE_PASSWORD)
    success(check(token))
    clock.move(days=30)
    failure(check(token), 400, "invalid_token")


@pytest.mark.asvs("9.2.2", "9.2.3")
@pytest.mark.parametrize("action", Action)
def test_token_of_a_link_does_nothing_else(app, client, make, use, action):
    token, _ = make(action)
    for other in set(Action) - {action}:
        failure(use(other, token), 400, "invalid_token")
        # Already its signature is refused, and not only what it is bound to.
        with app.app_context(), pytest.raises(InvalidToken):
            links.read(other, token)
    failure(verify(client, token), 401, "token_invalid")
    failure(refresh(client, token), 401, "token_invalid")
    success(use(action, token))


@pytest.mark.parametrize("action", Action)
def test_link_is_short_and_outlives_a_new_key(app, make_app, make, check, action):
    old, _ = make(action)
    assert len(old) == 94
    settings = components(app).settings
    rotated = {"secret_key": "k" * 32, "secret_key_fallbacks": (settings.secret_key,)}
    components(app).settings = replace(settings, **rotated)
    new, _ = make(action)
    for token in (old, new):
        success(check(token))
    retired = make_app(secret_key="k" * 32).test_client()
    for token, is_live in ((old, False), (new, True)):
        answer = retired.post("/api/auth/check-link", json={"token": token})
        assert (answer.status_code == 200) is is_live
