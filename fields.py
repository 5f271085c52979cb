"""The types of single fields in the API's schemas: what a text, an address, a time may be.

They convert nothing that is of another JSON type, and they say in a sentence what is wrong.
"""

import re
import unicodedata
from datetime import datetime, timedelta
from typing import Any

from marshmallow import ValidationError, validate
from marshmallow import fields as ma

from core import clock, locales, passwords
from core.addresses import SPACES, WHITE_SPACE, normalise_email
from core.reasons import REQUIRED, Reason

TIME: dict[str, object] = {"format": "date-time", "examples": ["2026-11-20T09:31:00Z"]}
INVALID_EMAIL = Reason("invalid", "This is not a valid e-mail address.")
CLOCK_TOLERANCE = timedelta(minutes=5)  # how far the clock of a client may be ahead of ours

# Sets of characters, for regular expressions of Python and of JavaScript (in the OpenAPI document).
_CONTROLS = r"\u0000-\u001f\u007f-\u009f"
_CONTROL = re.compile(f"[{_CONTROLS}]")
_DOMAIN = r"([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z0-9-]{2,}\.?"
_HOST = rf"({_DOMAIN}|localhost|\[[0-9A-Fa-f]*:[0-9A-Fa-f:]+\])"
_URI = rf"https?://{_HOST}(:[0-9]+)?(/|[/?#][!#-;=?-\[\]_a-z~]+)?"
_PLAIN_LINK = re.compile(r"\w+://[^\s/?#@<>\"\\^`{|}]+([/?#][^\s<>\"\\^`{|}]*)?")
_INVALID_URL = Reason("invalid", "Not a valid URL.")
_check_link = validate.URL(schemes={"http", "https"}, error=_INVALID_URL)
# Marks that reverse the text after them, so that a name looks like another one (UAX 9).
_DIRECTIONS = r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f"
# Letters and signs that are drawn as nothing.
_FILLERS = r"\u115f\u1160\u2800\u3164\uffa0"


def example(value: object) -> dict[str, object]:
    """Return the metadata of a field whose value in the docs is this one."""
    return {"examples": [value]}


def with_words(messages: dict[str, Any]) -> dict[str, Any]:
    """Return the messages of a marshmallow field as reasons: they are about types but for one."""
    return {name: Reason("type", text) for name, text in messages.items()} | {"required": REQUIRED}


class Length(validate.Length):
    """Bounds for the characters of a text."""

    def __call__(self, value: Any) -> Any:
        """Return the text. Raises ValidationError."""
        if self.min is not None and len(value) < self.min:
            raise ValidationError(Reason("too_short", f"Use {self.min} or more characters."))
        if self.max is not None and len(value) > self.max:
            raise ValidationError(Reason("too_long", f"Use {self.max} or fewer characters."))
        return value


class Range(validate.Range):
    """Bounds for a number."""

    def __call__(self, value: Any) -> Any:
        """Return the number. Raises ValidationError."""
        if value < self.min:
            raise ValidationError(Reason("too_small", f"The smallest number is {self.min}."))
        if value > self.max:
            raise ValidationError(Reason("too_large", f"The largest number is {self.max}."))
        return value


class OneOf(validate.OneOf):
    """The values that a text may have."""

    default_message = Reason("invalid", "Use one of: {choices}.")


class Text(ma.String):
    """A trimmed string without control characters."""

    # Characters. For what is parsed: a validator would see only the result.
    longest: int | None = None
    trimmed = WHITE_SPACE
    forbidden = _CONTROL
    # What the OpenAPI document says about every field of this type.
    described: dict[str, object] = {"pattern": f"^[^{_CONTROLS}]*$"}

    def __init__(self, *, metadata: dict[str, object] | None = None, **kwargs: Any) -> None:
        bound = {"maxLength": self.longest} if self.longest else {}
        super().__init__(metadata={**self.described, **bound, **(metadata or {})}, **kwargs)

    def _deserialize(self, value: object, attr: str | None, data: Any, **kwargs: Any) -> Any:
        text = super()._deserialize(value, attr, data, **kwargs).strip(self.trimmed)
        Length(max=self.longest)(text)
        if self.forbidden.search(text):
            raise ValidationError(Reason("invalid", "Control characters are not allowed."))
        return self.converted(text)

    def converted(self, text: str) -> object:
        """Return the value of a trimmed text. Raises ValidationError for a text that has none."""
        return text


class FilledText(Text):
    """A text that can be seen, and whose characters stand in their own order."""

    _never = f"{_CONTROLS}{_DIRECTIONS}"
    forbidden = re.compile(f"[{_never}]")
    # The pattern knows only the most usual characters that cannot be seen.
    _alone = rf"{_never}{SPACES}{_FILLERS}\u00ad\u200b-\u200d\u2060-\u2064\ufeff"
    described = {"pattern": f"^[^{_never}]*[^{_alone}][^{_never}]*$"}

    def converted(self, text: str) -> str:
        rest = re.sub(f"[{_FILLERS}]", "", text)
        # Controls, spaces, and marks that change a letter before them.
        if text and all(unicodedata.category(char)[0] in "CZM" for char in rest):
            raise ValidationError(Reason("invalid", "This has no visible character."))
        return text


