"""Tokens that were changed: what was cut, signed with another key, or says what ours do not say."""

import base64
import functools
import json

import jwt
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from helpers import SECRET
from jwt.algorithms import HMACAlgorithm

from core import signing_keys
from core.tokens import key_id

OTHER_KEY = "another key, as long as the first one is: no algorithm warns about its length"
USER_ID = "00000000-0000-7000-8000-000000000000"
KEY = signing_keys.derive(SECRET)
JWK = signing_keys.public_jwk(KEY)
PEM = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
KID_OF = {"HS256": key_id(SECRET), "ES256": JWK["kid"]}
OTHER_ALGORITHM = {"HS256": "ES256", "ES256": "HS256"}
SIGNERS = {
    "HS256": HMACAlgorithm(HMACAlgorithm.SHA256),
    "HS384": HMACAlgorithm(HMACAlgorithm.SHA384),
    "ES256": signing_keys.DeterministicES256(),
}
GONE = "(gone)"
BOTH = ["accounts:access", "accounts:refresh"]


def claims_of(token):
    return jwt.decode(token, options={"verify_signature": False})


def algorithm_of(token):
    return jwt.get_unverified_header(token)["alg"]


def encoded(content):
    if not isinstance(content, bytes):
        content = json.dumps(content).encode()
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def forge(token, *, secret=SECRET, key=None, header=(), written=str, **claims):
    """Sign a token anew, with some claims and parts of its header changed or GONE.

    PyJWT would refuse to sign many of these.
    """
    header = jwt.get_unverified_header(token) | dict(header)
    signs = header["alg"] if header["alg"] in SIGNERS else algorithm_of(token)
    if key is None:
        key = signing_keys.derive(secret) if signs == "ES256" else secret.encode()
    left = [
        {name: value for name, value in content.items() if value != GONE}
        for content in (header, claims_of(token) | claims)
    ]
    text = f"{encoded(left[0])}.{written(encoded(left[1]))}"
    return f"{text}.{encoded(SIGNERS[signs].sign(text.encode(), key))}"


def with_part(token, number, part):
    parts = token.split(".")
    parts[number] = part
    return ".".join(parts)


def with_changed_claims(token):
    return with_part(token, 1, encoded(claims_of(token) | {"role": "admin"}))


def with_other_algorithm(token):
    return forge(token, header={"alg": OTHER_ALGORITHM[algorithm_of(token)]})


def with_kid_of_other_algorithm(token):
    return forge(token, header={"kid": KID_OF[OTHER_ALGORITHM[algorithm_of(token)]]})


def _headers(*headers):
    return {str(each): functools.partial(forge, header=each) for each in headers}


def _claims(*claims):
    return {str(each): functools.partial(forge, **each) for each in claims}


# No verifier may accept these, even if it knows nothing but the keys.
BROKEN = {
    **_headers({"alg": "none"}, {"alg": "hs256"}, {"alg": GONE}, {"alg": "HS384"}),
    **_headers({"kid": GONE}, {"kid": "unknown"}, {"kid": 7}, {"kid": ["a"]}, {"kid": None}),
    **_headers({"crit": ["exp"]}),
    "no signature": lambda token: with_part(forge(token, header={"alg": "none"}), 2, ""),
    "a cut signature": lambda token: token[:-3],
    "a long signature": lambda token: f"{token}AAAA",
    "an empty signature": lambda token: with_part(token, 2, encoded(bytes(64))),
    "changed claims": with_changed_claims,
    "another key": lambda token: forge(token, secret=OTHER_KEY),
    "the other algorithm": with_other_algorithm,
    "the kid of the other algorithm": with_kid_of_other_algorithm,
    "the public key as a secret": lambda token: forge(token, key=PEM, header={"alg": "HS256"}),
    "two parts": lambda token: token.rpartition(".")[0],
    "four parts": lambda token: f"{token}.abcd",
    "dots": lambda _token: "..",
}
# Of the service more is asked: PyJWT ignores some of these headers, and allows padding.
FORGERIES = {
    **BROKEN,
    **_headers({"jwk": JWK}, {"jku": "https://attacker.example"}),
    **_headers({"x5u": "https://attacker.example"}, {"x5c": ["MIIB"]}),
    "a list for a header": lambda token: with_part(token, 0, encoded([])),
    "a deep header": lambda token: with_part(token, 0, encoded(b"[" * 1500)),
    "a list for claims": lambda token: with_part(token, 1, encoded([])),
    "letters that are none": lambda token: with_part(token, 2, "\u00e9"),
    "padding": lambda token: f"{token}==",
    "padding in the claims": lambda token: forge(token, written=lambda claims: f"{claims}===="),
    "junk in the claims": lambda token: forge(token, written=lambda claims: f"{claims}!!"),
    **_claims({"type": GONE}, {"type": "other"}, {"iss": GONE}, {"iss": "other"}),
    **_claims({"aud": GONE}, {"aud": "accounts"}, {"aud": BOTH}),
    **_claims({"exp": GONE}, {"exp": "99999999999"}, {"exp": 10**18}, {"exp": 99999999999.5}),
    **_claims({"iat": GONE}, {"iat": 99999999999}, {"nbf": 99999999999}),
    **_claims({"jti": GONE}, {"jti": "\x00"}, {"jti": 7}),
    **_claims({"sub": GONE}, {"sub": "nobody"}, {"sub": 7}),
    **_claims({"sid": GONE}, {"sid": "\x00"}, {"sid": ["a"]}),
}
