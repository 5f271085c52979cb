"""The caller's own account, and public profiles."""

import functools
from datetime import date
from typing import BinaryIO

from flask import Blueprint

import errors
import schemas
from core import clock
from core.images import PictureInvalid
from core.reasons import Reason
from core.roles import Role
from core.scopes import Scope
from database import transaction
from extensions import avatars
from services import (
    accounts,
    certificates,
    email_change,
    events,
    export,
    learning,
    profiles,
    second_factor,
    users,
)
from web.api import endpoint
from web.bearer import caller
from web.limits import CONFIRMATIONS, By, Guess, Limit
from web.responses import Reply

bp = Blueprint("users", __name__, url_prefix="/api/users")
get = functools.partial(endpoint, bp, "GET", role=Role.STUDENT)
put = functools.partial(endpoint, bp, "PUT", role=Role.STUDENT)
post = functools.partial(endpoint, bp, "POST", role=Role.STUDENT)
delete = functools.partial(endpoint, bp, "DELETE", role=Role.STUDENT)

# By the user's id, because the counts of an e-mail address end when it changes.
EMAIL_CHANGES = (
    Limit(5, "hour", "requests to change the e-mail address", By.CALLER),
    # Two limits, or anybody could use up the codes that others need for an e-mail address.
    Limit(3, "hour", "codes from a user to an address", By.CALLER | By.NEW_EMAIL),
    Limit(10, "hour", "codes to an e-mail address", By.NEW_EMAIL),
)
TRIES = Limit(20, "hour", "codes that a user tries", By.CALLER)
RENAMES = Limit(5, "day", "changes of a username", By.CALLER)


@get("/profile", response=schemas.Profile)
def get_profile() -> dict[str, object]:
    """Read the caller's profile."""
    return profiles.profile(caller().user)


@put(
    "/profile",
    body=schemas.ProfileChanges,
    response=schemas.Profile,
    message="Your profile is saved.",
    errors=(errors.TooManyRequests,),
)
def update_profile(body: dict[str, object]) -> dict[str, object]:
    """Change the fields that are sent; the others stay as they are.

    An empty string clears `bio`, `location` and `website`. After 20 changes of names in a day, only
    calls that leave the names as they are pass.
    """
    with transaction():
        user = profiles.update(caller().user, body)
    return profiles.profile(user)


@get(
    "/<uuid:user_id>",
    scopes=(Scope.USERS_READ,),
    response=schemas.PublicRecord,
    errors=(errors.UserNotFound, errors.ProfilePrivate, errors.RoleNeedsFactor),
)
def get_user(user_id: str) -> dict[str, object]:
    """Read the public profile of a user.

    A private profile is visible to the user, instructors, admins and service keys only. They
    always see `progress`; others see it if the user's settings allow it. Where `INSTRUCTOR_RIGHTS`
    is `groups`, instructors are such others for all but the students of their groups.
    """
    return profiles.public_profile(user_id, caller(), now=clock.utcnow())


@post(
    "/avatar",
    upload="avatar",
    response=schemas.AvatarUrl,
    message="Your picture is saved.",
    errors=(errors.InvalidImage,),
)
def upload_avatar(file: BinaryIO) -> dict[str, str]:
    """Upload a picture: JPEG, PNG, WebP or GIF, recognised by its content.

    It is turned upright, cropped to a square, scaled to at most 512 pixels and stripped of all
    metadata. At most 12 megapixels (JPEG 25, or 20 in CMYK; WebP 8), 16,383 pixels per side, and
    5 MiB by default.
    """
    try:
        picture = avatars.make(file)
    except PictureInvalid as error:
        reason = Reason("invalid", str(error))
        raise errors.InvalidImage(reason, fields={"avatar": [reason]}) from None
    with transaction():
        return {"avatar": profiles.set_avatar(caller(), picture)}


