"""Signed texts: handed out, and read again when they come back, without a row for each.

A text has one purpose and an end. The newest key signs, the older ones still verify.
"""

import hashlib
import re
import struct
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from itsdangerous import BadSignature, Signer, base64_decode, base64_encode
from sqlalchemy import select

import errors
from core import clock
from database import insert_into, read_value
from extensions import db, settings
from models import DENIED_FOR, DeniedSession

# The last of a signature's 43 characters holds four bits. itsdangerous ignores its two other bits,
# so it would accept four spellings of each text.
_FORM = re.compile(r"[\w-]+\.[\w-]{42}[048AEIMQUYcgkosw]", re.ASCII)
_END = struct.Struct("!I")  # in seconds since 1970, which begin anew in 2106
_ERA = timedelta(seconds=2**32)


class NotSigned(Exception):
    """A text is not one of ours, or not for this purpose."""


class TooOld(Exception):
    """A text is ours, and its end has come."""


def sign(purpose: str, payload: bytes, *, end: datetime) -> str:
    """Return a text with this payload, good until its end. Everybody who has it can read it."""
    text = base64_encode(_END.pack(int(end.timestamp()) % 2**32) + payload)
    return _signer(purpose).sign(text).decode()


def read(purpose: str, text: str) -> tuple[bytes, datetime]:
    """Return the payload of a text for this purpose, and its end. Raises NotSigned and TooOld."""
    try:
        payload = base64_decode(_signer(purpose).unsign(text if _FORM.fullmatch(text) else ""))
    except BadSignature:
        raise NotSigned from None
    (seconds,) = _END.unpack_from(payload)
    now, end = clock.utcnow(), datetime.fromtimestamp(seconds, UTC)
    end += round((now - end) / _ERA) * _ERA
    if end <= now:
        raise TooOld
    return payload[_END.size :], end


def read_fresh(purpose: str, text: str, refusal: str | None = None) -> tuple[bytes, datetime]:
    """Return what `read` does. Raises InvalidToken, with this message, for any other text."""
    try:
        return read(purpose, text)
    except (NotSigned, TooOld):
        raise errors.InvalidToken(refusal) from None


def sign_list(purpose: str, life: timedelta, values: Iterable[Any]) -> str:
    """Return a text that says what JSON can say."""
    return sign(purpose, orjson.dumps([*values]), end=clock.utcnow() + life)


def read_list(purpose: str, text: str, refusal: str | None = None) -> Any:
    """Return what `sign_list` was given. Raises InvalidToken, also if it is too old."""
    return orjson.loads(read_fresh(purpose, text, refusal)[0])


def is_used(text_id: str) -> bool:
    """Return whether the text with this id was used up."""
    query = select(DeniedSession.session_id).where(DeniedSession.session_id == text_id)
    return read_value(query) is not None


def use_up(text_id: str) -> bool:
    """Use up the text with this id in the open transaction; return False if it was used before.

    For texts that live for less than DENIED_FOR. Of parallel calls, one gets True.
    """
    row = {"session_id": text_id, "expires_at": clock.utcnow() + DENIED_FOR}
    insert = insert_into(DeniedSession.__table__).values(row).on_conflict_do_nothing()
    return db.session.scalar(insert.returning(DeniedSession.session_id)) is not None


def _signer(purpose: str) -> Signer:
    keys = settings.secret_keys[::-1]  # itsdangerous signs with the last one
    return Signer(keys, salt=f"accounts:{purpose}", digest_method=hashlib.sha256)
