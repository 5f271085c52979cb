"""A client of one OpenID provider: OpenID Connect Core 1.0, section 3.1, and Discovery 1.0.

A provider may be silent, slow, broken or replaced: each answer is bounded in size and time, few
requests wait at once, and every fault is the same `ProviderFailed`.
"""

import base64
import hashlib
import hmac
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from http.client import HTTPException, HTTPResponse
from typing import IO, Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import quote_plus, urlencode
from urllib.request import HTTPRedirectHandler, Request, build_opener

import jwt

from core import clock

# Requests of this process that may wait for one provider.
PLACES = 8
# Seconds for each step of the network, and for a whole body. Bytes of an answer.
STEP, LARGEST = 5, 256 * 1024
CONFIGURATION_LIFE = timedelta(hours=1)
KEYS_LIFE = timedelta(minutes=5)
# How old the keys must be to be asked for again because one is unknown.
KEYS_REST = timedelta(seconds=30)
# Seconds by which the clocks of two machines may differ.
CLOCK_SKEW = 60
_ALGORITHMS = ("RS256", "PS256", "ES256", "ES384", "EdDSA")
# What an error response may be called in the log.
_ERROR_CODE = re.compile("[a-z_]{1,40}")
# What handling answers of any kind and shape raises.
_SHAPES = (ValueError, TypeError, KeyError, AttributeError, RecursionError)
_FAULTS = (OSError, HTTPException, jwt.PyJWTError, *_SHAPES)

Json = dict[str, Any]


class ProviderFailed(Exception):
    """Why a provider's word cannot be had: a word for the log, with nothing of a user."""


class Secrets(NamedTuple):
    """What binds a provider's answer to our request (OpenID Connect Core 3.1.2.1, RFC 7636)."""

    nonce: str
    verifier: str

    @classmethod
    def of(cls, secret: str, state: str) -> "Secrets":
        """Return those of a request with this `state`."""
        parts = (f"oidc-{name}\0{state}".encode() for name in cls._fields)
        return cls(*(_base64url(hmac.digest(secret.encode(), part, "sha256")) for part in parts))


def challenge_of(verifier: str) -> str:
    """Return the `S256` challenge of a PKCE verifier (RFC 7636, section 4.2)."""
    return _base64url(hashlib.sha256(verifier.encode()).digest())


