"""Bare Flask: a fixed answer in JSON, without authentication and without a database."""

from typing import Any

from flask import Flask

app = Flask(__name__)

USER = {
    "id": "00000000-0000-7000-8000-000000000000",
    "username": "user0000000",
    "email": "user0000000@example.org",
    "role": "student",
}


@app.get("/api/auth/verify")
def verify() -> dict[str, Any]:
    return {
        "success": True,
        "message": "This access token is valid.",
        "data": {"valid": True, "expiresIn": 900, "user": USER},
    }
