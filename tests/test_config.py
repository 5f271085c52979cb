"""The settings: what is taken, and what is refused."""

import dataclasses
import json
import re

import pytest
from helpers import SECRET
from sqlalchemy import make_url

import config
from app import create_app
from config import ConfigError, Settings, load
from core.smtp import MailServer

KEY = "0123456789abcdef" * 2
PRODUCTION = {
    "DATABASE_URL": "postgres://user:password@db.example.org/accounts",
    "SECRET_KEY": KEY,
    "PUBLIC_URL": "https://accounts.example.org",
    "MAIL_URL": "console:",
}
ROWS = dataclasses.fields(Settings)
NAMES = [row.name.upper() for row in ROWS]


def refusal(**environ):
    with pytest.raises(ConfigError) as caught:
        load(environ)
    return str(caught.value)


def test_nothing_needs_to_be_set():
    settings = load({})
    assert settings.embedded
    assert settings.public_url == "http://127.0.0.1:5000"
    assert str(settings.sender) == "no-reply@localhost"


def test_an_empty_value_counts_as_unset():
    assert vars(load(dict.fromkeys(NAMES, " "))) == vars(load({}))


def test_everything_wrong_is_listed_at_once():
    found = refusal(
        DATABASE_URL="mysql://h/db", SECRET_KEY="short", PORT="0", LOG_FORMAT="xml", MAIL_URL=" "
    )
    named = re.findall(r"^- ([A-Z_]+) ", found, re.M)
    assert named == ["DATABASE_URL", "SECRET_KEY", "LOG_FORMAT", "PORT", "PUBLIC_URL", "MAIL_URL"]


@pytest.mark.parametrize("name", ["SECRET_KEY", "PUBLIC_URL", "MAIL_URL"])
def test_a_production_deployment_must_name(name):
    assert refusal(**{**PRODUCTION, name: ""}).count(f"- {name} is missing") == 1


@pytest.mark.parametrize("name", NAMES)
def test_a_refused_value_is_not_repeated(name):
    # The last one is broken UTF-8.
    for value in ("s3cr3t\x00s3cr3t", "s3cr3t://s3cr3t@x:s3cr3t#", "s3cr3t\udcff"):
        message = refusal(**{name: value})
        assert name in message
        assert "s3cr3t" not in message


def test_settings_do_not_print_their_secrets():
    settings = load({**PRODUCTION, "MAIL_URL": "smtp://user:password@mail.example.org"})
    assert KEY not in repr(settings)
    assert "password" not in repr(settings)
    assert "password" not in repr(settings.mail_url)


def test_postgres_urls_keep_their_options():
    rest = "://user:p%40ss@db.example.org:6543/accounts?sslmode=require"
    for scheme in ("postgres", "postgresql", "postgresql+psycopg"):
        found = load({**PRODUCTION, "DATABASE_URL": scheme + rest}).database_url
        assert found.render_as_string(hide_password=False) == "postgresql+psycopg" + rest


@pytest.mark.parametrize("password", ["pa@ss", "p@a/ss", "p@a?ss", "@@"])
def test_a_password_that_would_be_taken_for_a_host_is_refused(password):
    url = f"postgresql://user:{password}@db.example.org/accounts"
    said = refusal(**{**PRODUCTION, "DATABASE_URL": url})
    assert "DATABASE_URL has a second @: write %40" in said
    assert password not in said


@pytest.mark.parametrize(
    "url",
    [
        *("nonsense", "mysql://db.example.org/accounts"),
        "postgresql+psycopg2://db.example.org/accounts",
        *("postgresql://db.example.org:port/accounts", "postgresql://db.example.org:0/accounts"),
        "postgresql://db.example.org:65536/accounts",
        *("postgresql://user@:x/", "postgresql://[]/accounts", "postgresql://a b/accounts"),
        *(f"postgresql://{'a' * 64}/accounts", "postgresql://db..example.org/accounts"),
        *("postgresql:///accounts?host=db..example.org", "postgresql://[::x]/accounts"),
        "postgresql://user:%00@db.example.org/accounts",
        *("postgresql://db.example.org/accounts?pgbouncer=true", "sqlite://", "sqlite:///:memory:"),
        *("sqlite:///file:accounts", "sqlite:///accounts.db?mode=memory&uri=true"),
        *("sqlite://host/accounts.db", "sqlite:////srv/accounts?old.db"),
        *("postgresql://db1:port,db2/accounts", "postgresql://db1,db2:65536/accounts"),
    ],
)
def test_other_databases_are_refused(url):
    assert "DATABASE_URL" in refusal(**{**PRODUCTION, "DATABASE_URL": url})


