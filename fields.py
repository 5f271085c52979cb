"""The types of single fields in the API's schemas. They convert nothing of another JSON type."""

import functools
import re
import unicodedata
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

from marshmallow import Schema, ValidationError, validate
from marshmallow import fields as ma

from core import clock, ids, locales, passwords
from core.addresses import WHITE_SPACE, login_name, normalise_email
from core.reasons import REQUIRED, Reason
from core.roles import Role
from core.scopes import KEY

TIME: dict[str, object] = {"format": "date-time", "examples": ["2026-11-20T09:31:00Z"]}
# Beyond what an e-mail address or a password can be: an impossible one is simply a wrong one.
LOGIN_LENGTH = 1024
CLOCK_TOLERANCE = timedelta(minutes=5)  # how far the clock of a client may be ahead of ours

_CONTROLS = r"\x00-\x1f\x7f-\x9f"
# Marks that reverse the text after them, so that a name looks like another one (UAX 9).
_DIRECTIONS = r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f"
# Letters and signs that are drawn as nothing.
_FILLERS = re.compile(r"[\u115f\u1160\u2800\u3164\uffa0]")
# Without a name and a password before the host, which serve only to make it look like another one,
# and without what could end an attribute of HTML.
_PLAIN_LINK = re.compile(r"\w+://[^\s/?#@<>\"\\^`{|}]+([/?#][^\s<>\"\\^`{|}]*)?")


def example(value: object) -> dict[str, object]:
    return {"examples": [value]}


def about(description: str, **more: object) -> dict[str, object]:
    return {"description": description, **more}


def with_words(messages: dict[str, Any]) -> dict[str, Any]:
    """Return the messages of a marshmallow field as reasons: they are about types but for one."""
    return {name: Reason("type", text) for name, text in messages.items()} | {"required": REQUIRED}


class Length(validate.Length):
    counted = "characters"

    def __call__(self, value: Any) -> Any:
        if self.min is not None and len(value) < self.min:
            raise ValidationError(Reason("too_short", f"Use {self.min} or more {self.counted}."))
        if self.max is not None and len(value) > self.max:
            raise ValidationError(Reason("too_long", f"Use {self.max} or fewer {self.counted}."))
        return value


class Entries(Length):
    counted = "entries"


class Range(validate.Range):
    def __call__(self, value: Any) -> Any:
        if value < self.min:
            raise ValidationError(Reason("too_small", f"The smallest number is {self.min}."))
        if value > self.max:
            raise ValidationError(Reason("too_large", f"The largest number is {self.max}."))
        return value


class OneOf(validate.OneOf):
    default_message = Reason("invalid", "Use one of: {choices}.")


class AnyText(ma.String):
    """A string as it was typed."""

    # What the OpenAPI document says about every field of this type, and its validators.
    described: dict[str, object] = {}
    checks: Sequence[validate.Validator] = ()

    def __init__(self, *, metadata: dict[str, object] | None = None, **kwargs: Any) -> None:
        metadata = {**self.described, **(metadata or {})}
        super().__init__(**{"validate": [*self.checks], "metadata": metadata, **kwargs})


class Text(AnyText):
    """A trimmed string without control characters."""

    # Characters. For what is parsed: a validator would see only the result.
    longest: int | None = None
    trimmed = WHITE_SPACE
    forbidden = re.compile(f"[{_CONTROLS}]")
    invalid = Reason("invalid", "Control characters are not allowed.")

    def __init__(self, *, metadata: dict[str, object] | None = None, **kwargs: Any) -> None:
        bound = {"maxLength": self.longest} if self.longest else {}
        super().__init__(metadata={**bound, **(metadata or {})}, **kwargs)

    def _deserialize(self, value: object, attr: str | None, data: Any, **kwargs: Any) -> Any:
        text = super()._deserialize(value, attr, data, **kwargs).strip(self.trimmed)
        if self.longest and len(text) > self.longest:
            Length(max=self.longest)(text)
        if self.forbidden.search(text):
            raise ValidationError(Text.invalid)
        converted = self.converted(text)
        if converted is None:
            raise ValidationError(self.invalid)
        return converted

    def converted(self, text: str) -> object:
        """Return the value of a trimmed text; None for a text that has none, which is `invalid`."""
        return text


