"""Flask without what this service never uses, which takes a twentieth of a quick call."""

from typing import Any

from flask import Flask
from flask.sessions import NullSession, SessionInterface


class NoSessions(SessionInterface):
    """No cookies: clients carry tokens. One session, empty and closed to writing, serves all."""

    _none = NullSession()

    def open_session(self, _app: Flask, _request: Any) -> NullSession:
        return self._none

    def is_null_session(self, _session: object) -> bool:
        return True


class LeanFlask(Flask):
    """A Flask whose views are plain functions, and whose clients have no cookies."""

    session_interface = NoSessions()

    def ensure_sync(self, func: Any) -> Any:
        """Return the function. Flask would ask at each call whether it is a coroutine's."""
        return func
