"""The objects that an application holds once; `app.create_app` binds them to it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

from flask import Flask, Response, current_app
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import MetaData, Row, Table
from sqlalchemy.orm import DeclarativeBase
from werkzeug.local import LocalProxy

if TYPE_CHECKING:
    from config import Settings
    from core.audit import Actor
    from core.breaches import Breaches
    from core.id_tokens import IdTokens
    from core.images import Avatars
    from core.openid import Provider
    from core.passwords import Hasher
    from core.templates import Templates
    from core.tokens import TokenCodec
    from models import UserRow
    from services.background import BackgroundThread


class Base(DeclarativeBase):
    __table__: ClassVar[Table]  # SQLAlchemy declares a more general type
    # Named constraints can be changed by migrations on every database.
    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(column_0_label)s",
            "uq": "uq_%(table_name)s_%(column_0_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


# Rows stay readable after the commit, when their connection is back in the pool.
db = SQLAlchemy(model_class=Base, session_options={"expire_on_commit": False})


@dataclass
class Components:
    """What one application holds besides the database."""

    settings: "Settings"
    tokens: "TokenCodec"
    id_tokens: "IdTokens"
    hasher: "Hasher"
    breaches: "Breaches"
    avatars: "Avatars"
    templates: "Templates"
    # By their names in the settings.
    providers: "Mapping[str, Provider]"
    # Returns the active user with this id whose session with this id has not ended, or None.
    load_user: "Callable[[str, str], UserRow | None]"
    # Returns the row of this service key, or None.
    load_key: "Callable[[str], Row[Any] | None]"
    # Returns the page for the error with this code.
    error_page: "Callable[[str], Response]"
    # Returns who acts now: the caller of the request, or the machine.
    actor: "Callable[[], Actor]"
    background: "BackgroundThread | None" = None


def components(app: Flask = current_app) -> Components:
    """Return what an application holds, by default the current one."""
    return cast("Components", app.extensions["accounts"])


settings = cast("Settings", LocalProxy(lambda: components().settings))
tokens = cast("TokenCodec", LocalProxy(lambda: components().tokens))
id_tokens = cast("IdTokens", LocalProxy(lambda: components().id_tokens))
breaches = cast("Breaches", LocalProxy(lambda: components().breaches))
hasher = cast("Hasher", LocalProxy(lambda: components().hasher))
avatars = cast("Avatars", LocalProxy(lambda: components().avatars))
templates = cast("Templates", LocalProxy(lambda: components().templates))
