"""The entry point of gunicorn, `flask run`, and every `flask <command>`."""

import logging

import click
from gunicorn.errors import AppImportError  # type: ignore[import-untyped]
from sqlalchemy.exc import DBAPIError
from werkzeug.serving import is_running_from_reloader

from app import create_app
from config import ConfigError
from config.types import local_url
from database import schema
from database_check import reason
from services import background

_command = click.get_current_context(silent=True)

try:
    app = create_app()
    if _command and _command.info_name == "run":
        with app.app_context():
            schema.refuse_unfit()
except (ConfigError, OSError, DBAPIError) as error:  # the latter two: the embedded database
    # A message, and not a traceback; gunicorn ends, and does not start the worker again.
    problem = str(error) if isinstance(error, ConfigError) else reason(error)
    raise (click.ClickException if _command else AppImportError)(problem) from None

# gunicorn.conf.py starts the background thread in gunicorn's workers. Commands such as
# `flask db upgrade` must not send e-mails.
if _command and _command.info_name == "run":
    # The reloader's parent process imports this file too, but serves no requests.
    reloads = app.debug if _command.params["reload"] is None else _command.params["reload"]
    if is_running_from_reloader() or not reloads:
        background.start(app)
        url = local_url(_command.params["host"], _command.params["port"])
        logging.getLogger("accounts").info("The service is at %s", url)
