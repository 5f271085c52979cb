"""`flask db`: Flask-Migrate's commands, and copies of the whole database."""

import sys
from functools import partial
from pathlib import Path
from typing import cast

import click
from flask import Flask
from flask.cli import with_appcontext

import database
from cli.base import plain_errors
from config import types
from services import copies


def _read_url() -> str:
    if sys.stdin.isatty():
        return click.prompt("URL", hide_input=True)
    return sys.stdin.readline().strip()


@click.command("copy-to")
@click.argument("url")
@with_appcontext
@plain_errors()
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
@with_appcontext
@plain_errors()
def backup(file: Path) -> None:
    """Write a copy of the SQLite database into the new FILE, also while the service runs.

    SECRET_KEY is not in it; that of the embedded database is in `instance/secret_key`.
    """
    copies.backup(file)
    click.echo(f"{file} holds the database as it was at the start of this command.")


def enable_database_commands(app: Flask) -> None:
    """Add `flask db` to the application."""
    database.enable_migrations(app)
    group = cast("click.Group", app.cli.commands["db"])
    for command in (copy_to, backup):
        group.add_command(command)
