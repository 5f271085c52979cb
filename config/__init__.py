"""The settings of the service: one table, read from the environment and checked together.

All are environment variables, and an empty one counts as unset. What the environment does not have
is read from a file `.env` in the project's folder; there, `${NAME}` is replaced by the value of
`NAME`, also inside a password. Settings are read once, at the start. If any are wrong or missing,
the service lists them all, without their values, and does not start; `python -m config` checks
alone, and `python -m config gunicorn` checks and then starts. A misspelt name is no setting; the
log of the start warns of one that is close to a setting. For 1 and 0, `true`, `yes`, `on` and
`false`, `no`, `off` are taken too. `OIDC_SCHOOL_…` are those of `OIDC_PROVIDERS=school`,
`FIELD_GRADE_…` those of `CUSTOM_FIELDS=grade`, and `APPLICATION_WIKI_…` those of
`APPLICATIONS=wiki`.

With nothing set, everything is in `instance/`: the database `accounts.db`, whose schema is updated
at each start, and `secret_key`, which signs tokens and which only its owner can read. The service
listens on 127.0.0.1:5000; with `PORT` set, on that port of all network interfaces; with `HOST=::`,
also in IPv6. Mails are printed to the log.

`DATABASE_URL` makes it a production deployment: `SECRET_KEY`, `PUBLIC_URL` and `MAIL_URL` are
required then, and `flask db upgrade` runs before new code starts. Special characters in the user
and the password of a URL are percent-encoded, such as `%40` for `@`. To make a key: `python -c
'import secrets; print(secrets.token_urlsafe(48))'`. It is the UTF-8 bytes of the text, and has no
comma.

With `smtp://` and a password, no mail is sent unless the connection switches to TLS (STARTTLS) with
a certificate that is valid for the host; without a password, TLS is used if the server offers it.
`smtps://` is TLS from the first byte, on port 465.

If `TRUSTED_PROXIES` is too high, clients can write any client IP; if it is too low, all clients
count as one, the proxy. A changed `SESSION_DAYS` or `SESSION_IDLE_DAYS` acts from the next refresh
of a session on. `REQUIRE_SECOND_FACTOR=admin` lets admins without a second factor log in, set one
up and do what students may; with `instructor`, instructors too.

`APPLICATIONS` lets users sign in elsewhere with their account here; `PUBLIC_URL` is the issuer,
letter for letter, and a new one makes new people of everybody in every application. To make a key:
`openssl genrsa 2048 | openssl rsa -outform DER | base64 -w0`. The first one signs, and all are
published: put a new one last for a day, then first, and keep an old one as long as the sessions of
applications last.
"""

import difflib
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.headerregistry import Address
from functools import cached_property
from pathlib import Path
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from dotenv import dotenv_values
from sqlalchemy.engine import URL

from config import applications, custom_fields, types
from config.applications import ApplicationSettings
from config.custom_fields import CustomField
from config.providers import ProviderSettings
from config.tables import read, read_each, setting, variables
from core import cpus, streams, templates
from core.addresses import parse_sender
from core.look import BLUE
from core.smtp import MailServer

# Each way to start the service comes by here first.
streams.open_closed()

ROOT = Path(__file__).parent.parent
YEAR = 365 * 24 * 60  # minutes
DECADE = 3650  # days


class ConfigError(Exception):
    """Everything that is wrong or missing, one line each, without values: some are secrets."""


