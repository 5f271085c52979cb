"""Sends e-mail over SMTP (RFC 5321).

A failure is permanent for this e-mail (MailRefused), temporary for it (MailDeferred), or the
server cannot be used at all (ServerDown). Their texts are logged, so they never contain an e-mail
address, the server's own words or a secret.
"""

import smtplib
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.message import EmailMessage

TIMEOUT = 10.0  # seconds to connect, and for each response of the server

# 5xx responses that are not about the e-mail: bad order of commands, a host that accepts no mail,
# and all about authentication (RFC 5321, 7504, 4954).
_ABOUT_US = frozenset({503, 521, 530, 534, 535, 538})


class MailRefused(Exception):
    """The server will never accept this e-mail."""


class MailDeferred(Exception):
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


def send(server: MailServer, message: EmailMessage) -> None:
    """Return when the server has accepted the message. Raises MailRefused or MailDeferred."""
    sender = message["From"].addresses[0].addr_spec
    recipient = message["To"].addresses[0].addr_spec
    connected = False
    try:
        with _conversation(server) as smtp:
            connected = True
            smtp.sendmail(sender, [recipient], message.as_bytes())
    except smtplib.SMTPRecipientsRefused as error:  # for 4xx responses too
        ((code, _),) = error.recipients.values()
        raise _verdict("recipient", code) from None
    except smtplib.SMTPDataError as error:
        raise _verdict("content", error.smtp_code) from None
    except OSError as error:  # includes every other SMTPException
        failure = MailDeferred if connected else ServerDown
        raise failure(_describe(error)) from None


@contextmanager
def _conversation(server: MailServer) -> Iterator[smtplib.SMTP]:
    if not server.implicit_tls:
        smtp = smtplib.SMTP(server.host, server.port, timeout=TIMEOUT)
    else:  # TLS from the first byte (RFC 8314)
        context = ssl.create_default_context()
        smtp = smtplib.SMTP_SSL(server.host, server.port, timeout=TIMEOUT, context=context)
    try:
        smtp.ehlo_or_helo_if_needed()
        if not server.implicit_tls:
            _start_tls(smtp, server)
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


def _verdict(what: str, code: int) -> Exception:
    reason = f"{what} refused with {code}"
    if 500 <= code <= 599 and code not in _ABOUT_US:
        return MailRefused(reason)
    return MailDeferred(reason)


def _describe(error: OSError) -> str:
    name = type(error).__name__
    if isinstance(error, smtplib.SMTPResponseException):
        return f"{name} {error.smtp_code}"  # the server's words may quote an e-mail address
    return f"{name}: {error}"
