"""The closed list of errors that the API answers with.

Each has a status, a stable code for machines and one sentence for a person. docs/errors.md is
the same list with what a client should do, and a test compares the two.
"""

from typing import Any, ClassVar


class ApiError(Exception):
    """An answer that is not a success; `web.error_handlers` renders it."""

    status: ClassVar[int]
    code: ClassVar[str]
    message: ClassVar[str]
    # Seconds, for the Retry-After header; an error may know better than its kind.
    retry_after: int | None = None

    def __init__(
        self,
        message: str | None = None,
        *,
        fields: dict[str, Any] | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message or self.message)
        self.fields = fields
        if retry_after is not None:
            self.retry_after = retry_after


class InvalidRequest(ApiError):
    status, code, message = 400, "invalid_request", "Some fields are not valid."


class WeakPassword(ApiError):
    status, code = 400, "weak_password"
    message = "This password is too easy to guess. Choose another one."


class WrongPassword(ApiError):
    status, code, message = 400, "wrong_password", "This is not your current password."


class InvalidToken(ApiError):
    status, code = 400, "invalid_token"
    message = "This link is not valid any more. Ask for a new one."


class InvalidImage(ApiError):
    status, code = 400, "invalid_image"
    message = "This is not a picture that can be used. Send a JPEG, PNG, WebP or GIF file."


class InvalidCredentials(ApiError):
    status, code = 401, "invalid_credentials"
    message = "The e-mail address or the password is wrong."


class TokenMissing(ApiError):
    status, code = 401, "token_missing"
    message = "Send an access token in the Authorization header, with the scheme Bearer."


class TokenInvalid(ApiError):
    status, code, message = 401, "token_invalid", "This token is not valid. Log in again."


class TokenExpired(ApiError):
    status, code = 401, "token_expired"
    message = "This token has expired. Refresh it or log in again."


class TokenRevoked(ApiError):
    status, code, message = 401, "token_revoked", "This token has been revoked. Log in again."


class AccountInactive(ApiError):
    status, code, message = 403, "account_inactive", "This account has been deactivated."


class EmailUnverified(ApiError):
    status, code = 403, "email_unverified"
    message = "Confirm your e-mail address first, with the link that we sent to it."


class ProfilePrivate(ApiError):
    status, code, message = 403, "profile_private", "This user keeps the profile private."


class Forbidden(ApiError):
    status, code, message = 403, "forbidden", "Your role does not allow this."


class NotFound(ApiError):
    status, code, message = 404, "not_found", "There is nothing at this address."


class UserNotFound(ApiError):
    status, code, message = 404, "user_not_found", "There is no such user."


class MethodNotAllowed(ApiError):
    status, code, message = 405, "method_not_allowed", "This address does not answer that method."


class UsernameTaken(ApiError):
    status, code, message = 409, "username_taken", "This username is taken. Choose another one."


class EmailTaken(ApiError):
    status, code = 409, "email_taken"
    message = "There is already an account with this e-mail address."


class LastAdmin(ApiError):
    status, code = 409, "last_admin"
    message = "This is the last active admin. Make somebody else an admin first."


class TooLarge(ApiError):
    status, code, message = 413, "too_large", "The body of this request is too large."


class UnsupportedMediaType(ApiError):
    status, code, message = 415, "unsupported_media_type", "Send the body as application/json."


class TooManyRequests(ApiError):
    status, code = 429, "too_many_requests"
    message = "Too many tries. Wait a while before the next one."
    retry_after = 60


class InternalError(ApiError):
    status, code = 500, "internal_error"
    message = "Something went wrong here. Try again; if it stays, report the request id."


class Unavailable(ApiError):
    status, code = 503, "unavailable"
    message = "The service cannot do this right now. Try again in a moment."
    # Most such faults are a restart of the database, which takes about as long.
    retry_after = 5


def all_errors() -> list[type[ApiError]]:
    """Return every error of the list, in the order of this file."""
    return ApiError.__subclasses__()
