"""All errors of the API, with a stable code for programs each.

Every error response has one shape, also for unknown paths and for failures of the service:
`{"success": false, "message": "Some fields are not valid.", "error": {"code": "invalid_request",
"fields": {"email": ["This is not a valid e-mail address."]}, "reasons": {"email": ["invalid"]}}}`.

`message` is for people and may change; `code` is for programs and is stable. `fields` is there when
single fields are wrong, by their names in the request; those of an object are in an object.
`reasons` has the same shape, with a stable word for each sentence. `X-Request-ID` identifies the
request in the log. A 401 of an endpoint that needs a token has `WWW-Authenticate: Bearer` (RFC
6750).

A request that cannot be parsed as HTTP is `invalid_request` too, with the matching status: 414 or
431 if its first line or its headers are too long, 417, 501, and 400 for all others. The connection
is then closed.
"""

from collections.abc import Mapping
from typing import ClassVar, Self, TypeAlias, Union

from core.reasons import Reason, Word

# What is wrong with fields, by their names; with those of an object, by the names in it.
Fields: TypeAlias = Mapping[str, Union[list[Reason], "Fields"]]


class ApiError(Exception):
    """An error response; `web.error_handlers` renders it.

    The docstring of each error says when it comes and, after an empty line, what the client does.
    docs/reference.md is made from both.
    """

    status: ClassVar[int]
    code: ClassVar[str]
    message: ClassVar[str]
    # Seconds, for the Retry-After header.
    retry_after: int | None = None
    # Other headers of the response.
    headers: Mapping[str, str] = {}

    def __init__(
        self,
        message: str | None = None,
        *,
        fields: Fields | None = None,
        retry_after: int | None = None,
        email: str | None = None,
    ) -> None:
        super().__init__(message or self.message)
        self.fields = fields
        self.email = email
        self.retry_after = retry_after or self.retry_after

    @property
    def reasons(self) -> dict[str, object] | None:
        """The words of `fields`, in the same shape."""
        return _words(self.fields) if self.fields else None

    def __init_subclass__(cls, *, status: int = 0, code: str = "") -> None:
        cls.status = status or cls.status  # a special case of an error has those of the error
        cls.code = code or cls.code

    @classmethod
    def at(cls, field: str, word: Word) -> Self:
        """Return the error with its message as the reason at one field."""
        return cls(fields={field: [Reason(word, cls.message)]})


def _words(fields: Fields) -> dict[str, object]:
    return {
        name: _words(found)
        if isinstance(found, Mapping)
        else [getattr(reason, "word", "invalid") for reason in found]
        for name, found in fields.items()
    }


class InvalidRequest(ApiError, status=400, code="invalid_request"):
    """The body is not a JSON object (or not a form); or a field, a parameter of the query or an id
    in the path is missing, unknown, of the wrong type or out of range.

    Show `fields`; do not send the same request again.
    """

    message = "Some fields are not valid."


class WeakPassword(ApiError, status=400, code="weak_password"):
    """The new password is too short or easily guessed.

    Show the reason in `fields`, or a text of your own by its word.
    """

    message = "This password is too easy to guess. Choose another one."


class WrongPassword(ApiError, status=400, code="wrong_password"):
    """The current password is wrong, at a change or a deletion; or that of an account is wrong or
    missing, when its address is confirmed.

    Ask again; the session stays open.
    """

    message = "This is not your current password. Try again."


class InvalidToken(ApiError, status=400, code="invalid_token"):
    """The token of a link is unknown, expired or used; or a code to choose a password, or its
    account, is wrong; or no new e-mail address or second factor waits for a code, or too many codes
    were wrong; or a sign-in with a provider is too old, was used, or began elsewhere; or the
    challenge of a passkey is too old, was used, or is another's, or it can be none here; or what an
    application asks for is none of ours, or too old.

    Offer to send a new e-mail, or to begin again.
    """

    message = "This link is not valid any more. Ask for a new one."


class WrongAccessCode(InvalidToken):
    message = "The account or the code is wrong, or the code is no longer valid. Ask for a new one."


class InvalidPasskey(InvalidToken):
    message = "The browser has sent no passkey that can be used here. Begin again."


class WrongCode(ApiError, status=400, code="wrong_code"):
    """This is not the code that was sent to the new e-mail address; or the code in `secondFactor`
    is wrong, or was used before.

    Ask again. After five wrong codes, the new address must be asked for anew; an app shows another
    code after 30 seconds.
    """

    message = "This code is wrong, or it was used before. Enter the next one."


