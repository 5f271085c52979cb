"""The connections of clients: time limits for those who send or read too slowly."""

import math
import select
import socket
import time
from contextlib import suppress
from errno import ECONNRESET
from typing import Any

from core import turns

# Seconds until the service gives up on a client: without a byte, and for one whole request.
SILENCE, LONGEST = 10, 120
# Seconds for what a client still sends after it was answered.
LINGER = 2
# Bytes of a response that are sent at once, and of a body that are read at once.
BLOCK = 8192


class Client:
    """A connection that fails, as if the client had reset it, when the client is too slow.

    gunicorn reads from it and writes to it as from a socket. A thread gives its turn away while it
    waits for the client, and only then.
    """

    def __init__(self, accepted: socket.socket, address: Any, server: Any) -> None:
        self._socket = accepted
        self.address, self.server = address, server  # of both ends, as `socket.accept` gives them
        self.parser: Any = None  # gunicorn's; it keeps what was read of the next request
        # On the monotonic clock. When the request has to be here (a response may take SILENCE
        # longer), and when a client that is not being answered is closed: never, while it is.
        self.until, self.closes_at = 0.0, math.inf
        self.is_watched = False  # whether the worker's poller knows it
        self.is_answered = False  # whether a part of the response to this request is written
        self._kept = b""  # of a response, see `sendall`
        accepted.setblocking(False)
        if accepted.family != socket.AF_UNIX and hasattr(socket, "TCP_NOTSENT_LOWAT"):
            # Else Linux tells of a slow reader only when megabytes are gone, which takes too long.
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, 65536)

    def fileno(self) -> int:
        return self._socket.fileno()

    def recv(self, size: int) -> bytes:
        """Return what the client sends, `b""` at the end. Raises ConnectionResetError."""
        while time.monotonic() < self.until:
            with suppress(BlockingIOError):
                return self._socket.recv(size)
            if not self._waits(select.POLLIN, self.until):
                self.until = time.monotonic()  # do not wait again for the rest of a refused body
        raise ConnectionResetError(ECONNRESET, "The client sends too slowly.")

    def send(self, data: Any) -> int:
        """Send a part; return how many bytes. Raises ConnectionResetError."""
        end = self.until + SILENCE
        while time.monotonic() < end:
            with suppress(BlockingIOError):
                return self._socket.send(data)
            if not self._waits(select.POLLOUT, end):
                break
        raise ConnectionResetError(ECONNRESET, "The client reads too slowly.")

    def sendall(self, data: Any) -> None:
        """Keep what is small until `flush`, so that the head of a response goes with its body."""
        self.is_answered = True
        self._kept += data
        if len(self._kept) > BLOCK:
            self.flush()

    def flush(self) -> None:
        """Send what `sendall` has kept. Raises ConnectionResetError."""
        rest, self._kept = memoryview(self._kept), b""
        while rest:
            rest = rest[self.send(rest) :]

    def close(self, *, lingers: bool) -> None:
        """Send what is kept, and close. `lingers` says that the client may still send something:
        to close before it is read would reset the connection, and could lose the response.
        """
        with suppress(OSError):
            self.flush()
            self._socket.shutdown(socket.SHUT_WR)
            self.until = time.monotonic() + LINGER
            while lingers and self.recv(BLOCK):
                pass
            self._socket.recv(BLOCK)  # what is there already
        self._socket.close()

    def _waits(self, event: int, end: float) -> bool:
        """Wait for the client, for SILENCE at most; return whether it is ready."""
        poll = select.poll()
        poll.register(self, event)
        seconds = max(0.0, min(SILENCE, end - time.monotonic()))
        with turns.waiting():
            return bool(poll.poll(seconds * 1000))
