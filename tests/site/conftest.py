"""A small application with the pages, and a fake API behind them that remembers."""

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_api import OPENAPI, FakeApi
from flask import Flask
from playwright.sync_api import Browser, Page, sync_playwright
from werkzeug.serving import make_server

from blueprints import site
from config import Settings

ROOT = Path(__file__).parents[2]
CHROMIUM = shutil.which("chromium")
CHROMIUM_OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture
def fake_api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def site_app(fake_api: FakeApi) -> Flask:
    app = Flask("accounts", root_path=str(ROOT))
    app.extensions["settings"] = Settings(public_url="https://school.test/accounts")
    app.register_blueprint(site.bp)
    app.add_url_rule(
        "/api/auth/<name>", "fake_api", fake_api.answer, methods=["GET", "POST", "DELETE"]
    )
    app.add_url_rule("/openapi.json", "openapi", lambda: OPENAPI)
    return app


@pytest.fixture
def base_url(site_app: Flask) -> Iterator[str]:
    """Serve the pages on a port of this machine; return the address, with no slash at its end."""
    server = make_server("127.0.0.1", 0, site_app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed (Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_OPTIONS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, base_url: str) -> Iterator[Page]:
    """Open an empty page. At its end, nothing may have broken and no other host been asked."""
    context = browser.new_context(viewport={"width": 390, "height": 780})
    page = context.new_page()
    page.set_default_timeout(10_000)
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on(
        "console",
        lambda message: (
            troubles.append(message.text)
            # The browser notes each failed request as an error; a refusal of the API is none.
            if message.type in ("error", "warning")
            and not message.location["url"].startswith(f"{base_url}/api/")
            else None
        ),
    )
    page.on(
        "request",
        lambda asked: (
            None
            if asked.url.startswith((f"{base_url}/", "data:", "blob:"))
            else troubles.append(f"asked {asked.url}")
        ),
    )
    yield page
    context.close()
    assert troubles == []
