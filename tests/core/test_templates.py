"""The words of mails and pages: each language is whole, and an operator's own words come first."""

import functools
import re
from datetime import UTC, datetime, timedelta
from email import policy
from email.headerregistry import Address
from pathlib import Path

import pytest
from helpers import COMPILED

from core import templates
from core.message import build
from core.reasons import WORDS
from core.templates import SHIPPED

LANGUAGES = ["de", "en", "es", "fr"]
FILES = sorted(str(path.relative_to(SHIPPED / "en")) for path in (SHIPPED / "en").rglob("*.txt"))
MAILS = [Path(name).stem for name in FILES if name.startswith("mail/")]
NOON = datetime(2026, 3, 1, 12, 5, tzinfo=UTC)
FACTS = {
    "site": "school.example",
    **{"link": "https://school.example/page#token=a.b_c", "code": "ABCD-EFGH"},
    **{"life": timedelta(minutes=30), "happened_at": NOON, "registration_open": True},
    "event": "added",
    "left": "9",
    **{"device": "Firefox, Windows", "ip_address": "203.0.113.9", "deleted_at": NOON},
    "unlinked": True,
    "had_passkeys": True,
    **{"first_name": "Ada", "last_name": "Lovelace", "username": "ada.l"},
}
GOOD = "Subject\n\n{{ link }}\n"
NO_HOURS = (SHIPPED / "de/words.txt").read_text().replace('"hour"', '"our"')
PAGES = [*("links", "account", "admin"), *("certificate", "no_certificate")]
PAGE = {
    **dict.fromkeys(("app_url", "imprint", "contact", "no_picture", "root", "query"), ""),
    **dict.fromkeys(("account_pages", "teachers", "by_groups", "passkeys", "applications"), False),
    **dict.fromkeys(("domains", "providers", "custom_fields"), ()),
    **{"site": "school.example", "registration_open": True, "min_length": 8, "event_days": 90},
}
CERTIFICATE = {
    **dict.fromkeys(("holder", "course_name", "credential_url", "verify_url", "qr"), "x"),
    **dict.fromkeys(("issued_at", "expires_at", "checked_at"), NOON),
    "status": "revoked",
    "is_limited": False,
}


@pytest.fixture
def own(tmp_path):
    """Write a template of the operator's own; return the folder of all of them."""

    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return tmp_path

    return write


# Their texts are compiled once for all tests.
Templates = functools.partial(templates.Templates, compiled=COMPILED)
problems = functools.partial(templates.problems, compiled=COMPILED)
OURS = Templates(None, "en")
every_mail = pytest.mark.parametrize("kind", MAILS)
every_language = pytest.mark.parametrize("language", LANGUAGES)


def source(language, name):
    return (SHIPPED / language / name).read_text()


def page(name, language, shipped=OURS, site="school.example", **changes):
    more = {"opened": "reset_password"} | CERTIFICATE | changes
    return shipped.page(name, language, PAGE | {"site": site}, **more)


# The languages that we ship


def test_every_language_has_every_file():
    assert sorted(OURS.languages) == LANGUAGES
    for language in LANGUAGES:
        folder = SHIPPED / language
        assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*.*")) == FILES
    assert len(MAILS) >= 9


@every_mail
def test_every_mail_has_the_same_placeholders_in_every_language(kind):
    english, names = source("en", f"mail/{kind}.txt"), re.compile(r"{{ ([a-z_]+) }}")
    for ours in (source(language, f"mail/{kind}.txt") for language in LANGUAGES):
        assert set(names.findall(ours)) == set(names.findall(english))
        for alone in ("link", "code"):
            # On a line of its own, so that it is a button in the HTML and can be copied.
            line = re.compile(rf"^{{{{ {alone} }}}}$", re.M)
            found = len(line.findall(ours)), len(line.findall(english))
            assert found == (english.count(alone + " }}"),) * 2, ours


@every_language
@pytest.mark.parametrize("name", ["words.txt", "pages.txt", "app.txt", "account.txt", "admin.txt"])
def test_every_word_is_there_in_every_language(name, language):
    word = re.compile(r"^{% (?:set|macro) (\w+)", re.M)
    assert word.findall(source(language, name)) == word.findall(source("en", name))
    names = ("{{ site }}", "{{ min_length }}")
    for english, own in zip(
        source("en", name).split("{%"), source(language, name).split("{%"), strict=True
    ):
        assert [english.count(x) for x in names] == [own.count(x) for x in names], own
        said = re.compile(r"(?<!{){[a-z]+}")
        assert sorted(said.findall(english)) == sorted(said.findall(own)), own


def test_the_admin_pages_say_sign_in_as_the_button_does():
    assert not re.search(r"\blog(s|ged|ging)?[ -]?(in|out)", source("en", "admin.txt"), re.I)


