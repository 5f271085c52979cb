"""A client of one OpenID provider: OpenID Connect Core 1.0, section 3.1, and Discovery 1.0.

A provider may be silent, slow, broken or replaced: each answer is bounded in size, each step to it
in time, few requests wait at once, and every fault is the same `ProviderFailed`.
"""

import base64
import hashlib
import hmac
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from http.client import HTTPException
from socket import gaierror
from ssl import SSLCertVerificationError
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import quote_plus, urlencode
from urllib.request import Request

import jwt

from core import clock, fetching, turns

# Requests of this process that may wait for one provider.
PLACES = 8
# Seconds for each step of the network, and for a whole body.
STEP = 5
CONFIGURATION_LIFE = timedelta(hours=1)
KEYS_LIFE = timedelta(minutes=5)
# How old the keys must be to be asked for again because one is unknown.
KEYS_REST = timedelta(seconds=30)
# Seconds by which the clocks of two machines may differ.
CLOCK_SKEW = 60
_ALGORITHMS = ("RS256", "PS256", "ES256", "ES384", "EdDSA")
# What an error response may be called in the log.
_ERROR_CODE = re.compile("[a-z_]{1,40}")
# What is needed of an answer, a header or a token. Where it is missing or of another type, its name
# is the word for the log.
_CLAIMS = {"iss": str, "aud": (str, list), "sub": str, "nonce": str}
_CLAIMS |= dict.fromkeys(("exp", "iat", "nbf"), (int, float))
_URLS = ("authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint")
_TEXTS = ("issuer", *_URLS, "id_token", "access_token", "alg", "kid")
_TYPES: dict[str, Any] = {**_CLAIMS, **dict.fromkeys(_TEXTS, str), "keys": list}
# What else goes wrong with answers of any kind. The first that fits names it in the log.
_FAULTS = (
    *(TimeoutError, gaierror, SSLCertVerificationError, ConnectionRefusedError, OSError),
    *(jwt.InvalidAlgorithmError, jwt.InvalidKeyError, jwt.InvalidSignatureError, jwt.PyJWTError),
    *(HTTPException, ValueError, TypeError, KeyError, AttributeError, RecursionError),
)

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


def proves(verifier: str, challenge: str) -> bool:
    """Return whether a PKCE verifier has the right form and is that of this challenge."""
    is_form = re.fullmatch(r"[\w.~-]{43,128}", verifier, re.ASCII)
    return is_form is not None and challenge_of(verifier) == challenge


def _base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


