"""The types of single fields in the API's schemas: what a text, an address, a time may be.

They convert nothing that is of another JSON type, and they say in a sentence what is wrong.
"""

import re
from datetime import timedelta
from typing import Any

import email_validator
from marshmallow import ValidationError, fields, validate
from marshmallow.fields import Field

from core import clock, locales, passwords

# Characters of what is tried as an e-mail address at all; real ones have 254 at most.
MAX_ADDRESS = 1024
MAX_LINK = 200
# With as many digits of a second as anybody has a use for.
MAX_TIME = 64
# How far the clock of another machine may be ahead of ours.
CLOCK_TOLERANCE = timedelta(minutes=5)

# Reserved names such as school.test are refused by default; whether mail gets there is for the
# mail to show. This list is the library's documented switch.
email_validator.SPECIAL_USE_DOMAIN_NAMES.clear()

# What Unicode calls white space, without the four control characters that Python counts too.
WHITE_SPACE = "".join(
    char for char in map(chr, range(0x3001)) if char.isspace() and not "\x1c" <= char <= "\x1f"
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_PLAIN_LINK = re.compile(r"\w+://[^\s/?#@<>\"\\^`{|}]+([/?#][^\s<>\"\\^`{|}]*)?")
_check_link = validate.URL(schemes={"http", "https"})


def normalise_email(raw: str) -> str | None:
    """Return the one form under which an address is stored and looked up, or None for no address.

    Lower case, domain in its ASCII form (IDNA 2008); the local part must be ASCII.
    """
    if len(raw) > MAX_ADDRESS:
        return None
    try:
        found = email_validator.validate_email(
            raw.strip(WHITE_SPACE), check_deliverability=False, allow_smtputf8=False, strict=True
        )
    except email_validator.EmailNotValidError:
        return None
    return found.ascii_email.lower() if found.ascii_email else None


def example(value: Any) -> dict[str, Any]:
    """Return the metadata of a field whose value in the docs is this one."""
    return {"examples": [value]}


class Text(fields.String):
    """A trimmed string without control characters."""

    forbidden = _CONTROL

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> str:
        text = super()._deserialize(value, attr, data, **kwargs).strip(WHITE_SPACE)
        if self.forbidden.search(text):
            raise ValidationError("Control characters are not allowed.")
        return text


class Email(Text):
    """An e-mail address, in the form under which it is stored."""

    def __init__(self, **kwargs: Any) -> None:
        described = {"format": "email", "maxLength": 254}
        super().__init__(metadata={**described, **example("me@example.org")}, **kwargs)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> str:
        address = normalise_email(super()._deserialize(value, attr, data, **kwargs))
        if address is None:
            raise ValidationError("Not a valid email address.")
        return address


class NewPassword(fields.String):
    """A password to be set, in its NFKC form, never trimmed. `services.accounts` judges it."""

    def __init__(self, **kwargs: Any) -> None:
        described = {"format": "password", "maxLength": passwords.MAX_LENGTH}
        super().__init__(metadata={**described, **example("try something new")}, **kwargs)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> str:
        text = super()._deserialize(value, attr, data, **kwargs)
        if _CONTROL.search(text):
            raise ValidationError("Control characters are not allowed.")
        try:
            return passwords.normalise(text)
        except passwords.PasswordTooLong:
            raise ValidationError(f"Longer than {passwords.MAX_LENGTH} characters.") from None


class Prose(Text):
    """A trimmed text with line breaks."""

    forbidden = re.compile(r"[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f]")


class Link(Text):
    """An http or https URL, or an empty text."""

    def __init__(self, **kwargs: Any) -> None:
        described = {"maxLength": MAX_LINK, "description": "An http or https URL, or empty."}
        super().__init__(metadata={**described, **example("https://example.org/me")}, **kwargs)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> str:
        link = super()._deserialize(value, attr, data, **kwargs)
        if len(link) > MAX_LINK:
            raise ValidationError(f"Longer than maximum length {MAX_LINK}.")
        if link:
            # Names and passwords before the host serve only to make it look like another one.
            if not (link.isprintable() and _PLAIN_LINK.fullmatch(link)):
                raise ValidationError("Not a valid URL.")
            _check_link(link)
        return link


class Language(Text):
    """A BCP 47 language tag, in its standard form."""

    def __init__(self, **kwargs: Any) -> None:
        described = {"maxLength": locales.MAX_LANGUAGE_LENGTH, "description": "A BCP 47 tag."}
        super().__init__(metadata={**described, **example("pt-BR")}, **kwargs)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> str:
        tag = locales.standard_language(super()._deserialize(value, attr, data, **kwargs))
        if tag is None:
            raise ValidationError("Not a language tag such as en or pt-BR.")
        return tag


class Zone(Text):
    """The IANA name of a time zone."""

    def __init__(self, **kwargs: Any) -> None:
        described = {"maxLength": 64, "description": "An IANA time zone."}
        super().__init__(metadata={**described, **example("Europe/Berlin")}, **kwargs)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> str:
        name = super()._deserialize(value, attr, data, **kwargs)
        if name not in locales.time_zones():
            raise ValidationError("Not a time zone such as Europe/Berlin.")
        return name


class Flag(fields.Boolean):
    """True or false, and not what else Python would take for one of them."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> bool:
        if not isinstance(value, bool):
            raise self.make_error("invalid", input=value)
        return value


class FlagInQuery(fields.Boolean):
    """`true` or `false` in a URL."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> bool:
        if value not in ("true", "false"):
            raise self.make_error("invalid", input=value)
        return bool(value == "true")


class NumberInQuery(fields.Integer):
    """Decimal digits in a URL."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> int:
        if not isinstance(value, str) or not re.fullmatch(r"[0-9]{1,18}", value):
            raise self.make_error("invalid", input=value)
        return super()._deserialize(value, attr, data, **kwargs)


class Time(Text):
    """An RFC 3339 time with an offset, in UTC from here on. `past`: of what has happened."""

    def __init__(self, *, past: bool, **kwargs: Any) -> None:
        self._past = past
        described = {"format": "date-time", **example("2026-11-20T09:31:00Z")}
        super().__init__(metadata=described, **kwargs)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> Any:
        text = super()._deserialize(value, attr, data, **kwargs)
        try:
            moment = clock.parse_rfc3339(text[: MAX_TIME + 1])
        except ValueError:
            raise ValidationError("Not an RFC 3339 time such as 2026-11-20T09:31:00Z.") from None
        if self._past and moment > clock.utcnow() + CLOCK_TOLERANCE:
            raise ValidationError("This is in the future.")
        return moment


class Moment(Field[str]):
    """A moment on its way out, as RFC 3339 in UTC."""

    def __init__(self, **kwargs: Any) -> None:
        described = {"type": "string", "format": "date-time", **example("2026-11-20T09:31:00Z")}
        super().__init__(metadata=described, **kwargs)

    def _serialize(self, value: Any, attr: str | None, obj: Any, **kwargs: Any) -> Any:
        return None if value is None else clock.rfc3339(value)


class IsSet(fields.Boolean):
    """Whether something has a value, on its way out."""

    def _serialize(self, value: Any, attr: str | None, obj: Any, **kwargs: Any) -> bool:
        return value is not None
