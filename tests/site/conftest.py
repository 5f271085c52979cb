"""A small application with the pages, and a fake API behind them that remembers."""

import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_api import OPENAPI, FakeApi
from flask import Flask
from werkzeug.serving import make_server

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
    """Serve the pages on a port of this machine; return the address, with no slash at its end."""
    server = make_server("127.0.0.1", 0, site_app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()