@pytest.mark.parametrize(
    "place",
    ["/accounts", "/accounts?host=/run/a b", "[::1]/accounts", "DB,db_2.example.org./accounts"],
)
def test_postgres_may_be_at_a_socket_an_ip_and_several_hosts(place):
    found = load({**PRODUCTION, "DATABASE_URL": f"postgresql://{place}"}).database_url
    assert found.database == "accounts"


@pytest.mark.parametrize(
    ("place", "host", "port"),
    [
        ("db1:5432,db2:5433/accounts?target_session_attrs=any", "db1,db2", "5432,5433"),
        ("user:p%2Cw@db1,db2/accounts", "db1,db2", ","),
        ("[::1]:5432,db2/accounts", "::1,db2", "5432,"),
        ("%2Fvar%2Frun%2Fpostgresql/accounts", "/var/run/postgresql", None),
        ("user:p%40w@%2Ftmp:5433/accounts", "/tmp", "5433"),
        ("user:p,w/x@db1/accounts", "db1", None),
    ],
)
def test_hosts_may_be_written_as_libpq_does(place, host, port):
    url = load({**PRODUCTION, "DATABASE_URL": f"postgresql://{place}"}).database_url
    options = url.get_dialect()().create_connect_args(url)[1]
    assert (options["host"], options.get("port")) == (host, port)
    assert options["dbname"] == "accounts"
    assert options.get("password") in (None, "p,w", "p@w", "p,w/x")


def test_an_option_that_postgres_does_not_know_is_named():
    url = "postgresql://db.example.org/accounts?pgbouncer=true&sslmode=require&schema=public"
    said = refusal(**{**PRODUCTION, "DATABASE_URL": url})
    assert "DATABASE_URL has an option that Postgres does not know: pgbouncer, schema." in said


def test_a_sqlite_file_may_be_named():
    found = load({**PRODUCTION, "DATABASE_URL": "sqlite:////srv/accounts.db"}).database_url
    assert found.database == "/srv/accounts.db"


@pytest.mark.asvs("11.2.3")
def test_a_key_has_32_bytes_or_more():
    assert "SECRET_KEY must have 32 bytes" in refusal(SECRET_KEY=KEY[:31])
    assert "SECRET_KEY must have 32 bytes" in refusal(SECRET_KEY=f" {KEY[:31]} ")
    assert load({"SECRET_KEY": KEY}).secret_key == KEY
    assert load({"SECRET_KEY": "é" * 16}).secret_key == "é" * 16  # two bytes each


def test_a_key_that_pyjwt_takes_for_a_public_key_is_refused():
    for key in ("ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAB", '{"kty": "oct", "k": "AAAAAAAAAAAAAAAA"}'):
        assert "SECRET_KEY looks like a public key" in refusal(SECRET_KEY=key)


@pytest.mark.asvs("13.2.3")
@pytest.mark.parametrize(
    "placeholder",
    [
        *("changeme-changeme-changeme-changeme", "<Change This before you go to production>"),
        *("replace-me-with-32-random-bytes-please", "replace_this-with-32-random-bytes-please"),
        "Your Secret Key Must Be Set In Production",
    ],
)
def test_a_key_that_every_template_has_is_refused(placeholder):
    for name in ("SECRET_KEY", "SECRET_KEY_FALLBACKS"):
        assert f"{name} is a placeholder" in refusal(**{**PRODUCTION, name: placeholder})


def test_a_key_is_not_judged_beyond_that():
    for key in ("x" * 32, "a secret, and the words change me in its middle"):
        assert load({"SECRET_KEY": key}).secret_key == key


