"""The settings of the service: one table, read from the environment and checked together."""

import dataclasses
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from email.headerregistry import Address
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from dotenv import dotenv_values
from jwt import InvalidKeyError
from jwt.algorithms import HMACAlgorithm
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from core import templates
from core.addresses import parse_domain, parse_sender
from core.smtp import MailServer

ROOT = Path(__file__).parent
MIN_SECRET_BYTES = 32
# How placeholders in templates and tutorials begin, in lower case and without signs.
PLACEHOLDERS = ("changeme", "changethis", "replaceme", "replacethis", "yoursecretkey")
MAIL_PORTS = {"smtp": 587, "smtps": 465}
YEAR = 365 * 24 * 60  # minutes
DECADE = 3650  # days
_HMAC = HMACAlgorithm(HMACAlgorithm.SHA256)


class ConfigError(Exception):
    """Lists everything that is wrong or missing, one line each."""


def _switch(raw: str) -> bool:
    on, off = ("1", "true", "yes", "on"), ("0", "false", "no", "off")
    if raw.lower() not in on + off:
        raise ValueError("must be 1 or 0")
    return raw.lower() in on


def _whole(low: int, high: int) -> Callable[[str], int]:
    def parse(raw: str) -> int:
        if not re.fullmatch(r"[0-9]{1,10}", raw) or not low <= int(raw) <= high:
            raise ValueError(f"must be a whole number from {low} to {high}")
        return int(raw)

    return parse


def _one_of(*choices: str) -> Callable[[str], str]:
    def parse(raw: str) -> str:
        for choice in choices:
            if raw.lower() == choice.lower():
                return choice
        raise ValueError(f"must be one of {', '.join(choices)}")

    return parse


def _database_url(raw: str) -> URL:
    try:
        url = make_url(raw)
        if not unquote(raw).isprintable():
            raise ValueError("a control character")
    except (ArgumentError, ValueError):
        raise ValueError("must be a URL such as postgresql://user:password@host/name") from None
    if url.drivername in ("postgres", "postgresql", "postgresql+psycopg"):
        return _postgres(url.set(drivername="postgresql+psycopg"))
    # Each worker would have its own database in memory; an option can ask for one too.
    memory = url.database in (None, "", ":memory:") or (url.database or "").startswith("file:")
    if url.drivername in ("sqlite", "sqlite+pysqlite") and not (memory or url.host or url.query):
        return url
    raise ValueError(
        "must begin with postgresql:// or postgres://, or name a file: sqlite:////path"
    )


def _postgres(url: URL) -> URL:
    """Return the URL if the driver accepts it and its options. Opens no connection."""
    dialect = url.get_dialect()
    try:
        arguments = dialect().create_connect_args(url)[1]
        dialect.import_dbapi().conninfo.make_conninfo(**arguments)
    except Exception:  # the driver's own message may repeat the password
        raise ValueError("has a part or an option that Postgres does not know") from None
    if url.port is not None and not 1 <= url.port <= 65535:
        raise ValueError("has a port that is not from 1 to 65535")
    return url


def _secret(raw: str) -> str:
    if len(raw.encode()) < MIN_SECRET_BYTES:
        raise ValueError(f"must have {MIN_SECRET_BYTES} bytes or more")
    # Everybody who has read the same template could sign tokens.
    if re.sub(r"[\W_]", "", raw).lower().startswith(PLACEHOLDERS):
        raise ValueError("is a placeholder; it must be a random text of your own")
    try:
        _HMAC.prepare_key(raw)
    except InvalidKeyError:  # PyJWT refuses to sign with what looks like a public key
        raise ValueError("looks like a public key; it must be a random text of your own") from None
    return raw


def _secrets(raw: str) -> tuple[str, ...]:
    return tuple(_secret(part.strip()) for part in raw.split(",") if part.strip())


