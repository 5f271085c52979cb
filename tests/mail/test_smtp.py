"""Mail over SMTP: messages, TLS, passwords, and each kind of failure, with real servers."""

import contextlib
import re
import socket
import threading
from dataclasses import replace
from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.header import decode_header, make_header
from email.headerregistry import Address

import pytest
import trustme

from core import smtp
from core.addresses import parse_sender
from core.message import build
from core.templates import Mail

NOW = datetime(2026, 11, 20, 9, 31, tzinfo=UTC)
LOGIN = (b"post", b"p@ss word")


CONTENT = Mail(
    "Choose a new password",
    "Open https://accounts.example.org/#token=abc\nGrüße",
    "<p>Open <a href='https://accounts.example.org/#token=abc'>it</a>, Grüße</p>",
)
SENDER = Address("Accounts", "accounts", "example.org")


def a_mail(sender=SENDER, recipient="student@example.org", **changes):
    return build(CONTENT._replace(**changes), sender, recipient, "0199", NOW)


def send(server, mail=None):
    return smtp.send(server, mail or a_mail(), "accounts.example.org")


# The message


def test_both_bodies_and_the_headers_arrive(serve):
    server = serve()
    assert send(server.at()) == "250 OK"
    (mail,) = server.box.mails
    assert mail.get_content_type() == "multipart/alternative"
    assert [part.get_content_type() for part in mail.iter_parts()] == ["text/plain", "text/html"]
    assert mail.get_body(("plain",)).get_content().splitlines()[-1] == "Grüße"
    assert "Grüße" in mail.get_body(("html",)).get_content()
    assert mail["From"] == "Accounts <accounts@example.org>"
    assert mail["To"] == "student@example.org"
    assert mail["Subject"] == "Choose a new password"
    assert mail["Date"].datetime == NOW
    assert mail["Message-ID"] == "<0199@example.org>"
    assert mail["Auto-Submitted"] == "auto-generated"
    assert server.box.greetings == ["accounts.example.org"]
    assert server.box.envelopes == [("accounts@example.org", ["student@example.org"])]


@pytest.mark.parametrize(
    "recipient",
    [
        *("a@example.org\r\nBcc: b@example.org", "a@example.org\r", "a@example.org\x00"),
        *("a@example.org, b@example.org", "A <a@example.org>", '"a,b"@example.org'),
        *("a@example.org (b)", "=?utf-8?q?a=0d=0ab?=@example.org", "ä@example.org", ""),
    ],
)
def test_recipient_must_be_exactly_one_address(recipient):
    with pytest.raises(smtp.MailRefused, match="not exactly one plain address"):
        a_mail(recipient=recipient)


def test_longest_address_arrives_whole(serve):
    server = serve()
    longest = f"{'a' * 64}@{'.'.join(['b' * 61] * 3)}.org"
    send(server.at(), a_mail(recipient=longest))
    assert server.box.mails[0]["To"] == longest
    assert server.box.envelopes[0][1] == [longest]


HEADERS = ("From", "To", "Subject")
NAMES = [
    *("", "Accounts, Inc.", "Long words of ASCII " * 20 + "!", "a" * 300, "a  b"),
    "Städtische Käthe-Kollwitz-Schule für Mädchen und Jungen, Büro Überlingen",
    *(letter * 64 for letter in "ÉЖ漢🎓"),
    "=?utf-8?q?=0d=0aBcc:_b?=",
]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
@pytest.mark.parametrize("host", ["example.org", f"{'.'.join(['b' * 61] * 3)}.org"])
def test_lines_and_encoded_words_are_as_short_as_the_standards_demand(name, host):
    """RFC 5322 2.1.1, RFC 2045 6.7 (5), RFC 2047 2: readers show longer words undecoded."""
    sender, recipient = Address(name, "no-reply", host), f"{'a' * 64}@{host}"
    said = {"subject": f"Ihr Konto bei {name}".strip(), "text": f"{name} {'word ' * 90}"}
    raw = a_mail(sender=sender, recipient=recipient, **said).as_bytes()
    head, _, body = raw.partition(b"\r\n\r\n")
    assert max(map(len, body.split(b"\r\n"))) <= 76
    for line in head.split(b"\r\n"):
        words = re.findall(rb"=\?[^? ]+\?[qb]\?[^? ]*\?=", line)
        assert 1 < len(line.strip()) <= len(line) <= (76 if words else 998)
        assert max(map(len, words), default=0) <= 75
        assert len(line) <= 78 or b"@" in line  # an address cannot be broken
    mail = message_from_bytes(raw, policy=policy.compat32)
    assert len(mail.keys()) == 8
    assert mail["Message-ID"].strip() == f"<0199@{host}>"
    shown = [make_header(decode_header(mail[name].replace("\r\n", ""))) for name in HEADERS]
    sent_by = f"{name} <no-reply@{host}>" if name else f"no-reply@{host}"
    assert [str(each).replace('"', "") for each in shown] == [sent_by, recipient, said["subject"]]


