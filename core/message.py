"""A mail as it goes over the line (RFC 5322), with headers that nobody can add to."""

import re
from datetime import datetime
from email import policy
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime

_SENDER_PROBLEM = "must be one address, such as accounts@example.org"

# A dot-atom and a host name or address literal: one address, and nothing that a parser reads as
# a second one, a comment, a quoted text or the end of a line.
_ADDRESS = re.compile(
    r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@(?:[A-Za-z0-9.-]{1,253}|\[[A-Za-z0-9.:]{1,64}\])"
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def parse_sender(raw: str) -> Address:
    """Return the one mailbox in a From header such as `Accounts <accounts@example.org>`.

    Raises ValueError, whose text goes on after "MAIL_FROM", when it is anything else.
    """
    # Not asked of the email package, which fails on some broken addresses in ways of its own.
    name, bracket, rest = raw.rpartition("<")
    name = name.strip()
    if len(name) > 1 and name[0] == name[-1] == '"':
        name = name[1:-1]
    address = rest.removesuffix(">") if bracket else raw
    if (bracket and not rest.endswith(">")) or re.search(r'[<>"\\]', name) or _unsafe(name):
        raise ValueError(_SENDER_PROBLEM)
    try:
        _check_address(address)
    except ValueError:
        raise ValueError(_SENDER_PROBLEM) from None
    username, _, domain = address.partition("@")
    return Address(display_name=name, username=username, domain=domain)


def build(
    *,
    sender: str,
    recipient: str,
    subject: str,
    text: str,
    html: str,
    mail_id: str,
    created_at: datetime,
) -> EmailMessage:
    """Return a mail with a text and an HTML body (multipart/alternative, UTF-8).

    Message-ID and Date come from `mail_id` and `created_at`, so that a mail which is sent twice is
    the same mail, and receivers can tell. It is marked as sent by a machine (RFC 3834), so that no
    holiday notice answers it. Raises ValueError for a recipient that is not exactly one plain
    address and for control characters in the recipient or the subject.
    """
    _check_address(recipient)
    # The email package of some Python versions turns encoded words and line ends in a header
    # into more headers. It is not asked.
    if _unsafe(subject):
        raise ValueError("the subject holds control characters or encoded words")
    mailbox = parse_sender(sender)
    message = EmailMessage(policy=policy.SMTP)
    message["From"] = mailbox
    message["To"] = recipient
    message["Subject"] = subject
    message["Date"] = format_datetime(created_at)
    message["Message-ID"] = f"<{mail_id}@{mailbox.domain}>"
    message["Auto-Submitted"] = "auto-generated"
    # Quoted-printable is the one encoding that is safe for long links and stays readable.
    message.set_content(text, cte="quoted-printable")
    message.add_alternative(html, subtype="html", cte="quoted-printable")
    return message


def _check_address(address: str) -> None:
    if not _ADDRESS.fullmatch(address) or _unsafe(address):
        raise ValueError("not exactly one plain address")


def _unsafe(header: str) -> bool:
    """Whether a text holds control characters, or an encoded word, which could hide some."""
    return bool(_CONTROL.search(header)) or "=?" in header
