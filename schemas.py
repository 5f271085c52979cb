"""The shapes of the API, in and out. No database, no current user.

The bounds of what is stored stand in models.py too: here for a helpful error, there as constraints
or lengths of columns.
"""

from datetime import date
from typing import Any, ClassVar

from marshmallow import EXCLUDE, Schema, ValidationError, validate, validates_schema
from marshmallow import fields as ma

import fields
from core import audit
from core.hindrances import LASTING, Hindrance
from core.ids import NIL
from core.reasons import REQUIRED, UNKNOWN, Reason
from core.roles import Role
from core.streaks import MOST_DAYS
from fields import about, example

# A page of records in bulk, as JSON and as CSV.
MOST_RECORDS = 1000
MOST_LINES = 10_000
# What one call about many may name, and of which it makes links.
MOST_AT_ONCE = 1000
MOST_LINKS = 100
# How many lines a list of people may have.
MOST_PEOPLE = 5000
SORTS = ("-joinDate", "name", "-lastLogin")  # of accounts
# Those that the reader may see: not the column, or a row that a view forgets to filter would show
# all of them.
SEEN = "fields_seen"
ONLY_TRUE = validate.Equal(True, error=Reason("invalid", "This can only be true."))


def camel_case(name: str) -> str:
    """Return a Python name as it is on the wire: `first_name` is `firstName`."""
    head, *tail = name.split("_")
    return head + "".join(map(str.capitalize, tail))


class Shape(Schema):
    """Names are snake_case in Python and camelCase on the wire."""

    error_messages: dict[str, str] = {
        "unknown": UNKNOWN,
        "type": Reason("type", "Not a JSON object."),
    }

    def on_bind_field(self, field_name: str, field_obj: ma.Field[Any]) -> None:
        field_obj.data_key = camel_case(field_name)
        field_obj.error_messages = fields.with_words(field_obj.error_messages)


class ResponseBody(Shape):
    """Every field of a response is always there; clients ignore those that they do not know."""

    # Except these, which are left out where there is no value.
    sometimes: ClassVar[frozenset[str]] = frozenset()

    class Meta:
        unknown = EXCLUDE

    def on_bind_field(self, field_name: str, field_obj: ma.Field[Any]) -> None:
        super().on_bind_field(field_name, field_obj)
        field_obj.required = field_name not in self.sometimes

    def get_attribute(self, obj: object, attr: str, default: object) -> object:
        """Read a field. marshmallow's own way raises and catches an error for each one of a row."""
        return obj.get(attr, default) if isinstance(obj, dict) else getattr(obj, attr, default)


class Username(Shape):
    username = fields.Username(required=True)


class Address(Shape):
    email = fields.Email(required=True)


class AccountName(Shape):
    email = fields.AccountName(required=True)


class Person(Address, Username):
    first_name = fields.Name(required=True, metadata=example("First"))
    last_name = fields.Name(required=True, metadata=example("Last"))
    language = fields.Language()
    timezone = fields.Zone()
    custom_fields = fields.CustomFields()


class Register(Person):
    password = fields.NewPassword(required=True)


class Registered(ResponseBody):
    user_id = ma.UUID(attribute="id")
    username = ma.String()
    email = ma.String()


class CurrentPassword(Shape):
    password = fields.CurrentPassword(required=True)


class Confirmation(CurrentPassword):
    second_factor = fields.SecondFactor(load_default="")


class ProviderCode(Shape):
    code = fields.AnyText(required=True, validate=fields.Length(max=4096))
    verifier = fields.AnyText(required=True, validate=fields.Length(max=4096))


# What a browser makes or signs; what it adds to that one day is none of ours.
OF_BROWSER = about("What `PublicKeyCredential.toJSON()` returns.")


class Login(Confirmation):
    email = fields.LoginName()
    password = fields.CurrentPassword()
    passkey = ma.Dict(metadata=OF_BROWSER)
    provider = ma.Nested(
        ProviderCode, metadata=about("In place of `email` and `password`, or with them, to link.")
    )
    timezone = fields.AnyText(
        load_default="",
        validate=fields.Length(max=64),
        metadata=about("Of an account that this makes; ignored if it is not known."),
    )

    @validates_schema
    def has_a_way_in(self, data: dict[str, Any], **_: object) -> None:
        """Raise ValidationError without a provider's code or a passkey, with half of a password's
        login, or with more than a passkey."""
        if "passkey" in data:
            if others := data.keys() & {"email", "password", "provider"}:
                alone = Reason("invalid", "Send this, or a passkey.")
                raise ValidationError({name: [alone] for name in others})
            return
        missing = {"email", "password"} - data.keys()
        if len(missing) == 1 or (missing and "provider" not in data):
            raise ValidationError({name: [REQUIRED] for name in missing})


class PasskeyRequest(ResponseBody):
    public_key = ma.Dict(metadata=about("A `PublicKeyCredentialRequestOptionsJSON` of WebAuthn."))


