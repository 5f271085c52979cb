"""Passkeys as browsers send them, read and checked (WebAuthn Level 3, sections 7.1 and 7.2).

The library reads CBOR and checks signatures, and all else is compared here: its own server takes
any port and sub-domain, pages in frames, and keys that nobody can use. Attestation, sign counts,
backup flags and extensions are not looked at: anybody can make up the first, and passkeys that
several devices share count nothing.

It is imported late: it takes 10 ms and 1 MiB, and many processes never see a passkey.
"""

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
from cryptography.exceptions import InvalidSignature

if TYPE_CHECKING:
    from fido2.webauthn import AuthenticatorData

ES256, RS256 = -7, -257  # COSE algorithms; Windows without a new enough TPM has the second only
# Bytes of a credential's id; bits of an RSA modulus and the most bytes of its exponent, beyond
# which OpenSSL refuses a key, but only when it is used.
ID_LENGTHS, RSA_BITS, EXPONENT_LENGTH = range(16, 1024), range(2048, 4097), 8
# Who keeps passkeys, by AAGUID, as github.com/passkeydeveloper/passkey-authenticator-aaguids names
# them.
MAKERS = {
    "fbfc3007-154e-4ecc-8c0b-6e020557d7bd": "Apple Passwords",
    "ea9b8d66-4d01-1d21-3ce4-b6b48cb575d4": "Google Password Manager",
    "adce0002-35bc-c60a-648b-0b25f1f05503": "Chrome on Mac",
    "08987058-cadc-4b81-b6e1-30de50dcbe96": "Windows Hello",
    "9ddd1817-af5a-4672-a2b9-3e3dd95000a9": "Windows Hello",
    "6028b017-b1d4-4c02-b4b3-afcdafc96bb2": "Windows Hello",
    "d3452668-01fd-4c12-926c-83a4204853aa": "Microsoft Password Manager",
    "bada5566-a7aa-401f-bd96-45619a55120d": "1Password",
    "d548826e-79b4-db40-a3d8-11116f7e8349": "Bitwarden",
    "53414d53-554e-4700-0000-000000000000": "Samsung Pass",
    "531126d6-e717-415c-9320-3d9aa6981239": "Dashlane",
    "fdb141b2-5d84-443e-8a35-4698c205a502": "KeePassXC",
    "50726f74-6f6e-5061-7373-50726f746f6e": "Proton Pass",
}


class PasskeyInvalid(Exception):
    """What was sent is nothing that a passkey of ours makes. The text is a word for the log."""


class NewPasskey(NamedTuple):
    """What is stored of a passkey: its public key in the form of COSE; its maker's name, or ""."""

    credential_id: bytes
    public_key: bytes
    name: str


def encode(raw: bytes) -> str:
    """Return bytes as WebAuthn writes them in JSON: base64url without padding."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def decode(text: str) -> bytes:
    """Return the bytes that a text stands for. Raises PasskeyInvalid."""
    with _reading("encoding"):
        if not re.fullmatch(r"[\w-]*", text, re.ASCII):  # which Python would skip
            raise ValueError("not base64url")
        return base64.urlsafe_b64decode(f"{text}==")


def part(sent: Mapping[str, Any], name: str) -> bytes:
    """Return a part of a browser's response. Raises PasskeyInvalid."""
    with _reading("form"):
        return decode(sent["response"][name])


def challenge_in(sent: Mapping[str, Any]) -> str:
    """Return the challenge that was signed, as a text, ours or not. Raises PasskeyInvalid."""
    with _reading("client_data"):
        return decode(orjson.loads(part(sent, "clientDataJSON"))["challenge"]).decode("latin-1")


class RelyingParty(NamedTuple):
    """This service, as passkeys know it: its domain, and the origins of its pages."""

    domain: str
    origins: tuple[str, ...]

    def read_new(self, sent: Mapping[str, Any]) -> NewPasskey:
        """Return a passkey that was made for us. Raises PasskeyInvalid."""
        from fido2 import cbor  # noqa: PLC0415
        from fido2.webauthn import AuthenticatorData  # noqa: PLC0415

        with _reading("attestation"):
            attestation: Any = cbor.decode(part(sent, "attestationObject"))
            # The library would take a number for a length, and fill gigabytes with zeros.
            made = AuthenticatorData(b"" + attestation["authData"])
            self._check("webauthn.create", sent, made)
            found = made.credential_data
            if found is None or len(found.credential_id) not in ID_LENGTHS:
                raise PasskeyInvalid("credential_id")
            name = MAKERS.get(str(found.aaguid), "")
            return NewPasskey(found.credential_id, _usable(found.public_key), name)

    def check_signature(
        self, sent: Mapping[str, Any], user_handle: bytes, public_key: bytes
    ) -> None:
        """Raise PasskeyInvalid unless this user's key has signed, here, and verified its holder."""
        from fido2 import cbor  # noqa: PLC0415
        from fido2.cose import CoseKey  # noqa: PLC0415
        from fido2.webauthn import AuthenticatorData  # noqa: PLC0415

        if part(sent, "userHandle") != user_handle:
            raise PasskeyInvalid("user_handle")
        with _reading("signature"):
            data, signature = part(sent, "authenticatorData"), part(sent, "signature")
            signed = data + self._check("webauthn.get", sent, AuthenticatorData(data))
            key: Any = cbor.decode(public_key)
            CoseKey.parse(key).verify(signed, signature)

    def _check(self, kind: str, sent: Mapping[str, Any], made: "AuthenticatorData") -> bytes:
        """Return the digest of what the browser says, if all of it is as it must be."""
        client_data = part(sent, "clientDataJSON")
        claims = orjson.loads(client_data)
        rules = {
            "type": claims["type"] == kind,
            "origin": claims["origin"] in self.origins,
            # People do not see to whom they sign in, in a frame of another site.
            "frame": claims.get("crossOrigin") in (None, False) and "topOrigin" not in claims,
            "domain": made.rp_id_hash == hashlib.sha256(self.domain.encode()).digest(),
            "user_presence": made.is_user_present(),
            "user_verification": made.is_user_verified(),
        }
        for name, holds in rules.items():
            if not holds:
                raise PasskeyInvalid(name)
        return hashlib.sha256(client_data).digest()


def _usable(number: Any) -> bytes:
    """Return a key that verifies signatures, without what else was sent with it."""
    from fido2 import cbor, cose  # noqa: PLC0415

    key: Any  # its methods have no types
    if number[3] == ES256:
        x, y = number[-2], number[-3]
        is_good = (number[1], number[-1], len(x), len(y)) == (2, 1, 32, 32)
        key = cose.ES256({1: 2, 3: ES256, -1: 1, -2: x, -3: y})
    else:
        modulus, exponent = (number[name].lstrip(b"\0") for name in (-1, -2))
        is_good = (number[1], number[3]) == (3, RS256) and len(exponent) <= EXPONENT_LENGTH
        n = int.from_bytes(modulus, "big")
        is_good = is_good and n.bit_length() in RSA_BITS and n % 2 == 1
        key = cose.RS256({1: 3, 3: RS256, -1: modulus, -2: exponent})
    if not is_good:
        raise PasskeyInvalid("algorithm")
    # Whether the point is on the curve, or the exponent possible, shows when the key is used.
    with suppress(InvalidSignature):
        key.verify(b"", b"")
    return cbor.encode(key)


@contextmanager
def _reading(what: str) -> Iterator[None]:
    """Raise PasskeyInvalid for every error: the library's have no class of their own."""
    try:
        yield
    except PasskeyInvalid:
        raise
    except Exception as error:
        raise PasskeyInvalid(what) from error
