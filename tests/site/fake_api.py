"""What the pages need of the API, with a memory."""

from flask import request

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
    "undo-email-change": "undo_email_change",
}


class FakeApi:
    """What the pages need of the API: tokens that work once, and every request remembered."""

    def __init__(self):
        self.live_tokens = {}
        self.username = "newcomer"
        self.has_password = True
        self.code = "ABCD-EFGH-JKMN"
        self.password = None
        self.verified = False
        self.mailed = []
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
        return {
            "check-link": self._check,
            "reset-password": self._reset,
            "verify-email": self._verify,
            "undo-email-change": self._verify,
            "forgot-password": self._mail,
            "resend-verification": self._mail,
        }[name](body)

    def _check(self, body):
        action = self.live_tokens.get(body["token"])
        if action is None:
            return bad("invalid_token", "This link is not valid any more. Ask for a new one.")
        account = {"username": self.username, "email": "newcomer@example.org"}
        account |= {"hasPassword": self.has_password, "expiresAt": "2026-11-29T12:00:00Z"}
        return good("This link works.", action=action, **account)

    def _reset(self, body):
        if len(body["newPassword"]) < 8:
            return bad("weak_password", "This password is too easy.", newPassword=["too_short"])
        if "token" not in body and (body["account"], body["code"]) != (self.username, self.code):
            return bad("invalid_token", "The account or the code is wrong.")
        if "token" in body and not self.live_tokens.pop(body["token"], None):
            return bad("invalid_token", "This link is not valid any more. Ask for a new one.")
        self.password = body["newPassword"]
        return good("The password is changed.")

    def _verify(self, body):
        if body["token"] not in self.live_tokens:
            return bad("invalid_token", "This link is not valid any more. Ask for a new one.")
        del self.live_tokens[body["token"]]
        self.verified = True
        return good("The address is confirmed.")

    def _mail(self, body):
        self.mailed.append(body["email"])
        return good("If there is an account with this address, a mail is on its way.")


def good(message, **data):
    return {"success": True, "message": message, "data": data}


def bad(code, message, status=400, **reasons):
    fields = {name: ["Some sentence." for _ in words] for name, words in reasons.items()}
    error = {"code": code, **({"fields": fields, "reasons": reasons} if reasons else {})}
    return {"success": False, "message": message, "error": error}, status
