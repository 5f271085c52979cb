"""Access tokens that other services verify: ES256 and the public keys."""

import base64
import hmac
import json
import re
import subprocess
import sys
import threading
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from helpers import SECRET, failure, login, refresh, success, verify
from sqlalchemy import make_url
from werkzeug.serving import make_server

from core import clock, signing_keys
from core.tokens import Purpose, TokenCodec, TokenInvalid, key_id

OTHER = "another secret, which is also long enough to sign tokens"
USER_ID = "00000000-0000-7000-8000-000000000000"
JWKS = "/.well-known/jwks.json"
KEY = signing_keys.derive(SECRET)
KID = signing_keys.public_jwk(KEY)["kid"]
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


@pytest.fixture
def es256(make_app):
    return make_app(token_algorithm="ES256").test_client()


def kid_of(token):
    return jwt.get_unverified_header(token)["kid"]


def encoded(content):
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def test_key_is_derived_as_the_test_vector_says():
    assert signing_keys.public_jwk(signing_keys.derive("test vector one, 32 bytes or more!")) == {
        "kty": "EC",
        "crv": "P-256",
        "use": "sig",
        "alg": "ES256",
        "x": "qLTXW7R3fEf1MlxbhNkZpdO8_3sXCmEeF5RLvAqcCKE",
        "y": "l0A9VwPQ_cncGTWoFs_DdF3o6DS1T6-SLsW1AT641VA",
        "kid": "OGuIP3kz_Ze0dP1_nMYoICu4Gb3Ic_FegXnz1xyuHwE",
    }


def test_signature_needs_no_random_number():
    # The test vector of RFC 6979, section A.2.5, for SHA-256 and "sample".
    d = 0xC9AFA9D845BA75166B5C215767B1D6934E50C3DB36E89B127B8A622B120F6721
    key = ec.derive_private_key(d, ec.SECP256R1())
    assert signing_keys.DeterministicES256().sign(b"sample", key).hex().upper() == (
        "EFD48B2AACB6A8FD1140DD9CD45E81D69D2C877B56AAF991C34D0EA84EAF3716"
        "F7CB1C942D657C41D436C7A1B6E29F65F3E900DBB9AFF4064DC4AB2F843ACDA8"
    )
    codec = TokenCodec([SECRET], "ES256")
    now = clock.utcnow()
    one, other = (
        codec.encode(Purpose.ACCESS, "user", issued_at=now, expires_at=now, token_id="same")
        for _ in range(2)
    )
    assert one == other