class PasskeyName(Shape):
    name = fields.Name(required=True, metadata=example("My phone"))


class NewPasskey(Confirmation):
    credential = ma.Dict(
        required=True, metadata={**OF_BROWSER, **example({"id": "AAAA", "response": {}})}
    )
    name = fields.FilledText(
        load_default="",
        validate=fields.Length(max=64),
        metadata=about("By default that of what keeps it.", **example("My phone")),
    )


class PasskeyRecord(ResponseBody):
    id = ma.UUID()
    credential_id = ma.String(metadata=about("As the browser calls it."))
    name = ma.String(metadata=about("Empty where it is not known what keeps it."))
    created_at = fields.Moment()
    last_used_at = fields.Moment(allow_none=True)


class PasskeyList(ResponseBody):
    public_key = ma.Dict(
        allow_none=True, metadata=about("A `PublicKeyCredentialCreationOptionsJSON` of WebAuthn.")
    )
    passkeys = ma.List(ma.Nested(PasskeyRecord))


ProviderPath = Shape.from_dict({"name": ma.String(required=True, metadata=example("school"))})


class ProviderStart(Shape):
    challenge = fields.AnyText(
        required=True,
        validate=[fields.Length(43, 43), fields.BASE64URL],
        metadata={"pattern": "^[A-Za-z0-9_-]{43}$"}
        | example("E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"),
    )
    return_to = fields.AnyText(
        validate=fields.Length(max=2048),
        metadata=about("One of `SIGN_IN_RETURN_URLS`. By default our own page."),
    )


class ProviderUrl(ResponseBody):
    url = ma.String(metadata={"format": "uri"})


class ApplicationRequest(Shape):
    request = fields.AnyText(
        required=True, validate=fields.Length(max=4096), metadata=example("a.b")
    )


class ApplicationAsks(ResponseBody):
    label = ma.String()
    prompt = ma.String()
    login_hint = ma.String()
    url = ma.String(metadata=about("Where to go without a sign-in."))
    user_id = ma.String()


class ProviderAnswer(Shape):
    state = fields.AnyText(required=True)
    code = fields.AnyText(load_default="")
    error = fields.AnyText(load_default="")

    class Meta:
        unknown = EXCLUDE


class ProviderOption(ResponseBody):
    name = ma.String()
    label = ma.String(metadata=about("What a button says."))
    issuer = ma.String(metadata={"format": "uri"})


class FieldOption(ResponseBody):
    """A custom field that the form has."""

    name = ma.String()
    label = ma.String(attribute="title")
    type = ma.String(metadata={"enum": ["text", "number", "boolean", "date", "choice"]})
    length = ma.Integer(metadata=about("The longest text, in characters."))
    choices = ma.List(ma.String())
    required = ma.Boolean()


class RegistrationOptions(ResponseBody):
    """What a form for registration must know."""

    registration = ma.String(metadata={"enum": ["open", "closed", "providers"]})
    registration_domains = ma.List(
        ma.String(), metadata=about("Of e-mail addresses that may register; empty: any.")
    )
    password_min_length = ma.Integer()
    email_verification_required = ma.Boolean(attribute="require_verified_email")
    providers = ma.List(ma.Nested(ProviderOption), attribute="oidc_providers")
    passkeys = ma.Boolean(attribute="has_passkeys")
    custom_fields = ma.List(ma.Nested(FieldOption), attribute="fields_at_sign_up")


class Refresh(Shape):
    refresh_token = fields.Token(
        metadata={
            "description": "Required without `X-Refresh-Cookie`, and refused with it.",
            **example("REFRESH_TOKEN"),
        },
    )


class MailToken(Shape):
    token = fields.Token(required=True)


class VerifyEmail(MailToken):
    password = fields.CurrentPassword(
        load_default="", metadata=about("Of the account; needed where it has one.")
    )


class CheckedLink(ResponseBody):
    action = ma.String(metadata={"enum": ["choose_password", "verify_email"]})
    username = ma.String(metadata=about("Empty for `verify_email`."))
    email = ma.String()
    has_password = fields.HasPassword(
        attribute="password_hash", metadata=about("False: none yet, or none any more.")
    )
    expires_at = fields.Moment()


class ResetPassword(Shape):
    token = fields.Token()
    account = fields.AnyText(
        validate=fields.Length(1, fields.LOGIN_LENGTH),
        metadata=about("Username or e-mail address; with `code`, in place of `token`."),
    )
    code = fields.Text(validate=fields.Length(1, 64), metadata=about("Such as `ABCD-EFGH-JKMN`."))
    new_password = fields.NewPassword(required=True)

    @validates_schema
    def has_one_proof(self, data: dict[str, str], **_: object) -> None:
        """Raise ValidationError unless there is a token, or an account with its code."""
        by_code = {"account", "code"}
        if "token" in data and data.keys() & by_code:
            raise ValidationError(Reason("invalid", "Send a token or a code."), "token")
        needed = by_code if data.keys() & by_code else {"token"}
        if "token" not in data and (missing := needed - data.keys()):
            raise ValidationError({name: [REQUIRED] for name in missing})