class Provider:
    """One provider; `callback` is our URL that it sends users back to."""

    def __init__(
        self,
        issuer: str,
        client_id: str,
        client_secret: str,
        prompt: str,
        callback: str,
        *,
        step: float = STEP,
    ) -> None:
        self.issuer, self._client_id, self._callback = issuer, client_id, callback
        self.step = step
        self._prompt = {} if prompt == "none" else {"prompt": prompt}
        self._login = {"client_id": client_id, "client_secret": client_secret}
        # RFC 6749, section 2.3.1: both are form-encoded first.
        basic = ":".join(map(quote_plus, self._login.values()))
        self._basic = f"Basic {base64.b64encode(basic.encode()).decode()}"
        self._places, self._lock = threading.BoundedSemaphore(PLACES), threading.Lock()
        self._kept: dict[str, tuple[datetime, Json]] = {}  # what was read, by URL
        self._open = fetching.opener()
        self._discovery = f"{issuer.rstrip('/')}/.well-known/openid-configuration"

    def authorization_url(self, state: str, secrets: Secrets) -> str:
        """Return the URL at which a user signs in. Raises ProviderFailed."""
        urls = self._find_kept(self._discovery, CONFIGURATION_LIFE)
        if urls is None:
            with self._place():
                urls = self._end_points()
        query = {"response_type": "code", "client_id": self._client_id, "state": state}
        query |= {"redirect_uri": self._callback, "scope": "openid email profile", **self._prompt}
        query |= {"nonce": secrets.nonce, "code_challenge": challenge_of(secrets.verifier)}
        query |= {"code_challenge_method": "S256"}
        url: str = urls["authorization_endpoint"]
        return f"{url}{'&' if '?' in url else '?'}{urlencode(query)}"

    def claims(self, code: str, secrets: Secrets) -> Json:
        """Return what a provider says about the user whose code this is. Raises ProviderFailed."""
        with self._place():
            urls = self._end_points()
            form = {"grant_type": "authorization_code", "code": code}
            form |= {"redirect_uri": self._callback, "code_verifier": secrets.verifier}
            in_form = urls["takes_secret_in_form"]
            sent = urlencode({**form, **self._login} if in_form else form).encode()
            headers = {} if in_form else {"Authorization": self._basic}
            tokens = self._ask(urls["token_endpoint"], sent, **headers)
            claims = self._verify(_get(tokens, "id_token"), secrets.nonce, urls["jwks_uri"])
            if claims.get("email") is None and "userinfo_endpoint" in urls:
                claims.pop("email", None)  # null, which would hide what follows
                bearer = f"Bearer {_get(tokens, 'access_token')}"
                found = self._user_info(urls["userinfo_endpoint"], bearer, claims["sub"])
                claims = {**found, **claims}
        return claims

    def _user_info(self, url: str, bearer: str, subject: str) -> Json:
        """Return what else is said of the user; {} where it is no JSON, as a signed answer."""
        try:
            found = self._ask(url, Authorization=bearer)
        except (json.JSONDecodeError, UnicodeDecodeError):
            return {}
        if _get(found, "sub") != subject:
            raise ProviderFailed("InvalidSubjectError")
        return found

    @contextmanager
    def _place(self) -> Iterator[None]:
        """Take one of the places to wait; turn all that goes wrong at a provider into one error."""
        if not self._places.acquire(blocking=False):
            raise ProviderFailed("busy")
        try:
            with turns.waiting():
                yield
        except HTTPError as error:
            raise ProviderFailed(_reason(error, self.step)) from None
        except _FAULTS as error:
            cause = getattr(error, "reason", None)  # of a URLError
            found = cause if isinstance(cause, Exception) else error
            kinds = (fault.__name__ for fault in _FAULTS if isinstance(found, fault))
            raise ProviderFailed(next(kinds)) from None
        finally:
            self._places.release()

    def _end_points(self) -> Json:
        return self._document(self._discovery, CONFIGURATION_LIFE, self._end_points_of)

    def _end_points_of(self, found: Json) -> Json:
        """Return the URLs of a configuration that are needed (Discovery 1.0, section 4.3)."""
        if _get(found, "issuer") != self.issuer:
            raise ProviderFailed("InvalidIssuerError")
        urls = {name: _get(found, name) for name in _URLS if name != _URLS[-1] or name in found}
        # urllib would open file: and data: too.
        form = re.compile(rf"{self.issuer.partition(':')[0]}://[!-\"$-~]+")
        if wrong := [name for name in urls if not form.fullmatch(urls[name])]:
            raise ProviderFailed(wrong[0])
        # Without the list, it is client_secret_basic.
        methods = {*found.get("token_endpoint_auth_methods_supported", [])}
        in_form = methods & {"client_secret_basic", "client_secret_post"} == {"client_secret_post"}
        return {**urls, "takes_secret_in_form": in_form}

    def _find_kept(self, url: str, life: timedelta) -> Json | None:
        fetched_at, content = self._kept.get(url, (None, None))
        is_fresh = fetched_at and timedelta() <= clock.utcnow() - fetched_at < life
        return content if is_fresh else None

    def _document(self, url: str, life: timedelta, read: Callable[[Json], Json]) -> Json:
        """Return what was read in a document not longer ago than `life`; of parallel calls, one
        fetches it.
        """
        if (found := self._find_kept(url, life)) is not None:
            return found
        if not self._lock.acquire(timeout=self.step):
            raise TimeoutError
        try:
            if (found := self._find_kept(url, life)) is None:
                found = read(self._ask(url))
                self._kept[url] = (clock.utcnow(), found)
            return found
        finally:
            self._lock.release()

    def _ask(self, url: str, form: bytes | None = None, **headers: str) -> Json:
        headers |= {"Accept": "application/json", "User-Agent": "accounts"}
        request = Request(url, form, headers)  # noqa: S310 - `_end_points_of` has looked at the scheme
        with self._open(request, timeout=self.step) as response:
            content = json.loads(fetching.body(response, self.step))
        if not isinstance(content, dict):
            raise ValueError("not an object")
        return content

    def _verify(self, token: str, nonce: str, keys_url: str) -> Json:
        """Return the claims of an ID token (OpenID Connect Core, section 3.1.3.7; RFC 8725)."""
        header = jwt.get_unverified_header(token)
        algorithm = _get(header, "alg")
        if algorithm not in _ALGORITHMS or "crit" in header:
            raise jwt.InvalidAlgorithmError
        key = self._find_key(keys_url, _get(header, "kid"), algorithm)
        options: Any = {f"verify_{name}": False for name in ("aud", "exp", "iat", "nbf", "sub")}
        options["enforce_minimum_key_length"] = True  # RFC 7518, section 3.3: RSA with 2048 bits
        claims: Json = jwt.decode(token, key, [algorithm], options=options)
        now, said = clock.utcnow().timestamp(), {"nbf": 0, **claims}
        said = {name: _get(said, name) for name in _CLAIMS}
        ours = self._client_id
        audiences = said["aud"] if isinstance(said["aud"], list) else [said["aud"]]
        # One for several audiences must have been made for us (`azp`), not for another client.
        is_for_us = audiences == [ours] or (ours in audiences and claims.get("azp") == ours)
        # The times are compared here, with the clock that tests can set.
        wrong = {
            "InvalidIssuerError": said["iss"] != self.issuer,
            "InvalidAudienceError": not is_for_us,
            "ExpiredSignatureError": not said["exp"] > now - CLOCK_SKEW,
            "InvalidIssuedAtError": not said["iat"] < now + CLOCK_SKEW,
            "ImmatureSignatureError": not said["nbf"] < now + CLOCK_SKEW,
            "nonce": said["nonce"] != nonce,
            "InvalidSubjectError": not re.fullmatch("[ -~]{1,255}", said["sub"]),
        }
        if any(wrong.values()):
            raise ProviderFailed(next(reason for reason in wrong if wrong[reason]))
        return claims

    def _find_key(self, url: str, key_id: str, algorithm: str) -> Any:
        """Return the provider's key with this id, which must be one for this algorithm."""
        # What is no set of keys raises an error here, and so is not kept.
        read = lambda found: {"keys": [dict(key) for key in _get(found, "keys")]}  # noqa: E731
        for life in (KEYS_LIFE, KEYS_REST):  # the second time, only for an unknown id
            for key in self._document(url, life, read)["keys"]:
                uses = key.get("use", "sig"), key.get("alg", algorithm)
                if key.get("kid") == key_id and uses == ("sig", algorithm):
                    return jwt.PyJWK(key, algorithm).key
        raise jwt.InvalidKeyError


def _get(found: Json, name: str) -> Any:
    """Return what is needed of an answer, a header or a token."""
    value = found.get(name)
    if not isinstance(value, _TYPES[name]):
        raise ProviderFailed(name)
    return value


def _reason(error: HTTPError, seconds: float) -> str:
    """Return the error code in a response (RFC 6749, section 5.2), else its status."""
    with error:
        try:
            code = json.loads(fetching.body(error, seconds))["error"]
        except _FAULTS:
            code = ""
    return code if isinstance(code, str) and _ERROR_CODE.fullmatch(code) else str(error.code)
