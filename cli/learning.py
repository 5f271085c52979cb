"""`flask learning`: learning records of all users."""

import sys
from pathlib import Path

import click

from cli.base import Commands
from core.files import new_file
from services import bulk

learning = Commands("learning", help="Export learning records.")


@learning.command("export")
@click.argument("kind", type=click.Choice([*bulk.KINDS]), help="What to export.")
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path), help="A new file.")
def export(kind: str, path: Path) -> None:
    """Write all records of a kind as CSV into FILE, also while the service runs.

    It is read page by page: what is delivered meanwhile is in it or not.
    """
    of, done = bulk.KINDS[kind], 0
    try:
        with new_file(path) as file:
            file.write(bulk.head(of).encode())
            for records in bulk.everything(of):
                file.write(bulk.as_csv(of, records).encode())
                done += len(records)
                if sys.stderr.isatty():
                    click.echo(f"{done} records\r", nl=False, err=True)
    except OSError as error:  # as of a full disk
        raise click.ClickException(f"{path} cannot be written: {error.strerror}.") from None
    click.echo(f"{kind}: {done} records")