class FilledText(Text):
    """A text that can be seen, and whose characters stand in their own order."""

    forbidden = re.compile(f"[{_CONTROLS}{_DIRECTIONS}]")
    invalid = Reason("invalid", "This has no visible character.")

    def converted(self, text: str) -> str | None:
        rest = _FILLERS.sub("", text)
        # Controls, spaces, and marks that change a letter before them cannot be seen alone.
        is_visible = any(unicodedata.category(char)[0] not in "CZM" for char in rest)
        return text if is_visible or not text else None


class Name(FilledText):
    checks = (Length(1, 64),)


class Title(FilledText):
    checks = (Length(1, 200),)


class OptionalTitle(FilledText):
    checks = (Length(max=200),)


class Username(Text):
    described = example("newcomer")
    checks = (
        Length(3, 32),
        validate.Regexp(
            "^([A-Za-z0-9][A-Za-z0-9_.-]*)?$",
            error=Reason(
                "invalid", "Use letters, digits, _, - and . only, and a letter or a digit first."
            ),
        ),
    )


class LoginName(AnyText):
    described = about("Or the username.", **example("me@example.org"))
    checks = (Length(max=LOGIN_LENGTH),)


class CurrentPassword(AnyText):
    described = {"format": "password", **example("try something new")}
    checks = (Length(max=LOGIN_LENGTH),)


class SecondFactor(Text):
    described = {
        "description": "Of the app, or a recovery code; where the account has a second factor.",
        **example("000000"),
    }
    checks = (Length(max=64),)


class Token(Text):
    described = example("TOKEN_OF_THE_MAIL")
    checks = (Length(max=4096),)


BASE64URL = validate.Regexp(
    r"[\w-]*\Z", re.ASCII, error=Reason("invalid", "Use letters, digits, - and _ only.")
)


class RecordId(Text):
    """An id that the course system chooses."""

    described = {"pattern": "^[A-Za-z0-9._~-]{1,64}$", **example("python-101")}
    checks = (
        Length(1, 64),
        validate.Regexp(
            r"^[A-Za-z0-9._~-]*\Z", error=Reason("invalid", "Use letters, digits, . _ ~ - only.")
        ),
    )


class RecordIdInPath(RecordId):
    trimmed = ""  # a newline is refused


class Email(Text):
    """An e-mail address, in the form under which it is stored."""

    longest = 254
    invalid = Reason("invalid", "This is not a valid e-mail address.")
    described = {"format": "email", **example("me@example.org")}

    def converted(self, text: str) -> str | None:
        if not text.rpartition("@")[0].isascii():
            raise ValidationError(Reason("invalid", "Only ASCII letters before the @."))
        return normalise_email(text)


class NewPassword(Text):
    """A password to be set, in its NFKC form, never trimmed. `services.accounts` judges it."""

    trimmed = ""
    described = {"format": "password", "maxLength": passwords.MAX_LENGTH}
    described |= example("try something new")

    def converted(self, text: str) -> str:
        try:
            return passwords.normalise(text)
        except passwords.PasswordTooLong:
            most = f"Use {passwords.MAX_LENGTH} or fewer characters."
            raise ValidationError(Reason("too_long", most)) from None


class Prose(Text):
    """A trimmed text with line breaks."""

    forbidden = re.compile(rf"(?![\n\r])[{_CONTROLS}]")


class Link(Text):
    longest = 200
    invalid = Reason("invalid", "Not a valid URL.")
    described = about("An http or https URL, or empty.")
    described |= example("https://example.org/me")

    def converted(self, text: str) -> str | None:
        if not text:
            return text
        validate.URL(schemes={"http", "https"}, error=self.invalid)(text)
        return text if text.isprintable() and _PLAIN_LINK.fullmatch(text) else None


class AccountName(Email):
    """An e-mail address or a username, in the form under which it is looked up."""

    described = about("Or the username.", **example("me@example.org"))

    def converted(self, text: str) -> str | None:
        return login_name(text)


