"""The thin floor: the least that a service must do for these answers, written by hand.

One view each, the token decoded by PyJWT, one SQL statement for the user and the revocation on a
connection that stays open. No schema, no ORM, no log, no headers; everything wrong is a bare 401.
It reads the service's own tables.

Bare Flask beside it is less: a fixed answer, without authentication and without a database.
"""

import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import jwt
import orjson
import psycopg
from flask import Flask, Response, abort, request

SECRET = os.environ["SECRET_KEY"].encode()
URL = os.environ["DATABASE_URL"]
QUERY = """
    SELECT id, username, email, role, first_name, last_name, bio, location, website, avatar_digest,
           created_at, last_login_at, is_active, email_verified_at
    FROM users
    WHERE id = ? AND is_active
      AND NOT EXISTS (SELECT 1 FROM denylist WHERE session_id = ?)
"""
PROFILE = (
    *("id", "username", "email", "role", "firstName", "lastName", "bio", "location", "website"),
    *("avatar", "joinDate", "lastLogin", "isActive", "emailVerified"),
)

app = Flask(__name__)
bare = Flask("bare")


def sqlite_reader() -> Callable[[str, str], Any]:
    own = threading.local()

    def find(user_id: str, session_id: str) -> Any:
        connection = getattr(own, "connection", None)
        if connection is None:
            connection = own.connection = sqlite3.connect(urlsplit(URL).path[1:])
        return connection.execute(QUERY, (user_id, session_id)).fetchone()

    return find


def postgres_reader() -> Callable[[str, str], Any]:
    query = QUERY.replace("?", "%s")
    pool: queue.LifoQueue[Any] = queue.LifoQueue()
    for _ in range(8):
        pool.put(None)

    def find(user_id: str, session_id: str) -> Any:
        connection = pool.get()
        try:
            if connection is None:
                connection = psycopg.connect(URL, autocommit=True)
            return connection.execute(query, (user_id, session_id)).fetchone()
        finally:
            pool.put(connection)

    return find


find = sqlite_reader() if URL.startswith("sqlite") else postgres_reader()


def bearer() -> tuple[dict[str, Any], Any]:
    try:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        claims = jwt.decode(
            token, SECRET, algorithms=["HS256"], audience="accounts:access", issuer="accounts"
        )
    except jwt.PyJWTError:
        abort(401)
    row = find(claims["sub"], claims["sid"])
    if row is None:
        abort(401)
    return claims, row


def answer(data: dict[str, Any], **more: str) -> Response:
    content = {"success": True, **more, "data": data}
    return Response(orjson.dumps(content), mimetype="application/json")


@app.get("/api/auth/verify")
def verify() -> Response:
    claims, row = bearer()
    user = dict(zip(("id", "username", "email", "role"), row, strict=False))
    left = claims["exp"] - int(time.time())
    data = {"valid": True, "expiresIn": left, "user": user}
    return answer(data, message="This access token is valid.")


@app.get("/api/users/profile")
def profile() -> Response:
    data = dict(zip(PROFILE, bearer()[1], strict=True))
    data["avatar"] = f"/avatars/{data['avatar'] or 'default'}.webp"
    data["joinDate"] = moment(data["joinDate"])
    data["lastLogin"] = data["lastLogin"] and moment(data["lastLogin"])
    data["isActive"] = bool(data["isActive"])
    data["emailVerified"] = data["emailVerified"] is not None
    return answer(data)


def moment(value: Any) -> str:
    found = datetime.fromisoformat(value) if isinstance(value, str) else value.astimezone(UTC)
    return str(found.replace(tzinfo=None).isoformat(timespec="seconds")) + "Z"


@bare.get("/api/auth/verify")
def fixed() -> dict[str, Any]:
    user = {"id": "1", "username": "user0000001", "email": "u@example.org", "role": "student"}
    data = {"valid": True, "expiresIn": 900, "user": user}
    return {"success": True, "message": "This access token is valid.", "data": data}