@delete("/avatar", response=schemas.AvatarUrl, message="Your picture is removed.")
def delete_avatar() -> dict[str, str]:
    """Go back to the default picture and return its URL."""
    with transaction():
        return {"avatar": profiles.remove_avatar(caller().user)}


@get("/settings", response=schemas.Settings)
def get_settings() -> dict[str, object]:
    """Read the caller's settings."""
    return profiles.preferences(caller().user)


@put(
    "/settings",
    body=schemas.SettingsChanges,
    response=schemas.Settings,
    message="Your settings are saved.",
)
def update_settings(body: dict[str, object]) -> dict[str, object]:
    """Change the settings that are sent, also within `privacy`; the others stay as they are."""
    with transaction():
        user = profiles.update(caller().user, body)
    return profiles.preferences(user)


@get("/progress", response=schemas.Progress)
def get_progress() -> dict[str, object]:
    """Read the caller's learning progress; achievements are newest first."""
    user = caller().user
    return learning.progress(user.id, user.timezone, now=clock.utcnow())


@get("/progress/days", query=schemas.DaysQuery, response=schemas.DayList)
def list_days(query: dict[str, date]) -> dict[str, object]:
    """List the days with a completed lesson, in the caller's time zone: at most 366 days.

    By default the 366 days to today; with only one of `from` and `to` the 366 days from or to it.
    """
    return learning.list_days(caller().user, query, now=clock.utcnow())


@get("/courses", response=schemas.CourseList)
def list_courses() -> dict[str, object]:
    """List the caller's courses, last activity first."""
    return {"courses": learning.list_courses(caller().user.id)}


@get(
    "/courses/<id:course_id>",
    path_shape=schemas.CoursePath,
    response=schemas.CourseWithLessons,
    errors=(errors.NotFound,),
)
def get_course(course_id: str) -> dict[str, object]:
    """Read one of the caller's courses with its completed lessons, oldest first."""
    return learning.course(caller().user.id, course_id)


@get("/certificates", response=schemas.CertificateList)
def list_certificates() -> dict[str, object]:
    """List the caller's certificates, newest first."""
    return {"certificates": certificates.list_all(caller().user.id)}


@put(
    "/certificates/<id:certificate_id>",
    path_shape=schemas.CertificatePath,
    body=schemas.CertificateSharing,
    response=schemas.CertificateRecord,
    message="The certificate is saved.",
    errors=(errors.NotFound,),
)
def share_certificate(certificate_id: str, body: dict[str, bool]) -> dict[str, object]:
    """Share a certificate of the caller, so that everybody with its `verifyUrl` can check it.

    A shared certificate keeps its URL. After `shared` was set to false, the URL never works again.
    """
    with transaction():
        return certificates.share(caller().user.id, certificate_id, **body)


@get(
    "/export",
    writes=True,
    response=schemas.Export,
    limits=(Limit(10, "hour", "exports of a user's data", By.CALLER),),
)
def export_data() -> Reply:
    """Read everything that is stored about the caller, as a file to keep."""
    me = caller()
    data, more = export.collect(me.user, session_id=me.session_id, now=clock.utcnow())
    with transaction():
        if users.lock(me.id, key_share=True) is None:
            raise errors.TokenRevoked
        events.tell("data_exported", me.id)
    return Reply(data, headers=export.AS_FILE, more=more)


@put(
    "/password",
    body=schemas.ChangePassword,
    message="Your password is changed and your other sessions have ended.",
    errors=(*errors.UNCONFIRMED, errors.WeakPassword),
    limits=CONFIRMATIONS,
)
def change_password(body: dict[str, str], guess: Guess) -> None:
    """Change the password. All other sessions end, and a notice is sent by e-mail."""
    me, typed = caller(), body["second_factor"]
    current, person = body["current_password"], me.user._asdict()
    proof = second_factor.prove(me.user, current, typed, field="currentPassword")
    new_hash = accounts.hash_new_password(body["new_password"], person, field="newPassword")
    with second_factor.allowed(me, proof), guess.right():
        accounts.change_password(me, new_hash)


