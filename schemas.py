"""The shapes of the API, in and out. No database, no current user.

Every limit stands in models.py too: here for a helpful error, there as a constraint.
"""

from typing import Any, ClassVar

from marshmallow import EXCLUDE, Schema, fields, validate
from marshmallow.fields import Field

from core.roles import Role
from fieldtypes import (
    Email,
    FilledText,
    Flag,
    FlagInQuery,
    IsSet,
    Language,
    Link,
    Moment,
    NewPassword,
    NumberInQuery,
    Prose,
    Text,
    Time,
    Zone,
    example,
)

# The longest text that login takes for an e-mail address or a password. It is beyond what
# either can be, so that an impossible one is simply a wrong one.
LOGIN_LENGTH = 1024
TOKEN_LENGTH = 4096
# For the OpenAPI document. A text with other characters is not one of our tokens.
TOKEN = {"pattern": "^[A-Za-z0-9._-]*$"}


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

    # Except these, which are left out where there is no value.
    sometimes: ClassVar[frozenset[str]] = frozenset()

    class Meta:
        unknown = EXCLUDE

    def on_bind_field(self, field_name: str, field_obj: Field[Any]) -> None:
        super().on_bind_field(field_name, field_obj)
        field_obj.required = field_name not in self.sometimes

    def get_attribute(self, obj: Any, attr: str, default: Any) -> Any:
        """Read a field. marshmallow's own way raises and catches an error for each one of a row."""
        return obj.get(attr, default) if isinstance(obj, dict) else getattr(obj, attr, default)


NAME: dict[str, Any] = {"validate": validate.Length(1, 64)}
TITLE: dict[str, Any] = {"required": True, "validate": validate.Length(1, 200)}
ROLE: dict[str, Any] = {"validate": validate.OneOf([*Role]), "metadata": example("instructor")}
A_TOKEN: dict[str, Any] = {"required": True, "validate": validate.Length(max=TOKEN_LENGTH)}
PICTURE = {"format": "uri", "description": "URL of a square picture; needs no token."}
A_NUMBER: dict[str, Any] = {"required": True, "strict": True}
A_PASSWORD: dict[str, Any] = {
    "required": True,
    "validate": validate.Length(max=LOGIN_LENGTH),
    "metadata": {"format": "password", **example("try something new")},
}


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
    first_name = FilledText(required=True, **NAME, metadata=example("First"))
    last_name = FilledText(required=True, **NAME, metadata=example("Last"))


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
    password = fields.String(**A_PASSWORD)


class Refresh(Shape):
    refresh_token = Text(**A_TOKEN, metadata=TOKEN | example("REFRESH_TOKEN"))


class Address(Shape):
    email = Email(required=True)


class MailToken(Shape):
    token = Text(**A_TOKEN, metadata=TOKEN | example("TOKEN_OF_THE_MAIL"))


class ResetPassword(MailToken):
    new_password = NewPassword(required=True)


class Identity(Answer):
    """What a client needs to know about who is logged in."""

    id = fields.UUID()
    username = fields.String()
    email = fields.String()
    role = fields.String(metadata={"enum": [*Role]})


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


class ChangePassword(Shape):
    current_password = fields.String(**A_PASSWORD)
    new_password = NewPassword(required=True)


class DeleteAccount(Shape):
    password = fields.String(**A_PASSWORD)
    confirmation = Text(
        required=True,
        validate=validate.OneOf(["DELETE_MY_ACCOUNT"]),
        metadata=example("DELETE_MY_ACCOUNT"),
    )


class ProfileChanges(Shape):
    first_name = FilledText(**NAME, metadata=example("First"))
    last_name = FilledText(**NAME, metadata=example("Last"))
    bio = Prose(validate=validate.Length(max=500), metadata=example("I learn\nby doing."))
    location = Text(validate=validate.Length(max=100), metadata=example("Lisbon"))
    website = Link()


class PublicFields(Answer):
    """What everybody may see of a user whose profile is visible."""

    id = fields.UUID()
    username = fields.String()
    first_name = fields.String()
    last_name = fields.String()
    avatar = fields.String(metadata=PICTURE)
    bio = fields.String()
    location = fields.String()
    website = fields.String()
    role = fields.String(metadata={"enum": [*Role]})
    join_date = Moment(attribute="created_at")


class Profile(PublicFields):
    """What a user sees of the own account."""

    email = fields.String()
    last_login = Moment(attribute="last_login_at", allow_none=True)
    is_active = fields.Boolean()
    email_verified = IsSet(attribute="email_verified_at")


class AchievementRecord(Answer):
    id = fields.String()
    name = fields.String()
    earned_at = Moment()


