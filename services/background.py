"""One thread in each process that delivers mails and removes spent rows.

It is woken when a transaction that queued a mail has committed; else it looks every few seconds,
for mails whose time has come and for those of processes that died.
"""

import atexit
import logging
import os
import secrets
import threading
import time
import weakref

from flask import Flask

from core import clock
from database import is_unavailable
from extensions import db
from services import outbox, pruning

# Seconds between two looks at the outbox, give or take a fifth, so that processes spread out.
POLL = 5.0
# Seconds without a try after the mail server was found down. One connection in this time, instead
# of one for each mail, does not hammer it, and it is used soon after it is back.
PAUSE = 10.0
PRUNE_EVERY = 300.0
FIRST_PRUNE_WITHIN = 20.0
# Seconds that the end of the process waits for the mail in flight.
FAREWELL = 5.0

_log = logging.getLogger("accounts.background")
_chance = secrets.SystemRandom()


class Worker:
    """The background work of one application in this process."""

    def __init__(self, app: Flask) -> None:
        self._app = app
        self._begin()

    def _begin(self) -> None:
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._resume_at = time.monotonic()
        # Of what was before it, a process knows nothing; the mails may have waited long.
        self._after_outage = True
        self._prune_at = time.monotonic() + _chance.uniform(0, FIRST_PRUNE_WITHIN)
        self._trouble: str | None = None
        self._thread = threading.Thread(target=self._run, name="accounts-background", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Look at the outbox now."""
        self._woken.set()

    def stop(self, timeout: float) -> bool:
        """Take no more work; return whether it all ended within so many seconds."""
        self._stopping.set()
        self._woken.set()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def restart_after_fork(self) -> None:
        """Go on in a child process, which has this object but not its thread."""
        if not self._stopping.is_set():
            with self._app.app_context():
                # The connections in the pool are the parent's.
                db.engine.dispose(close=False)
            self._begin()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._woken.wait(POLL * _chance.uniform(0.8, 1.2))
            self._woken.clear()
            if not self._stopping.is_set():
                self._work()

    def _work(self) -> None:
        try:
            with self._app.app_context():
                self._deliver()
                self._prune()
        except Exception as error:
            # Said once in an outage, not at every look.
            trouble = "database" if is_unavailable(error) else type(error).__name__
            if trouble != self._trouble and trouble == "database":
                _log.warning("The database is away; background work waits for it.")
            elif trouble != self._trouble:
                _log.exception("Background work failed; it will be tried again.")
            self._trouble = trouble
        else:
            if self._trouble:
                _log.info("Background work goes on.")
            self._trouble = None

    def _deliver(self) -> None:
        if time.monotonic() < self._resume_at:
            return
        tally = outbox.deliver_due(self._stopping.is_set, after_outage=self._after_outage)
        if tally.server_down:
            self._resume_at = time.monotonic() + PAUSE
        if tally.server_down or tally.sent:
            self._after_outage = tally.server_down

    def _prune(self) -> None:
        if time.monotonic() < self._prune_at:
            return
        removed = pruning.prune(clock.utcnow(), self._stopping.is_set)
        if any(removed.values()):
            _log.info("Removed spent rows: %s", removed)
        self._prune_at = time.monotonic() + PRUNE_EVERY * _chance.uniform(0.8, 1.2)


_workers: "weakref.WeakSet[Worker]" = weakref.WeakSet()


def start(app: Flask) -> Worker:
    """Start the background work of this application, and return it; once is enough."""
    if "background" not in app.extensions:
        app.extensions["background"] = Worker(app)
        _workers.add(app.extensions["background"])
    worker: Worker = app.extensions["background"]
    return worker


def stop(app: Flask, timeout: float = FAREWELL) -> bool:
    """End it; return whether the work in flight was over within so many seconds."""
    worker: Worker | None = app.extensions.pop("background", None)
    return worker is None or worker.stop(timeout)


def _stop_all() -> None:
    deadline = time.monotonic() + FAREWELL
    for worker in list(_workers):
        worker.stop(max(0.0, deadline - time.monotonic()))


def _restart_all() -> None:
    for worker in list(_workers):
        worker.restart_after_fork()


# A process that is ended loses no mail, since claims have leases; this only saves the wait.
atexit.register(_stop_all)
# A server that loads the application before it forks would leave its workers without the thread.
os.register_at_fork(after_in_child=_restart_all)
