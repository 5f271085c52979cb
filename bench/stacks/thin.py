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
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import jwt
import orjson
import psycopg
from flask import Flask, Response, abort, request

SECRET = os.environ["SECRET_KEY"].encode()
URL = os.environ["DATABASE_URL"]
# Whether a refresh on SQLite waits for the disk, as on Postgres.
SYNCHRONOUS = "FULL" if os.environ.get("THIN_FSYNC", "1") == "1" else "OFF"
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

ROTATE = """
    UPDATE sessions SET refresh_token_id = ?, previous_token_id = refresh_token_id, last_used_at = ?
    WHERE id = ? AND user_id = ? AND refresh_token_id = ?
      AND EXISTS (SELECT 1 FROM users WHERE id = user_id AND is_active)
    RETURNING (SELECT role FROM users WHERE id = user_id)
"""

app = Flask(__name__)
bare = Flask("bare")


def sqlite_row() -> Callable[..., Any]:
    own = threading.local()

    def find(statement: str, *parameters: str) -> Any:
        connection = getattr(own, "connection", None)
        if connection is None:
            path = urlsplit(URL).path[1:]
            connection = own.connection = sqlite3.connect(path, isolation_level=None)
            connection.execute(f"PRAGMA synchronous={SYNCHRONOUS}")
        return connection.execute(statement, parameters).fetchone()

    return find


def postgres_row() -> Callable[..., Any]:
    pool: queue.LifoQueue[Any] = queue.LifoQueue()
    for _ in range(8):
        pool.put(None)

    def find(statement: str, *parameters: str) -> Any:
        connection = pool.get()
        try:
            if connection is None:
                connection = psycopg.connect(URL, autocommit=True)
            return connection.execute(statement.replace("?", "%s"), parameters).fetchone()
        finally:
            pool.put(connection)

    return find


find = sqlite_row() if URL.startswith("sqlite") else postgres_row()


def bearer() -> tuple[dict[str, Any], Any]:
    try:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        claims = jwt.decode(
            token, SECRET, algorithms=["HS256"], audience="accounts:access", issuer="accounts"
        )
    except jwt.PyJWTError:
        abort(401)
    row = find(QUERY, claims["sub"], claims["sid"])
    if row is None:
        abort(401)
    return claims, row


def answer(data: dict[str, Any], **more: str) -> Response:
    content = {"success": True, **more, "data": data}
    return Response(orjson.dumps(content), mimetype="application/json")


@app.post("/api/auth/refresh")
def refresh() -> Response:
    old = request.get_json()["refreshToken"]
    try:
        claims = jwt.decode(
            old, SECRET, algorithms=["HS256"], audience="accounts:refresh", issuer="accounts"
        )
    except jwt.PyJWTError:
        abort(401)
    now, token_id = datetime.now(UTC), str(uuid4())
    facts = {"iss": "accounts", "sub": claims["sub"], "sid": claims["sid"], "iat": now}
    row = find(ROTATE, token_id, str(now), claims["sid"], claims["sub"], claims["jti"])
    if row is None:
        abort(401)
    access = {"aud": "accounts:access", "type": "access", "jti": str(uuid4()), "role": row[0]}
    access["exp"] = now + timedelta(minutes=15)
    more = {"aud": "accounts:refresh", "type": "refresh", "jti": token_id, "exp": claims["exp"]}
    tokens = {"accessToken": jwt.encode(facts | access, SECRET), "expiresIn": 900}
    tokens["refreshToken"] = jwt.encode(facts | more, SECRET)
    return answer(tokens, message="Here are your new tokens.")


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