class Identity(ResponseBody):
    """What a client needs to know about who is logged in."""

    id = ma.UUID()
    username = ma.String()
    email = ma.String()
    role = ma.String(metadata={"enum": [*Role]})


class LoggedIn(ResponseBody):
    access_token = ma.String()
    refresh_token = ma.String()
    expires_in = ma.Integer(metadata=about("Seconds until the access token expires."))
    user = ma.Nested(Identity)


class Verified(ResponseBody):
    valid = ma.Boolean()
    expires_in = ma.Integer(metadata=about("Seconds until the access token expires."))
    user = ma.Nested(Identity)


class OpenSession(ResponseBody):
    id = ma.UUID()
    created_at = fields.Moment()
    last_used_at = fields.Moment()
    expires_at = fields.Moment()
    user_agent = ma.String()
    ip_address = ma.String()
    current = ma.Boolean()


class SessionList(ResponseBody):
    sessions = ma.List(ma.Nested(OpenSession))


class ChangePassword(Shape):
    current_password = fields.CurrentPassword(required=True)
    second_factor = fields.SecondFactor(load_default="")
    new_password = fields.NewPassword(required=True)


class DeleteAccount(Confirmation):
    confirmation = fields.Text(
        required=True,
        validate=fields.OneOf(["DELETE_MY_ACCOUNT"]),
        metadata=example("DELETE_MY_ACCOUNT"),
    )


class ProfileChanges(Shape):
    first_name = fields.Name(metadata=example("First"))
    last_name = fields.Name(metadata=example("Last"))
    bio = fields.Prose(validate=fields.Length(max=500), metadata=example("I learn\nby doing."))
    location = fields.Text(validate=fields.Length(max=100), metadata=example("Lisbon"))
    website = fields.Link()
    custom_fields = fields.CustomFields()


class Rename(Username, Confirmation):
    pass


class EmailRequest(Confirmation):
    # Not `email`, by which the limits would find another account than the caller's.
    new_email = fields.Email(required=True)


class EmailCode(Shape):
    code = fields.Text(required=True, validate=fields.Length(max=64), metadata=example("0000-0000"))


class ConfirmedEmail(ResponseBody):
    email = ma.String()


class PendingEmail(ResponseBody):
    pending_email = ma.String(metadata=about("Empty where none waits for its code."))
    pending_until = fields.Moment(allow_none=True)


class EmailState(PendingEmail, ConfirmedEmail):
    email_verified = fields.IsSet(attribute="email_verified_at")


class AvatarUrl(ResponseBody):
    avatar = ma.String(metadata=about("URL of a square picture; needs no token.", format="uri"))


class PublicFields(AvatarUrl):
    """What everybody may see of a user whose profile is visible."""

    id = ma.UUID()
    username = ma.String()
    first_name = ma.String()
    last_name = ma.String()
    bio = ma.String()
    location = ma.String()
    website = ma.String()
    role = ma.String(metadata={"enum": [*Role]})
    join_date = fields.Moment(attribute="created_at")
    custom_fields = fields.CustomFields(attribute=SEEN)


class Profile(PublicFields):
    """What a user sees of the own account."""

    email = ma.String()
    last_login = fields.Moment(attribute="last_login_at", allow_none=True)
    is_active = ma.Boolean()
    email_verified = fields.IsSet(attribute="email_verified_at")
    has_password = fields.HasPassword(attribute="password_hash")
    provider = fields.Issuer(attribute="identity")
    may_change_account = ma.Boolean(
        metadata=about("Names, username and address; and whether to delete it.")
    )


class AchievementRecord(ResponseBody):
    id = ma.String()
    name = ma.String()
    earned_at = fields.Moment()


class Progress(ResponseBody):
    total_courses = ma.Integer()
    completed_courses = ma.Integer()
    total_lessons = ma.Integer()
    completed_lessons = ma.Integer()
    total_hours = ma.Float(metadata=about("With one decimal."))
    achievements = ma.List(ma.Nested(AchievementRecord))
    current_streak = ma.Integer(
        metadata=about(
            "Days in a row with a completed lesson, in the user's own time zone, "
            "ending today or yesterday."
        )
    )


class CourseRecord(ResponseBody):
    id = ma.String()
    name = ma.String()
    lessons = ma.Integer(metadata=about("How many the course has."))


class CourseProgress(CourseRecord):
    completed_lessons = ma.Integer()
    minutes = ma.Integer()
    completed_at = fields.Moment(allow_none=True)  # null while lessons are missing
    last_activity_at = fields.Moment(allow_none=True)


class CourseList(ResponseBody):
    courses = ma.List(ma.Nested(CourseProgress))


class CompletedLesson(ResponseBody):
    id = ma.String()
    name = ma.String(metadata=about("Empty where none was delivered."))
    completed_at = fields.Moment()
    minutes = ma.Integer()


