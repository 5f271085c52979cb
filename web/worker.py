"""gunicorn's threaded worker with a time limit for slow clients, and with errors in JSON."""

import logging
import mmap
import select
import selectors
import socket
import threading
import time
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from errno import ECONNRESET
from functools import cache, partial
from typing import Any

from gunicorn.http import errors as unread  # type: ignore[import-untyped]
from gunicorn.workers.gthread import ThreadWorker  # type: ignore[import-untyped]

import errors
from core import clock, turns
from extensions import components
from web import headers
from web.error_handlers import NOT_VALID, render
from web.logs import request_id

# Seconds until the service gives up on a client: without a byte, and for one whole request.
SILENCE, LONGEST = 10, 120
# Seconds for what a client still sends after it was refused.
LINGER = 2
# Bytes in which gunicorn sends a file.
BLOCK = 8192
# Seconds between two looks of the main thread at the state of the process.
TICK = 0.1
# Seconds that a process which has more connections than another leaves new ones to that, and
# between two looks at whether it still has more.
GRACE, LOOK = 0.005, 0.001
# How many connections each worker has, and one more: 0 is a place without a worker. All processes
# share this memory, because the master imports this module before it starts them.
_CONNECTIONS = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("H")[:256]
_log = logging.getLogger("accounts.errors")
# The statuses that gunicorn would send; any other request that cannot be read is a 400.
_STATUSES: dict[type[Exception], int] = {
    unread.LimitRequestLine: 414,
    unread.ExpectationFailed: 417,
    unread.LimitRequestHeaders: 431,
    unread.UnsupportedTransferCoding: 501,
}


class ClientSocket(socket.socket):
    """A connection that fails, as if the client had reset it, when the client is too slow.

    The thread gives its turn away while it waits for the client, and only then.
    """

    until = 0.0  # on the monotonic clock; a response may take SILENCE longer
    patience: float = 0  # seconds that one call waits

    def __init__(self, accepted: socket.socket) -> None:
        super().__init__(fileno=accepted.detach())
        super().settimeout(0)
        self._kept = b""

    def settimeout(self, value: float | None, /) -> None:
        self.patience = SILENCE if value is None else value

    def gettimeout(self) -> float:
        return self.patience

    def setblocking(self, flag: bool, /) -> None:
        """Wait for SILENCE seconds where gunicorn would wait without a limit."""
        self.patience = SILENCE if flag else 0

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        while time.monotonic() < self.until:
            with suppress(BlockingIOError):
                return super().recv(size, flags)
            if not self._is_ready(select.POLLIN):
                self.until = time.monotonic()  # do not wait again for the rest of a refused body
        raise ConnectionResetError(ECONNRESET, "The client sends too slowly.")

    def send(self, data: Any, flags: int = 0, /) -> int:
        while time.monotonic() < self.until + SILENCE:
            with suppress(BlockingIOError):
                return super().send(data, flags)
            if not self._is_ready(select.POLLOUT):
                break
        raise ConnectionResetError(ECONNRESET, "The client reads too slowly.")

    def sendall(self, data: Any, _flags: int = 0, /) -> None:
        """Keep what is small until `flush`, so that the head of a response goes with its body."""
        self._kept += data
        if len(self._kept) > BLOCK:
            self.flush()

    def flush(self) -> None:
        rest, self._kept = memoryview(self._kept), b""
        while rest:
            rest = rest[self.send(rest) :]

    def _is_ready(self, event: int) -> bool:
        poll = select.poll()
        poll.register(self, event)
        with turns.waiting():
            return bool(poll.poll(self.patience * 1000))


def _has_unread(conn: Any) -> bool:
    """Return whether the client may still send a part of the request: to close the connection then
    could lose the response. Otherwise nothing is left to wait for.
    """
    conn.sock.until = 0.0  # reads what is there, and does not wait
    try:
        return bool(conn.parser.mesg.body.read(1))
    except Exception:  # more of the body is missing, or this was no request
        return True


