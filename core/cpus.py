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
            _, version_1, path = line.split(":", 2)
            inner = groups / ("cpu" if version_1 else "") / path.lstrip("/")
            # In some containers the inner folder is not there, and the outer one is their own.
            found += map(_quota, (inner, *inner.parents))
    return min(found)


def _quota(folder: Path) -> float:
    for names in (["cpu.max"], ["cpu.cfs_quota_us", "cpu.cfs_period_us"]):
        with suppress(OSError, ValueError):  # no such file; `max`, which is no limit
            texts = " ".join((folder / name).read_text() for name in names)
            quota, period = map(int, texts.split())
            return quota / period if quota > 0 else math.inf  # -1 is none
    return math.inf
