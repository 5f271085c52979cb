"""Certificates: delivered by the course system, shared by their owners, checked by strangers."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Row, func, null, select, update

import errors
from core import codes
from database import change_one, read_all, read_one
from extensions import settings
from models import Certificate


def list_all(user_id: str) -> Sequence[dict[str, object]]:
    """Return the certificates of a user, newest first."""
    newest_first = Certificate.issued_at.desc(), Certificate.id.desc()
    query = select(Certificate.__table__).where(Certificate.user_id == user_id)
    return [with_url(row) for row in read_all(query.order_by(*newest_first))]


def share(user_id: str, certificate_id: str, shared: bool) -> dict[str, object]:
    """Share a certificate of a user or end that; return it. Raises NotFound.

    A shared one keeps its code. A code that has ended never comes back.
    """
    code = func.coalesce(Certificate.share_code, codes.new_share_code()) if shared else null()
    this = update(Certificate).filter_by(user_id=user_id, id=certificate_id)
    row = change_one(this.values(share_code=code).returning(Certificate.__table__))
    if row is None:
        raise errors.NotFound("There is no such certificate.")
    return with_url(row)


def check(typed: str, *, now: datetime) -> dict[str, object]:
    """Return what everybody may see of the certificate with this share code. Raises NotFound.

    The holder's account may be inactive.
    """
    is_meant = Certificate.share_code == codes.read_share_code(typed)
    row = read_one(select(Certificate.__table__).where(is_meant))
    if row is None:
        raise errors.NotFound("There is no certificate with this code.")
    is_over = row.expires_at is not None and row.expires_at <= now
    status = "revoked" if row.revoked_at else "expired" if is_over else "valid"
    return with_url(row) | {"status": status}


def with_url(row: Row[Any]) -> dict[str, object]:
    """Return a certificate with the URL at which it can be checked, "" if it is not shared."""
    code = row.share_code
    url = f"{settings.public_url}/certificates/{code}" if code else ""
    return {**row._asdict(), "verify_url": url}
