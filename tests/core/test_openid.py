"""What a provider says is believed only if all of it is right, and waited for only so long."""

import re
import ssl
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import parse_qs, urlsplit

import pytest
import trustme
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from fake_provider import (
    ALGORITHMS,
    CLIENT_ID,
    CLIENT_SECRET,
    DISCOVERY,
    EVERYTHING,
    GONE,
    WORDS,
    FakeProvider,
    Key,
    Trouble,
)
from helpers import race, soon

from core.fetching import LARGEST
from core.openid import PLACES, Provider, ProviderFailed, Secrets

STATE, SECRETS = "state", Secrets.of("a key", "state")
PEM = Key().private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
NOW = "now"


@pytest.fixture
def connect(provider):
    """Return a new client of the provider, which remembers nothing of it."""

    def connect(provider=provider, **changes):
        login = {"client_id": CLIENT_ID, "client_secret": CLIENT_SECRET, "prompt": "none"}
        usual = {"issuer": provider.issuer, **login, "callback": "https://school.test/callback"}
        # A busy machine takes longer than a provider may.
        return Provider(**{**usual, "step": 60, **changes})

    return connect


@pytest.fixture
def sign_in(provider, connect):
    """Sign in; return the claims."""
    usual = connect()

    def sign_in(client=usual, provider=provider, secrets=SECRETS):
        back = provider.authorize(urlsplit(client.authorization_url(STATE, SECRETS)).query)
        return client.claims(parse_qs(urlsplit(back).query)["code"][0], secrets)

    return sign_in


def refused(act, *arguments, **options):
    """Return the word for the log with which a provider fails."""
    with pytest.raises(ProviderFailed) as caught:
        act(*arguments, **options)
    word = str(caught.value)
    assert word in WORDS or re.fullmatch("[345][0-9]{2}|invalid_(client|grant)", word)
    return word


def said(claims, clock):
    """Fill in the times of claims, as seconds from now."""
    now = int(clock.utcnow().timestamp())
    return {k: now + v[1] if isinstance(v, tuple) else v for k, v in claims.items()}


WRONG_CLAIMS = {
    "iss": (GONE, "https://other.example", "http://127.0.0.1", 7),
    "aud": (GONE, "other", f"{CLIENT_ID}x", CLIENT_ID[:-1], [CLIENT_ID, "other"], ["other"], [], 7),
    "exp": (GONE, (NOW, -61), "tomorrow", None),
    "iat": (GONE, (NOW, 62), "today", None),
    "nbf": ((NOW, 62), "today"),
    "nonce": (GONE, "other", "", [SECRETS.nonce]),
    "sub": (GONE, "", "x" * 256, "a\t", "ä", "a\n", "\x7f", 7, None, ["a"]),
}
RIGHT_CLAIMS = [
    *({"aud": [CLIENT_ID]}, {"sub": " ~" * 127 + " "}, {"azp": "other"}, {"hd": ["\ud800"]}),
    {"aud": ["project", CLIENT_ID], "azp": CLIENT_ID},
    *({"exp": (NOW, -58)}, {"iat": (NOW, 58)}, {"nbf": (NOW, 58)}),
]


@pytest.mark.asvs("10.5.1", "10.5.4")
@pytest.mark.parametrize(
    ("name", "wrong"), [(k, v) for k, wrong in WRONG_CLAIMS.items() for v in wrong], ids=ascii
)
def test_claim_that_is_wrong_is_refused(provider, sign_in, clock, name, wrong):
    provider.claims = said({name: wrong}, clock)
    refused(sign_in)
    provider.claims = {}
    assert sign_in()["sub"] == "subject-1"


@pytest.mark.parametrize("claims", RIGHT_CLAIMS, ids=ascii)
def test_claim_may_be_so_too(provider, sign_in, clock, claims):
    provider.claims = said(claims, clock)
    assert provider.claims.items() <= sign_in().items()


@pytest.mark.parametrize("azp", ["other", "", None, [CLIENT_ID]], ids=str)
def test_token_for_several_is_refused_if_it_was_made_for_another(provider, sign_in, azp):
    for audiences in ([CLIENT_ID, "other"], [CLIENT_ID, CLIENT_ID]):
        provider.claims = {"aud": audiences, "azp": azp}
        assert refused(sign_in) == "InvalidAudienceError"
    provider.claims = {"aud": ["other"], "azp": CLIENT_ID}
    assert refused(sign_in) == "InvalidAudienceError"


@pytest.mark.parametrize(
    ("names", "takes"),
    [
        (["client_secret_post"], "client_secret_post"),
        (["private_key_jwt", "client_secret_post"], "client_secret_post"),
        (["client_secret_post", "client_secret_basic"], "client_secret_basic"),
        *((names, "client_secret_basic") for names in (GONE, [], ["client_secret_basic"])),
    ],
    ids=str,
)
def test_secret_is_sent_as_the_provider_takes_it(provider, sign_in, connect, names, takes):
    provider.metadata = {"token_endpoint_auth_methods_supported": names}
    provider.takes = takes
    assert sign_in()["sub"] == "subject-1"
    assert refused(connect(client_secret="other").claims, "a code", SECRETS) == "invalid_client"