class CourseWithLessons(CourseProgress):
    completed = ma.List(ma.Nested(CompletedLesson))


class DaysQuery(Shape):
    most = MOST_DAYS

    from_ = fields.Day(metadata=about("The first day."))
    to = fields.Day(metadata=about("The last day, which is included."))

    @validates_schema
    def has_bounds(self, data: dict[str, date], **_: object) -> None:
        """Raise ValidationError for too many days, and for the last one before the first."""
        days = (data["to"] - data["from_"]).days if data.keys() == {"to", "from_"} else 0
        if days < 0:
            raise ValidationError(Reason("invalid", "This is after `to`."), "from")
        if days >= self.most:
            raise ValidationError(Reason("too_large", f"Ask for {self.most} days or less."), "to")


class DayOfLearning(ResponseBody):
    date = ma.Date()
    lessons = ma.Integer()
    minutes = ma.Integer()


class DayList(ResponseBody):
    timezone = ma.String()
    days = ma.List(ma.Nested(DayOfLearning))


class PublicRecord(PublicFields):
    sometimes = frozenset({"progress"})

    progress = ma.Nested(Progress, metadata=about("Where the user lets the caller see it."))


class Privacy(ResponseBody):
    profile_visible = ma.Boolean()
    progress_visible = ma.Boolean()


class Settings(ResponseBody):
    theme = ma.String()
    language = ma.String()
    timezone = ma.String()
    email_notifications = ma.Boolean()
    push_notifications = ma.Boolean()
    privacy = ma.Nested(Privacy)


class PrivacyChanges(Shape):
    profile_visible = fields.Flag()
    progress_visible = fields.Flag()


class SettingsChanges(Shape):
    theme = fields.Choice("light", "dark", "system", metadata=example("dark"))
    language = fields.Language()
    timezone = fields.Zone()
    email_notifications = fields.Flag(metadata=example(False))
    push_notifications = fields.Flag(metadata=example(False))
    privacy = ma.Nested(PrivacyChanges, metadata=example({"progressVisible": True}))


class CertificateRecord(ResponseBody):
    id = ma.String()
    course_id = ma.String()
    course_name = ma.String()
    issued_at = fields.Moment()
    expires_at = fields.Moment(allow_none=True)
    credential_url = ma.String(metadata=about("Empty where there is none."))
    revoked_at = fields.Moment(allow_none=True)
    shared = fields.IsSet(attribute="share_code")
    verify_url = ma.String(
        metadata=about("Where everybody can check it; empty where it is not shared.")
    )


class CertificateSharing(Shape):
    shared = fields.Flag(required=True, metadata=example(True))


class CheckedCertificate(ResponseBody):
    status = ma.String(metadata={"enum": ["valid", "expired", "revoked"]})
    holder = ma.String()
    course_name = ma.String()
    issued_at = fields.Moment()
    expires_at = fields.Moment(allow_none=True)
    credential_url = ma.String(metadata=about("Empty where there is none."))


class CertificateList(ResponseBody):
    certificates = ma.List(ma.Nested(CertificateRecord))


def _path(*ids: str) -> type[Schema]:
    return Shape.from_dict({name: fields.RecordIdInPath(required=True) for name in ids})


CoursePath = _path("course_id")
LessonPath = _path("course_id", "lesson_id")
AchievementPath = _path("achievement_id")
CertificatePath = _path("certificate_id")
# Not validated, because all that is no code is the same 404.
ShareCodePath = Shape.from_dict({"code": ma.String(required=True, metadata=example("0" * 16))})


class CourseDelivery(Shape):
    name = fields.Title(required=True, metadata=example("Python for beginners"))
    lessons = fields.Number(1, 10_000, required=True, metadata=example(12))


class LessonDelivery(Shape):
    name = fields.OptionalTitle(load_default="", metadata=example("Loops"))
    completed_at = fields.Time(past=True)
    minutes = fields.Number(0, 1440, required=True, metadata=example(25))


class AchievementDelivery(Shape):
    name = fields.Title(required=True, metadata=example("First steps"))
    earned_at = fields.Time(past=True)


class CertificateDelivery(Shape):
    course_id = fields.RecordId(required=True)
    course_name = fields.Title(required=True, metadata=example("Python for beginners"))
    issued_at = fields.Time(past=True)
    expires_at = fields.Time(past=False, load_default=None, allow_none=False)
    revoked_at = fields.Time(
        past=True,
        allow_none=True,
        metadata=about("Null takes a revocation back; left out, nothing changes."),
    )
    credential_url = fields.Link(load_default="")


class LessonRecord(CompletedLesson):
    course_id = ma.String()


# Learning records in bulk.


class CopyQuery(Shape):
    after = fields.Text(validate=fields.Length(max=200), metadata=about("A `next`."))
    limit = fields.NumberInQuery(
        load_default=100,
        validate=fields.Range(1, MOST_LINES),
        metadata=about(f"At most {MOST_RECORDS}, and {MOST_LINES} of CSV."),
    )
    group_id = fields.Uuid(metadata=about("Only of those who are in this group now."))


