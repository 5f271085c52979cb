"""The entry point of gunicorn, `flask run`, and every `flask <command>`."""

import click

from app import create_app
from config import ConfigError
from database import enable_migrations
from services import background

_command = click.get_current_context(silent=True)

try:
    app = create_app()
except ConfigError as error:
    if _command:
        raise click.ClickException(str(error)) from None  # a message, not a traceback
    raise

# Commands such as `flask db upgrade` migrate, and must not send mail beside that; servers do.
if _command and _command.info_name != "run":
    enable_migrations(app)
else:
    background.start(app)