class InvalidImage(ApiError, status=400, code="invalid_image"):
    """The uploaded file is not a supported picture, or has too many pixels.

    Show the message, which says what to do.
    """

    message = "This file is not a picture that we support. Send a JPEG, PNG, WebP or GIF file."


class InvalidCredentials(ApiError, status=401, code="invalid_credentials"):
    """The e-mail address, the username or the password is wrong; the response does not say which.
    With `provider` alone: the account changed meanwhile. With `passkey`: it does not log in here.

    Ask again, or begin the sign-in again.
    """

    message = "The e-mail address, the username or the password is wrong. Check them."


class TokenMissing(ApiError, status=401, code="token_missing"):
    """There is no bearer token in the `Authorization` header; or no cookie, at a refresh with
    `X-Refresh-Cookie`.

    Log in.
    """

    message = "Send an access token in the header `Authorization: Bearer <token>`."


class TokenInvalid(ApiError, status=401, code="token_invalid"):
    """The token was not signed by this service, or is for another purpose; or the service key is
    unknown or revoked.

    Log in; a service needs a new key.
    """

    message = "This token is not valid. Log in again."


class TokenExpired(ApiError, status=401, code="token_expired"):
    """The token or service key has expired, or the session was not refreshed for
    `SESSION_IDLE_DAYS`.

    With an access token: refresh. With a refresh token: log in. With a service key: use a new one.
    """

    message = "This token has expired. Refresh your tokens or log in again."


class TokenRevoked(ApiError, status=401, code="token_revoked"):
    """The session has ended, the refresh token was already used, or the account was deleted.

    Log in.
    """

    message = "This token has been revoked. Log in again."


class AccountInactive(ApiError, status=403, code="account_inactive"):
    """The password or the provider is right, but the account was deactivated.

    Refer the user to support.
    """

    message = "This account has been deactivated. Contact support."


class EmailUnverified(ApiError, status=403, code="email_unverified"):
    """The password or the provider is right, but `REQUIRE_VERIFIED_EMAIL` is set and the e-mail
    address is not confirmed.

    Offer `resend-verification`.
    """

    message = "Confirm your e-mail address first: open the link that we sent to it."


class RegistrationClosed(ApiError, status=403, code="registration_closed"):
    """`REGISTRATION` is not `open`. At a login with `provider`: no account is linked, and none may
    be made; the message says why.

    Refer to the operators, who can invite people. At a login: offer to link an account, beside a
    sign-in without the provider. `error.email` is the address of the person at the provider, or
    empty: show it there.
    """

    message = "You cannot register here. Ask the operators of this service for an account."


class SecondFactorRequired(ApiError, status=403, code="second_factor_required"):
    """The password or the provider is right, and the account has a second factor: `fields` names
    `secondFactor`. Or the caller's role needs one (`REQUIRE_SECOND_FACTOR`), and there is none: no
    `fields`.

    Ask for a code, and send the same call again with it in `secondFactor`. Without `fields`: lead
    to the page that sets one up.
    """

    message = "Send the same call again with a code of your authenticator app in `secondFactor`."


class RoleNeedsFactor(SecondFactorRequired):
    message = "Your role needs a second factor. Set one up first: POST /api/auth/second-factor."


class ProfilePrivate(ApiError, status=403, code="profile_private"):
    """The user's settings make the profile private."""

    message = "This profile is private."


class Forbidden(ApiError, status=403, code="forbidden"):
    """The caller's role, or the scopes of the service key, do not allow this."""

    message = "Your role or service key does not allow this."


class LoginTooOld(ApiError, status=403, code="login_too_old"):
    """An application wants a login that is later than this session's.

    Offer to log out and in, and send the same call again.
    """

    message = "The application wants a new login. Log out and in again."


class NotFound(ApiError, status=404, code="not_found"):
    """No resource exists at this URL, such as one with a malformed id; or there is no such session,
    service key, provider, second factor, passkey or course; or no application is set.

    For a lesson: deliver the course, then the lesson again.
    """

    message = "No resource exists at this URL."


class UserNotFound(ApiError, status=404, code="user_not_found"):
    """No user has this id, or the user is inactive."""

    message = "There is no such user."


class MethodNotAllowed(ApiError, status=405, code="method_not_allowed"):
    """The URL supports other methods; the header `Allow` lists them."""

    message = "This URL does not support that method."


class UsernameTaken(ApiError, status=409, code="username_taken"):
    """Another account has this username; upper and lower case count as equal.

    Ask for another one, after the reason `unconfirmed` also whether it is their own account; at a
    login with `provider`, send the call again.
    """

    message = "This username is taken. Choose another one."


