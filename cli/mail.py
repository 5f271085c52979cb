"""`flask mail`: whether mail goes out."""

import click

import schemas
from cli.base import Commands, load
from core import smtp
from core.addresses import has_mailbox
from extensions import settings
from services import outbox

mail = Commands("mail", help="Check that mail goes out.")


@mail.command("test")
@click.argument("address")
def send_test(address: str) -> None:
    """Send an e-mail to ADDRESS now, and print what the mail server says."""
    recipient = load(schemas.Address(), email=address)["email"]
    if not has_mailbox(recipient):
        raise click.UsageError("No e-mail goes to an address under .invalid.")
    if not settings.mail_url:
        raise click.ClickException("MAIL_URL names no server: e-mails are printed to the log.")
    try:
        click.echo(f"The mail server has accepted it: {outbox.send_test(recipient)}")
    except smtp.NotSent as error:
        said = f" It said: {error.said}" if error.said else ""
        raise click.ClickException(f"It was not sent: {error}.{said}") from None
