"""The entry point of gunicorn, `flask run`, and every `flask <command>`."""

import logging

import click
from gunicorn.errors import AppImportError  # type: ignore[import-untyped]
from werkzeug.serving import is_running_from_reloader

from app import create_app
from config import ConfigError, local_url
from core import streams
from extensions import components
from services import background, start_check

streams.open_closed()
_command = click.get_current_context(silent=True)

try:
    app = create_app()
    # gunicorn.conf.py looks before it starts workers. Other commands say themselves what is wrong.
    given = components(app).settings.database_url
    if given and _command and _command.info_name == "run":
        start_check.refuse_unfit(given)
except ConfigError as error:
    # A message, and not a traceback; gunicorn ends, and does not start the worker again.
    raise (click.ClickException if _command else AppImportError)(str(error)) from None

# gunicorn.conf.py starts the background thread in gunicorn's workers. Commands such as
# `flask db upgrade` must not send e-mails.
if _command and _command.info_name == "run":
    # The reloader's parent process imports this file too, but serves no requests.
    reloads = app.debug if _command.params["reload"] is None else _command.params["reload"]
    if is_running_from_reloader() or not reloads:
        background.start(app)
        url = local_url(_command.params["host"], _command.params["port"])
        logging.getLogger("accounts").info("The service is at %s", url)