class Copied(ResponseBody):
    user_id = ma.String()
    external_id = fields.ExternalId(metadata=about("Of the user; empty without one."))


class CopiedCourse(CourseRecord, Copied):
    pass


class CopiedLesson(LessonRecord, Copied):
    class Meta(ResponseBody.Meta):
        fields = ("user_id", "external_id", "course_id", "id", "name", "completed_at", "minutes")


class CopiedAchievement(AchievementRecord, Copied):
    pass


class CopiedCertificate(CertificateRecord, Copied):
    class Meta(ResponseBody.Meta):
        exclude = ("shared", "verify_url")


class CopiedMembership(Copied):
    class Meta(ResponseBody.Meta):
        fields = ("group_id", "group_name", "user_id", "external_id")

    group_id = ma.String()
    group_name = ma.String()


def _copies(shape: type[Schema]) -> type[Schema]:
    after = "The `after` of the next page; null at the end. A page may have fewer than `limit`."
    found: dict[str, Any] = {
        "records": fields.Rows(shape),
        "next": ma.String(allow_none=True, metadata={"description": after}),
    }
    return ResponseBody.from_dict(found, name=f"{shape.__name__}Page")


CopiedCourses, CopiedLessons = _copies(CopiedCourse), _copies(CopiedLesson)
CopiedAchievements, CopiedCertificates = _copies(CopiedAchievement), _copies(CopiedCertificate)
CopiedMemberships = _copies(CopiedMembership)


class _OfUser(Shape):
    user_id = fields.Uuid(metadata=about("It decides, where `externalId` is sent too."))
    external_id = fields.ExternalId(metadata=about("From admins and service keys."))
    id = fields.RecordId(required=True)

    @validates_schema
    def names_a_user(self, data: dict[str, Any], **_: object) -> None:
        """Raise ValidationError for a record of nobody."""
        if not (data.get("user_id") or data.get("external_id")):
            raise ValidationError(REQUIRED, "userId")


class DeliveredCourse(CourseDelivery, _OfUser):
    pass


class DeliveredLesson(LessonDelivery, _OfUser):
    course_id = fields.RecordId(required=True)


class DeliveredAchievement(AchievementDelivery, _OfUser):
    pass


class DeliveredCertificate(CertificateDelivery, _OfUser):
    expires_at = fields.Time(past=False, load_default=None)


def _deliveries(shape: type[Schema]) -> type[Schema]:
    needed = [each for each in shape().fields.values() if each.required]
    one = {"userId": NIL, **{each.data_key: each.metadata["examples"][0] for each in needed}}
    found: dict[str, Any] = {"records": fields.Each(shape, MOST_AT_ONCE, metadata=example([one]))}
    return Shape.from_dict(found, name=f"{shape.__name__}List")


DeliveredCourses, DeliveredLessons = _deliveries(DeliveredCourse), _deliveries(DeliveredLesson)
DeliveredAchievements = _deliveries(DeliveredAchievement)
DeliveredCertificates = _deliveries(DeliveredCertificate)


class RefusedRecord(ResponseBody):
    sometimes = frozenset({"reasons"})

    index = ma.Integer(metadata=about("In `records`, from 0."))
    code = ma.String(metadata=about("Of the error that the call for one gives."))
    reasons = ma.Dict(metadata=about("For `invalid_request`."))


class Delivered(ResponseBody):
    new = ma.Integer()
    replaced = ma.Integer()
    refused = ma.List(ma.Nested(RefusedRecord))


# For admins.


class AccountQuery(Shape):
    search = fields.Text(
        validate=fields.Length(max=254),
        metadata=about(
            "Words, each of them a part of username, address or name, in any order, "
            "whatever their case and accents."
        ),
    )
    email = fields.Email()
    username = fields.Username()
    external_id = fields.Text(validate=fields.Length(1, 64))
    group_id = fields.Uuid()
    any_of = fields.NamesInQuery(
        metadata=about("Usernames, addresses or `externalId`s, comma separated: 100.")
    )
    field = fields.Text(
        validate=fields.Length(1, 250),
        metadata=about("`name:value` of a custom field; `name:` where it is not set."),
    )
    hindered = fields.FlagInQuery(
        validate=ONLY_TRUE, metadata=about("Those with a word in `hindrances`.", **example(True))
    )
    sort = fields.Choice(
        *SORTS,
        load_default=SORTS[0],
        metadata=about("By default the newest first. `name`: the last name first."),
    )
    role = fields.RoleName()
    is_active = fields.FlagInQuery()
    after = fields.Uuid(
        metadata=about(f"To read all by id: the last id that came, at first {NIL}.")
    )
    page = fields.NumberInQuery(load_default=1, validate=fields.Range(1, 1_000_000_000))
    per_page = fields.NumberInQuery(load_default=20, validate=fields.Range(1, 100))


