"""Days of learning, by the calendar of a user's time zone."""

import math
from collections.abc import Iterable
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

# The most days that one call reads: a leap year.
MOST_DAYS = 366
_DAY = timedelta(days=1)
_DAY_SECONDS = 86400
_EPOCH_DAY = date(1970, 1, 1).toordinal()
# Days before the next expected one at which the search ends: the local and the UTC date differ by
# one at most, today may have no moment yet, and a zone may have skipped a day.
_REACH = 4


def streak(moments: Iterable[int], zone: ZoneInfo, now: datetime) -> int:
    """Return the number of successive days, up to today or yesterday, with a moment on each.

    `moments` are in seconds since 1970; days are local days of `zone`. One that a zone skipped at
    the date line (Pacific/Apia skipped 30 December 2011) does not interrupt a streak.
    """
    today = expected = now.astimezone(zone).date()
    days = 0
    begin: float = math.inf  # of the last counted day, in seconds since 1970
    for moment in sorted(moments, reverse=True):
        if moment >= begin:
            continue
        # Checked first, since a very old moment has no date in some time zones.
        if moment // _DAY_SECONDS + _EPOCH_DAY < expected.toordinal() - _REACH:
            break
        day = datetime.fromtimestamp(moment, zone).date()
        while day < expected and (expected == today or not _exists(expected, zone)):
            expected -= _DAY
        if day < expected:
            break
        if day == expected:
            days += 1
            expected -= _DAY
            begin = datetime.combine(day, time.min, zone).timestamp()
    return days


def _exists(day: date, zone: ZoneInfo) -> bool:
    start, end = (datetime.combine(each, time.min, zone) for each in (day, day + _DAY))
    return start.timestamp() < end.timestamp()


def seconds(first: date, last: date, zone: ZoneInfo) -> tuple[int, int]:
    """Return the first and the last second of these local days, in seconds since 1970."""
    # `fold`: where the last hour of a day comes twice, the second one belongs to the day too.
    end = datetime.combine(last, time(23, 59, 59, fold=1), zone)
    return int(datetime.combine(first, time.min, zone).timestamp()), int(end.timestamp())
