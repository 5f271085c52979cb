"""Access and refresh tokens, rotation, reuse, revocation, own sessions."""

import re

import pytest
from forgeries import claims_of
from helpers import (
    RACERS,
    Log,
    assert_ended,
    bearer,
    execute,
    failure,
    login,
    on_both,
    on_both_slowly,
    on_postgres,
    race,
    refresh,
    rows,
    set_user,
    success,
    verify,
    while_changing,
)
from sqlalchemy import delete, update

from core import clock as real_clock
from models import DeniedSession, User, UserSession
from services import pruning, sessions


def prune(app):
    with app.app_context():
        pruning.prune(real_clock.utcnow())


def test_verify_tells_whose_the_token_is(client, auth, clock):
    clock.move(seconds=100)
    data = success(verify(client, auth))
    user = {"id": auth.user.id, "username": "student", "role": "student"}
    user["email"] = "student@example.org"
    assert data == {"valid": True, "expiresIn": pytest.approx(800, abs=1), "user": user}


def test_tokens_say_what_other_services_need(auth):
    access, refresh_token = claims_of(auth.access), claims_of(auth.refresh)
    assert access["sub"] == refresh_token["sub"] == auth.user.id
    assert access["sid"] == refresh_token["sid"]
    assert access["jti"] != refresh_token["jti"]
    assert (access["type"], refresh_token["type"]) == ("access", "refresh")
    assert access["role"] == "student"
    assert access["exp"] - access["iat"] == 15 * 60
    assert refresh_token["exp"] - refresh_token["iat"] == 30 * 24 * 3600


def test_lifetimes_are_settings(make_app, make_user):
    client = make_app(access_token_minutes=1, session_days=2).test_client()
    data = success(login(client, make_user()))
    assert data["expiresIn"] == 60
    claims = claims_of(data["refreshToken"])
    assert claims["exp"] - claims["iat"] == 2 * 24 * 3600


@pytest.mark.asvs("7.2.1", "7.2.2")
def test_refresh_gives_a_new_pair_that_works(client, auth):
    data = success(refresh(client, auth))
    assert data.keys() == {"accessToken", "refreshToken", "expiresIn", "user"}
    assert data["user"] == success(verify(client, data["accessToken"]))["user"]
    assert data["expiresIn"] == 900
    assert data["refreshToken"] != auth.refresh
    success(verify(client, data["accessToken"]))
    success(verify(client, auth))  # the session goes on, so the older one lives too


@pytest.mark.asvs("7.3.2")
def test_no_token_outlives_the_session(client, auth, clock):
    clock.move(days=30, minutes=-5)
    data = success(refresh(client, auth))
    assert data["expiresIn"] == pytest.approx(300, abs=1)
    for token in (data["accessToken"], data["refreshToken"]):
        assert claims_of(token)["exp"] == claims_of(auth.refresh)["exp"]
    clock.move(minutes=5)
    failure(refresh(client, data["refreshToken"]), 401, "token_expired")


@on_both
def test_lost_answer_can_be_asked_for_again(client, auth, clock):
    first = success(refresh(client, auth))
    clock.move(seconds=29)
    again = success(refresh(client, auth))
    assert again["refreshToken"] == first["refreshToken"]
    success(verify(client, again["accessToken"]))
    assert again["expiresIn"] == 900
    success(refresh(client, again["refreshToken"]))


@pytest.mark.asvs("10.4.5")
@on_both
def test_spent_token_after_the_grace_ends_the_session(app, client, auth, clock):
    second = success(refresh(client, auth))
    clock.move(seconds=31)
    failure(refresh(client, auth), 401, "token_revoked")
    assert rows(app, UserSession) == []
    failure(verify(client, second["accessToken"]), 401, "token_revoked")
    assert_ended(client, auth)


@on_both
def test_token_spent_before_the_last_ends_the_session_at_once_and_only_once(app, client, auth):
    second = success(refresh(client, auth))
    third = success(refresh(client, second["refreshToken"]))
    log = Log()
    race(lambda _: failure(refresh(app.test_client(), auth), 401, "token_revoked"))
    assert log.text().count("refresh_token_reused") == 1
    failure(refresh(client, third["refreshToken"]), 401, "token_revoked")
    failure(verify(client, third["accessToken"]), 401, "token_revoked")


@on_both
def test_twenty_refreshes_at_once_are_one_step(app, auth):
    answers = race(lambda _: success(refresh(app.test_client(), auth)), 20)
    assert len({answer["refreshToken"] for answer in answers}) == 1
    for answer in answers:
        success(verify(app.test_client(), answer["accessToken"]))
    (session,) = rows(app, UserSession)
    assert session.previous_token_id == claims_of(auth.refresh)["jti"]
    success(refresh(app.test_client(), answers[0]["refreshToken"]))


@pytest.mark.asvs("7.4.1", "7.4.2")
def test_logout_ends_the_session_and_no_other(app, client, auth, log_in):
    other = log_in(auth.user)
    assert success(client.post("/api/auth/logout", headers=auth.headers)) == {}
    assert_ended(client, auth)
    failure(client.post("/api/auth/logout", headers=auth.headers), 401, "token_revoked")
    success(verify(client, other))


@on_both
def test_logout_against_refresh_leaves_nothing_usable(app, auth):
    def act(number):
        client = app.test_client()
        if number % 2:
            return client.post("/api/auth/logout", headers=auth.headers)
        return refresh(client, auth)

    answers = race(act)
    assert {answer.status_code for answer in answers} <= {200, 401}
    client = app.test_client()
    for answer in answers[::2]:
        if answer.status_code == 200:
            data = answer.get_json()["data"]
            failure(verify(client, data["accessToken"]), 401, "token_revoked")
            failure(refresh(client, data["refreshToken"]), 401, "token_revoked")
    assert_ended(client, auth)
    assert len(rows(app, DeniedSession)) == 1
    assert rows(app, UserSession) == []


