"""Access tokens that other services verify: ES256 and the public keys."""

import shutil
import subprocess
import sys
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from forgeries import BROKEN, JWK, KID_OF, OTHER_KEY, claims_of
from helpers import SECRET, UNREACHABLE, failure, login, refresh, success, verify
from real_service import serving

from config import ROOT
from core import clock, signing_keys
from core.tokens import Purpose, TokenCodec

JWKS = "/.well-known/jwks.json"


def kid_of(token):
    return jwt.get_unverified_header(token)["kid"]


@pytest.mark.asvs("11.1.2", "11.6.1")
def test_key_is_derived_as_the_test_vector_says():
    assert signing_keys.public_jwk(signing_keys.derive("test vector one, 32 bytes or more!")) == {
        **{"kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256"},
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


def test_public_keys_are_published_newest_first_and_cached_without_a_database(make_app):
    older = {"secret_key_fallbacks": (OTHER_KEY, SECRET), "database_url": UNREACHABLE}
    client = make_app(token_algorithm="ES256", **older).test_client()
    response = client.get(JWKS)
    assert response.status_code == 200
    assert response.content_type == "application/jwk-set+json"
    assert response.headers["Cache-Control"] == "public, max-age=300"
    other = signing_keys.public_jwk(signing_keys.derive(OTHER_KEY))
    assert response.get_json() == {"keys": [JWK, other]}
    again = client.get(JWKS, headers={"If-None-Match": response.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")
    assert again.headers["Cache-Control"] == "public, max-age=300"
    failure(client.post(JWKS), 405, "method_not_allowed")


def test_without_es256_there_are_no_public_keys(client):
    response = client.get(JWKS)
    failure(response, 404, "not_found")
    assert "TOKEN_ALGORITHM=ES256" in response.get_json()["message"]


@pytest.mark.asvs("9.1.1", "9.1.2", "9.1.3")
def test_switch_of_the_algorithm_logs_nobody_out(make_app, make_user):
    user = make_user()
    clients = {name: make_app(token_algorithm=name).test_client() for name in KID_OF}
    for before, after in (("HS256", "ES256"), ("ES256", "HS256")):
        tokens = success(login(clients[before], user))
        failure(verify(clients[after], tokens["accessToken"]), 401, "token_expired")
        failure(
            verify(clients[after], tokens["accessToken"][:-8] + "AAAAAAAA"), 401, "token_invalid"
        )
        new = success(refresh(clients[after], tokens["refreshToken"]))
        success(verify(clients[after], new["accessToken"]))
        header = {"alg": after, "kid": KID_OF[after], "typ": "JWT"}
        assert jwt.get_unverified_header(new["accessToken"]) == header
        # Only access tokens are for other services.
        assert kid_of(new["refreshToken"]) == KID_OF["HS256"]


def test_rotation_in_three_steps_refuses_no_token(make_app, make_user):
    user = make_user()
    steps = ((SECRET, ()), (SECRET, (OTHER_KEY,)), (OTHER_KEY, (SECRET,)), (OTHER_KEY, ()))
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


READ_LINES = {
    "py": """import sys
for token in sys.stdin.read().split():
    try:
        print(verify(token)["sub"])
    except jwt.PyJWTError:
        print("refused")
""",
    "mjs": """import { text } from "node:stream/consumers";
for (const token of (await text(process.stdin)).split("\\n")) {
  const why = (error) => (error instanceof errors.JOSEError ? "refused" : `${error}`);
  console.log(await verify(token).then(({ sub }) => sub, why));
}
""",
}


@pytest.mark.parametrize("kind", READ_LINES)
def test_example_of_a_verifier_knows_nothing_but_the_url(make_app, make_user, tmp_path, kind):
    command = [sys.executable]
    if kind == "mjs":
        command = [shutil.which("node") or pytest.skip("Node.js is not installed")]
        shown = subprocess.run(["npm", "root", "-g"], capture_output=True, text=True, check=True)
        if not (jose := Path(shown.stdout.strip(), "jose")).exists():
            pytest.skip("jose is not installed: npm install -g jose")
        (tmp_path / "node_modules").mkdir()
        (tmp_path / "node_modules/jose").symlink_to(jose)
    app = make_app(token_algorithm="ES256")
    token = success(login(app.test_client(), make_user()))["accessToken"]
    sent = "\n".join([token, *(forge(token) for forge in BROKEN.values())])
    sample = (ROOT / f"examples/verify.{kind}").read_text()
    with serving(app) as url:
        assert sample.count("https://accounts.example.org") == 1
        script = tmp_path / f"verify.{kind}"
        script.write_text(sample.replace("https://accounts.example.org", url) + READ_LINES[kind])
        options = {"input": sent, "capture_output": True, "text": True, "cwd": tmp_path}
        done = subprocess.run([*command, script.name], **options)
    assert done.stdout.split() == [claims_of(token)["sub"], *["refused"] * len(BROKEN)], done.stderr