class Email(Text):
    """An e-mail address, in the form under which it is stored."""

    longest = 254
    described = {"format": "email", **example("me@example.org")}

    def converted(self, text: str) -> str:
        address = normalise_email(text)
        if address is None:
            raise ValidationError(INVALID_EMAIL)
        return address


class NewPassword(Text):
    """A password to be set, in its NFKC form, never trimmed. `services.accounts` judges it."""

    trimmed = ""
    described = {"format": "password", "maxLength": passwords.MAX_LENGTH}
    described |= {"pattern": f"^[^{_CONTROLS}]*$", **example("try something new")}

    def converted(self, text: str) -> str:
        try:
            return passwords.normalise(text)
        except passwords.PasswordTooLong:
            most = f"Use {passwords.MAX_LENGTH} or fewer characters."
            raise ValidationError(Reason("too_long", most)) from None


class Prose(Text):
    """A trimmed text with line breaks."""

    forbidden = re.compile(rf"(?![\n\r])[{_CONTROLS}]")
    described = {"pattern": rf"^([^{_CONTROLS}]|[\n\r])*$"}


class Link(Text):
    """An http or https URL, or an empty text."""

    longest = 200
    described = {"description": "An http or https URL, or empty."}
    described |= {"pattern": f"^({_URI})?$", **example("https://example.org/me")}

    def converted(self, link: str) -> str:
        if link:
            # Names and passwords before the host serve only to make it look like another one.
            if not (link.isprintable() and _PLAIN_LINK.fullmatch(link)):
                raise ValidationError(_INVALID_URL)
            _check_link(link)
        return link


class Language(Text):
    """A BCP 47 language tag, in its standard form."""

    longest = locales.MAX_LANGUAGE_LENGTH
    described = {"description": "A BCP 47 tag.", **example("pt-BR")}
    described |= {"pattern": "^[A-Za-z]{1,8}(-[A-Za-z0-9]{1,8})*$"}

    def converted(self, text: str) -> str:
        tag = locales.standard_language(text)
        if tag is None:
            raise ValidationError(Reason("invalid", "Not a language tag such as en or pt-BR."))
        return tag


class Zone(Text):
    """The IANA name of a time zone."""

    longest = 64
    # No enum: clients are generated with a constant for each of its 600 values.
    _any = "|".join(sorted(locales.time_zones())).replace("+", r"\+")
    described = {"pattern": f"^({_any})$", "description": "An IANA time zone."}
    described |= example("Europe/Berlin")

    def converted(self, name: str) -> str:
        if name not in locales.time_zones():
            raise ValidationError(Reason("invalid", "Not a time zone such as Europe/Berlin."))
        return name


class Flag(ma.Boolean):
    """True or false, and not what else Python would take for one of them."""

    def _deserialize(self, value: object, attr: str | None, data: Any, **kwargs: Any) -> bool:
        if not isinstance(value, bool):
            raise self.make_error("invalid", input=value)
        return value


class FlagInQuery(ma.Boolean):
    """`true` or `false` in a URL."""

    truthy = {"true"}
    falsy = {"false"}


class NumberInQuery(ma.Integer):
    """Decimal digits in a URL."""

    def _deserialize(self, value: object, attr: str | None, data: Any, **kwargs: Any) -> int:
        if not isinstance(value, str) or not re.fullmatch("-?[0-9]+", value):
            raise self.make_error("invalid", input=value)
        return super()._deserialize(value, attr, data, **kwargs)


class Time(Text):
    """An RFC 3339 time with an offset, in UTC from here on. `past`: of what has happened."""

    longest = 64  # with more digits of a second than a client needs
    described = TIME

    def __init__(self, *, past: bool, **kwargs: Any) -> None:
        self._past = past
        super().__init__(**kwargs)

    def converted(self, text: str) -> datetime:
        try:
            moment = clock.parse_rfc3339(text)
        except ValueError:
            what = "Not an RFC 3339 time such as 2026-11-20T09:31:00Z."
            raise ValidationError(Reason("invalid", what)) from None
        if self._past and moment > clock.utcnow() + CLOCK_TOLERANCE:
            raise ValidationError(Reason("future", "This is in the future."))
        return moment


class Moment(ma.Field[str]):
    """A moment on its way out, as RFC 3339 in UTC."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(metadata={"type": "string", **TIME}, **kwargs)

    def _serialize(self, value: Any, attr: str | None, obj: object, **kwargs: object) -> Any:
        return None if value is None else clock.rfc3339(value)


class IsSet(ma.Boolean):
    """Whether something has a value, on its way out."""

    def _serialize(self, value: object, attr: str | None, obj: object, **kwargs: object) -> bool:
        return value is not None


class HasPassword(ma.Boolean):
    """Whether an account has a password, of its stored hash, on its way out."""

    def _serialize(self, value: Any, attr: str | None, obj: object, **kwargs: object) -> bool:
        return passwords.is_usable(value)