class EmailTaken(ApiError, status=409, code="email_taken"):
    """An account has this e-mail address, for a change also one's own. If the username is taken
    too, the code is `username_taken` and `fields` names both.

    Offer to log in; at a login with `provider`, do as for `registration_closed`.
    """

    message = "An account with this e-mail address already exists."


class IdentityTaken(ApiError, status=409, code="identity_taken"):
    """The account is linked to another account at a provider, or this one at the provider to
    another account. Nothing was linked, and nobody is logged in.

    Offer to log in with the password alone, or with the provider alone.
    """

    message = "This account, or yours at the provider, is linked to another one already."


class ExternalIdTaken(ApiError, status=409, code="external_id_taken"):
    """Another account has this `externalId`. `fields` names it, and beside it username and e-mail
    address if those are taken too.

    Look for the account that has it: `GET /api/users?externalId=`.
    """

    message = "Another account has this `externalId`. Choose a different one."


class AccountUsed(ApiError, status=409, code="account_used"):
    """Somebody has signed in to the account, it has learning records, or it is an admin's: it is
    not taken back together with others that nobody has used.

    Delete it by itself if you mean it.
    """

    message = "This account is in use. Delete it by itself."


class LastAdmin(ApiError, status=409, code="last_admin"):
    """The last active admin can be neither demoted, deactivated nor deleted.

    Make another user an admin first.
    """

    message = "This is the last active admin. Make another user an admin first."


class SecondFactorExists(ApiError, status=409, code="second_factor_exists"):
    """The account has a second factor already.

    Remove that one first.
    """

    message = "Your account has a second factor already. Remove it first."


class TooManyMissing(ApiError, status=409, code="too_many_missing"):
    """A list of people lacks more than a quarter of the accounts of a role; nothing is done.

    Look at the list: perhaps it was cut off. If it is right, send it again with `all=true`.
    """

    message = "More than a quarter are not in the list. Is it whole? If so, add all=true."


class TooManyPasskeys(ApiError, status=409, code="too_many_passkeys"):
    """The account has ten passkeys.

    Remove one first.
    """

    message = "Your account has ten passkeys. Remove one first."


class PasskeyTaken(ApiError, status=409, code="passkey_taken"):
    """An account has this passkey already, perhaps another one.

    Make another one.
    """

    message = "An account has this passkey already. Make another one."


class CursorExpired(ApiError, status=410, code="cursor_expired"):
    """The `next` of a list of changes is more than 90 days old, or the database was restored.

    Begin again without `after`; what does not come then is gone.
    """

    message = "This cursor is too old, or the database was restored. Begin again without `after`."


class TooLarge(ApiError, status=413, code="too_large"):
    """The body is larger than 64 KiB, or 2 MiB in calls about many; or the picture is larger than
    `MAX_AVATAR_BYTES`.

    Send less.
    """

    message = "The request body is too large. Send less."


class UnsupportedMediaType(ApiError, status=415, code="unsupported_media_type"):
    """The body is not `application/json`, or it is compressed; for an avatar, it is not
    `multipart/form-data`, for an application not a form.
    """

    message = "Send the body as application/json."


class TooManyRequests(ApiError, status=429, code="too_many_requests"):
    """A limit is reached, for a client IP, an account or a caller.

    Try again after `Retry-After` seconds, not before.
    """

    message = "Too many attempts. Try again later."
    retry_after = 60


class InternalError(ApiError, status=500, code="internal_error"):
    """A bug in the service; the log has its details under the request id.

    Report the request id.
    """

    message = "Something went wrong on our side. If it keeps happening, report the request id."


class Unavailable(ApiError, status=503, code="unavailable"):
    """The database is unreachable, overloaded, read-only or not migrated; or too many logins or
    pictures are waiting; or a sign-in cannot begin because the provider does not answer.

    Try again after `Retry-After` seconds.
    """

    message = "The service is temporarily unavailable. Try again in a moment."
    # The usual cause is a restart of the database, which takes about this long.
    retry_after = 5


# How a call with the current password of a signed-in user is refused.
UNCONFIRMED = (WrongPassword, SecondFactorRequired, WrongCode)
# How an access or a refresh token is refused.
BAD_TOKEN = (TokenMissing, TokenInvalid, TokenExpired, TokenRevoked)
# How names are refused that another account has.
TAKEN = (UsernameTaken, EmailTaken, ExternalIdTaken)


def all_errors() -> list[type[ApiError]]:
    """Return every error, in the order of this file."""
    return ApiError.__subclasses__()
