"""Commands beside `flask run` and `flask db`: what a scheduler or an operator calls."""

import click
from flask import Flask
from flask.cli import AppGroup, with_appcontext

from core import clock
from services import outbox, pruning

mail = AppGroup("mail", help="Mails that wait in the outbox.")


@mail.command("send")
def send_mail() -> None:
    """Try every mail in the outbox once, due or not."""
    tally = outbox.send_all()
    click.echo(f"{tally.sent} sent, {tally.failed} failed, {tally.dropped} dropped")
    if tally.server_down:
        raise click.ClickException("The mail server cannot be reached.")


@click.command("prune")
@with_appcontext
def prune() -> None:
    """Remove expired rows. The service does so by itself; this is for doing it now."""
    for table, number in pruning.prune(clock.utcnow()).items():
        click.echo(f"{table}: {number} removed")


def init_app(app: Flask) -> None:
    """Register the commands."""
    app.cli.add_command(mail)
    app.cli.add_command(prune)