class Progress(Answer):
    total_courses = fields.Integer()
    completed_courses = fields.Integer()
    total_lessons = fields.Integer()
    completed_lessons = fields.Integer()
    total_hours = fields.Float(metadata={"description": "With one decimal."})
    achievements = fields.List(fields.Nested(AchievementRecord))
    current_streak = fields.Integer(
        metadata={
            "description": "Days in a row with a completed lesson, in the user's own time zone, "
            "ending today or yesterday."
        }
    )


class PublicRecord(PublicFields):
    sometimes = frozenset({"progress"})

    progress = fields.Nested(
        Progress, metadata={"description": "Where the user lets the caller see it."}
    )


class AvatarUrl(Answer):
    avatar = fields.String(metadata=PICTURE)


class Privacy(Answer):
    profile_visible = fields.Boolean()
    progress_visible = fields.Boolean()


class Settings(Answer):
    theme = fields.String()
    language = fields.String()
    timezone = fields.String()
    email_notifications = fields.Boolean()
    push_notifications = fields.Boolean()
    privacy = fields.Nested(Privacy)


class PrivacyChanges(Shape):
    profile_visible = Flag()
    progress_visible = Flag()


class SettingsChanges(Shape):
    theme = fields.String(
        validate=validate.OneOf(["light", "dark", "system"]), metadata=example("dark")
    )
    language = Language()
    timezone = Zone()
    email_notifications = Flag(metadata=example(False))
    push_notifications = Flag(metadata=example(False))
    privacy = fields.Nested(PrivacyChanges, metadata=example({"progressVisible": True}))


class CertificateRecord(Answer):
    id = fields.String()
    course_id = fields.String()
    course_name = fields.String()
    issued_at = Moment()
    expires_at = Moment(allow_none=True)
    credential_url = fields.String(metadata={"description": "Empty where there is none."})


class Certificates(Answer):
    certificates = fields.List(fields.Nested(CertificateRecord))


# The ids that the course system chooses. In a path they are not trimmed: a newline is refused.
RECORD_ID: dict[str, Any] = {
    "required": True,
    "validate": validate.Regexp(
        r"^[A-Za-z0-9._~-]{1,64}\Z", error="1 to 64 letters, digits, and . _ ~ - only."
    ),
    "metadata": {"pattern": "^[A-Za-z0-9._~-]{1,64}$", "maxLength": 64, **example("python-101")},
}


class CoursePath(Shape):
    course_id = fields.String(**RECORD_ID)


class LessonPath(CoursePath):
    lesson_id = fields.String(**RECORD_ID)


class AchievementPath(Shape):
    achievement_id = fields.String(**RECORD_ID)


class CertificatePath(Shape):
    certificate_id = fields.String(**RECORD_ID)


class CourseDelivery(Shape):
    name = FilledText(**TITLE, metadata=example("Python for beginners"))
    lessons = fields.Integer(**A_NUMBER, validate=validate.Range(1, 10_000), metadata=example(12))


class LessonDelivery(Shape):
    completed_at = Time(past=True)
    minutes = fields.Integer(**A_NUMBER, validate=validate.Range(0, 1440), metadata=example(25))


class AchievementDelivery(Shape):
    name = FilledText(**TITLE, metadata=example("First steps"))
    earned_at = Time(past=True)


class CertificateDelivery(Shape):
    course_id = Text(**RECORD_ID)
    course_name = FilledText(**TITLE, metadata=example("Python for beginners"))
    issued_at = Time(past=True)
    expires_at = Time(past=False)
    credential_url = Link(load_default="")


class CourseRecord(Answer):
    id = fields.String()
    name = fields.String()
    lessons = fields.Integer()


class LessonRecord(Answer):
    id = fields.String()
    course_id = fields.String()
    completed_at = Moment()
    minutes = fields.Integer()


class AccountQuery(Shape):
    search = Text(
        validate=validate.Length(max=254),
        metadata={"description": "Part of a username, an address or a name, whatever its case."},
    )
    role = fields.String(validate=validate.OneOf([*Role]))
    is_active = FlagInQuery()
    page = NumberInQuery(load_default=1, validate=validate.Range(1, 1_000_000_000))
    per_page = NumberInQuery(load_default=20, validate=validate.Range(1, 100))


class AccountChanges(Shape):
    role = fields.String(**ROLE)
    is_active = Flag(metadata=example(True))


class Account(Answer):
    """What an admin sees of an account."""

    id = fields.UUID()
    username = fields.String()
    email = fields.String()
    first_name = fields.String()
    last_name = fields.String()
    role = fields.String(metadata={"enum": [*Role]})
    is_active = fields.Boolean()
    email_verified = IsSet(attribute="email_verified_at")
    join_date = Moment(attribute="created_at")
    last_login = Moment(attribute="last_login_at", allow_none=True)


class Accounts(Answer):
    users = fields.List(fields.Nested(Account))
    page = fields.Integer()
    per_page = fields.Integer()
    total = fields.Integer(metadata={"description": "Accounts on all pages."})
