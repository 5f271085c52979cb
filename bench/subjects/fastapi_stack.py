"""fastapi-users on uvicorn: JWTs that nothing revokes, and no refresh tokens.

It has a table of its own. `python -m bench.subjects.fastapi_stack` makes and fills it, and prints
the tokens as JSON.
"""

import asyncio
import json
import os
import sys
import uuid
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from fastapi import Depends, FastAPI
from fastapi_users import BaseUserManager, FastAPIUsers, UUIDIDMixin, schemas
from fastapi_users.authentication import AuthenticationBackend, BearerTransport, JWTStrategy
from fastapi_users.db import SQLAlchemyBaseUserTableUUID, SQLAlchemyUserDatabase
from fastapi_users.password import PasswordHelper
from pwdlib import PasswordHash
from pwdlib.hashers.bcrypt import BcryptHasher
from sqlalchemy import String, event
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

SECRET = os.environ["SECRET_KEY"]
HASHES = PasswordHelper(PasswordHash((BcryptHasher(rounds=int(os.environ["BCRYPT_ROUNDS"])),)))


def database(url: str) -> tuple[str, dict[str, Any]]:
    """Return the URL with an asynchronous driver, and what that driver wants beside it."""
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        return f"sqlite+aiosqlite:///{parts.path[1:]}", {"timeout": 30}
    host = parse_qs(parts.query).get("host", [parts.hostname])[0]
    return f"postgresql+asyncpg://{parts.username}:{parts.password or ''}@{parts.path}", {
        "host": host
    }


class Base(DeclarativeBase):
    pass


class User(SQLAlchemyBaseUserTableUUID, Base):
    first_name: Mapped[str] = mapped_column(String(64), default="First")
    last_name: Mapped[str] = mapped_column(String(64), default="Last")


class UserRead(schemas.BaseUser[uuid.UUID]):
    first_name: str
    last_name: str


class UserCreate(schemas.BaseUserCreate):
    pass


_url, _arguments = database(os.environ["DATABASE_URL"])
engine = create_async_engine(_url, connect_args=_arguments, pool_size=8, max_overflow=0)
sessions = async_sessionmaker(engine, expire_on_commit=False)

if _url.startswith("sqlite"):

    @event.listens_for(engine.sync_engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        for pragma in ("journal_mode=WAL", "synchronous=FULL"):
            connection.execute(f"PRAGMA {pragma}")


async def session() -> AsyncIterator[AsyncSession]:
    async with sessions() as found:
        yield found


async def user_table(found: AsyncSession = Depends(session)) -> AsyncIterator[Any]:  # noqa: B008
    yield SQLAlchemyUserDatabase(found, User)


class UserManager(UUIDIDMixin, BaseUserManager[User, uuid.UUID]):  # type: ignore[type-var]
    reset_password_token_secret = SECRET
    verification_token_secret = SECRET


async def manager(table: Any = Depends(user_table)) -> AsyncIterator[UserManager]:  # noqa: B008
    yield UserManager(table, HASHES)


def strategy() -> JWTStrategy[User, uuid.UUID]:  # type: ignore[type-var]
    return JWTStrategy(secret=SECRET, lifetime_seconds=86400)


backend = AuthenticationBackend(
    name="jwt", transport=BearerTransport(tokenUrl="login"), get_strategy=strategy
)
users = FastAPIUsers[User, uuid.UUID](manager, [backend])  # type: ignore[type-var]
app = FastAPI()
app.include_router(users.get_auth_router(backend))
app.include_router(users.get_register_router(UserRead, UserCreate))
app.include_router(users.get_users_router(UserRead, UserRead), prefix="/users")


async def fill(count: int, password: str) -> None:
    """Make the table, add the users, and print what the load sends."""
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    password_hash = HASHES.hash(password)
    rows = [
        User(
            id=uuid.uuid4(),
            email=f"user{number:07}@example.org",
            hashed_password=password_hash,
            is_active=True,
            is_superuser=False,
            is_verified=True,
        )
        for number in range(count)
    ]
    async with sessions() as found:
        found.add_all(rows)
        await found.commit()
    some = rows[:: max(1, count // 5000)]
    json.dump(
        {
            "owners": [row.email for row in some],
            "access": [await strategy().write_token(row) for row in some],
            "refresh": [],
            "logins": [urlencode({"username": row.email, "password": password}) for row in some],
        },
        sys.stdout,
    )
    await engine.dispose()


if __name__ == "__main__":
    asyncio.run(fill(int(sys.argv[1]), sys.argv[2]))
