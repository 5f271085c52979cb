"""Mail over SMTP: the server's URL and the conversation (RFC 5321).

A failure is one of three: the mail itself is refused for good (MailRefused), this mail must wait
(MailDeferred), or the server cannot be used at all at the moment (ServerDown). What they say goes
to the log, so it never holds an address, a server's own words or a secret.
"""

import re
import smtplib
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email import policy
from email.message import EmailMessage
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote, urlsplit

# Seconds that a server may be silent when it is connected to or asked.
TIMEOUT = 10.0
# Seconds for one mail as a whole, however busy the server looks: opening the connection, or asking
# whether it still stands, until the answer to DATA. Shorter than the outbox's lease, so that a slow
# delivery is over before another worker may take the mail for lost.
DELIVERY_TIMEOUT = 20.0
GOODBYE_TIMEOUT = 2.0

DEFAULT_PORTS = {"smtp": 587, "smtps": 465}
_URL_PROBLEM = "must be smtp://user:password@host:587, smtps://… or console:"


# 5xx answers that are about us and not about the mail, to whatever command they come: bad order of
# commands, a host that takes no mail, and everything about logging in (RFC 5321, 7504, 4954).
_ABOUT_US = frozenset({503, 521, 530, 534, 535, 538})
# "Service not available, closing transmission channel": said of the server, never of one mail.
_CLOSING = 421

# Headers stay on one line each (RFC 5322 allows 998 characters): breaking long ones is where the
# email package errs and changes between versions of Python.
_ON_THE_WIRE = policy.SMTP.clone(max_line_length=998, cte_type="7bit")


class MailRefused(Exception):
    """The server will never take this mail."""


class MailDeferred(Exception):
    """The server does not take this mail now."""


class ServerDown(MailDeferred):
    """The server cannot be used now, so other mails would fare no better.

    `connecting` says that not even the conversation could be opened.
    """

    def __init__(self, reason: str, *, connecting: bool) -> None:
        super().__init__(reason)
        self.connecting = connecting


@dataclass(frozen=True)
class MailServer:
    """Where mails are handed in; with a user there is always a password."""

    host: str
    port: int
    implicit_tls: bool
    user: str | None = None
    password: str | None = field(default=None, repr=False)


def parse_mail_url(raw: str) -> MailServer | None:
    """Return the server that `smtp://` or `smtps://` names, or None for `console:`.

    User and password are percent-decoded. Raises ValueError, whose text goes on after "MAIL_URL"
    and never repeats the value.
    """
    if raw.lower() == "console:":
        return None
    try:
        parts = urlsplit(raw)
        scheme, port = parts.scheme, parts.port
        user = None if parts.username is None else unquote(parts.username, errors="strict")
        password = None if parts.password is None else unquote(parts.password, errors="strict")
    except ValueError:  # a broken port, IPv6 address or UTF-8; the error itself would quote it
        raise ValueError(_URL_PROBLEM) from None
    if (
        scheme not in DEFAULT_PORTS
        or not re.fullmatch(r"[!-~]+", raw)
        or not re.fullmatch(r"[a-z0-9_.:-]+", parts.hostname or "")
        or port == 0
        or parts.path not in ("", "/")
        or "?" in raw
        or "#" in raw
        or bool(user) != bool(password)
    ):
        raise ValueError(_URL_PROBLEM)
    # smtplib can send nothing else, and would fail at the first mail instead of at the start.
    if not re.fullmatch(r"[ -~]*", f"{user or ''}{password or ''}"):
        raise ValueError("must have a user and a password in printable ASCII")
    return MailServer(
        host=parts.hostname or "",
        port=port or DEFAULT_PORTS[scheme],
        implicit_tls=scheme == "smtps",
        user=user or None,
        password=password or None,
    )


class Connection:
    """A conversation with the server, opened by the first mail and used for those after it."""

    def __init__(self, server: MailServer) -> None:
        self._server = server
        self._smtp: _Client | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._smtp is not None:
            with _Deadline(GOODBYE_TIMEOUT) as deadline:
                try:
                    self._smtp.begin(deadline)
                    self._smtp.quit()
                except OSError:  # among them every SMTPException
                    self._smtp.close()

    def send(self, message: EmailMessage) -> None:
        """Hand in one message that `core.message` built; returns when the server has taken it.

        Raises MailRefused, MailDeferred or ServerDown, the last one also after DELIVERY_TIMEOUT.
        Only a slow look-up of the server's name can make it later, and then nothing was sent.
        """
        sender = message["From"].addresses[0].addr_spec
        recipient = message["To"].addresses[0].addr_spec
        raw = message.as_bytes(policy=_ON_THE_WIRE)
        with _Deadline(DELIVERY_TIMEOUT) as deadline:
            smtp = self._ready(deadline)
            try:
                with _conversation():
                    smtp.sendmail(sender, [recipient], raw)
            except ServerDown:
                self._drop()
                raise

    def _ready(self, deadline: "_Deadline") -> "_Client":
        if self._smtp is not None:
            # Servers end conversations that are idle, or that brought many mails. Asking first
            # keeps that from looking like an outage.
            try:
                self._smtp.begin(deadline)
                if self._smtp.noop()[0] == 250:
                    return self._smtp
            except OSError:
                pass
            self._drop()
        try:
            self._smtp = _connect(self._server, deadline)
        except (OSError, ValueError) as error:
            raise ServerDown(_describe(error), connecting=True) from None
        return self._smtp

    def _drop(self) -> None:
        if self._smtp is not None:
            self._smtp.close()
            self._smtp = None


