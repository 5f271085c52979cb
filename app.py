"""The application factory."""

import logging
from dataclasses import replace
from pathlib import Path

from flask import Flask
from werkzeug.middleware.proxy_fix import ProxyFix

import cli
import config
import database
import embedded
from blueprints import admin, auth, avatars, health, records, site, users
from core.images import Avatars
from core.passwords import Hasher
from core.tokens import TokenCodec
from services import sessions
from web import api, bearer, bodies, errors, headers, limits, logs, openapi

_log = logging.getLogger("accounts")


def create_app(
    settings: config.Settings | None = None, instance_path: str | Path | None = None
) -> Flask:
    """Return the WSGI application. Raises config.ConfigError when the settings are not right.

    With no `settings` they come from the environment. With no DATABASE_URL among them, the
    embedded database in `instance_path` is made and brought up to date.
    """
    # 1. Settings
    settings = settings or config.load()
    # With no secret of Flask's own, its sessions stay closed, and no cookie is ever sent.
    app = Flask("accounts", root_path=str(config.ROOT), instance_path=_folder(instance_path))
    folder = Path(app.instance_path)
    if not settings.secret_key:
        settings = replace(settings, secret_key=embedded.secret_key(folder))
    app.extensions["settings"] = settings
    url = settings.database_url or embedded.database_url(folder)
    app.config["SQLALCHEMY_DATABASE_URI"] = url
    app.config["SQLALCHEMY_ENGINE_OPTIONS"] = database.engine_options(url)

    # 2. Collaborators
    app.extensions["tokens"] = TokenCodec(settings.signing_keys)
    app.extensions["hasher"] = Hasher(
        settings.bcrypt_rounds, parallel=settings.hashes_at_once, waiting=config.HASHES_WAITING
    )
    app.extensions["avatars"] = Avatars(waiting=config.PICTURES_WAITING)
    database.init_app(app)

    # 3. The web layer
    logs.configure(settings)
    if settings.bcrypt_rounds < 10:
        _log.warning("BCRYPT_ROUNDS is %d; use 10 or more in production.", settings.bcrypt_rounds)
    bodies.init_app(app)
    # A path with a doubled slash is unknown, like any other; a redirect would be no JSON.
    app.url_map.merge_slashes = False
    errors.init_app(app)
    headers.init_app(app, settings)
    bearer.init_app(app, sessions.load_user)
    api.init_app(app)
    if settings.trusted_proxies:
        app.wsgi_app = ProxyFix(  # type: ignore[method-assign]
            app.wsgi_app, x_for=settings.trusted_proxies, x_proto=0
        )

    # 4. Blueprints. The API also answers without its prefix; only `/api` is documented.
    for prefix, suffix in (("/api", ""), ("", "_bare")):
        app.register_blueprint(auth.bp, url_prefix=f"{prefix}/auth", name=f"auth{suffix}")
        for blueprint in (users.bp, records.bp, admin.bp):
            name = f"{blueprint.name}{suffix}"
            app.register_blueprint(blueprint, url_prefix=f"{prefix}/users", name=name)
    app.register_blueprint(avatars.bp, url_prefix="/avatars")
    app.register_blueprint(health.bp)
    app.register_blueprint(site.bp)
    openapi.init_app(app)
    limits.init_app(app, settings)

    # 5. Commands
    cli.init_app(app)

    # 6. The embedded database
    if settings.embedded:
        embedded.bring_up_schema(app, folder)
    return app


def _folder(instance_path: str | Path | None) -> str:
    return str(Path(instance_path or config.ROOT / "instance").resolve())
