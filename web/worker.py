"""gunicorn's threaded worker, with a bound on how long a client may keep it waiting.

gunicorn itself waits for ever for the rest of a request and for a client that does not take its
answer; a few hundred such connections would hold every thread. And it answers what it cannot read
as a request with a page of its own.
"""

import errno
import logging
import os
import select
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from selectors import EVENT_READ
from typing import Any

from gunicorn.http import errors as unread  # type: ignore[import-untyped]
from gunicorn.workers.gthread import ThreadWorker  # type: ignore[import-untyped]

import errors
from core import clock
from web import headers
from web.errors import render
from web.logs import new_request_id

# Seconds that the service waits for a client, in all of a request and its answer. Each byte that
# moves gives a part of them back, at the slowest rate that is accepted, in bytes a second.
PATIENCE = 10
SLOWEST = 16 * 1024
# Seconds and bytes for which a connection stays open after its last answer.
LINGER = 2
LINGER_BYTES = 64 * 1024

_log = logging.getLogger("accounts.errors")

# The statuses that gunicorn gives them; whatever else cannot be read is a 400.
_STATUSES: dict[type[Exception], int] = {
    unread.LimitRequestLine: 414,
    unread.ExpectationFailed: 417,
    unread.LimitRequestHeaders: 431,
    unread.UnsupportedTransferCoding: 501,
}
_OUR_FAULT = (
    unread.ConfigurationProblem,
    unread.InvalidResponseHeader,
    unread.InvalidResponseHeaderName,
)


class ClientSocket(socket.socket):
    """A connection that gives up on a client which neither sends nor takes anything.

    Only the time in which it waits for the client counts, not that in which the application works.
    """

    __slots__ = ("_patience", "given_up")

    def __init__(self, accepted: socket.socket) -> None:
        super().__init__(accepted.family, accepted.type, accepted.proto, accepted.detach())
        super().setblocking(False)
        self.given_up = False
        self._patience = float(PATIENCE)

    def setblocking(self, flag: bool, /) -> None:
        """Stay as it is: the methods below wait by themselves, whatever gunicorn asks for."""

    def begin(self) -> None:
        """Start the time of the next request."""
        self._patience = PATIENCE

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        """Return what has arrived; nothing, from then on, once the time is up.

        To gunicorn that is a client that has closed its side. What comes late is never read: the
        rest of a body would look like the next request.
        """
        while not self.given_up:
            try:
                data = super().recv(size, flags)
            except BlockingIOError:
                self._wait(select.POLLIN)
            else:
                self._moved(len(data))
                return data
        return b""

    def send(self, data: Any, flags: int = 0, /) -> int:
        """Send a part of the data. Raises BrokenPipeError when the client takes nothing."""
        return self._give(lambda: socket.socket.send(self, data, flags))

    def sendall(self, data: Any, flags: int = 0, /) -> None:
        """Send all of the data. Raises BrokenPipeError when the client takes too little."""
        rest = memoryview(data)
        while rest:
            rest = rest[self.send(rest, flags) :]

    def sendfile(self, file: Any, offset: int = 0, count: int | None = None) -> int:
        """Send a part of a file, and return how many bytes. Raises BrokenPipeError, as above."""
        left = os.fstat(file.fileno()).st_size - offset if count is None else count
        start = offset
        while left > 0:
            give = partial(os.sendfile, self.fileno(), file.fileno(), offset, left)
            sent = self._give(give)
            if not sent:  # the file has become shorter
                break
            offset, left = offset + sent, left - sent
        return offset - start

    def linger(self) -> None:
        """Let the client read the last answer before the connection closes, but not for long.

        What it still sends is thrown away: bytes left unread would reset the connection, and the
        answer would be lost (RFC 9112, section 9.6). gunicorn does that too, but in the thread
        that all connections of the worker depend on; it finds nothing left to wait for.
        """
        with suppress(OSError):
            self.shutdown(socket.SHUT_WR)
            self._patience, left = LINGER, LINGER_BYTES
            while left > 0 and (data := self.recv(left)):
                left -= len(data)
        self.given_up = True

    def _give(self, operation: Callable[[], int]) -> int:
        # Whoever was given up on while receiving still gets the answer that says so.
        while True:
            try:
                sent = operation()
            except BlockingIOError:
                if not self._wait(select.POLLOUT):
                    break
            else:
                self._moved(sent)
                return sent
        # Else the system would go on offering the answer for minutes, and hold it in memory.
        self.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raise BrokenPipeError(errno.EPIPE, "the client takes nothing")

    def _moved(self, count: int) -> None:
        if self._patience < PATIENCE:
            self._patience = min(PATIENCE, self._patience + count / SLOWEST)

    def _wait(self, event: int) -> bool:
        """Return whether something can move before the time is up; give up when not."""
        if self.given_up:
            return False
        poll = select.poll()
        poll.register(self, event)
        before = time.monotonic()
        ready = poll.poll(max(0, self._patience) * 1000)
        self._patience -= time.monotonic() - before
        self.given_up = not ready
        return bool(ready)


class Worker(ThreadWorker):  # type: ignore[misc]
    """The worker that gunicorn.conf.py names. Without TLS, which ends at the proxy."""

    @classmethod
    def check_config(cls, cfg: Any, log: Any) -> None:
        """Refuse what this worker cannot do, before anything starts."""
        if cfg.is_ssl:
            raise SystemExit("TLS ends at a proxy: start gunicorn without a certificate.")
        super().check_config(cfg, log)

    def enqueue_req(self, conn: Any) -> None:
        """Hand a connection with a request to a thread; let a silent new one wait without."""
        if conn.data_ready:
            super().enqueue_req(conn)
            return
        conn.sock = ClientSocket(conn.sock)
        conn.timeout = time.monotonic() + PATIENCE
        self.pending_conns.append(conn)
        readable = partial(self.on_pending_socket_readable, conn)
        self.poller.register(conn.sock, EVENT_READ, readable)

    def handle(self, conn: Any) -> Any:
        """Answer one request, in a thread. Returns whether the connection stays open."""
        conn.sock.begin()
        if super().handle(conn) and not conn.sock.given_up:
            return True
        conn.sock.linger()
        return False

    def handle_error(self, req: Any, client: ClientSocket, addr: Any, exc: Exception) -> None:
        """Answer what cannot be read as a request, or a fault below the application."""
        error: errors.ApiError
        if isinstance(exc, unread.ParseException) and not isinstance(exc, _OUR_FAULT):
            error = errors.InvalidRequest("The request is not valid.")
            status, level, trace = _STATUSES.get(type(exc), error.status), logging.WARNING, None
        else:
            error = errors.InternalError()
            status, level, trace = error.status, logging.ERROR, exc
        request_id = new_request_id()
        fields = {
            "kind": type(exc).__name__,  # its words would repeat what the client sent
            "status": status,
            "peer": addr[0] if addr else "-",
            "request": request_id,
        }
        _log.log(level, "not a request", exc_info=trace, extra={"fields": fields})

        response = render(error, headers.defaults(self.wsgi.extensions["settings"]))
        response.status_code = status
        response.date = clock.utcnow()
        response.headers["Connection"] = "close"
        response.headers["X-Request-ID"] = request_id
        lines = [f"HTTP/1.1 {response.status}"]
        lines += [f"{name}: {value}" for name, value in response.headers]
        head = "\r\n".join([*lines, "", ""])
        with suppress(OSError):  # the client has gone
            client.sendall(head.encode("latin-1") + response.get_data())