def test_older_keys_come_after_the_key():
    older = [KEY[::-1], KEY.upper()]
    settings = load({"SECRET_KEY": KEY, "SECRET_KEY_FALLBACKS": f"{older[0]} , {older[1]},"})
    assert (settings.secret_key, settings.secret_key_fallbacks) == (KEY, tuple(older))
    assert "SECRET_KEY_FALLBACKS" in refusal(SECRET_KEY_FALLBACKS=f"{KEY},short")


@pytest.mark.parametrize(
    "url",
    [
        *("accounts.example.org", "ftp://accounts.example.org", "https://", "https://:443"),
        *("https://user:password@accounts.example.org", "https://accounts.example.org:"),
        *("https://accounts.example.org:0", "https://accounts.example.org:65536"),
        *("https://accounts.example.org/#", "https://accounts.example.org/<b>"),
        *("https://accounts.example.org\\@example.com", "https://bücher.example", "https://[zz]"),
    ],
)
def test_urls_that_no_mail_should_carry_are_refused(url):
    names = ["PUBLIC_URL", "PASSWORD_RESET_URL", "EMAIL_VERIFICATION_URL"]
    found = refusal(**dict.fromkeys(names, url))
    assert re.findall("^- ([A-Z_]+) must ", found, re.M) == names


def test_links_begin_with_the_public_url():
    settings = load({"PUBLIC_URL": "https://example.org/accounts/"})
    assert settings.reset_page == "https://example.org/accounts/reset-password"
    assert settings.verification_page == "https://example.org/accounts/verify-email"
    assert str(settings.sender) == "no-reply@example.org"
    assert "PUBLIC_URL" in refusal(PUBLIC_URL="https://example.org/?a=b")
    page = "https://app.example.org/reset?from=mail"
    assert load({"PASSWORD_RESET_URL": page}).reset_page == page
    assert load({"EMAIL_VERIFICATION_URL": page}).verification_page == page


def test_a_colour_is_one_that_white_can_be_read_on():
    assert load({}).site_color == "#3451b2"
    assert load({"SITE_COLOR": "#A11D4C"}).site_color == "#a11d4c"
    assert load({"SITE_COLOR": "#6b6b6b"}).site_color == "#6b6b6b"  # 5.33
    for color in ("#6c6c6c", "#ffffff", "red", "#34b", "3451b2", "#3451b200"):
        assert "SITE_COLOR must " in refusal(SITE_COLOR=color)


def test_the_service_has_the_name_of_its_host_or_its_own():
    assert load({"PUBLIC_URL": "https://Example.org:8443/accounts"}).site == "example.org"
    assert load({"SITE_NAME": " Lee's School "}).site == "Lee's School"
    for name in ("x" * 65, "https://example.org", "…", "a\nb"):
        assert "SITE_NAME must " in refusal(SITE_NAME=name)


def test_settings_take_a_url_and_a_line():
    url, line = "https://app.school.example/start?from=accounts", "Ann & Jo's School, 1 Mill Road"
    settings = load({"APP_URL": url, "IMPRINT": line, "DOCS": "0", "CONTACT": line})
    assert (settings.app_url, settings.imprint, settings.docs) == (url, line, False)
    for contact in (line, url, "mailto:office@school.example"):
        assert load({"CONTACT": contact}).contact == contact
    for name, value in (
        *(("APP_URL", "app.example"), ("APP_URL", "javascript://x/"), ("DOCS", "2")),
        *(("CONTACT", "x" * 201), ("CONTACT", "javascript://x/"), ("CONTACT", "a\tb")),
        *(("IMPRINT", "x" * 201), ("IMPRINT", "javascript://x/"), ("IMPRINT", "https://a b")),
    ):
        with pytest.raises(ConfigError, match=f"{name} must be"):
            load({name: value})


def test_the_default_language_is_one_that_is_there(tmp_path):
    assert load({"DEFAULT_LANGUAGE": "fr"}).default_language == "fr"
    there = "DEFAULT_LANGUAGE must be among de, en, es, fr"
    assert f"{there}." in refusal(DEFAULT_LANGUAGE="pt-BR")
    assert "DEFAULT_LANGUAGE must be a language tag" in refusal(DEFAULT_LANGUAGE="de_AT")
    (tmp_path / "pt-BR").mkdir()
    (tmp_path / "pt-BR/words.txt").write_text("")
    settings = load({"DEFAULT_LANGUAGE": "pt-BR", "TEMPLATES_DIR": str(tmp_path)})
    assert (settings.default_language, settings.templates_dir) == ("pt-BR", tmp_path)
    assert f"{there}, pt-BR." in refusal(DEFAULT_LANGUAGE="sv", TEMPLATES_DIR=str(tmp_path))


