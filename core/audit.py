"""The audit log: who did what to which account, one line per event."""

import logging
from collections.abc import Callable, Mapping

# Keeps an event in the history of the account. The application sets it: that is a table.
keep: Callable[[str, str, Mapping[str, object]], None] = lambda *_: None  # noqa: E731
_log = logging.getLogger("accounts.security")


def log(event: str, user_id: str | None = None, **more: str | int | None) -> None:
    """Log a security event about an account; `by` is the admin or service key that caused it.

    Never pass what a client has typed: people type passwords into the field for the e-mail address.
    """
    known = {name: value for name, value in more.items() if value not in (None, "")}
    _log.info(event, extra={"fields": {"user": user_id or "-", **known}})
    if user_id:
        keep(event, user_id, known)
