"""Builds e-mail messages (RFC 5322), safe against header injection."""

import re
from datetime import datetime
from email import policy
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime

# One dot-atom at one host. No second address, comment, quoted string, encoded word or line end: the
# `email` package of some Python versions turns those into additional headers.
_ADDRESS = re.compile(r"(?!.*=\?)[\w.!#$%&'*+/=?^`{|}~-]{1,64}@[A-Za-z0-9.-]{1,253}", re.ASCII)
_NAMED = re.compile(r'"?([^"<>\\]*?)"?\s*<([^<>]*)>')

# One line for each header (RFC 5322 allows 998 characters): when the `email` package folds a long
# address, it encodes it, and the e-mail cannot be delivered.
_POLICY = policy.SMTP.clone(max_line_length=998, cte_type="7bit")


def parse_sender(raw: str) -> Address:
    """Return the sender of `accounts@example.org` or `Accounts <accounts@example.org>`.

    Raises ValueError with a text that continues "MAIL_FROM".
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

    Message-ID and Date come from `mail_id` and `created_at`, so receivers recognise an e-mail that
    is sent twice. Auto-Submitted (RFC 3834) prevents automatic replies. Raises ValueError unless
    the recipient is exactly one plain address.
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
    # Quoted-printable keeps long links intact and stays readable.
    message.set_content(text, cte="quoted-printable")
    message.add_alternative(html, subtype="html", cte="quoted-printable")
    return message
