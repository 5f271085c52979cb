"""The usual stack of tutorials: Flask-JWT-Extended, Flask-SQLAlchemy's ORM, marshmallow, bcrypt.

A call with a token costs two queries: one for the blocklist, one for the user. A refresh spends
its token by putting its id on the blocklist. The tables are the service's own; a row of `denylist`
is a token here and not a session.
"""

import os
from datetime import UTC, datetime
from typing import Any

import bcrypt
import flask_jwt_extended as jwt_ext
from flask import Flask, jsonify, request
from flask_sqlalchemy import SQLAlchemy
from marshmallow import Schema, fields

app = Flask(__name__)
app.config["SQLALCHEMY_DATABASE_URI"] = os.environ["DATABASE_URL"].replace(
    "postgresql://", "postgresql+psycopg://"
)
app.config["JWT_SECRET_KEY"] = os.environ["SECRET_KEY"]
app.config["JWT_REFRESH_JSON_KEY"] = "refreshToken"

db = SQLAlchemy(app)
jwt = jwt_ext.JWTManager(app)
with app.app_context():
    db.reflect()


class User(db.Model):  # type: ignore[name-defined,misc]
    __table__ = db.metadata.tables["users"]
    __mapper_args__ = {"exclude_properties": ["search_key"]}


class BlockedToken(db.Model):  # type: ignore[name-defined,misc]
    __table__ = db.metadata.tables["denylist"]


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


def pair(user: Any) -> dict[str, Any]:
    return {
        "accessToken": jwt_ext.create_access_token(user.id),
        "refreshToken": jwt_ext.create_refresh_token(user.id),
        "expiresIn": 900,
    }


@app.get("/api/auth/verify")
@jwt_ext.jwt_required()
def verify() -> Any:
    left = jwt_ext.get_jwt()["exp"] - int(datetime.now(UTC).timestamp())
    data = {"valid": True, "expiresIn": left, "user": UserSchema().dump(jwt_ext.current_user)}
    return jsonify(success=True, message="This access token is valid.", data=data)


@app.post("/api/auth/refresh")
@jwt_ext.jwt_required(refresh=True, locations=["json"])
def refresh() -> Any:
    claims = jwt_ext.get_jwt()
    expires_at = datetime.fromtimestamp(claims["exp"], UTC)
    db.session.add(BlockedToken(session_id=claims["jti"], expires_at=expires_at))
    answer = pair(jwt_ext.current_user)
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