def test_public_keys_are_published_newest_first_and_cached(make_app):
    app = make_app(token_algorithm="ES256", secret_key_fallbacks=(OTHER, SECRET))
    response = app.test_client().get(JWKS)
    assert response.status_code == 200
    assert response.content_type == "application/jwk-set+json"
    assert response.headers["Cache-Control"] == "public, max-age=300"
    assert response.get_json() == {
        "keys": [signing_keys.public_jwk(signing_keys.derive(key)) for key in (SECRET, OTHER)]
    }
    again = app.test_client().get(JWKS, headers={"If-None-Match": response.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")
    assert again.headers["Cache-Control"] == "public, max-age=300"
    failure(app.test_client().post(JWKS), 405, "method_not_allowed")


def test_public_keys_need_no_database(make_app):
    nowhere = make_url("postgresql+psycopg://nobody@127.0.0.1:1/none")
    client = make_app(token_algorithm="ES256", database_url=nowhere).test_client()
    assert client.get(JWKS).status_code == 200


def test_without_es256_there_are_no_public_keys(client):
    response = client.get(JWKS)
    failure(response, 404, "not_found")
    assert "TOKEN_ALGORITHM=ES256" in response.get_json()["message"]


def test_only_access_tokens_are_signed_with_es256(es256, make_user):
    tokens = success(login(es256, make_user()))
    assert jwt.get_unverified_header(tokens["accessToken"]) == {
        "alg": "ES256",
        "kid": KID,
        "typ": "JWT",
    }
    assert kid_of(tokens["refreshToken"]) == key_id(SECRET)
    success(verify(es256, tokens["accessToken"]))
    success(refresh(es256, tokens["refreshToken"]))


@pytest.fixture
def token(es256, make_user):
    return success(login(es256, make_user()))["accessToken"]


def claims_of(token):
    return jwt.decode(token, options={"verify_signature": False})


def signed(token, *, key=KEY, algorithm="ES256", **headers):
    return jwt.encode(claims_of(token), key, algorithm, headers={"kid": KID, **headers})


def by_hand(token, key, *, header=None, **headers):
    """Sign with whatever key and headers, which PyJWT refuses to; None signs with `KEY`."""
    content = header or {"alg": "HS256" if key else "ES256", "kid": KID, "typ": "JWT", **headers}
    text = f"{encoded(json.dumps(content).encode())}.{token.split('.')[1]}"
    if key is None:
        return f"{text}.{encoded(signing_keys.DeterministicES256().sign(text.encode(), KEY))}"
    return f"{text}.{encoded(hmac.digest(key, text.encode(), 'sha256'))}"


def with_signature(token, *numbers):
    content = b"".join(number.to_bytes(32) for number in numbers)
    return f"{token.rpartition('.')[0]}.{encoded(content)}"


def numbers(token):
    raw = base64.urlsafe_b64decode(token.rpartition(".")[2] + "==")
    return int.from_bytes(raw[:32]), int.from_bytes(raw[32:])


def in_der(token):
    return f"{token.rpartition('.')[0]}.{encoded(encode_dss_signature(*numbers(token)))}"


def changed(token):
    header, _, signature = token.split(".")
    claims = claims_of(token) | {"role": "admin"}
    return f"{header}.{encoded(json.dumps(claims).encode())}.{signature}"


STRANGE = "https://attacker.example"
JWK = signing_keys.public_jwk(KEY)
PUBLIC = {
    "PEM": KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
    "DER": KEY.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
    "JWK": json.dumps(JWK).encode(),
    "point": KEY.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint),
}
# These a verifier that knows only the public keys must refuse too.
FORGERIES = {
    **{
        f"the public key as a secret: {form}, {kid}": lambda token, key=key, kid=kid: by_hand(
            token, key, kid=kid
        )
        for form, key in PUBLIC.items()
        for kid in (KID, key_id(SECRET))
    },
    "no algorithm": lambda token: with_signature(by_hand(token, b"", alg="none")),
    "an algorithm in other case": lambda token: by_hand(token, None, alg="es256"),
    "no algorithm header": lambda token: by_hand(token, None, header={"kid": KID}),
    "changed claims": changed,
    "another key": lambda token: signed(token, key=signing_keys.derive(OTHER)),
    "an unknown kid": lambda token: signed(token, kid="unknown"),
    "no kid": lambda token: by_hand(token, None, header={"alg": "ES256"}),
    "a number for a kid": lambda token: by_hand(token, None, kid=7),
    "a list for a kid": lambda token: by_hand(token, None, kid=[KID]),
    "null for a kid": lambda token: by_hand(token, None, kid=None),
    "a list for a header": lambda token: by_hand(token, None, header=[KID]),
    "the kid of the shared key": lambda token: signed(token, kid=key_id(SECRET)),
    "HS256 with the kid of the public key": lambda token: signed(
        token, key=SECRET, algorithm="HS256"
    ),
    "a critical header": lambda token: by_hand(token, None, crit=["exp"]),
    "a short signature": lambda token: token[:-2],
    "a long signature": lambda token: with_signature(token, *numbers(token), 0),
    "a signature in DER": in_der,
    "r is zero": lambda token: with_signature(token, 0, numbers(token)[1]),
    "s is zero": lambda token: with_signature(token, numbers(token)[0], 0),
    "r and s are zero": lambda token: with_signature(token, 0, 0),
    "r is the order": lambda token: with_signature(token, ORDER, numbers(token)[1]),
    "s is the order": lambda token: with_signature(token, numbers(token)[0], ORDER),
    "r and s are the largest": lambda token: with_signature(token, 2**256 - 1, 2**256 - 1),
}
# Signed with our key. PyJWT accepts them elsewhere: it ignores the headers, and allows padding.
REFUSED_HERE = {
    "a key of its own": lambda token: signed(token, jwk=JWK),
    "a URL of keys": lambda token: signed(token, jku=STRANGE),
    "a URL of certificates": lambda token: signed(token, x5u=STRANGE),
    "certificates": lambda token: signed(token, x5c=["MIIB"]),
    "padding": lambda token: token + "==",
}


def test_forging_by_itself_changes_nothing(es256, token):
    for same in (signed(token), by_hand(token, None), with_signature(token, *numbers(token))):
        success(verify(es256, same))


@pytest.mark.parametrize("forge", (FORGERIES | REFUSED_HERE).values(), ids=FORGERIES | REFUSED_HERE)
def test_forged_token_is_invalid_and_nothing_is_fetched(es256, token, forge, monkeypatch):
    forged = forge(token)

    def fail(*_arguments):
        raise AssertionError("a request to another server")

    monkeypatch.setattr("socket.socket.connect", fail)
    failure(verify(es256, forged), 401, "token_invalid")


@pytest.mark.parametrize("algorithm", ["HS256", "ES256"])
def test_no_other_kind_of_token_is_accepted_with_es256(make_app, make_user, algorithm):
    client = make_app(token_algorithm=algorithm).test_client()
    tokens = success(login(client, make_user()))
    for token in (tokens["refreshToken"], signed(tokens["refreshToken"])):
        failure(verify(client, token), 401, "token_invalid")
    failure(refresh(client, signed(tokens["refreshToken"])), 401, "token_invalid")
    failure(refresh(client, tokens["accessToken"]), 401, "token_invalid")


def test_refresh_tokens_stay_with_the_shared_key():
    codec, now = TokenCodec([SECRET], "ES256"), clock.utcnow()
    times = {"issued_at": now, "expires_at": now + timedelta(minutes=1)}
    token = codec.encode(Purpose.REFRESH, USER_ID, **times, sid=USER_ID)
    codec.decode(Purpose.REFRESH, token)
    with pytest.raises(TokenInvalid):
        codec.decode(Purpose.REFRESH, signed(token))


def test_switch_of_the_algorithm_logs_nobody_out(make_app, make_user):
    user = make_user()
    clients = {name: make_app(token_algorithm=name).test_client() for name in ("HS256", "ES256")}
    for before, after in (("HS256", "ES256"), ("ES256", "HS256")):
        tokens = success(login(clients[before], user))
        failure(verify(clients[after], tokens["accessToken"]), 401, "token_expired")
        new = success(refresh(clients[after], tokens["refreshToken"]))
        success(verify(clients[after], new["accessToken"]))
        broken = tokens["accessToken"][:-8] + "AAAAAAAA"
        failure(verify(clients[after], broken), 401, "token_invalid")
        failure(verify(clients[after], tokens["refreshToken"]), 401, "token_invalid")


def test_rotation_in_three_steps_refuses_no_token(make_app, make_user):
    user = make_user()
    steps = ((SECRET, ()), (SECRET, (OTHER,)), (OTHER, (SECRET,)), (OTHER, ()))
    apps = [
        make_app(token_algorithm="ES256", secret_key=key, secret_key_fallbacks=older).test_client()
        for key, older in steps
    ]
    tokens = [success(login(client, user))["accessToken"] for client in apps]
    for step, client in enumerate(apps):
        published = {key["kid"] for key in client.get(JWKS).get_json()["keys"]}
        for near in tokens[max(0, step - 1) : step + 2]:
            if step < 3 or kid_of(near) == kid_of(tokens[3]):
                success(verify(client, near))
                assert kid_of(near) in published
    failure(verify(apps[3], tokens[0]), 401, "token_invalid")


def test_verifier_of_the_docs_knows_nothing_but_the_url(make_app, token):
    text = (Path(__file__).parent.parent / "docs" / "operations.md").read_text()
    (sample,) = re.findall(r"```python\n(import jwt\n.*?)```", text, re.S)
    server = make_server("127.0.0.1", 0, make_app(token_algorithm="ES256"))
    url = f"http://127.0.0.1:{server.port}"
    script = sample.replace("https://accounts.example.org", url)
    script += "import sys\nfor token in sys.stdin.read().split():\n"
    script += "    try: print(verify(token)['sub'])\n    except jwt.PyJWTError: print('refused')\n"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        sent = "\n".join([token, *(forge(token) for forge in FORGERIES.values())])
        command = [sys.executable, "-c", script]
        done = subprocess.run(
            command, input=sent, capture_output=True, text=True, check=True, cwd="/"
        )
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert done.stdout.split() == [claims_of(token)["sub"], *["refused"] * len(FORGERIES)]


def test_no_private_part_is_published(es256):
    text = es256.get(JWKS).get_data(as_text=True)
    private = KEY.private_numbers().private_value.to_bytes(32)
    assert '"d"' not in text
    assert encoded(private) not in text
    assert sha256(SECRET.encode()).hexdigest()[:12] not in text
