"""The audit log: who did what to which account, one line per event."""

import logging

_log = logging.getLogger("accounts.security")


def log(event: str, user_id: str | None = None, **more: str | int | None) -> None:
    """Log a security event about an account; `by` is the admin or service key that caused it.

    Never pass what a client has typed: people type passwords into the field for the e-mail address.
    """
    known = {name: value for name, value in more.items() if value not in (None, "")}
    _log.info(event, extra={"fields": {"user": user_id or "-", **known}})