class AccountChanges(Shape):
    username = fields.Username()
    email = fields.Email()
    first_name = fields.Name(metadata=example("First"))
    last_name = fields.Name(metadata=example("Last"))
    language = fields.Language()
    timezone = fields.Zone()
    external_id = fields.ExternalId()
    role = fields.RoleName(metadata=example("instructor"))
    is_active = fields.Flag(metadata=example(True))
    email_verified = fields.Flag(validate=ONLY_TRUE, metadata=example(True))
    custom_fields = fields.CustomFields()


class AccessLinkRequest(Shape):
    deliver = fields.Choice("mail", "link", load_default="mail", metadata=example("mail"))
    replace_password = fields.Flag(load_default=False, metadata=example(False))


class AccountIds(Shape):
    ids = fields.Ids(1, MOST_AT_ONCE, required=True, metadata=example([NIL]))


class Activation(AccountIds):
    is_active = fields.Flag(required=True, metadata=example(True))


class AccessLinksRequest(Shape):
    ids = fields.Ids(1, MOST_LINKS, required=True, metadata=example([NIL]))
    replace_password = fields.Flag(load_default=False, metadata=example(False))


class Refusal(ResponseBody):
    id = ma.UUID()
    code = ma.String(metadata=about("Of the error that the call for one gives."))


class Refusals(ma.List[Any]):
    """Errors by the ids of users, on their way out."""

    def __init__(self) -> None:
        super().__init__(ma.Nested(Refusal))

    def _serialize(self, value: Any, attr: str | None, obj: object, **kwargs: object) -> Any:
        return [{"id": user_id, "code": error.code} for user_id, error in sorted(value.items())]


class SomeRefused(ResponseBody):
    refused = Refusals()


class AccountsChanged(SomeRefused):
    changed = ma.List(ma.UUID(), metadata=about("Without those for whom it was so before."))


class AccountsRemoved(SomeRefused):
    removed = ma.List(ma.UUID())


class NewAccount(Person):
    deliver = fields.Choice("mail", "link", "none", load_default="mail", metadata=example("mail"))
    role = fields.RoleName(load_default=Role.STUDENT.value, metadata=example("student"))
    external_id = fields.ExternalId()
    email_verified = fields.Flag(load_default=False, metadata=example(True))


class AccessLink(ResponseBody):
    sometimes = frozenset({"link", "code", "qr_code", "expires_at"})

    link = ma.String(metadata=about("Shown once; only for `link`.", format="uri"))
    code = ma.String(metadata=about("To be typed in place of the link."))
    qr_code = ma.String(metadata=about("The link as a picture: an SVG document."))
    expires_at = fields.Moment()


class AccessLinkOfUser(AccessLink):
    sometimes = frozenset()

    user_id = ma.UUID()


class AccessLinks(SomeRefused):
    links = ma.List(ma.Nested(AccessLinkOfUser))


class KnownAccount(Identity):
    """What systems that keep a copy of the accounts see of one."""

    first_name = ma.String()
    last_name = ma.String()
    is_active = ma.Boolean()
    email_verified = fields.IsSet(attribute="email_verified_at")
    join_date = fields.Moment(attribute="created_at")
    last_login = fields.Moment(attribute="last_login_at", allow_none=True)
    external_id = fields.ExternalId(metadata=about("Empty without one, and to teachers."))
    custom_fields = fields.CustomFields(attribute=SEEN)


class Account(KnownAccount):
    """What an admin sees of an account."""

    has_password = fields.HasPassword(attribute="password_hash")
    provider = fields.Issuer(attribute="identity")
    hindrances = ma.List(
        ma.String(metadata={"enum": [*LASTING]}),
        metadata=about("Why its user cannot log in until somebody does something."),
    )


class GroupName(ResponseBody):
    id = ma.UUID()
    name = ma.String()


class AccountState(Account):
    """What says why a user can or cannot log in, and how mails and pages speak to them."""

    language = ma.String()
    timezone = ma.String()
    second_factor = fields.IsSet(attribute="second_factor_at")
    passkeys = ma.Integer()
    groups = ma.List(ma.Nested(GroupName), metadata=about("Those of them that the caller may see."))
    locked_until = fields.Moment(allow_none=True)
    hindrances = ma.List(
        ma.String(metadata={"enum": [*Hindrance]}),
        metadata=about("Why the right password does not log in now; empty if it does."),
    )


class NewAccountMade(AccessLink):
    user = ma.Nested(Account)


class Accounts(ResponseBody):
    users = ma.List(ma.Nested(Account))
    page = ma.Integer()
    per_page = ma.Integer()
    total = ma.Integer(metadata=about("Accounts on all pages."))


# Lists of people.


class PersonInList(Shape):
    external_id = fields.ExternalId()
    username = fields.Text(validate=fields.Length(max=254), metadata=example("newcomer"))
    email = fields.Email()
    first_name = fields.Name(metadata=example("First"))
    last_name = fields.Name(metadata=example("Last"))
    role = fields.Choice(Role.STUDENT, Role.INSTRUCTOR, metadata=example("student"))
    language = fields.Language()
    group_id = fields.Name(metadata=example("7b"))
    group = fields.Name(metadata=example("7b"))
    custom_fields = fields.CustomFields()


