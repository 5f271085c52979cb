"""Users are written to in their own language, and nobody learns from it who has an account."""

import jinja2
import pytest
from helpers import (
    NEW_PASSWORD,
    PASSWORD,
    SECRET,
    change_password,
    choose,
    delete_account,
    failure,
    forgot,
    registration,
    rows,
    statements_of,
    success,
)

from core import codes
from models import PendingEmail, User

SUBJECTS = {
    "en": "Choose a new password",
    "de": "Neues Passwort wählen",
    "fr": "Choisissez un nouveau mot de passe",
}


@pytest.fixture
def register(app, client):
    """Register; return the language and the time zone that are stored."""

    def register(header=None, client=client, **changes):
        headers = {} if header is None else {"Accept-Language": header}
        body = registration(**changes)
        data = success(client.post("/api/auth/register", json=body, headers=headers), 201)
        (row,) = rows(app, User, id=data["userId"])
        return row.language, row.timezone

    return register


# Registration


def test_a_registration_may_name_a_language_and_a_time_zone(register):
    named = {"language": "de-at", "timezone": "Asia/Tokyo"}
    assert register("fr", **named) == ("de-AT", "Asia/Tokyo")


@pytest.mark.parametrize(
    ("header", "language"),
    [
        *(("de-AT, en;q=0.5", "de"), ("pt, es;q=0.1", "es"), ("pt", "en"), (None, "en")),
        *(("*", "en"), ("pt," * 400 + "de", "en")),  # a longer list is not read to its end
    ],
)
def test_a_registration_without_a_language_takes_the_one_of_the_browser(register, header, language):
    assert register(header) == (language, "UTC")


def test_the_default_language_is_stored_where_none_fits(register, make_app):
    client = make_app(default_language="es").test_client()
    assert register("pt", client)[0] == "es"


def test_language_and_time_zone_are_nothing_personal(register):
    """The passwords are made of their names, and of nothing that is the user's own."""
    register(language="de-CH-1996", password="de-CH-1996 x4!q")
    register(username="other", timezone="Europe/Berlin", password="europe.berlin")


def test_accounts_that_the_machine_makes_have_the_default_language(make_app, app):
    runner = make_app(default_language="fr").test_cli_runner()
    options = ["--username", "newcomer", "--email", "newcomer@example.org"]
    options += ["--first-name", "First", "--last-name", "Last"]
    result = runner.invoke(args=["users", "create", *options], input="seven green lamps\n")
    assert result.exit_code == 0, result.output
    assert [row.language for row in rows(app, User)] == ["fr"]


# Mails


@pytest.mark.parametrize(("language", "written"), [("de-AT", "de"), ("fr-CA", "fr"), ("ja", "en")])
def test_a_mail_is_in_the_language_of_its_user(client, outbox, make_user, language, written):
    user = make_user(language=language)
    forgot(client, user.email)
    (mail,) = outbox.deliver()
    assert mail["Subject"] == SUBJECTS[written]
    assert f'<html lang="{written}">' in mail.get_body(("html",)).get_content()


def test_a_change_of_the_language_holds_for_mails_that_wait(client, outbox, auth):
    forgot(client, auth.user.email)
    success(client.put("/api/users/settings", json={"language": "fr"}, headers=auth.headers))
    (mail,) = outbox.deliver()
    assert mail["Subject"] == SUBJECTS["fr"]


def test_the_mail_about_a_deleted_account_is_in_its_language(client, outbox, make_user, log_in):
    user = make_user(language="de-CH")
    success(delete_account(client, log_in(user)))
    # Somebody else may have the address by the time that the mail goes out.
    make_user("other", email=user.email, language="es")
    (mail,) = outbox.deliver()
    assert mail["Subject"] == "Ihr Konto wurde gelöscht"


def test_mails_to_an_address_without_an_account_are_in_the_language_of_their_user(
    app, client, make_user, log_in, run, outbox, clock
):
    user = make_user(language="de-AT", email_verified_at=clock.utcnow())
    forgot(client, user.email)
    success(choose(client, outbox.deliver_token()))
    user.password = NEW_PASSWORD
    session = log_in(user)
    success(change_password(client, session, NEW_PASSWORD, PASSWORD))
    headers = session.headers
    body = {"username": "other", "password": PASSWORD}
    success(client.put("/api/users/username", json=body, headers=headers))
    assert run("users", "access-link", user.id)[1] == 0
    body = {"newEmail": "new@example.org", "password": PASSWORD}
    success(client.post("/api/users/email", json=body, headers=headers))
    (pending,) = rows(app, PendingEmail)
    body = {"code": codes.email_code(SECRET, pending.id, pending.new_email)}
    success(client.post("/api/users/email/confirm", json=body, headers=headers))
    # None of these was sent before the change.
    assert [mail["Subject"] for mail in outbox.deliver()] == [
        "Ihr Passwort wurde geändert",
        "Ihr Passwort wurde geändert",
        "Ihr Benutzername wurde geändert",
        "Neuer Zugang zu Ihrem Konto erstellt",
        "Ihre E-Mail-Adresse wurde geändert",
    ]
    body = {"newEmail": "next@example.org", "password": PASSWORD}
    success(client.post("/api/users/email", json=body, headers=headers))
    (code,) = outbox.deliver()
    assert code["Subject"] == "Bestätigen Sie Ihre neue E-Mail-Adresse"


@pytest.mark.parametrize("language", ["en", "de-AT", "pt"])
def test_an_address_without_an_account_costs_the_same(
    app, client, outbox, make_user, monkeypatch, language
):
    written = []
    for name in ("render", "make_module"):
        original = getattr(jinja2.Template, name)

        def count(template, *facts, name=name, original=original):
            written.append((name, template.name.partition("/")[2] or template.name))
            return original(template, *facts)

        monkeypatch.setattr(jinja2.Template, name, count)

    def cost(email):
        forgot(client, email)
        with statements_of(app) as sent:
            mails = outbox.deliver()
        done = (list(sent), list(written))
        written.clear()
        return len(mails), done

    make_user(language=language)
    cost("warm-up@example.org")
    known, unknown = cost("student@example.org"), cost("nobody@example.org")
    assert (known[0], unknown[0]) == (1, 0)
    assert known[1] == unknown[1]
    assert len(known[1][1]) == 3


def test_own_words_and_the_name_of_the_service_reach_mails(make_app, outbox, make_user, tmp_path):
    (tmp_path / "de/mail").mkdir(parents=True)
    own = "Passwort weg?\n\nBei {{ site }}:\n\n{{ link }}"
    (tmp_path / "de/mail/password_reset.txt").write_text(own)
    make_user(language="de")
    app = make_app(templates_dir=tmp_path, site_name="Lee & Jo's School")
    forgot(app.test_client(), "student@example.org")
    outbox._app = app
    (mail,) = outbox.deliver()
    assert mail["Subject"] == "Passwort weg?"
    assert "Bei Lee & Jo's School:" in mail.get_body(("plain",)).get_content()
    assert "Bei Lee &amp; Jo&#39;s School:" in mail.get_body(("html",)).get_content()


def test_messages_of_the_api_stay_english(client, make_user):
    response = client.get("/api/auth/verify", headers={"Accept-Language": "de"})
    failure(response, 401, "token_missing")
    assert response.get_json()["message"].startswith("Send an access token")
    assert "Content-Language" not in response.headers
