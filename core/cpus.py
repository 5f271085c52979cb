"""How many processors this process may use."""

import math
import os
from contextlib import suppress
from pathlib import Path


def usable(groups: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> float:
    """Return how many processors' time this process gets, which may be a fraction.

    A container with a quota sees all processors of its machine. `groups` is where Linux shows its
    control groups, in version 1 or 2, and `own` names those of this process.
    """
    linux = hasattr(os, "sched_getaffinity")
    found: list[float] = [len(os.sched_getaffinity(0)) if linux else os.cpu_count() or 1]
    with suppress(OSError):  # another system
        for line in own.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers or "cpu" in controllers.split(","):
                top = groups / "cpu" if controllers else groups
                inner = top / path.lstrip("/")  # not there inside some containers
                found += map(_quota, (inner, *inner.parents))
    return min(found)


def _quota(folder: Path) -> float:
    with suppress(OSError, ValueError):  # no such file; `max`, which is none
        quota, period = (folder / "cpu.max").read_text().split()
        return int(quota) / int(period)
    with suppress(OSError, ValueError):
        quota = (folder / "cpu.cfs_quota_us").read_text()
        period = (folder / "cpu.cfs_period_us").read_text()
        return int(quota) / int(period) if int(quota) > 0 else math.inf
    return math.inf
