"""The settings of providers: read, checked and named like all others."""

import re

import pytest
from test_config import refusal

from config import load

SCHOOL = {
    "OIDC_PROVIDERS": "school",
    "OIDC_SCHOOL_ISSUER": "https://id.school.example/",
    "OIDC_SCHOOL_CLIENT_ID": "an id",
    "OIDC_SCHOOL_CLIENT_SECRET": "s3cr3t",
}
MICROSOFT = "https://login.microsoftonline.com"
TENANT = f"{MICROSOFT}/9188040d-6c67-4c5b-b112-36a304b66dad/v2.0"


def test_providers_are_read_in_their_order_with_what_is_usual():
    other = {name.replace("SCHOOL", "AT2"): value for name, value in SCHOOL.items()}
    more = {"LABEL": "Lee's School", "DOMAINS": "A.example, *.b.example", "PROMPT": "none"}
    other |= {f"OIDC_AT2_{name}": value for name, value in more.items()}
    settings = load({**other, **SCHOOL, "OIDC_PROVIDERS": " school , at2,"})
    school, at2 = settings.oidc_providers
    assert (school.name, school.label, school.issuer) == ("school", "School", at2.issuer)
    assert (school.domains, school.prompt) == ((), "select_account")
    assert (at2.name, at2.label, at2.prompt) == ("at2", "Lee's School", "none")
    assert at2.domains == ("a.example", "*.b.example")
    assert "s3cr3t" not in repr(school) + repr(settings)


def test_names_are_short_and_few():
    for wrong in ("a,b,a", "a,b,c,d,e,f", "School", "1a", "a_b", "a" * 21, "a b", "é"):
        assert "OIDC_PROVIDERS must " in refusal(OIDC_PROVIDERS=wrong)


def test_what_a_provider_needs_is_named():
    for name in ("ISSUER", "CLIENT_ID", "CLIENT_SECRET"):
        said = refusal(**{**SCHOOL, f"OIDC_SCHOOL_{name}": " ", "PORT": "0"})
        assert re.findall("^- ([A-Z_]+) ", said, re.M) == ["PORT", f"OIDC_SCHOOL_{name}"]


@pytest.mark.parametrize(
    "issuer",
    [
        *("http://id.school.example", "id.school.example", "https://id.school.example?a=b"),
        *("https://id.school.example/#", "https://a:b@id.school.example", "ftp://localhost"),
        *(f"{MICROSOFT}/{any_of}/v2.0" for any_of in ("common", "organizations", "consumers")),
    ],
)
def test_issuer_that_no_token_can_have_or_nobody_can_trust_is_refused(issuer):
    said = refusal(**{**SCHOOL, "OIDC_SCHOOL_ISSUER": issuer})
    assert "OIDC_SCHOOL_ISSUER must " in said
    assert issuer not in said
    assert ("name other issuers" in said) is issuer.startswith(MICROSOFT)


def test_issuer_is_kept_to_the_letter():
    for issuer in (TENANT, "http://127.0.0.1:8080/realms/x/", "http://localhost"):
        assert load({**SCHOOL, "OIDC_SCHOOL_ISSUER": issuer}).oidc_providers[0].issuer == issuer


def test_other_settings_about_providers_are_checked():
    assert "REGISTRATION=providers needs OIDC_PROVIDERS" in refusal(REGISTRATION="providers")
    assert load({**SCHOOL, "REGISTRATION": "providers"}).registration == "providers"
    pages = ("https://a.example/in?x=y", "http://127.0.0.1:3000/")
    assert load({"SIGN_IN_RETURN_URLS": ", ".join(pages)}).sign_in_return_urls == pages
    for wrong in ("https://a.example/#in", "a.example", "javascript:alert()", "app://a.example"):
        assert "SIGN_IN_RETURN_URLS must " in refusal(SIGN_IN_RETURN_URLS=f"{pages[0]},{wrong}")
    for name, value in {"PROMPT": "consent", "DOMAINS": "a b", "LABEL": "x" * 65}.items():
        assert f"OIDC_SCHOOL_{name} must " in refusal(**{**SCHOOL, f"OIDC_SCHOOL_{name}": value})
