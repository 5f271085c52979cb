"""`SESSION_IDLE_DAYS`: a session that is not refreshed for so long is over."""

from datetime import timedelta

import pytest
from helpers import Log, bearer, failure, login, race, refresh, rows, statements_of, success, verify

import errors
from core import clock as real_clock
from models import DeniedSession, UserSession
from services import pruning, sessions


def prune(app):
    """Prune, and return how many sessions went."""
    with app.app_context():
        return pruning.prune(real_clock.utcnow())["sessions"]


@pytest.fixture
def idle_app(make_app):
    """The application where a session that is not refreshed for a week ends."""
    return make_app(session_idle_days=7)


@pytest.fixture
def idle_client(idle_app):
    return idle_app.test_client()


def listed(client, access):
    """Return the ids of the sessions that the owner of this access token sees."""
    data = success(client.get("/api/auth/sessions", headers=bearer(access)))
    return [session["id"] for session in data["sessions"]]


def test_refreshed_session_outlives_the_idle_time(idle_client, auth, clock):
    token = auth.refresh
    for _ in range(4):
        clock.move(days=7, minutes=-1)
        data = success(refresh(idle_client, token))
        token = data["refreshToken"]
    assert len(listed(idle_client, data["accessToken"])) == 1
    clock.move(days=2, minutes=4)
    failure(refresh(idle_client, token), 401, "token_expired")  # 30 days after the login


def test_idle_session_is_over_but_not_stolen(idle_app, idle_client, auth, clock):
    token = success(refresh(idle_client, auth))["refreshToken"]
    (session,) = rows(idle_app, UserSession)
    clock.move(days=7)
    log = Log()
    for spent_or_current in (auth.refresh, token):
        failure(refresh(idle_client, spent_or_current), 401, "token_expired")
    written = log.text()
    assert "/api/auth/refresh" in written
    assert "refresh_token_reused" not in written
    assert rows(idle_app, UserSession) == [session]
    assert rows(idle_app, DeniedSession) == []


def test_idle_session_is_neither_listed_nor_kept(idle_app, idle_client, auth, log_in, clock):
    token, refreshed = log_in(auth.user).refresh, auth
    clock.move(days=4)
    second = success(refresh(idle_client, refreshed))
    clock.move(days=4)
    third = success(refresh(idle_client, second["refreshToken"]))
    (kept,) = listed(idle_client, third["accessToken"])
    failure(refresh(idle_client, token), 401, "token_expired")
    clock.move(hours=1)
    assert prune(idle_app) == 1
    assert [session.id for session in rows(idle_app, UserSession)] == [kept]
    failure(refresh(idle_client, token), 401, "token_revoked")
    success(refresh(idle_client, third["refreshToken"]))


def test_expired_and_idle_sessions_are_pruned_together(idle_app, make_app, auth, clock):
    success(login(make_app(session_days=1).test_client(), auth.user))
    clock.move(days=7)
    assert prune(idle_app) == 2


def test_sessions_are_never_idle_unless_the_setting_says_so(app, client, auth, log_in, clock):
    clock.move(days=29, hours=23)
    access = log_in(auth.user).access
    assert len(listed(client, access)) == 2
    with statements_of(app) as statements:
        assert prune(app) == 0
    assert not any("last_used_at" in each for each in statements)  # it would be a scan for nothing
    success(refresh(client, auth))


def test_lost_answer_at_the_end_of_the_idle_time_can_be_asked_for_again(idle_client, auth, clock):
    clock.move(days=7, seconds=-15)
    first = success(refresh(idle_client, auth))
    clock.move(seconds=20)
    assert success(refresh(idle_client, auth))["refreshToken"] == first["refreshToken"]


def test_refreshes_at_once_at_the_end_of_the_idle_time_do_not_fork_the_session(idle_app, auth):
    (session,) = rows(idle_app, UserSession)
    end = session.last_used_at + timedelta(days=7)

    def act(number):
        with idle_app.app_context():
            try:
                now = end + timedelta(seconds=number % 2 - 0.5)
                return sessions.rotate(auth.refresh, now=now).refresh_token
            except errors.TokenExpired:  # this one came first, but with a clock that is ahead
                return None

    assert len(set(race(act)) - {None}) == 1
    (moved,) = rows(idle_app, UserSession)
    assert moved.previous_token_id == session.refresh_token_id


def test_access_token_does_not_outlive_an_idle_session(make_app, make_user, clock):
    app = make_app(session_idle_days=1, access_token_minutes=3 * 24 * 60)
    client = app.test_client()
    first = success(login(client, make_user()))
    clock.move(hours=23)
    second = success(refresh(client, first["refreshToken"]))
    clock.move(seconds=20)
    third = success(refresh(client, first["refreshToken"]))
    lives = (24 * 3600, 24 * 3600, 24 * 3600 - 20)
    assert [data["expiresIn"] for data in (first, second, third)] == pytest.approx(lives, abs=5)
    clock.move(days=1, seconds=-20)
    failure(verify(client, third["accessToken"]), 401, "token_expired")
    assert prune(app) == 1


def test_access_token_from_before_the_idle_time_was_set_can_still_be_denied(
    make_app, make_user, clock
):
    user = make_user()
    long = make_app(access_token_minutes=3 * 24 * 60).test_client()
    old = success(login(long, user))["accessToken"]
    idle = make_app(session_idle_days=1)
    clock.move(days=2)
    assert prune(idle) == 0
    new = success(login(idle.test_client(), user))["accessToken"]
    success(idle.test_client().delete("/api/auth/sessions", headers=bearer(new)))
    failure(verify(idle.test_client(), old), 401, "token_revoked")


def test_refresh_is_one_statement(idle_app, idle_client, auth):
    with statements_of(idle_app) as statements:
        success(refresh(idle_client, auth))
    assert len(statements) == 1
