"""A device with passkeys, as the tests of passkeys use one."""

import hashlib
import json
import secrets
import struct

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from fido2 import cbor
from fido2.cose import ES256
from helpers import PASSWORD, bearer, success

from core.passkeys import decode, encode

URL = "/api/auth/passkeys"
PRESENT, VERIFIED, CAN_SYNC, SYNCED, ATTESTED = 1, 4, 8, 16, 64
USED = PRESENT | VERIFIED
ORIGIN, DOMAIN = "https://school.test", "school.test"


def client_data(kind, challenge, **changes):
    """Return what a browser says; what is changed to None is left out."""
    said = {"type": kind, "challenge": challenge, "origin": ORIGIN, "crossOrigin": False, **changes}
    return json.dumps({name: value for name, value in said.items() if value is not None}).encode()


def authenticator_data(flags, domain, count=0, rest=b""):
    hashed = hashlib.sha256(domain.encode()).digest()
    return hashed + struct.pack(">BI", flags, count) + rest


def credential(id_, **parts):
    """Return what `PublicKeyCredential.toJSON()` does."""
    response = {name: encode(part) for name, part in parts.items()}
    more = {"authenticatorAttachment": "platform", "clientExtensionResults": {}}
    return {"id": encode(id_), "rawId": encode(id_), "type": "public-key", **more} | {
        "response": {**response, "transports": ["internal"]}
    }


class Device:
    """Makes passkeys of ES256 and signs with them; keywords change what it says."""

    def __init__(self):
        self.keys = {}  # by their ids: key and user handle
        self.aaguid = bytes(16)

    def create(
        self, options, *, flags=USED | ATTESTED, domain=DOMAIN, id_=None, public=None, **changes
    ):
        """Return what `navigator.credentials.create()` does; `public` replaces the public key."""
        id_ = secrets.token_bytes(16) if id_ is None else id_
        key = ec.generate_private_key(ec.SECP256R1())
        self.keys[id_] = key, decode(options["user"]["id"])
        public = public or dict(ES256.from_cryptography_key(key.public_key()))
        sent = public if isinstance(public, bytes) else cbor.encode(public)
        rest = self.aaguid + struct.pack(">H", len(id_)) + id_ + sent
        data = authenticator_data(flags, domain, rest=rest if flags & ATTESTED else b"")
        made = cbor.encode({"fmt": "none", "attStmt": {}, "authData": data})
        said = client_data("webauthn.create", options["challenge"], **changes)
        return credential(id_, clientDataJSON=said, attestationObject=made)

    def get(self, options, *, flags=USED, domain=DOMAIN, key=None, count=0, **changes):
        """Return what `navigator.credentials.get()` does; `key` signs in place of the own one."""
        id_, (own, handle) = next(iter(self.keys.items()))
        data = authenticator_data(flags, domain, count)
        said = client_data("webauthn.get", options["challenge"], **changes)
        signed = data + hashlib.sha256(said).digest()
        signature = (key or own).sign(signed, ec.ECDSA(hashes.SHA256()))
        parts = {"clientDataJSON": said, "authenticatorData": data, "signature": signature}
        return credential(id_, **parts, userHandle=handle)


def begin(client, session):
    """Return what a browser needs to make another passkey."""
    return success(client.get(URL, headers=bearer(session)))["publicKey"]


def send_new(client, session, credential, **more):
    body = {"credential": credential, "password": PASSWORD, **more}
    return client.post(URL, json=body, headers=bearer(session))


def add(client, session, device, **more):
    made = device.create(begin(client, session))
    return success(send_new(client, session, made, **more), 201)


def ask(client):
    """Return what a browser needs for a login."""
    return success(client.post(f"{URL}/options"))["publicKey"]


def send(client, credential, **more):
    return client.post("/api/auth/login", json={"passkey": credential, **more})


def sign_in(client, device, **options):
    return send(client, device.get(ask(client), **options))
