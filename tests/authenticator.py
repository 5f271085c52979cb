"""An authenticator app, as the tests of the second factor use one."""

import base64

from helpers import bearer, success

from core import clock
from core.totp import STEP, hotp

URL = "/api/auth/second-factor"


class Authenticator:
    """What a user has after setting up a second factor."""

    def __init__(self, secret):
        self.key = base64.b32decode(secret)
        self.recovery_codes = []

    def code(self, later=0):
        """Return the six digits that the app shows now, or so many seconds later."""
        return hotp(self.key, int(clock.utcnow().timestamp() + later) // STEP)

    def wrong(self):
        """Return six digits that the app does not show within a few minutes."""
        shown = {self.code(seconds) for seconds in range(-300, 300, STEP)}
        return next(digits for digits in map("{:06}".format, range(100)) if digits not in shown)


def begin(client, session, user):
    body = {"password": user.password}
    made = success(client.post(URL, json=body, headers=bearer(session)))
    return Authenticator(made["secret"])


def set_up(client, session, user, clock):
    """Turn the second factor on; the code that does it is spent, and the time moves on."""
    app = begin(client, session, user)
    made = success(
        client.post(f"{URL}/confirm", json={"code": app.code()}, headers=bearer(session))
    )
    app.recovery_codes = made["recoveryCodes"]
    clock.move(seconds=STEP)
    return app


def enter(client, user, code=None, **options):
    body = {"email": user.email, "password": user.password}
    if code is not None:
        body["secondFactor"] = code
    return client.post("/api/auth/login", json=body, **options)