class _Deadline:
    """An end to the time for one mail, whatever the conversation waits for when it comes.

    A socket's time-out begins anew with every byte, and a server that sends one now and then would
    hold us for ever. So a timer shuts the line down, which wakes whoever reads from it or writes.
    """

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self._over = False
        # Duplicates that are closed only when the timer is done: TLS replaces the socket itself,
        # smtplib closes it, and the number of a closed one may soon be another connection's.
        self._lines: list[socket.socket] = []
        self._timer = threading.Timer(seconds, self._shut_down)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._timer.cancel()
        self._timer.join()
        for line in self._lines:
            line.close()

    def watch(self, line: socket.socket) -> None:
        """Shut this one down at the end. Raises TimeoutError when that has come."""
        self._lines.append(socket.fromfd(line.fileno(), line.family, line.type))
        self.check()

    def check(self) -> float:
        """Return the seconds that are left, and raise TimeoutError when none is."""
        left = self._end - time.monotonic()
        if self._over or left <= 0:
            raise TimeoutError("the server is too slow")
        return left

    def _shut_down(self) -> None:
        self._over = True  # before the lines are read, for a line that comes at this moment
        for line in self._lines:
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)


class _Client(smtplib.SMTP):
    """smtplib's client, with a deadline for the whole mail and not only for each silence."""

    def __init__(self, server: MailServer, deadline: _Deadline) -> None:
        self._deadline = deadline
        # TLS from the first byte (RFC 8314).
        self._tls = ssl.create_default_context() if server.implicit_tls else None
        super().__init__(server.host, server.port, timeout=TIMEOUT)

    def begin(self, deadline: _Deadline) -> None:
        """Give everything until the next call of this method so much time."""
        self._deadline = deadline
        if self.sock is not None:
            deadline.watch(self.sock)

    def connect(
        self, host: str = "localhost", port: int = 0, source_address: Any = None
    ) -> tuple[int, bytes]:
        try:
            self.sock = self._dial(host, port)
            self._deadline.watch(self.sock)
            if self._tls:
                self.sock = self._tls.wrap_socket(self.sock, server_hostname=host)
            return self.getreply()
        except BaseException:
            self.close()
            raise

    def _dial(self, host: str, port: int) -> socket.socket:
        # Not one call for the name, which would give each of its addresses all the time again.
        failure: OSError | None = None
        for *_, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            patience = min(self._deadline.check(), TIMEOUT)
            try:
                return socket.create_connection((str(address[0]), port), patience)
            except OSError as error:
                failure = failure or error
        raise failure or OSError("the server has no address")

    def getreply(self) -> tuple[int, bytes]:
        try:
            answer = super().getreply()
        except OSError:
            self._deadline.check()
            raise
        # At the deadline the answer breaks off, and half of one may read like another.
        self._deadline.check()
        return answer

    def data(self, msg: Any) -> tuple[int, bytes]:
        # A server that checks for spam may think for long before it takes a mail. Giving up then
        # would send the mail twice (RFC 5321, 4.5.3.2.6), so it gets all the time that is left.
        if self.sock is not None:
            self.sock.settimeout(DELIVERY_TIMEOUT)
        try:
            return super().data(msg)
        finally:
            if self.sock is not None:
                self.sock.settimeout(TIMEOUT)


def _connect(server: MailServer, deadline: _Deadline) -> _Client:
    smtp = _Client(server, deadline)
    try:
        smtp.ehlo_or_helo_if_needed()
        if not server.implicit_tls:
            _start_tls(smtp, server)
        if server.user and server.password:
            smtp.login(server.user, server.password)
    except BaseException:
        smtp.close()
        raise
    return smtp


def _start_tls(smtp: smtplib.SMTP, server: MailServer) -> None:
    if server.password:
        # Raises when the server offers no STARTTLS or another's certificate: the password stays
        # here. What the server said before TLS is forgotten, and AUTH must be offered again.
        smtp.starttls(context=ssl.create_default_context())
    elif smtp.has_extn("starttls"):
        # Opportunistic security (RFC 7435): without a password nothing says who the server must
        # be, and an attacker on the way could strip the offer of TLS anyway. Checking the
        # certificate would only lose the mails of relays that signed their own.
        unverified = ssl.create_default_context()
        unverified.check_hostname = False
        unverified.verify_mode = ssl.CERT_NONE
        smtp.starttls(context=unverified)


@contextmanager
def _conversation() -> Iterator[None]:
    """Sort smtplib's exceptions during one mail into ours."""
    try:
        yield
    except smtplib.SMTPRecipientsRefused as error:
        # It stands for 4xx answers too, and holds the one recipient's.
        ((code, answer),) = error.recipients.values()
        raise _verdict("recipient", code, answer) from None
    except smtplib.SMTPDataError as error:
        raise _verdict("content", error.smtp_code, error.smtp_error) from None
    except OSError as error:  # refused senders, broken conversations, time-outs
        raise ServerDown(_describe(error), connecting=False) from None


def _verdict(what: str, code: int, answer: bytes | str) -> Exception:
    reason = f"{what} refused with {_codes(code, answer)}"
    if code == _CLOSING:
        return ServerDown(reason, connecting=False)
    if 500 <= code <= 599 and code not in _ABOUT_US:
        return MailRefused(reason)
    return MailDeferred(reason)


def _codes(code: int, answer: bytes | str) -> str:
    """Return the numbers of an answer (RFC 3463); its words may quote the address."""
    raw = answer if isinstance(answer, bytes) else answer.encode(errors="replace")
    enhanced = re.match(rb"[245]\.\d{1,3}\.\d{1,3}\b", raw)
    return f"{code} {enhanced[0].decode()}" if enhanced else str(code)


def _describe(error: Exception) -> str:
    name = type(error).__name__
    if isinstance(error, smtplib.SMTPResponseException):
        return f"{name} {_codes(error.smtp_code, error.smtp_error)}"
    return f"{name}: {error}" if isinstance(error, OSError) else name