def test_every_page_is_in_its_language():
    for name in PAGES:
        for language in LANGUAGES:
            tag, html = page(name, language)
            assert tag == language
            assert f'<html lang="{language}">' in html
            assert "{{" not in html


@every_mail
def test_a_mail_says_the_same_as_text_and_as_html(kind):
    for language in LANGUAGES:
        mail = OURS.mail(kind, language, **FACTS)
        html = re.sub(r"&#39;", "'", mail.html)
        assert f'<html lang="{language}">' in html
        assert 10 < len(mail.subject) <= 60
        assert html.count(mail.subject) >= 3
        for paragraph in mail.text.strip().split("\n\n"):
            lines = paragraph.split("\n")
            assert lines[-1] in html
            assert lines[0].rstrip(":\u202f") in html
        assert ("href=" in html) == ("{{ link }}" in source("en", f"mail/{kind}.txt"))
        assert mail.text.endswith(".\n")
        assert "school.example" in mail.text


def test_notice_of_a_deletion_invites_where_registration_is_open():
    words = {"de": "neues Konto", "en": "new account", "es": "otra cuenta", "fr": "nouveau compte"}
    for language in LANGUAGES:
        invites, plain = (
            OURS.mail("account_deleted", language, **FACTS | {"registration_open": is_open}).text
            for is_open in (True, False)
        )
        assert words[language] in invites
        assert words[language] not in plain
        assert len(invites.split("\n\n")) == len(plain.split("\n\n"))


@every_mail
def test_the_subject_is_sent_as_the_standard_says(kind):
    sender = Address("", "no-reply", "school.example")
    for language in LANGUAGES:
        mail = OURS.mail(kind, language, **FACTS)
        message = build(mail, sender, "student@example.org", "1", NOON)
        sent = message.as_bytes(policy=policy.SMTP.clone(max_line_length=998))
        # RFC 2047, section 2: an encoded word has at most 75 characters.
        assert all(len(word) <= 75 for word in re.findall(rb"=\?\S+\?=", sent))
        assert message["Subject"] == mail.subject


@every_mail
def test_a_mail_leads_to_the_platform_once_and_ends_with_who_runs_it(kind):
    for language in LANGUAGES:
        app, imprint = "https://app.school.example/start?from=x", "Ann & Jo's School, 1 Mill Road"
        mail = OURS.mail(kind, language, **FACTS, app_url=app, imprint=imprint)
        assert mail.text.splitlines().count(app) == 1
        assert mail.text.endswith(f"\n{imprint}\n")
        assert mail.html.count(f'href="{app}"') == 1
        assert "Ann &amp; Jo&#39;s School, 1 Mill Road" in mail.html
        assert (f"{FACTS['link']}</a>" in mail.html) == (FACTS["link"] in mail.text)
        plain = OURS.mail(kind, language, **FACTS)
        assert len(plain.text.split("\n\n")) == len(re.split(r"\n\n+", plain.text))
        assert plain.html.count("href=") == 2 * plain.text.count(FACTS["link"])


@every_language
def test_whom_to_ask_is_said_alike_everywhere(language):
    default = re.search(r"set contact %}(.*?){%", source(language, "words.txt"))[1]
    default, own = default.replace("{{ site }}", FACTS["site"]), "room 12"
    for kind in MAILS:
        asks = "{{ contact }}" in source(language, f"mail/{kind}.txt")
        assert asks == ("{{ contact }}" in source("en", f"mail/{kind}.txt"))
        assert default in OURS.mail(kind, language, **FACTS).text or not asks
        assert (own in OURS.mail(kind, language, **FACTS, contact=own).text) == asks
        assert "mailto:" not in OURS.mail(kind, language, **FACTS, contact="mailto:a@b").text
    for name in ("account", "admin", "links"):
        facts = PAGE | {"contact": own, "by_groups": True}
        asked = OURS.page(name, language, facts, opened="reset_password")[1].count(own)
        assert asked == page(name, language)[1].count(default) + (name == "admin") >= 4
        assert default not in OURS.page(name, language, facts, opened="reset_password")[1]


@pytest.mark.parametrize(
    ("contact", "link"),
    [
        ("mailto:office@school.example", "mailto:office@school.example"),
        ("office@school.example", "mailto:office@school.example"),
        ("https://school.example/?a=1&b", "https://school.example/?a=1&amp;b"),
        ("room <12>", ""),
    ],
)
def test_whom_to_ask_is_a_link_on_pages_where_it_can_be(contact, link):
    facts = PAGE | {"contact": contact, "by_groups": True}
    for name in ("account", "admin", "links"):
        page, said = OURS.page(name, "en", facts, opened="reset_password")[1].split('"texts">')
        text = link.removeprefix("mailto:") if link else "room &lt;12&gt;"
        asking = f'<a href="{link}">{text}</a>' if link else text
        assert page.count(asking) == re.sub("<[^>]*>", "", page).count(text) > 0
        assert "<a" not in said
        assert text in said


