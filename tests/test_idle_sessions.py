"""When a session ends: `SESSION_DAYS` after the login, or `SESSION_IDLE_DAYS` without a refresh."""

from datetime import datetime

import pytest
from forgeries import GONE, forge
from helpers import (
    Log,
    bearer,
    failure,
    login,
    on_both,
    on_sqlite,
    refresh,
    rows,
    statements_of,
    success,
)

from core import clock as real_clock
from models import DeniedSession, UserSession
from services import pruning

pytestmark = on_both


@pytest.fixture
def idle_app(make_app):
    """The application where a session that is not refreshed for a week ends."""
    return make_app(session_idle_days=7)


@pytest.fixture
def idle_client(idle_app):
    return idle_app.test_client()


@pytest.fixture
def user(make_user):
    return make_user()


@pytest.fixture
def idle(idle_client, user):
    """The tokens of a login where idle sessions end."""
    return success(login(idle_client, user))


def listed(client, access):
    """Return the sessions that the owner of this access token sees."""
    return success(client.get("/api/auth/sessions", headers=bearer(access)))["sessions"]


def days(client, access):
    """Return after how many days the session of this access token ends."""
    (session,) = listed(client, access)
    end, login = (datetime.fromisoformat(session[name]) for name in ("expiresAt", "createdAt"))
    return (end - login).total_seconds() / 86400


def test_refreshed_session_outlives_the_idle_time(idle_client, idle, clock):
    tokens = idle
    for _ in range(4):
        clock.move(days=7, minutes=-1)
        tokens = success(refresh(idle_client, tokens["refreshToken"]))
    assert days(idle_client, tokens["accessToken"]) == 30
    clock.move(days=2, minutes=4)
    failure(refresh(idle_client, tokens["refreshToken"]), 401, "token_expired")


def test_idle_session_is_over_but_not_stolen(idle_app, idle_client, idle, user, clock):
    token = success(refresh(idle_client, idle["refreshToken"]))["refreshToken"]
    (session,) = rows(idle_app, UserSession)
    clock.move(days=7)
    log = Log()
    for spent_or_current in (idle["refreshToken"], token):
        failure(refresh(idle_client, spent_or_current), 401, "token_expired")
    assert "refresh_token_reused" not in log.text()
    assert rows(idle_app, UserSession) == [session]
    (current,) = listed(idle_client, success(login(idle_client, user))["accessToken"])
    with idle_app.app_context():
        assert pruning.prune(real_clock.utcnow())["sessions"] == 1
    assert [row.id for row in rows(idle_app, UserSession)] == [current["id"]]
    assert rows(idle_app, DeniedSession) == []
    failure(refresh(idle_client, token), 401, "token_revoked")


def test_owner_who_returns_after_the_idle_time_ends_the_session_of_a_thief(
    idle_client, idle, clock
):
    stolen = success(refresh(idle_client, idle["refreshToken"]))["refreshToken"]
    clock.move(days=6)
    thiefs = success(refresh(idle_client, stolen))
    clock.move(days=2)
    failure(refresh(idle_client, idle["refreshToken"]), 401, "token_revoked")
    failure(refresh(idle_client, thiefs["refreshToken"]), 401, "token_revoked")


def test_lost_answer_at_the_end_of_the_idle_time_can_be_asked_for_again(idle_client, idle, clock):
    clock.move(days=7, seconds=-15)
    first = success(refresh(idle_client, idle["refreshToken"]))
    clock.move(seconds=20)
    again = success(refresh(idle_client, idle["refreshToken"]))
    assert again["refreshToken"] == first["refreshToken"]


@pytest.mark.parametrize("setting", ["session_days", "session_idle_days"])
def test_changed_setting_acts_from_the_next_refresh_on(make_app, client, auth, clock, setting):
    changed = make_app(**{setting: 5}).test_client()
    assert days(changed, auth.access) == 30
    shorter = success(refresh(changed, auth))
    assert days(client, shorter["accessToken"]) == pytest.approx(5, abs=0.001)
    usual = success(refresh(client, shorter["refreshToken"]))
    assert days(changed, usual["accessToken"]) == 30
    clock.move(days=6)
    if setting == "session_days":  # which are over now
        failure(refresh(changed, usual["refreshToken"]), 401, "token_expired")


@pytest.mark.parametrize("login", [GONE, "0", None])
@on_sqlite
def test_token_without_the_time_of_its_login_is_refused(client, idle, login):
    token = forge(idle["refreshToken"], auth_time=login)
    failure(refresh(client, token), 401, "token_invalid")


def test_refresh_is_one_statement(idle_app, idle_client, idle):
    with statements_of(idle_app) as statements:
        success(refresh(idle_client, idle["refreshToken"]))
    assert len(statements) == 1