class PeopleList(Shape):
    people = fields.Lines(
        PersonInList, MOST_PEOPLE, metadata=example([{"firstName": "First", "lastName": "Last"}])
    )


class ListQuery(Shape):
    apply = fields.FlagInQuery(load_default=False)
    group_id = fields.Uuid()
    groups = fields.Choice("add", "only", load_default="add")
    role = fields.Choice(Role.STUDENT, Role.INSTRUCTOR, load_default=Role.STUDENT.value)
    language = fields.Language()
    deliver = fields.Choice("none", "mail", load_default="none")
    last_first = fields.FlagInQuery(load_default=False)
    missing = fields.Choice("keep", "tell", "deactivate", load_default="keep")
    all = fields.FlagInQuery(load_default=False)


class LineOfList(ResponseBody):
    line = ma.Integer(metadata=about("Its number in the list, from 1."))
    status = ma.String(metadata={"enum": ["new", "changed", "same", "refused"]})
    user_id = ma.UUID(allow_none=True)
    first_name = ma.String()
    last_name = ma.String()
    username = ma.String()
    email = ma.String()
    groups = ma.List(ma.UUID())
    changes = ma.List(ma.String(), metadata=about("The fields that get another value."))
    differs = ma.List(ma.String(), metadata=about("What the line says otherwise, and stays."))
    code = ma.String(allow_none=True, metadata=about("Why it is refused."))
    reasons = ma.Dict(allow_none=True, metadata=about("For `invalid_request` and the like."))
    holder_id = ma.UUID(allow_none=True, metadata=about("Whose the address or username is."))


class GroupOfList(GroupName):
    is_new = ma.Boolean()
    is_renamed = ma.Boolean()
    people = ma.Integer(metadata=about("Of the list."))


class MissingPerson(ResponseBody):
    user_id = ma.UUID(attribute="id")
    external_id = fields.ExternalId()
    username = ma.String()
    first_name = ma.String()
    last_name = ma.String()


class ListDone(ResponseBody):
    lines = fields.Rows(LineOfList)
    groups = ma.List(ma.Nested(GroupOfList))
    missing = ma.List(ma.Nested(MissingPerson))
    left_out = ma.List(ma.String(), metadata=about("Columns that are not used."))


# Groups.


class GroupChanges(Shape):
    name = fields.Name(required=True, metadata=example("7b"))


class Group(GroupName):
    members = ma.Integer()


class GroupList(ResponseBody):
    groups = ma.List(ma.Nested(Group))


class MembershipChange(ResponseBody):
    changed = ma.Boolean(metadata=about("False: it was so before."))


class MemberChanges(Shape):
    add = fields.Ids(0, MOST_AT_ONCE, load_default=(), metadata=example([NIL]))
    remove = fields.Ids(0, MOST_AT_ONCE, load_default=())

    @validates_schema
    def names_somebody_once(self, data: dict[str, Any], **_: object) -> None:
        """Raise ValidationError for no id, for too many, and for one in both lists."""
        both = [*data["add"], *data["remove"]]
        if not both:
            raise ValidationError(REQUIRED, "add")
        if len({*both}) < len(both):
            raise ValidationError(Reason("invalid", "An id is in `add` too."), "remove")
        if len(both) > MOST_AT_ONCE:
            raise ValidationError(Reason("too_long", f"Name {MOST_AT_ONCE} in all."), "add")


class MembersChanged(SomeRefused):
    added = ma.List(ma.UUID(), metadata=about("Without those who were in the group before."))
    removed = ma.List(ma.UUID(), metadata=about("Without those who were not in it."))


class GroupDaysQuery(DaysQuery):
    most = 31


class DayOfMember(ResponseBody):
    user_id = ma.UUID()
    date = ma.Date()
    lessons = ma.Integer()
    minutes = ma.Integer()


class GroupDays(ResponseBody):
    from_ = ma.Date()
    to = ma.Date()
    days = fields.Rows(DayOfMember)


class ChangesQuery(Shape):
    after = fields.Token(load_default=None, metadata=about("The last `next`."))
    limit = fields.NumberInQuery(load_default=100, validate=fields.Range(1, 1000))


class Change(ResponseBody):
    id = ma.UUID()
    account = ma.Nested(KnownAccount, allow_none=True)  # null: it was deleted
    deleted_at = fields.Moment(allow_none=True)


class ChangeList(ResponseBody):
    changes = ma.List(ma.Nested(Change))
    next = ma.String(metadata=about("For the next call; it says nothing to clients."))


# The events that the history of an account has.
KEPT = [name for name, event in audit.EVENTS.items() if event.kept is not None]


