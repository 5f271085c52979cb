"""The shape of the copy of a user's own data; see schemas.py."""

from marshmallow import fields as ma

import fields
import schemas
from schemas import ResponseBody


class ExportedAccount(schemas.Profile):
    email_verified_at = fields.Moment(attribute="verified_at", allow_none=True)


class Picture(ResponseBody):
    media_type = ma.String()
    data = ma.String(metadata={"format": "byte", "description": "Base64."})


class CompletedLesson(ResponseBody):
    id = ma.String()
    completed_at = fields.Moment()
    minutes = ma.Integer()


class ExportedCourse(ResponseBody):
    id = ma.String()
    name = ma.String()
    lessons = ma.Integer(metadata={"description": "How many the course has."})
    completed_lessons = ma.List(ma.Nested(CompletedLesson))


class EmailChange(ResponseBody):
    old_email = ma.String()
    changed_at = fields.Moment()


class Export(ResponseBody):
    exported_at = fields.Moment()
    account = ma.Nested(ExportedAccount)
    settings = ma.Nested(schemas.Settings)
    avatar = ma.Nested(Picture, allow_none=True)
    sessions = ma.List(ma.Nested(schemas.OpenSession))
    pending_email = ma.String(metadata={"description": "Empty where no change is pending."})
    email_changes = ma.List(ma.Nested(EmailChange))
    courses = ma.List(ma.Nested(ExportedCourse))
    achievements = ma.List(ma.Nested(schemas.AchievementRecord))
    certificates = ma.List(ma.Nested(schemas.CertificateRecord))
