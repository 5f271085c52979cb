"""Times on their way in and out, as RFC 3339 writes them."""

import time
from datetime import UTC, datetime, timedelta, timezone

import pytest

from core.clock import parse_rfc3339, rfc3339, utcnow


def utc(*fields):
    return datetime(*fields, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        # The examples of section 5.8
        ("1985-04-12T23:20:50.52Z", utc(1985, 4, 12, 23, 20, 50)),
        ("1996-12-19T16:39:57-08:00", utc(1996, 12, 20, 0, 39, 57)),
        ("1990-12-31T23:59:60Z", utc(1990, 12, 31, 23, 59, 59)),
        ("1990-12-31T15:59:60-08:00", utc(1990, 12, 31, 23, 59, 59)),
        ("1937-01-01T12:00:27.87+00:20", utc(1937, 1, 1, 11, 40, 27)),
        # Section 5.6: the letters may be in lower case, fractions of any length
        ("2026-11-20t09:31:00z", utc(2026, 11, 20, 9, 31)),
        ("2026-11-20T09:31:59.999999999999Z", utc(2026, 11, 20, 9, 31, 59)),
        ("2016-12-31T23:59:60.999Z", utc(2016, 12, 31, 23, 59, 59)),
        # Section 4.3: UTC, from a place that nobody tells
        ("2026-11-20T09:31:00-00:00", utc(2026, 11, 20, 9, 31)),
        # Offsets to their bounds, across the ends of days, months and years
        ("2026-11-20T09:31:00+23:59", utc(2026, 11, 19, 9, 32)),
        ("2026-11-20T09:31:00-23:59", utc(2026, 11, 21, 9, 30)),
        # Leap days, and the years at both ends
        ("2024-02-29T00:00:00Z", utc(2024, 2, 29)),
        ("0001-01-01T00:00:00Z", utc(1, 1, 1)),
        ("0001-01-01T00:00:00-14:00", utc(1, 1, 1, 14)),
        ("9999-12-31T23:59:60Z", utc(9999, 12, 31, 23, 59, 59)),
    ],
)
def test_time_with_an_offset_is_read_in_utc_to_the_second(text, moment):
    found = parse_rfc3339(text)
    assert found == moment
    assert found.tzinfo is UTC
    assert found.microsecond == 0


@pytest.mark.parametrize(
    "text",
    [
        # What RFC 3339 demands is not there
        *("", "2026-11-20", "2026-11-20T09:31:00", "2026-11-20T09:31Z", "2026-11-20T09:31:00.Z"),
        # Other forms of ISO 8601, and what Python reads besides
        *("20261120T093100Z", "2026-W47-5T09:31:00Z", "2026-11-20T24:00:00Z"),
        *("2026-11-20T09:31:00,5Z", "2026-11-20T09:31:00+0100", "2026-11-20T09:31:00+01:00:30"),
        # Other signs, digits of other scripts, something around it
        *("2026-11-20 09:31:00Z", "202\uff16-11-20T09:31:00Z", "2026-11-20T09:31:00+0\u0661:00"),
        *("12026-11-20T09:31:00Z", "2026-11-20T09:31:00Z\n", " 2026-11-20T09:31:00Z"),
        # No such day, hour or offset
        *("0000-01-01T00:00:00Z", "2026-02-29T09:31:00Z", "2026-11-20T09:60:00Z"),
        *("2026-11-20T09:31:61Z", "2026-11-20T09:31:00+24:00", "2026-11-20T09:31:00-01:60"),
        # In UTC, it is in the year 0 or 10000
        *("0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01"),
    ],
)
def test_any_other_text_is_refused(text):
    with pytest.raises(ValueError):  # noqa: PT011  (the words may be Python's)
        parse_rfc3339(text)


def test_moment_is_written_in_utc_to_the_second():
    kathmandu = timezone(timedelta(hours=5, minutes=45))
    for moment, text in (
        (utc(2026, 11, 20, 9, 31, 59, 999_999), "2026-11-20T09:31:59Z"),
        (datetime(2026, 11, 20, 9, 31, tzinfo=kathmandu), "2026-11-20T03:46:00Z"),
        (utc(1, 1, 1), "0001-01-01T00:00:00Z"),  # four digits for every year
    ):
        assert rfc3339(moment) == text


def test_now_is_aware_and_in_utc():
    before, now, after = time.time(), utcnow(), time.time()
    assert now.tzinfo is UTC
    assert before <= now.timestamp() <= after
