"""How many days in a row somebody has been learning, by the calendar where they live."""

import math
from collections.abc import Iterable
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

_DAY = timedelta(days=1)
_DAY_SECONDS = 86400
_EPOCH_DAY = date(1970, 1, 1).toordinal()
# A local day and the day in UTC are one apart at most; today may be still to come, and a zone
# that moved across the date line has lost one more.
_REACH = 4


def streak(moments: Iterable[int], zone: ZoneInfo, now: datetime) -> int:
    """Return the number of days in a row with a moment in each, ending today or yesterday.

    `moments` are in seconds since 1970. Days are those of `zone` at each moment, whatever its
    offset was then. A day that a zone has left out, when it moved across the date line (as
    Pacific/Apia did with 30 December 2011), interrupts nothing.
    """
    today = expected = now.astimezone(zone).date()
    days = 0
    begin: float = math.inf  # of the day that was counted last, in seconds since 1970
    for moment in sorted(moments, reverse=True):
        if moment >= begin:
            continue
        # Looked at before the time zone, which cannot tell the date of every moment.
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