def test_ended_session_is_denied_for_longer_than_any_access_token_lives(
    make_app, make_user, app, client, clock
):
    long = make_app(access_token_minutes=1440).test_client()
    tokens = success(login(long, make_user()))
    newer = success(refresh(client, tokens["refreshToken"]))  # its access token expires earlier
    success(client.post("/api/auth/logout", headers=bearer(tokens["accessToken"])))
    failure(verify(client, newer["accessToken"]), 401, "token_revoked")
    failure(refresh(client, newer["refreshToken"]), 401, "token_revoked")
    clock.move(hours=23)
    prune(app)
    failure(verify(client, tokens["accessToken"]), 401, "token_revoked")
    clock.move(hours=1)
    failure(verify(client, tokens["accessToken"]), 401, "token_expired")
    assert len(rows(app, DeniedSession)) == 1
    clock.move(days=1)
    prune(app)
    assert rows(app, DeniedSession) == []


@pytest.mark.parametrize("change", [update(User).values(is_active=False), delete(User)])
def test_tokens_of_a_user_who_is_gone_stop_at_once(app, client, auth, change):
    execute(app, change)
    assert_ended(client, auth)


def test_role_is_the_databases_and_not_the_tokens(app, client, auth):
    set_user(app, auth.user, role="admin")
    assert success(verify(client, auth))["user"]["role"] == "admin"
    assert claims_of(success(refresh(client, auth))["accessToken"])["role"] == "admin"


def sessions_of(client, session):
    response = client.get("/api/auth/sessions", headers=session.headers)
    return success(response)["sessions"]


@on_both
def test_sessions_are_listed_with_their_devices(client, make_user, log_in, clock):
    user = make_user()
    phone = log_in(user, headers={"User-Agent": "Phone \x7f" + "x" * 300})
    clock.move(minutes=5)
    laptop = log_in(user, headers={"User-Agent": "Laptop"})
    listed = sessions_of(client, laptop)
    assert [session["current"] for session in listed] == [True, False]
    assert [session["userAgent"] for session in listed] == ["Laptop", "Phone " + "x" * 248]
    assert listed[0]["id"] == claims_of(laptop.access)["sid"]
    for session in listed:
        times = {"createdAt", "lastUsedAt", "expiresAt"}
        assert session.keys() == times | {"id", "userAgent", "ipAddress", "current"}
        assert session["ipAddress"] == "127.0.0.1"
        assert all(re.fullmatch(r"[0-9-]{10}T[0-9:]{8}Z", session[name]) for name in times)
    clock.move(minutes=5)
    success(refresh(client, phone))
    assert [session["current"] for session in sessions_of(client, laptop)] == [False, True]


def test_one_own_session_can_be_ended(client, make_user, log_in):
    user = make_user()
    lost, kept, strange = log_in(user), log_in(user), log_in(make_user("other"))

    def end(session_id):
        return client.delete(f"/api/auth/sessions/{session_id}", headers=kept.headers)

    success(end(claims_of(lost.access)["sid"]))
    assert_ended(client, lost)
    success(verify(client, kept))
    for none in (claims_of(lost.access)["sid"], claims_of(strange.access)["sid"], "a", "%00", "é"):
        failure(end(none), 404, "not_found")
    success(verify(client, strange))


def test_all_other_sessions_can_be_ended(client, make_user, log_in):
    user = make_user()
    lost, kept = [log_in(user) for _ in range(3)], log_in(user)
    success(client.delete("/api/auth/sessions", headers=kept.headers))
    for gone in lost:
        assert_ended(client, gone)
    success(refresh(client, kept))


@on_both
def test_ending_all_sessions_from_all_sides_at_once_goes_well(app, make_user, log_in):
    user = make_user()
    logins = [log_in(user) for _ in range(RACERS)]

    def end_others(number):
        client = app.test_client()
        return client.delete("/api/auth/sessions", headers=logins[number].headers).status_code

    answers = {*race(end_others)}
    assert answers <= {200, 401}
    assert 200 in answers
    left = len(rows(app, UserSession))
    assert left <= 1
    assert len(rows(app, DeniedSession)) == RACERS - left


@on_postgres
def test_ending_all_sessions_waits_for_a_login_on_its_way(app, auth):
    """Else the login's session, not committed yet, would be overlooked and live on."""

    def end_all():
        return app.test_client().delete("/api/auth/sessions", headers=auth.headers)

    success(while_changing(app, auth.user, {"last_login_at": real_clock.utcnow()}, end_all))


@pytest.mark.asvs("7.1.2")
@on_both_slowly
def test_oldest_session_gives_way_to_the_fifty_first(app, client, make_user, log_in):
    user = make_user()
    logins = [log_in(user) for _ in range(50)]
    success(verify(client, logins[0]))
    newest = log_in(user)
    assert_ended(client, logins[0])
    for kept in (logins[1], newest):
        success(verify(client, kept))
    assert len(rows(app, UserSession)) == 50


@pytest.mark.asvs("2.3.2")
@on_both
def test_logins_at_once_stay_within_the_bound(app, make_user, log_in, monkeypatch):
    monkeypatch.setattr(sessions, "MAX_SESSIONS", 3)
    user = make_user()
    answers = race(lambda _: login(app.test_client(), user).status_code)
    assert set(answers) == {200}
    assert len(rows(app, UserSession)) == 3
