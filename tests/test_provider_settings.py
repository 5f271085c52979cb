"""The settings of providers: read, checked and named like all others."""

import re

import pytest
from test_config import refusal

from config import ROOT, load, misspelt

SCHOOL = {
    "OIDC_PROVIDERS": "school",
    "OIDC_SCHOOL_ISSUER": "https://id.school.example/",
    "OIDC_SCHOOL_CLIENT_ID": "an id",
    "OIDC_SCHOOL_CLIENT_SECRET": "s3cr3t",
}


def test_provider_is_read_with_what_is_usual():
    (school,) = load(SCHOOL).oidc_providers
    assert (school.name, school.label, school.issuer) == (
        "school",
        "School",
        SCHOOL["OIDC_SCHOOL_ISSUER"],
    )
    assert (school.domains, school.prompt) == ((), "select_account")
    assert "s3cr3t" not in repr(school) + repr(load(SCHOOL))
    more = {"LABEL": "Lee's School", "DOMAINS": "A.example, *.b.example", "PROMPT": "none"}
    (school,) = load({**SCHOOL, **{f"OIDC_SCHOOL_{k}": v for k, v in more.items()}}).oidc_providers
    assert (school.label, school.prompt) == ("Lee's School", "none")
    assert school.domains == ("a.example", "*.b.example")


@pytest.mark.parametrize(
    "wrong", ["a,b,a", "a,b,c,d,e,f", "School", "1a", "a_b", "a" * 21, "a b", "é"]
)
def test_names_are_short_and_few(wrong):
    assert "OIDC_PROVIDERS must " in refusal(OIDC_PROVIDERS=wrong)


def test_order_of_the_names_is_kept():
    both = {k.replace("SCHOOL", "AT2"): v for k, v in SCHOOL.items() if "SCHOOL" in k}
    found = load({**SCHOOL, **both, "OIDC_PROVIDERS": " school , at2,"}).oidc_providers
    assert [each.name for each in found] == ["school", "at2"]


@pytest.mark.parametrize("name", ["ISSUER", "CLIENT_ID", "CLIENT_SECRET"])
def test_what_a_provider_needs_is_named(name):
    said = refusal(**{**SCHOOL, f"OIDC_SCHOOL_{name}": " ", "PORT": "0"})
    assert re.findall("^- ([A-Z_]+) ", said, re.M) == ["PORT", f"OIDC_SCHOOL_{name}"]


MICROSOFT = "https://login.microsoftonline.com"
TENANT = f"{MICROSOFT}/9188040d-6c67-4c5b-b112-36a304b66dad/v2.0"


@pytest.mark.parametrize(
    "issuer",
    [
        *("http://id.school.example", "id.school.example", "https://id.school.example?a=b"),
        *("https://id.school.example/#", "https://a:b@id.school.example", "ftp://localhost"),
        *(
            f"{MICROSOFT}/{all_of_them}/v2.0"
            for all_of_them in ("common", "organizations", "consumers")
        ),
    ],
)
def test_issuer_that_no_token_can_have_or_nobody_can_trust_is_refused(issuer):
    said = refusal(**{**SCHOOL, "OIDC_SCHOOL_ISSUER": issuer})
    assert "OIDC_SCHOOL_ISSUER must " in said
    assert issuer not in said
    assert ("name other issuers" in said) is issuer.startswith(MICROSOFT)


@pytest.mark.parametrize("issuer", [TENANT, "http://127.0.0.1:8080/realms/x/", "http://localhost"])
def test_issuer_is_kept_to_the_letter(issuer):
    assert load({**SCHOOL, "OIDC_SCHOOL_ISSUER": issuer}).oidc_providers[0].issuer == issuer


def test_other_settings_about_providers():
    assert "REGISTRATION=providers needs OIDC_PROVIDERS" in refusal(REGISTRATION="providers")
    assert load({**SCHOOL, "REGISTRATION": "providers"}).registration == "providers"
    pages = "https://a.example/in?x=y, http://127.0.0.1:3000/,https://a.example/in?x=y"
    found = load({"SIGN_IN_RETURN_URLS": pages}).sign_in_return_urls
    assert found == ("https://a.example/in?x=y", "http://127.0.0.1:3000/")
    for wrong in ("https://a.example/#in", "a.example", "javascript:alert()", "app://a.example"):
        assert "SIGN_IN_RETURN_URLS must " in refusal(SIGN_IN_RETURN_URLS=f"{pages},{wrong}")
    for name, value in {"PROMPT": "consent", "DOMAINS": "a b", "LABEL": "x" * 65}.items():
        assert f"OIDC_SCHOOL_{name} must " in refusal(**{**SCHOOL, f"OIDC_SCHOOL_{name}": value})


def test_setting_of_nobody_is_a_warning():
    given = {**SCHOOL, "OIDC_SCHOOL_CLIENT": "x", "OIDC_OTHER_ISSUER": "x", "OIDC_PROVIDER": "x"}
    assert [*misspelt(given, load(given).oidc_providers)] == [
        "OIDC_OTHER_ISSUER is no setting of a provider in OIDC_PROVIDERS.",
        "OIDC_PROVIDER is no setting. Is OIDC_PROVIDERS meant?",
        "OIDC_SCHOOL_CLIENT is no setting. Is OIDC_SCHOOL_CLIENT_ID meant?",
    ]


def test_recipes_of_the_docs_are_taken():
    text = (ROOT / "docs/providers.md").read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S)
    assert len(blocks) == 5
    for block in blocks:
        shown = dict(line.split(" #")[0].strip().split("=", 1) for line in block.splitlines())
        (name,) = {each.split("_")[1] for each in shown if each.endswith("ISSUER")} or {"SCHOOL"}
        usual = {each.replace("SCHOOL", name): value for each, value in SCHOOL.items()}
        given = {**usual, "OIDC_PROVIDERS": name.lower(), **shown}
        assert [*misspelt(given, load(given).oidc_providers)] == []