def _base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Leave a redirect what it is here: an HTTP error."""


class _Kept:
    """A document of a provider, kept for a while."""

    def __init__(self) -> None:
        self._content: Json = {}
        self._fetched_at: datetime | None = None
        self._tries = 0
        self._lock = threading.Lock()

    def get(self, life: timedelta) -> Json | None:
        """Return the content, or None if it is older than `life`."""
        fetched_at = self._fetched_at
        is_fresh = fetched_at and timedelta() <= clock.utcnow() - fetched_at < life
        return self._content if is_fresh else None

    def get_or_fetch(self, life: timedelta, fetch: Callable[[], Json]) -> Json:
        """Return the content; of parallel calls, one fetches what is too old, also if it fails."""
        tries = self._tries
        with self._lock:
            content = self.get(life)
            if content is None:
                if self._tries != tries:
                    raise ProviderFailed("failed_meanwhile")
                self._tries += 1
                content = self._content = fetch()
                self._fetched_at = clock.utcnow()
        return content


class Provider:
    """One provider; `callback` is our URL that it sends users back to."""

    def __init__(
        self, *, issuer: str, client_id: str, client_secret: str, prompt: str, callback: str
    ) -> None:
        self.issuer = issuer
        self._client_id, self._callback = client_id, callback
        self._prompt = {} if prompt == "none" else {"prompt": prompt}
        # RFC 6749, section 2.3.1: both are form-encoded first.
        login = f"{quote_plus(client_id)}:{quote_plus(client_secret)}"
        self._login = f"Basic {base64.b64encode(login.encode()).decode()}"
        self._places = threading.BoundedSemaphore(PLACES)
        self._configuration, self._keys = _Kept(), _Kept()
        self._open = build_opener(_NoRedirects).open

    def authorization_url(self, state: str, secrets: Secrets) -> str:
        """Return the URL at which a user signs in. Raises ProviderFailed."""
        configuration = self._configuration.get(CONFIGURATION_LIFE)
        if configuration is None:
            with self._place():
                configuration = self._configure()
        query = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": self._callback,
            "scope": "openid email profile",
            "state": state,
            "nonce": secrets.nonce,
            "code_challenge": challenge_of(secrets.verifier),
            "code_challenge_method": "S256",
            **self._prompt,
        }
        url = configuration["authorization_endpoint"]
        return f"{url}{'&' if '?' in url else '?'}{urlencode(query)}"

    def claims(self, code: str, secrets: Secrets) -> Json:
        """Return what a provider says about the user whose code this is. Raises ProviderFailed."""
        with self._place():
            configuration = self._configure()
            form = {
                "grant_type": "authorization_code",
                "code": code,
                "redirect_uri": self._callback,
                "code_verifier": secrets.verifier,
            }
            url = configuration["token_endpoint"]
            tokens = self._ask(url, urlencode(form).encode(), Authorization=self._login)
            claims = self._verify(tokens["id_token"], secrets.nonce)
            if "email" not in claims and "userinfo_endpoint" in configuration:
                url, token = configuration["userinfo_endpoint"], tokens["access_token"]
                found = self._ask(url, Authorization=f"Bearer {token}")
                if found.get("sub") != claims["sub"]:
                    raise ProviderFailed("InvalidSubjectError")
                claims = {**found, **claims}
        return claims

    @contextmanager
    def _place(self) -> Iterator[None]:
        """Take one of the places, and turn all that can go wrong at a provider into one error."""
        if not self._places.acquire(blocking=False):
            raise ProviderFailed("busy")
        try:
            yield
        except HTTPError as error:
            raise ProviderFailed(_reason(error)) from None
        except _FAULTS as error:
            reason = getattr(error, "reason", None) if isinstance(error, URLError) else None
            cause = reason if isinstance(reason, Exception) else error
            raise ProviderFailed(type(cause).__name__) from None
        finally:
            self._places.release()

    def _configure(self) -> Json:
        return self._configuration.get_or_fetch(CONFIGURATION_LIFE, self._discover)

    def _discover(self) -> Json:
        found = self._ask(f"{self.issuer.rstrip('/')}/.well-known/openid-configuration")
        if found["issuer"] != self.issuer:
            raise jwt.InvalidIssuerError
        needed = ("authorization_endpoint", "token_endpoint", "jwks_uri")
        names = [*needed, *({"userinfo_endpoint"} & found.keys())]
        # urllib would open file: and data: too.
        url = re.compile(rf"{self.issuer.partition(':')[0]}://[!-\"$-~]+")
        if not all(url.fullmatch(found[name]) for name in names):
            raise ValueError("an end point is no URL of the issuer's scheme")
        return {name: found[name] for name in names}

    def _ask(self, url: str, form: bytes | None = None, **headers: str) -> Json:
        headers |= {"Accept": "application/json", "User-Agent": "accounts"}
        request = Request(url, form, headers)  # noqa: S310 - `_discover` has looked at the scheme
        with self._open(request, timeout=STEP) as response:
            content = json.loads(_body(response))
        if not isinstance(content, dict):
            raise ValueError("not an object")
        return content

    def _verify(self, token: str, nonce: str) -> Json:
        """Return the claims of an ID token (OpenID Connect Core, section 3.1.3.7; RFC 8725)."""
        header = jwt.get_unverified_header(token)
        algorithm, key_id = header["alg"], header["kid"]
        if algorithm not in _ALGORITHMS or "crit" in header:
            raise jwt.InvalidAlgorithmError
        key = self._find_key(key_id, algorithm)
        options: Any = {f"verify_{name}": False for name in ("aud", "exp", "iat", "nbf", "sub")}
        claims: Json = jwt.decode(
            token, key, algorithms=[algorithm], issuer=self.issuer, options=options
        )
        if claims["aud"] not in (self._client_id, [self._client_id]):
            raise jwt.InvalidAudienceError
        # Compared here, with the clock that tests can set.
        now = clock.utcnow().timestamp()
        if not claims["exp"] > now - CLOCK_SKEW:
            raise jwt.ExpiredSignatureError
        if not (claims["iat"] < now + CLOCK_SKEW and claims.get("nbf", now) < now + CLOCK_SKEW):
            raise jwt.ImmatureSignatureError
        if claims["nonce"] != nonce:
            raise ProviderFailed("InvalidNonceError")
        if not re.fullmatch("[!-~]{1,255}", claims["sub"]):
            raise ProviderFailed("InvalidSubjectError")
        return claims

    def _find_key(self, key_id: str, algorithm: str) -> Any:
        """Return the provider's key with this id, which must be one for this algorithm."""
        url = self._configure()["jwks_uri"]
        for life in (KEYS_LIFE, KEYS_REST):  # the second time, only for an unknown id
            for key in self._keys.get_or_fetch(life, lambda: self._ask(url))["keys"]:
                uses = key.get("use", "sig"), key.get("alg", algorithm)
                if key.get("kid") == key_id and uses == ("sig", algorithm):
                    return jwt.PyJWK(key, algorithm).key
        raise jwt.InvalidKeyError


def _body(response: HTTPResponse | IO[bytes]) -> bytes:
    """Return a body. Raises ValueError for one that is too large, and TimeoutError."""
    body, end = b"", time.monotonic() + STEP
    while part := response.read1(LARGEST + 1 - len(body)):  # type: ignore[union-attr]
        body += part
        if len(body) > LARGEST:
            raise ValueError("too large")
        if time.monotonic() > end:
            raise TimeoutError
    return body


def _reason(error: HTTPError) -> str:
    """Return the error code in a response (RFC 6749, section 5.2), else its status."""
    with error:
        try:
            code = json.loads(_body(error))["error"]
        except _FAULTS:
            code = ""
    return code if isinstance(code, str) and _ERROR_CODE.fullmatch(code) else str(error.code)
