"""A look at the database before the service starts."""

import logging

from flask import Flask
from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError

import database
from database_check import UnfitDatabase, reason
from extensions import db

_log = logging.getLogger("accounts")


def refuse_unfit(url: URL) -> None:
    """Raise ConfigError if the database answers and cannot be right.

    One that cannot be reached is a line in the log: the service starts, and recovers by itself.
    """
    bare = Flask("start")  # something that `db` can be bound to
    database.init_app(bare, url)
    with bare.app_context():
        try:
            database.schema_is_ready()
        except DBAPIError as error:
            if not database.is_unavailable(error):
                raise UnfitDatabase(f"The database cannot be used: {reason(error)}.") from None
            _log.warning("The database is unavailable: %s", reason(error))
        finally:
            db.engine.dispose()  # the workers must not inherit a connection
