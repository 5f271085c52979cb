"""Security events: who did what to which account, one log line each."""

import logging

_log = logging.getLogger("accounts.security")


def record(event: str, user_id: str | None = None, **more: str | None) -> None:
    """Log a security event about an account; `by` is the id of somebody else who caused it.

    The formatter adds the client's address and the request id. Nothing that a stranger typed
    goes in here: people type passwords into the field for the e-mail address.
    """
    known = {name: value for name, value in more.items() if value}
    _log.info(event, extra={"fields": {"user": user_id or "-", **known}})
