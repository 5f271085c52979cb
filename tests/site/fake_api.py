"""What the pages need of the API, with a memory."""

from typing import Any

from flask import request
from flask.typing import ResponseReturnValue

OPENAPI = {
    "openapi": "3.1.0",
    "info": {"title": "Accounts", "version": "1"},
    "servers": [{"url": "."}],
    "paths": {
        "/api/auth/verify": {
            "get": {
                "tags": ["auth"],
                "summary": "Check an access token",
                "security": [{"bearer": []}],
                "responses": {"200": {"description": "The token is good."}},
            }
        },
        "/api/auth/login": {
            "post": {
                "tags": ["auth"],
                "summary": "Log in",
                "requestBody": {
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/L"}}}
                },
                "responses": {"200": {"description": "A pair of tokens."}},
            }
        },
    },
    "components": {
        "schemas": {"L": {"type": "object", "properties": {"email": {"type": "string"}}}},
        "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
    },
}


class FakeApi:
    """What the pages need of the API: tokens that work once, and every request remembered."""

    def __init__(self) -> None:
        self.live_tokens: set[str] = set()
        self.password: str | None = None
        self.verified = False
        self.mailed: list[str] = []
        self.requests: list[tuple[str, Any]] = []
        # An answer that comes instead of the API's own, such as a proxy's error page.
        self.instead: ResponseReturnValue | None = None

    def answer(self, name: str) -> ResponseReturnValue:
        body = request.get_json(silent=True)
        self.requests.append((name, body))
        if self.instead is not None:
            return self.instead
        return {
            "reset-password": self._reset,
            "verify-email": self._verify,
            "forgot-password": self._mail,
            "resend-verification": self._mail,
            "verify": lambda _body: good("The token is good."),
        }[name](body)

    def _reset(self, body: dict[str, str]) -> ResponseReturnValue:
        if len(body["newPassword"]) < 8:
            reasons = ["It has fewer than 8 characters.", "Add a word or two."]
            return bad("weak_password", "This password is too easy to guess.", newPassword=reasons)
        if body["token"] not in self.live_tokens:
            return bad("invalid_token", "This link is not valid any more. Ask for a new one.")
        self.live_tokens.remove(body["token"])
        self.password = body["newPassword"]
        return good("The password is changed.")

    def _verify(self, body: dict[str, str]) -> ResponseReturnValue:
        if body["token"] not in self.live_tokens:
            return bad("invalid_token", "This link is not valid any more. Ask for a new one.")
        self.live_tokens.remove(body["token"])
        self.verified = True
        return good("The address is confirmed.")

    def _mail(self, body: dict[str, str]) -> ResponseReturnValue:
        self.mailed.append(body["email"])
        return good("If there is an account with this address, a mail is on its way.")


def good(message: str) -> ResponseReturnValue:
    return {"success": True, "message": message, "data": {}}


def bad(code: str, message: str, status: int = 400, **fields: list[str]) -> ResponseReturnValue:
    error = {"code": code, **({"fields": fields} if fields else {})}
    return {"success": False, "message": message, "error": error}, status
