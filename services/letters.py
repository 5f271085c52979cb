"""Our e-mails, written when they are sent.

They contain no name and no username. Otherwise anybody could register a victim's e-mail address
with an advertisement as a name, and we would deliver it.
"""

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from types import SimpleNamespace
from typing import NamedTuple

from core import clock
from core.templates import Mail
from core.tokens import Purpose, fingerprint
from extensions import settings, templates, tokens
from models import User
from services import profiles

VERIFICATION_DAYS = 3


class MailKind(StrEnum):
    """What an e-mail is about; also the name of its templates."""

    PASSWORD_RESET = "password_reset"
    EMAIL_VERIFICATION = "email_verification"
    PASSWORD_CHANGED = "password_changed"
    ACCOUNT_DELETED = "account_deleted"


class Letter(NamedTuple):
    """An e-mail, and whether anybody needs it; otherwise it is not sent."""

    mail: Mail
    wanted: bool


def compose(
    kind: MailKind, address: str, *, queued_at: datetime, language: str | None = None
) -> Letter:
    """Return an e-mail to an address, in its user's language unless another one is given.

    The account is looked up here and not by the request, so that the response for an unknown
    address takes the same time, and so that the database never contains a usable token. The text
    is rendered even without a recipient; otherwise the load on this process would reveal whether
    the account exists.
    """
    user = profiles.read_user(User.email == address) or _NOBODY
    facts: dict[str, object] = {"happened_at": queued_at}
    wanted = True
    if kind is MailKind.PASSWORD_RESET:
        wanted = user.is_active
        life = timedelta(minutes=settings.reset_token_minutes)
        token = _token(Purpose.PASSWORD_RESET, user.id, life, bound_to=user.password_hash)
        facts |= {"link": f"{settings.reset_page}#token={token}", "life": life}
    elif kind is MailKind.EMAIL_VERIFICATION:
        wanted = user.email_verified_at is None
        life = timedelta(days=VERIFICATION_DAYS)
        token = _token(Purpose.EMAIL_VERIFICATION, user.id, life, bound_to=user.email)
        facts |= {"link": f"{settings.verification_page}#token={token}", "life": life}
    language = language or user.language or settings.default_language
    return Letter(templates.mail(kind, language, site=settings.site, **facts), wanted)


_NOBODY = SimpleNamespace(
    id="00000000-0000-7000-8000-000000000000",
    email="",
    language="",
    password_hash="",
    is_active=False,
    email_verified_at=datetime.min.replace(tzinfo=UTC),
)


def _token(purpose: Purpose, user_id: str, life: timedelta, *, bound_to: str) -> str:
    now = clock.utcnow()
    return tokens.encode(
        purpose, user_id, issued_at=now, expires_at=now + life, bound=fingerprint(bound_to)
    )
