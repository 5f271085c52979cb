"""Asks a service such as Have I Been Pwned whether a password is in a known breach.

Only five hex digits of its SHA-1 leave this machine (ASVS 5.0, 6.2.12). A password is accepted if
the service does not answer: otherwise, an outage would stop everybody from choosing one.
"""

import hashlib
import logging
import threading
import time
from concurrent.futures import Future
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.request import Request

from core import fetching, turns
from core.reasons import Reason

HIBP = "https://api.pwnedpasswords.com"
# Requests of this process at once. Seconds for each, with the wait for a place, the look-up of the
# service's name and the body.
PLACES, PATIENCE = 4, 1.0
# After so many failures in a row nothing is asked for so many seconds.
IN_A_ROW, REST = 3, 60.0
_LOG_EVERY = 60  # seconds
_FAULTS = OSError, HTTPException, ValueError
_BREACHED = Reason(
    "breached",
    "This password is in lists of stolen passwords. Choose one that you use nowhere else.",
)
_log = logging.getLogger("accounts.breaches")


class _Busy(TimeoutError):
    """The time ran out after a wait for other questions of this process."""


class Breaches:
    """What one process knows of the service at a URL, or "" for none."""

    def __init__(self, url: str) -> None:
        self._url, self._open = url, fetching.opener()
        self._places, self._lock = threading.BoundedSemaphore(PLACES), threading.Lock()
        # On the monotonic clock, until when nothing is asked, and nothing is logged.
        self._failures, self._rests_until, self._logged_until = 0, 0.0, 0.0

    def why_breached(self, password: str) -> Reason | None:
        """Return None for a normalised password that is not known to be breached, else the reason;
        takes PATIENCE at most.
        """
        if not self._url or time.monotonic() < self._rests_until:
            return None
        try:
            with turns.waiting():
                is_breached = self._wait(password)
        except _FAULTS as error:
            self._fail(error)
            return None
        self._failures = 0
        return _BREACHED if is_breached else None

    def _wait(self, password: str) -> bool:
        end, answer = time.monotonic() + PATIENCE, Future[bool]()
        has_waited = not self._places.acquire(blocking=False)
        try:
            if has_waited and not self._places.acquire(timeout=PATIENCE):
                raise TimeoutError
            # In a thread of its own: nothing else bounds the look-up of a name.
            threading.Thread(target=self._ask, args=(password, end, answer), daemon=True).start()
            return answer.result(end - time.monotonic())
        except TimeoutError as error:
            raise _Busy if has_waited else error from None

    def _ask(self, password: str, end: float, answer: Future[bool]) -> None:
        try:
            digest = hashlib.sha1(password.encode(), usedforsecurity=False).hexdigest().upper()
            headers = {"Add-Padding": "true", "User-Agent": "accounts"}
            request = Request(f"{self._url}/range/{digest[:5]}", headers=headers)  # noqa: S310 - the settings have looked at the scheme
            with self._open(request, timeout=PATIENCE) as response:
                lines = fetching.body(response, end - time.monotonic()).decode("ascii").split()
            counts = dict(line.upper().split(":") for line in lines)
            answer.set_result(int(counts.get(digest[5:], "0")) > 0)  # padding has a count of 0
        except _FAULTS as error:
            if isinstance(error, HTTPError):
                error.close()
            answer.set_exception(error)
        finally:
            self._places.release()

    def _fail(self, error: Exception) -> None:
        now = time.monotonic()
        with self._lock:
            # To have waited for others says nothing of the service.
            self._failures += not isinstance(error, _Busy)
            if self._failures >= IN_A_ROW:
                self._failures, self._rests_until = 0, now + REST
            if now < self._logged_until:
                return
            self._logged_until = now + _LOG_EVERY
        problem = f"{type(error).__name__.strip('_')} {getattr(error, 'code', '')}".strip()
        _log.warning("%s at BREACHED_PASSWORDS: new passwords pass unasked.", problem)