class Language(Text):
    longest = locales.MAX_LANGUAGE_LENGTH
    invalid = Reason("invalid", "Not a language tag such as en or pt-BR.")
    described = about("A BCP 47 tag.", **example("pt-BR"))

    def converted(self, text: str) -> str | None:
        return locales.standard_language(text)


class Zone(Text):
    longest = 64
    invalid = Reason("invalid", "Not a time zone such as Europe/Berlin.")
    # No enum: clients are generated with a constant for each of its 600 values.
    described = about("An IANA time zone.", **example("Europe/Berlin"))

    def converted(self, text: str) -> str | None:
        return text if text in locales.time_zones() else None


class Uuid(Text):
    """A UUID of any version, in lower case."""

    longest = 36
    invalid = Reason("invalid", "Not a UUID such as 01234567-89ab-7cde-8f01-23456789abcd.")
    described = {"format": "uuid"}

    def converted(self, text: str) -> str | None:
        return ids.parse_uuid(text)


class Ids(ma.List[str]):
    """Ids of users, each once."""

    def __init__(self, least: int, most: int, **kwargs: Any) -> None:
        super().__init__(Uuid(), validate=Entries(least, most), **kwargs)
        self.inner.error_messages = with_words(self.inner.error_messages)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> Any:
        if not isinstance(value, list):
            raise self.make_error("invalid")
        # To the first wrong one: a body has place for a million.
        return sorted({self.inner.deserialize(each) for each in value})


class ActorId(Uuid):
    """Who has caused an event: the id of a user, `key:` and that of a service key, or `machine`."""

    longest = 40
    described = about("An id, `key:` and the id of a service key, or `machine`.")

    def converted(self, text: str) -> str | None:
        if text == "machine":
            return text
        key = KEY if text.startswith(KEY) else ""
        found = super().converted(text.removeprefix(key))
        return found and key + found


class ExternalId(Text):
    """The number of a person in another system; an empty one is None."""

    longest = 64
    described = about("Of the person in another system; unique.", **example("S-1042"))

    def _deserialize(self, value: object, attr: str | None, data: Any, **kwargs: Any) -> Any:
        return super()._deserialize(value, attr, data, **kwargs) or None

    def _serialize(self, value: Any, attr: str | None, obj: object, **kwargs: object) -> str:
        return value or ""


class Choice(ma.String):
    """One of these words."""

    def __init__(self, *words: str, **kwargs: Any) -> None:
        super().__init__(validate=OneOf(words), **kwargs)


RoleName = functools.partial(Choice, *Role)


class Number(ma.Integer):
    """A whole number between two others."""

    def __init__(self, least: int, most: int, **kwargs: Any) -> None:
        super().__init__(strict=True, validate=Range(least, most), **kwargs)


class Flag(ma.Boolean):
    """True or false, and not what else Python would take for one of them."""

    default_error_messages = {"invalid": "Use true or false."}

    def _deserialize(self, value: object, attr: str | None, data: Any, **kwargs: Any) -> bool:
        if not isinstance(value, bool):
            raise self.make_error("invalid", input=value)
        return value


class FlagInQuery(ma.Boolean):
    default_error_messages = Flag.default_error_messages
    truthy = {"true"}
    falsy = {"false"}


class NamesInQuery(Text):
    """Up to 100 texts with commas between them; empty ones are left out."""

    def converted(self, text: str) -> list[str]:
        names = [name.strip(WHITE_SPACE) for name in text.split(",")]
        if len(names) > 100:
            raise ValidationError(Reason("too_long", "Name 100 or fewer."))
        return [name for name in names if name]


class NumberInQuery(ma.Integer):
    """Decimal digits in a URL."""

    def _deserialize(self, value: object, attr: str | None, data: Any, **kwargs: Any) -> int:
        if not isinstance(value, str) or not re.fullmatch("-?[0-9]+", value):
            raise self.make_error("invalid", input=value)
        return super()._deserialize(value, attr, data, **kwargs)