def test_every_reason_and_error_has_words():
    html = page("links", "fr")[1]
    lines = re.search(r'<template id="texts">\n(.*?)\n</template>', html, re.S)[1]
    texts = dict(line.split(" ", 1) for line in lines.split("\n"))
    # What can be wrong with a password or an address that is not empty.
    words = {"too_short", "too_long", "common", "personal", "sequence", "repeated", "invalid"}
    assert words <= {*WORDS}
    expected = {f"field_{word}" for word in words} | {"error_weak_password", "error_unavailable"}
    assert expected <= texts.keys()
    assert len(set(texts.values())) == len(texts)


def test_a_time_to_live_is_said_in_words():
    for language, words, life in (
        ("en", "36 hours", timedelta(hours=36)),
        ("de", "90 Minuten", timedelta(minutes=90)),
        ("de", "1 Tag", timedelta(days=1)),
        ("fr", "1 heure", timedelta(hours=1)),
        ("es", "7 días", timedelta(days=7)),
    ):
        text = OURS.mail("password_reset", language, **FACTS | {"life": life}).text
        assert re.search(rf" {words}( gültig)?\.", text)


def test_a_date_is_said_in_words():
    for language, words in (
        ("en", "on 1 March 2026 at 12:05 UTC."),
        ("de", "am 1. März 2026 um 12:05 Uhr (UTC) geändert."),
        ("fr", "le 1er mars 2026 à 12:05 (UTC)."),
        ("es", "el 1 de marzo de 2026 a las 12:05 (UTC)."),
    ):
        assert words in OURS.mail("username_changed", language, **FACTS).text


def test_french_signs_have_their_narrow_space():
    for name in FILES:
        # Only the words: the syntax of the templates and of URLs has colons too.
        text = re.sub(r"{[{#].*?[}#]}|{% (macro|set names).*|https:", "", source("fr", name))
        assert re.findall(r"(?<![\u202f\d]):(?!\d)|[^\u202f][;!?»]|«(?!\u202f)", text) == [], name
        assert "'" not in text, name


# The look-up


def test_a_mail_is_in_the_nearest_language():
    for language, default, found in (
        ("de-Latn-AT-1996", "en", "de"),
        ("pt-BR", "fr", "fr"),
        ("pt-BR", "pt", "en"),
        ("ja", "de-CH", "de"),
    ):
        html = Templates(None, default).mail("password_reset", language, **FACTS).html
        assert f'<html lang="{found}">' in html


# An operator's own words


def test_own_words_come_first_and_the_rest_stays(own):
    folder = own("de/mail/password_reset.txt", "Hallo!\n\nHier:\n{{ link }}\n\n{{ life }}")
    assert problems(folder) == []
    mail = Templates(folder, "en").mail("password_reset", "de-AT", **FACTS)
    assert mail.subject == "Hallo!"
    assert mail.text.startswith(f"Hier:\n{FACTS['link']}\n\n30 Minuten\n\nDiese Nachricht")
    assert ">Hier</a>" in mail.html
    other = Templates(folder, "en").mail("password_reset", "en", **FACTS)
    assert other == OURS.mail("password_reset", "en", **FACTS)


def test_own_words_may_greet_by_the_names_where_ours_do(own):
    greeting = "Hi\n\nHi {{ first_name }} ({{ username }})!"
    assert problems(own("en/mail/password_changed.txt", greeting)) == []
    (found,) = problems(own("en/mail/email_verification.txt", greeting))
    assert "email_verification.txt: first_name, username" in found


def test_a_further_language_may_have_some_of_the_files(own):
    folder = own("pt-BR/mail/password_reset.txt", "Nova senha\r\n\r\nClique:\r\n{{ link }}\r\n")
    assert problems(folder) == []
    shipped = Templates(folder, "es")
    assert "pt-BR" in shipped.languages
    mail = shipped.mail("password_reset", "pt-BR", **FACTS)
    assert mail.subject == "Nova senha"
    assert '<html lang="pt-BR">' in mail.html
    assert shipped.mail("password_changed", "pt-BR", **FACTS).subject.startswith("Se ha cambiado")
    assert page("links", "pt-BR", shipped)[0] == "es"


def test_an_own_look_escapes_what_it_shows(own):
    own("mail.html", "<b>{{ subject }}</b>{{ site }}{{ paragraphs | join }}")
    folder = own("base.html", "<i>{{ site }}</i>{% block main %}{% endblock %}")
    assert problems(folder) == []
    shipped = Templates(folder, "en")
    mail = shipped.mail("password_changed", "en", **{**FACTS, "site": "A & <B>"})
    assert "A &amp; &lt;B&gt;" in mail.html
    assert "A & <B>" in mail.text
    assert "<i>A &amp; &lt;B&gt;</i>" in page("links", "en", shipped, site="A & <B>")[1]