def test_mistakes_in_own_templates_are_listed_with_all_others(tmp_path):
    (tmp_path / "de").mkdir()
    (tmp_path / "de/pages.txt").write_text("{% set wait %}")
    (tmp_path / "hello.txt").write_text("Hello")
    found = refusal(TEMPLATES_DIR=str(tmp_path), PORT="0")
    assert re.findall(r"^- (.*?)[:.0-9]", found, re.M) == [
        "TEMPLATES_DIR has a mistake in line ",
        "TEMPLATES_DIR has a file whose name is none of ours",
        "PORT must be a whole number from ",
    ]
    found = refusal(TEMPLATES_DIR=str(tmp_path / "none"), DEFAULT_LANGUAGE="sv")
    assert "TEMPLATES_DIR must be a folder" in found
    assert "DEFAULT_LANGUAGE" not in found  # the folder may have it


def test_a_bare_ip_address_is_no_mail_domain():
    for host in ("[::1]:8000", "192.0.2.1"):
        assert str(load({"PUBLIC_URL": f"http://{host}"}).sender) == "no-reply@localhost"


def test_links_follow_port_and_host_where_nobody_set_them():
    assert load({"PORT": "8000"}).public_url == "http://127.0.0.1:8000"
    assert load({"HOST": "0.0.0.0"}).public_url == "http://127.0.0.1:5000"
    assert load({"HOST": "::1", "PORT": "8000"}).public_url == "http://[::1]:8000"
    assert load({"HOST": "0:0::0"}).public_url == "http://127.0.0.1:5000"
    assert load({**PRODUCTION, "PORT": "8000"}).public_url == PRODUCTION["PUBLIC_URL"]


@pytest.mark.parametrize("host", ["127.0.0.1:80", "[::1]", "a b", "a/b", "0", "127.1"])
def test_gunicorn_listens_on_a_host_alone(host):
    assert "HOST must be an IP or a host name" in refusal(HOST=host)


def test_a_list_of_domains_needs_verified_addresses():
    domains = {"REGISTRATION_DOMAINS": "school.example"}
    assert "REGISTRATION_DOMAINS needs REQUIRE_VERIFIED_EMAIL=1" in refusal(**domains)
    found = load({**domains, "REQUIRE_VERIFIED_EMAIL": "1"})
    assert found.registration_domains == ("school.example",)


def test_origins_are_kept_as_browsers_send_them():
    given = "https://App.example.org:443, http://[::1]:3000/,https://app.example.org,"
    found = load({"CORS_ORIGINS": given}).cors_origins
    assert found == ("https://app.example.org", "http://[::1]:3000")
    for origin in ("*", "null", "app.example.org", "https://example.org/app"):
        assert "CORS_ORIGINS" in refusal(CORS_ORIGINS=f"https://example.org,{origin}")


def test_a_sender_is_one_address():
    for sender in ("nobody", "a@example.org, b@example.org", "a@@example.org"):
        assert "MAIL_FROM" in refusal(MAIL_FROM=sender)
    found = load({"MAIL_FROM": "Accounts <a@example.org>"}).sender
    assert (found.display_name, found.addr_spec) == ("Accounts", "a@example.org")


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("smtp://mail.example.org", MailServer("mail.example.org", 587, False)),
        ("smtps://mail.example.org/", MailServer("mail.example.org", 465, True)),
        ("SMTP://[::1]:2525", MailServer("::1", 2525, False)),
        (
            "smtp://me%40example.org:p%2F%23%25@mail.example.org:25",
            MailServer("mail.example.org", 25, False, "me@example.org", "p/#%"),
        ),
        ("smtp://mail.example.org.", MailServer("mail.example.org.", 587, False)),
        ("smtp://relay_1:25", MailServer("relay_1", 25, False)),
        ("CONSOLE:", None),
    ],
)
def test_the_mail_server_is_read(url, server):
    assert load({"MAIL_URL": url}).mail_url == server


