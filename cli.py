"""Commands beside `flask run` and `flask db`: what a scheduler or an operator calls."""

from collections.abc import Iterator
from contextlib import contextmanager

import click
from flask import Flask
from flask.cli import AppGroup, with_appcontext

from core import clock
from database import is_unavailable
from services import outbox, pruning


@contextmanager
def _plainly() -> Iterator[None]:
    """Say in a sentence, instead of a traceback, that the database is away."""
    try:
        yield
    except Exception as error:
        if is_unavailable(error):
            raise click.ClickException("The database cannot be reached or used.") from None
        raise


mail = AppGroup("mail", help="Mails that wait in the outbox.")


@mail.command("send")
def send_mail() -> None:
    """Try every mail in the outbox once, due or not."""
    with _plainly():
        tally = outbox.send_all()
    click.echo(f"{tally.sent} sent, {tally.failed} failed, {tally.dropped} dropped")
    if tally.server_down:
        raise click.ClickException("The mail server cannot be reached.")


@click.command("prune")
@with_appcontext
def prune() -> None:
    """Remove expired rows. The service does so by itself; this is for doing it now."""
    with _plainly():
        removed = pruning.prune(clock.utcnow())
    for table, number in removed.items():
        click.echo(f"{table}: {number} removed")


def init_app(app: Flask) -> None:
    """Register the commands."""
    app.cli.add_command(mail)
    app.cli.add_command(prune)
