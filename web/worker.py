"""gunicorn's threaded worker with a time limit for slow clients, and with errors in JSON."""

import logging
import socket
import time
from contextlib import suppress
from errno import ECONNRESET
from typing import Any

from gunicorn.http import errors as unread  # type: ignore[import-untyped]
from gunicorn.workers.gthread import ThreadWorker  # type: ignore[import-untyped]

import errors
from core import clock
from extensions import components
from web import headers
from web.error_handlers import NOT_VALID, render
from web.logs import request_id

# Seconds until the service gives up on a client: without a byte, and for one whole request.
SILENCE, LONGEST = 10, 120
# Seconds for what a client still sends after it was refused.
LINGER = 2
_log = logging.getLogger("accounts.errors")
# The statuses that gunicorn would send; any other request that cannot be read is a 400.
_STATUSES: dict[type[Exception], int] = {
    unread.LimitRequestLine: 414,
    unread.ExpectationFailed: 417,
    unread.LimitRequestHeaders: 431,
    unread.UnsupportedTransferCoding: 501,
}


class ClientSocket(socket.socket):
    """A connection that fails, as if the client had reset it, when the client is too slow."""

    until = 0.0  # on the monotonic clock; a response may take SILENCE longer

    def setblocking(self, flag: bool, /) -> None:
        """Wait for SILENCE seconds where gunicorn would wait without a limit."""
        with suppress(OSError):  # gunicorn closes again what `BoundedWorker.handle` has closed
            self.settimeout(SILENCE if flag else 0)

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        if time.monotonic() < self.until:
            with suppress(TimeoutError):
                return super().recv(size, flags)
            self.until = time.monotonic()  # do not wait again for the rest of a refused body
        raise ConnectionResetError(ECONNRESET, "The client sends too slowly.")

    def send(self, data: Any, flags: int = 0, /) -> int:
        if time.monotonic() < self.until + SILENCE:
            with suppress(TimeoutError):
                return super().send(data, flags)
        raise ConnectionResetError(ECONNRESET, "The client reads too slowly.")

    def sendall(self, data: Any, flags: int = 0, /) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[self.send(rest, flags) :]


def _has_unread(conn: Any) -> bool:
    """Return whether the client may still send a part of the request: to close the connection then
    could lose the response. Otherwise nothing is left to wait for.
    """
    conn.sock.until = 0.0  # reads what is there, and does not wait
    try:
        return bool(conn.parser.mesg.body.read(1))
    except Exception:  # more of the body is missing, or this was no request
        return True


class BoundedWorker(ThreadWorker):  # type: ignore[misc]
    def handle(self, conn: Any) -> Any:
        if not isinstance(sock := conn.sock, ClientSocket):
            conn.sock = ClientSocket(sock.family, sock.type, sock.proto, sock.detach())
            conn.data_ready = True  # or gunicorn keeps new silent connections for `keepalive`
        conn.sock.until = time.monotonic() + LONGEST
        if stays := super().handle(conn):
            return stays
        # gunicorn would wait for the client in the thread that accepts connections.
        is_unread = _has_unread(conn)
        conn.sock.until = time.monotonic() + LINGER
        if not is_unread:
            with suppress(OSError):  # what is left unread would end the connection with an error
                conn.sock.shutdown(socket.SHUT_WR)
                conn.sock.setblocking(False)
                conn.sock.recv(65536)
        return conn.close(graceful=is_unread)

    def handle_request(self, req: Any, conn: Any) -> Any:
        headers = dict(req.headers)
        if req.version == (1, 1) and "HOST" not in headers:  # RFC 9112, section 3.2
            refused: Exception = unread.InvalidHeader("HOST")
        elif headers.get("TRANSFER-ENCODING", "chunked").lower() != "chunked":
            refused = unread.UnsupportedTransferCoding("gunicorn does not decode it")
        else:
            return super().handle_request(req, conn)
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
