"""What the pages need of the API, with a memory."""

from flask import request
from helpers import PASSWORD

OPENAPI = {
    "openapi": "3.1.0",
    "info": {"title": "Accounts", "version": "1"},
    "servers": [{"url": "."}],
    "paths": {"/api/auth/verify": {"get": {"responses": {"200": {"description": "Good."}}}}},
}

# What the links of a page do.
ACTIONS = {
    "reset-password": "choose_password",
    "verify-email": "verify_email",
}


class FakeApi:
    """What the pages need of the API: tokens that work once, and every request remembered."""

    def __init__(self):
        self.live_tokens = {}
        self.username = "newcomer"
        self.has_password = True
        self.code = "ABCD-EFGH-JKMN"
        self.password = None
        self.requests = []
        # An answer that comes instead of the API's own, such as a proxy's error page.
        self.instead = None

    def make_link(self, path):
        """Make the token of the tests a living one for this page."""
        self.live_tokens["T.1-x_y"] = ACTIONS[path]

    def answer(self, name):
        body = request.get_json(silent=True)
        self.requests.append((name, body))
        if self.instead is not None:
            return self.instead
        if name in ("forgot-password", "resend-verification"):
            return good("If there is an account with this address, a mail is on its way.")
        if len(body.get("newPassword", PASSWORD)) < 8:
            return bad("weak_password", "This password is too easy.", newPassword=["too_short"])
        by_code = (body.get("account"), body.get("code")) == (self.username, self.code)
        if not by_code and body.get("token") not in self.live_tokens:
            return bad("invalid_token", "This link or code is not valid any more.")
        if name == "check-link":
            account = {"username": self.username, "email": "newcomer@example.org"}
            account |= {"action": self.live_tokens[body["token"]], "hasPassword": self.has_password}
            return good("This link works.", **account)
        self.live_tokens.pop(body.get("token"), None)
        self.password = body.get("newPassword")
        return good("It is done.")


def good(message, **data):
    return {"success": True, "message": message, "data": data}


def bad(code, message, status=400, **reasons):
    fields = {name: ["Some sentence." for _ in words] for name, words in reasons.items()}
    error = {"code": code, **({"fields": fields, "reasons": reasons} if reasons else {})}
    return {"success": False, "message": message, "error": error}, status
