"""Days of learning, by the calendar of a user's time zone."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

# The most days that one call reads: a leap year.
MOST_DAYS = 366
_DAY = timedelta(days=1)


def streak(moments: Iterable[int], zone: ZoneInfo, now: datetime) -> int:
    """Return the number of successive days of `zone`, up to today or yesterday, with a moment on
    each. `moments` are in seconds since 1970.
    """
    ordered, day, days = sorted(moments), now.astimezone(zone).date(), 0
    if not _has_moment(ordered, day, zone):
        day = _day_before(day, zone)
    while _has_moment(ordered, day, zone):
        days += 1
        day = _day_before(day, zone)
    return days


def _day_before(day: date, zone: ZoneInfo) -> date:
    # A zone that changes its side of the date line leaves out a day, which ends before it begins.
    before = day - _DAY
    first, last = seconds(before, before, zone)
    return before if first <= last else _day_before(before, zone)


def _has_moment(ordered: Sequence[int], day: date, zone: ZoneInfo) -> bool:
    first, last = seconds(day, day, zone)
    at = bisect_left(ordered, first)
    return at < len(ordered) and ordered[at] <= last


def span(first: date | None, last: date | None, *, today: date, count: int) -> tuple[date, date]:
    """Return the first and the last of so many days, up to `today` where neither is given."""
    if last is None:
        last = _day(first.toordinal() + count - 1) if first else today
    return first or _day(last.toordinal() - count + 1), last


def _day(ordinal: int) -> date:
    """Return the day with this number, or the nearest that there is."""
    return date.fromordinal(min(max(ordinal, 1), date.max.toordinal()))


def seconds(first: date, last: date, zone: ZoneInfo) -> tuple[int, int]:
    """Return the first and the last second of these local days, in seconds since 1970."""
    # `fold`: where the last hour of a day comes twice, the second one belongs to the day too.
    end = datetime.combine(last, time(23, 59, 59, fold=1), zone)
    return int(datetime.combine(first, time.min, zone).timestamp()), int(end.timestamp())
