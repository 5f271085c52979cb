"""An OpenID provider with a memory, on 127.0.0.1, that also does wrong what a provider can."""

import base64
import functools
import hashlib
import html
import json
import secrets
import threading
from collections import Counter
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote_plus, urlencode, urlsplit

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from forgeries import GONE, encoded
from jwt.algorithms import get_default_algorithms

from core import clock, openid

ALGORITHMS = get_default_algorithms()
# They hold what HTTP's Basic scheme and forms would take for something else.
CLIENT_ID, CLIENT_SECRET = "accounts: of+a school", "s3cr:t%2F+&=ü"
DISCOVERY = "/.well-known/openid-configuration"
# The words for the log; besides, it has HTTP statuses and the provider's own error codes.
WORDS = {*openid._TYPES, *(fault.__name__ for fault in openid._FAULTS), "busy"}
WORDS |= {f"Invalid{claim}Error" for claim in ("Issuer", "Audience", "Subject", "IssuedAt")}
WORDS |= {"ExpiredSignatureError", "ImmatureSignatureError"}
EVERYTHING = 300_000_000  # bytes of an answer without an end


class Key(NamedTuple):
    """A key pair for this algorithm; two of them differ in their `number`."""

    algorithm: str = "RS256"
    number: int = 1
    kid: str = "first"

    @property
    def private(self):
        return _private_key(self.algorithm, self.number)

    @property
    def jwk(self):
        public = ALGORITHMS[self.algorithm].to_jwk(self.private.public_key(), as_dict=True)
        return {**public, "kid": self.kid, "use": "sig", "alg": self.algorithm}


@functools.cache  # an RSA key takes a tenth of a second
def _private_key(algorithm, _number):
    if algorithm.startswith("ES"):
        return ec.generate_private_key(ec.SECP256R1() if algorithm == "ES256" else ec.SECP384R1())
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    return rsa.generate_private_key(65537, 2048)


def challenge_of(verifier):
    return encoded(hashlib.sha256(verifier.encode()).digest())


def fragment_of(response):
    """Return what the callback of a service hands on to the page at which it ends."""
    return dict(parse_qsl(urlsplit(response.headers["Location"]).fragment, strict_parsing=True))


def changed(content, changes):
    return {name: value for name, value in {**content, **changes}.items() if value != GONE}


class Trouble(NamedTuple):
    """What comes in place of an answer, or how its bytes come."""

    status: int = 0  # 0: that of the answer
    says: bytes = b""
    chunks: str = "at once"
    pads_to: int = 0  # bytes