@pytest.mark.parametrize("algorithm", ["RS256", "PS256", "ES256", "ES384", "EdDSA"])
@pytest.mark.parametrize("names_it", [True, False])
def test_key_signs_with_its_own_algorithm(provider, sign_in, algorithm, names_it):
    provider.signs = Key(algorithm)
    own = {k: v for k, v in provider.signs.jwk.items() if names_it or k not in ("alg", "use")}
    # Others' keys, and kinds that we do not know, stand beside it.
    provider.published = [{"kty": "new", "kid": "x"}, {"kty": "RSA"}, Key(kid="second").jwk, own]
    assert sign_in()["sub"] == "subject-1"
    for other in {"RS384", "ES256", "ES384"} - {algorithm}:
        provider.header = {"alg": other}
        provider.secret = Key(other.replace("RS384", "RS256")).private  # one that can sign so
        refused(sign_in)


@pytest.mark.asvs("6.8.2")
@pytest.mark.parametrize(
    ("header", "secret"),
    [
        *(({"alg": "none"}, b""), ({"alg": "HS256"}, PEM), ({"alg": "RS384"}, None)),
        *(({"alg": "HS256"}, CLIENT_SECRET.encode()), ({}, Key(number=2).private)),
        *(({"alg": "PS256"}, None), ({"crit": ["exp"], "exp": 1}, None), ({"crit": []}, None)),
        ({"crit": ["b64"], "b64": True}, None),
        *(({"kid": wrong}, None) for wrong in (GONE, "unknown", "", 7, None)),
        ({"kid": GONE, "jwk": Key(number=2).jwk}, Key(number=2).private),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_header_or_signature_that_is_wrong_is_refused(provider, sign_in, header, secret):
    provider.header, provider.secret = header, secret
    refused(sign_in)
    provider.header, provider.secret = {}, None
    assert sign_in()


def test_short_key_is_refused(provider, sign_in):
    provider.secret = rsa.generate_private_key(65537, 1024)
    short = ALGORITHMS["RS256"].to_jwk(provider.secret.public_key(), as_dict=True)
    provider.published = [{**short, "kid": "first"}]
    assert refused(sign_in) == "InvalidKeyError"


@pytest.mark.asvs("10.1.2", "10.2.1", "10.5.1", "10.5.4")
def test_answer_belongs_to_one_request_of_one_client(provider, sign_in, connect):
    assert refused(sign_in, secrets=SECRETS._replace(nonce="other"))
    assert refused(sign_in, secrets=SECRETS._replace(verifier="other")) == "invalid_grant"
    for wrong in ({"client_id": "other"}, {"client_secret": "other"}):
        assert refused(connect(**wrong).claims, "a code", SECRETS) == "invalid_client"
    others = [Secrets.of("a key", "x"), Secrets.of("x", STATE), SECRETS]
    assert len({*SECRETS, *others[0], *others[1]}) == 6


def test_documents_are_kept_for_a_while(provider, sign_in, clock):
    sign_in()
    for minutes, seen in ((4, (1, 1)), (2, (1, 2)), (53, (1, 3)), (2, (2, 3))):
        clock.move(minutes=minutes)
        sign_in()
        assert (provider.asked[DISCOVERY], provider.asked["/keys"]) == seen


def test_new_key_is_fetched_once_by_whoever_meets_it_first(provider, sign_in, clock):
    sign_in()
    provider.signs = Key(number=2, kid="second")
    provider.published = [provider.signs.jwk]
    clock.move(seconds=31)
    race(lambda _: sign_in(), PLACES)
    assert provider.asked["/keys"] == 2
    provider.header = {"kid": "third"}
    for seconds, asked in ((0, 2), (29, 2), (2, 3), (0, 3)):
        clock.move(seconds=seconds)
        refused(sign_in)
        assert provider.asked["/keys"] == asked


def test_new_key_of_the_same_name_is_met_when_the_old_one_is_forgotten(provider, sign_in, clock):
    sign_in()
    provider.signs = Key(number=2)
    provider.published = [provider.signs.jwk]
    refused(sign_in)
    clock.move(minutes=5)
    assert sign_in()


TROUBLES = [
    *(Trouble(302), Trouble(303), Trouble(500), Trouble(400, b'{"error": ["<b>"]}')),
    *(Trouble(says=text) for text in (b"<!doctype html>", b"[]", b"{}", b'{"a": "\xff"}', b" ")),
    *(Trouble(says=b"[" * 100_000), Trouble(pads_to=LARGEST + 1)),
    *(Trouble(chunks=how) for how in ("endless", "silence", "drip")),
]
EVERYWHERE = (DISCOVERY, "/keys", "/token", "/userinfo")


@pytest.mark.parametrize(
    ("path", "trouble"),
    [
        *(("/token", each) for each in TROUBLES),
        *((each, Trouble(says=text)) for each in EVERYWHERE for text in (b"{}", b'{"keys": [7]}')),
    ],
    ids=lambda value: ascii(value)[:60],
)
def test_what_is_no_answer_is_refused_and_not_kept(provider, connect, sign_in, path, trouble):
    ours = connect(step=0.3)
    provider.userinfo, provider.claims = {"sub": "subject-1"}, {"email": GONE}
    provider.troubles = {path: trouble}
    refused(sign_in, ours)
    ours.step = 60
    assert (provider.asked["/moved"], provider.sent < EVERYTHING) == (0, True)
    provider.troubles = dict.fromkeys(EVERYWHERE, Trouble(pads_to=LARGEST))
    assert sign_in(ours)


@pytest.mark.asvs("1.3.6")
@pytest.mark.parametrize(
    "name", ["authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint"]
)
def test_end_point_of_another_scheme_is_not_opened(provider, sign_in, connect, name):
    wrong = ["file:///etc/passwd", "data:application/json,{}", "https://127.0.0.1/", "javascript:x"]
    for url in (*wrong, "", 7, None, "ftp://127.0.0.1/", "//127.0.0.1/", "http://127.0.0.1/a b"):
        provider.metadata = {name: url}
        refused(sign_in)
    assert provider.asked.keys() == {DISCOVERY}


@pytest.mark.asvs("10.5.3")
def test_issuer_is_compared_as_it_is_written(provider, sign_in, connect):
    with_slash = f"{provider.issuer}/"
    provider.metadata = {"issuer": with_slash}
    refused(sign_in)
    refused(sign_in, connect(issuer=with_slash))
    provider.claims = {"iss": with_slash}
    assert sign_in(connect(issuer=with_slash))
    refused(sign_in, connect(issuer=f"{with_slash}realm/"))
    assert provider.asked[f"/realm{DISCOVERY}"] == 1  # without a double slash


def test_userinfo_is_asked_for_an_address_that_the_token_lacks(provider, sign_in, connect):
    provider.userinfo = {"sub": "subject-1", "email": "other@home.example", "name": "Other"}
    assert sign_in()["email"] == "pupil@school.example"
    assert provider.asked["/userinfo"] == 0
    provider.claims = {"email": GONE, "name": "Own"}
    claims = sign_in()
    assert (claims["email"], claims["name"]) == ("other@home.example", "Own")
    for wrong in (GONE, "subject-2", None):
        provider.userinfo = {**provider.userinfo, "sub": wrong}
        refused(sign_in)
    for unread in (b"eyJhbGciOiJub25lIn0.eyJlbWFpbCI6ImEifQ.", b"<!doctype html>", b"\xff", b""):
        provider.troubles = {"/userinfo": Trouble(says=unread or b" ")}
        assert "email" not in sign_in()


def test_few_wait_for_a_silent_provider_and_the_others_are_told_at_once(provider, connect):
    ours = connect()
    ours.authorization_url(STATE, SECRETS)
    provider.troubles = {"/token": Trouble(chunks="silence")}
    with ThreadPoolExecutor(40) as threads:
        calls = [threads.submit(refused, ours.claims, "a code", SECRETS) for _ in range(40)]
        try:
            soon(lambda: sum(call.done() for call in calls) == 40 - PLACES, 20)
            assert {call.result() for call in calls if call.done()} == {"busy"}
            assert ours.authorization_url(STATE, SECRETS)  # it asks nobody
        finally:
            provider.released.set()
    assert [call.result() for call in calls].count("invalid_grant") == PLACES
    assert provider.asked["/token"] == PLACES


def test_who_waits_for_a_document_that_another_call_fetches_waits_one_step(provider, connect):
    ours = connect()
    provider.troubles = {DISCOVERY: Trouble(chunks="silence")}
    with ThreadPoolExecutor() as threads:
        first = threads.submit(ours.authorization_url, STATE, SECRETS)
        soon(lambda: provider.asked[DISCOVERY])
        ours.step = 0.1
        assert refused(ours.authorization_url, STATE, SECRETS) == "TimeoutError"
        ours.step = 60
        assert not first.done()
        provider.released.set()
    assert first.result()
    assert provider.asked[DISCOVERY] == 1


def test_https_is_verified_and_kept_to(connect, sign_in, monkeypatch, tmp_path):
    tls, authority = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), trustme.CA()
    authority.issue_cert("localhost").configure_cert(tls)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    with FakeProvider(tls) as secure:
        refused(lambda: sign_in(connect(secure), secure))
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        assert sign_in(connect(secure), secure)
        monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
        refused(lambda: sign_in(connect(secure), secure))
        monkeypatch.setenv("NO_PROXY", "localhost")
        assert sign_in(connect(secure), secure)
        secure.metadata = {"token_endpoint": f"{secure.issuer.replace('https', 'http')}/token"}
        refused(lambda: sign_in(connect(secure), secure))
