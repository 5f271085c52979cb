"""Builds e-mail messages (RFC 5322), safe against header injection."""

import re
from datetime import datetime
from email.header import Header
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import EmailPolicy
from email.utils import format_datetime
from typing import Any

from core.addresses import PLAIN_ADDRESS
from core.smtp import MailRefused
from core.templates import Mail

# The longest line of an encoded body (RFC 2045) and of a header with encoded words (RFC 2047). An
# address may need a longer one (RFC 5322 allows 998 characters), because it cannot be broken.
LINE = 76
# A text that a header shows as it is, in lines that can be broken at spaces. Readers would decode
# what looks like an encoded word.
_PLAIN = re.compile(r"(?!.*=\?)(?!.*[^ ]{61})[ -~]*")


class _AsWritten(EmailPolicy):
    """Keeps these headers as they are written here.

    The `email` package would encode a long address when it folds it, and reads encoded words in a
    subject: in some Python versions, what they stand for becomes a header of its own.
    """

    def header_store_parse(self, name: str, value: Any) -> tuple[str, Any]:
        is_ours = name in ("From", "To", "Subject")
        return (name, value) if is_ours else super().header_store_parse(name, value)


_POLICY = _AsWritten(linesep="\r\n", cte_type="7bit", max_line_length=LINE, refold_source="none")


def build(
    content: Mail, sender: Address, recipient: str, mail_id: str, created_at: datetime
) -> EmailMessage:
    """Return a message with a text and an HTML body (multipart/alternative, UTF-8).

    Message-ID and Date come from `mail_id` and `created_at`, so receivers recognise an e-mail that
    is sent twice. Auto-Submitted (RFC 3834) prevents automatic replies. Raises MailRefused unless
    the recipient is exactly one plain address.
    """
    if not PLAIN_ADDRESS.fullmatch(recipient):
        raise MailRefused("the recipient is not exactly one plain address")
    message = EmailMessage(policy=_POLICY)
    message["From"] = _mailbox(sender)
    message["To"] = recipient
    charset = "us-ascii" if _PLAIN.fullmatch(content.subject) else "utf-8"
    message["Subject"] = _folded("Subject", content.subject, charset)
    message["Date"] = format_datetime(created_at)
    message["Message-ID"] = f"<{mail_id}@{sender.domain}>"
    message["Auto-Submitted"] = "auto-generated"
    # Quoted-printable keeps long links intact and stays readable.
    message.set_content(content.text, cte="quoted-printable")
    message.add_alternative(content.html, subtype="html", cte="quoted-printable")
    return message


def _mailbox(address: Address) -> str:
    if not address.display_name:
        return address.addr_spec
    if _PLAIN.fullmatch(address.display_name):
        return _folded("From", str(address), "us-ascii")
    return f"{_folded('From', address.display_name, 'utf-8')}\r\n <{address.addr_spec}>"


def _folded(name: str, text: str, charset: str) -> str:
    return Header(text, charset, LINE, name).encode(splitchars=" ", linesep="\r\n")
