"""gunicorn's worker of this service: one thread answers and watches, others only while it waits.

docs/decisions.md says why it is not one of gunicorn's own, and what to look at in an upgrade.
"""

import logging
import math
import os
import selectors
import socket
import threading
import time
from collections import deque
from contextlib import suppress
from datetime import timedelta
from typing import Any

from gunicorn import http  # type: ignore[import-untyped]
from gunicorn.http import errors as unread  # type: ignore[import-untyped]
from gunicorn.http import wsgi
from gunicorn.workers.base import Worker  # type: ignore[import-untyped]

import errors
from core import clock, turns
from extensions import components
from web import clients, headers
from web.clients import Client
from web.error_handlers import NOT_VALID, render
from web.logs import request_id

# Seconds between two looks of the main thread at the state of the process, and for which a process
# that has accepted connections leaves the next ones to others.
TICK, GRACE = 0.1, 0.001
# Blocks of a body that are read after the response, so that the connection can stay open.
MOST_UNREAD = 8
_log = logging.getLogger("accounts.errors")
# The statuses that gunicorn would send; any other request that cannot be read is a 400.
_STATUSES: dict[type[Exception], int] = {
    unread.LimitRequestLine: 414,
    unread.ExpectationFailed: 417,
    unread.LimitRequestHeaders: 431,
    unread.UnsupportedTransferCoding: 501,
}


