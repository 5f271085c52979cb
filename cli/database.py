"""`flask db`: Flask-Migrate's commands, and copies of the whole database."""

import sys
from collections.abc import Callable
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any, cast

import click
from flask import Flask

import database
from cli.base import Commands
from config import types
from services import copies


def _read_url() -> str:
    if sys.stdin.isatty():
        return click.prompt("URL", hide_input=True)
    return sys.stdin.readline().strip()


@click.command("copy-to")
@click.argument("url")
def copy_to(url: str) -> None:
    """Copy everything into the empty database at URL, on SQLite or Postgres.

    With `-`, it asks for URL, or without a terminal reads it from the next line of its standard
    input: no list of processes shows the password then. The target gets its schema first. A copy
    that is interrupted leaves no rows there, so it can be run again.
    """
    try:
        target = types.database_url(_read_url() if url == "-" else url)
    except ValueError as error:
        raise click.UsageError(f"URL {error}") from None
    click.echo(
        "The service should be stopped: what changes from now on stays behind, and queued e-mails "
        "could be sent from both databases.",
        err=True,
    )
    on_terminal = partial(click.progressbar, file=sys.stderr, hidden=not sys.stderr.isatty())
    counts = copies.copy_to(target, on_terminal)
    for table, number in counts.items():
        click.echo(f"{table}: {number} copied")


@click.command("backup")
@click.argument("file", type=click.Path(path_type=Path))
def backup(file: Path) -> None:
    """Write a copy of the SQLite database into the new FILE, also while the service runs.

    SECRET_KEY is not in it; that of the embedded database is in `instance/secret_key`.
    """
    copies.backup(file)
    click.echo(f"{file} holds the database as it was at the start of this command.")


def _unless_newer(migrate: Callable[..., None]) -> Callable[..., None]:
    def upgrade(**options: Any) -> None:
        found = database.schema_revision()
        if found <= database.SCHEMA_REVISION:
            migrate(**options)
            return
        # On the way back from a newer release. Its migrations are not here, and every way to start
        # the service runs this command first.
        text = f"the schema ({found}) is newer than this release ({database.SCHEMA_REVISION})"
        click.echo(f"Warning: {text}, which works with it. Nothing was changed.", err=True)

    return upgrade


def enable_database_commands(app: Flask) -> None:
    """Add `flask db` to the application."""
    database.enable_migrations(app)
    theirs = cast("click.Group", app.cli.commands["db"])
    # Each process has one group of Flask-Migrate, so it is left as it is.
    group = Commands("db", params=theirs.params, callback=theirs.callback, help=theirs.help)
    upgrade = copy(theirs.commands["upgrade"])
    upgrade.callback = _unless_newer(cast("Callable[..., None]", upgrade.callback))
    for command in (*theirs.commands.values(), upgrade, copy_to, backup):
        if command.name != "downgrade":  # the release before works with the newer schema
            group.add_command(command)
    app.cli.add_command(group)
