"""The embedded default: a SQLite file and a generated secret in the instance folder.

If several processes start at once, a lock on a file lets one prepare them while the others wait.
"""

import fcntl
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flask import Flask
from sqlalchemy import URL

from config import ConfigError
from config.types import MIN_SECRET_BYTES
from core.files import new_file
from database import schema
from extensions import db

DATABASE = "accounts.db"


def database_url(folder: Path) -> URL:
    return URL.create("sqlite", database=str(folder / DATABASE))


def secret_key(folder: Path) -> str:
    """Return the secret in this folder; the first call generates it. Raises ConfigError."""
    path = folder / "secret_key"
    with _lock(folder):
        if not path.exists():
            # It gets its name when it is complete, so a crash leaves no truncated secret.
            with new_file(path) as file:
                file.write(secrets.token_urlsafe(48).encode())
        secret = path.read_text().strip()
    if len(secret.encode()) < MIN_SECRET_BYTES:
        raise ConfigError(f"{path} holds no secret. Delete it to get a new one.")
    return secret


def bring_up_schema(app: Flask, folder: Path) -> None:
    """Migrate the embedded database to the schema of this code, unless its schema is newer.

    Raises ConfigError.
    """
    with _lock(folder), app.app_context():
        if not schema.is_ready():
            schema.upgrade()
        # With `gunicorn --preload`, workers would inherit this process's connection.
        db.engine.dispose()


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(folder / "lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # a crash releases it too
        yield