@pytest.mark.parametrize(
    "url",
    [
        *("mail.example.org", "http://mail.example.org", "smtp://", "smtp://a..b"),
        *(f"smtp://{'a' * 64}.example.org", "smtp://[1::2::3]", "smtp://mail.example.örg"),
        *("smtp://user@mail.example.org", "smtp://:hunter22@mail.example.org"),
        *(
            f"smtp://user:hunter22@mail.example.org{more}"
            for more in (":0", ":99999", ":port", "/path", "?tls=no")
        ),
        *("smtp://user:hunter22#@mail.example.org", "smtp://user:hunter22%ff@mail.example.org"),
        *("smtp://user:hunter 22@mail.example.org", "smtp://user:hunter22%c3%a9@mail.example.org"),
        *("smtp://user:hunter22%0d%0a@mail.example.org", "smtp://user:hunter22@mail\n.example.org"),
    ],
)
def test_a_wrong_mail_url_is_refused(url):
    assert re.search("^- MAIL_URL must ", refusal(MAIL_URL=url), re.M)
    assert "hunter" not in refusal(MAIL_URL=url)


def allowed(row):
    """Return what a setting says about a value that is certainly wrong."""
    try:
        row.metadata["parse"]("?")
    except ValueError as error:
        return str(error)
    raise AssertionError(f"{row.name} takes everything")


def test_counts_and_lifetimes_are_positive_whole_numbers():
    numbers = [row for row in ROWS if "whole number" in allowed(row)]
    assert len(numbers) == 15
    for row in numbers:
        name = row.name.upper()
        low, high = map(int, re.findall(r"\d+", allowed(row)))
        assert low >= (0 if name in ("TRUSTED_PROXIES", "SESSION_IDLE_DAYS", "EVENT_DAYS") else 1)
        for value in (low, high):
            environ = {"SESSION_DAYS": "3650", name: str(value)}
            assert getattr(load(environ), row.name) == value
        for wrong in (str(low - 1), str(high + 1), "1.5", "+5", "٣", "1_0", "9" * 5000):
            assert f"{name} must be a whole number" in refusal(**{name: wrong})


def test_a_misspelt_setting_is_a_warning_in_the_form_of_the_log(monkeypatch, tmp_path, capfd):
    misspelt = ("CORS_ORIGIN", "SECRETKEY", "LOGIN_PER_MINUTE", "OIDC_OTHER_LABEL")
    environ = dict.fromkeys((*misspelt, "PATH", "HOSTNAME", "PORTAL"), "x")
    environ |= {"OIDC_PROVIDERS": "school", "OIDC_SCHOOL_ISSUER": "https://id.school.example"}
    environ |= {"OIDC_SCHOOL_CLIENT_ID": "x", "OIDC_SCHOOL_CLIENT_SECRET": "x"}
    monkeypatch.setattr(config, "environment", lambda: {**environ, "LOG_FORMAT": "json"})
    create_app(instance_path=tmp_path)
    warnings = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    said = [
        "CORS_ORIGIN is no setting. Is CORS_ORIGINS meant?",
        "LOGIN_PER_MINUTE is no setting. Is LOGINS_PER_MINUTE meant?",
        "OIDC_OTHER_LABEL is no setting of a provider in OIDC_PROVIDERS.",
        "SECRETKEY is no setting. Is SECRET_KEY meant?",
    ]
    assert [line["message"] for line in warnings if line["level"] == "WARNING"] == said
    assert refusal(**environ, PORT="0").splitlines()[2:] == [f"- {line}" for line in said]


@pytest.mark.parametrize(
    ("setting", "word"),
    [
        ({"public_url": "http://school.test"}, "PUBLIC_URL"),
        ({"ratelimit_enabled": False, "public_url": "http://127.0.0.1:8000"}, "RATELIMIT_ENABLED"),
    ],
)
def test_a_careless_deployment_is_a_warning(caplog, tmp_path, setting, word):
    caplog.set_level("WARNING")
    url = make_url(f"sqlite:///{tmp_path}/a.db")
    careful = {"public_url": "https://school.test", "secret_key": SECRET}
    create_app(Settings(**{**careful, **setting}), tmp_path)
    create_app(Settings(database_url=url, **careful))
    assert caplog.records == []
    create_app(Settings(database_url=url, **{**careful, **setting}))
    (record,) = caplog.records
    assert record.getMessage().startswith(word)


