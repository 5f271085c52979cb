"""Real SMTP servers on this machine, with certificates of an authority made for the test."""

import asyncio
import ssl
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from email import message_from_bytes, policy
from email.message import EmailMessage

import pytest
import trustme
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

from core import smtp
from extensions import components

PATIENCE = 20  # seconds; only a hang takes so long


@dataclass
class Postbox:
    """A server's memory, and what it answers. It is aiosmtpd's handler."""

    mails: list[EmailMessage] = field(default_factory=list)
    envelopes: list[tuple[str, list[str]]] = field(default_factory=list)
    greetings: list[str] = field(default_factory=list)
    logins: list[tuple[bytes, bytes]] = field(default_factory=list)
    mail_commands: int = 0
    in_tls: list[bool] = field(default_factory=list)
    # Answers to come, before those that mean yes.
    to_sender: deque[str] = field(default_factory=deque)
    to_recipient: deque[str] = field(default_factory=deque)
    to_data: deque[str] = field(default_factory=deque)
    drops: int = 0
    delay: float = 0.0  # seconds before it takes a mail
    right_login: tuple[bytes, bytes] = (b"post", b"p@ss word")
    arrived: threading.Condition = field(default_factory=threading.Condition)

    def wait_for(self, count):
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.mails) >= count, PATIENCE)
        return self.mails

    def login(self, server, session, envelope, mechanism, data):
        self.logins.append((data.login, data.password))
        right = (data.login, data.password) == self.right_login
        return AuthResult(success=right, handled=False)

    async def handle_MAIL(self, server, session, envelope, address, options):
        self.mail_commands += 1
        if self.to_sender:
            return self.to_sender.popleft()
        envelope.mail_from = address
        return "250 OK"

    async def handle_RCPT(self, server, session, envelope, address, options):
        if self.to_recipient:
            return self.to_recipient.popleft()
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        await asyncio.sleep(self.delay)
        if self.drops:
            self.drops -= 1
            server.transport.abort()
            return "250 never said"
        if self.to_data:
            return self.to_data.popleft()
        mail = message_from_bytes(envelope.content, policy=policy.default)
        with self.arrived:
            self.in_tls.append(server.transport.get_extra_info("ssl_object") is not None)
            self.envelopes.append((envelope.mail_from, envelope.rcpt_tos))
            self.greetings.append(session.host_name)
            self.mails.append(mail)
            self.arrived.notify_all()
        return "250 OK"


class _Server(Controller):
    def _trigger_server(self):
        # Port 0 was asked for; this is the one that the system gave.
        self.port = self.server.sockets[0].getsockname()[1]
        super()._trigger_server()


@dataclass
class Running:
    """A server that answers, and its Postbox."""

    port: int
    box: Postbox
    stop: Callable[[], None]

    def at(self, *, host="localhost", tls=False, login=False):
        user, password = ("post", "p@ss word") if login else ("", "")
        return smtp.MailServer(host, self.port, tls, user, password)


@pytest.fixture
def authority(monkeypatch, tmp_path):
    """A certificate authority that this machine trusts."""
    made = trustme.CA()
    made.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    return made


@pytest.fixture
def certify(authority):
    """Return what a server needs for TLS; its certificate is for `host`."""

    def issue(host="localhost", by=authority):
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        by.issue_cert(host).configure_cert(context)
        return context

    return issue


@pytest.fixture
def serve():
    running = []

    def start(*, smtps=None, **options):
        box = Postbox()
        server = _Server(
            box,
            hostname="127.0.0.1",
            port=0,
            ssl_context=smtps,
            authenticator=box.login,
            # Login is offered in clear too, so that a client that would use it is seen to.
            auth_require_tls=False,
            ready_timeout=PATIENCE,
            **options,
        )
        server.start()
        running.append(server)
        return Running(server.port, box, server.stop)

    yield start
    for server in running:
        if server.loop.is_running():
            server.stop(no_assert=True)


@pytest.fixture
def use_server(app):
    """Give the application another MAIL_URL."""

    def use(server):
        components(app).settings = replace(components(app).settings, mail_url=server)

    return use


@pytest.fixture
def server(serve, use_server):
    """A server that MAIL_URL names."""
    running = serve()
    use_server(running.at())
    return running
