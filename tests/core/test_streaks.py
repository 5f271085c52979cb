"""Days in a row, by the calendar of the place where somebody lives."""

import random
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from core.streaks import streak

DAY = 86400
QUARTER = 900
NOON = "2026-11-20T12:00:00Z"
FIRST_SECOND = -62135596800  # of the year 1


def at(text):
    """Return the seconds since 1970 of an RFC 3339 time."""
    return int(datetime.fromisoformat(text).timestamp())


def days(zone, now, *moments):
    """Return the streak; every moment is an RFC 3339 time, or seconds since 1970."""
    seconds = [at(moment) if isinstance(moment, str) else moment for moment in moments]
    now = at(now) if isinstance(now, str) else now
    return streak(seconds, ZoneInfo(zone), datetime.fromtimestamp(now, UTC))


@pytest.mark.parametrize(
    ("moments", "expected"),
    [
        ("", 0),
        ("20T00:00:00", 1),
        ("19T23:59:59", 1),
        ("18T23:59:59", 0),
        ("20T00:00:00 19T00:00:00 18T23:59:59", 3),
        ("19T00:00:00 18T23:59:59", 2),
        # A gap ends it, wherever it is
        ("20T01:00:00 18T01:00:00", 1),
        ("19T01:00:00 17T01:00:00", 1),
        ("20T01:00:00 19T01:00:00 17T01:00:00", 2),
    ],
)
def test_days_in_a_row_are_counted_back_from_today_or_yesterday(moments, expected):
    assert days("UTC", NOON, *(f"2026-11-{moment}Z" for moment in moments.split())) == expected


def test_day_counts_once_however_often_and_in_whatever_order_it_comes():
    moments = [at(NOON) - DAY * back - QUARTER * part for back in range(5) for part in range(40)]
    moments += moments  # and each of them twice
    random.Random(1).shuffle(moments)
    assert days("UTC", NOON, *moments) == 5


def test_future_neither_counts_nor_interrupts():
    ahead = [at(NOON) + DAY * days for days in (1, 2, 3, 30, 36500)]
    assert days("UTC", NOON, *ahead) == 0
    assert days("UTC", NOON, *ahead, NOON) == 1
    assert days("UTC", NOON, *ahead, "2026-11-19T12:00:00Z", "2026-11-18T12:00:00Z") == 2
    # What is still to come of today is of today: a clock may be ahead.
    assert days("UTC", NOON, "2026-11-20T12:04:00Z", "2026-11-19T12:00:00Z") == 2


def test_offset_of_now_does_not_matter():
    now = datetime.fromisoformat("2026-11-21T08:00:00+09:00")
    learned = [at("2026-11-19T12:00:00Z")]
    assert streak(learned, ZoneInfo("UTC"), now) == 1
    assert streak(learned, ZoneInfo("Asia/Tokyo"), now) == 0


# Days between their first and their last second, in UTC, which make so many hours.
DAYS = [
    ("UTC", "2026-11-20T00:00:00Z", "2026-11-20T23:59:59Z", 24),
    ("Europe/Berlin", "2026-03-28T23:00:00Z", "2026-03-29T21:59:59Z", 23),
    ("Europe/Berlin", "2026-10-24T22:00:00Z", "2026-10-25T22:59:59Z", 25),
    # Clocks go forward at midnight: this day begins at 1 o'clock.
    ("America/Sao_Paulo", "2018-11-04T03:00:00Z", "2018-11-05T01:59:59Z", 23),
    # They go back at midnight: the last hour of this day comes twice; in Havana the first.
    ("America/Sao_Paulo", "2018-02-17T02:00:00Z", "2018-02-18T02:59:59Z", 25),
    ("America/Havana", "2024-11-03T04:00:00Z", "2024-11-04T04:59:59Z", 25),
    ("Australia/Lord_Howe", "2026-04-04T13:00:00Z", "2026-04-05T13:29:59Z", 24.5),
    ("Pacific/Kiritimati", "2026-11-19T10:00:00Z", "2026-11-20T09:59:59Z", 24),
    ("Pacific/Pago_Pago", "2026-11-20T11:00:00Z", "2026-11-21T10:59:59Z", 24),
    # By the sun, since there were no time zones
    ("Asia/Kathmandu", "1899-12-31T18:18:44Z", "1900-01-01T18:18:43Z", 24),
]


@pytest.mark.parametrize(("zone", "first", "last", "hours"), DAYS)
def test_day_reaches_from_its_first_second_to_its_last(zone, first, last, hours):
    before, after = at(first) - 1, at(last) + 1
    assert after - at(first) == hours * 3600
    # These are one day
    assert days(zone, last, first) == days(zone, last, last) == 1
    assert days(zone, last, first, last) == 1
    # It is a day of its own, the one before is yesterday, and the one after tomorrow.
    assert days(zone, first, before) == days(zone, last, before) == 1
    assert days(zone, first, before, first) == days(zone, last, before, last) == 2
    assert days(zone, after, before) == 0
    assert days(zone, after, first) == days(zone, after, last) == 1
    assert days(zone, after, before, first, after) == days(zone, after, before, last, after) == 3
    assert days(zone, after, before, after) == 1
    assert days(zone, last, after) == 0


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Pacific/Kiritimati"])
def test_very_old_moment_does_no_harm(zone):
    assert days(zone, NOON, FIRST_SECOND) == 0
    recent = [at(NOON) - DAY * back for back in range(20)]
    assert days(zone, NOON, FIRST_SECOND, *recent, FIRST_SECOND) == 20


def test_one_moment_of_each_day_for_years_is_one_long_streak():
    now = at("2026-11-20T20:00:00+01:00")
    every_day = [now - DAY * back for back in range(5000)]
    assert days("Europe/Berlin", now, *every_day) == 5000
    del every_day[4000]
    assert days("Europe/Berlin", now, *every_day) == 4000


@pytest.mark.parametrize(
    ("zone", "before", "after"),
    [
        ("Pacific/Apia", "2011-12-29T12:00:00-10:00", "2011-12-31T12:00:00+14:00"),
        ("Pacific/Fakaofo", "2011-12-29T12:00:00-11:00", "2011-12-31T12:00:00+13:00"),
        ("Pacific/Kwajalein", "1993-08-20T12:00:00-12:00", "1993-08-22T12:00:00+12:00"),
        ("Pacific/Kiritimati", "1994-12-30T12:00:00-10:00", "1995-01-01T12:00:00+14:00"),
    ],
)
def test_a_day_that_a_zone_left_out_interrupts_nothing(zone, before, after):
    earlier = at(before) - DAY
    assert days(zone, after, before, after) == 2
    assert days(zone, after, earlier, before, after) == 3
    assert days(zone, after, earlier, before) == 2
    assert days(zone, after, earlier) == 0
    assert days(zone, at(after) + DAY, after, before) == 2
