"""What the commands share: plain errors, the argument ACCOUNT, times and input in words."""

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import click
from flask.cli import AppGroup
from marshmallow import Schema, ValidationError
from sqlalchemy.exc import DBAPIError

import errors
from config import ConfigError
from core import clock
from database import is_unavailable
from database_check import reason
from schemas import camel_case
from services import copies
from services.users import find as find_user

_ACCOUNT = "Id, username or e-mail address."


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn an expected error into one sentence on standard error, and the exit status."""
    try:
        yield
    except errors.ApiError as error:
        reasons = [reason for found in (error.fields or {}).values() for reason in found]
        raise click.ClickException(" ".join(reasons) or str(error)) from None
    except (ConfigError, copies.CopyError) as error:
        raise click.ClickException(str(error)) from None
    except UnicodeError as error:
        # Invalid bytes arrive as lone surrogates, which UTF-8 refuses, or cannot be decoded.
        if isinstance(error, UnicodeEncodeError) and error.encoding != "utf-8":
            problem = f"This terminal has no such letters ({error.encoding}). Set LC_ALL=C.UTF-8."
            raise click.ClickException(problem) from None
        raise click.UsageError("The input is not valid UTF-8.") from None
    except Exception as error:
        if isinstance(error, DBAPIError) or is_unavailable(error):
            problem = f"The database cannot be reached or used: {reason(error)}."
            raise click.ClickException(problem) from None
        raise


class Commands(AppGroup):
    """A group of commands with plain errors, inside the application."""

    @plain_errors()
    def invoke(self, ctx: click.Context) -> Any:
        return super().invoke(ctx)


def account(command: Callable[..., None]) -> Callable[..., None]:
    """Pass the row of ACCOUNT to the command."""

    @click.argument("account", help=_ACCOUNT)
    @functools.wraps(command)
    def find(account: str, **options: Any) -> None:
        command(find_user(account), **options)

    return find


def each_account(command: Callable[..., None]) -> Callable[..., None]:
    """Do as `account` does, or with `-` for each account that the standard input names in a line.

    Those that are not found or refused are named on standard error, and the exit status is then 1.
    An account that is named again is left alone.
    """

    @click.argument("account", help=f"{_ACCOUNT}  -: each line of the input names one.")
    @functools.wraps(command)
    def for_each(account: str, **options: Any) -> None:
        if account != "-":
            command(find_user(account), **options)
            return
        if not options.get("yes", True):
            raise click.UsageError("With -, nothing can be asked: add --yes.")
        is_done = True
        met = {""}
        for line in sys.stdin:
            name = line.lstrip("\ufeff").strip()
            if name.lower() in met:
                continue
            try:
                user = find_user(name)
                met |= {user.id, user.username_key, user.email}
                command(user, **options)
            except errors.ApiError as error:
                click.echo(f"{name}: {error}", err=True)
                is_done = False
        if not is_done:
            sys.exit(1)

    return for_each


def load(schema: Schema, **typed: str | None) -> Any:
    """Validate what was typed, but None. Raises click's UsageError with a line for each field."""
    sent = {camel_case(name): text for name, text in typed.items() if text is not None}
    try:
        return schema.load(sent)
    except ValidationError as error:
        lines = [f"{name}: {' '.join(found)}" for name, found in error.messages_dict.items()]
        raise click.UsageError("\n".join(lines)) from None


def written(moment: datetime | None) -> str:
    """Return a time as in RFC 3339, `never` for none."""
    return clock.rfc3339(moment) if moment else "never"
