"""Requests to other services: without redirects, each answer bounded in size and time."""

import time
from collections.abc import Callable
from typing import Any
from urllib.request import HTTPRedirectHandler, build_opener

LARGEST = 256 * 1024  # bytes of an answer


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Leave a redirect what it is here: an HTTP error."""


def opener() -> Callable[..., Any]:
    """Return what opens URLs, through the proxy that `HTTPS_PROXY` names, if there is one."""
    return build_opener(_NoRedirects).open


def body(response: Any, seconds: float) -> bytes:
    """Return a body. Raises ValueError for one that is too large, and TimeoutError."""
    found, end = b"", time.monotonic() + seconds
    while part := response.read1(LARGEST + 1 - len(found)):
        found += part
        if len(found) > LARGEST:
            raise ValueError("too large")
        if time.monotonic() > end:
            raise TimeoutError
    return found
