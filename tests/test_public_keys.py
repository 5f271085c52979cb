"""Access tokens that other services verify: ES256 and the public keys."""

import base64
import hmac
import json
import re
import subprocess
import sys
import threading
from hashlib import sha256
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from helpers import SECRET, failure, login, refresh, success, verify
from sqlalchemy import make_url
from werkzeug.serving import make_server

from core import signing_keys
from core.tokens import key_id

OTHER = "another secret, which is also long enough to sign tokens"
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


def test_public_keys_are_published_newest_first_and_cached(make_app):
    app = make_app(token_algorithm="ES256", secret_key_fallbacks=(OTHER,))
    response = app.test_client().get(JWKS)
    assert response.status_code == 200
    assert response.content_type == "application/jwk-set+json"
    assert response.headers["Cache-Control"] == "public, max-age=300"
    assert response.get_json() == {
        "keys": [signing_keys.public_jwk(signing_keys.derive(key)) for key in (SECRET, OTHER)]
    }
    again = app.test_client().get(JWKS, headers={"If-None-Match": response.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")


def test_public_keys_need_no_database(make_app):
    nowhere = make_url("postgresql+psycopg://nobody@127.0.0.1:1/none")
    client = make_app(token_algorithm="ES256", database_url=nowhere).test_client()
    assert client.get(JWKS).status_code == 200


def test_without_es256_there_are_no_public_keys(client, run):
    response = client.get(JWKS)
    failure(response, 404, "not_found")
    message = response.get_json()["message"]
    assert "TOKEN_ALGORITHM=ES256" in message
    assert run("jwks") == (f"Error: {message}\n", 1)


def test_command_prints_the_public_keys(make_app, es256):
    app = make_app(token_algorithm="ES256")
    result = app.test_cli_runner().invoke(args=["jwks"])
    assert json.loads(result.stdout) == es256.get(JWKS).get_json()


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


def signed(token, *, key=KEY, algorithm="ES256", **headers):
    claims = jwt.decode(token, options={"verify_signature": False})
    return jwt.encode(claims, key, algorithm, headers={"kid": KID, **headers})


def with_signature(token, signature):
    return f"{token.rpartition('.')[0]}.{encoded(signature)}"


def numbers(token):
    raw = base64.urlsafe_b64decode(token.rpartition(".")[2] + "==")
    return int.from_bytes(raw[:32]), int.from_bytes(raw[32:])


def confused(token):
    """Signed with HS256 and the public key as the secret, by hand because PyJWT refuses to."""
    pem = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    header = encoded(json.dumps({"alg": "HS256", "kid": KID, "typ": "JWT"}).encode())
    text = f"{header}.{token.split('.')[1]}"
    return f"{text}.{encoded(hmac.digest(pem, text.encode(), 'sha256'))}"


def unsigned(token):
    header = encoded(json.dumps({"alg": "none", "kid": KID, "typ": "JWT"}).encode())
    return f"{header}.{token.split('.')[1]}."


def changed(token):
    header, _, signature = token.split(".")
    claims = jwt.decode(token, options={"verify_signature": False}) | {"role": "admin"}
    return f"{header}.{encoded(json.dumps(claims).encode())}.{signature}"


STRANGE = "https://attacker.example"
FORGERIES = {
    "the public key as a secret": confused,
    "no algorithm": unsigned,
    "changed claims": changed,
    "another key": lambda token: signed(token, key=signing_keys.derive(OTHER)),
    "an unknown kid": lambda token: signed(token, kid="unknown"),
    "the name of the shared key": lambda token: signed(token, kid=key_id(SECRET)),
    "HS256 under the name of the public key": lambda token: signed(
        token, key=SECRET, algorithm="HS256"
    ),
    "a key of its own": lambda token: signed(token, jwk=signing_keys.public_jwk(KEY)),
    "a URL of keys": lambda token: signed(token, jku=STRANGE),
    "a URL of certificates": lambda token: signed(token, x5u=STRANGE),
    "certificates": lambda token: signed(token, x5c=["MIIB"]),
    "a critical header": lambda token: signed(token, crit=["exp"]),
    "padding": lambda token: token + "==",
    "a short signature": lambda token: with_signature(token, b"x" * 63),
    "a long signature": lambda token: with_signature(token, b"x" * 65),
    "a signature in DER": lambda token: with_signature(
        token, encode_dss_signature(*numbers(token))
    ),
    "r is nought": lambda token: with_signature(token, bytes(63) + b"\x01" * 33),
    "s beyond the order": lambda token: with_signature(
        token, numbers(token)[0].to_bytes(32) + ORDER.to_bytes(32)
    ),
}


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES)
def test_forged_token_is_invalid(es256, token, forge):
    success(verify(es256, signed(token)))
    failure(verify(es256, forge(token)), 401, "token_invalid")


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
    claims = jwt.decode(token, options={"verify_signature": False})
    first, *others = done.stdout.split()
    assert first == claims["sub"]
    accepted = {name for name, seen in zip(FORGERIES, others, strict=True) if seen != "refused"}
    # Signed by us, with a header that PyJWT ignores; and padding, which it allows.
    assert accepted <= {name for name in FORGERIES if "of its own" in name or "URL" in name} | {
        "certificates",
        "padding",
    }


def test_no_private_part_is_published(es256):
    text = es256.get(JWKS).get_data(as_text=True)
    private = KEY.private_numbers().private_value.to_bytes(32)
    assert '"d"' not in text
    assert encoded(private) not in text
    assert sha256(SECRET.encode()).hexdigest()[:12] not in text