@get("/email", response=schemas.EmailState)
def get_email() -> dict[str, object]:
    """Read the caller's e-mail address, and the new one that waits for its code."""
    user = caller().user
    return {**user._asdict(), **email_change.pending(user.id, now=clock.utcnow())}


@post(
    "/email",
    body=schemas.EmailRequest,
    response=schemas.PendingEmail,
    message="We have sent a code to the new e-mail address. Enter it to confirm the change.",
    errors=(*errors.UNCONFIRMED, errors.EmailTaken),
    limits=(*CONFIRMATIONS, *EMAIL_CHANGES),
)
def request_email(body: dict[str, str], guess: Guess) -> dict[str, object]:
    """Ask for another e-mail address; it replaces an earlier request.

    Nothing of the account changes before `POST /api/users/email/confirm` gets the code, within 24
    hours.
    """
    me = caller()
    profiles.require_own_account(me.user)
    proof = second_factor.prove(me.user, body["password"], body["second_factor"])
    accounts.check_domain(body["new_email"], field="newEmail")
    with second_factor.allowed(me, proof), guess.right():
        return email_change.request(me, body["new_email"], now=clock.utcnow())


@post(
    "/email/confirm",
    body=schemas.EmailCode,
    response=schemas.ConfirmedEmail,
    message="Your e-mail address is changed and your other sessions have ended.",
    errors=(errors.InvalidToken, errors.WrongCode, errors.EmailTaken),
    limits=(TRIES,),
)
def confirm_email(body: dict[str, str]) -> dict[str, str]:
    """Change the e-mail address with the code that was sent to the new one.

    After five wrong codes, ask for the change again. All other sessions end. The old e-mail
    address, if it was confirmed, gets a notice.
    """
    me, now = caller(), clock.utcnow()
    profiles.require_own_account(me.user)
    proven = email_change.try_code(me.user.id, body["code"], now=now)
    with transaction():
        email_change.confirm(me, proven, now=now)
    return {"email": proven.new_email}


@delete("/email", message="Your e-mail address stays as it is.")
def drop_email() -> None:
    """Drop the request for another e-mail address, if there is one."""
    with transaction():
        accounts.drop_pending_email(caller().user.id)


@put(
    "/username",
    body=schemas.Rename,
    response=schemas.Profile,
    message="Your username is saved.",
    errors=(*errors.UNCONFIRMED, errors.UsernameTaken),
    limits=(*CONFIRMATIONS, RENAMES),
)
def rename(body: dict[str, str], guess: Guess) -> dict[str, object]:
    """Change the username. The old one is free at once, and a notice is sent by e-mail."""
    me = caller()
    profiles.require_own_account(me.user)
    proof = second_factor.prove(me.user, body["password"], body["second_factor"])
    with second_factor.allowed(me, proof), guess.right():
        renamed = profiles.rename(me.user, body["username"])
    return profiles.profile(renamed)


@delete(
    "/account",
    body=schemas.DeleteAccount,
    message="Your account is deleted.",
    errors=(*errors.UNCONFIRMED, errors.LastAdmin),
    limits=CONFIRMATIONS,
)
def delete_account(body: dict[str, str], guess: Guess) -> None:
    """Delete the caller's account and everything stored about it, immediately and permanently.

    Username and e-mail address can be registered again. A notice is sent to the e-mail address.
    """
    me = caller()
    profiles.require_own_account(me.user)
    proof = second_factor.prove(me.user, body["password"], body["second_factor"])
    with transaction(), guess.right():
        is_last_admin = accounts.lock_admins(me.user.id)  # locked before the caller's own row
        second_factor.allow(me, proof)
        if is_last_admin:
            raise errors.LastAdmin
        accounts.delete(me.user)
