"""Turns: one thread of a worker process works at a time, and each that waits gives its turn away.

Python runs one thread at a time anyway. Threads that want to run take its lock from each other at
every system call, and that doubles the cost of a request.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Seconds that a thread may work while others wait; then the next one works beside it.
LONG = 0.05

# Seconds of a wait, such as for a Postgres nearby, that a change of threads would only make longer.
SHORT = 0.0015

_thread = threading.local()


class Turns:
    """A lock that threads get in the order of asking; it calls `idle` when none wants it."""

    def __init__(self, idle: Callable[[], object]) -> None:
        self._idle = idle
        self._lock = threading.Lock()
        self._holder: threading.Lock | None = None  # an object of its own for each turn
        self._line: deque[threading.Lock] = deque()
        self.usual_wait = 0.0  # seconds, of those that should be short

    def take(self) -> None:
        """Wait for the turn."""
        mine = threading.Lock()
        with self._lock:
            if is_mine := self._holder is None:
                self._holder = mine
            else:
                mine.acquire()
                self._line.append(mine)
        while not is_mine:
            before = self._holder
            is_mine = mine.acquire(timeout=LONG)
            if not is_mine:
                self._pass_on(before)  # a long computation, or a wait that nobody thought of
        _thread.turns, _thread.mine = self, mine

    def give(self) -> None:
        """Let the next thread have the turn."""
        _thread.turns = None
        self._pass_on(_thread.mine)

    def renew(self) -> None:
        """Let all who wait go first, and those who worked beside a thread that took too long."""
        if self._line or self._holder is not _thread.mine:
            self.give()
            self.take()

    def _pass_on(self, turn: "threading.Lock | None") -> None:
        with self._lock:
            if self._holder is not turn:
                return  # it took too long
            self._holder = self._line.popleft() if self._line else None
            if self._holder:
                self._holder.release()
            else:
                self._idle()


@contextmanager
def waiting(*, usually_short: bool = False) -> Iterator[None]:
    """Give the turn of this thread away meanwhile; outside of a worker, do nothing.

    A wait that is usually shorter than a change of threads keeps it.
    """
    turns: Turns | None = getattr(_thread, "turns", None)
    if turns is None:
        yield
        return
    begin = time.monotonic()
    if gives := not (usually_short and turns.usual_wait < SHORT):
        turns.give()
    try:
        yield
    finally:
        if usually_short:
            seconds = min(time.monotonic() - begin, 10 * SHORT)
            turns.usual_wait += (seconds - turns.usual_wait) / 16
        if gives:
            turns.take()
