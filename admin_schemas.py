"""The shapes of the calls for admins, in and out; see schemas.py."""

from marshmallow import fields as ma
from marshmallow import validate

import fields
from core.reasons import Reason
from core.roles import Role
from fields import example
from schemas import NAME, USERNAME, Identity, Person, ResponseBody, Shape

ONLY_TRUE = validate.Equal(True, error=Reason("invalid", "This can only be true."))


class AccountQuery(Shape):
    search = fields.Text(
        validate=fields.Length(max=254),
        metadata={"description": "Part of a username, an address or a name, whatever its case."},
    )
    email = fields.Email()
    username = fields.Text(**USERNAME)
    role = ma.String(validate=fields.OneOf([*Role]))
    is_active = fields.FlagInQuery()
    page = fields.NumberInQuery(load_default=1, validate=fields.Range(1, 1_000_000_000))
    per_page = fields.NumberInQuery(load_default=20, validate=fields.Range(1, 100))


class AccountChanges(Shape):
    role = ma.String(validate=fields.OneOf([*Role]), metadata=example("instructor"))
    is_active = fields.Flag(metadata=example(True))
    email_verified = fields.Flag(validate=ONLY_TRUE, metadata=example(True))


class AccessLinkDelivery(Shape):
    deliver = ma.String(
        load_default="mail", validate=fields.OneOf(["mail", "link"]), metadata=example("mail")
    )


class AccessLinkRequest(AccessLinkDelivery):
    replace_password = fields.Flag(load_default=False, metadata=example(False))


class NewAccount(Person, AccessLinkDelivery):
    role = ma.String(
        load_default=Role.STUDENT.value,
        validate=fields.OneOf([*Role]),
        metadata=example("student"),
    )
    email_verified = fields.Flag(load_default=False, metadata=example(True))


class AccessLink(ResponseBody):
    sometimes = frozenset({"link", "expires_at"})

    link = ma.String(metadata={"format": "uri", "description": "Shown once; only for `link`."})
    expires_at = fields.Moment()


class Account(Identity):
    """What an admin sees of an account."""

    first_name = ma.String()
    last_name = ma.String()
    is_active = ma.Boolean()
    email_verified = fields.IsSet(attribute="email_verified_at")
    has_password = fields.HasPassword(attribute="password_hash")
    join_date = fields.Moment(attribute="created_at")
    last_login = fields.Moment(attribute="last_login_at", allow_none=True)


class NewAccountMade(AccessLink):
    user = ma.Nested(Account)


class Accounts(ResponseBody):
    users = ma.List(ma.Nested(Account))
    page = ma.Integer()
    per_page = ma.Integer()
    total = ma.Integer(metadata={"description": "Accounts on all pages."})


class ServiceKeyName(Shape):
    name = fields.FilledText(required=True, **NAME)


class ServiceKey(ResponseBody):
    id = ma.UUID()
    name = ma.String()
    scopes = ma.List(ma.String())
    created_at = fields.Moment()
    expires_at = fields.Moment(allow_none=True)
    last_used_at = fields.Moment(allow_none=True)


class ServiceKeys(ResponseBody):
    keys = ma.List(ma.Nested(ServiceKey))
