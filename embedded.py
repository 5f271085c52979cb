"""The embedded default: a SQLite file and a generated secret in the instance folder.

Several processes may start at once on an empty folder; a lock on a file beside the database lets
one of them prepare it while the others wait.
"""

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flask import Flask
from sqlalchemy import URL

import database
from config import MIN_SECRET_BYTES, ConfigError
from extensions import db

DATABASE = "accounts.db"


def database_url(folder: Path) -> URL:
    """Return the URL of the embedded database in this folder."""
    return URL.create("sqlite", database=str(folder / DATABASE))


def secret_key(folder: Path) -> str:
    """Return the secret kept in this folder; make one on the first call (mode 0600).

    Raises ConfigError when the file does not hold a secret that is long enough.
    """
    path = folder / "secret_key"
    with _lock(folder):
        if not path.exists():
            # Written aside and moved, so that a crash leaves no half of a secret.
            draft = path.with_suffix(".new")
            draft.unlink(missing_ok=True)
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(secrets.token_urlsafe(48))
                file.flush()
                os.fsync(file.fileno())
            draft.rename(path)
        secret = path.read_text().strip()
    if len(secret.encode()) < MIN_SECRET_BYTES:
        raise ConfigError(f"{path} holds no secret. Delete it to get a new one.")
    return secret


def bring_up_schema(app: Flask, folder: Path) -> None:
    """Migrate the embedded database to the newest schema, unless it is there already."""
    with _lock(folder):
        # SQLite gives its other files the mode of this one.
        (folder / DATABASE).touch(mode=0o600)
        with app.app_context():
            current = database.schema_is_current()
        if not current:
            database.upgrade(app)
        with app.app_context():
            # With `gunicorn --preload`, workers would inherit this connection from the master.
            db.engine.dispose()


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(folder / "lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # released when the file is closed, also by a crash
        yield