def _split_url(raw: str, *schemes: str) -> SplitResult:
    """Split a URL. Raises ValueError for a bad host or port, or another scheme."""
    parts = urlsplit(raw)
    host = parts.hostname or ""
    if ":" in host:
        IPv6Address(host)
    elif not re.fullmatch(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*\.?", host):
        raise ValueError("no host")
    if parts.scheme not in schemes or parts.port == 0 or parts.netloc.endswith(":"):
        raise ValueError("another scheme, or no port")
    return parts


def _web_url(raw: str) -> str:
    try:
        parts = _split_url(raw, "http", "https")
        # Only what RFC 3986 allows, because e-mails and pages show the URL.
        plain = re.fullmatch(r"[\w.~:/?\[\]@!$&'()*+,;=%-]+", raw, re.A)
        if parts.username is not None or not plain:
            raise ValueError("not a plain URL")
    except ValueError:
        raise ValueError("must be an http or https URL, in ASCII, without user or #") from None
    return raw


def _base_url(raw: str) -> str:
    if "?" in _web_url(raw):
        raise ValueError("must be an http or https URL without query or fragment")
    return raw.rstrip("/")


def _origins(raw: str) -> tuple[str, ...]:
    origins = []
    for part in filter(None, (part.strip().rstrip("/").lower() for part in raw.split(","))):
        try:
            parts = urlsplit(_web_url(part))
            if f"{parts.scheme}://{parts.netloc}" != part:
                raise ValueError("more than an origin")
        except ValueError:
            raise ValueError(
                "must be origins such as https://app.example.org, comma separated"
            ) from None
        # Browsers omit the default port.
        default = {"http": ":80", "https": ":443"}[parts.scheme]
        origins.append(part.removesuffix(default))
    return tuple(dict.fromkeys(origins))


def _domains(raw: str) -> tuple[str, ...]:
    try:
        parts = (part.strip() for part in raw.split(","))
        return tuple(dict.fromkeys(parse_domain(part) for part in parts if part))
    except ValueError:
        raise ValueError(
            "must be domains such as school.example or *.school.example, comma separated"
        ) from None


def _redis_url(raw: str) -> str:
    try:
        _split_url(raw, "redis", "rediss")
    except ValueError:
        raise ValueError("must be a redis:// or rediss:// URL") from None
    return raw


def _mail_url(raw: str) -> MailServer | None:
    if raw.lower() == "console:":
        return None
    try:
        parts = _split_url(raw, *MAIL_PORTS)
        user = unquote(parts.username or "", errors="strict")
        password = unquote(parts.password or "", errors="strict")
        if bool(user) != bool(password) or parts.path not in ("", "/") or set("?# ") & set(raw):
            raise ValueError("half a login, or more than a server")
    except ValueError:
        raise ValueError("must be smtp://user:password@host:587, smtps://… or console:") from None
    # smtplib can send nothing else, and would only fail when the first e-mail is sent.
    if not re.fullmatch(r"[ -~]*", user + password):
        raise ValueError("must have a user and a password in printable ASCII")
    port = parts.port or MAIL_PORTS[parts.scheme]
    return MailServer(parts.hostname or "", port, parts.scheme == "smtps", user, password)


def _site_name(raw: str) -> str:
    if len(raw) > 64 or "://" in raw or not re.search(r"\w", raw):
        raise ValueError("must be a name of at most 64 characters, not a URL")
    return raw


def _language(raw: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9]+(-[A-Za-z0-9]+)*", raw):
        raise ValueError("must be a language tag such as de or pt-BR")
    return raw


def _templates_dir(raw: str) -> Path:
    if problems := templates.problems(ROOT / raw):
        raise ValueError(*problems)
    return ROOT / raw


def setting(parse: Callable[[str], object], default: object, text: str) -> Any:
    """Declare a setting: its parser, its default, and its text in docs/settings.md."""
    return field(default=default, metadata={"parse": parse, "help": text})


@dataclass(frozen=True, kw_only=True, repr=False)  # a repr would show secrets in logs
class Settings:
    """Every setting, named like its environment variable in lower case."""

    database_url: URL | None = setting(  # noqa: RUF009 - it returns a dataclass field
        _database_url, None, "Database. Unset: an embedded SQLite file in `instance/`."
    )
    secret_key: str = setting(
        _secret, "", "Signs the tokens; 32 bytes or more. Generated with the embedded database."
    )
    secret_key_fallbacks: tuple[str, ...] = setting(
        _secrets, (), "Older keys, comma separated, whose tokens are still accepted."
    )
    token_algorithm: str = setting(
        _one_of("HS256", "ES256"), "HS256", "`ES256`: other services can verify access tokens."
    )
    public_url: str = setting(
        _base_url,
        "http://127.0.0.1:5000",
        "URL at which users reach the service; links in e-mails begin with it.",
    )
    mail_url: MailServer | None = setting(  # noqa: RUF009
        _mail_url,
        None,
        "`smtp://user:password@host:587`, `smtps://…`, or `console:` for the log. Unset: the log.",
    )
    mail_from: Address | None = setting(  # noqa: RUF009
        parse_sender, None, "Sender of e-mails. Unset: `no-reply@` and the host of `PUBLIC_URL`."
    )
    site_name: str = setting(
        _site_name, "", "What mails and pages call the service. Unset: the host of `PUBLIC_URL`."
    )
    default_language: str = setting(
        _language, "en", "Language of mails and pages where the user's own is not there."
    )
    templates_dir: Path | None = setting(  # noqa: RUF009
        _templates_dir, None, "Folder with mails and pages of your own. Unset: the built-in ones."
    )
    password_reset_url: str = setting(
        _web_url, "", "Page that a reset link opens. Unset: the built-in page."
    )
    email_verification_url: str = setting(
        _web_url, "", "Page that a verification link opens. Unset: the built-in page."
    )
    require_verified_email: bool = setting(
        _switch, False, "1: no login before the e-mail address is verified."
    )
    registration: str = setting(
        _one_of("open", "closed"), "open", "`closed`: only admins make accounts."
    )
    registration_domains: tuple[str, ...] = setting(
        _domains,
        (),
        "Domains whose e-mail addresses may register, comma separated; `*.school.example` is every "
        "domain below it. Unset: any.",
    )
    invitation_days: int = setting(_whole(1, 30), 7, "Lifetime of an invitation.")
    access_token_minutes: int = setting(_whole(1, YEAR), 15, "Lifetime of an access token.")
    session_days: int = setting(_whole(1, DECADE), 30, "Lifetime of a session after its login.")
    session_idle_days: int = setting(
        _whole(0, DECADE),
        0,
        "Days without refresh that end a session, up to `SESSION_DAYS`. 0: off.",
    )
    refresh_grace_seconds: int = setting(
        _whole(1, 86400), 30, "How long a spent refresh token still gets the same new pair."
    )
    reset_token_minutes: int = setting(_whole(1, YEAR), 30, "Lifetime of a reset link.")
    bcrypt_rounds: int = setting(
        _whole(4, 16), 12, "Cost of a password hash; the log warns below 10."
    )
    password_min_length: int = setting(_whole(1, 128), 8, "Shortest password, in characters.")
    max_avatar_bytes: int = setting(_whole(1, 2**30), 5242880, "Largest avatar upload, in bytes.")
    cors_origins: tuple[str, ...] = setting(
        _origins, (), "Origins whose scripts may call the API, comma separated."
    )
    trusted_proxies: int = setting(
        _whole(0, 32), 0, "Number of trusted proxies that add to `X-Forwarded-For`; 1 on Heroku."
    )
    ratelimit_enabled: bool = setting(_switch, True, "0: no limits.")
    ratelimit_storage_uri: str = setting(
        _redis_url, "", "Redis server that counts for the limits, `redis://…`. Unset: the database."
    )
    log_level: str = setting(
        _one_of("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"), "INFO", "Lowest level logged."
    )
    log_format: str = setting(
        _one_of("text", "json"), "text", "`text` or `json`, one line per event."
    )
    web_concurrency: int = setting(_whole(1, 256), 2, "Number of gunicorn's worker processes.")
    port: int | None = setting(
        _whole(1, 65535), None, "gunicorn's port, on all interfaces. Unset: 127.0.0.1:5000."
    )

    @property
    def embedded(self) -> bool:
        """Whether the service uses its own SQLite file, because no database is set."""
        return self.database_url is None

    @property
    def hashes_at_once(self) -> int:
        """How many passwords one process hashes at once: its share of the cores."""
        linux = hasattr(os, "sched_getaffinity")
        cores = len(os.sched_getaffinity(0)) if linux else os.cpu_count() or 1
        return max(1, cores // self.web_concurrency)

    @property
    def secret_keys(self) -> tuple[str, ...]:
        """All keys that are accepted, newest first."""
        return self.secret_key, *self.secret_key_fallbacks

    @property
    def session_idle(self) -> timedelta:
        """How long a session lives without a refresh; with 0, as long as any session can."""
        return timedelta(days=self.session_idle_days or DECADE)

    @property
    def sender(self) -> Address:
        """The sender of the e-mails."""
        host = urlsplit(self.public_url).hostname or ""
        is_ip = ":" in host or re.fullmatch(r"[0-9.]+", host)
        return self.mail_from or Address("", "no-reply", "localhost" if is_ip else host)

    @property
    def site(self) -> str:
        """What mails and pages call the service."""
        return self.site_name or urlsplit(self.public_url).hostname or ""

    @property
    def reset_page(self) -> str:
        """The page that a reset link opens."""
        return self.password_reset_url or f"{self.public_url}/reset-password"

    @property
    def verification_page(self) -> str:
        """The page that an e-mail verification link opens."""
        return self.email_verification_url or f"{self.public_url}/verify-email"


def load(environ: Mapping[str, str] | None = None) -> Settings:
    """Return the settings from the environment, and from `.env` what that does not set.

    An empty value counts as unset. Raises ConfigError with one line for each setting that is wrong
    or missing, without the values, because some are secrets.
    """
    if environ is None:
        environ = {**_in_file(ROOT / ".env"), **os.environ}
    values: dict[str, Any] = {}
    problems = []
    for row in dataclasses.fields(Settings):
        raw = environ.get(row.name.upper(), "").strip()
        try:
            if not raw.isprintable():  # control characters, broken UTF-8
                raise ValueError("must be printable text on one line")
            if raw:
                values[row.name] = row.metadata["parse"](raw)
        except ValueError as error:
            problems += [f"{row.name.upper()} {problem}." for problem in error.args]
    if environ.get("DATABASE_URL", "").strip():
        for name in ("SECRET_KEY", "PUBLIC_URL", "MAIL_URL"):
            if not environ.get(name, "").strip():
                problems.append(f"{name} is missing; with DATABASE_URL it is required.")
    elif "port" in values:
        # The links should work although nobody has set PUBLIC_URL.
        values.setdefault("public_url", f"http://127.0.0.1:{values['port']}")
    if values.get("session_idle_days", 0) > values.get("session_days", Settings.session_days):
        problems.append("SESSION_IDLE_DAYS must not be greater than SESSION_DAYS.")
    languages = templates.Templates(values.get("templates_dir"), templates.ENGLISH).languages
    if values.get("default_language", templates.ENGLISH) not in languages:
        problems.append(f"DEFAULT_LANGUAGE must be among {', '.join(sorted(languages))}.")
    if problems:
        raise ConfigError("The settings are not right:\n" + "\n".join(f"- {p}" for p in problems))
    return Settings(**values)


def _in_file(path: Path) -> dict[str, str]:
    try:
        return {name: value or "" for name, value in dotenv_values(path).items()}
    except (OSError, UnicodeDecodeError):
        raise ConfigError(f"{path.name} cannot be read as UTF-8 text.") from None


if __name__ == "__main__":
    # `python -m config` checks the settings before gunicorn starts, which fails on a bad
    # WEB_CONCURRENCY before it reads gunicorn.conf.py.
    try:
        load()
    except ConfigError as problem:
        sys.exit(str(problem))
