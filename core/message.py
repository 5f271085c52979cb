"""An e-mail message (RFC 5322), with headers that nobody can add to."""

import re
from datetime import datetime
from email import policy
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime

# One dot-atom at one host: nothing that a parser reads as a second address, a comment, a quoted
# text, an encoded word or the end of a line. Checked here because the `email` package of some
# Python versions turns such addresses into further headers.
_ADDRESS = re.compile(r"(?!.*=\?)[\w.!#$%&'*+/=?^`{|}~-]{1,64}@[A-Za-z0-9.-]{1,253}", re.ASCII)
_NAMED = re.compile(r'"?([^"<>\\]*?)"?\s*<([^<>]*)>')

# Headers stay on one line each (RFC 5322 allows 998 characters): the `email` package encodes a
# long address when it breaks the line, and the mail is lost.
_POLICY = policy.SMTP.clone(max_line_length=998, cte_type="7bit")


def parse_sender(raw: str) -> Address:
    """Return the address in `accounts@example.org` or `Accounts <accounts@example.org>`.

    Raises ValueError, whose text goes on after "MAIL_FROM", when it is anything else.
    """
    named = _NAMED.fullmatch(raw)
    name, address = named.groups() if named else ("", raw)
    if not _ADDRESS.fullmatch(address) or not name.isprintable() or "=?" in name:
        raise ValueError("must be one address, such as accounts@example.org")
    username, _, domain = address.partition("@")
    return Address(display_name=name, username=username, domain=domain)


def build(
    *,
    sender: Address,
    recipient: str,
    subject: str,
    text: str,
    html: str,
    mail_id: str,
    created_at: datetime,
) -> EmailMessage:
    """Return a message with a text and an HTML body (multipart/alternative, UTF-8).

    Message-ID and Date come from `mail_id` and `created_at`, so that a mail which is sent twice is
    the same mail, and receivers can tell. It is marked as sent by a machine (RFC 3834), so that no
    holiday notice answers it. Raises ValueError for a recipient that is not exactly one plain
    address.
    """
    if not _ADDRESS.fullmatch(recipient):
        raise ValueError("the recipient is not exactly one plain address")
    message = EmailMessage(policy=_POLICY)
    message["From"] = sender
    message["To"] = recipient
    message["Subject"] = subject
    message["Date"] = format_datetime(created_at)
    message["Message-ID"] = f"<{mail_id}@{sender.domain}>"
    message["Auto-Submitted"] = "auto-generated"
    # Quoted-printable is the one encoding that is safe for long links and stays readable.
    message.set_content(text, cte="quoted-printable")
    message.add_alternative(html, subtype="html", cte="quoted-printable")
    return message