@pytest.mark.parametrize(
    ("sender", "parts"),
    [
        ("a@example.org", ("", "a@example.org")),
        ("Grüße, Accounts <a@example.org>", ("Grüße, Accounts", "a@example.org")),
        ('"Accounts, Inc." <a@example.org>', ("Accounts, Inc.", "a@example.org")),
    ],
)
def test_sender_may_have_a_name(sender, parts, serve):
    server = serve()
    send(server.at(), a_mail(sender=parse_sender(sender)))
    (mailbox,) = server.box.mails[0]["From"].addresses
    assert (mailbox.display_name, mailbox.addr_spec) == parts
    assert server.box.envelopes[0][0] == parts[1]


@pytest.mark.parametrize(
    "sender",
    [
        *("accounts", "a@example.org, b@example.org", "A <a@example.org"),
        *("A\r\nBcc: b@example.org <a@example.org>", "=?utf-8?q?=0d=0aBcc:_b?= <a@example.org>"),
        *("A <a@example.org>, b@example.org", 'A \\"B <a@example.org>', "a@["),
    ],
)
def test_wrong_sender_is_refused(sender):
    with pytest.raises(ValueError, match="must be one address"):
        parse_sender(sender)


# The conversation


def test_starttls_is_used_where_offered_also_with_an_own_certificate(serve, certify):
    server = serve(tls_context=certify(by=trustme.CA()))
    send(server.at())
    assert server.box.in_tls == [True]


def test_password_is_sent_over_verified_starttls(serve, certify):
    server = serve(tls_context=certify())
    send(server.at(login=True))
    assert server.box.logins == [LOGIN]
    assert server.box.in_tls == [True]


def test_smtps_is_tls_from_the_first_byte(serve, certify):
    server = serve(smtps=certify())
    send(server.at(tls=True, login=True))
    assert server.box.logins == [LOGIN]
    assert server.box.in_tls == [True]


@pytest.mark.parametrize(
    "protection",
    [
        lambda certify: {},
        lambda certify: {"tls_context": certify(by=trustme.CA())},  # of an unknown authority
        lambda certify: {"tls_context": certify("mail.example.org")},
        lambda certify: {"tls_context": certify(), "auth_exclude_mechanism": ["LOGIN", "PLAIN"]},
        lambda certify: {"smtps": certify("mail.example.org")},
        lambda certify: {"smtps": certify(by=trustme.CA())},
    ],
)
def test_password_is_sent_only_in_tls_to_the_right_server_that_asks_for_it(
    serve, certify, protection
):
    options = protection(certify)
    server = serve(**options)
    with pytest.raises(smtp.ServerDown) as outage:
        send(server.at(tls="smtps" in options, login=True))
    assert "p@ss" not in str(outage.value)
    assert (server.box.logins, server.box.mails) == ([], [])


def test_refused_login_is_no_fault_of_the_mail(serve, certify):
    server = serve(tls_context=certify())
    server.box.right_login = (b"other", b"other")
    with pytest.raises(smtp.ServerDown, match="535"):
        send(server.at(login=True))


@contextlib.contextmanager
def strange_server(talk):
    """A server on a bare socket, for what aiosmtpd would never say."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def run():
            conversation, _ = listener.accept()
            with conversation, contextlib.suppress(OSError):
                talk(conversation)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        yield smtp.MailServer("127.0.0.1", listener.getsockname()[1], False)
        thread.join(20)
        assert not thread.is_alive()


@pytest.mark.parametrize("tls", [False, True])
def test_silent_server_does_not_hang_us(monkeypatch, tls):
    monkeypatch.setattr(smtp, "TIMEOUT", 0.2)
    with (
        strange_server(lambda talk: talk.recv(1000) and talk.recv(1)) as server,
        pytest.raises(smtp.ServerDown),
    ):
        send(replace(server, implicit_tls=tls))


def silent_at(command):
    """Return a server's part of a conversation in which it answers all but one command."""

    def talk(conversation):
        conversation.sendall(b"220 ready\r\n")
        commands = conversation.makefile("rb")
        in_mail = False
        while (line := commands.readline()) and not line.startswith(command):
            if not in_mail:
                in_mail = line == b"data\r\n"
                conversation.sendall(b"354 go\r\n" if in_mail else b"250 ok\r\n")
        commands.readline()  # until the other end gives up

    return talk


@pytest.mark.parametrize("command", [b"rcpt", b".\r\n"])
def test_server_that_falls_silent_defers_the_mail(monkeypatch, command):
    monkeypatch.setattr(smtp, "TIMEOUT", 0.2)
    with strange_server(silent_at(command)) as server:
        with pytest.raises(smtp.MailDeferred, match="timed out") as failure:
            send(server)
        assert type(failure.value) is smtp.MailDeferred
