"""What mail servers out there answer, and what comes of the mail.

A new report from outside becomes a row: the stage, the server's answer to it, and whether the mail
is sent, waits or is dropped. Only what is about the recipient alone may lose a mail.
"""

import logging
import re
import socketserver
import ssl
import threading
from dataclasses import replace

import pytest
import trustme
from helpers import rows

from core.smtp import MailServer
from database import transaction
from extensions import components
from models import Counter, OutboxMail
from services import outbox
from services.letters import MailKind

STUDENT = "student@example.org"
USUAL = {
    **{"connect": "220 ready", "ehlo": "250-here\r\n250 AUTH LOGIN PLAIN", "helo": "502 no"},
    **{"starttls": "454 later", "auth": "235 in", "mail": "250 ok", "rcpt": "250 ok"},
    **{"data": "354 go", "content": "250 taken", "quit": "221 bye"},
}
# "->" stands for more lines of the answer; with "closes" the server breaks off instead.
ANSWERS = """
rcpt     550 5.1.1 <student@example.org>: User unknown in virtual mailbox table     dropped
rcpt     550-5.1.1 The account that you tried to reach does not exist. -> 550 5.1.1 See  dropped
rcpt     550 5.1.1 <student@example.org>... User unknown                            dropped
rcpt     554 5.1.1 No such user                                                     dropped
rcpt     550 5.1.2 Domain not found                                                 dropped
rcpt     501 5.1.3 Bad recipient address syntax                                     dropped
rcpt     551 5.1.6 Mailbox has moved                                                dropped
rcpt     550 5.1.10 RESOLVER.ADR.RecipientNotFound; not found by SMTP address look-up  dropped
rcpt     556 5.1.10 Recipient address has null MX                                   dropped
rcpt     550 5.2.1 The account is disabled                                          dropped
rcpt     550 sorry, no mailbox here by that name. (#5.1.1)                          dropped
rcpt     550 No such user here                                                      dropped
rcpt     550 User unknown                                                           dropped
rcpt     550 <student@example.org>: Unknown user.                                   dropped
content  550 5.1.1 <student@example.org> User unknown                               dropped
rcpt     504 5.5.2 <3f2a9c1d77be>: Helo command rejected: need fully-qualified hostname  waits
rcpt     554 5.7.1 <student@example.org>: Relay access denied                       waits
rcpt     550 5.7.1 Relaying denied                                                  waits
rcpt     554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using a list  waits
rcpt     554 Service unavailable; Client host [192.0.2.1] blocked using a list      waits
rcpt     553 sorry, that domain isn't in my list of allowed rcpthosts (#5.7.1)      waits
rcpt     553 Sender address rejected: not owned by user post                        waits
rcpt     550 5.1.0 <accounts@example.org>: Sender address rejected: User unknown    waits
rcpt     550 5.1.8 Sender domain does not exist                                     waits
rcpt     550 Sender verify failed                                                   waits
rcpt     550 limit of 400 rcpts per 24 hours                                        waits
rcpt     550 5.1.90 Your message can't be sent because you've reached your daily limit  waits
rcpt     550 5.4.1 Recipient address rejected: Access denied                        waits
rcpt     550 5.1.1.9 is the number of this release; you are not known here          waits
rcpt     550 Invalid recipient                                                      waits
rcpt     550 Unrouteable address                                                    waits
rcpt     550 Unknown user post: log in first                                        waits
rcpt     551 User not local                                                         waits
rcpt     553 Mailbox name not allowed                                               waits
rcpt     530 5.7.0 Must issue a STARTTLS command first                              waits
rcpt     550 5.7.26 This mail has been blocked because the sender is unauthenticated  waits
rcpt     450 4.1.1 User unknown                                                     waits
rcpt     450 5.1.1 A code that contradicts itself                                   waits
rcpt     450 4.2.0 Greylisted                                                       waits
rcpt     452 4.5.3 Too many recipients                                              waits
rcpt     552 5.2.2 Mailbox full                                                     waits
rcpt     421 4.7.0 Try again later, closing connection                              waits
rcpt     251 User not local; will forward                                           sent
rcpt     garbage                                                                    waits
rcpt     closes                                                                     waits
mail     550 5.1.1 <accounts@example.org>: User unknown                             waits
mail     550 No such user here                                                      waits
mail     553 5.7.1 Sender address rejected: not owned by user                       waits
mail     550 5.7.1 Relaying denied                                                  waits
mail     504 5.5.2 Helo command rejected                                            waits
mail     452 4.3.1 Insufficient system storage                                      waits
mail     421 Too many connections                                                   waits
mail     closes                                                                     waits
data     554 5.5.1 No valid recipients                                              waits
data     250 ok                                                                     waits
data     421 4.4.2 Timeout                                                          waits
data     closes                                                                     waits
content  550 5.4.5 Daily user sending limit exceeded                                waits
content  554 5.2.0 STOREDRV.Submission.Exception:SubmissionQuotaExceededException   waits
content  550 5.1.90 Your message can't be sent because you've reached your daily limit  waits
content  552 relay quota exceeded                                                   waits
content  554 Email address is not verified. The following identities failed         waits
content  554 5.7.1 Spam message rejected                                            waits
content  554 5.6.0 Content refused                                                  waits
content  550 User unknown                                                           waits
content  451 4.7.1 Try again later                                                  waits
content  421 4.3.2 System shutting down                                             waits
content  closes                                                                     waits
quit     421 Too many mails                                                         sent
quit     closes                                                                     sent
quit     garbage                                                                    sent
connect  554 5.7.1 No mail from your network                                        waits
connect  421 4.7.0 Too many connections                                             waits
connect  closes                                                                     waits
ehlo     504 5.5.2 Helo command rejected: need fully-qualified hostname             waits
ehlo     550 5.7.1 Your host name is an IP                                          waits
ehlo     421 Busy                                                                   waits
ehlo     closes                                                                     waits
ehlo     250-here -> 250 STARTTLS                                                   waits
auth     535 5.7.8 Error: authentication failed: p@ss word                          waits
auth     534 5.7.9 Application-specific password required                           waits
auth     550 5.1.1 User unknown                                                     waits
auth     454 4.7.0 Temporary authentication failure                                 waits
auth     334 Hello                                                                   waits
auth     334 UGFzc3dvcmQ6                                                           waits
auth     closes                                                                     waits
"""
TABLE = [re.fullmatch(r"(\w+) +(.+?)  +(\w+)", row).groups() for row in ANSWERS.strip().split("\n")]


