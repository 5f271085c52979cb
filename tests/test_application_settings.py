"""APPLICATIONS and APPLICATION_…: what is wrong is named at the start, and no value is shown."""

import logging

import applications
import pytest
from applications import KEY, SECRET
from cryptography.hazmat.primitives.asymmetric import ec, rsa

import config
from app import create_app

OTHER_SECRET = SECRET[::-1]
GOOD = {
    "APPLICATIONS": "wiki, spa",
    "APPLICATIONS_KEYS": applications.der(KEY),
    "APPLICATION_WIKI_REDIRECT_URIS": "https://wiki.test/back?a=b, https://wiki.test/other",
    "APPLICATION_WIKI_SECRET": SECRET,
    "APPLICATION_WIKI_LOGOUT_URIS": "https://wiki.test/bye",
    "APPLICATION_SPA_REDIRECT_URIS": "http://localhost:3000/back",
}
URIS, KEYS = "APPLICATION_WIKI_REDIRECT_URIS", "APPLICATIONS_KEYS"
WRONG = [
    *(("APPLICATIONS", names) for names in ("Wiki", "1wiki", "wi-ki", "w" * 21, "wiki,wiki")),
    ("APPLICATIONS", ",".join(f"a{number}" for number in range(21))),
    *((URIS, value) for value in ("", ",", "wiki.test/back", "javascript:alert(1)", "my://app")),
    *((URIS, f"https://{rest}") for rest in ("a@wiki.test/", "wiki.test/#a", "*.test/", "t/a*")),
    *((URIS, f"https://wiki.test/?a=b&{name}=c") for name in ("code", "state", "iss", "error")),
    *((URIS, f"https://wiki.test/?{query}") for query in ("%63ode=c", "code")),
    ("APPLICATION_WIKI_LOGOUT_URIS", "https://wiki.test/#a"),
    *(("APPLICATION_WIKI_SECRET", value) for value in ("a" * 31, "a" * 129, "a b" * 20, "é" * 40)),
    ("APPLICATION_WIKI_LABEL", "a" * 41),
    ("APPLICATION_WIKI_ROLE", "teacher"),
    ("APPLICATION_WIKI_PLACEHOLDER_EMAIL", "perhaps"),
    *((KEYS, value) for value in ("", "no key", "AAAA")),
    (KEYS, applications.der(rsa.generate_private_key(65537, 1024))),
    (KEYS, applications.der(ec.generate_private_key(ec.SECP256R1()))),
    (KEYS, f"{GOOD[KEYS]},{GOOD[KEYS]}"),
]


def problems(**changes):
    with pytest.raises(config.ConfigError) as raised:
        config.load({**GOOD, **changes})
    return str(raised.value).splitlines()[1:]


def test_settings_of_applications_are_read():
    settings = config.load(GOOD)
    wiki, spa = settings.applications
    assert wiki.redirect_uris == ("https://wiki.test/back?a=b", "https://wiki.test/other")
    assert (wiki.label, wiki.secret, wiki.role) == ("Wiki", SECRET, "student")
    assert (spa.secret, spa.logout_uris, spa.placeholder_email) == ("", (), False)
    # Compared byte for byte, so the scheme stays as it is.
    wiki, _ = config.load({**GOOD, URIS: "HTTPS://Wiki.test"}).applications
    assert wiki.redirect_uris == ("HTTPS://Wiki.test",)


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_wrong_setting_is_named_without_its_value(name, value):
    found = problems(**{name: value})
    assert f"- {name} " in "\n".join(found)
    assert len(value) < 3 or value not in "\n".join(found)


def test_key_has_at_most_4096_bits(monkeypatch):
    # To make a longer key takes seconds.
    monkeypatch.setattr("config.types.RSA_BITS", range(2048))
    assert problems()[0].startswith(f"- {KEYS} must be private RSA keys of 2048 to 4096 bits")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"ACCOUNT_PAGES": "0"}, "APPLICATIONS needs ACCOUNT_PAGES=1."),
        ({"SECRET_KEY": SECRET}, "APPLICATION_WIKI_SECRET must be a secret that nothing else has."),
        (
            {"SECRET_KEY": OTHER_SECRET, "SECRET_KEY_FALLBACKS": SECRET},
            "APPLICATION_WIKI_SECRET must be a secret that nothing else has.",
        ),
        (
            {"APPLICATION_SPA_SECRET": SECRET},
            "APPLICATION_SPA_SECRET must be a secret that nothing else has.",
        ),
    ],
)
def test_settings_that_contradict_each_other_are_named(changes, named):
    found = problems(**changes)
    assert f"- {named}" in found
    assert SECRET not in "\n".join(found)


@pytest.fixture
def warnings(tmp_path, caplog):
    """Return what the log of a start warns of."""

    def warnings(**changes):
        caplog.clear()
        settings = config.load({**GOOD, **changes})
        with caplog.at_level(logging.WARNING, "accounts"):
            create_app(settings, tmp_path)
        return {each.getMessage() for each in caplog.records}

    return warnings


PRODUCTION = {
    "DATABASE_URL": "postgresql://user:secret@127.0.0.1:1/none",
    "SECRET_KEY": OTHER_SECRET,
    "PUBLIC_URL": "https://school.test",
    "MAIL_URL": "smtp://mail.test",
}


def test_what_is_a_risk_is_a_warning_at_the_start(warnings):
    anybody = "REGISTRATION is open: anybody can register and enter the APPLICATIONS."
    assert warnings(**PRODUCTION) == {anybody}
    assert warnings(**PRODUCTION, REGISTRATION="closed") == set()
    http = "APPLICATION_WIKI_REDIRECT_URIS has a URL with http: others can read it."
    assert warnings(**{URIS: "https://wiki.test, http://wiki.test"}) == {http}


def test_settings_of_an_application_that_is_not_listed_are_a_warning():
    name = "APPLICATION_QUITE_ANOTHER_THING"
    found = [*config.misspelt({**GOOD, name: "x"}, config.load(GOOD))]
    assert found == [f"{name} is no setting of an application in APPLICATIONS."]