@cache
def _outcome(stays: bool) -> Future[bool]:
    """Return what gunicorn takes for the end of a request: whether the connection stays open."""
    outcome: Future[bool] = Future()
    outcome.set_result(stays)
    return outcome


def forget(worker: "BoundedWorker") -> None:
    """Show no connections of a process that has ended."""
    _CONNECTIONS[worker.age % len(_CONNECTIONS)] = 0


class BoundedWorker(ThreadWorker):  # type: ignore[misc]
    """gunicorn's worker, whose threads take turns.

    The thread that has the turn answers the requests that are there, one after the other, and then
    waits for more itself: no request goes from one thread to another. The main thread only looks
    after idle connections and its heartbeat.

    gunicorn documents `init_process` and `run` as what a worker overrides. The rest is not, and
    there is no other way to choose the thread that answers; tests/test_worker_turns.py runs all of
    it and fails when it changes.
    """

    def init_process(self) -> None:
        self._turns = turns.Turns(self._call_thread)
        self._ready: deque[Any] = deque()  # connections with a request
        self._idle: list[threading.Lock] = []
        self._started = 0
        self._is_called = self._is_watched = self._steps_back = False
        self._crowded_at = 0.0
        self._fault: BaseException | None = None
        # gunicorn touches its poller and its lists of connections in one thread.
        self._as_main_thread = threading.Lock()
        super().init_process()

    def run(self) -> None:
        self._show_connections()
        with self._as_main_thread:
            super().run()

    def wait_for_and_dispatch_events(self, timeout: float) -> None:
        """Leave the events of gunicorn's main loop to the other threads for a while."""
        self._show_connections()
        self._as_main_thread.release()
        try:
            time.sleep(min(timeout, TICK))
            self._turns.take()  # so that no thread keeps it for long
            self._turns.give()
        finally:
            self._as_main_thread.acquire()
        if self._fault:
            raise self._fault
        super().wait_for_and_dispatch_events(0)  # gunicorn closes next what was silent for too long
        if self._ready:
            self.method_queue.defer(lambda: None)  # ends the wait of a thread that watches

    def _call_thread(self) -> None:
        """Let another thread work. If all of them wait, the first that is done goes on."""
        if self._is_called or (self._is_watched and not self._ready):
            return
        if self._idle:
            self._idle.pop().release()
        elif self._started < self.cfg.threads:
            try:  # gunicorn's pool would take several times as long to call one
                threading.Thread(target=self._work, daemon=True).start()
            except RuntimeError:  # the system has none left
                return
            self._started += 1
        else:
            return
        self._is_called = True

    def _work(self) -> None:
        """Answer requests, and wait for more, whenever no other thread does."""
        try:
            while True:
                self._turns.take()
                self._is_called = False
                while self._ready or not self._is_watched:
                    if self._ready:
                        self._answer(self._ready.popleft())
                        self._turns.renew()
                    else:
                        self._watch()
                call = threading.Lock()
                call.acquire()
                self._idle.append(call)
                self._turns.give()
                call.acquire()
        except BaseException as fault:
            if self.alive:  # else the main thread has closed the poller
                self._fault = fault
                raise

    def _answer(self, conn: Any) -> None:
        outcome = _outcome(bool(self.handle(conn)))
        with self._as_main_thread:
            self.finish_request(conn, outcome)
            if self._ready and self._ready[-1] is conn:  # pipelined: others may have come meanwhile
                super().wait_for_and_dispatch_events(0)

    def _watch(self) -> None:
        self._is_watched = True
        with turns.waiting():
            events = self.poller.select(LOOK if self._steps_back else TICK)
        self._is_watched = False
        with self._as_main_thread:
            if self._steps_back and self.alive:
                self.set_accept_enabled(True)
            self._steps_back = False
            registered = self.poller.get_map()
            for key, _ in events:
                if registered.get(key.fd) is key:  # the main thread has not closed it meanwhile
                    key.data(key.fileobj)

    def _show_connections(self) -> None:
        _CONNECTIONS[self.age % len(_CONNECTIONS)] = (self.nr_conns + 1) * self.alive

    def accept(self, listener: socket.socket) -> None:
        """Accept a connection, unless a process that has fewer does so soon."""
        now = time.monotonic()
        if self.nr_conns <= min(filter(None, _CONNECTIONS), default=self.nr_conns):
            self._crowded_at = 0.0
        elif now > self._crowded_at + 20 * GRACE:  # or the other process is stopped, or too busy
            self._crowded_at = now
        self._steps_back = now < self._crowded_at + GRACE
        if self._steps_back or self.nr_conns >= self.worker_connections:
            self.set_accept_enabled(False)
            return
        try:
            super().accept(listener)
        except OSError as error:  # such as no file that is free
            self.log.error("A connection cannot be accepted: %s", error)
            self.set_accept_enabled(False)  # until the main thread's next look
        self._show_connections()

    def enqueue_req(self, conn: Any) -> None:
        """Answer soon; a new connection first waits for its first byte, without a thread."""
        if conn.initialized or conn.data_ready:
            self._ready.append(conn)
            return
        conn.sock = ClientSocket(conn.sock)
        conn.timeout = time.monotonic() + SILENCE
        self.pending_conns.append(conn)
        readable = partial(self.on_pending_socket_readable, conn)
        self.poller.register(conn.sock, selectors.EVENT_READ, readable)

    def handle(self, conn: Any) -> Any:
        conn.sock.until = time.monotonic() + LONGEST
        if stays := super().handle(conn):
            return stays
        with suppress(OSError):  # an error that no application could answer, to who may be gone
            conn.sock.flush()
        # gunicorn would wait for the client in the thread that accepts connections.
        is_unread = _has_unread(conn)
        conn.sock.until = time.monotonic() + LINGER
        if not is_unread:
            with suppress(OSError):  # what is left unread would end the connection with an error
                conn.sock.shutdown(socket.SHUT_WR)
                socket.socket.recv(conn.sock, 65536)
        return conn.close(graceful=is_unread)

    def handle_request(self, req: Any, conn: Any) -> Any:
        headers = dict(req.headers)
        if req.version == (1, 1) and "HOST" not in headers:  # RFC 9112, section 3.2
            refused: Exception = unread.InvalidHeader("HOST")
        elif headers.get("TRANSFER-ENCODING", "chunked").lower() != "chunked":
            refused = unread.UnsupportedTransferCoding("gunicorn does not decode it")
        else:
            stays = super().handle_request(req, conn)
            conn.sock.flush()
            return stays
        self.handle_error(None, conn.sock, conn.client, refused)
        return False

    def handle_error(self, req: object, client: socket.socket, addr: Any, exc: Exception) -> None:
        """Answer a request that cannot be read as HTTP, or an error outside the application."""
        ours = req is not None or not isinstance(exc, unread.ParseException)
        error = errors.InternalError() if ours else errors.InvalidRequest(NOT_VALID)
        status = _STATUSES.get(type(exc), error.status)
        # The exception's message is not logged, because it repeats what the client sent.
        fields = {"kind": type(exc).__name__, "status": status, "peer": addr[0] if addr else "-"}
        extra = {"fields": fields | {"request": (new_id := request_id({}))}}
        level = logging.ERROR if ours else logging.WARNING
        _log.log(level, "not a request", exc_info=exc if ours else None, extra=extra)
        response = render(error, headers.defaults(components(self.wsgi).settings))
        response.status_code, response.date = status, clock.utcnow()
        response.headers |= {"Connection": "close", "X-Request-ID": new_id}
        head = f"HTTP/1.1 {response.status}\r\n{response.headers}"
        with suppress(OSError):  # the client hung up
            client.sendall(head.encode("latin-1") + response.get_data())
