"""A mail server that is slow, down or breaks off: the API does not wait for it."""

import asyncio
import time

import pytest
from clients import CONFIRM, RESET, Client, wait_for_mails
from real_service import MailServer, registration
from sqlalchemy import URL

# Seconds. No answer takes so long, however long the mail server does.
AT_ONCE = 1.0


class MoodyMailServer(MailServer):
    """It takes each mail after `delay` seconds, and breaks off so many in the middle."""

    delay = 0.0
    drops = 0

    async def handle_DATA(self, server, session, envelope):
        await asyncio.sleep(self.delay)
        if self.drops:
            self.drops -= 1
            server.transport.abort()
            return "250 never said"
        return await super().handle_DATA(server, session, envelope)


@pytest.fixture
def mail_server():
    server = MoodyMailServer()
    yield server
    server.stop()


def ask_for_mails(service, name, number):
    """Register so many and forget their passwords; return the mails that must come."""
    expected = set()
    for count in range(number):
        client = Client(service, registration(f"{name}{count}"))
        address = client.user["email"]
        start = time.monotonic()
        assert client.register().status == 201
        registered = time.monotonic()
        body = {"email": address}
        assert client.call("POST", "/api/auth/forgot-password", body).status == 200
        assert max(registered - start, time.monotonic() - registered) < AT_ONCE
        expected |= {(address, CONFIRM), (address, RESET)}
    return expected


@pytest.fixture
def service(run, tmp_path):
    return run(URL.create("sqlite", database=str(tmp_path / "service.db")))


def test_no_answer_waits_for_a_slow_mail_server(service, mail_server):
    mail_server.delay = 1.5
    mail_server.start()
    expected = ask_for_mails(service, "user", 2)
    assert mail_server.mails == []  # the first answers were there long before the first mail
    wait_for_mails(mail_server, expected)


@pytest.mark.faults
def test_mails_outlive_a_server_that_is_down_breaks_off_and_is_slow(service, mail_server):
    expected = ask_for_mails(service, "down", 5)
    mail_server.drops = 2
    mail_server.start()
    expected |= ask_for_mails(service, "dropping", 5)
    wait_for_mails(mail_server, expected)
    assert mail_server.drops == 0

    mail_server.delay = 6.0
    expected |= ask_for_mails(service, "slow", 2)
    wait_for_mails(mail_server, expected)
    assert len(mail_server.mails) == len(expected)  # and none of them twice


@pytest.mark.faults
def test_mails_that_a_silent_server_held_up_go_out_when_it_speaks(service, mail_server):
    mail_server.delay = 60.0  # longer than anybody waits for one answer
    mail_server.start()
    expected = ask_for_mails(service, "user", 4)
    time.sleep(12)
    expected |= ask_for_mails(service, "later", 4)
    mail_server.delay = 0.0
    wait_for_mails(mail_server, expected)