class TurnsWorker(Worker):  # type: ignore[misc]
    """A worker whose threads take turns (core/turns.py).

    The thread that has the turn answers the requests that are there, one after the other, and then
    waits for more itself: no request goes from one thread to another. While it waits for something
    else, another thread does the same. The main thread looks after the time limits of clients that
    are not being answered, and tells gunicorn that the process lives.
    """

    alive: bool

    def init_process(self) -> None:
        self._turns = turns.Turns(self._call_thread)
        # Connections with a request, and listeners with a connection. Only with the turn.
        self._ready: deque[Client | socket.socket] = deque()
        # The poller, the set of open connections, and their `closes_at` and `is_watched` change
        # under this lock: a thread that took too long for its turn works beside the next one.
        self._changes = threading.Lock()
        self._poller = selectors.DefaultSelector()
        self._clients: set[Client] = set()
        self._listens = False  # whether the poller knows the listeners
        self._pauses = False  # whether it does not because connections were just accepted
        # The locks of threads that wait to be called, and how many threads there are. Only where
        # the turn is passed on, or with the turn.
        self._parked: list[threading.Lock] = []
        self._started = 0
        # Whether a thread was called that has not had its turn yet, and whether one waits for
        # events: then no other is called for that.
        self._is_called = self._is_watching = False
        super().init_process()

    # The main thread

    def run(self) -> None:
        for listener in self.sockets:
            listener.setblocking(False)
        while self.alive and self.ppid == os.getppid():
            # Also again after a time in which a connection could not be accepted.
            self._listen(len(self._clients) < self.cfg.worker_connections)
            self._tick()
        self.alive = False
        self._listen(False)
        end = time.monotonic() + self.cfg.graceful_timeout
        soon = time.monotonic() + clients.LINGER  # a request may be on its way
        with self._changes:
            for client in self._clients:
                if client.closes_at < math.inf:
                    client.closes_at = min(client.closes_at, soon)
        self._tick()  # a thread may be about to accept
        while self._clients and time.monotonic() < end:
            self._tick()

    def _tick(self) -> None:
        self.notify()
        self._turns.take()  # so that no thread keeps it for long
        self._turns.give()  # this calls the first thread
        now = time.monotonic()
        with self._changes:
            late = [client for client in self._clients if client.closes_at <= now]
            for client in late:
                self._forget(client)
        for client in late:
            client.close(lingers=False)
        time.sleep(TICK)

    def _listen(self, wanted: bool) -> None:
        with self._changes:
            if wanted != self._listens:
                for listener in self.sockets:
                    if wanted:
                        self._poller.register(listener, selectors.EVENT_READ)
                    else:
                        self._poller.unregister(listener)
            self._listens = wanted

    # The other threads

    def _call_thread(self) -> None:
        """Let another thread work. If all of them wait, the first that is done goes on."""
        if self._is_called or (self._is_watching and not self._ready):
            return
        if self._parked:
            self._parked.pop().release()
        elif self._started < self.cfg.threads:
            try:
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
                while self._ready or not self._is_watching:
                    if not self._ready:
                        self._watch()
                    elif isinstance(first := self._ready.popleft(), Client):
                        self._answer(first)
                    else:
                        self._accept(first)
                    self._turns.renew()
                call = threading.Lock()
                call.acquire()
                self._parked.append(call)
                self._turns.give()
                call.acquire()
        except BaseException:
            self.alive = False  # gunicorn starts another process
            self.log.exception("A thread of the worker has failed.")

    def _watch(self) -> None:
        """Wait for requests and connections."""
        self._is_watching = True
        with turns.waiting():
            events = self._poller.select(GRACE if self._pauses else TICK)
        self._is_watching = False
        if self._pauses:
            self._pauses = False
            self._listen(self.alive)
        self._sort(events)

    def _sort(self, events: list[tuple[selectors.SelectorKey, int]]) -> None:
        """Remember what is ready. Listeners come last, so that the process accepts that has nothing
        else to do.
        """
        listeners = []
        with self._changes:
            for key, _ in events:
                client: Any = key.fileobj
                if not isinstance(client, Client):
                    listeners.append(client)
                elif client.closes_at < math.inf:
                    client.closes_at = math.inf
                    self._ready.append(client)
                elif client.is_watched:  # it sends more while it is being answered
                    self._poller.unregister(client)
                    client.is_watched = False
        self._ready.extend(listeners)

    def _accept(self, listener: socket.socket) -> None:
        """Accept a connection, of many at once an eighth of what is open; then pause."""
        room = self.alive * (self.cfg.worker_connections - len(self._clients))
        listens = room > 0
        try:
            for _ in range(min(room, 1 + len(self._clients) // 8)):
                accepted, address = listener.accept()
                listens, self._pauses = False, True
                client = Client(accepted, address, listener.getsockname())
                client.parser = http.get_parser(self.cfg, client, address)
                self._keep(client, clients.SILENCE)
        except (BlockingIOError, ConnectionAbortedError):  # there are no more
            pass
        except OSError as error:  # such as no file that is free: until the main thread's next look
            listens = self._pauses = False
            self.log.error("A connection cannot be accepted: %s", error)
        if not listens:
            self._listen(False)

    def _keep(self, client: Client, seconds: float) -> None:
        """Wait for the next request of a client, without a thread."""
        if client.parser.unreader.buf.getvalue():  # it is here, read with the one before it
            self._sort(self._poller.select(0))  # others may have come meanwhile
            self._ready.append(client)
            return
        with self._changes:
            self._clients.add(client)
            client.closes_at = time.monotonic() + (seconds if self.alive else clients.LINGER)
            if not client.is_watched:
                self._poller.register(client, selectors.EVENT_READ)
                client.is_watched = True

    def _forget(self, client: Client) -> None:
        """Take a client out of the lists, so that it can be closed. Needs the lock."""
        self._clients.discard(client)
        client.closes_at = math.inf
        if client.is_watched:
            self._poller.unregister(client)
            client.is_watched = False

    # One request

    def _answer(self, client: Client) -> None:
        client.until, client.is_answered = time.monotonic() + clients.LONGEST, False
        request, stays = None, False
        try:
            request = next(client.parser)
            stays = self._respond(request, client)
            client.flush()
        except (StopIteration, unread.NoMoreData, ConnectionError, TimeoutError) as error:
            self.log.debug("The client has gone: %s", error)
        except Exception as error:
            self.handle_error(request, client, client.address, error)
        client.until = min(client.until, time.monotonic() + clients.LINGER * stays)
        is_whole = request is not None and _finish_body(request)
        if stays and is_whole:
            self._keep(client, self.cfg.keepalive)
            return
        with self._changes:
            self._forget(client)
        client.close(lingers=not is_whole)

    def _respond(self, request: Any, client: Client) -> bool:
        """Let the application answer; return whether the connection may stay open."""
        begin, places = time.monotonic(), self.cfg.worker_connections - self.cfg.threads
        response, environ = wsgi.create(request, client, client.address, client.server, self.cfg)
        environ["wsgi.multithread"] = True
        self.nr += 1
        if self.nr >= self.max_requests and self.alive:
            self.log.info("Autorestarting worker after current request.")
            self.alive = False
        # The last places are for new connections.
        stays = self.alive and self.cfg.keepalive and len(self._clients) <= places
        if not (stays and headers.can_go_on(environ)):
            response.force_close()
        blocks = self.wsgi(environ, response.start_response)
        try:
            for block in blocks:
                response.write(block)
            response.close()
        finally:
            if self.cfg.accesslog or self.cfg.statsd_host:
                seconds = timedelta(seconds=time.monotonic() - begin)
                self.log.access(response, request, environ, seconds)
            if hasattr(blocks, "close"):
                blocks.close()
        return not response.should_close()

    def handle_error(self, req: object, client: Client, addr: Any, exc: Exception) -> None:
        """Answer a request that cannot be read as HTTP, or an error outside the application."""
        ours = req is not None or not isinstance(exc, unread.ParseException)
        error = errors.InternalError() if ours else errors.InvalidRequest(NOT_VALID)
        status = _STATUSES.get(type(exc), error.status)
        # The exception's message is not logged, because it repeats what the client sent.
        fields = {"kind": type(exc).__name__, "status": status, "peer": addr[0] if addr else "-"}
        extra = {"fields": fields | {"request": (new_id := request_id({}))}}
        level = logging.ERROR if ours else logging.WARNING
        _log.log(level, "not a request", exc_info=exc if ours else None, extra=extra)
        if client.is_answered:
            return  # a second response would be read as a part of the first one
        response = render(error, headers.defaults(components(self.wsgi).settings))
        response.status_code, response.date = status, clock.utcnow()
        response.headers |= {"Connection": "close", "X-Request-ID": new_id}
        head = f"HTTP/1.1 {response.status}\r\n{response.headers}"
        client.sendall(head.encode("latin-1") + response.get_data())


def _finish_body(request: Any) -> bool:
    """Read what the application left of a body; return whether the next request can follow."""
    with suppress(Exception):  # the client is too slow or has gone, or this is no body
        for _ in range(MOST_UNREAD):
            if not request.body.read(clients.BLOCK):
                return not getattr(request.body, "failed", False)
    return False
