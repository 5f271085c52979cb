"""Commands for operators and schedulers, besides `flask run`.

They exit with 0 for success, 1 if the service refuses or cannot do it, 2 for malformed input.
What is refused is named on standard error. Passwords are not taken from the command line, where
other users of the machine could read them.
"""

import click
from flask import Flask
from flask.cli import with_appcontext

from cli import database, keys, learning, mail, users
from cli.base import plain_errors
from core import clock
from services import pruning, second_factor


@click.command("prune")
@with_appcontext
@plain_errors()
def prune() -> None:
    """Delete expired rows, and seal second factors with the newest SECRET_KEY.

    The running service does this by itself.
    """
    for table, number in pruning.prune(clock.utcnow()).items():
        click.echo(f"{table}: {number} removed")
    click.echo(f"second_factors: {second_factor.seal_anew()} sealed with the newest key")


def init_app(app: Flask) -> None:
    for command in (users.users, keys.keys, learning.learning, mail.mail, database.db, prune):
        app.cli.add_command(command)
