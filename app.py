"""The application factory."""

import logging
from dataclasses import replace
from pathlib import Path

from flask import Flask
from jinja2 import BytecodeCache

import cli
import config
import embedded
from blueprints import (
    activity,
    admin,
    applications,
    auth,
    avatars,
    certificates,
    groups,
    health,
    jwks,
    learning,
    lists,
    metrics,
    oauth,
    passkeys,
    providers,
    records,
    second_factor,
    service_keys,
    site,
    users,
)
from core.breaches import Breaches
from core.id_tokens import IdTokens
from core.images import Avatars
from core.openid import STEP, Provider
from core.passwords import FOREIGN_WAITING, Hasher
from core.templates import Templates
from core.tokens import TokenCodec
from database import engines
from extensions import Components
from services import service_keys as keys
from services import sessions
from web import api, bearer, client, error_handlers, headers, logs, openapi

# How many threads of a process may wait for the hasher, and for a picture.
HASHES_WAITING = 64  # two classes
PICTURES_WAITING = 24
WAITING = HASHES_WAITING + FOREIGN_WAITING + PICTURES_WAITING
_log = logging.getLogger("accounts")


def create_app(
    settings: config.Settings | None = None,
    instance_path: str | Path | None = None,
    *,
    parts: Components | None = None,
    pool_wait: float = engines.POOL_WAIT,
) -> Flask:
    """Return the WSGI application, by default with settings from the environment.

    Its `parts` are made from the settings, by default. Requests wait `pool_wait` seconds for a free
    connection to the database. Raises config.ConfigError if the settings are wrong.
    """
    # 1. Settings
    environ = {} if settings else config.environment()
    settings = settings or config.load(environ)
    # Flask gets no secret key of its own, so it never opens a session or sends a cookie.
    folder = Path(instance_path or config.ROOT / "instance").resolve()
    app = Flask(
        "accounts", static_folder=None, root_path=str(config.ROOT), instance_path=str(folder)
    )
    if not settings.secret_key:
        settings = replace(settings, secret_key=embedded.secret_key(folder))

    # 2. Components
    app.extensions["accounts"] = parts = parts or make_components(settings)
    engines.init_app(app, settings.database_url or embedded.database_url(folder), pool_wait)

    # 3. The web layer
    logs.configure(settings)
    for problem in (
        *config.misspelt(environ, settings),
        *config.applications.warnings(settings.applications),
    ):
        _log.warning(problem)
    if settings.bcrypt_rounds < 10:
        _log.warning("BCRYPT_ROUNDS is %d; use 10 or more in production.", settings.bcrypt_rounds)
    if not settings.embedded:
        if config.types.is_readable(settings.public_url):
            _log.warning("PUBLIC_URL is not https: passwords and cookies travel in clear text.")
        if settings.applications and settings.registration == "open":
            _log.warning("REGISTRATION is open: anybody can register and enter the APPLICATIONS.")
        if not settings.ratelimit_enabled:
            _log.warning("RATELIMIT_ENABLED is 0: passwords can be guessed without a limit.")
    # A path with a double slash is unknown; a redirect would not be JSON.
    app.url_map.merge_slashes = False
    app.url_map.converters["id"] = api.AnyId
    error_handlers.init_app(app)
    headers.init_app(app, settings)
    bearer.init_app(app, parts)
    client.init_app(app, settings)

    # 4. Blueprints
    ways_in = (auth, second_factor, passkeys, providers, applications, oauth)
    accounts = (users, records, admin, lists)
    others = (activity, groups, learning, service_keys, avatars, certificates, site)
    for module in (*ways_in, *accounts, *others, health, jwks, metrics):
        app.register_blueprint(module.bp)
    api.init_app(app)
    openapi.init_app(app)

    # 5. Commands
    cli.init_app(app)

    # 6. The embedded database
    if settings.embedded:
        embedded.bring_up_schema(app, folder)
    return app


def make_components(
    settings: config.Settings, *, provider_step: float = STEP, compiled: BytecodeCache | None = None
) -> Components:
    """Return what an application with these settings holds besides the database.

    Each step to a provider may take `provider_step` seconds; `compiled` keeps compiled templates.
    """
    look = settings.templates_dir, settings.default_language, settings.site_color
    return Components(
        settings=settings,
        tokens=TokenCodec(settings.secret_keys, settings.token_algorithm),
        id_tokens=IdTokens(settings.public_url, settings.applications_keys),
        hasher=Hasher(settings.bcrypt_rounds, settings.hashes_at_once, HASHES_WAITING),
        breaches=Breaches(settings.breached_passwords),
        avatars=Avatars(waiting=PICTURES_WAITING),
        templates=Templates(*look, compiled=compiled),
        providers={
            each.name: Provider(
                *(each.issuer, each.client_id, each.client_secret, each.prompt),
                f"{settings.public_url}/api/auth/providers/{each.name}/callback",
                step=provider_step,
            )
            for each in settings.oidc_providers
        },
        load_user=sessions.load_user,
        load_key=keys.load,
        error_page=site.error_page,
        actor=bearer.actor,
    )
