"""Providers, each in the form that its documentation tells or that somebody has met."""

import re
from typing import NamedTuple

import pytest
from fake_provider import CLIENT_ID, CLIENT_SECRET, GONE, WORDS, Key, fragment_of
from helpers import PASSWORD, Log, failure, success
from test_providers import return_of, sign_in

from config import ROOT

NAMELESS = {"given_name": GONE, "family_name": GONE}
UNSAID = {"email": GONE, "email_verified": GONE, **NAMELESS}
SAID = {"sub": "subject-1", "email": "pupil@school.example"}
PROVED = {**SAID, "email_verified": True}
NEW, LINKED = "makes an account", "gives no address"
POST = "client_secret_post"
BASIC = "client_secret_basic"


class Form(NamedTuple):
    """A provider's way; `comes` is what comes of a sign-in, or the word for it in the log."""

    comes: str
    claims: dict = {}  # of the ID token, as changes of the usual ones
    takes: str = BASIC
    methods: list | str = GONE  # of sending the secret, as discovery names them
    userinfo: dict | None = None
    is_signed: bool = False  # whether UserInfo is
    header: dict = {}
    secret: bytes | None = None
    signs: Key = Key()


FORMS = {
    "Google": Form(
        NEW,
        {"azp": CLIENT_ID, "hd": "school.example", "at_hash": "x", "locale": "de"},
        methods=[POST, BASIC],
    ),
    "Microsoft Entra ID": Form(
        NEW,
        {"email_verified": GONE, "oid": "x", "tid": "y", "ver": "2.0", "rh": "z"},
        takes=POST,
        methods=[POST, "private_key_jwt", "client_secret_jwt", "self_signed_tls_client_auth"],
    ),
    "Apple": Form(NEW, {**NAMELESS, "email_verified": "true"}, takes=POST, methods=[POST]),
    "Keycloak": Form(NEW, {"azp": CLIENT_ID, "typ": "ID", "acr": "1"}, methods=[BASIC, POST]),
    "Keycloak, signed UserInfo": Form(
        NEW, userinfo={"sub": "subject-1", "email": "other@school.example"}, is_signed=True
    ),
    "Keycloak, RS512": Form("InvalidAlgorithmError", header={"alg": "RS512"}),
    "Keycloak, EdDSA": Form(NEW, signs=Key("EdDSA")),
    "Zitadel": Form(NEW, {"aud": ["270001", CLIENT_ID], "azp": CLIENT_ID, "client_id": CLIENT_ID}),
    "Zitadel, another application": Form(
        "InvalidAudienceError", {"aud": ["270001", CLIENT_ID], "azp": "270002"}
    ),
    "ProConnect": Form(LINKED, UNSAID, takes=POST, methods=[POST], userinfo=SAID, is_signed=True),
    "Authelia": Form(NEW, UNSAID, userinfo=PROVED),
    "a null that hides nothing": Form(
        NEW, {"email": None, "email_verified": None}, userinfo=PROVED
    ),
    "Authelia, post and signed UserInfo": Form(
        LINKED, UNSAID, takes=POST, methods=[POST], userinfo={"sub": "subject-1"}, is_signed=True
    ),
    "BankID": Form(
        LINKED, {**UNSAID, "name": "Ada L"}, userinfo={"sub": "subject-1"}, is_signed=True
    ),
    "LinkedIn": Form("nonce", {"nonce": GONE}),
    "authentik without a signing key": Form(
        "InvalidAlgorithmError", header={"alg": "HS256"}, secret=CLIENT_SECRET.encode()
    ),
    "unsigned": Form("InvalidAlgorithmError", header={"alg": "none"}, secret=b""),
    "one that names no key": Form("kid", header={"kid": GONE}),
    "a directory, by DN": Form(NEW, {"sub": "cn=Ada Love,ou=Pupils,dc=school"}),
    "a directory, with an umlaut": Form("InvalidSubjectError", {"sub": "cn=Jörg"}),
    "one that wants the secret elsewhere": Form("invalid_client", takes=POST),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_form_of_a_provider(client, connect, provider, visit, make_user, form):
    provider.claims, provider.header = form.claims, form.header
    provider.signs, provider.secret = form.signs, form.secret
    provider.published = [form.signs.jwk]
    provider.userinfo, provider.signs_userinfo = form.userinfo, form.is_signed
    provider.metadata = {"token_endpoint_auth_methods_supported": form.methods}
    provider.takes = form.takes
    connect(LOG_FORMAT="json")
    if form.comes == NEW:
        assert success(sign_in(client, visit()))["user"]["email"] == "pupil@school.example"
    elif form.comes == LINKED:
        failure(sign_in(client, visit()), 403, "registration_closed")
        ada = make_user("ada")
        success(sign_in(client, visit(), email="ada", password=PASSWORD))
        assert success(sign_in(client, visit()))["user"]["id"] == ada.id
    else:
        url, log = return_of(client, provider), Log()
        assert fragment_of(client.get(url))["error"] == "failed"
        assert [event["reason"] for event in log.events()] == [form.comes]


def test_docs_explain_each_word_of_the_log():
    docs = (ROOT / "docs/providers.md").read_text()
    table = docs.partition("| `reason` |")[2].partition("\n\n")[0]
    explained = {
        word for row in table.split("\n") for word in re.findall("`([^`]+)`", row.split("|")[1:][0])
    }
    of_providers = {"user:access_denied", "invalid_client", "invalid_grant", "404", "no_code"}
    assert explained == WORDS | of_providers
