"""The objects that an application holds once; `app.create_app` binds them to it."""

from typing import TYPE_CHECKING, cast

from flask import current_app
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import MetaData
from sqlalchemy.orm import DeclarativeBase
from werkzeug.local import LocalProxy

if TYPE_CHECKING:
    from config import Settings
    from core.images import Avatars
    from core.passwords import Hasher
    from core.tokens import TokenCodec


class Base(DeclarativeBase):
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

settings = cast("Settings", LocalProxy(lambda: current_app.extensions["settings"]))
hasher = cast("Hasher", LocalProxy(lambda: current_app.extensions["hasher"]))
avatars = cast("Avatars", LocalProxy(lambda: current_app.extensions["avatars"]))
tokens = cast("TokenCodec", LocalProxy(lambda: current_app.extensions["tokens"]))