@dataclass(frozen=True, kw_only=True, repr=False)  # a repr would show secrets in logs
class Settings:
    """Every setting, by the name of its environment variable in lower case."""

    database_url: URL | None = setting(types.database_url, None)  # noqa: RUF009 - it returns a dataclass field
    """Database. Unset: an embedded SQLite file in `instance/`."""
    secret_key: str = setting(types.secret, "")
    """Signs tokens; 32 bytes or more. Generated with the embedded database."""
    secret_key_fallbacks: tuple[str, ...] = setting(types.several(types.secret), ())
    """Older keys, comma separated, whose tokens are still accepted."""
    token_algorithm: str = setting(types.one_of("HS256", "ES256"), "HS256")
    """`ES256`: other services can verify access tokens."""
    public_url: str = setting(types.base_url, "http://127.0.0.1:5000")
    """URL at which users reach the service; links in e-mails begin with it."""
    mail_url: MailServer | None = setting(types.mail_url, None)  # noqa: RUF009
    """`smtp://user:password@host:587`, `smtps://…`, or `console:` for the log. Unset: the log."""
    mail_from: Address | None = setting(parse_sender, None)  # noqa: RUF009
    """Sender of e-mails. Unset: `no-reply@` and the host of `PUBLIC_URL`."""
    site_name: str = setting(types.name, "")
    """What mails and pages call the service. Unset: the host of `PUBLIC_URL`."""
    site_color: str = setting(types.color, BLUE)
    """Colour of pages and mails; its contrast with white is 5.3 or more: for yellow or orange, take
    a dark shade, such as #8a5a00.
    """
    app_url: str = setting(types.web_url, "")
    """Where users go to use the platform; pages and mails lead there."""
    imprint: str = setting(types.line_or_url, "")
    """Line or URL at the end of pages and mails: who runs the service."""
    contact: str = setting(types.line_or_url, "")
    """Whom to ask: a line or URL (`mailto:` too), for pages and mails in each language. Unset: the
    people who run SITE_NAME.
    """
    default_language: str = setting(types.language, "en")
    """Language of mails and pages where the user's own is not there."""
    templates_dir: Path | None = setting(types.templates_dir, None)  # noqa: RUF009
    """Folder of your own mails and pages. Unset: the built-in ones."""
    password_reset_url: str = setting(types.web_url, "")
    """Page that a reset link opens. Unset: the built-in page."""
    email_verification_url: str = setting(types.web_url, "")
    """Page that a verification link opens. Unset: the built-in page."""
    account_pages: bool = setting(types.switch, True)
    """0: no pages for users at `/account`, nor for admins at `/admin`."""
    docs: bool = setting(types.switch, True)
    """0: no interactive documentation at `/docs`."""
    require_verified_email: bool = setting(types.switch, False)
    """1: no login before the e-mail address is verified."""
    oidc_providers: tuple[ProviderSettings, ...] = setting(types.names(5), ())
    """Names of OpenID providers, comma separated, such as `school`."""
    applications: tuple[ApplicationSettings, ...] = setting(types.names(20), ())
    """Names of your own applications that users sign in to with this service, comma separated, such
    as `wiki`; each is its `client_id`. Needs `ACCOUNT_PAGES=1`.
    """
    applications_keys: tuple[RSAPrivateKey, ...] = setting(types.rsa_keys, ())
    """Private RSA keys for ID tokens, comma separated; the first signs. Required with
    `APPLICATIONS`.
    """
    custom_fields: tuple[CustomField, ...] = setting(types.field_names, ())
    """Names of fields that accounts have besides ours, comma separated, such as `grade`."""
    sign_in_return_urls: tuple[str, ...] = setting(types.several(types.web_url), ())
    """Pages of other front ends at which a sign-in with a provider may end, comma separated."""
    registration: str = setting(types.one_of("open", "closed", "providers"), "open")
    """`closed`: nobody registers; admins and service keys make accounts. `providers`: only who
    signs in with a provider.
    """
    registration_domains: tuple[str, ...] = setting(types.several(types.registrable), ())
    """Domains whose e-mail addresses may register, comma separated; `*.school.example` is every
    domain below it. Needs `REQUIRE_VERIFIED_EMAIL=1`. Unset: any.
    """
    instructor_rights: str = setting(types.one_of("records", "students", "groups"), "records")
    """`students`: instructors list students, read their accounts, make access links for them.
    `groups`: that, and learning data, only of students in one of their own groups.
    """
    student_rights: str = setting(types.one_of("all", "profile"), "all")
    """`profile`: students change neither names, username nor e-mail address, and do not delete
    their accounts.
    """
    profiles: str = setting(types.one_of("visible", "private"), "visible")
    """`private`: only staff and the users themselves see the profiles of new accounts, until their
    settings change it.
    """
    default_timezone: str = setting(types.time_zone, "UTC")
    """Time zone of new accounts that are made without one."""
    require_second_factor: str = setting(types.one_of("admin", "instructor"), "")
    """Role that takes effect only with a second factor; `instructor`: and admins. Unset: none."""
    passkeys: str = setting(types.one_of("all", "staff", "none"), "all")
    """Who adds passkeys and signs in with them. `staff`: instructors and admins, where students
    share devices; `none`: nobody.
    """
    passkey_domain: str = setting(types.domain, "")
    """A change makes all passkeys useless until it is taken back. Unset: the host of `PUBLIC_URL`;
    or a domain above it, so that they outlive a change of the host.
    """
    invitation_days: int = setting(types.whole(1, 30), 7)
    """Lifetime of invitations and links for accounts without a password."""
    event_days: int = setting(types.whole(0, 400), 90)
    """Days that the history of an account is kept."""
    login_notices: bool = setting(types.switch, True)
    """0: no mail about a login from somewhere new."""
    access_token_minutes: int = setting(types.whole(1, 1440), 15)
    """Lifetime of an access token."""
    session_days: int = setting(types.whole(1, DECADE), 30)
    """Lifetime of a session after login."""
    session_idle_days: int = setting(types.whole(0, DECADE), 0)
    """Days without refresh that end a session, up to `SESSION_DAYS`. 0: off."""
    refresh_grace_seconds: int = setting(types.whole(1, 300), 30)
    """How long a spent refresh token still gets the same new pair."""
    reset_token_minutes: int = setting(types.whole(1, YEAR), 30)
    """Lifetime of a reset link."""
    bcrypt_rounds: int = setting(types.whole(4, 16), 12)
    """Cost of a password hash; the log warns below 10."""
    password_min_length: int = setting(types.whole(1, 128), 8)
    """Shortest password, in characters."""
    breached_passwords: str = setting(types.range_service, "")
    """`hibp`: new passwords are looked up at Have I Been Pwned by five hex digits of a hash; or the
    https URL of a service of the same form. Unset: not at all.
    """
    max_avatar_bytes: int = setting(types.whole(1, 2**30), 5242880)
    """Largest avatar, in bytes."""
    cors_origins: tuple[str, ...] = setting(types.several(types.origin), ())
    """Origins whose scripts may call the API, comma separated."""
    trusted_proxies: int = setting(types.whole(0, 32), 0)
    """Trusted proxies that add to `X-Forwarded-For`; 1 on Heroku."""
    ratelimit_enabled: bool = setting(types.switch, True)
    """0: no limits."""
    logins_per_minute: int = setting(types.whole(1, 1_000_000), 60)
    """Logins a minute from one client IP; a school may be one."""
    registrations_per_hour: int = setting(types.whole(1, 1_000_000), 300)
    """Calls of register an hour from one client IP."""
    log_level: str = setting(types.one_of("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"), "INFO")
    """Lowest log level."""
    log_format: str = setting(types.one_of("text", "json"), "text")
    """`text` or `json`, one line per event."""
    web_concurrency: int = setting(types.whole(1, 256), 2)
    """Number of gunicorn's worker processes."""
    port: int | None = setting(types.whole(1, 65535), None)
    """Port to listen on. Unset: 5000."""
    host: str = setting(types.host, "")
    """Where to listen. Unset: 127.0.0.1, or all interfaces where `PORT` is set."""

    @property
    def embedded(self) -> bool:
        """Whether the service uses its own SQLite file, because no database is set."""
        return self.database_url is None

    @property
    def listens(self) -> tuple[str, int]:
        # Hosts that set PORT route requests from other machines.
        return self.host or (types.EVERYWHERE[0] if self.port else "127.0.0.1"), self.port or 5000

    @property
    def hashes_at_once(self) -> int:
        """How many passwords one process hashes at once: its share of the cores."""
        return max(1, int(cpus.usable() / self.web_concurrency))

    @property
    def secret_keys(self) -> tuple[str, ...]:
        """All keys that are accepted, newest first."""
        return self.secret_key, *self.secret_key_fallbacks

    @property
    def is_https(self) -> bool:
        """Whether users reach the service by https, whatever a proxy speaks with it."""
        return urlsplit(self.public_url).scheme == "https"  # `urlsplit` lowers its case

    @property
    def public_host(self) -> str:
        return urlsplit(self.public_url).hostname or ""

    @property
    def sender(self) -> Address:
        host = "localhost" if types.is_ip(self.public_host) else self.public_host.rstrip(".")
        return self.mail_from or Address("", "no-reply", host)

    @property
    def mail_host(self) -> str:
        """What the service calls itself before mail servers: a name, not an IP."""
        host = self.sender.domain if types.is_ip(self.public_host) else self.public_host
        return host.rstrip(".")

    @property
    def site(self) -> str:
        return self.site_name or self.public_host

    @cached_property
    def custom_fields_of(self) -> dict[str, tuple[CustomField, ...]]:
        """The custom fields that each of `custom_fields.READERS` sees."""
        readers = custom_fields.READERS
        return {
            reader: tuple(each for each in self.custom_fields if each.seen_by in readers[place:])
            for place, reader in enumerate(readers)
        }

    @cached_property
    def application_named(self) -> dict[str, ApplicationSettings]:
        return {each.name: each for each in self.applications}

    @property
    def fields_at_sign_up(self) -> list[CustomField]:
        return [each for each in self.custom_fields if each.at_sign_up != "no"]

    @property
    def has_passkeys(self) -> bool:
        """Whether anybody can sign in with a passkey. Browsers have none at an IP, nor without
        https, but for localhost.
        """
        host = self.public_host
        is_safe = self.is_https or types.is_within(host, "localhost")
        return self.passkeys != "none" and is_safe and not types.is_ip(host)

    @property
    def passkey_host(self) -> str:
        return self.passkey_domain or self.public_host

    @property
    def passkey_origins(self) -> tuple[str, ...]:
        """The origins whose pages may use passkeys, as browsers write them."""
        own = types.origin("{0.scheme}://{0.netloc}".format(urlsplit(self.public_url)))
        hosts = {each: urlsplit(each).hostname or "" for each in (own, *self.cors_origins)}
        return tuple(each for each in hosts if types.is_within(hosts[each], self.passkey_host))

    @property
    def reset_page(self) -> str:
        return self.password_reset_url or f"{self.public_url}/reset-password"

    @property
    def verification_page(self) -> str:
        return self.email_verification_url or f"{self.public_url}/verify-email"


