"""`flask db`: migrations, and copies of the whole database."""

import sys
from functools import partial
from pathlib import Path

import click

from cli.base import Commands
from config import types
from database import schema
from services import copies

db = Commands("db", help="Upgrade, copy and back up the database.")


@db.command("upgrade")
def upgrade() -> None:
    """Bring the schema up to date. Several processes may do that at once."""
    found = schema.revision()
    if found <= schema.NEWEST:
        schema.upgrade()
        schema.is_ready()  # refuses what has not all tables and rights
        return
    # On the way back from a newer release. Its migrations are not here, and every way to start the
    # service runs this command first.
    text = f"the schema ({found}) is newer than this release ({schema.NEWEST})"
    click.echo(f"Warning: {text}, which works with it. Nothing was changed.", err=True)


@db.command("migrate")
@click.option("-m", "--message", required=True, help="What it does.")
def migrate(message: str) -> None:
    """Write a migration that brings the schema to what models.py says, for you to check.

    The database is upgraded first.
    """
    schema.upgrade()
    number = f"{int(schema.NEWEST) + 1:04}"
    schema.run_alembic("revision", message, autogenerate=True, rev_id=number)


def _read_url() -> str:
    if sys.stdin.isatty():
        return click.prompt("URL", hide_input=True)
    return sys.stdin.readline().strip()


@db.command("copy-to")
@click.argument("url", help="-: asked for, or the next line of the standard input.")
def copy_to(url: str) -> None:
    """Copy everything into the empty database at URL, which no list of processes shows with -.

    The target gets its schema first. A copy that is interrupted leaves no rows there, so it can be
    run again.
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


@db.command("backup")
@click.argument("file", type=click.Path(path_type=Path), help="A new file.")
def backup(file: Path) -> None:
    """Write a copy of the SQLite database into FILE, also while the service runs.

    SECRET_KEY is not in it; that of the embedded database is in `instance/secret_key`.
    """
    copies.backup(file)
    click.echo(f"{file} holds the database as it was at the start of this command.")
