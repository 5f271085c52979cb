"""One thread in each process that sends e-mails and deletes expired rows.

It runs as soon as a transaction that queued an e-mail has committed. It also polls, for e-mails
that are due again and for those of processes that died.
"""

import atexit
import logging
import threading
import time

from flask import Flask

import errors
from core import clock
from database import ended_statement, is_unavailable, schema
from database_check import reason
from extensions import components
from services import outbox, pruning, second_factor

# Seconds between two polls of the outbox.
POLL = 5.0
# Seconds to wait when the mail server is down.
PAUSE = 10.0
PRUNE_EVERY = 300.0
# Seconds that a process waits at its end for the e-mail that is being sent.
STOP_TIMEOUT = 5.0

_log = logging.getLogger("accounts.background")


class BackgroundThread:
    """The background work of one application in this process."""

    def __init__(self, app: Flask) -> None:
        self._app = app
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._resume_at = self._prune_at = time.monotonic()
        self._migrated = False
        self._failing: type[Exception] | None = None  # what kind of failure was logged last
        self._thread = threading.Thread(target=self._run, name="accounts-background", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Poll the outbox now."""
        self._woken.set()

    def stop(self, timeout: float = STOP_TIMEOUT) -> bool:
        """Start no more work; return whether the current work ended within `timeout` seconds."""
        self._stopping.set()
        self._woken.set()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._woken.wait(POLL)
            self._woken.clear()
            try:
                with self._app.app_context():
                    self._work()
            except Exception as error:
                if self._failing is type(error):
                    continue  # log once per outage
                self._failing = type(error)
                if isinstance(error, errors.Unavailable):
                    _log.warning("%s", error)
                elif is_unavailable(error):
                    trace = error if ended_statement(error) else None
                    text = "Background work waits for the database: %s"
                    _log.warning(text, reason(error), exc_info=trace)
                else:
                    _log.exception("Background work failed; it will be tried again.")
            else:
                if self._failing:
                    _log.info("Background work continues.")
                self._failing = None

    def _work(self) -> None:
        self._migrated = self._migrated or schema.is_ready()
        if not self._migrated:
            raise errors.Unavailable("Background work needs the schema. Run: flask db upgrade")
        now = time.monotonic()
        if now >= self._resume_at and outbox.deliver_due(self._stopping.is_set):
            self._resume_at = time.monotonic() + PAUSE
        if now >= self._prune_at:
            pruning.prune(clock.utcnow(), self._stopping.is_set)
            second_factor.seal_anew(self._stopping.is_set)
            self._prune_at = now + PRUNE_EVERY


def start(app: Flask) -> None:
    """Start the thread unless it is running. Call this after a fork, which stops all threads."""
    held = components(app)
    if held.background is None:
        held.background = thread = BackgroundThread(app)
        atexit.register(thread.stop)
