"""A login from somewhere new, of which a mail tells the user of the account."""

import pytest
from helpers import (
    NEW_PASSWORD,
    choose,
    execute,
    forgot,
    login,
    on_both,
    on_both_slowly,
    set_user,
    success,
)
from sqlalchemy import delete

from core import clock as core_clock
from models import Event

HOME, ABROAD = "203.0.113.9", "198.51.100.7"
CHROME = "Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140 Safari/1"


@pytest.fixture
def user(make_user):
    return make_user(email_verified_at=core_clock.utcnow())


@pytest.fixture
def told(client, user, outbox):
    """Log in from an address; return the notices that went out about it."""

    def told(address, agent=CHROME, of=user, **body):
        origin = {"environ_base": {"REMOTE_ADDR": address, "HTTP_USER_AGENT": agent}}
        success(login(client, of, **origin, **body))
        return outbox.deliver()

    return told


@on_both
@pytest.mark.asvs("6.3.5")
def test_a_login_from_somewhere_new_is_told_with_a_way_to_lock_others_out(told, user):
    assert told(HOME) == told("203.0.200.1") == []
    (mail,) = told(ABROAD)
    assert mail["To"] == user.email
    text = mail.get_body(("plain",)).get_content()
    assert "Chrome, Windows" in text
    assert ABROAD in text
    assert "Choose a new password:\nhttps://school.test/account#forgot-password\n" in text
    assert told(ABROAD) == told("198.51.3.4") == told(HOME) == []


@pytest.mark.parametrize(
    ("known", "here", "is_new"),
    [
        (HOME, "203.1.113.9", True),
        ("2001:db8:1:2::3", "2001:db8:ffff::4", False),
        ("2001:db8::1", "2001:db9::1", True),
        ("2001::1", "2001:0:5::1", False),  # written alike or not, it is one /32
        (HOME, "2001:db8::1", True),
        (HOME, f"::ffff:{HOME}", False),
        (HOME, "", False),
        ("", HOME, False),
    ],
)
def test_near_is_what_one_provider_of_internet_access_serves(told, known, here, is_new):
    told(known)
    assert len(told(here)) == is_new


@pytest.mark.parametrize(
    "agent", ["", "Chrome pills.example", "Chrome\tX-Mailer: a", "curl/8", "\xe9" * 3000]
)
def test_nothing_that_a_browser_sends_is_mailed(told, agent):
    told(HOME)
    (mail,) = told(ABROAD, agent)
    text = mail.as_string()
    assert not any(word in text for word in ("pills", "X-Mailer", "curl", "\xe9\xe9"))
    assert ("Chrome" in text) == ("Chrome" in agent)


def test_no_mail_to_an_address_that_nobody_proved_or_that_is_none(told, make_user, app, user):
    set_user(app, user, email_verified_at=None)
    pupil = make_user("pupil", email="p@class.invalid", email_verified_at=core_clock.utcnow())
    for each in (user, pupil):
        assert told(HOME, of=each) == told(ABROAD, of=each) == []


def test_the_first_login_after_a_long_absence_tells_nothing(app, told):
    told(HOME)
    execute(app, delete(Event))  # as the pruning after EVENT_DAYS
    assert told(ABROAD) == []


def test_where_somebody_is_each_day_is_never_new(app, told, clock):
    """The history has only the first login from there, until it is pruned."""
    told(HOME)
    clock.move(days=2)
    told(ABROAD)
    execute(app, delete(Event).where(Event.ip_address == HOME))
    assert told("203.0.200.1") == []


@pytest.mark.parametrize("means", ["mail", "code"])
def test_who_has_just_chosen_a_password_is_not_told_again(
    told, client, user, outbox, clock, run, means
):
    told(HOME)
    if means == "mail":
        success(forgot(client, user.email))
        success(choose(client, outbox.deliver_token()))
    else:
        code = run("users", "access-link", user.username)[0].split()[1]
        body = {"account": user.username, "code": code, "newPassword": NEW_PASSWORD}
        success(client.post("/api/auth/reset-password", json=body))
    outbox.deliver()
    user.password = NEW_PASSWORD
    assert told(ABROAD) == []
    clock.move(minutes=11)
    assert len(told("192.0.2.1")) == 1


@on_both_slowly
@pytest.mark.parametrize("settings", [{}, {"ratelimit_enabled": False}])
def test_three_notices_an_hour_at_most(make_app, user, outbox, clock, settings):
    client = make_app(**settings).test_client()
    notices = []
    for place in (*range(1, 8), 8):
        if place == 8:
            clock.move(minutes=61)
        address = {"REMOTE_ADDR": f"198.{place}.0.1"}
        success(login(client, user, environ_base=address))
        notices.append(len(outbox.deliver()))
    assert notices == [0, 1, 1, 1, 0, 0, 0, 1]


@pytest.mark.parametrize("settings", [{"login_notices": False}, {"event_days": 0}])
def test_settings_turn_the_notices_off(make_app, user, outbox, settings):
    client = make_app(**settings).test_client()
    for address in (HOME, ABROAD):
        success(login(client, user, environ_base={"REMOTE_ADDR": address}))
    assert outbox.waiting() == []