class _Refusal(logging.Handler):
    """Refuses a line of `.env` of which python-dotenv only warns."""

    def emit(self, record: logging.LogRecord) -> None:
        raise ConfigError(f"In .env, {record.getMessage()}.")


logging.getLogger("dotenv").addHandler(_Refusal(logging.WARNING))


def environment() -> Mapping[str, str | None]:
    """Return the variables of the environment, and of `.env`. Raises ConfigError."""
    try:
        return {**dotenv_values(ROOT / ".env"), **os.environ}
    except (OSError, UnicodeDecodeError):
        raise ConfigError(".env cannot be read as UTF-8 text.") from None


def misspelt(environ: Mapping[str, str | None], settings: Settings) -> Iterator[str]:
    """Yield a sentence for each variable that looks like a setting, and is none."""
    known = {*variables(Settings, "")}
    for name, prefix, table in _TABLES:
        for each in getattr(settings, name):
            known.update(variables(table, f"{prefix}_{each.name.upper()}_"))
    for each in settings.custom_fields:
        known.update(variables(CustomField, custom_fields.prefix_of(each.name)))
    for name in sorted(environ.keys() - known):
        if near := difflib.get_close_matches(name.upper(), known, 1, cutoff=0.85):
            yield f"{name} is no setting. Is {near[0]} meant?"
        elif name.startswith("OIDC_"):
            yield f"{name} is no setting of a provider in OIDC_PROVIDERS."
        elif name.startswith("APPLICATION_"):
            yield f"{name} is no setting of an application in APPLICATIONS."
        elif name.startswith("FIELD_"):
            yield f"{name} is no setting of a field in CUSTOM_FIELDS."