def test_an_idle_session_cannot_outlive_the_others():
    message = "- SESSION_IDLE_DAYS must not be greater than SESSION_DAYS."
    assert message in refusal(SESSION_IDLE_DAYS="31").splitlines()
    assert message in refusal(SESSION_IDLE_DAYS="7", SESSION_DAYS="6").splitlines()
    assert load({"SESSION_IDLE_DAYS": "30"}).session_idle_days == 30
    assert load({"SESSION_DAYS": "1"}).session_idle_days == 0


def test_switches_and_choices_are_read_whatever_their_case():
    settings = load({"REQUIRE_VERIFIED_EMAIL": "TRUE", "LOG_LEVEL": "debug", "LOG_FORMAT": "JSON"})
    assert settings.require_verified_email
    assert (settings.log_level, settings.log_format) == ("DEBUG", "json")
    assert not load({"RATELIMIT_ENABLED": "0"}).ratelimit_enabled
    assert "RATELIMIT_ENABLED" in refusal(RATELIMIT_ENABLED="maybe")


def test_the_environment_goes_before_the_file(tmp_path, monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(config, "ROOT", tmp_path)
    # With the mark that some editors put at the beginning of a file.
    (tmp_path / ".env").write_text("\ufeffSESSION_DAYS=7\nBCRYPT_ROUNDS=11\nLOG_LEVEL\n")
    monkeypatch.setenv("BCRYPT_ROUNDS", "10")
    settings = load()
    assert (settings.session_days, settings.bcrypt_rounds) == (7, 10)


def test_a_file_that_cannot_be_read_is_a_problem_of_the_settings(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "ROOT", tmp_path)
    file = tmp_path / ".env"
    file.write_bytes(b"SESSION_DAYS=\xff")
    with pytest.raises(ConfigError, match=r"\.env cannot be read"):
        load()
    file.unlink()
    file.symlink_to("/proc/self/mem")  # it can be opened, but at its beginning nothing can be read
    with pytest.raises(ConfigError, match=r"\.env cannot be read"):
        load()


def test_a_line_of_the_file_that_cannot_be_read_is_refused_by_its_number(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "ROOT", tmp_path)
    (tmp_path / ".env").write_text("PORT=1\nSITE_NAME='Lee's School'\n")
    with pytest.raises(ConfigError, match=r"^In \.env, .* line 2\.$") as caught:
        load()
    assert "School" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "has_them"),
    [
        *(("https://school.example", True), ("http://localhost:5000", True)),
        *(("http://app.localhost:5000", True), ("http://school.example", False)),
        *(("http://127.0.0.1:5000", False), ("https://192.0.2.1", False), ("https://[::1]", False)),
    ],
)
def test_there_are_passkeys_where_browsers_have_them(url, has_them):
    assert load({"PUBLIC_URL": url}).has_passkeys is has_them
    assert not load({"PUBLIC_URL": url, "PASSKEYS": "none"}).has_passkeys


def test_passkeys_belong_to_the_host_or_a_domain_above_it():
    url = "https://Accounts.School.example:443/start"
    apps = "https://app.school.example,https://school.example,https://myschool.example"
    own = load({"PUBLIC_URL": url, "CORS_ORIGINS": apps})
    assert own.passkey_host == "accounts.school.example"
    assert own.passkey_origins == ("https://accounts.school.example",)
    above = load({"PUBLIC_URL": url, "CORS_ORIGINS": apps, "PASSKEY_DOMAIN": "SCHOOL.example"})
    assert above.passkey_host == "school.example"
    names = ("accounts.school.example", "app.school.example", "school.example")
    assert above.passkey_origins == tuple(f"https://{name}" for name in names)
    others = "ool.example a.accounts.school.example school.example:443 ä.example"
    for wrong in (url, *others.split()):
        assert "PASSKEY_DOMAIN must be" in refusal(PUBLIC_URL=url, PASSKEY_DOMAIN=wrong)
