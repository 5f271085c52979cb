"""The keys of tokens that others verify (RFC 7518).

Those of access tokens (ES256, section 3.4) are derived from SECRET_KEY (HKDF, RFC 5869), so there
is no second secret to keep. Those of ID tokens (RS256) are in the settings.
"""

import hashlib
from base64 import urlsafe_b64encode

import orjson
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

_INFO = b"accounts ES256 access tokens v1"
# The order of the curve P-256 (SEC 2, section 2.4.2). A private key is a number from 1 to one less.
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


class DeterministicES256(ECAlgorithm):
    """ES256 without a random number for each signature: a weak one reveals the key (RFC 6979)."""

    def __init__(self) -> None:
        super().__init__(SHA256, ec.SECP256R1)

    def sign(self, msg: bytes, key: ec.EllipticCurvePrivateKey) -> bytes:
        """Return both numbers of the signature, 32 bytes each (RFC 7518, section 3.4)."""
        der = key.sign(msg, ec.ECDSA(SHA256(), deterministic_signing=True))
        return b"".join(number.to_bytes(32) for number in decode_dss_signature(der))


def derive(secret: str) -> ec.EllipticCurvePrivateKey:
    """Return the P-256 key that belongs to a SECRET_KEY."""
    okm = HKDF(SHA256(), length=48, salt=None, info=_INFO).derive(secret.encode())
    return ec.derive_private_key(int.from_bytes(okm) % (_ORDER - 1) + 1, ec.SECP256R1())


def public_jwk(key: ec.EllipticCurvePrivateKey) -> dict[str, str]:
    """Return the public part as a JWK (RFC 7517); its `kid` is its thumbprint (RFC 7638)."""
    jwk = ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
    return _published({name: str(jwk[name]) for name in ("crv", "kty", "x", "y")}, "ES256")


def public_rsa_jwk(key: RSAPrivateKey) -> dict[str, str]:
    """Return the public part of a key of ID tokens in the same form."""
    jwk = RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    return _published({name: str(jwk[name]) for name in ("e", "kty", "n")}, "RS256")


def _published(jwk: dict[str, str], algorithm: str) -> dict[str, str]:
    thumbprint = hashlib.sha256(orjson.dumps(jwk)).digest()  # in the order of RFC 7638
    kid = urlsafe_b64encode(thumbprint).decode().rstrip("=")
    return {**jwk, "use": "sig", "alg": algorithm, "kid": kid}