# The tables of settings that each of several names has, and how its variables begin.
_TABLES = (
    ("oidc_providers", "OIDC", ProviderSettings),
    ("applications", "APPLICATION", ApplicationSettings),
)


def _contradictions(found: Settings, given: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each setting that another one needs, or does not go with."""
    yield from applications.shared_secrets(found.applications, found.secret_keys)
    if found.applications and not found.applications_keys:
        yield "APPLICATIONS_KEYS is missing; with APPLICATIONS it is required."
    if found.applications and not found.account_pages:
        yield "APPLICATIONS needs ACCOUNT_PAGES=1."
    if found.registration == "providers" and not found.oidc_providers:
        yield "REGISTRATION=providers needs OIDC_PROVIDERS."
    if given.get("DATABASE_URL"):
        for name in ("SECRET_KEY", "PUBLIC_URL", "MAIL_URL"):
            if not given.get(name):
                yield f"{name} is missing; with DATABASE_URL it is required."
    if found.session_idle_days > found.session_days:
        yield "SESSION_IDLE_DAYS must not be greater than SESSION_DAYS."
    if found.registration_domains and not found.require_verified_email:
        yield "REGISTRATION_DOMAINS needs REQUIRE_VERIFIED_EMAIL=1 to keep anybody out."
    if not types.is_within(found.public_host, found.passkey_host):
        yield "PASSKEY_DOMAIN must be the host of PUBLIC_URL, or a domain above it."


def load(environ: Mapping[str, str | None] | None = None, *, serving: bool = False) -> Settings:
    """Return the settings, by default from the `environment`. Raises ConfigError.

    For what is `serving`, the machine must be the one that they are for.
    """
    environ = environment() if environ is None else environ
    given = {name: (value or "").strip() for name, value in environ.items()}
    problems: list[str] = []
    values = read(Settings, "", given, problems)
    for name, prefix, table in _TABLES:
        values[name] = read_each(table, prefix, values.get(name, ()), given, problems)
    names = values.get("custom_fields", ())
    values["custom_fields"] = custom_fields.read_all(names, given, problems)
    if not given.get("DATABASE_URL"):
        # The links should work although nobody has set PUBLIC_URL.
        values.setdefault("public_url", types.local_url(*Settings(**values).listens))
    found = Settings(**values)
    problems += _contradictions(found, given)
    languages = templates.Templates(found.templates_dir, templates.ENGLISH).languages
    # The languages of a folder that is refused are unknown.
    refused = any(problem.startswith("TEMPLATES_DIR ") for problem in problems)
    if found.default_language not in languages and not refused:
        problems.append(f"DEFAULT_LANGUAGE must be among {', '.join(sorted(languages))}.")
    if serving and not types.is_here(found.listens[0]):
        problems.append("HOST has no address on this machine.")
    if problems:
        problems += misspelt(given, found)
        raise ConfigError("The settings are not right:\n" + "\n".join(f"- {p}" for p in problems))
    return found
