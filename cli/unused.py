"""`flask users unused`: accounts that nobody uses."""

import click
from flask.cli import with_appcontext

from cli.base import written
from core import clock, csv_files
from services import unused

# Accounts that are warned or deleted without a question.
FEW = 100


@click.command("unused")
@with_appcontext
@click.option("--days", type=click.IntRange(30, 3650), required=True, help="30 or more.")
@click.option("--warn", is_flag=True, help="Warn their users by mail, and note the day.")
@click.option("--delete", is_flag=True, help="Delete those that were warned 30 days ago.")
@click.option("--without-mailbox", is_flag=True, help="Delete also those without a mailbox.")
@click.option("--with-certificates", is_flag=True, help="Also those with a valid certificate.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def unused_users(
    days: int, warn: bool, delete: bool, without_mailbox: bool, with_certificates: bool, yes: bool
) -> None:
    """List accounts without a login, an open session or a lesson for so many days, as CSV; or warn
    their users, or delete those that were warned: see docs/operations.md.

    Never admins, and accounts with an `externalId`.
    """
    if warn and delete:
        raise click.UsageError("Give --warn or --delete, not both.")
    now = clock.utcnow()
    wanted = [unused.listed(days, now, with_certificates=with_certificates)]
    if warn:
        wanted.append(unused.to_warn(now))
    elif delete:
        wanted.append(unused.to_delete(now, without_mailbox=without_mailbox))
    found = unused.find(*wanted)
    if not (warn or delete):
        rows = [("id", "username", "address", "last login", "warned")]
        for row in found:
            names = map(csv_files.guarded, (row.username, row.email))
            warned = f"{row.warned_at:%Y-%m-%d}" if row.warned_at else ""
            rows.append((row.id, *names, written(row.last_login_at), warned))
        click.echo(csv_files.lines(rows), nl=False)
        click.echo(f"unused: {len(found)}", err=True)
        return
    if len(found) > FEW and not yes:
        click.confirm(f"{'Warn' if warn else 'Delete'} {len(found)} accounts?", abort=True)
    act, done = unused.warn if warn else unused.delete, 0
    try:
        for row in found:
            done += act(row.id, *wanted)
    finally:  # also when it is stopped in the middle
        click.echo(f"{'warned' if warn else 'deleted'}: {done}")
