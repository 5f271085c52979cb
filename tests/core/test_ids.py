"""Identifiers of rows and tokens."""

import functools
import operator
import uuid
from datetime import UTC, datetime, timedelta

import pytest

from core import ids


def test_row_ids_are_uuids_of_version_7_that_tell_their_time(monkeypatch):
    now = datetime(2030, 1, 1, tzinfo=UTC)
    monkeypatch.setattr("core.clock.utcnow", lambda: now)
    made = ids.new_row_id()
    assert datetime.fromtimestamp((uuid.UUID(made).int >> 80) / 1000, UTC) == now
    assert ids.is_row_id(made)


def test_row_ids_are_ordered_by_time_and_random_within_a_moment(clock):
    made = []
    for _ in range(50):
        made.append(ids.new_row_id())
        clock.move(seconds=0.01)
    assert made == sorted(made)
    same = {ids.new_row_id() for _ in range(1000)}
    assert len(same) == 1000
    made = [uuid.UUID(row_id) for row_id in same]
    assert {(each.version, each.variant) for each in made} == {(7, uuid.RFC_4122)}
    # All of the 62 bits after time, version and variant take part.
    bits = [each.int for each in made]
    random_bits = (1 << 62) - 1
    always = functools.reduce(operator.and_, bits)
    ever = functools.reduce(operator.or_, bits)
    assert (always & random_bits, ever & random_bits) == (0, random_bits)


def test_row_ids_of_one_act_keep_their_order(monkeypatch):
    now = datetime(2030, 1, 1, microsecond=999, tzinfo=UTC)
    made = []
    for after in range(2000):
        later = now + timedelta(microseconds=after)
        monkeypatch.setattr("core.clock.utcnow", lambda later=later: later)
        made.append(ids.new_row_id())
    assert made == sorted(made)


def test_other_texts_are_no_row_ids():
    good = ids.new_row_id()
    for text in ("", good.upper(), good + "\n", good[:-1], "{" + good + "}", good.replace("-", "")):
        assert not ids.is_row_id(text)


@pytest.mark.asvs("7.2.3", "11.5.1")
def test_token_ids_hold_128_bits():
    assert len({ids.new_token_id() for _ in range(1000)}) == 1000
    assert len(ids.new_token_id()) == 22