def test_hidden_files_are_left_alone(own):
    own(".git/config", "{{")
    own("de/.draft", "{{")
    assert problems(own("de/mail/password_reset.txt", GOOD)) == []


def test_a_folder_that_cannot_be_read_is_a_mistake(own, tmp_path):
    mistake = ["must be a folder of UTF-8 texts that the service can read"]
    for folder in (tmp_path, tmp_path / "none"):
        assert problems(folder) == mistake
    own("de/pages.txt", "").joinpath("logo.png").write_bytes(b"\x89PNG")
    assert problems(tmp_path) == ["has a file that cannot be read as UTF-8: logo.png"]
    (tmp_path / "de/words.txt").symlink_to(tmp_path / "none")
    assert problems(tmp_path) == ["has a file that cannot be read as UTF-8: de/words.txt"]


RESET, CHANGED = "de/mail/password_reset.txt", "de/mail/password_changed.txt"


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("de/mail/passwort.txt", GOOD, "has a file whose name is none of ours: de/mail/pass"),
        ("DE/mail/password_reset.txt", GOOD, "has a file whose name is none of ours: DE/"),
        ("english/pages.txt", "", "has a file whose name is none of ours: english/"),
        (RESET, "A\n{{ link", "has a mistake in line 2 of de/mail/"),
        (RESET, "{{ link | nice }}", "No filter named 'nice'"),
        (CHANGED, "{{ link }}", f"not, in {CHANGED}: link"),
        ("mail.html", "{{ settings.secret_key }}{{ title }}", "not, in mail.html: settings, title"),
        ("links.html", "{{ holder }}", "uses what ours does not, in links.html: holder"),
        ("no_certificate.html", "{% if is_limited %}{{ x }}{% endif %}", "no_certificate.html: x"),
        ("account.html", "{% extends 'layout.html' %}", "not, in account.html: layout.html"),
        ("pt/pages.txt", "{{ ''.__class__.__mro__ }}", "in pt/pages.txt: __class__, __mro__"),
        ("mail.html", "{{ subject['__class__'] }}", "mistake in mail.html: no "),
        ("mail.html", "{{ code.lower() }}", "mistake in mail.html: no "),
        (RESET, " ", f"in {RESET}: no password_reset in de"),
        ("de/words.txt", NO_HOURS, "mistake in de/words.txt: no "),
        ("de/words.txt", "{% set life = 1 %}", "mistake in de/words.txt: no "),
    ],
)
def test_a_mistake_is_named(own, name, text, sentence):
    (found,) = problems(own(name, text))
    assert sentence in found


def test_linked_folders_are_read(own, tmp_path):
    """As Kubernetes mounts a ConfigMap."""
    folder = own("..data/de/mail/nothing.txt", "").joinpath("..data")
    (tmp_path / "de").symlink_to(folder / "de")
    assert problems(tmp_path) == ["has a file whose name is none of ours: de/mail/nothing.txt"]


def test_every_mistake_is_named_at_once(own):
    own("a.txt", "")
    own("de/mail/password_reset.txt", "{{ nobody }}")
    assert len(problems(own("de/mail/invitation.txt", "{{ nobody }}"))) == 3


def test_an_own_page_may_use_what_it_sets_itself(own):
    top = "{% extends 'base.html' %}{% set title, way = 1, 'B' %}{% macro end() %}C{% endmacro %}"
    main = "{{ way }}{{ end() }}{{ super() }}{{ root }}{{ range(2) | join }}"
    folder = own("links.html", f"{top}{{% block main %}}{main}{{% endblock %}}")
    assert problems(folder) == []
    assert "BC01" in page("links", "en", Templates(folder, "en"))[1]


def test_a_word_that_an_own_file_lacks_is_ours(own):
    own("de/words.txt", "{% macro moment(at) %}{{ day(at) }}, {{ at.hour }} Uhr{% endmacro %}")
    own("de/pages.txt", "{% set reset_title %}{{ site }}: {{ reset_button }}{% endset %}")
    folder = own("pt/pages.txt", "{% set reset_title = 'Escolha uma senha' %}")
    assert problems(folder) == []
    shipped = Templates(folder, "de")
    mail = shipped.mail("username_changed", "de", **FACTS)
    assert "1. März 2026, 12 Uhr" in mail.text
    german, portuguese = (page("links", tag, shipped)[1] for tag in ("de", "pt"))
    assert "<h1>school.example: Passwort speichern</h1>" in german
    assert "<h1>Escolha uma senha</h1>" in portuguese
    assert "Passwort speichern" in portuguese