class FakeProvider:
    """The attributes say who signs in next, and what goes wrong."""

    def __init__(self, tls=None):
        self.person = {"sub": "subject-1", "email": "pupil@school.example", "email_verified": True}
        self.person |= {"given_name": "Ada", "family_name": "Lovelace"}
        self.claims, self.header = {}, {}  # changes of the ID token; GONE takes one away
        self.signs, self.published = Key(), [Key().jwk]
        self.secret = None  # what signs in place of that key
        self.userinfo = None  # what that end point says, which is not there without it
        self.signs_userinfo = False  # whether it says so in a JWT
        self.takes = "client_secret_basic"  # how it wants the secret, and no other way
        self.metadata = {}  # changes of the discovery document
        self.troubles = {}  # by path
        self.has_page = False  # whether a person is asked, or comes back at once
        self.asked = Counter()  # requests, by path
        self.requests = []  # for a code: the parameters of each
        self.sent = 0  # bytes of answers without an end
        self.released = threading.Event()  # ends silence
        self._grants = {}
        self._server = _Server(("127.0.0.1", 0), functools.partial(_Handler, self))
        self.issuer = f"http://127.0.0.1:{self._server.server_port}"
        if tls:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
            self.issuer = f"https://localhost:{self._server.server_port}"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, args=(0.02,)).start()
        return self

    def __exit__(self, *_):
        self.released.set()
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path, query, login, form):
        """Return status, media type or place, and content."""
        if path == "/authorize" and self.has_page:
            head = '<title>School login</title><link rel="icon" href="data:,">'
            button = '<form method="post" action="{0}?{1}"><button>{0}</button></form>'.format
            ways = (button(way, html.escape(query)) for way in ("continue", "cancel"))
            return 200, "text/html", f"{head}{''.join(ways)}".encode()
        if path in ("/authorize", "/continue", "/cancel"):
            return 303, self.authorize(query, "access_denied" if path == "/cancel" else ""), b""
        answers = {
            DISCOVERY: lambda: (200, changed(self._discovery(), self.metadata)),
            "/keys": lambda: (200, {"keys": self.published}),
            "/token": lambda: self._token(login, form),
            "/userinfo": lambda: (200, self.userinfo if login == "Bearer access" else {}),
        }
        status, content = answers.get(path, lambda: (404, {}))()
        if path == "/userinfo" and self.signs_userinfo:
            said = {**content, "iss": self.issuer, "aud": CLIENT_ID}
            return status, "application/jwt", self._sign({"alg": self.signs.algorithm}, said)
        return status, "application/json", json.dumps(content).encode()

    def authorize(self, query, error=""):
        """Do what a person does at the provider; return where the browser goes then."""
        asked = dict(parse_qsl(query, strict_parsing=True))
        assert (asked["client_id"], asked["code_challenge_method"]) == (CLIENT_ID, "S256")
        self.requests.append(asked)
        found = {"error": error, "error_description": "No <b>way</b>"}
        if not error:
            found = {"code": secrets.token_urlsafe()}
            self._grants[found["code"]] = asked, dict(self.person)
        # Google adds such parameters.
        query = {"state": asked["state"], **found, "authuser": "0", "hd": "school.example"}
        return f"{asked['redirect_uri']}?{urlencode(query)}"

    def _discovery(self):
        names = {"authorization": "authorize", "token": "token", "userinfo": "userinfo"}
        ends = {f"{name}_endpoint": f"{self.issuer}/{path}" for name, path in names.items()}
        if self.userinfo is None:
            del ends["userinfo_endpoint"]
        return {"issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys", **ends}

    def _token(self, login, form):
        in_form = [form.pop("client_id", ""), form.pop("client_secret", "")]
        # Without a header, that is a colon alone.
        text = base64.b64decode((login or "Basic Og==").removeprefix("Basic ")).decode("ascii")
        in_header = [unquote_plus(part) for part in text.split(":")]
        given = {"client_secret_basic": in_header, "client_secret_post": in_form}
        if given.pop(self.takes) != [CLIENT_ID, CLIENT_SECRET] or [*given.values()] != [["", ""]]:
            return 401, {"error": "invalid_client"}
        asked, person = self._grants.pop(form["code"], ({}, {}))
        expected = {"grant_type": "authorization_code", "redirect_uri": asked.get("redirect_uri")}
        is_theirs = challenge_of(form["code_verifier"]) == asked.get("code_challenge")
        if not (is_theirs and expected.items() <= form.items()):
            return 400, {"error": "invalid_grant"}
        now = int(clock.utcnow().timestamp())
        claims = {"iss": self.issuer, "aud": CLIENT_ID, "iat": now, "exp": now + 300}
        claims = changed({**claims, "nonce": asked["nonce"], **person}, self.claims)
        header = changed({"alg": self.signs.algorithm, "kid": self.signs.kid}, self.header)
        return 200, {"access_token": "access", "id_token": self._sign(header, claims).decode()}

    def _sign(self, header, claims):
        text = f"{encoded(header)}.{encoded(claims)}".encode()
        key = self.secret or self.signs.private
        return text + b"." + encoded(ALGORITHMS[header["alg"]].sign(text, key)).encode()

    def chunks(self, how, content):
        """Let an answer come as it should not."""
        if how == "silence":
            self.released.wait(60)
        while how == "drip" and content:
            yield content[:1]
            content = content[1:]
            self.released.wait(0.02)
        while how == "endless" and self.sent < EVERYTHING:
            self.sent += 65536
            yield b" " * 65536
        yield content


class _Server(ThreadingHTTPServer):
    request_queue_size = 64  # with fewer, a crowd waits a second for its connections


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, provider, *arguments):
        self._provider = provider
        super().__init__(*arguments)

    def do_GET(self):
        provider, (path, _, query) = self._provider, self.path.partition("?")
        provider.asked[path] += 1
        form = dict(parse_qsl(self.rfile.read(int(self.headers["Content-Length"] or 0)).decode()))
        status, kind, content = provider.answer(path, query, self.headers["Authorization"], form)
        trouble = provider.troubles.get(path, Trouble())
        content = (trouble.says or content).ljust(trouble.pads_to)
        chunks = provider.chunks(trouble.chunks, content)
        first = next(chunks)  # before it, not a byte is sent
        self.send_response(trouble.status or status)
        name = "Location" if 300 <= (trouble.status or status) < 400 else "Content-Type"
        self.send_header(name, "/moved" if trouble.status else kind)
        self.end_headers()
        with suppress(OSError):  # the service has seen enough
            self.wfile.write(first)
            self.wfile.writelines(chunks)

    do_POST = do_GET

    def log_message(self, *_):
        pass
