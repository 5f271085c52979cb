"""Builds e-mail messages (RFC 5322), safe against header injection."""

from datetime import datetime
from email import policy
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime

from core.addresses import PLAIN_ADDRESS

# One line for each header (RFC 5322 allows 998 characters): when the `email` package folds a long
# address, it encodes it, and the e-mail cannot be delivered.
_POLICY = policy.SMTP.clone(max_line_length=998, cte_type="7bit")


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
    if not PLAIN_ADDRESS.fullmatch(recipient):
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
