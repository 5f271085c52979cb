"""The usual stack of tutorials: Flask-JWT-Extended, Flask-SQLAlchemy's ORM, marshmallow, bcrypt.

A call with a token costs two queries: one for the blocklist, one for the user. A refresh spends
its token by putting its id on the blocklist. The tables are the service's own; a row of `denylist`
is a token here and not a session.
"""

import os
from datetime import UTC, datetime
from typing import Any

import bcrypt
from flask import Flask, jsonify, request
from flask_jwt_extended import (
    JWTManager,
    create_access_token,
    create_refresh_token,
    current_user,
    get_jwt,
    jwt_required,
)
from flask_sqlalchemy import SQLAlchemy
from marshmallow import Schema, ValidationError, fields

app = Flask(__name__)
# Which driver speaks to Postgres is no part of the comparison.
app.config["SQLALCHEMY_DATABASE_URI"] = os.environ["DATABASE_URL"].replace(
    "postgresql://", "postgresql+psycopg://"
)
app.config["JWT_SECRET_KEY"] = os.environ["SECRET_KEY"]
app.config["JWT_REFRESH_JSON_KEY"] = "refreshToken"

db = SQLAlchemy(app)
jwt = JWTManager(app)


class User(db.Model):  # type: ignore[name-defined,misc]
    __tablename__ = "users"

    id = db.Column(db.String(36), primary_key=True)
    username = db.Column(db.String(32))
    username_key = db.Column(db.String(32))
    email = db.Column(db.String(254))
    first_name = db.Column(db.String(64))
    last_name = db.Column(db.String(64))
    password_hash = db.Column(db.String(255))
    password_version = db.Column(db.Integer)
    role = db.Column(db.String(16))
    is_active = db.Column(db.Boolean)
    email_verified_at = db.Column(db.DateTime(timezone=True))
    created_at = db.Column(db.DateTime(timezone=True))
    last_login_at = db.Column(db.DateTime(timezone=True))
    bio = db.Column(db.String(500))
    location = db.Column(db.String(100))
    website = db.Column(db.String(200))
    avatar_digest = db.Column(db.String(64))


class BlockedToken(db.Model):  # type: ignore[name-defined,misc]
    __tablename__ = "denylist"

    session_id = db.Column(db.String(36), primary_key=True)
    expires_at = db.Column(db.DateTime(timezone=True))


class LoginSchema(Schema):
    email = fields.Email(required=True)
    password = fields.String(required=True)


class UserSchema(Schema):
    id = fields.String()
    username = fields.String()
    email = fields.String()
    role = fields.String()


@jwt.user_lookup_loader
def load_user(_header: dict[str, Any], claims: dict[str, Any]) -> Any:
    return db.session.get(User, claims["sub"])


@jwt.token_in_blocklist_loader
def is_blocked(_header: dict[str, Any], claims: dict[str, Any]) -> bool:
    return db.session.get(BlockedToken, claims["jti"]) is not None


@app.errorhandler(ValidationError)
def invalid(error: ValidationError) -> Any:
    return jsonify(success=False, error=error.messages), 400


def pair(user: Any) -> dict[str, Any]:
    return {
        "accessToken": create_access_token(user.id),
        "refreshToken": create_refresh_token(user.id),
        "expiresIn": 900,
    }


@app.get("/api/auth/verify")
@jwt_required()
def verify() -> Any:
    left = get_jwt()["exp"] - int(datetime.now(UTC).timestamp())
    data = {"valid": True, "expiresIn": left, "user": UserSchema().dump(current_user)}
    return jsonify(success=True, message="This access token is valid.", data=data)


@app.post("/api/auth/refresh")
@jwt_required(refresh=True, locations=["json"])
def refresh() -> Any:
    claims = get_jwt()
    expires_at = datetime.fromtimestamp(claims["exp"], UTC)
    db.session.add(BlockedToken(session_id=claims["jti"], expires_at=expires_at))
    answer = pair(current_user)
    db.session.commit()
    return jsonify(success=True, message="Here are your new tokens.", data=answer)


@app.post("/api/auth/login")
def login() -> Any:
    body = LoginSchema().load(request.get_json())
    user = User.query.filter_by(email=body["email"]).first()
    if user is None or not bcrypt.checkpw(body["password"].encode(), user.password_hash.encode()):
        return jsonify(success=False, error="invalid credentials"), 401
    user.last_login_at = datetime.now(UTC)
    db.session.commit()
    data = {**pair(user), "user": UserSchema().dump(user)}
    return jsonify(success=True, message="You are logged in.", data=data)
