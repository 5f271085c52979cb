"""A small application with the pages, and a fake API behind them that remembers."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_api import OPENAPI, FakeApi
from flask import Flask
from real_service import serving

from blueprints import site
from config import Settings
from core.templates import Templates
from web import error_handlers

ROOT = Path(__file__).parents[2]


@pytest.fixture
def fake_api():
    return FakeApi()


@pytest.fixture
def site_app(fake_api):
    app = Flask("accounts", root_path=str(ROOT))
    app.extensions["accounts"] = SimpleNamespace(
        settings=Settings(public_url="https://school.test/accounts"),
        templates=Templates(None, "en"),
    )
    error_handlers.init_app(app)
    app.register_blueprint(site.bp)
    app.add_url_rule(
        "/api/auth/<name>", "fake_api", fake_api.answer, methods=["GET", "POST", "DELETE"]
    )
    app.add_url_rule("/openapi.json", "openapi", lambda: OPENAPI)
    return app


@pytest.fixture
def base_url(site_app):
    with serving(site_app) as url:
        yield url
