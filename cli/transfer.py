"""`flask users import` and `flask users dump`: accounts from other systems, and to them."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from tempfile import TemporaryFile
from typing import IO, Any

import click
import orjson
from flask.cli import with_appcontext

import schemas
from core import account_files, audit, csv_files
from fields import CustomFields, Flag
from models import UserRow
from services import custom_fields, transfer
from services.recovery import Handout

_FILE = click.Path(exists=True, dir_okay=False, allow_dash=True)
_KIND = click.Choice(["csv", "jsonl"])
_FORM = schemas.ImportedAccount().fields.values()
_COLUMNS = account_files.Columns(
    known=[str(each.data_key) for each in _FORM if not isinstance(each, CustomFields)],
    required=[str(each.data_key) for each in _FORM if each.required],
    flags={str(each.data_key) for each in _FORM if isinstance(each, Flag)},
)


def _lines(file: IO[bytes], *, as_csv: bool) -> Iterator[tuple[int, Any]]:
    more = custom_fields.columns() if as_csv else ["customFields"]
    columns = _COLUMNS._replace(known=[*_COLUMNS.known, *more])
    for number, line in account_files.read(file, columns, as_csv=as_csv):
        yield number, custom_fields.from_cells(line) if as_csv else line


@click.command("import")
@with_appcontext
@click.argument("path", metavar="FILE", type=_FILE, help="-: the standard input.")
@click.option("--format", "kind", type=_KIND, help="[default: csv if FILE ends so, else jsonl]")
@click.option("--dry-run", is_flag=True, help="Check everything and write nothing.")
@click.option("--invite", is_flag=True, help="Send invitations to new accounts without a hash.")
@click.option("--links", help="Write links and codes of accounts without a password to this file.")
@click.option("--allow-admins", is_flag=True, help="Take lines with the role admin.")
@click.option("--without-passwords", is_flag=True, help="Drop hashes that are not taken.")
def import_users(
    path: str, kind: str | None, dry_run: bool, invite: bool, links: str | None, **rules: bool
) -> None:
    """Add the accounts in FILE, JSON Lines or CSV: see docs/moving.md.

    Lines whose address has an account are left alone, so the same file can be imported again.
    """
    as_csv = kind == "csv" if kind else path.lower().endswith(".csv")
    if links is not None and os.path.lexists(links):
        raise click.UsageError("The file for --links is there already.")
    with ExitStack() as stack:
        try:
            file: IO[bytes] = stack.enter_context(click.open_file(path, "rb"))
            if path == "-" or not file.seekable():
                spooled = stack.enter_context(TemporaryFile())
                shutil.copyfileobj(file, spooled)
                file = spooled
            # Reads all of it, so that a file with a mistake in its form changes nothing.
            total = sum(1 for _ in _lines(file, as_csv=as_csv))
            write_link = None if links is None or dry_run else _links_file(links, stack)
        except (account_files.BadFile, OSError) as error:
            raise click.UsageError(str(error)) from None
        run = transfer.Import(
            lambda number, reason: click.echo(f"line {number}: {reason}", err=True),
            dry_run=dry_run,
            invite=invite,
            write_link=write_link,
            **rules,
        )
        try:
            for done in run.run(_lines(file, as_csv=as_csv)):
                if sys.stderr.isatty():
                    end = "\n" if done == total else "\r"
                    click.echo(f"{done} of {total} lines{end}", nl=False, err=True)
        except (account_files.BadFile, OSError) as error:  # as of a full disk
            raise click.ClickException(str(error)) from None
        finally:  # also when the database goes away in the middle
            made, present, refused = (run.counts[name] for name in ("made", "present", "refused"))
            if not dry_run:
                audit.log("accounts_imported", made=made, present=present, refused=refused)
            click.echo(f"made: {made}\npresent: {present}\nrefused: {refused}")
    if refused:
        sys.exit(1)


def _links_file(path: str, stack: ExitStack) -> Callable[[UserRow, Handout | None], None]:
    """Create a CSV file that only its owner can read; return what adds an account to it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    file = stack.enter_context(os.fdopen(descriptor, "w", encoding="utf-8", newline=""))

    def add(*cells: str) -> None:
        file.write(csv_files.lines([cells]))
        file.flush()

    def write(user: UserRow, made: Handout | None) -> None:
        texts = (f"{user.first_name} {user.last_name}", user.username, user.email)
        add(*map(csv_files.guarded, texts), *((made.code, made.link) if made else ("", "")))

    add("name", "username", "address", "code", "link")
    return write


@click.command("dump")
@with_appcontext
@click.option("--with-hashes", is_flag=True, help="With the hashes of passwords.")
def dump_users(with_hashes: bool) -> None:
    """Print all accounts as JSON Lines, as `flask users import` takes them."""
    count = 0
    try:
        for accounts in transfer.dump(with_hashes=with_hashes):
            click.echo(b"".join(orjson.dumps(each) + b"\n" for each in accounts), nl=False)
            count += len(accounts)
    finally:
        audit.log("accounts_dumped", accounts=count, with_hashes=str(with_hashes).lower())
