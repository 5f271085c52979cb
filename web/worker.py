"""gunicorn's threaded worker, with a bound on how long a client may keep it waiting.

gunicorn itself waits for ever for the rest of a request and for a client that does not take its
answer; a few hundred such connections would hold every thread. And it answers what it cannot read
as a request with a page of its own.
"""

import ctypes
import errno
import logging
import os
import select
import socket
import struct
import time
import weakref
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
# moves gives a part of them back, at the slowest rate that is accepted, in bytes a second; but no
# more than so many seconds in all, or a client could stretch a request for ever.
PATIENCE = 10
SLOWEST = 32 * 1024
LONGEST = 180
# Seconds and bytes for which a connection stays open after its last answer; and the seconds of
# patience with a client that has sent half of a request when the worker is told to stop.
LINGER = 2
LINGER_BYTES = 64 * 1024

_log = logging.getLogger("accounts.errors")

# glibc gives threads up to eight heaps for each core, and what is freed in one is of no use to the
# others. Python's threads take turns anyway: two are enough, and save a tenth of the memory.
_M_ARENA_MAX, _ARENAS = -8, 2  # the name as in malloc.h

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

    __slots__ = ("_credit", "_patience", "_restless", "given_up")

    def __init__(self, accepted: socket.socket) -> None:
        super().__init__(accepted.family, accepted.type, accepted.proto, accepted.detach())
        super().setblocking(False)
        self.given_up = False
        self._restless = float(PATIENCE)
        self.begin()

    def setblocking(self, flag: bool, /) -> None:
        """Stay as it is: the methods below wait by themselves, whatever gunicorn asks for."""

    def begin(self) -> None:
        """Start the time of the next request."""
        self._patience = self._restless
        self._credit = float(LONGEST - PATIENCE)

    def hurry(self) -> None:
        """Wait no more than a moment for the client from now on, unless it sends or takes."""
        self._restless = float(LINGER)
        self._patience = min(self._patience, self._restless)

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
                continue
            self._moved(len(data))
            return data
        return b""

    def send(self, data: Any, flags: int = 0, /) -> int:
        """Send a part of the data. Raises BrokenPipeError when the client takes nothing."""
        return self._give(lambda: socket.socket.send(self, data, flags))

    def sendall(self, data: Any, flags: int = 0, /) -> None:
        """Send all of the data. Raises BrokenPipeError when the client takes too little."""
        try:
            sent = super().send(data, flags)  # mostly, that is all
        except BlockingIOError:
            sent = 0
        self._moved(sent)
        rest = memoryview(data)[sent:]
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
            self._patience, self._credit, left = float(LINGER), 0.0, LINGER_BYTES
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
        if self._patience < self._restless:
            back = min(count / SLOWEST, self._credit, self._restless - self._patience)
            self._patience, self._credit = self._patience + back, self._credit - back

    def _wait(self, event: int) -> bool:
        """Return whether something can move before the time is up; give up when not."""
        if self.given_up:
            return False
        poll = select.poll()
        poll.register(self, event)
        while self._patience > 0:
            before = time.monotonic()
            # Looked up now and then, since another thread may take patience away.
            if poll.poll(min(self._patience, 0.5) * 1000):
                self._patience -= time.monotonic() - before
                return True
            self._patience -= time.monotonic() - before
        self.given_up = True
        return False


class Worker(ThreadWorker):  # type: ignore[misc]
    """The worker that gunicorn.conf.py names. Without TLS, which ends at the proxy."""

    @classmethod
    def check_config(cls, cfg: Any, log: Any) -> None:
        """Refuse what this worker cannot do, before anything starts."""
        if cfg.is_ssl:
            raise SystemExit("TLS ends at a proxy: start gunicorn without a certificate.")
        super().check_config(cfg, log)

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._open: weakref.WeakSet[ClientSocket] = weakref.WeakSet()

    def init_process(self) -> None:
        """Begin, in a process of its own."""
        getattr(ctypes.CDLL(None), "mallopt", lambda option, value: None)(_M_ARENA_MAX, _ARENAS)
        super().init_process()

    def run(self) -> None:
        """Serve until told to stop, and then so long as the requests at hand take."""
        super().run()
        # The process ends when all threads have. Whoever still reads gets no more to read.
        for sock in list(self._open):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _cap_keepalive(self, deadline: float) -> None:
        """Told to stop: keep nobody longer for clients that have sent nothing, or half of it."""
        super()._cap_keepalive(deadline)
        for conn in self.pending_conns:
            conn.timeout = min(conn.timeout, deadline)
        for sock in list(self._open):
            sock.hurry()

    def enqueue_req(self, conn: Any) -> None:
        """Hand a connection with a request to a thread; let a silent new one wait without."""
        if conn.data_ready:
            super().enqueue_req(conn)
            return
        conn.sock = ClientSocket(conn.sock)
        self._open.add(conn.sock)
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

    def handle_request(self, req: Any, conn: Any) -> Any:
        """Answer a request that was read; say that the connection closes, where it must.

        gunicorn finds out only after the answer that the rest of a body cannot be read, or is too
        long; a proxy that was told otherwise would send the next client's request into the void.
        """
        usual = req.should_close
        req.should_close = lambda: conn.sock.given_up or _unread(req.body) or usual()
        return super().handle_request(req, conn)

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


def _unread(body: Any) -> bool:
    """Whether there is a rest of a body that nobody has read, or could read."""
    reader = body.reader
    rest = getattr(reader, "length", 0) or getattr(reader, "parser", None)
    return bool(rest or getattr(body, "failed", False))
