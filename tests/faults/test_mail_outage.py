"""A mail server that takes its time: the API does not wait for it."""

import asyncio
import threading

import pytest
from clients import CONFIRM, RESET, Client, wait_for_mails
from real_service import PATIENCE, MailServer, registration
from sqlalchemy import URL


class BusyMailServer(MailServer):
    """It takes no mail before it is free, and breaks off with the first one then."""

    def __init__(self):
        super().__init__(drops=1)
        self.busy, self.free = threading.Event(), threading.Event()

    async def handle_DATA(self, server, session, envelope):
        self.busy.set()
        await asyncio.to_thread(self.free.wait, PATIENCE)
        return await super().handle_DATA(server, session, envelope)


@pytest.fixture
def mail_server():
    server = BusyMailServer()
    server.start()
    yield server
    server.free.set()
    server.stop()


def test_no_answer_waits_for_a_slow_mail_server_and_no_mail_is_lost(run, mail_server, tmp_path):
    service = run(URL.create("sqlite", database=str(tmp_path / "service.db")))
    expected = set()
    for name in ("first", "second"):
        client = Client(service, registration(name))
        address = client.user["email"]
        assert client.register().status == 201
        assert mail_server.busy.wait(PATIENCE)
        body = {"email": address}
        assert client.call("POST", "/api/auth/forgot-password", body).status == 200
        expected |= {(address, CONFIRM), (address, RESET)}
    assert mail_server.mails == []
    mail_server.free.set()
    wait_for_mails(mail_server, expected)
    assert mail_server.drops == 0
