"""All errors of the API, with a stable code for programs each. docs/errors.md explains them."""

from collections.abc import Mapping
from typing import ClassVar, Self, TypeAlias, Union

from core.reasons import Reason, Word

# What is wrong with fields, by their names; with those of an object, by the names in it.
Fields: TypeAlias = Mapping[str, Union[list[Reason], "Fields"]]


class ApiError(Exception):
    """An error response; `web.error_handlers` renders it."""

    status: ClassVar[int]
    code: ClassVar[str]
    message: ClassVar[str]
    # Whether it says that a password or a code was wrong: limits count that as a failed login.
    wrong_guess: ClassVar[bool] = False
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
    ) -> None:
        super().__init__(message or self.message)
        self.fields = fields
        self.retry_after = retry_after or self.retry_after

    @classmethod
    def at(cls, field: str, word: Word) -> Self:
        """Return the error with its message as the reason at one field."""
        return cls(fields={field: [Reason(word, cls.message)]})


class InvalidRequest(ApiError):
    status, code, message = 400, "invalid_request", "Some fields are not valid."


class WeakPassword(ApiError):
    status, code = 400, "weak_password"
    message = "This password is too easy to guess. Choose another one."


class WrongPassword(ApiError):
    status, code, message = 400, "wrong_password", "This is not your current password."
    wrong_guess = True


class PasswordReplaced(WrongPassword):
    """The password was right, and the account changed while it was judged."""

    wrong_guess = False


class InvalidToken(ApiError):
    status, code = 400, "invalid_token"
    message = "This link is not valid any more. Ask for a new one."


class WrongAccessCode(InvalidToken):
    message = "The account or the code is wrong, or the code is not valid any more."
    wrong_guess = True


class WrongCode(ApiError):
    status, code, message = 400, "wrong_code", "This code is wrong, or it was used before."
    wrong_guess = True


class InvalidImage(ApiError):
    status, code = 400, "invalid_image"
    message = "This file is not a picture that we support. Send a JPEG, PNG, WebP or GIF file."


class InvalidCredentials(ApiError):
    status, code = 401, "invalid_credentials"
    message = "The e-mail address, the username or the password is wrong."
    wrong_guess = True


class CredentialsReplaced(InvalidCredentials):
    """The password was right, and the account changed while it was judged."""

    wrong_guess = False


class TokenMissing(ApiError):
    status, code = 401, "token_missing"
    message = "Send an access token in the header `Authorization: Bearer <token>`."


class TokenInvalid(ApiError):
    status, code, message = 401, "token_invalid", "This token is not valid. Log in again."


class TokenExpired(ApiError):
    status, code = 401, "token_expired"
    message = "This token has expired. Refresh your tokens or log in again."


class TokenRevoked(ApiError):
    status, code, message = 401, "token_revoked", "This token has been revoked. Log in again."


class AccountInactive(ApiError):
    status, code = 403, "account_inactive"
    message = "This account has been deactivated. Contact support."


class EmailUnverified(ApiError):
    status, code = 403, "email_unverified"
    message = "Confirm your e-mail address first: open the link that we sent to it."


class RegistrationClosed(ApiError):
    status, code = 403, "registration_closed"
    message = "You cannot register here. Ask the operators of this service for an account."


class SecondFactorRequired(ApiError):
    status, code = 403, "second_factor_required"
    message = "Send the same call again with a code of your authenticator app in `secondFactor`."


class RoleNeedsFactor(SecondFactorRequired):
    message = "Your role needs a second factor. Set one up first: POST /api/auth/second-factor."


class ProfilePrivate(ApiError):
    status, code, message = 403, "profile_private", "This profile is private."


class Forbidden(ApiError):
    status, code = 403, "forbidden"
    message = "Your role or service key does not allow this."


class NotFound(ApiError):
    status, code, message = 404, "not_found", "No resource exists at this URL."


class UserNotFound(ApiError):
    status, code, message = 404, "user_not_found", "There is no such user."


class MethodNotAllowed(ApiError):
    status, code, message = 405, "method_not_allowed", "This URL does not support that method."


class UsernameTaken(ApiError):
    status, code, message = 409, "username_taken", "This username is taken. Choose another one."


class EmailTaken(ApiError):
    status, code = 409, "email_taken"
    message = "An account with this e-mail address already exists."


class IdentityTaken(ApiError):
    status, code = 409, "identity_taken"
    message = "This account, or yours at the provider, is linked to another one already."


class ExternalIdTaken(ApiError):
    status, code = 409, "external_id_taken"
    message = "Another account has this `externalId`."


class LastAdmin(ApiError):
    status, code = 409, "last_admin"
    message = "This is the last active admin. Make another user an admin first."


class SecondFactorExists(ApiError):
    status, code = 409, "second_factor_exists"
    message = "Your account has a second factor already. Remove it first."


class CursorExpired(ApiError):
    status, code = 410, "cursor_expired"
    message = "This cursor is too old, or the database was restored. Begin again without `after`."


class TooLarge(ApiError):
    status, code, message = 413, "too_large", "The request body is too large. Send less."


class UnsupportedMediaType(ApiError):
    status, code, message = 415, "unsupported_media_type", "Send the body as application/json."


class TooManyRequests(ApiError):
    status, code = 429, "too_many_requests"
    message = "Too many attempts. Try again later."
    retry_after = 60


class InternalError(ApiError):
    status, code = 500, "internal_error"
    message = "Something went wrong on our side. If it keeps happening, report the request id."


class Unavailable(ApiError):
    status, code = 503, "unavailable"
    message = "The service is temporarily unavailable. Try again in a moment."
    # The usual cause is a restart of the database, which takes about this long.
    retry_after = 5


# How a call with the current password of a signed-in user is refused.
UNCONFIRMED = (WrongPassword, SecondFactorRequired, WrongCode)


def all_errors() -> list[type[ApiError]]:
    """Return every error, in the order of this file."""
    return ApiError.__subclasses__()
