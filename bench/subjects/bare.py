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


@app.get("/healthz")
def healthz() -> dict[str, Any]:
    return {"success": True}


@app.get("/api/auth/verify")
def verify() -> dict[str, Any]:
    return {
        "success": True,
        "message": "This access token is valid.",
        "data": {"valid": True, "expiresIn": 900, "user": USER},
    }


@app.get("/api/users/profile")
def profile() -> dict[str, Any]:
    data = {
        **USER,
        "firstName": "First",
        "lastName": "Last",
        "avatar": "/avatars/0000000000000000000000000000000000000000000000000000000000000000.webp",
        "bio": "",
        "location": "",
        "website": "",
        "joinDate": "2026-01-01T00:00:00Z",
        "lastLogin": None,
        "isActive": True,
        "emailVerified": False,
    }
    return {"success": True, "data": data}
