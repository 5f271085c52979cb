"""The shapes of the API, in and out. No database, no current user.

Every limit here stands in models.py too: here for a good answer, there for the truth.
"""

import re
from typing import Any

import email_validator
from marshmallow import EXCLUDE, Schema, ValidationError, fields, validate
from marshmallow.fields import Field

from core import clock, passwords

# The longest text that login takes for an e-mail address or a password. It is beyond what
# either can be, so that an impossible one is simply a wrong one.
LOGIN_LENGTH = 1024
TOKEN_LENGTH = 4096

# Reserved names such as school.test are refused by default; whether mail gets there is for the
# mail to show. This list is the library's documented switch.
email_validator.SPECIAL_USE_DOMAIN_NAMES.clear()

# What Unicode calls white space, without the four control characters that Python counts too.
WHITE_SPACE = "".join(
    char for char in map(chr, range(0x3001)) if char.isspace() and not "\x1c" <= char <= "\x1f"
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def normalise_email(raw: str) -> str | None:
    """Return the one form under which an address is stored and looked up, or None for no address.

    Lower case, domain in its ASCII form (IDNA 2008); the local part must be ASCII.
    """
    if len(raw) > LOGIN_LENGTH:
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

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> str:
        text = super()._deserialize(value, attr, data, **kwargs).strip(WHITE_SPACE)
        if _CONTROL.search(text):
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


class Moment(Field[str]):
    """A moment on its way out, as RFC 3339 in UTC."""

    def __init__(self, **kwargs: Any) -> None:
        described = {"type": "string", "format": "date-time", **example("2026-11-20T09:31:00Z")}
        super().__init__(metadata=described, **kwargs)

    def _serialize(self, value: Any, attr: str | None, obj: Any, **kwargs: Any) -> str:
        return clock.rfc3339(value)


def camel_case(name: str) -> str:
    """Return a Python name as it is on the wire: `first_name` is `firstName`."""
    head, *tail = name.split("_")
    return head + "".join(map(str.capitalize, tail))


class Shape(Schema):
    """Names are snake_case in Python and camelCase on the wire."""

    def on_bind_field(self, field_name: str, field_obj: Field[Any]) -> None:
        field_obj.data_key = camel_case(field_name)


class Answer(Shape):
    """Every field of an answer is always there; clients ignore those that they do not know."""

    class Meta:
        unknown = EXCLUDE

    def on_bind_field(self, field_name: str, field_obj: Field[Any]) -> None:
        super().on_bind_field(field_name, field_obj)
        field_obj.required = True


def required(length: int) -> dict[str, Any]:
    return {"required": True, "validate": validate.Length(1, length)}


class Register(Shape):
    username = Text(
        required=True,
        validate=[
            validate.Length(3, 32),
            validate.Regexp(
                r"^[A-Za-z0-9][A-Za-z0-9_.-]*$",
                error="Only letters, digits, _, - and ., and a letter or a digit first.",
            ),
        ],
        metadata=example("newcomer"),
    )
    email = Email(required=True)
    password = NewPassword(required=True)
    first_name = Text(**required(64), metadata=example("First"))
    last_name = Text(**required(64), metadata=example("Last"))


class Registered(Answer):
    user_id = fields.UUID()
    username = fields.String()
    email = fields.String()


class Login(Shape):
    email = fields.String(
        required=True,
        validate=validate.Length(max=LOGIN_LENGTH),
        metadata=example("me@example.org"),
    )
    password = fields.String(
        required=True,
        validate=validate.Length(max=LOGIN_LENGTH),
        metadata={"format": "password", **example("try something new")},
    )


class Refresh(Shape):
    refresh_token = Text(
        required=True,
        validate=validate.Length(max=TOKEN_LENGTH),
        metadata=example("<REFRESH_TOKEN>"),
    )


class Address(Shape):
    email = Email(required=True)


class MailToken(Shape):
    token = Text(
        required=True,
        validate=validate.Length(max=TOKEN_LENGTH),
        metadata=example("<TOKEN_OF_THE_MAIL>"),
    )


class ResetPassword(MailToken):
    new_password = NewPassword(required=True)


class Identity(Answer):
    """What a client needs to know about who is logged in."""

    id = fields.UUID()
    username = fields.String()
    email = fields.String()
    role = fields.String(metadata={"enum": ["student", "instructor", "admin"]})


class TokenPair(Answer):
    access_token = fields.String()
    refresh_token = fields.String()
    expires_in = fields.Integer(metadata={"description": "Seconds until the access token expires."})


class LoggedIn(TokenPair):
    user = fields.Nested(Identity)


class Verified(Answer):
    valid = fields.Boolean()
    expires_in = fields.Integer(metadata={"description": "Seconds until the access token expires."})
    user = fields.Nested(Identity)


class SessionRecord(Answer):
    id = fields.UUID()
    created_at = Moment()
    last_used_at = Moment()
    expires_at = Moment()
    user_agent = fields.String()
    ip_address = fields.String()
    current = fields.Boolean()


class Sessions(Answer):
    sessions = fields.List(fields.Nested(SessionRecord))