class Event(ResponseBody):
    id = ma.UUID()
    type = ma.String(metadata=about("docs/reference.md lists them."))
    at = fields.Moment(attribute="created_at")
    by = ma.String(metadata={"enum": ["user", "staff", "service", "machine"]})
    by_id = ma.String(metadata=about("Of `staff` and `service`, for admins; else empty."))
    ip_address = ma.String(metadata=about("Only where `by` is `user`."))
    details = ma.Dict(keys=ma.String(), values=ma.String())


class ActivityQuery(Shape):
    type = fields.Choice(*KEPT)
    after = fields.Uuid(metadata=about("The last `next`."))
    limit = fields.NumberInQuery(load_default=200, validate=fields.Range(1, 200))


class Activity(ResponseBody):
    events = ma.List(ma.Nested(Event))
    next = ma.UUID(allow_none=True)


class EventOfAccount(Event):
    user_id = ma.UUID()
    username = ma.String()


class EveryEvent(Activity):
    events = ma.List(ma.Nested(EventOfAccount))


class EveryEventQuery(ActivityQuery):
    user_id = fields.Uuid()
    by = fields.ActorId()


class ServiceKeyName(Shape):
    name = fields.Name(required=True)


class ServiceKey(ResponseBody):
    id = ma.UUID()
    name = ma.String()
    scopes = ma.List(ma.String())
    created_at = fields.Moment()
    expires_at = fields.Moment(allow_none=True)
    last_used_at = fields.Moment(allow_none=True)


class ServiceKeys(ResponseBody):
    keys = ma.List(ma.Nested(ServiceKey))


# The second factor.


class FirstCode(Shape):
    code = fields.Text(required=True, validate=fields.Length(1, 64), metadata=example("000000"))


class NewSecondFactor(ResponseBody):
    secret = ma.String(metadata=about("The key of the app, in base32."))
    uri = ma.String(metadata=about("The key as an app reads it: `otpauth://totp/…`."))
    qr_code = ma.String(metadata=about("The URI as a picture: an SVG document."))


class RecoveryCodeList(ResponseBody):
    recovery_codes = ma.List(
        ma.String(), metadata=about("Ten, such as `ABCDE-FGHJK`, shown only now.")
    )


class SecondFactorSince(ResponseBody):
    enabled = ma.Boolean()
    since = fields.Moment(allow_none=True)


class SecondFactorState(SecondFactorSince):
    recovery_codes_left = ma.Integer()
    required = ma.Boolean(metadata=about("Whether the account's role needs one."))


# Accounts of other systems, and accounts on their way there.


class ImportedAccount(Person, ProfileChanges, SettingsChanges, PrivacyChanges):
    class Meta:
        exclude = ("privacy",)

    id = fields.Uuid(validate=validate.NoneOf([NIL], error=fields.Uuid.invalid))
    username = fields.Username()
    password_hash = ma.String()
    role = fields.RoleName()
    is_active = fields.Flag()
    email_verified = fields.Flag(load_default=False)
    join_date = fields.AccountTime(attribute="created_at")
    last_login = fields.AccountTime(attribute="last_login_at")
    warned_at = fields.AccountTime()
    external_id = fields.ExternalId()


class DumpedAccount(Profile, Settings, Privacy):
    """All that `ImportedAccount` takes."""

    sometimes = frozenset({"password_hash", "last_login", "warned_at"})

    class Meta:
        exclude = ("avatar", "has_password", "may_change_account", "privacy", "provider")

    password_hash = ma.String()
    warned_at = fields.Moment(allow_none=True)
    external_id = fields.ExternalId()


# The copy of a user's own data.


class ExportedAccount(Profile):
    # Others have the same attributes, which marshmallow accepts on the way out only.
    email_verified_at = fields.Moment(allow_none=True, dump_only=True)
    external_id = fields.ExternalId()
    identity = ma.String(
        allow_none=True,
        dump_only=True,
        metadata=about("The account at the linked provider: issuer, space, subject."),
    )


class Picture(ResponseBody):
    media_type = ma.String()
    data = ma.String(metadata={"format": "byte", "description": "Base64."})


class ExportedCourse(CourseRecord):
    completed_lessons = ma.List(ma.Nested(LessonRecord))


class ExportedCertificate(CertificateRecord):
    holder = ma.String()


class Export(ResponseBody):
    exported_at = fields.Moment()
    account = ma.Nested(ExportedAccount)
    settings = ma.Nested(Settings)
    second_factor = ma.Nested(SecondFactorSince)
    passkeys = ma.List(ma.Nested(PasskeyRecord))
    avatar = ma.Nested(Picture, allow_none=True)
    sessions = ma.List(ma.Nested(OpenSession))
    pending_email = ma.String(metadata=about("Empty where no change is pending."))
    courses = ma.List(ma.Nested(ExportedCourse))
    achievements = ma.List(ma.Nested(AchievementRecord))
    certificates = ma.List(ma.Nested(ExportedCertificate))
    groups = ma.List(ma.String(), metadata=about("Their names."))
    events = ma.List(ma.Nested(Event))