class Conversation(socketserver.StreamRequestHandler):
    def handle(self):
        if not self.say("connect"):
            return
        for line in self.rfile:
            verb = line.split()[0].decode().lower()
            # What no row answers is a step of the login.
            if not self.say(verb if verb in USUAL else "auth"):
                return
            if verb == "data" and self.server.answers["data"].startswith("354"):
                content = iter(self.rfile.readline, b".\r\n")
                self.server.contents.append(b"".join(content))
                if not self.say("content"):
                    return

    def say(self, stage):
        answer = self.server.answers[stage]
        if answer == "closes":
            return False
        self.wfile.write(answer.replace(" -> ", "\r\n").encode() + b"\r\n")
        return not answer.startswith("421") and stage != "quit"


class Server(socketserver.ThreadingTCPServer):
    """Answers each command by its stage, and keeps what it was sent."""

    daemon_threads = True
    secure = None

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Conversation)
        self.answers, self.contents = dict(USUAL), []

    def get_request(self):
        connection, address = super().get_request()
        if self.secure:
            later = {"server_side": True, "do_handshake_on_connect": False}
            connection = self.secure.wrap_socket(connection, **later)
        return connection, address

    def handle_error(self, *_):
        """A client that hangs up is no error."""


@pytest.fixture(scope="module")
def certified(tmp_path_factory):
    """The server's part of TLS, and the file with the authority that has certified it."""
    authority, file = trustme.CA(), tmp_path_factory.mktemp("tls") / "authority.pem"
    authority.cert_pem.write_to_path(str(file))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    return context, str(file)


@pytest.fixture
def server():
    with Server() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


@pytest.mark.parametrize(("stage", "answer", "outcome"), TABLE, ids=range(len(TABLE)))
def test_only_what_is_about_the_recipient_loses_a_mail(
    app, server, certified, monkeypatch, caplog, stage, answer, outcome
):
    server.answers[stage] = answer
    way = MailServer("localhost", server.server_address[1], implicit_tls=False)
    if stage == "auth":
        server.secure, file = certified
        monkeypatch.setenv("SSL_CERT_FILE", file)
        way = replace(way, implicit_tls=True, user="post", password="p@ss word")
    components(app).settings = replace(components(app).settings, mail_url=way)
    with app.app_context(), caplog.at_level(logging.INFO, "accounts.mail"):
        with transaction():
            outbox.queue(MailKind.PASSWORD_CHANGED, STUDENT)
        outbox.deliver_due()
    (line,) = (each.getMessage() for each in caplog.records if each.name == "accounts.mail")
    assert outcome == {"is sent": "sent", "is dropped:": "dropped"}.get(
        re.search("is (sent|dropped:)|$", line)[0], "waits"
    )
    assert len(rows(app, OutboxMail)) == (outcome == "waits")
    assert [row.hits for row in rows(app, Counter)] == [1] * (outcome == "dropped")
    if outcome == "sent":
        assert len(server.contents) == 1
    # The log has the digits, and neither an address nor a word of the server's.
    codes = re.match(r"\d{3}(?:[ -][245]\.\d{1,3}\.\d{1,3}(?![.\d]))?", answer)
    if codes and outcome != "sent" and stage not in ("ehlo", "auth"):
        assert codes[0].replace("-", " ") in line
    assert "@" not in line
    words = set(re.findall("[A-Za-z]{5,}", answer)) - {"closed", "recipient", "refused"}
    assert words.isdisjoint(re.findall("[A-Za-z]+", line.partition(")")[2]))
