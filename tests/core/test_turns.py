"""Turns: one thread at a time, in the order of asking, and each that waits gives its turn away."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import SimpleNamespace

import pytest
from helpers import soon

from core import turns

PATIENCE = 40  # seconds; only a hang takes so long


@pytest.fixture
def ours(monkeypatch):
    """Turns without a time limit, and how often nobody wanted one: `ours.idle`."""
    monkeypatch.setattr(turns, "LONG", PATIENCE)
    ours = SimpleNamespace(idle=0)

    def idle():
        ours.idle += 1

    ours.turns = turns.Turns(idle)
    with ThreadPoolExecutor(20) as pool:
        ours.start = pool.submit
        yield ours


def in_line(ours, number):
    soon(lambda: len(ours.turns._line) == number)


def test_those_who_wait_are_served_in_the_order_in_which_they_asked(ours):
    served = []

    def work(number):
        ours.turns.take()
        served.append(number)
        ours.turns.give()

    ours.turns.take()
    for number in range(10):
        last = ours.start(work, number)
        in_line(ours, number + 1)
    ours.turns.renew()  # lets all of them go first
    assert served == list(range(10))
    ours.turns.give()
    last.result(PATIENCE)
    assert ours.idle == 1


def test_no_two_threads_have_the_turn_and_whoever_waits_has_none(ours):
    inside, most = [], []

    def work(number):
        for _ in range(200):
            ours.turns.take()
            inside.append(number)
            most.append(len(inside))
            inside.remove(number)
            with suppress(ZeroDivisionError), turns.waiting(), turns.waiting():
                1 / 0  # noqa: B018 - an error while waiting gives the turn back too
            inside.append(number)
            most.append(len(inside))
            inside.remove(number)
            ours.turns.give()

    for done in [ours.start(work, number) for number in range(8)]:
        done.result(PATIENCE)
    assert set(most) == {1}
    ours.turns.take()  # nobody has kept it


def test_another_one_works_while_one_waits(ours):
    waits, answered = threading.Event(), threading.Event()

    def wait():
        ours.turns.take()
        with turns.waiting():
            waits.set()
            assert answered.wait(PATIENCE)
        ours.turns.give()

    done = ours.start(wait)
    assert waits.wait(PATIENCE)
    ours.turns.take()
    answered.set()
    in_line(ours, 1)  # it waits for its turn again
    assert not done.done()
    ours.turns.give()
    done.result(PATIENCE)


def test_one_that_takes_long_does_not_keep_the_others_and_comes_back_into_the_line(
    ours, monkeypatch
):
    monkeypatch.setattr(turns, "LONG", 0.01)
    ours.turns.take()  # and never gives it
    ours.start(ours.turns.take).result(PATIENCE)
    # That one had no turn any more to give.
    ours.turns.give()
    monkeypatch.setattr(turns, "LONG", PATIENCE)
    back = ours.start(ours.turns.take)
    in_line(ours, 1)
    assert not back.done()
    ours.turns._pass_on(ours.turns._holder)
    back.result(PATIENCE)


def test_waits_that_are_usually_short_keep_the_turn_and_others_give_it(ours, monkeypatch):
    given = []

    def work():
        ours.turns.take()
        with turns.waiting(usually_short=True):
            given.append(ours.turns._holder is None)
        ours.turns.give()

    ours.start(work).result(PATIENCE)
    monkeypatch.setattr(turns, "SHORT", 0)  # so all are long
    ours.start(work).result(PATIENCE)
    monkeypatch.setattr(turns, "SHORT", PATIENCE)  # a server that is near again
    ours.start(work).result(PATIENCE)
    assert given == [False, True, False]


def test_outside_of_a_worker_nothing_is_given_away():
    with turns.waiting():
        pass
