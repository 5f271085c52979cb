"""Each place where a request may wait for somebody else gives its turn away."""

import io
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import pytest
from helpers import on_both, on_postgres
from sqlalchemy import text

import database
from core import breaches, images, openid, passwords, turns
from database import engines, one_statement, reading, transaction

PATIENCE = 40  # seconds; only a hang takes so long


@pytest.fixture
def given(monkeypatch):
    """Return what runs an act with a turn, and tells whether another thread got the turn before the
    act was over; the act may wait for `over`.
    """
    monkeypatch.setattr(turns, "LONG", PATIENCE)
    ours, begun, over = turns.Turns(lambda: None), threading.Event(), threading.Event()

    def work(act):
        ours.take()
        begun.set()
        try:
            act()
        finally:
            ours.give()

    def run(act):
        with ThreadPoolExecutor(1) as thread:
            done = thread.submit(work, act)
            assert begun.wait(PATIENCE)
            ours.take()
            first = not done.done()
            over.set()
            ours.give()
            done.result(PATIENCE)
        return first

    run.turns, run.over = ours, over
    run.wait = lambda *_arguments: over.wait(2) and None
    return run


def test_hash(given, monkeypatch):
    monkeypatch.setattr(passwords, "_bcrypt", lambda *_: given.wait() or "x" * 31)
    hasher = passwords.Hasher(4, 1, 1)
    assert given(lambda: hasher.hash("something to hash"))


def test_look_up_of_a_password(given, monkeypatch):
    monkeypatch.setattr(breaches.Breaches, "_wait", given.wait)
    assert given(lambda: breaches.Breaches("http://range.test").why_breached("something"))


def test_picture(given, monkeypatch):
    monkeypatch.setattr(images, "_make", given.wait)
    assert given(lambda: images.Avatars(1).make(io.BytesIO()))


def test_provider(given, monkeypatch):
    provider = openid.Provider("https://p.example", "id", "secret", "none", "https://a.example")
    monkeypatch.setattr(provider, "_ask", given.wait)

    def ask():
        with suppress(openid.ProviderFailed):
            provider.authorization_url("state", openid.Secrets.of("secret", "state"))

    assert given(ask)


@pytest.mark.parametrize("lend", [transaction, one_statement])
def test_writer_on_sqlite(app, given, lend):
    def write():
        with app.app_context(), lend():
            given.wait()

    assert given(write)


@on_both
def test_free_connection(app, given):
    def read():
        with app.app_context(), suppress(database.TimeoutError), reading():
            given.wait()

    with app.app_context(), ThreadPoolExecutor(1) as thread, ExitStack() as held:
        for _ in range(engines.POOL_SIZE):
            held.enter_context(reading())
        thread.submit(lambda: given.over.wait(PATIENCE) and held.close())
        assert given(read)


@on_postgres
def test_round_trip_to_a_postgres_that_is_not_near(app, given):
    given.turns.usual_wait = turns.SHORT

    def read():
        with app.test_request_context(), reading() as connection:
            connection.execute(text("SELECT pg_sleep(0.5)"))

    with app.app_context(), reading():
        pass  # so that a connection is there already
    assert given(read)
