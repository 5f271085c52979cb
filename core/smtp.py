"""Sends e-mail over SMTP (RFC 5321).

A refusal is final (MailRefused) only if it is about this recipient alone: with an enhanced status
code (RFC 3463) of `_NO_MAILBOX`, or without any as a 550 to RCPT that says no more than that there
is no such user. All others, 5xx too, may be about us: our limits, account, sender, greeting or
relay (MailDeferred), or the server cannot be used at all (ServerDown).
"""

import re
import smtplib
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.message import EmailMessage

TIMEOUT = 10.0  # seconds to connect, and for each response of the server

# Where RFC 3463 has the enhanced code; qmail has it in brackets at the end.
_ENHANCED = re.compile(r"(?:^|\(#)([245]\.\d{1,3}\.\d{1,3})(?![.\d])")
# No such mailbox, no such domain, no address, moved, no mail for that domain, disabled.
_NO_MAILBOX = frozenset({"5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10", "5.2.1"})
_NO_USER = re.compile(r"(<[^<>]*>\W*)?(no such user|unknown user|user unknown)( here)?\W*", re.I)


class NotSent(Exception):
    """The server did not take the e-mail.

    The text is logged, so it never contains an e-mail address, the server's own words or a secret.
    `said` is what the server said, if anything, for somebody who looks for the fault.
    """

    def __init__(self, reason: str, said: str = "") -> None:
        super().__init__(reason)
        self.said = said


class MailRefused(NotSent):
    """The server will never accept this e-mail."""


class MailDeferred(NotSent):
    """The server does not accept this e-mail now."""


class ServerDown(MailDeferred):
    """The server is unreachable or refuses the login, so no e-mail can be sent now."""


@dataclass(frozen=True)
class MailServer:
    """Where e-mails are submitted. User and password are both set, or neither is."""

    host: str
    port: int
    implicit_tls: bool
    user: str = ""
    password: str = field(default="", repr=False)


def send(server: MailServer, message: EmailMessage, own_name: str) -> str:
    """Send an e-mail as the host `own_name`; return what the server said when it accepted it.

    Raises MailRefused or MailDeferred.
    """
    connected = False
    try:
        with _conversation(server, own_name) as smtp:
            connected = True
            _accepted("sender", *smtp.mail(message["From"].addresses[0].addr_spec))
            _accepted("recipient", *smtp.rcpt(message["To"].addresses[0].addr_spec))
            return _accepted("content", *smtp.data(message.as_bytes()))
    except (OSError, ValueError) as error:  # of smtplib; of a challenge that is no base64
        raise _failure(error, connected) from None


@contextmanager
def _conversation(server: MailServer, own_name: str) -> Iterator[smtplib.SMTP]:
    # Without a name of our own, smtplib would greet by what DNS has for this machine, or by an IP.
    where = server.host, server.port, own_name
    if not server.implicit_tls:
        smtp = smtplib.SMTP(*where, timeout=TIMEOUT)
    else:  # TLS from the first byte (RFC 8314)
        smtp = smtplib.SMTP_SSL(*where, timeout=TIMEOUT, context=ssl.create_default_context())
    try:
        smtp.ehlo_or_helo_if_needed()
        if not server.implicit_tls:
            _start_tls(smtp, server)
        smtp.ehlo_or_helo_if_needed()
        if server.user:
            smtp.login(server.user, server.password)
        yield smtp
    finally:
        # The e-mail was accepted, even if the server does not answer QUIT.
        with suppress(OSError):
            smtp.quit()


def _start_tls(smtp: smtplib.SMTP, server: MailServer) -> None:
    if server.password:
        # Raises if the server offers none or its certificate is not valid for this host.
        smtp.starttls(context=ssl.create_default_context())
    elif smtp.has_extn("starttls"):
        # Opportunistic security (RFC 7435): an attacker could remove the offer of STARTTLS anyway,
        # so verifying the certificate would only exclude relays with a self-signed one.
        unverified = ssl.create_default_context()
        unverified.check_hostname = False
        unverified.verify_mode = ssl.CERT_NONE
        smtp.starttls(context=unverified)


def _accepted(what: str, code: int, said: bytes) -> str:
    text, enhanced = _read(said)
    if 200 <= code <= 299:
        return f"{code} {text}"
    if enhanced:
        is_final = enhanced in _NO_MAILBOX and what != "sender"
    else:
        is_final = code == 550 and what == "recipient" and _NO_USER.fullmatch(text) is not None
    failure = MailRefused if is_final and 500 <= code <= 599 else MailDeferred
    raise failure(f"{what} refused with {code} {enhanced}".rstrip(), f"{code} {text}")


def _failure(error: OSError | ValueError, connected: bool) -> MailDeferred:
    failure, name = MailDeferred if connected else ServerDown, type(error).__name__
    if not isinstance(error, smtplib.SMTPResponseException):
        # After its first sentence, smtplib may quote the server.
        return failure(f"{name}: {error}".partition(". ")[0])
    text, enhanced = _read(error.smtp_error)
    # A server may repeat what it cannot read, such as the password.
    is_login = isinstance(error, smtplib.SMTPAuthenticationError)
    said = "" if is_login else f"{error.smtp_code} {text}"
    return failure(f"{name} {error.smtp_code} {enhanced}".rstrip(), said)


def _read(said: bytes | str) -> tuple[str, str]:
    """Return the text of a response in printable characters, and its enhanced code or ""."""
    text = said if isinstance(said, str) else said.decode("ascii", "replace")
    text = "".join(char if char.isprintable() else " " for char in text)
    found = _ENHANCED.search(text)
    return text, found[1] if found else ""
