"""With the password alone, nobody tries codes for ever."""

from types import SimpleNamespace

import pytest
from authenticator import URL, begin, enter, set_up
from helpers import failure, rows, success
from sqlalchemy import update
from sqlalchemy.exc import OperationalError

from core import totp
from database import transaction
from models import Counter, SecondFactor, User
from services import second_factor

WRONG = "wrong passwords for an account"
NEW_PASSWORD = "Purple-Lamp-Steel-77"


@pytest.fixture
def limited(make_app, auth, clock):
    """A user with a second factor, at a service with limits: `client`, `user`, `headers`, `app`."""
    client = make_app(ratelimit_enabled=True).test_client()
    limited = SimpleNamespace(client=client, **vars(auth))
    limited.app = set_up(client, auth, auth.user, clock)
    return limited


def hits(app, things=WRONG):
    return sum(row.hits for row in rows(app, Counter) if f"/{things}/" in row.key)


def guess(limited, number=1):
    for _ in range(number):
        response = enter(limited.client, limited.user, limited.app.wrong())
        failure(response, 400, "wrong_code")


def ask_for_email(limited, code=None, email="new@example.org"):
    body = {"newEmail": email, "password": limited.user.password}
    if code is not None:
        body["secondFactor"] = code
    return limited.client.post("/api/users/email", json=body, headers=limited.headers)


def test_wrong_code_counts_as_a_failed_login(app, limited):
    guess(limited, 10)
    assert hits(app) == hits(app, "wrong passwords from all client IPs") == 10
    response = enter(limited.client, limited.user, limited.app.code())
    failure(response, 429, "too_many_requests")


def test_only_a_right_code_clears_the_failed_logins(app, limited, make_user):
    make_user("taken")
    guess(limited, 9)
    failure(enter(limited.client, limited.user), 403, "second_factor_required")
    failure(ask_for_email(limited), 403, "second_factor_required")
    response = ask_for_email(limited, limited.app.code(), "taken@example.org")
    failure(response, 409, "email_taken")
    assert hits(app) == 9
    success(ask_for_email(limited, limited.app.code()))
    assert hits(app) == 0


@pytest.mark.parametrize(
    ("change", "error"),
    [({"is_active": False}, "account_inactive"), ({"email": "a@b.example"}, "email_unverified")],
)
def test_refused_login_of_an_account_with_a_factor_clears_nothing(
    app, make_app, limited, change, error
):
    strict = {"require_verified_email": True, "ratelimit_enabled": True}
    client = make_app(**strict).test_client()
    guess(limited, 5)
    with app.app_context(), transaction() as session:
        session.execute(update(User).values(**{**change, "email": limited.user.email}))
    failure(enter(client, limited.user, limited.app.code()), 403, error)
    assert hits(app) == 5


@pytest.mark.parametrize("way", ["mail", "link"])
def test_new_password_clears_nothing(app, limited, outbox, run, way):
    guess(limited, 2)
    if way == "mail":
        outbox.deliver()
        body = {"email": limited.user.email}
        success(limited.client.post("/api/auth/forgot-password", json=body))
        body = {"token": outbox.deliver_token()}
    else:
        _, code = run("users", "access-link", limited.user.id)[0].split()
        body = {"account": limited.user.email, "code": code}
        # Making a link clears the counts: an admin vouches for the user.
        assert hits(app) == 0
        guess(limited, 2)
    body["newPassword"] = NEW_PASSWORD
    success(limited.client.post("/api/auth/reset-password", json=body))
    assert hits(app) == 2
    limited.user.password = NEW_PASSWORD
    success(enter(limited.client, limited.user, limited.app.code()))
    assert hits(app) == 0


def test_wrong_first_code_counts_as_a_failed_login(app, make_app, auth):
    client = make_app(ratelimit_enabled=True).test_client()
    begin(client, auth, auth.user)
    response = client.post(f"{URL}/confirm", json={"code": "12345"}, headers=auth.headers)
    failure(response, 400, "wrong_code")
    assert hits(app) == 1


def test_refused_digits_count_towards_no_limit(app, limited):
    guess(limited, 9)
    with app.app_context(), transaction() as session:
        session.execute(update(SecondFactor).values(wrong_codes=20))
    before = [row.hits for row in rows(app, Counter)]
    failure(enter(limited.client, limited.user, limited.app.code()), 429, "too_many_requests")
    failure(ask_for_email(limited, limited.app.code()), 429, "too_many_requests")
    assert [hits for hits in (row.hits for row in rows(app, Counter)) if hits] == before


@pytest.mark.parametrize("way", ["a broken act", "a changed account"])
def test_right_code_is_no_failure_when_the_act_fails(app, limited, monkeypatch, way):
    def broken(*_arguments, **_options):
        raise OperationalError("INSERT", {}, Exception("gone"), connection_invalidated=True)

    def changed(*arguments, **options):
        with app.app_context(), transaction() as session:
            session.execute(update(User).values(password_version=User.password_version + 1))
        return judge(*arguments, **options)

    judge = totp.recovery_code_of
    if way == "a broken act":
        monkeypatch.setattr("services.sessions.open_session", broken)
    else:
        monkeypatch.setattr(totp, "recovery_code_of", changed)
    response = enter(limited.client, limited.user, limited.app.code())
    assert response.status_code == (503 if way == "a broken act" else 401)
    # The counters are in the same unreachable database; do not time out twice in one call.
    assert hits(app) == (way == "a broken act")
    assert [row.wrong_codes for row in rows(app, SecondFactor)] == [0]


def test_wrong_code_counts_also_where_its_notice_cannot_be_queued(app, limited, monkeypatch):
    def broken(*_arguments):
        raise OperationalError("INSERT", {}, Exception("gone"))

    monkeypatch.setattr(second_factor, "_notify", broken)
    guess(limited, 7)
    assert hits(app) == 7