class Time(Text):
    """An RFC 3339 time with an offset, in UTC from here on. `past`: of what has happened."""

    longest = 64  # with more digits of a second than a client needs
    invalid = Reason("invalid", "Not an RFC 3339 time such as 2026-11-20T09:31:00Z.")
    described = TIME

    def __init__(self, *, past: bool, **kwargs: Any) -> None:
        self._past = past
        super().__init__(**kwargs)

    def converted(self, text: str) -> datetime | None:
        try:
            moment = clock.parse_rfc3339(text)
        except ValueError:
            return None
        if self._past and moment > clock.utcnow() + CLOCK_TOLERANCE:
            raise ValidationError(Reason("future", "This is in the future."))
        return moment


class AccountTime(Time):
    """When an account of another system was made or used; a date is its midnight in UTC."""

    invalid = Reason("invalid", "Not a date or an RFC 3339 time, such as 2026-11-20T09:31:00Z.")
    # What means "never" elsewhere, the year 1, is BC in some time zones, and no driver reads that.
    checks = (
        validate.Range(
            min=datetime(1900, 1, 1, tzinfo=UTC), error=Reason("too_small", "This is before 1900.")
        ),
    )

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(past=True, **kwargs)

    def converted(self, text: str) -> datetime | None:
        return super().converted(text if len(text) > len("2026-11-20") else f"{text}T00:00:00Z")


class Day(Text):
    """A date of the calendar, such as 2026-11-20."""

    longest = 10
    invalid = Reason("invalid", "Not a date such as 2026-11-20.")
    described = {"format": "date", **example("2026-11-20")}

    def converted(self, text: str) -> date | None:
        try:  # Python's own parser accepts more formats
            return date.fromisoformat(text) if re.fullmatch(r"\d{4}-\d\d-\d\d", text) else None
        except ValueError:
            return None


class DayAsText(Day):
    """A date as JSON has it."""

    def converted(self, text: str) -> Any:
        day = super().converted(text)
        return day and day.isoformat()


class CustomFields(ma.Dict):
    """The custom fields of an account by name; the settings say which there are."""


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


class Rows(ma.List[Any]):
    """Thousands of objects on their way out, as tuples; marshmallow would take 10 µs for each."""

    def __init__(self, shape: type[Schema]) -> None:
        super().__init__(ma.Nested(shape))
        self._names = [field.data_key for field in shape().fields.values()]

    def _serialize(self, value: Any, attr: str | None, obj: object, **kwargs: object) -> Any:
        return [dict(zip(self._names, row, strict=True)) for row in value]


class Each(ma.List[Any]):
    """Objects of which each is valid or not by itself: then its error stands in its place."""

    def __init__(self, shape: type[Schema], most: int, **kwargs: Any) -> None:
        self._count = Entries(1, most)
        super().__init__(ma.Nested(shape), required=True, validate=self._count, **kwargs)
        self._shape = shape()

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> Any:
        if not isinstance(value, list):
            raise self.make_error("invalid")
        self._count(value)  # before the others, for which it could be a million
        return [self._one(each) for each in value]

    def _one(self, value: Any) -> Any:
        try:
            return self._shape.load(value)
        except ValidationError as error:
            found = error.messages_dict
            # Without marshmallow's key for a value that is no object.
            return ValidationError({"records": found["_schema"]}) if "_schema" in found else error


class Lines(Each):
    """Objects that are not validated here."""

    def _one(self, value: Any) -> Any:
        if not isinstance(value, dict):
            raise ValidationError(Reason("type", "Not a JSON object."))
        return value


class HasPassword(ma.Boolean):
    """Whether an account has a password, of its stored hash, on its way out."""

    def _serialize(self, value: Any, attr: str | None, obj: object, **kwargs: object) -> bool:
        return passwords.is_usable(value)


class Issuer(AnyText):
    """The linked provider, of an account's identity, on its way out; "" for none."""

    described = about("The issuer of the linked provider; empty without a link.")

    def _serialize(self, value: Any, attr: str | None, obj: object, **kwargs: object) -> str:
        return (value or "").partition(" ")[0]
